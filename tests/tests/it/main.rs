//! House rules and documents, one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod documents;
mod generated;
mod life_cycle;
mod markdown;
mod repository;
mod tidy;
