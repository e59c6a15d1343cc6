//! Integration tests of the documents, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod descriptions;
mod pages;
mod reading;
mod round_trip;
mod words;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Deterministic cases; `./test --quick` runs a quarter of them. A failure prints its case.
fn cases(cases: u32) -> ProptestConfig {
    let quick = std::env::var_os("BOOKAHEAD_TEST_QUICK").is_some();
    ProptestConfig {
        cases: if quick { cases / 4 } else { cases },
        rng_seed: RngSeed::Fixed(2000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
