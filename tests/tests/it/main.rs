//! Repository rules, documents and fuzzing, in one binary.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod documents;
mod fuzzing;
mod generated;
mod life_cycle;
mod markdown;
mod papers;
mod repository;
mod tidy;
