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

/// Something that happened. Parties are told by their places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Row {
    /// A message arrived.
    Message {
        /// Whose.
        from: usize,
        /// With whom.
        to: usize,
        /// When it was sent.
        sent: Moment,
        /// When it arrived.
        at: Moment,
        /// What it says.
        word: &'static str,
        /// What it is.
        kind: Kind,
    },
    /// A message arrived at somebody who was down.
    Unheard {
        /// Whose.
        from: usize,
        /// At whom.
        to: usize,
        /// When it was sent.
        sent: Moment,
        /// When it arrived.
        at: Moment,
        /// What it says.
        word: &'static str,
    },
    /// A message was lost or kept back.
    Lost {
        /// Whose.
        from: usize,
        /// For whom.
        to: usize,
        /// When it was sent.
        at: Moment,
        /// What it says.
        word: &'static str,
    },
    /// Something was written down.
    Written {
        /// By whom.
        party: usize,
        /// When.
        at: Moment,
        /// What.
        word: &'static str,
        /// About which reservation.
        id: Option<ReservationId>,
    },
    /// A site gave an order to its batch system.
    Ordered {
        /// Which site.
        site: usize,
        /// When.
        at: Moment,
        /// What.
        word: &'static str,
    },
    /// The batch system of a site reported.
    Reported {
        /// Which site.
        site: usize,
        /// When.
        at: Moment,
        /// What.
        word: &'static str,
    },
    /// Somebody crashed.
    Crash {
        /// Who.
        party: usize,
        /// When.
        at: Moment,
        /// Where in the middle of an input.
        point: CrashPoint,
    },
    /// Somebody started again.
    Restart {
        /// Who.
        party: usize,
        /// When.
        at: Moment,
    },
    /// Some were cut off from the others.
    CutOff {
        /// Who.
        parties: Vec<usize>,
        /// When.
        at: Moment,
    },
    /// Everybody hears everybody again.
    Reunited {
        /// When.
        at: Moment,
    },
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

    pub(super) fn row(&mut self, row: impl FnOnce() -> Row) {
        if let Some(rows) = &mut self.rows {
            rows.push(row());
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
