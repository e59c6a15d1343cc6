//! What happened in a simulated grid: row by row, for diagrams, and counted by name. Plain values.

use super::host::CrashPoint;
use bookahead_protocol::{Moment, ReservationId};
use std::collections::BTreeMap;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A call.
    Call,
    /// An answer.
    Answer,
    /// The second arrival of one message.
    Copy,
}

/// Something that happened, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// When.
    pub at: Moment,
    /// What.
    pub what: What,
}

/// What can happen. Parties are told by their places.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "`word` is what a message, an event or an order says")]
pub enum What {
    /// A message arrived.
    Message { from: usize, to: usize, sent: Moment, word: &'static str, kind: Kind },
    /// A message was lost, kept back, or arrived at a party that was down.
    Lost { from: usize, to: usize, sent: Moment, word: &'static str },
    /// Something was written down, and about which reservation.
    Written { party: usize, word: &'static str, id: Option<ReservationId> },
    /// A site gave an order to its batch system.
    Ordered { site: usize, word: &'static str },
    /// The batch system of a site reported.
    Reported { site: usize, word: &'static str },
    /// A party crashed, and where in the middle of an input.
    Crash { party: usize, point: CrashPoint },
    /// A party started again.
    Restart { party: usize },
    /// Some parties were cut off from the others.
    CutOff { parties: Vec<usize> },
    /// Everybody hears everybody again.
    Reunited,
}

/// The rows, if they are kept.
#[derive(Debug, Default)]
pub struct Log {
    /// What happened, in order; None where nobody wants to know.
    pub rows: Option<Vec<Row>>,
}

impl Log {
    /// Keeps everything from now on.
    pub fn keep(&mut self) {
        self.rows.get_or_insert_default();
    }

    pub(super) fn row(&mut self, at: Moment, what: impl FnOnce() -> What) {
        if let Some(rows) = &mut self.rows {
            rows.push(Row { at, what: what() });
        }
    }
}

/// Counts by name. What never happened is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Once more.
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// So often more.
    pub fn add(&mut self, what: &'static str, often: u64) {
        if often > 0 {
            *self.0.entry(what).or_default() += often;
        }
    }

    /// All of another.
    pub fn add_all(&mut self, other: &Tally) {
        other.rows().for_each(|(what, often)| self.add(what, often));
    }

    /// How often.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All of them, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, often)| (*what, *often))
    }
}
