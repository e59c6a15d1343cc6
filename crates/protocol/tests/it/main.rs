//! Integration tests of the protocol core, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod candidates;
mod jobs;
mod ledger;
mod model;
mod negotiation;
mod snapshots;
