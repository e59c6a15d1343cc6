//! Events and entries: what happens to a book, which is what the journal of a site is made of; what a command gives back beside
//! them; and one reservation in the book. An entry relies on the life cycle for its moves and knows when it must be looked at
//! next.

use super::book;
use crate::clock::{Millis, Moment};
use crate::digest::Digest;
use crate::ids::{ChangeId, JobId, Key, Name, ReservationId};
use crate::life_cycle::State;
use crate::message::{Answer, Caller, Envelope};
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
    /// Who gave it up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Because>,
    /// What the batch system is asked for, while it has not answered; and a change that is prepared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The last change that was prepared or given up, and whether it was accepted: for those who say it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change: Option<(ChangeId, bool)>,
}

/// What a reservation waits for in [`State::Requested`] or [`State::ChangeRequested`]: the batch system, or, of a change that
/// is prepared, the word of its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// It is refused if the batch system has not answered by then; a change that is prepared is given up.
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
        /// Where it is only to be prepared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preparing: Option<Preparing>,
    },
}

/// A change that is not taken before its owner says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Preparing {
    /// Its name.
    pub change: ChangeId,
    /// How long both terms are to be kept.
    pub hold_for: Millis,
    /// Whether both are kept for sure: only the word of the owner is outstanding.
    pub ready: bool,
}

/// An id under which nothing is reserved for its owner, for a reason that is remembered. It binds its owner alone: others may reserve
/// under the same id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Denied {
    /// Who asked.
    pub owner: Name,
    /// When.
    pub at: Moment,
    /// What was asked for, and why it was refused; None where it was cancelled before it was asked for.
    pub refusal: Option<(Digest<Request>, Problem)>,
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

    /// Why it is given up where this caller says so, who may.
    pub(super) fn given_up_by(&self, caller: &Caller) -> Because {
        if self.owner == caller.user { Because::Owner } else { Because::Operator }
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

    /// The change that is prepared, or about to be.
    pub fn preparing(&self) -> Option<Preparing> {
        match self.waiting.as_ref()?.then {
            Then::Change { preparing, .. } => preparing,
            _ => None,
        }
    }

    /// Whether old and new terms are both kept, and only the word of its owner is outstanding.
    pub fn is_prepared(&self) -> bool {
        self.preparing().is_some_and(|preparing| preparing.ready)
    }

    /// The terms of a change that is prepared.
    pub(super) fn prepared(&self) -> Option<&[Span]> {
        match &self.waiting.as_ref()?.then {
            Then::Change { spans, preparing: Some(Preparing { ready: true, .. }), .. } => Some(spans),
            _ => None,
        }
    }

    /// Why a call about it has to wait.
    pub(super) fn busy(&self) -> Problem {
        let changing = self.state == State::ChangeRequested;
        Problem::new(if changing { Why::ChangeUnderWay } else { Why::Busy })
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
            State::ChangeRequested if self.is_prepared() => {
                let change = self.preparing().map_or(ChangeId(0), |preparing| preparing.change);
                What::ChangeGivenUp { id, change }
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

/// A call that was answered, as far as it takes to know it again.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct AnsweredCall {
    /// Its key.
    pub key: Key,
    /// Who called.
    pub user: Name,
    /// All of it.
    pub digest: Digest<Envelope>,
}

/// How it was written: the first release kept the whole call.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Digest { key: Key, user: Name, digest: Digest<Envelope> },
    Whole(Box<Envelope>),
}

impl From<Written> for AnsweredCall {
    fn from(written: Written) -> AnsweredCall {
        match written {
            Written::Digest { key, user, digest } => AnsweredCall { key, user, digest },
            Written::Whole(envelope) => AnsweredCall::of(&envelope),
        }
    }
}

impl AnsweredCall {
    pub(super) fn of(envelope: &Envelope) -> AnsweredCall {
        let user = envelope.caller.user.clone();
        AnsweredCall { key: envelope.key, user, digest: Digest::of(envelope) }
    }

    pub(super) fn is(&self, envelope: &Envelope) -> bool {
        self.digest == Digest::of(envelope)
    }
}

/// When something that was over at a moment is forgotten.
pub(super) fn forgotten_at(ended: Moment, retention: Seconds) -> Moment {
    ended + Millis::seconds(retention.0)
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// When.
    pub at: Moment,
    /// What.
    pub what: What,
}

/// What can happen.
#[allow(missing_docs, reason = "`id` is the reservation that it happened to")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum What {
    /// A request has room in the book; the batch system is asked for it. Its room is taken meanwhile.
    Requested {
        id: ReservationId,
        owner: Name,
        request: Request,
        /// The resource on which it is placed.
        resource: Name,
        /// What is wanted there.
        span: Span,
        /// How long it is to be held once it is granted.
        hold_for: Millis,
        /// Whether it is to be committed as soon as it is granted.
        book: bool,
        /// It is refused if the batch system has not answered by then.
        until: Moment,
    },
    /// The batch system granted a request: its room is held.
    Granted {
        id: ReservationId,
        /// Until when it is held if nobody commits it.
        deadline: Moment,
    },
    /// The batch system did not grant a request, a late commit or a change, or did not answer in time.
    NotGranted { id: ReservationId, problem: Problem },
    /// A request was accepted: its room is held.
    Held {
        id: ReservationId,
        owner: Name,
        request: Request,
        /// The resource on which it is promised.
        resource: Name,
        /// What is promised.
        span: Span,
        /// Until when it is held if nobody commits it.
        deadline: Moment,
    },
    /// A request was refused.
    Refused {
        id: ReservationId,
        /// Whose it would have been.
        owner: Name,
        request: Digest<Request>,
        /// Why it cannot be had.
        problem: Problem,
    },
    /// A hold lasts longer.
    HeldLonger {
        id: ReservationId,
        /// Until when.
        deadline: Moment,
    },
    /// A hold was committed, in time or late, or jobs were attached to what was committed.
    Committed {
        id: ReservationId,
        /// Jobs that were not attached before.
        jobs: Vec<JobId>,
        /// Of a late commit: what was still to be had.
        late: Option<Vec<Span>>,
    },
    /// A late commit has room in the book; the batch system is asked for it.
    CommitRequested {
        id: ReservationId,
        /// Jobs that were not attached before.
        jobs: Vec<JobId>,
        /// What is still to be had.
        spans: Vec<Span>,
        /// It is refused if the batch system has not answered by then.
        until: Moment,
    },
    /// Nobody committed it in time.
    Expired { id: ReservationId },
    /// Its owner wants other terms, for which there is room. Old and new terms are taken until it is settled.
    ChangeRequested {
        id: ReservationId,
        /// The new terms.
        spans: Vec<Span>,
        /// Whether it only lasts longer: what is missing of it is missing of the new terms too.
        extends: bool,
        /// It is refused if the batch system has not answered by then.
        until: Moment,
        /// Where it is only to be prepared: the name of the change, and how long both terms are to be kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prepares: Option<(ChangeId, Millis)>,
    },
    /// Old and new terms are both kept until its owner has said which.
    ChangePrepared {
        id: ReservationId,
        /// Until when.
        until: Moment,
    },
    /// The new terms are promised now.
    ChangeSettled { id: ReservationId },
    /// The new terms are not taken: the owner said so, or nothing in time.
    ChangeGivenUp { id: ReservationId, change: ChangeId },
    /// Part of it was given back early.
    Released {
        id: ReservationId,
        /// What is left.
        spans: Vec<Span>,
    },
    /// Its start came.
    Begun { id: ReservationId },
    /// Its end came, or its owner gave back the rest.
    Completed { id: ReservationId },
    /// It was given up before its start.
    Cancelled { id: ReservationId, because: Because },
    /// It was given up while active.
    Terminated {
        id: ReservationId,
        #[serde(default)]
        because: Because,
    },
    /// An id was cancelled before anything was reserved under it, so its owner will reserve nothing under it.
    CancelledBefore { id: ReservationId, owner: Name },
    /// Capacity failed.
    Lost {
        resource: Name,
        /// How much more.
        capacity: Capacity,
    },
    /// Capacity is back.
    Restored {
        resource: Name,
        /// How much.
        capacity: Capacity,
    },
    /// So much of a reservation is missing now, since capacity failed.
    Missing {
        id: ReservationId,
        /// How much; zero where it is whole again.
        capacity: Capacity,
    },
    /// The call because of which a reservation waits for the batch system. It is answered when that is settled.
    Asked { envelope: Box<Envelope> },
    /// A call was answered, and a repeat will get the same answer.
    Answered {
        #[serde(alias = "envelope")]
        call: AnsweredCall,
        answer: Answer,
    },
    /// What was over for long is forgotten.
    Forgotten { id: ReservationId },
    /// It is forgotten that somebody was refused an id, or cancelled it before it was reserved.
    DenialForgotten { id: ReservationId, owner: Name },
    /// An answer is no longer remembered.
    AnswerForgotten {
        /// The key of its call.
        key: Key,
    },
}

/// Why a reservation was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Because {
    /// Its owner said so.
    #[default]
    Owner,
    /// An operator of the site said so.
    Operator,
    /// It was a hold, and the capacity for it failed.
    Lost,
}

impl Because {
    /// A word for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Because::Owner => "owner",
            Because::Operator => "operator",
            Because::Lost => "lost",
        }
    }
}

/// What whoever keeps a schedule of the resource must do to it: give back what the reservation had from that
/// moment on, and take what it has instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// On which resource.
    pub resource: Name,
    /// For which reservation.
    pub id: ReservationId,
    /// All that it had.
    pub gave_back: Vec<Span>,
    /// All that it has.
    pub took: Vec<Span>,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    /// For the caller, once the events are in the journal.
    pub answer: Answer,
    /// The reservation that waits for the batch system. The caller gets its answer when that has come, not this one.
    pub waits: Option<ReservationId>,
    /// For the journal, in order; they are in the book already.
    pub events: Vec<Event>,
    /// For schedules of the resources, in order.
    pub changes: Vec<Change>,
}

/// What came of time or of a failure.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ticked {
    /// For the journal, in order; they are in the book already.
    pub events: Vec<Event>,
    /// For schedules of the resources, in order.
    pub changes: Vec<Change>,
}

impl What {
    /// The reservation that it is about, if it is about one.
    pub fn id(&self) -> Option<ReservationId> {
        match self {
            What::Requested { id, .. }
            | What::Granted { id, .. }
            | What::NotGranted { id, .. }
            | What::CommitRequested { id, .. }
            | What::Held { id, .. }
            | What::Refused { id, .. }
            | What::HeldLonger { id, .. }
            | What::Committed { id, .. }
            | What::Expired { id }
            | What::ChangeRequested { id, .. }
            | What::ChangePrepared { id, .. }
            | What::ChangeSettled { id, .. }
            | What::ChangeGivenUp { id, .. }
            | What::Released { id, .. }
            | What::Begun { id }
            | What::Completed { id }
            | What::Cancelled { id, .. }
            | What::Terminated { id, .. }
            | What::CancelledBefore { id, .. }
            | What::Missing { id, .. }
            | What::Forgotten { id }
            | What::DenialForgotten { id, .. } => Some(*id),
            What::Lost { .. }
            | What::Restored { .. }
            | What::Asked { .. }
            | What::Answered { .. }
            | What::AnswerForgotten { .. } => None,
        }
    }

    /// A word for people and programs.
    pub fn word(&self) -> &'static str {
        match self {
            What::Requested { .. } => "requested",
            What::Granted { .. } => "granted",
            What::NotGranted { .. } => "not-granted",
            What::CommitRequested { .. } => "commit-requested",
            What::Held { .. } => "held",
            What::Refused { .. } => "refused",
            What::HeldLonger { .. } => "held-longer",
            What::Committed { .. } => "committed",
            What::Expired { .. } => "expired",
            What::ChangeRequested { .. } => "change-requested",
            What::ChangePrepared { .. } => "change-prepared",
            What::ChangeSettled { .. } => "change-settled",
            What::ChangeGivenUp { .. } => "change-given-up",
            What::Released { .. } => "released",
            What::Begun { .. } => "begun",
            What::Completed { .. } => "completed",
            What::Cancelled { .. } => "cancelled",
            What::Terminated { .. } => "terminated",
            What::CancelledBefore { .. } => "cancelled-before",
            What::Lost { .. } => "lost",
            What::Restored { .. } => "restored",
            What::Missing { .. } => "missing",
            What::Asked { .. } => "asked",
            What::Answered { .. } => "answered",
            What::Forgotten { .. } => "forgotten",
            What::DenialForgotten { .. } => "denial-forgotten",
            What::AnswerForgotten { .. } => "answer-forgotten",
        }
    }
}
