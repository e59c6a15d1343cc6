//! One reservation in the book. It relies on the life cycle for its moves and knows when it must be looked at
//! next.

use super::spans;
use crate::clock::{Millis, Moment};
use crate::ids::{JobId, Name};
use crate::life_cycle::State;
use crate::problem::Problem;
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

    /// What it was promised, while it is live.
    pub fn promised(&self) -> &[Span] {
        if self.is_live() { &self.spans } else { &[] }
    }

    /// What it really has, while it is live.
    pub fn takes(&self) -> Vec<Span> {
        spans::less(self.promised(), self.missing)
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
            State::Accepted => self.deadline,
            State::Committed => Moment::of(self.begin()),
            State::Active => Moment::of(self.end()),
            // Never seen between two commands, unless a journal was cut off in the middle of one.
            State::Requested | State::ChangeRequested => Moment(i64::MIN),
            State::Rejected | State::Completed | State::Cancelled | State::Terminated => {
                forgotten_at(self.ended, retention)
            }
        }
    }
}

/// When something that was over at a moment is forgotten.
pub(super) fn forgotten_at(ended: Moment, retention: Seconds) -> Moment {
    ended + Millis::seconds(retention.0)
}
