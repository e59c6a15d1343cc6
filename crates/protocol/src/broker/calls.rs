//! Calls under way: whom they were sent to, what they are about, and when to repeat them or to give them up. Every call
//! is repeated with the same key until its answer comes, each time after a longer wait.

use super::Step;
use crate::clock::{Millis, Moment};
use crate::deadline::RoundTrips;
use crate::ids::{Key, Name, ReservationId};
use crate::message::{Envelope, Outgoing};
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
    /// An owner's call, passed on.
    Forwarded { key: Key, part: usize },
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

    /// The commits of all parts.
    pub(super) fn commits(id: ReservationId) -> (About, About) {
        (About::Commit { id, part: 0 }, About::Commit { id, part: usize::MAX })
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pending {
    to: Name,
    envelope: Envelope,
    about: About,
    sent: Moment,
    repeats: u32,
    /// Nobody waits for the answer any longer than this.
    until: Moment,
    /// When it is repeated or given up.
    due: Moment,
}

/// A call that came to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) to: Name,
    pub(super) about: About,
    /// When it was first sent: whatever an answer says of "from now on" began no earlier.
    pub(super) sent: Moment,
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
        let Outgoing { to, envelope } = call.clone();
        let (key, sent) = (envelope.key, step.now);
        let due = (sent + self.patience(&to, 0)).min(until);
        self.remove(key);
        self.pending.insert(key, Pending { to, envelope, about, sent, repeats: 0, until, due });
        self.by_about.insert((about, key));
        self.due.insert((due, key));
        step.effects.send.push(call);
    }

    /// The answer to a call has come: what was it about? None if nobody waits for it.
    pub(super) fn answered(&mut self, now: Moment, from: &Name, key: Key) -> Option<Ended> {
        let pending = self.pending.get(&key).filter(|pending| pending.to == *from)?;
        if pending.repeats == 0 {
            let took = now - pending.sent;
            self.round_trips.entry(from.clone()).or_default().sample(took);
        }
        self.remove(key)
    }

    fn remove(&mut self, key: Key) -> Option<Ended> {
        let pending = self.pending.remove(&key)?;
        self.due.remove(&(pending.due, key));
        self.by_about.remove(&(pending.about, key));
        Some(Ended { to: pending.to, about: pending.about, sent: pending.sent })
    }

    /// What is due by now: a call to be repeated, or one that is given up.
    pub(super) fn next_due(&mut self, now: Moment) -> Option<Result<Outgoing, Ended>> {
        let (_, key) = *self.due.first().filter(|(due, _)| *due <= now)?;
        let pending = self.pending.get_mut(&key)?;
        if pending.until <= now {
            return self.remove(key).map(Err);
        }
        pending.repeats = pending.repeats.saturating_add(1);
        self.due.remove(&(pending.due, key));
        let outgoing = Outgoing { to: pending.to.clone(), envelope: pending.envelope.clone() };
        let (repeats, until) = (pending.repeats, pending.until);
        let due = (now + self.patience(&outgoing.to, repeats)).min(until);
        self.due.insert((due, key));
        self.pending.entry(key).and_modify(|pending| pending.due = due);
        Some(Ok(outgoing))
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
