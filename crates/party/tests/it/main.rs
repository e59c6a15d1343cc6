//! Sites and brokers as values: inputs in, outputs out, no threads and no time but what the tests say.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod site;
