//! What is too much for a party, whoever asks. What one user may have is the party's affair.

use bookahead_plan::Seconds;
use bookahead_protocol::request::MOST_PARTS;
use std::time::Duration;

/// Bounds on requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// A body has at most so many bytes.
    pub most_body: usize,
    /// One user may ask so often in a second, on average; 0 for as often as he likes.
    pub requests_per_second: u32,
    /// He may ask so often at once, if he has been quiet before.
    pub burst: u32,
    /// A request has at most so many parts.
    pub most_parts: usize,
    /// From the earliest start of a part to its latest end it is at most so long; so much of a schedule is shown.
    pub longest_window: Seconds,
    /// A page of a list has at most so many entries.
    pub most_page: usize,
    /// How long a call may wait for its answer.
    pub patience: Duration,
    /// So many requests are worked on at the same time.
    pub concurrent: usize,
    /// So many may watch at the same time.
    pub watchers: usize,
}

impl Default for Limits {
    /// A megabyte, as often as one likes, 16 parts, a leap year, pages of a thousand, a bit more than the minute that a batch
    /// system may take, a thousand requests at once, and 256 who watch.
    fn default() -> Limits {
        Limits {
            most_body: 1 << 20,
            requests_per_second: 0,
            burst: 0,
            most_parts: 16.min(MOST_PARTS),
            longest_window: Seconds(366 * 86_400),
            most_page: 1_000,
            patience: Duration::from_secs(75),
            concurrent: 1_000,
            watchers: 256,
        }
    }
}
