//! Where a party listens, and what is too much for it, whoever asks.

use super::length::Length;
use super::wrong::Wrong;
use crate::http::Limits;
use crate::http::serve::Bounds;
use serde::de::{Deserialize, Deserializer, Error};
use std::net::SocketAddr;

/// The table `[server]`: bounds on requests and connections.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Server {
    /// A body has at most so many bytes.
    pub most_body: usize,
    /// One user may ask so often in a second, on average; 0 for as often as he likes.
    pub requests_per_second: u32,
    /// He may ask so often at once, if he has been quiet before.
    pub burst: u32,
    /// A request has at most so many parts.
    pub most_parts: usize,
    /// From the earliest start of a part to its latest end it is at most so long.
    pub longest_window: Length,
    /// A page of a list has at most so many entries.
    pub most_page: usize,
    /// How long a call may wait for its answer.
    pub patience: Length,
    /// So many requests are worked on at the same time.
    pub concurrent: usize,
    /// So many may watch at the same time.
    pub watchers: usize,
    /// So many connections at the same time.
    pub connections: usize,
}

impl Default for Server {
    fn default() -> Server {
        let usual = Limits::default();
        Server {
            most_body: usual.most_body,
            requests_per_second: usual.requests_per_second,
            burst: usual.burst,
            most_parts: usual.most_parts,
            longest_window: usual.longest_window.into(),
            most_page: usual.most_page,
            patience: Length(bookahead_protocol::Millis(
                i64::try_from(usual.patience.as_millis()).unwrap_or(i64::MAX),
            )),
            concurrent: usual.concurrent,
            watchers: usual.watchers,
            connections: Bounds::default().connections,
        }
    }
}

impl Server {
    /// As the routes want them.
    pub fn limits(&self) -> Limits {
        Limits {
            most_body: self.most_body,
            requests_per_second: self.requests_per_second,
            burst: self.burst.max(self.requests_per_second),
            most_parts: self.most_parts,
            longest_window: self.longest_window.seconds(),
            most_page: self.most_page,
            patience: self.patience.duration(),
            concurrent: self.concurrent,
            watchers: self.watchers,
        }
    }

    /// As connections want them.
    pub fn bounds(&self) -> Bounds {
        Bounds { connections: self.connections, ..Bounds::default() }
    }

    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), Wrong> {
        let numbers = [
            ("most_body", self.most_body),
            ("most_parts", self.most_parts),
            ("most_page", self.most_page),
            ("concurrent", self.concurrent),
            ("connections", self.connections),
        ];
        for (field, number) in numbers {
            if number == 0 {
                return Err(Wrong::new(
                    field,
                    "with 0 nobody could ask anything; give more, or leave it out",
                ));
            }
        }
        for (field, length) in [("patience", self.patience), ("longest_window", self.longest_window)] {
            if length == Length::default() {
                return Err(Wrong::new(
                    field,
                    "with no time nobody could ask anything; give more, or leave it out",
                ));
            }
        }
        Ok(())
    }
}

/// An address with a port; names of machines are not looked up, since they may come to mean another address.
pub(super) fn address<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    let text = String::deserialize(from)?;
    text.parse().map_err(|_| {
        let why = "is no address to listen at; write an IP address and a port, such as \"127.0.0.1:7420\"";
        D::Error::custom(format!("\"{}\" {why}", text.escape_debug()))
    })
}

/// Whether others can be reached there.
pub(super) fn check_url(url: &str) -> Result<(), Wrong> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let sound = rest.is_some_and(|rest| {
        !rest.is_empty()
            && !rest.starts_with('/')
            && !rest
                .chars()
                .any(|letter| letter.is_whitespace() || letter.is_control() || "?#@".contains(letter))
    });
    if sound {
        return Ok(());
    }
    let why = format!(
        "\"{}\" is no address of a service; write it as \"http://127.0.0.1:7420\"",
        url.escape_debug()
    );
    Err(Wrong::new("url", why))
}
