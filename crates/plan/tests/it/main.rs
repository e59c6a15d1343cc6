//! Integration tests of the planning core, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod profile_equals_plain;
