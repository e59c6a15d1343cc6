//! What a broker writes down before it does anything about it, and the snapshot that stands for all events before it. Its state
//! after a restart is the fold of these. Whatever a crash loses (peers, calls under way, who waits, what peers have said) is
//! not in them; the agenda and the identities follow from the rest.

use super::booking::Booking;
use super::change::Changing;
use super::{Broker, Rules};
use crate::Millis;
use crate::clock::Moment;
use crate::digest::Digest;
use crate::ids::{ChangeId, Identities, JobId, Key, Name, ReservationId};
use crate::message::{Answer, Call, Caller, Lost, Slot};
use crate::problem::Problem;
use crate::request::Request;
use bookahead_plan::Capacity;
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
    /// Of what was refused: what was wanted. The request has nothing in it then but the address for notices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Digest<Request>>,
}

impl Asked {
    /// What is left of it once it is refused, so that large requests are not kept.
    pub(super) fn refused(self) -> Asked {
        let refused = self.refused.or_else(|| Some(Digest::of(&self.request)));
        let request = Request { webhook: self.request.webhook, ..Request::new(Vec::new(), Vec::new()) };
        Asked { request, refused, ..self }
    }

    /// Whether the same is asked again.
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
    pub call: Digest<Call>,
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
    /// An operator gave it up.
    Revoked,
    /// It was to be committed and one part could not be: all are given back.
    PartLost,
    /// Its sites have nothing left of it.
    Lost,
}

/// Something that happened to a booking.
#[allow(missing_docs, reason = "`id` is the booking that it happened to")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The broker started, for the so-and-so-many-th time.
    Woke { life: u32 },
    /// Peers are about to be asked to hold a candidate.
    Trying {
        id: ReservationId,
        at: Moment,
        /// What is wanted, the first time.
        asked: Option<Asked>,
        /// Who is asked for what, in the order of the parts.
        picks: Vec<Pick>,
    },
    /// The candidate cannot be held: its parts are about to be given back.
    GaveUp { id: ReservationId },
    /// All parts are held.
    Held {
        id: ReservationId,
        /// Until when it can be committed; later each time a hold is extended.
        until: Moment,
    },
    /// It was decided to commit; from here on it is finished or undone, never forgotten.
    Decided {
        id: ReservationId,
        /// The call that permits it.
        call: Call,
    },
    /// All parts are committed.
    Committed { id: ReservationId },
    /// A job was attached to a part.
    Attached { id: ReservationId, part: usize, job: JobId },
    /// A part has other terms now.
    Changed {
        id: ReservationId,
        part: usize,
        /// Its slot now.
        slot: Slot,
    },
    /// Peers are about to be asked to prepare other terms.
    Changing { id: ReservationId, at: Moment, changing: Box<Changing> },
    /// All peers have prepared other terms; who asked for that may accept them until then.
    ChangePrepared { id: ReservationId, until: Moment },
    /// It was decided that all parts take the new terms; from here on that is finished.
    ChangeDecided { id: ReservationId },
    /// All parts keep their old terms.
    ChangeGivenUp { id: ReservationId, change: ChangeId },
    /// Every peer knows which terms stand.
    ChangeSettled { id: ReservationId },
    /// The peer of a part told how it is, and that is other than was known.
    PartSeen {
        id: ReservationId,
        part: usize,
        at: Moment,
        /// What is gone or missing, and how much; None where it is whole.
        loss: Option<(Lost, Capacity)>,
    },
    /// Peers are about to be asked to hold replacements of lost parts.
    Replacing {
        id: ReservationId,
        /// Who is asked for what, by part.
        picks: Vec<(usize, Pick)>,
    },
    /// The replacements cannot be had, or are not needed any more: they are about to be given back.
    NotReplaced { id: ReservationId },
    /// The replacements are committed and stand for the lost parts, which are about to be given back.
    Replaced { id: ReservationId, at: Moment },
    /// There is no replacement for what is lost.
    NotHealed {
        id: ReservationId,
        at: Moment,
        /// How often it was looked for since the loss.
        tries: u32,
        /// When it is looked for again.
        next: Moment,
        /// Why.
        problem: Problem,
    },
    /// Its first part has begun.
    Began { id: ReservationId },
    /// Its last part has ended.
    Ended { id: ReservationId, at: Moment },
    /// A call about it was answered; a repetition gets the same answer.
    Answered {
        id: ReservationId,
        /// The answer, and to what.
        answered: Answered,
    },
    /// It is over; what is held or committed of it is about to be given back.
    Closed {
        id: ReservationId,
        at: Moment,
        /// What was wanted; None where only a cancellation was ever heard of it.
        asked: Option<Asked>,
        /// How it came.
        outcome: Outcome,
    },
    /// Somebody cancelled an id before anything was booked under it: that user will book nothing under it.
    CancelledBefore { id: ReservationId, user: Name, at: Moment },
    /// Every peer knows that it is over.
    Settled { id: ReservationId },
    /// It is so long over that nobody will ask.
    Forgot { id: ReservationId },
}

impl Event {
    /// The booking that it happened to.
    pub fn id(&self) -> Option<ReservationId> {
        match self {
            // What others book under the id is not concerned.
            Event::Woke { .. } | Event::CancelledBefore { .. } => None,
            Event::Trying { id, .. }
            | Event::GaveUp { id }
            | Event::Held { id, .. }
            | Event::Decided { id, .. }
            | Event::Committed { id }
            | Event::Attached { id, .. }
            | Event::Changed { id, .. }
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

    /// When it happened, where it says so.
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

/// What the events so far come to. Whoever restores it and applies the events after it has the broker that
/// would have come of all events from the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    life: Option<u32>,
    /// In order of their ids.
    bookings: Vec<Booking>,
    /// Who cancelled what before it was asked for, and when.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    cancelled_before: Vec<(ReservationId, Name, Moment)>,
}

impl Broker {
    /// One with the same bookings that does nothing: events are applied to it, and it is asked. Answers that were given are not
    /// in it.
    pub fn read_copy(&self) -> Broker {
        let bookings = self
            .bookings
            .iter()
            .map(|(id, booking)| (*id, Booking { answered: Vec::new(), ..booking.clone() }));
        Broker { bookings: bookings.collect(), ..Broker::new(self.rules.clone()) }
    }

    /// What stands for all its events so far.
    pub fn snapshot(&self) -> Snapshot {
        let cancelled_before = self.cancelled_before.all();
        Snapshot {
            life: self.life,
            bookings: self.bookings().map(Booking::as_written).collect(),
            cancelled_before: cancelled_before.map(|((id, user), at)| (*id, user.clone(), *at)).collect(),
        }
    }

    /// The broker that all events before a snapshot make. As after any replay it knows no peers, and
    /// [`Broker::resume`] begins its next life once the events after the snapshot are applied. How long what is over
    /// stays known follows the rules as they are now.
    pub fn restore(rules: Rules, snapshot: Snapshot) -> Broker {
        let mut broker = Broker::new(rules);
        broker.life = snapshot.life;
        broker.identities = Identities::new(broker.rules.maker, snapshot.life.unwrap_or(0));
        for (id, user, at) in snapshot.cancelled_before {
            broker.remember_cancelled(id, &user, at);
        }
        for booking in snapshot.bookings {
            let due = booking.next_change(broker.rules.retention);
            broker.agenda.extend(due.map(|due| (due, booking.id)));
            broker.heals.extend(booking.heal_at(broker.rules.heal_after).map(|due| (due, booking.id)));
            broker.watched.note(&booking);
            broker.note_refused(&booking);
            broker.bookings.insert(booking.id, booking);
        }
        broker
    }
}
