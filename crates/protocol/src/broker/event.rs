//! The events that a broker stores before it acts on them, and what they consist of. Its state after a restart
//! is the fold of these. State that a crash may lose is not in them (peers, calls in flight, waiting callers,
//! what peers reported).

use crate::Millis;
use crate::clock::Moment;
use crate::digest::Digest;
use crate::ids::{ChangeId, JobId, Key, Name, ReservationId};
use crate::message::{Answer, Call, Caller, Lost, Slot};
use crate::problem::Problem;
use crate::request::Request;
use bookahead_plan::Capacity;
use serde::{Deserialize, Serialize};

/// A request to reserve, with its options.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Asked {
    /// The requester.
    pub caller: Caller,
    /// The request.
    pub request: Request,
    /// Requested hold time.
    pub hold_for: Millis,
    /// Whether to commit at once.
    pub book: bool,
    /// Set once it is refused: the digest of the request. Of the request itself only the webhook is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Digest<Request>>,
}

impl Asked {
    /// The reduced form of a refused request, so that large requests are not kept.
    pub(super) fn refused(self) -> Asked {
        let refused = self.refused.or_else(|| Some(Digest::of(&self.request)));
        let request = Request { webhook: self.request.webhook, ..Request::new(Vec::new(), Vec::new()) };
        Asked { request, refused, ..self }
    }

    /// Whether `again` is a repetition of this request.
    pub(super) fn is_repeated_by(&self, again: &Asked) -> bool {
        match self.refused {
            Some(_) => *self == again.clone().refused(),
            None => self == again,
        }
    }
}

/// One part of a candidate, at the peer that is asked to hold it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pick {
    /// The peer.
    pub peer: Name,
    /// Id of the peer's reservation, chosen by the broker before the peer is asked. It can be cancelled even
    /// if the answer gets lost.
    pub child: ReservationId,
    /// The offered slot, with the chosen start. The resource has its name at the peer.
    pub slot: Slot,
}

/// A call and its answer, remembered for repetitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Answered {
    /// When it was answered.
    pub at: Moment,
    /// Key of the call.
    pub key: Key,
    /// Digest of the call, to detect another call with the same key.
    pub call: Digest<Call>,
    /// The answer.
    pub answer: Answer,
}

/// How a booking ended.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It was refused.
    Refused(Problem),
    /// It was not committed in time.
    Expired,
    /// Its owner cancelled it.
    Cancelled,
    /// An operator cancelled it.
    Revoked,
    /// A part could not be committed, so all parts are released.
    PartLost,
    /// No part of it is left at its sites.
    Lost,
}

/// A change of a booking in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Changing {
    /// Its id at all peers.
    pub change: ChangeId,
    /// Key of the call that requested it.
    pub key: Key,
    /// The call that requested it.
    pub call: Call,
    /// The request that the booking satisfies afterwards.
    pub request: Request,
    /// The new slot of each part, with the peer's name for the resource. None if the part does not change.
    pub slots: Vec<Option<Slot>>,
    /// Its progress.
    pub stage: Stage,
}

/// Progress of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stage {
    /// Peers are asked to prepare it.
    Preparing,
    /// All peers have prepared it. The requester may accept it until the deadline.
    Prepared(Moment),
    /// All parts take the new terms.
    Decided,
    /// All parts keep the old terms.
    GivenUp,
}

/// A journal entry of a broker. Serialized: variants and fields must stay readable.
#[allow(missing_docs, reason = "`id` is the booking that it happened to")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The broker started. `life` counts the starts, from 0.
    Woke { life: u32 },
    /// Peers are about to be asked to hold a candidate.
    Trying {
        id: ReservationId,
        at: Moment,
        /// The request, with the first candidate only.
        asked: Option<Asked>,
        /// One pick for each part.
        picks: Vec<Pick>,
    },
    /// The candidate cannot be held. Its parts are about to be released.
    GaveUp { id: ReservationId },
    /// All parts are held.
    Held {
        id: ReservationId,
        /// Deadline for the commit. A later event of this kind prolongs the hold.
        until: Moment,
    },
    /// The decision to commit. From here on the booking is finished or undone, even after a crash.
    Decided {
        id: ReservationId,
        /// The call that permits it.
        call: Call,
    },
    /// All parts are committed.
    Committed { id: ReservationId },
    /// A job was attached to a part.
    Attached { id: ReservationId, part: usize, job: JobId },
    /// A part has new terms.
    Changed {
        id: ReservationId,
        part: usize,
        /// Its new slot.
        slot: Slot,
    },
    /// It has a new request. Recorded when its only part has taken it; a booking with several parts takes it
    /// with [`Event::ChangeSettled`].
    RequestChanged { id: ReservationId, request: Box<Request> },
    /// Peers are about to be asked to prepare new terms.
    Changing { id: ReservationId, at: Moment, changing: Box<Changing> },
    /// All peers have prepared the new terms. The requester may accept them until the deadline.
    ChangePrepared { id: ReservationId, until: Moment },
    /// The decision that all parts take the new terms. From here on it is finished, even after a crash.
    ChangeDecided { id: ReservationId },
    /// All parts keep their old terms.
    ChangeGivenUp { id: ReservationId, change: ChangeId },
    /// Every peer knows which terms apply.
    ChangeSettled { id: ReservationId },
    /// The peer of a part reported a different condition than the last known one.
    PartSeen {
        id: ReservationId,
        part: usize,
        at: Moment,
        /// The loss and the missing capacity. None if the part is whole.
        loss: Option<(Lost, Capacity)>,
    },
    /// Peers are about to be asked to hold replacements of lost parts.
    Replacing {
        id: ReservationId,
        /// Part indexes and their picks.
        picks: Vec<(usize, Pick)>,
    },
    /// The replacements are not available or no longer needed. They are about to be released.
    NotReplaced { id: ReservationId },
    /// The replacements are committed and take the place of the lost parts, which are about to be released.
    Replaced { id: ReservationId, at: Moment },
    /// No replacement was found.
    NotHealed {
        id: ReservationId,
        at: Moment,
        /// Failed attempts since the loss.
        tries: u32,
        /// Time of the next attempt.
        next: Moment,
        /// Why none was found.
        problem: Problem,
    },
    /// Its first part has started.
    Began { id: ReservationId },
    /// Its last part has ended.
    Ended { id: ReservationId, at: Moment },
    /// A call about it was answered. A repetition gets the same answer.
    Answered {
        id: ReservationId,
        /// The call and its answer.
        answered: Answered,
    },
    /// It is over. Its holds and committed parts are about to be released.
    Closed {
        id: ReservationId,
        at: Moment,
        /// The request. None if only a cancel was ever received.
        asked: Option<Asked>,
        /// How it ended.
        outcome: Outcome,
    },
    /// A user cancelled an id before it was reserved. A reserve call of that user that arrives later is
    /// refused.
    CancelledBefore { id: ReservationId, user: Name, at: Moment },
    /// Every peer knows that it is over.
    Settled { id: ReservationId },
    /// It was dropped after the retention time.
    Forgot { id: ReservationId },
}

impl Event {
    /// The booking that the event is about, if it is about one.
    pub fn id(&self) -> Option<ReservationId> {
        match self {
            // Not about a booking: another user may book under the same id.
            Event::Woke { .. } | Event::CancelledBefore { .. } => None,
            Event::Trying { id, .. }
            | Event::GaveUp { id }
            | Event::Held { id, .. }
            | Event::Decided { id, .. }
            | Event::Committed { id }
            | Event::Attached { id, .. }
            | Event::Changed { id, .. }
            | Event::RequestChanged { id, .. }
            | Event::Changing { id, .. }
            | Event::ChangePrepared { id, .. }
            | Event::ChangeDecided { id }
            | Event::ChangeGivenUp { id, .. }
            | Event::ChangeSettled { id }
            | Event::PartSeen { id, .. }
            | Event::Replacing { id, .. }
            | Event::NotReplaced { id }
            | Event::Replaced { id, .. }
            | Event::NotHealed { id, .. }
            | Event::Answered { id, .. }
            | Event::Began { id }
            | Event::Ended { id, .. }
            | Event::Closed { id, .. }
            | Event::Settled { id }
            | Event::Forgot { id } => Some(*id),
        }
    }

    /// When it happened, for the kinds that record it.
    pub fn at(&self) -> Option<Moment> {
        match self {
            Event::Trying { at, .. }
            | Event::PartSeen { at, .. }
            | Event::Replaced { at, .. }
            | Event::NotHealed { at, .. }
            | Event::Ended { at, .. }
            | Event::Closed { at, .. } => Some(*at),
            _ => None,
        }
    }

    /// Stable name, used in the API and in output.
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
            Event::RequestChanged { .. } => "request-changed",
            Event::Changing { .. } => "changing",
            Event::ChangePrepared { .. } => "change-prepared",
            Event::ChangeDecided { .. } => "change-decided",
            Event::ChangeGivenUp { .. } => "change-given-up",
            Event::ChangeSettled { .. } => "change-finished",
            Event::PartSeen { loss: None, .. } => "whole",
            Event::PartSeen { loss: Some((Lost::Degraded, _)), .. } => "degraded",
            Event::PartSeen { .. } => "broken",
            Event::Replacing { .. } => "replacing",
            Event::NotReplaced { .. } => "not-replaced",
            Event::Replaced { .. } => "healed",
            Event::NotHealed { .. } => "not-healed",
            Event::Answered { .. } => "answered",
            Event::Began { .. } => "began",
            Event::Ended { .. } => "ended",
            Event::Closed { outcome: Outcome::Refused(_), .. } => "refused",
            Event::Closed { outcome: Outcome::Expired, .. } => "expired",
            Event::Closed { outcome: Outcome::Cancelled | Outcome::Revoked, .. } => "cancelled",
            Event::Closed { outcome: Outcome::PartLost, .. } => "part-lost",
            Event::Closed { outcome: Outcome::Lost, .. } => "lost",
            Event::CancelledBefore { .. } => "cancelled-before",
            Event::Settled { .. } => "settled",
            Event::Forgot { .. } => "forgot",
        }
    }
}
