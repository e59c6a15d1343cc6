//! All benches in one process, so that what failed in any of them is named at the end. This is what
//! `cargo bench --bench guard` runs, or some of them with `-- ledger plan`. Each bench is also a target of its own.

use bookahead_benches::Report;

mod candidates;
mod journal;
mod ledger;
mod negotiation;
mod overload;
mod placement;
mod plan;
mod profile;
mod services;
mod simulate;

fn main() -> Report {
    Report::of_all(&[
        ("profile", profile::main),
        ("plan", plan::main),
        ("placement", placement::main),
        ("candidates", candidates::main),
        ("ledger", ledger::main),
        ("negotiation", negotiation::main),
        ("simulate", simulate::main),
        ("journal", journal::main),
        ("services", services::main),
        ("overload", overload::main),
    ])
}
