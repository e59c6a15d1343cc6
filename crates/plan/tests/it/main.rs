//! Integration tests of the planning core, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod frontier_equals_search;
mod planning;
mod profile_equals_plain;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// The same cases on every run; a failure prints its case.
fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(2000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}
