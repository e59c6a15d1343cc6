//! All benches in one process, so that what failed in any of them is named at the end. This is what
//! `cargo bench -p bookahead-benches` runs. Each bench can also run alone.

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
        profile::main,
        plan::main,
        placement::main,
        candidates::main,
        ledger::main,
        negotiation::main,
        simulate::main,
        journal::main,
        services::main,
        overload::main,
    ])
}
