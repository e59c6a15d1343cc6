//! Integration tests of the documents, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod descriptions;
mod pages;
mod reading;
mod round_trip;
mod words;
