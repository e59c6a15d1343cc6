//! One site of the ranking: how things stand with it, and the call that it owes an answer to.

use super::words::{Identity, Order, Outgoing};
use crate::jobs::patience::Repeated;
use crate::jobs::ranking::Ranked;
use crate::level::{self, Committing, Permission};
use crate::message::Envelope;
use crate::request::{Part, Request};
use bookahead_plan::Time;

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
            (reserve, permission.reserve(id, Request::single(part), order.hold_for))
        }
        Stand::Committing(_) => (commit, permission.commit(id, vec![order.job])),
        Stand::Cancelling => (cancel, level::cancel(id)),
        Stand::Unasked | Stand::Held(_) | Stand::Settled => return None,
    };
    let envelope = Envelope { key, caller: order.caller.clone(), call };
    Some(Outgoing { to: ranked.site.clone(), envelope })
}
