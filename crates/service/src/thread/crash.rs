//! Points at which a test can stop a daemon, to kill it there. Debug builds only, controlled by the environment:
//! `BOOKAHEAD_STOP_AT=written:3` stops the thread that passes the point `written` for the third time, for ever, and
//! prints a line to standard error.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// A point at which a daemon can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Decided, nothing written.
    Decided,
    /// Written and durable, nothing sent.
    Written,
    /// Partly sent.
    Sending,
    /// All sent.
    Sent,
}

impl Point {
    /// All points, in the order in which they are passed.
    pub const ALL: [Point; 4] = [Point::Decided, Point::Written, Point::Sending, Point::Sent];

    /// Name in `BOOKAHEAD_STOP_AT`.
    pub fn word(self) -> &'static str {
        match self {
            Point::Decided => "decided",
            Point::Written => "written",
            Point::Sending => "sending",
            Point::Sent => "sent",
        }
    }
}

pub(super) fn pass(point: Point) {
    if cfg!(debug_assertions) {
        stop_if_wanted(point);
    }
}

fn stop_if_wanted(point: Point) {
    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("BOOKAHEAD_STOP_AT").ok()?;
        let (word, count) = text.split_once(':')?;
        Some((word.to_owned(), count.parse().ok()?))
    });
    let Some((word, count)) = wanted else { return };
    // The counter comes second, so that it counts the wanted point only.
    if word == point.word() && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count {
        eprintln!("stopped at {word}:{count}");
        // Stopped and not ended: the test kills the process, and nothing may be written or closed before. The
        // loop is necessary because `park` may return without a reason.
        loop {
            std::thread::park();
        }
    }
}
