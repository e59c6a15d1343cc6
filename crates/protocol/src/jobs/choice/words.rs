//! What the best of three reservations is made of: the order, the identities made for it, what is journalled, what comes out, and
//! for each site of the ranking how things stand with it and which call it owes an answer to. Nothing here decides.

use crate::clock::{Millis, Moment};
use crate::ids::{Identities, JobId, Key, Name, ReservationId};
use crate::jobs::words::{Ranked, Task};
use crate::jobs::{Patience, Repeated};
use crate::level::{self, Committing, Permission};
use crate::message::{Caller, Envelope, Outgoing};
use crate::problem::Why;
use crate::request::{OnLoss, Part, Request};
use bookahead_plan::Time;
use serde::{Deserialize, Serialize};

/// What is to be done, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// On whose behalf.
    pub caller: Caller,
    /// The job.
    pub job: JobId,
    /// What it needs.
    pub task: Task,
    /// It must have ended by then.
    pub latest_end: Time,
    /// Where it could go, the best first.
    pub ranked: Vec<Ranked>,
    /// How many sites are asked at a time; at least one.
    pub at_a_time: usize,
    /// For how long each is asked to hold.
    pub hold_for: Millis,
    /// How often unanswered calls are repeated.
    pub patience: Patience,
}

impl Order {
    /// As many sites as Migol asks.
    pub const THREE: usize = 3;
}

/// The identities for one site, made before it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// The id of the reservation there.
    pub id: ReservationId,
    /// The key of the call that holds.
    pub reserve: Key,
    /// The key of the call that commits.
    pub commit: Key,
    /// The key of the call that cancels.
    pub cancel: Key,
}

/// What must not be forgotten.
#[allow(missing_docs, reason = "`id` is the reservation that is chosen")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The order was taken.
    Begun {
        /// What is to be done, with the sites that could do it in time.
        order: Box<Order>,
        /// For each of them, in the order of the ranking.
        identities: Vec<Identity>,
    },
    /// The first so many of the ranking are about to be asked, as far as they were not.
    Asking(usize),
    /// Nothing is held for us under this id, and nothing will be.
    Settled(ReservationId),
    /// This one is kept.
    Chosen { id: ReservationId, start: Time },
    /// The one that was chosen was gone before it could be committed.
    Lost(ReservationId),
    /// This is how it ended; nothing more is expected of what was chosen.
    Decided(Outcome),
}

/// How it ended.
#[allow(missing_docs, reason = "`site` and `id` are where it is booked")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The job has a reservation.
    Booked {
        site: Name,
        /// Its id there.
        id: ReservationId,
        start: Time,
        /// When the job is done at the latest, by what its owner told.
        finish: Moment,
    },
    /// It has none.
    Failed(Why),
}

/// What is to be done, in this order: journal the events, then send, then tell the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effects {
    /// To be journalled before anything is sent.
    pub events: Vec<Event>,
    /// To be sent.
    pub send: Vec<Outgoing>,
    /// How it ended, once.
    pub outcome: Option<Outcome>,
}

impl Identity {
    pub(super) fn make(identities: &mut Identities) -> Identity {
        Identity {
            id: ReservationId(identities.make()),
            reserve: Key(identities.make()),
            commit: Key(identities.make()),
            cancel: Key(identities.make()),
        }
    }

    pub(super) fn keys(&self) -> [Key; 3] {
        [self.reserve, self.commit, self.cancel]
    }
}

/// A site, by its place in the ranking.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) known_as: Identity,
    pub(super) stand: Stand,
    pub(super) repeated: Repeated,
}

/// How things stand with one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stand {
    /// Not asked so far.
    Unasked,
    /// Asked to hold, from when on, not answered.
    Asked(Time),
    /// It holds.
    Held(Time),
    /// Asked to commit, not answered.
    Committing(Time),
    /// Asked to cancel, not answered.
    Cancelling,
    /// Nothing more to say.
    Settled,
}

impl Stand {
    /// Whether an answer is expected.
    pub(super) fn is_open(self) -> bool {
        matches!(self, Stand::Asked(_) | Stand::Committing(_) | Stand::Cancelling)
    }
}

impl Entry {
    pub(super) fn new(known_as: &Identity) -> Entry {
        Entry { known_as: *known_as, stand: Stand::Unasked, repeated: Repeated::NEVER }
    }
}

/// The call that a site owes an answer to, if it owes one. A reservation is asked for of this very machine, from the end
/// of the transfer on, for as long as the job takes there; it is committed with the job in it.
pub(super) fn call(
    order: &Order,
    ranked: &Ranked,
    permission: Permission<Committing>,
    entry: &Entry,
) -> Option<Outgoing> {
    let Identity { id, reserve, commit, cancel } = entry.known_as;
    let (key, call) = match entry.stand {
        Stand::Asked(ready) => {
            let part = order.task.part(ready, order.latest_end, ranked.delay.duration());
            let part = Part { resource: Some(ranked.resource.clone()), ..part };
            // The broker of the job looks for another place itself.
            let request = Request { on_loss: OnLoss::Keep, ..Request::single(part) };
            (reserve, permission.reserve(id, request, order.hold_for))
        }
        Stand::Committing(_) =>
        // The job comes with its submission: the site does not know it yet.
        {
            (commit, permission.commit(id, Vec::new()))
        }
        Stand::Cancelling => (cancel, level::cancel(id)),
        Stand::Unasked | Stand::Held(_) | Stand::Settled => return None,
    };
    let envelope = Envelope { key, caller: order.caller.clone(), call };
    Some(Outgoing { to: ranked.site.clone(), envelope })
}
