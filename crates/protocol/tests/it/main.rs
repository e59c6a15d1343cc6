//! Integration tests of the protocol core, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod candidates;
mod jobs;
mod ledger;
mod model;
mod negotiation;
mod snapshots;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The same cases on every run; a quarter of them with `./test --quick`. A failure prints its case.
#[allow(dead_code, reason = "the modules come one after another")]
fn cases(cases: u32) -> ProptestConfig {
    let quick = std::env::var_os("BOOKAHEAD_TEST_QUICK").is_some();
    ProptestConfig {
        cases: if quick { cases / 4 } else { cases },
        rng_seed: RngSeed::Fixed(2000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
