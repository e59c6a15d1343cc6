//! The experiments from outside, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod migol;
mod what_if;
