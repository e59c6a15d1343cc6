//! Sites and brokers as values: inputs and the time in; events, replies, calls and orders out. No threads,
//! and only the time that tests give.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod broker;
mod site;
