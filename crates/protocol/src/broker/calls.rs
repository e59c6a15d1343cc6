//! The calls of a broker that are in flight. Each is repeated with the same key and growing intervals until
//! its answer arrives, its timeout passes, or the answer is no longer needed.

use super::Step;
use crate::clock::{Millis, Moment};
use crate::deadline::RoundTrips;
use crate::ids::{Key, Name, ReservationId};
use crate::message::Outgoing;
use std::collections::{BTreeMap, BTreeSet};

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum About {
    /// Offers for a part, for a survey.
    Probe {
        survey: u64,
        part: usize,
    },
    Hold {
        id: ReservationId,
        part: usize,
    },
    Commit {
        id: ReservationId,
        part: usize,
    },
    /// The release of a hold or a part.
    Cancel {
        id: ReservationId,
        child: ReservationId,
    },
    /// The state of a part.
    Show {
        id: ReservationId,
        part: usize,
    },
    /// An owner's call, forwarded to a part.
    Forwarded {
        key: Key,
        part: usize,
    },
    /// The preparation of new terms for a part.
    Prepare {
        id: ReservationId,
        part: usize,
    },
    /// The decision which terms a part takes.
    Finish {
        id: ReservationId,
        part: usize,
    },
    /// Decided terms for a part whose preparation had expired.
    ChangeAgain {
        id: ReservationId,
        part: usize,
    },
}

impl About {
    /// Range of all probes of a survey.
    pub(super) fn probes(survey: u64) -> (About, About) {
        (About::Probe { survey, part: 0 }, About::Probe { survey, part: usize::MAX })
    }

    /// Range of the holds of all parts.
    pub(super) fn holds(id: ReservationId) -> (About, About) {
        (About::Hold { id, part: 0 }, About::Hold { id, part: usize::MAX })
    }

    pub(super) fn prepares(id: ReservationId) -> (About, About) {
        (About::Prepare { id, part: 0 }, About::Prepare { id, part: usize::MAX })
    }

    pub(super) fn finishes(id: ReservationId) -> (About, About) {
        (About::Finish { id, part: 0 }, About::Finish { id, part: usize::MAX })
    }

    pub(super) fn changes_again(id: ReservationId) -> (About, About) {
        (About::ChangeAgain { id, part: 0 }, About::ChangeAgain { id, part: usize::MAX })
    }

    pub(super) fn commits(id: ReservationId) -> (About, About) {
        (About::Commit { id, part: 0 }, About::Commit { id, part: usize::MAX })
    }
}

/// A call in flight.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    call: Outgoing,
    pub(super) about: About,
    /// When it was first sent. Durations in its answer are counted from here: the peer's clock started no
    /// earlier.
    pub(super) sent: Moment,
    repeats: u32,
    /// Timeout; after it the answer is no longer needed.
    until: Moment,
    /// Time of the next repetition, or of the timeout.
    due: Moment,
}

impl Pending {
    pub(super) fn to(&self) -> &Name {
        &self.call.to
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Calls {
    pending: BTreeMap<Key, Pending>,
    by_about: BTreeSet<(About, Key)>,
    due: BTreeSet<(Moment, Key)>,
    round_trips: BTreeMap<Name, RoundTrips>,
}

impl Calls {
    /// Sends a call. It is given up without an answer by `until`.
    pub(super) fn send(&mut self, call: Outgoing, about: About, until: Moment, step: &mut Step) {
        let (key, sent) = (call.envelope.key, step.now);
        let due = (sent + self.patience(&call.to, 0)).min(until);
        self.remove(key);
        self.pending.insert(key, Pending { call: call.clone(), about, sent, repeats: 0, until, due });
        self.by_about.insert((about, key));
        self.due.insert((due, key));
        step.effects.send.push(call);
    }

    /// Ends the call that an answer belongs to. None if the answer is not expected.
    pub(super) fn answered(&mut self, now: Moment, from: &Name, key: Key) -> Option<Pending> {
        let pending = self.pending.get(&key).filter(|pending| pending.call.to == *from)?;
        // Only calls that were never repeated give a sample: with repetitions, the answer may be to any of
        // them.
        if pending.repeats == 0 {
            let took = now - pending.sent;
            self.round_trips.entry(from.clone()).or_default().sample(took);
        }
        self.remove(key)
    }

    fn remove(&mut self, key: Key) -> Option<Pending> {
        let pending = self.pending.remove(&key)?;
        self.due.remove(&(pending.due, key));
        self.by_about.remove(&(pending.about, key));
        Some(pending)
    }

    /// The next due call: Ok if it is to be repeated, Err if it timed out.
    pub(super) fn next_due(&mut self, now: Moment) -> Option<Result<Outgoing, Pending>> {
        let (_, key) = *self.due.first().filter(|(due, _)| *due <= now)?;
        let pending = self.pending.get_mut(&key)?;
        if pending.until <= now {
            return self.remove(key).map(Err);
        }
        pending.repeats = pending.repeats.saturating_add(1);
        self.due.remove(&(pending.due, key));
        let (call, repeats, until) = (pending.call.clone(), pending.repeats, pending.until);
        let due = (now + self.patience(&call.to, repeats)).min(until);
        self.due.insert((due, key));
        self.pending.entry(key).and_modify(|pending| pending.due = due);
        Some(Ok(call))
    }

    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(due, _)| *due)
    }

    pub(super) fn is_under_way(&self, about: About) -> bool {
        self.about(about, about).next().is_some()
    }

    /// Drops calls in flight; their answers will be ignored.
    pub(super) fn forget(&mut self, (first, last): (About, About)) {
        let keys: Vec<Key> = self.about(first, last).collect();
        for key in keys {
            self.remove(key);
        }
    }

    fn about(&self, first: About, last: About) -> impl Iterator<Item = Key> {
        let range = (first, Key(u128::MIN))..=(last, Key(u128::MAX));
        self.by_about.range(range).map(|(_, key)| *key)
    }

    /// Mean round trip time of `peer`, if known.
    pub(super) fn round_trip(&self, peer: &Name) -> Option<Millis> {
        self.round_trips.get(peer)?.mean()
    }

    fn patience(&self, peer: &Name, repeats: u32) -> Millis {
        let known = self.round_trips.get(peer).copied().unwrap_or_default();
        known.after_repeats(repeats, Millis::ZERO)
    }
}
