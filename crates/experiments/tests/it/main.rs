//! The experiments from outside, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod co_reservation;
mod gridsim;
mod gridsim_promises;
mod migol;
mod pinned;
mod what_if;
