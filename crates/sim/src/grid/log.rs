//! The record of a simulated grid: rows for diagrams, and counts by name.

use bookahead_protocol::{Moment, ReservationId};
use std::collections::BTreeMap;

/// The point of an input at which a party crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// Between two inputs.
    Idle,
    /// Before its events are written: as if the input had never arrived.
    BeforeWriting,
    /// After its events are written and before anything is sent.
    AfterWriting,
    /// After half of the output was sent.
    WhileSending,
}

impl CrashPoint {
    /// All points, for drawing one.
    pub const ALL: [CrashPoint; 4] =
        [CrashPoint::Idle, CrashPoint::BeforeWriting, CrashPoint::AfterWriting, CrashPoint::WhileSending];
}

/// The kind of a message in a diagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A request to a peer.
    Call,
    /// The reply to a call.
    Answer,
    /// A duplicate that the network made.
    Copy,
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Time of the event, in the time of the grid.
    pub at: Moment,
    /// The event.
    pub what: What,
}

/// An event of a run. Parties are given by their places.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "`word` is what a message, an event or an order says")]
pub enum What {
    /// A message arrived.
    Message { from: usize, to: usize, sent: Moment, word: &'static str, kind: Kind },
    /// A message was lost or blocked, or arrived at a party that was down.
    Lost { from: usize, to: usize, sent: Moment, word: &'static str },
    /// An event was journalled.
    Written { party: usize, word: &'static str, id: Option<ReservationId> },
    /// A site gave an order to its batch system.
    Ordered { site: usize, word: &'static str },
    /// The batch system of a site reported.
    Reported { site: usize, word: &'static str },
    /// A party crashed.
    Crash { party: usize, point: CrashPoint },
    /// A party restarted.
    Restart { party: usize },
    /// A partition began.
    CutOff { parties: Vec<usize> },
    /// All partitions ended.
    Reunited,
}

/// The rows of a run.
#[derive(Debug, Default)]
pub struct Log {
    /// Rows in order; None until [`Log::keep`] is called, to spare memory in long series of runs.
    pub rows: Option<Vec<Row>>,
}

impl Log {
    /// Records everything from now on.
    pub fn keep(&mut self) {
        self.rows.get_or_insert_default();
    }

    pub(super) fn row(&mut self, at: Moment, what: impl FnOnce() -> What) {
        // `what` is called only here: most runs keep no rows and should not pay for building them.
        if let Some(rows) = &mut self.rows {
            rows.push(Row { at, what: what() });
        }
    }
}

/// Counts by name; names with a count of zero are absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Adds one.
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// Adds `often`; zero leaves no entry.
    pub fn add(&mut self, what: &'static str, often: u64) {
        if often > 0 {
            *self.0.entry(what).or_default() += often;
        }
    }

    /// Adds all counts of another tally.
    pub fn add_all(&mut self, other: &Tally) {
        other.rows().for_each(|(what, often)| self.add(what, often));
    }

    /// The count of a name; zero if it is absent.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All names with their counts, sorted by name.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, often)| (*what, *often))
    }
}
