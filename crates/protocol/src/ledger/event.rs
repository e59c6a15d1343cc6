//! What happens to a book: the journal of a site is a list of these, and the book is their fold. And what a
//! command gives back beside them.

use crate::clock::{Millis, Moment};
use crate::ids::{JobId, Key, Name, ReservationId};
use crate::message::{Answer, Envelope};
use crate::problem::Problem;
use crate::request::Request;
use bookahead_plan::{Capacity, Span};
use serde::{Deserialize, Serialize};

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
        request: Request,
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
    },
    /// The new terms are promised now.
    ChangeSettled { id: ReservationId },
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
    Terminated { id: ReservationId },
    /// An id was cancelled before anything was reserved under it, so nothing ever will be.
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
    Answered { envelope: Box<Envelope>, answer: Answer },
    /// What was over for long is forgotten.
    Forgotten { id: ReservationId },
    /// An answer is no longer remembered.
    AnswerForgotten {
        /// The key of its call.
        key: Key,
    },
}

/// Why a reservation was given up before its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Because {
    /// Its owner said so.
    Owner,
    /// It was a hold, and the capacity for it failed.
    Lost,
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
            | What::ChangeSettled { id, .. }
            | What::Released { id, .. }
            | What::Begun { id }
            | What::Completed { id }
            | What::Cancelled { id, .. }
            | What::Terminated { id }
            | What::CancelledBefore { id, .. }
            | What::Missing { id, .. }
            | What::Forgotten { id } => Some(*id),
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
            What::ChangeSettled { .. } => "change-settled",
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
            What::AnswerForgotten { .. } => "answer-forgotten",
        }
    }
}
