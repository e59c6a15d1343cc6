//! Limits on load, whoever asks: the table `[server]` of a configuration. What one user may have is the party's affair.

use crate::config::{Length, Wrong};
use bookahead_protocol::request::MOST_PARTS;
use serde::{Deserialize, Serialize};

/// Limits on requests and connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest body, in bytes.
    pub most_body: usize,
    /// Requests of one user per second, on average; 0 is no limit.
    pub requests_per_second: u32,
    /// Requests of one user at once, after a quiet time; at least those of a second.
    pub burst: u32,
    /// Most parts of a request.
    pub most_parts: usize,
    /// Longest time from the earliest start of a part to its latest end, and longest schedule that is shown.
    pub longest_window: Length,
    /// Most entries in a page of a list.
    pub most_page: usize,
    /// How long a call may wait for its answer.
    pub patience: Length,
    /// Requests that are worked on at the same time.
    pub concurrent: usize,
    /// Clients that watch at the same time.
    pub watchers: usize,
    /// Connections at the same time.
    pub connections: usize,
}

impl Default for Limits {
    /// A megabyte, no rate limit, 16 parts, a leap year, pages of a thousand, a bit more than the minute that a batch
    /// system may take, a thousand requests at once, 256 who watch, and 1,024 connections.
    fn default() -> Limits {
        Limits {
            most_body: 1 << 20,
            requests_per_second: 0,
            burst: 0,
            most_parts: 16.min(MOST_PARTS),
            longest_window: Length::of_seconds(366 * 86_400),
            most_page: 1_000,
            patience: Length::of_seconds(75),
            concurrent: 1_000,
            watchers: 256,
            connections: 1_024,
        }
    }
}

impl Limits {
    /// Refuses limits with which nothing could be asked.
    pub fn check(&self) -> Result<(), Wrong> {
        let fields = [
            ("most_body", self.most_body == 0),
            ("most_parts", self.most_parts == 0),
            ("most_page", self.most_page == 0),
            ("concurrent", self.concurrent == 0),
            ("connections", self.connections == 0),
            ("patience", self.patience == Length::default()),
            ("longest_window", self.longest_window == Length::default()),
        ];
        match fields.into_iter().find(|(_, zero)| *zero) {
            Some((field, _)) => {
                Err(Wrong::new(field, "with 0 nobody could ask anything; give more, or leave it out"))
            }
            None => Ok(()),
        }
    }
}
