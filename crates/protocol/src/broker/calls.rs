//! The calls of a broker to its peers that are under way. Each is repeated with the same key until its answer comes, after a longer
//! wait each time, or until nobody waits for it any more.

use super::Step;
use crate::clock::{Millis, Moment};
use crate::deadline::RoundTrips;
use crate::ids::{Key, Name, ReservationId};
use crate::message::Outgoing;
use std::collections::{BTreeMap, BTreeSet};

/// What a call is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum About {
    /// Offers for a part, of a survey.
    Probe { survey: u64, part: usize },
    /// The hold of a part.
    Hold { id: ReservationId, part: usize },
    /// The commit of a part.
    Commit { id: ReservationId, part: usize },
    /// Giving something back.
    Cancel { id: ReservationId, child: ReservationId },
    /// How a part is.
    Show { id: ReservationId, part: usize },
    /// An owner's call, passed on.
    Forwarded { key: Key, part: usize },
    /// The preparation of other terms for a part.
    Prepare { id: ReservationId, part: usize },
    /// Which terms a part is to take.
    Finish { id: ReservationId, part: usize },
    /// Terms that were decided, for a part that was not prepared any more.
    ChangeAgain { id: ReservationId, part: usize },
}

impl About {
    /// All probes of a survey.
    pub(super) fn probes(survey: u64) -> (About, About) {
        (About::Probe { survey, part: 0 }, About::Probe { survey, part: usize::MAX })
    }

    /// The holds of all parts.
    pub(super) fn holds(id: ReservationId) -> (About, About) {
        (About::Hold { id, part: 0 }, About::Hold { id, part: usize::MAX })
    }

    /// The preparations of all parts.
    pub(super) fn prepares(id: ReservationId) -> (About, About) {
        (About::Prepare { id, part: 0 }, About::Prepare { id, part: usize::MAX })
    }

    /// The ends of a change, of all parts.
    pub(super) fn finishes(id: ReservationId) -> (About, About) {
        (About::Finish { id, part: 0 }, About::Finish { id, part: usize::MAX })
    }

    /// What is asked for again, of all parts.
    pub(super) fn changes_again(id: ReservationId) -> (About, About) {
        (About::ChangeAgain { id, part: 0 }, About::ChangeAgain { id, part: usize::MAX })
    }

    /// The commits of all parts.
    pub(super) fn commits(id: ReservationId) -> (About, About) {
        (About::Commit { id, part: 0 }, About::Commit { id, part: usize::MAX })
    }
}

/// A call under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    call: Outgoing,
    pub(super) about: About,
    /// When it was first sent: whatever an answer says of "from now on" began no earlier.
    pub(super) sent: Moment,
    repeats: u32,
    /// Nobody waits for the answer any longer than this.
    until: Moment,
    /// When it is repeated or given up.
    due: Moment,
}

impl Pending {
    pub(super) fn to(&self) -> &Name {
        &self.call.to
    }
}

/// All calls under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Calls {
    pending: BTreeMap<Key, Pending>,
    by_about: BTreeSet<(About, Key)>,
    due: BTreeSet<(Moment, Key)>,
    round_trips: BTreeMap<Name, RoundTrips>,
}

impl Calls {
    /// Sends a call; it is given up if there is no answer by `until`.
    pub(super) fn send(&mut self, call: Outgoing, about: About, until: Moment, step: &mut Step) {
        let (key, sent) = (call.envelope.key, step.now);
        let due = (sent + self.patience(&call.to, 0)).min(until);
        self.remove(key);
        self.pending.insert(key, Pending { call: call.clone(), about, sent, repeats: 0, until, due });
        self.by_about.insert((about, key));
        self.due.insert((due, key));
        step.effects.send.push(call);
    }

    /// The answer to a call has come: what was it about? None if nobody waits for it.
    pub(super) fn answered(&mut self, now: Moment, from: &Name, key: Key) -> Option<Pending> {
        let pending = self.pending.get(&key).filter(|pending| pending.call.to == *from)?;
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

    /// What is due by now: a call to be repeated, or one that is given up.
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

    /// When something is due.
    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Whether such a call waits for its answer.
    pub(super) fn is_under_way(&self, about: About) -> bool {
        self.about(about, about).next().is_some()
    }

    /// Waits no longer for the answers to calls about these.
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

    /// How long a message to `peer` and its answer take, as far as is known.
    pub(super) fn round_trip(&self, peer: &Name) -> Option<Millis> {
        self.round_trips.get(peer)?.mean()
    }

    fn patience(&self, peer: &Name, repeats: u32) -> Millis {
        let known = self.round_trips.get(peer).copied().unwrap_or_default();
        known.after_repeats(repeats, Millis::ZERO)
    }
}
