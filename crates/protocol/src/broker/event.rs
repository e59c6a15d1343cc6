//! What a broker writes down before it does anything about it. Its state after a restart is the fold of these.

use crate::Millis;
use crate::clock::Moment;
use crate::ids::{JobId, Key, Name, ReservationId};
use crate::message::{Answer, Call, Caller, Slot};
use crate::problem::Problem;
use crate::request::Request;
use serde::{Deserialize, Serialize};

/// What somebody wants, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asked {
    /// Who.
    pub caller: Caller,
    /// What.
    pub request: Request,
    /// How long the hold should last.
    pub hold_for: Millis,
    /// Whether to commit at once.
    pub book: bool,
}

/// One part of a candidate, at the peer that is asked to hold it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pick {
    /// The peer.
    pub peer: Name,
    /// Its reservation, named by us before it hears of it.
    pub child: ReservationId,
    /// What it offered, with the begin that was chosen. The resource has its name at the peer.
    pub slot: Slot,
}

/// A call and the answer that it got.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answered {
    /// When.
    pub at: Moment,
    /// The key of the call.
    pub key: Key,
    /// The call.
    pub call: Call,
    /// The answer.
    pub answer: Answer,
}

/// How a booking came to its end.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It was refused.
    Refused(Problem),
    /// Its owner did not commit in time.
    Expired,
    /// Its owner gave it up.
    Cancelled,
    /// It was to be committed and one part could not be: all are given back.
    PartLost,
}

/// Something that happened to a booking.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The broker started, for the so-and-so-many-th time.
    Woke {
        /// Counted from 0.
        life: u32,
    },
    /// Peers are about to be asked to hold a candidate.
    Trying {
        /// Of which booking.
        id: ReservationId,
        /// When.
        at: Moment,
        /// What is wanted.
        asked: Asked,
        /// Who is asked for what, in the order of the parts.
        picks: Vec<Pick>,
    },
    /// The candidate cannot be held: its parts are about to be given back.
    GaveUp {
        /// Of which booking.
        id: ReservationId,
    },
    /// All parts are held.
    Held {
        /// Of which booking.
        id: ReservationId,
        /// Until when it can be committed; later each time a hold is extended.
        until: Moment,
    },
    /// It was decided to commit; from here on it is finished or undone, never forgotten.
    Decided {
        /// Of which booking.
        id: ReservationId,
        /// The call that permits it.
        call: Call,
    },
    /// All parts are committed.
    Committed {
        /// Of which booking.
        id: ReservationId,
    },
    /// A job was attached to a part.
    Attached {
        /// Of which booking.
        id: ReservationId,
        /// Which part.
        part: usize,
        /// Which job.
        job: JobId,
    },
    /// A part has other terms now.
    Changed {
        /// Of which booking.
        id: ReservationId,
        /// Which part.
        part: usize,
        /// Its slot now.
        slot: Slot,
    },
    /// Its first part has begun.
    Began {
        /// Of which booking.
        id: ReservationId,
    },
    /// Its last part has ended.
    Ended {
        /// Of which booking.
        id: ReservationId,
        /// When.
        at: Moment,
    },
    /// A call about it was answered; a repetition gets the same answer.
    Answered {
        /// Of which booking.
        id: ReservationId,
        /// The answer, and to what.
        answered: Answered,
    },
    /// It is over; what is held or committed of it is about to be given back.
    Closed {
        /// Of which booking.
        id: ReservationId,
        /// When.
        at: Moment,
        /// What was wanted; None where only a cancellation was ever heard of it.
        asked: Option<Asked>,
        /// How it came.
        outcome: Outcome,
    },
    /// Every peer knows that it is over.
    Settled {
        /// Of which booking.
        id: ReservationId,
    },
    /// It is so long over that nobody will ask.
    Forgot {
        /// Of which booking.
        id: ReservationId,
    },
}

impl Event {
    /// The booking that it happened to.
    pub fn id(&self) -> Option<ReservationId> {
        match self {
            Event::Woke { .. } => None,
            Event::Trying { id, .. }
            | Event::GaveUp { id }
            | Event::Held { id, .. }
            | Event::Decided { id, .. }
            | Event::Committed { id }
            | Event::Attached { id, .. }
            | Event::Changed { id, .. }
            | Event::Answered { id, .. }
            | Event::Began { id }
            | Event::Ended { id, .. }
            | Event::Closed { id, .. }
            | Event::Settled { id }
            | Event::Forgot { id } => Some(*id),
        }
    }

    /// A word for people and programs.
    pub fn word(&self) -> &'static str {
        match self {
            Event::Woke { .. } => "woke",
            Event::Trying { .. } => "trying",
            Event::GaveUp { .. } => "gave-up",
            Event::Held { .. } => "held",
            Event::Decided { .. } => "decided",
            Event::Committed { .. } => "committed",
            Event::Attached { .. } => "attached",
            Event::Changed { .. } => "changed",
            Event::Answered { .. } => "answered",
            Event::Began { .. } => "began",
            Event::Ended { .. } => "ended",
            Event::Closed { outcome: Outcome::Refused(_), .. } => "refused",
            Event::Closed { outcome: Outcome::Expired, .. } => "expired",
            Event::Closed { outcome: Outcome::Cancelled, .. } => "cancelled",
            Event::Closed { outcome: Outcome::PartLost, .. } => "part-lost",
            Event::Settled { .. } => "settled",
            Event::Forgot { .. } => "forgot",
        }
    }
}
