//! What a server last told of its clock, as the headers of its answers do. Only told here: times are computed by whoever
//! needs them.

use bookahead_api::{Timestamp, header};
use reqwest::header::HeaderMap;
use std::time::Instant;

/// A clock, as it was told with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerClock {
    /// What it showed.
    pub now: Timestamp,
    /// How many seconds pass on it in a real one; at least 1.
    pub speed: u32,
    /// When the answer came.
    pub told: Instant,
}

impl ServerClock {
    /// None where the headers tell none, as those of proxies and older servers.
    pub(crate) fn of(headers: &HeaderMap) -> Option<ServerClock> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let now = text(header::NOW)?.parse().ok()?;
        let speed = text(header::CLOCK_SPEED).and_then(|speed| speed.parse().ok());
        Some(ServerClock { now, speed: speed.unwrap_or(1).max(1), told: Instant::now() })
    }
}
