//! Sites and brokers as values: inputs and the time in; events, replies, calls and orders out; no threads and no time but what the
//! tests say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod broker;
mod site;
