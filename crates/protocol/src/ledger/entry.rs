//! One reservation in the book. It relies on the life cycle for its moves and knows when it must be looked at
//! next.

use super::book;
use super::event::What;
use crate::clock::{Millis, Moment};
use crate::ids::{JobId, Name, ReservationId};
use crate::life_cycle::State;
use crate::message::Envelope;
use crate::problem::{Problem, Why};
use crate::request::Request;
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use serde::{Deserialize, Serialize};

/// A reservation: what was asked for, what is promised, and how it stands.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// Whose it is.
    pub owner: Name,
    /// What was asked for at first.
    pub request: Request,
    /// Where in its life it is.
    pub state: State,
    /// The resource on which it is promised.
    pub resource: Name,
    /// What is promised, or was: spans without gaps, in order.
    pub spans: Vec<Span>,
    /// Its place among all that were ever accepted.
    pub serial: u64,
    /// When it was accepted.
    pub accepted: Moment,
    /// Until when it is, or was, held if not committed.
    pub deadline: Moment,
    /// The jobs attached.
    pub jobs: Vec<JobId>,
    /// How much of it is missing since capacity failed.
    pub missing: Capacity,
    /// Grows with every change of terms.
    pub version: u32,
    /// When it was over; meaningless before.
    pub ended: Moment,
    /// What the batch system is asked for, while it has not answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
}

/// What a reservation waits for in [`State::Requested`] or [`State::ChangeRequested`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// It is refused if the batch system has not answered by then.
    pub until: Moment,
    /// Since when.
    pub since: Moment,
    /// What comes of a grant.
    pub then: Then,
    /// The call that is answered when the wait is over.
    pub asked: Option<Box<Envelope>>,
}

/// What comes of a grant.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Then {
    /// It is held for this long.
    Hold(Millis),
    /// It is committed at once.
    Book,
    /// It was expired, and is committed with these jobs.
    CommitLate(Vec<JobId>),
    /// It has these terms.
    Change {
        /// The new terms.
        spans: Vec<Span>,
        /// Old and new terms together: what is taken meanwhile.
        both: Vec<Span>,
        /// Whether it had begun when the change was asked for.
        begun: bool,
        /// Whether it only lasts longer.
        extends: bool,
    },
}

/// An id under which nothing is reserved, for a reason that is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Denied {
    /// Who asked.
    pub owner: Name,
    /// When.
    pub at: Moment,
    /// What was asked for, and why it was refused; None where it was cancelled before it was asked for.
    pub refusal: Option<(Request, Problem)>,
}

impl Entry {
    /// When its start comes.
    pub fn begin(&self) -> Time {
        self.spans.first().map_or(Time::MIN, |span| span.interval.begin)
    }

    /// When its end comes.
    pub fn end(&self) -> Time {
        self.spans.last().map_or(Time::MIN, |span| span.interval.end)
    }

    /// From its start to its end.
    pub fn interval(&self) -> Interval {
        Interval::new(self.begin(), self.end())
    }

    /// Whether it takes capacity.
    pub fn is_live(&self) -> bool {
        self.state.holds_capacity()
    }

    /// What it was promised, while it is live; while a change waits, old and new terms together.
    pub fn promised(&self) -> &[Span] {
        match &self.waiting {
            _ if !self.is_live() => &[],
            Some(Waiting { then: Then::Change { both, .. }, .. }) => both,
            _ => &self.spans,
        }
    }

    /// What it really has, while it is live. What is missing of it is not missing of new terms that wait: these have room.
    pub fn takes(&self) -> Vec<Span> {
        match &self.waiting {
            Some(Waiting { then: Then::Change { spans, extends, .. }, .. }) if self.is_live() => {
                let from = if *extends { self.end() } else { Time::MIN };
                book::both(&book::less(&self.spans, self.missing), &book::since(spans, from))
            }
            _ => book::less(self.promised(), self.missing),
        }
    }

    /// What it was promised at an instant; before its start, at its start, and after its end, at its end.
    pub fn capacity_at(&self, instant: Time) -> Capacity {
        let later = self.spans.iter().find(|span| instant < span.interval.end);
        later.or(self.spans.last()).map_or(Capacity::ZERO, |span| span.capacity)
    }

    /// When time makes its next move: the end of a hold, its start, its end; and, once it is over, when it is
    /// forgotten.
    pub(super) fn due(&self, retention: Seconds) -> Moment {
        match self.state {
            State::Held => self.deadline,
            State::Committed => Moment::of(self.begin()),
            State::Active => Moment::of(self.end()),
            State::Requested => self.waits_until(),
            State::ChangeRequested => self.waits_until().min(self.changes_state_at()),
            _ => forgotten_at(self.ended, retention),
        }
    }

    /// Without a wait there is nothing to wait for: it is due at once.
    fn waits_until(&self) -> Moment {
        self.waiting.as_ref().map_or(Moment(i64::MIN), |waiting| waiting.until)
    }

    /// While a change waits: when its old terms make it begin or end.
    fn changes_state_at(&self) -> Moment {
        Moment::of(if self.has_begun() { self.end() } else { self.begin() })
    }

    /// While a change waits: whether it was active when the change was asked for.
    pub(super) fn has_begun(&self) -> bool {
        matches!(&self.waiting, Some(Waiting { then: Then::Change { begun: true, .. }, .. }))
    }

    /// Whether it waits for a late commit.
    pub(super) fn is_committed_late(&self) -> bool {
        matches!(&self.waiting, Some(Waiting { then: Then::CommitLate(_), .. }))
    }

    /// What time does to it when it is due.
    pub(super) fn due_event(&self, id: ReservationId) -> What {
        match self.state {
            State::Held => What::Expired { id },
            State::Committed => What::Begun { id },
            State::Active => What::Completed { id },
            State::ChangeRequested if self.changes_state_at() <= self.waits_until() => {
                if self.has_begun() {
                    What::Completed { id }
                } else {
                    What::Begun { id }
                }
            }
            State::Requested | State::ChangeRequested => {
                let waited =
                    self.waiting.as_ref().map_or(Millis::ZERO, |waiting| waiting.until - waiting.since);
                What::NotGranted { id, problem: Problem::new(Why::BatchTimeout { waited }) }
            }
            _ => What::Forgotten { id },
        }
    }
}

/// When something that was over at a moment is forgotten.
pub(super) fn forgotten_at(ended: Moment, retention: Seconds) -> Moment {
    ended + Millis::seconds(retention.0)
}
