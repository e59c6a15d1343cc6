//! Data types of the best of three reservations: the order, identities, journal events, the outcome, and for
//! each ranked site its state and its pending call. Nothing here decides.

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

/// A job to place, and how.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Order {
    /// The owner of the job.
    pub caller: Caller,
    /// The job.
    pub job: JobId,
    /// Its needs.
    pub task: Task,
    /// Deadline for its end.
    pub latest_end: Time,
    /// Suitable sites, best first.
    pub ranked: Vec<Ranked>,
    /// Number of sites asked in parallel; at least one.
    pub at_a_time: usize,
    /// Hold time requested from each site.
    pub hold_for: Millis,
    /// Intervals between repetitions of unanswered calls.
    pub patience: Patience,
}

impl Order {
    /// Number of sites that Migol asks in parallel.
    pub const THREE: usize = 3;
}

/// Ids and keys for one site, made before it is called. After a crash they are enough to cancel whatever it
/// holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity {
    /// Id of the reservation there.
    pub id: ReservationId,
    /// Key of the reserve call.
    pub reserve: Key,
    /// Key of the commit call.
    pub commit: Key,
    /// Key of the cancel call.
    pub cancel: Key,
}

/// Journal entries.
#[allow(missing_docs, reason = "`id` is the reservation that is chosen")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Event {
    /// The order was accepted.
    Begun {
        /// The order, reduced to sites that could finish the job in time.
        order: Box<Order>,
        /// One for each site, in the same order.
        identities: Vec<Identity>,
    },
    /// This many sites, from the first of the ranking, are about to be asked, except those asked before.
    Asking(usize),
    /// Nothing is held under this id, and nothing will be.
    Settled(ReservationId),
    /// This hold is about to be committed.
    Chosen { id: ReservationId, start: Time },
    /// The chosen hold was gone before it could be committed.
    Lost(ReservationId),
    /// The result. Nothing more is expected of the chosen reservation.
    Decided(Outcome),
}

/// The result.
#[allow(missing_docs, reason = "`site` and `id` are where it is booked")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The job has a reservation.
    Booked {
        site: Name,
        /// Its id there.
        id: ReservationId,
        start: Time,
        /// Latest end of the job, by its owner's estimate.
        finish: Moment,
    },
    /// The job has no reservation.
    Failed(Why),
}

/// Output, in this order: journal the events, then send, then report the outcome.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effects {
    /// To be journalled before anything is sent.
    pub events: Vec<Event>,
    /// To be sent.
    pub send: Vec<Outgoing>,
    /// The result, set once.
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

/// The state of a site, by its index in the ranking.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) known_as: Identity,
    pub(super) stand: Stand,
    pub(super) repeated: Repeated,
}

/// Progress with one site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Stand {
    Unasked,
    /// Asked to hold, not answered. The earliest start requested.
    Asked(Time),
    /// Holding. The start of the hold.
    Held(Time),
    /// Asked to commit, not answered.
    Committing(Time),
    /// Asked to cancel, not answered.
    Cancelling,
    /// Nothing more to do.
    Settled,
}

impl Stand {
    pub(super) fn is_open(self) -> bool {
        matches!(self, Stand::Asked(_) | Stand::Committing(_) | Stand::Cancelling)
    }
}

impl Entry {
    pub(super) fn new(known_as: &Identity) -> Entry {
        Entry { known_as: *known_as, stand: Stand::Unasked, repeated: Repeated::NEVER }
    }
}

/// The pending call to a site, if any. A reservation is requested on the ranked resource, from the end of the
/// file transfer on, for the job's run time there.
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
            // The job's broker searches another place itself if this one is lost.
            let description = order.task.description.for_placement();
            let request = Request { on_loss: OnLoss::Keep, description, ..Request::single(part) };
            (reserve, permission.reserve(id, request, order.hold_for))
        }
        Stand::Committing(_) =>
        // No jobs yet: the job is attached by its submission, and the site does not know it before.
        {
            (commit, permission.commit(id, Vec::new()))
        }
        Stand::Cancelling => (cancel, level::cancel(id)),
        Stand::Unasked | Stand::Held(_) | Stand::Settled => return None,
    };
    let envelope = Envelope { key, caller: order.caller.clone(), call };
    Some(Outgoing { to: ranked.site.clone(), envelope })
}
