//! Places at which a test wants a daemon to stop dead, so that it can be killed there. Only in debug builds, and only where
//! the environment asks for it: `BOOKAHEAD_STOP_AT=written:3` stops the thread that passes the point `written` for the third
//! time, for ever, and says so on standard error.

/// A place at which a daemon can be stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// Something was decided, and nothing of it is written.
    Decided,
    /// It is written and durable, and nothing of it is sent.
    Written,
    /// Part of it is sent.
    Sending,
    /// All of it is sent.
    Sent,
}

impl Point {
    /// All of them, in the order in which they are passed.
    pub const ALL: [Point; 4] = [Point::Decided, Point::Written, Point::Sending, Point::Sent];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Point::Decided => "decided",
            Point::Written => "written",
            Point::Sending => "sending",
            Point::Sent => "sent",
        }
    }
}

#[cfg(debug_assertions)]
pub(super) fn pass(point: Point) {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};
    static WANTED: OnceLock<Option<(String, u32)>> = OnceLock::new();
    static PASSED: AtomicU32 = AtomicU32::new(0);
    let wanted = WANTED.get_or_init(|| {
        let text = std::env::var("BOOKAHEAD_STOP_AT").ok()?;
        let (word, count) = text.split_once(':')?;
        Some((word.to_owned(), count.parse().ok()?))
    });
    let Some((word, count)) = wanted else { return };
    if word == point.word() && PASSED.fetch_add(1, Ordering::SeqCst) + 1 == *count {
        eprintln!("stopped at {word}:{count}");
        loop {
            std::thread::park();
        }
    }
}

#[cfg(not(debug_assertions))]
pub(super) fn pass(_point: Point) {}
