//! Integration tests of the planning core, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod frontier_equals_search;
mod notice;
mod placement;
mod planning;
mod profile_equals_plain;
