//! How many cases a test tries: fewer with `./test --quick`, more with `./test --long`. The cases of property tests are the same
//! in every run, and a failure prints its case.

use proptest::test_runner::{Config, RngSeed};
use std::env;

/// Whether this is `./test --quick`.
pub fn quick() -> bool {
    env::var_os("BOOKAHEAD_TEST_QUICK").is_some()
}

/// Whether this is `./test --long`.
pub fn long() -> bool {
    env::var_os("BOOKAHEAD_TEST_LONG").is_some()
}

/// A quarter of them in a quick run.
pub fn fewer(count: u64) -> u64 {
    if quick() { count / 4 } else { count }
}

/// The configuration of a property test with this many cases, or a quarter of them in a quick run.
pub fn cases(count: u32) -> Config {
    let cases = if quick() { count / 4 } else { count };
    Config { cases, rng_seed: RngSeed::Fixed(2000), failure_persistence: None, ..Config::default() }
}
