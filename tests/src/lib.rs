//! Code shared by the tests of several crates. Tests of the whole repository are in `tests/it`.
//!
//! - [`cases`]: how many cases a test tries; [`polling`]: waiting for an effect; [`fuzz`]: mutated inputs
//! - [`postgres`], [`sshd`]: servers that a test starts for itself; [`python`]: programs that `./test` installs;
//!   [`signals`]: signals to processes

#![allow(clippy::unwrap_used, reason = "only tests use it, and a test may panic")]

pub mod cases;
pub mod fuzz;
pub mod polling;
pub mod postgres;
pub mod python;
pub mod signals;
pub mod sshd;
