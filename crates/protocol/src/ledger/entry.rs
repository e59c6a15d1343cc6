//! The events of a ledger, which the journal of a site consists of; the other results of a command; and one
//! reservation as the ledger stores it. An entry leaves its state transitions to the life cycle, and computes
//! when its next event is due.

use super::notice::Waited;
use super::spans;
use crate::clock::{Millis, Moment};
use crate::digest::Digest;
use crate::ids::{ChangeId, JobId, Key, Name, ReservationId};
use crate::life_cycle::{Because, State};
use crate::message::{Answer, Caller, Envelope};
use crate::problem::{Problem, Why};
use crate::request::Request;
use crate::sharing::Guests;
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A reservation: its request, its terms and its state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Entry {
    /// The user that limits count it for.
    pub owner: Name,
    /// The original request. Later changes do not touch it: a repeated reserve call is compared with it. Shared with
    /// its event and with the read copies of the site.
    pub request: Arc<Request>,
    /// Its place in the life cycle.
    pub state: State,
    /// The resource it is promised on.
    pub resource: Name,
    /// The capacity promised, or promised until it ended: spans without gaps, by time.
    pub spans: Vec<Span>,
    /// Position among all reservations ever accepted. A failure takes capacity from the highest serials
    /// first.
    pub serial: u64,
    /// When it was accepted.
    pub accepted: Moment,
    /// End of its hold, unless it is or was committed first.
    pub deadline: Moment,
    /// Native jobs attached to it, each once.
    pub jobs: Vec<JobId>,
    /// Capacity lost to failures and not replaced yet.
    pub missing: Capacity,
    /// Incremented with every change of terms, starting at 1.
    pub version: u32,
    /// When it ended. Has no meaning before that.
    pub ended: Moment,
    /// Why it was given up, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Because>,
    /// The pending request to the batch system, or a prepared change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Waiting>,
    /// The last change that was finished, and whether it was accepted. Repeated calls are answered from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change: Option<(ChangeId, bool)>,
    /// The request that it was changed to. None if it was never changed as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_to: Option<Arc<Request>>,
    /// Digest of the original request, once its texts were dropped because too many reservations had ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shortened: Option<Digest<Request>>,
}

/// A pending step in [`State::Requested`] or [`State::ChangeRequested`]. It is pending at the batch system; a
/// prepared change is pending at its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Waiting {
    /// Deadline. The batch system counts as having refused after it; a prepared change is given up.
    pub until: Moment,
    /// When the wait started.
    pub since: Moment,
    /// The effect of a grant.
    pub then: Then,
    /// The call to answer when the wait ends.
    pub asked: Option<Box<Envelope>>,
}

/// The effect of a grant by the batch system.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Then {
    /// It is held for this long.
    Hold(Millis),
    /// It is committed at once.
    Book,
    /// The expired hold is committed with these jobs.
    CommitLate(Vec<JobId>),
    /// It gets new terms.
    Change {
        /// The new terms.
        spans: Vec<Span>,
        /// Maximum of old and new terms at each instant: the capacity taken while the change is pending.
        both: Vec<Span>,
        /// Whether the reservation had started when the change was requested.
        begun: bool,
        /// Whether only its end moves.
        extends: bool,
        /// Set if the change is only prepared, not made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        preparing: Option<Preparing>,
        /// The new request. None for an extension.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Box<Request>>,
    },
}

/// A two-phase change: new terms that take effect only when the owner finishes the change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Preparing {
    /// Chosen by the owner.
    pub change: ChangeId,
    /// How long to keep both terms.
    pub hold_for: Millis,
    /// Whether both terms are guaranteed, so that only the owner's decision is missing.
    pub ready: bool,
}

/// An id that its owner can no longer reserve under, and why. Other users may reserve under the same id: ids
/// are chosen by clients, and one user must not block another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Denied {
    /// The user that the id is denied to.
    pub owner: Name,
    /// When it was denied; it is forgotten after the retention time.
    pub at: Moment,
    /// The refused request and the reason. None if the id was cancelled before it was reserved.
    pub refusal: Option<(Digest<Request>, Problem)>,
}

impl Entry {
    /// Its current request: the original one, or the one it was changed to.
    pub fn current_request(&self) -> &Request {
        self.terms()
    }

    /// The same, to be handed on.
    pub fn terms(&self) -> &Arc<Request> {
        self.changed_to.as_ref().unwrap_or(&self.request)
    }

    /// New terms, with what was fixed when the reservation was made: whether it attracts jobs.
    pub(super) fn with_fixed_terms(&self, mut request: Arc<Request>) -> Arc<Request> {
        if request.attract != self.request.attract {
            Arc::make_mut(&mut request).attract = self.request.attract;
        }
        request
    }

    /// The users that it is shared with.
    pub fn guests(&self) -> Guests<'_> {
        self.current_request().guests()
    }

    /// Start of its first span; [`Time::MIN`] without spans.
    pub fn begin(&self) -> Time {
        self.spans.first().map_or(Time::MIN, |span| span.interval.begin)
    }

    /// End of its last span; [`Time::MIN`] without spans.
    pub fn end(&self) -> Time {
        self.spans.last().map_or(Time::MIN, |span| span.interval.end)
    }

    /// From [`Entry::begin`] to [`Entry::end`].
    pub fn interval(&self) -> Interval {
        Interval::new(self.begin(), self.end())
    }

    pub(super) fn given_up_by(&self, caller: &Caller) -> Because {
        if self.owner == caller.user { Because::Owner } else { Because::Operator }
    }

    /// Whether it takes capacity. Holds and pending requests do.
    pub fn is_live(&self) -> bool {
        self.state.holds_capacity()
    }

    /// The capacity promised while it is live. During a pending change: the maximum of old and new terms.
    pub fn promised(&self) -> &[Span] {
        match &self.waiting {
            _ if !self.is_live() => &[],
            Some(Waiting { then: Then::Change { both, .. }, .. }) => both,
            _ => &self.spans,
        }
    }

    /// The capacity that a batch system should keep: the promise, but during a pending release already what it leaves.
    pub fn backed(&self) -> &[Span] {
        match &self.waiting {
            Some(Waiting {
                then: Then::Change { spans, both, preparing: None, request: None, .. }, ..
            }) if self.is_live() && *both == self.spans => spans,
            _ => self.promised(),
        }
    }

    /// The capacity it really has while it is live: its promise less [`Entry::missing`]. New terms of a
    /// pending change were found to have room, so nothing is missing from them.
    pub fn takes(&self) -> Vec<Span> {
        match &self.waiting {
            Some(Waiting { then: Then::Change { spans, extends, .. }, .. }) if self.is_live() => {
                // An extension keeps the missing capacity up to the old end; only the part after it is added
                // in full.
                let from = if *extends { self.end() } else { Time::MIN };
                spans::both(&spans::less(&self.spans, self.missing), &spans::since(spans, from))
            }
            _ => spans::less(self.promised(), self.missing),
        }
    }

    /// The capacity promised at an instant. Before its start the capacity at its start; after its end the
    /// capacity at its end.
    pub fn capacity_at(&self, instant: Time) -> Capacity {
        let later = self.spans.iter().find(|span| instant < span.interval.end);
        later.or(self.spans.last()).map_or(Capacity::ZERO, |span| span.capacity)
    }

    /// When time causes its next event: the end of its hold, its start, its end; after that, when it is
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

    /// Deadline of the pending step; at once if nothing is pending.
    fn waits_until(&self) -> Moment {
        self.waiting.as_ref().map_or(Moment(i64::MIN), |waiting| waiting.until)
    }

    /// During a pending change: when the old terms make it start or end.
    fn changes_state_at(&self) -> Moment {
        Moment::of(if self.has_begun() { self.end() } else { self.begin() })
    }

    /// During a pending change: whether it was active when the change was requested.
    pub(super) fn has_begun(&self) -> bool {
        matches!(&self.waiting, Some(Waiting { then: Then::Change { begun: true, .. }, .. }))
    }

    /// The two-phase change, prepared or being prepared.
    pub fn preparing(&self) -> Option<Preparing> {
        match self.waiting.as_ref()?.then {
            Then::Change { preparing, .. } => preparing,
            _ => None,
        }
    }

    /// Whether old and new terms are both guaranteed and only the owner's decision is missing.
    pub fn is_prepared(&self) -> bool {
        self.preparing().is_some_and(|preparing| preparing.ready)
    }

    /// The new terms of a prepared change.
    pub(super) fn prepared(&self) -> Option<&[Span]> {
        match &self.waiting.as_ref()?.then {
            Then::Change { spans, preparing: Some(Preparing { ready: true, .. }), .. } => Some(spans),
            _ => None,
        }
    }

    pub(super) fn busy(&self) -> Problem {
        let changing = self.state == State::ChangeRequested;
        Problem::new(if changing { Why::ChangeUnderWay } else { Why::Busy })
    }

    pub(super) fn is_committed_late(&self) -> bool {
        matches!(&self.waiting, Some(Waiting { then: Then::CommitLate(_), .. }))
    }

    /// The event that time causes when it is due.
    pub(super) fn due_event(&self, id: ReservationId) -> What {
        match self.state {
            State::Held => What::Expired { id },
            State::Committed => What::Begun { id },
            State::Active => What::Completed { id },
            // Start and end by the old terms win over the deadline of the wait: time does not stop for a
            // pending change.
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

/// A recorded call, reduced to a digest that recognises its repetitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "Written")]
pub struct AnsweredCall {
    /// The idempotency key.
    pub key: Key,
    /// The caller. Bounds on recorded answers are per user.
    pub user: Name,
    /// Digest of the whole envelope: the same key with another call is an error.
    pub digest: Digest<Envelope>,
}

/// Serialized form. The first release stored the whole call, and its journals must stay readable.
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

pub(super) fn forgotten_at(ended: Moment, retention: Seconds) -> Moment {
    ended + Millis::seconds(retention.0)
}

/// An entry of the journal.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// When it happened; for events caused by time, when they were due.
    pub at: Moment,
    /// The change to the ledger.
    pub what: What,
}

/// The kinds of events. Serialized in journals: variants and fields must stay readable.
#[allow(missing_docs, reason = "`id` is the reservation that it happened to")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum What {
    /// The ledger has room for a request; it waits for the batch system. Its capacity is taken meanwhile.
    Requested {
        id: ReservationId,
        owner: Name,
        request: Arc<Request>,
        /// Where it is placed.
        resource: Name,
        /// The capacity requested there.
        span: Span,
        /// Hold time once granted.
        hold_for: Millis,
        /// Whether to commit it as soon as it is granted.
        book: bool,
        /// Deadline for the batch system's answer.
        until: Moment,
    },
    /// The batch system granted a request: its capacity is held.
    Granted {
        id: ReservationId,
        /// End of the hold.
        deadline: Moment,
    },
    /// The batch system refused a request, a late commit or a change, or did not answer in time.
    NotGranted { id: ReservationId, problem: Problem },
    /// A request was accepted: its capacity is held.
    Held {
        id: ReservationId,
        owner: Name,
        request: Arc<Request>,
        /// Where it is promised.
        resource: Name,
        /// The capacity promised.
        span: Span,
        /// End of the hold.
        deadline: Moment,
    },
    /// A request was refused.
    Refused {
        id: ReservationId,
        /// The requester.
        owner: Name,
        request: Digest<Request>,
        /// Why it was refused.
        problem: Problem,
    },
    /// A hold was prolonged.
    HeldLonger {
        id: ReservationId,
        /// New end of the hold.
        deadline: Moment,
    },
    /// A hold was committed, in time or late, or jobs were attached to a committed reservation.
    Committed {
        id: ReservationId,
        /// Jobs that were not attached before.
        jobs: Vec<JobId>,
        /// For a late commit: the spans that were still available.
        late: Option<Vec<Span>>,
    },
    /// The ledger has room for a late commit; it waits for the batch system.
    CommitRequested {
        id: ReservationId,
        /// Jobs that were not attached before.
        jobs: Vec<JobId>,
        /// The spans that are still available.
        spans: Vec<Span>,
        /// Deadline for the batch system's answer.
        until: Moment,
    },
    /// A hold reached its deadline without a commit.
    Expired { id: ReservationId },
    /// New terms were requested and have room. Old and new terms are both taken until the change is settled.
    ChangeRequested {
        id: ReservationId,
        /// The new terms.
        spans: Vec<Span>,
        /// Whether only its end moves: capacity missing from the old terms is missing from the new ones too.
        extends: bool,
        /// Deadline for the batch system's answer.
        until: Moment,
        /// For a change that is only prepared: its id, and how long to keep both terms.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prepares: Option<(ChangeId, Millis)>,
        /// The new request. None for an extension.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        request: Option<Box<Request>>,
    },
    /// Old and new terms are both guaranteed until the owner finishes the change.
    ChangePrepared {
        id: ReservationId,
        /// Deadline for the owner; the change is given up after it.
        until: Moment,
    },
    /// The new terms took effect.
    ChangeSettled { id: ReservationId },
    /// The old terms stay: the owner rejected the change or let its deadline pass.
    ChangeGivenUp { id: ReservationId, change: ChangeId },
    /// Capacity was released early.
    Released {
        id: ReservationId,
        /// The remaining terms.
        spans: Vec<Span>,
    },
    /// It has a new request, with the terms that it has anyway.
    RequestChanged { id: ReservationId, request: Box<Request> },
    /// Its start was reached.
    Begun { id: ReservationId },
    /// Its end was reached, or its owner released the rest.
    Completed { id: ReservationId },
    /// It was given up before its start.
    Cancelled { id: ReservationId, because: Because },
    /// It was given up while active.
    Terminated {
        id: ReservationId,
        #[serde(default)]
        because: Because,
    },
    /// An id was cancelled before it was reserved. A reserve call that arrives later is refused.
    CancelledBefore { id: ReservationId, owner: Name },
    /// Capacity of a resource failed.
    Lost {
        resource: Name,
        /// Newly failed capacity.
        capacity: Capacity,
    },
    /// Failed capacity came back.
    Restored {
        resource: Name,
        /// Recovered capacity.
        capacity: Capacity,
    },
    /// Jobs started from the queue of a resource.
    Waited {
        resource: Name,
        /// Start of the last of them.
        until: Time,
        /// Their waits, in order of the starts.
        jobs: Vec<Waited>,
    },
    /// The capacity missing from a reservation changed.
    Missing {
        id: ReservationId,
        /// Total missing capacity; zero if the reservation is whole again.
        capacity: Capacity,
    },
    /// The call that caused a wait for the batch system. It is answered when the wait ends.
    Asked { envelope: Box<Envelope> },
    /// A call was answered. Repetitions get the same answer.
    Answered {
        #[serde(alias = "envelope")]
        call: AnsweredCall,
        /// Shared with the record for repetitions.
        answer: Arc<Answer>,
    },
    /// A finished reservation was dropped after the retention time.
    Forgotten { id: ReservationId },
    /// A denied id was dropped after the retention time.
    DenialForgotten { id: ReservationId, owner: Name },
    /// A recorded answer was dropped.
    AnswerForgotten {
        /// Key of its call.
        key: Key,
    },
}

/// A change to the schedule of a resource: give back the spans that the reservation had from this moment on,
/// and take the ones it has now.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// The resource to change.
    pub resource: Name,
    /// The reservation that changed.
    pub id: ReservationId,
    /// All its spans before.
    pub gave_back: Vec<Span>,
    /// All its spans now.
    pub took: Vec<Span>,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handled {
    /// For the caller, to be sent after the events are durable.
    pub answer: Answer,
    /// The reservation that waits for the batch system. If set, the caller gets the answer at the end of the
    /// wait, not this one.
    pub waits: Option<ReservationId>,
    /// For the journal, in order. Already applied.
    pub events: Vec<Event>,
    /// For the schedules of the resources, in order.
    pub changes: Vec<Change>,
}

/// The result of a tick, a failure or a grant.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ticked {
    /// For the journal, in order. Already applied.
    pub events: Vec<Event>,
    /// For the schedules of the resources, in order.
    pub changes: Vec<Change>,
}
