//! What the book promises and what the batch system keeps: taken before it is promised, compared every so often, and made to
//! agree. Where the batch system cannot keep a promise, the book says how much of it is missing, until it can again; no job
//! ends because of that.

use super::{AfterWriting, Event, Found, LOOK_AGAIN, Site, backing};
use crate::party::{Done, Notice};
use bookahead_lrms::{Backing, Lrms, LrmsError, Seen, Snapshot, Tagged};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::ledger::{self, Objection, Taking};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{Answer, Call, Caller, Envelope, Key, Moment, Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet};

/// Where something is missing of a reservation, its owner is told so many other begins.
const MOST_BEGINS: u32 = 3;

/// Whose what was found is, where its name had no room for that.
const NOBODY: &str = "unknown";

/// A begin that differs by more than so many seconds is not the one that was promised.
const MOST_SKEW: u64 = 2;

/// Asks the batch system for room that is about to be promised: what the reservation has and what it will have, until the
/// change is durable. Whether it did something where it did not answer is not known; so it is told again what it had.
pub(super) fn take_room(
    lrms: &mut dyn Lrms,
    now: Moment,
    taking: &Taking,
    degraded: &BTreeSet<ReservationId>,
    untold: &mut BTreeMap<ReservationId, Backing>,
) -> Result<(), Objection> {
    let Taking { resource, id, owner, has, takes } = taking;
    let spares_jobs = degraded.contains(id);
    let backing =
        |spans| Backing { resource: resource.clone(), id: *id, owner: owner.clone(), spans, spares_jobs };
    let Err(why) = lrms.back(now, &backing(backing::both(has, takes))) else { return Ok(()) };
    if why.is_refusal() {
        tracing::warn!(reservation = %id, "not granted: {why}");
        return Err(Objection::Refused(Why::NotGranted(why.to_string())));
    }
    tracing::error!(reservation = %id, "the batch system does not say whether it keeps it free: {why}");
    untold.insert(*id, backing(has.clone()));
    Err(Objection::NotNow(Why::NoBatchSystem))
}

impl Site {
    pub(super) fn backing(&self, resource: &Name, id: ReservationId, spans: Vec<Span>) -> Backing {
        let owner = self.ledger.entry(id).map_or_else(|| Name::from(""), |entry| entry.owner.clone());
        Backing { resource: resource.clone(), id, owner, spans, spares_jobs: self.is_degraded(id) }
    }

    /// Whether something is missing of a reservation that is not over.
    fn is_degraded(&self, id: ReservationId) -> bool {
        self.ledger.entry(id).is_some_and(|entry| entry.is_live() && entry.missing > Capacity::ZERO)
    }

    /// What the book has for a reservation.
    pub(super) fn promised(&self, resource: &Name, id: ReservationId) -> Backing {
        let reserved = self.ledger.entry(id).map(ledger::Entry::takes).unwrap_or_default();
        self.backing(resource, id, reserved)
    }

    /// Tells the batch system what to keep free; what it cannot be told now it is told again.
    pub(super) fn back(&mut self, now: Moment, backing: Backing) {
        match self.lrms.back(now, &backing) {
            Ok(()) => {
                self.untold.remove(&backing.id);
            }
            Err(why) => {
                tracing::error!(reservation = %backing.id, "the batch system does not keep it as told: {why}");
                self.untold.insert(backing.id, backing);
                self.next_look = self.next_look.min(now + LOOK_AGAIN);
            }
        }
    }

    pub(super) fn gives_back_later(&self, id: ReservationId) -> bool {
        let mut later = self.after_writing.iter().flatten();
        later.any(|after| matches!(after, AfterWriting::GiveBack(change) if change.id == id))
    }

    /// Whether the batch system is still to be told of something that was given back.
    pub(super) fn gives_back(&self) -> bool {
        let mut later = self.after_writing.iter().flatten();
        later.any(|after| matches!(after, AfterWriting::GiveBack(_)))
    }

    /// Where the book is new and the batch system keeps something for this site already: adopts it, or goes no further.
    fn meet(&mut self, now: Moment, done: &mut Done<Event>) -> Result<(), LrmsError> {
        let Some(what) = self.found.filter(|_| !self.met && !self.opened && self.ledger.is_unused()) else {
            self.met = true;
            return Ok(());
        };
        let found = if what == Found::Remove { Vec::new() } else { self.lrms.tagged(now)? };
        if what == Found::Ask && !found.is_empty() {
            return Err(LrmsError::Misconfigured(format!(
                "the book is new, and the batch system keeps {} reservations for this site; start with --adopt to take \
                 them into the book, with --remove-found to give them back, or with the journal that was lost",
                found.len()
            )));
        }
        for Tagged { id, owner, resource, spans } in found {
            let owner = owner.unwrap_or_else(|| NOBODY.into());
            tracing::warn!(reservation = %id, %resource, %owner, "is taken into the book");
            let ticked = self.ledger.adopt(now, id, &owner, &resource, &spans);
            self.book(now, ticked.events, ticked.changes, done);
        }
        // Whatever is found later was made for this book.
        (self.met, self.opened) = (true, true);
        done.events.push(Event::Opened);
        Ok(())
    }

    /// Compares the book and the batch system, and makes them agree as far as can be.
    pub(super) fn look(&mut self, now: Moment, done: &mut Done<Event>) {
        self.next_look = now + self.look_every;
        if let Err(why) = self.reconcile(now, done) {
            tracing::error!("cannot compare the book with the batch system: {why}");
            self.next_look = now + LOOK_AGAIN;
        }
    }

    /// Makes the batch system and the book agree: what is promised is kept free, what nobody promised is given back, a job
    /// that never reached it is submitted, and one that the book does not know is ended. Says what it found.
    /// Nothing starts before the batch system knows what is promised.
    pub(super) fn reconcile(&mut self, now: Moment, done: &mut Done<Event>) -> Result<(), LrmsError> {
        self.meet(now, done)?;
        let snapshot = self.lrms.snapshot(now)?;
        self.note_skew();
        let tried = self.keep_what_is_in_use(now, &snapshot, done)?;
        self.note_failures(now, &snapshot, done);
        for (resource, seen) in &snapshot.resources {
            self.give_back_orphans(now, resource, seen, done)?;
            let mut promised: BTreeMap<ReservationId, Vec<Span>> = BTreeMap::new();
            for (id, span) in self.ledger.reserved(resource) {
                promised.entry(id).or_default().push(span);
            }
            // Of some nothing is left, and may be had again.
            for id in self.ledger.degraded(resource) {
                promised.entry(id).or_default();
            }
            for (id, spans) in promised.into_iter().filter(|(id, _)| !tried.contains(id)) {
                self.keep(now, resource, id, &spans, seen, done)?;
            }
        }
        for backing in std::mem::take(&mut self.untold).into_values() {
            // The book may have gone on meanwhile.
            self.back(now, self.promised(&backing.resource, backing.id));
        }
        self.advance(now, done);
        self.reconcile_jobs(now, done)
    }

    /// Says when the clocks of the site and of the batch system have begun to differ, and when they agree again.
    fn note_skew(&mut self) {
        let skew = self.lrms.clock().map_or(Seconds::ZERO, |clocks| clocks.skew());
        let skewed = skew.0.unsigned_abs() > MOST_SKEW;
        match (self.skewed, skewed) {
            (false, true) => {
                tracing::error!(
                    "the clock of the batch system is {} s ahead of ours, so that what is promised begins at another time; \
                     let both machines follow a time server",
                    skew.0
                );
            }
            (true, false) => tracing::info!("the clock of the batch system agrees with ours again"),
            _ => {}
        }
        self.skewed = skewed;
    }

    /// What jobs wait or run in comes first where machines of it failed: it moves to room that is free, or misses what
    /// failed. Then nobody else need be hit for it. Answers which were tried.
    fn keep_what_is_in_use(
        &mut self,
        now: Moment,
        snapshot: &Snapshot,
        done: &mut Done<Event>,
    ) -> Result<BTreeSet<ReservationId>, LrmsError> {
        let mut tried = BTreeSet::new();
        for (resource, seen) in &snapshot.resources {
            for id in seen.in_use.iter().copied() {
                let promised = self.promised(resource, id).spans;
                let kept = seen.backings.get(&id).map_or(&[][..], Vec::as_slice);
                if shortfall(&promised, kept, now.second()) > 0 && !self.gives_back_later(id) {
                    self.keep(now, resource, id, &promised, seen, done)?;
                    tried.insert(id);
                }
            }
        }
        Ok(tried)
    }

    /// What is kept free for nobody is given back, and that is told.
    fn give_back_orphans(
        &mut self,
        now: Moment,
        resource: &Name,
        seen: &Seen,
        done: &mut Done<Event>,
    ) -> Result<(), LrmsError> {
        for id in seen.backings.keys().copied() {
            let promised = self.ledger.entry(id).is_some_and(|entry| !entry.takes().is_empty());
            // Of one that misses all, what jobs are in may be left.
            if promised || self.is_degraded(id) || self.gives_back_later(id) {
                continue;
            }
            tracing::warn!(reservation = %id, %resource, "was kept free for nobody, and is given back");
            self.lrms.back(now, &self.backing(resource, id, Vec::new()))?;
            done.notices.push((done.events.len(), Notice::about(now, "orphan-removed", id)));
        }
        Ok(())
    }

    /// Sees to it that the batch system keeps what is promised; where it refuses, the book says what is missing.
    fn keep(
        &mut self,
        now: Moment,
        resource: &Name,
        id: ReservationId,
        promised: &[Span],
        seen: &Seen,
        done: &mut Done<Event>,
    ) -> Result<(), LrmsError> {
        let kept = seen.backings.get(&id).map_or(&[][..], Vec::as_slice);
        let whole = self.ledger.could_have(id);
        if (kept == promised && whole.is_none()) || self.gives_back_later(id) {
            return Ok(());
        }
        let wanted = whole.clone().unwrap_or_else(|| promised.to_vec());
        match self.lrms.back(now, &self.backing(resource, id, wanted.clone())) {
            Ok(()) if whole.is_some() => self.note_kept(now, id, Capacity(u32::MAX), done),
            Ok(()) => {}
            Err(why) if why.is_refusal() => {
                tracing::error!(reservation = %id, %resource, "the batch system does not keep it: {why}");
                let short = shortfall(&wanted, kept, now.second());
                let all = wanted.iter().map(|span| span.capacity.0).max().unwrap_or(0);
                self.note_kept(now, id, Capacity(all.saturating_sub(short)), done);
            }
            Err(why) => return Err(why),
        }
        Ok(())
    }

    /// Begins at which a reservation could be had whole, within the window that its owner gave.
    pub(super) fn could_begin(&mut self, now: Moment, id: ReservationId) -> Vec<Time> {
        let Some(entry) = self.ledger.entry(id) else { return Vec::new() };
        let Ok(views) = self.lrms.views(now) else { return Vec::new() };
        let call = Call::Probe { request: entry.request.clone(), most: MOST_BEGINS, starts: Vec::new() };
        let caller = Caller { user: entry.owner.clone(), roles: Vec::new() };
        let envelope = Envelope { key: Key(id.0), caller, call };
        match self.ledger.handle(now, &envelope, &views).answer {
            Answer::Offers(offers) => {
                let slots = offers.iter().filter_map(|offer| offer.slots.first());
                slots.map(|slot| slot.interval.begin).collect()
            }
            Answer::Problem(_) | Answer::Reservation(_) => Vec::new(),
        }
    }

    fn note_kept(&mut self, now: Moment, id: ReservationId, kept: Capacity, done: &mut Done<Event>) {
        let ticked = self.ledger.kept(now, id, kept);
        self.book(now, ticked.events, ticked.changes, done);
    }

    /// Tells the ledger what has failed and what is back, as far as it does not know.
    fn note_failures(&mut self, now: Moment, snapshot: &Snapshot, done: &mut Done<Event>) {
        for (resource, seen) in &snapshot.resources {
            let known = self.ledger.lost_capacity(resource);
            let ticked = if seen.lost > known {
                self.ledger.lost_beside(now, resource, Capacity(seen.lost.0 - known.0), &seen.in_use)
            } else if seen.lost < known {
                self.ledger.restored(now, resource, Capacity(known.0 - seen.lost.0))
            } else {
                continue;
            };
            self.book(now, ticked.events, ticked.changes, done);
        }
    }
}

/// The most that is kept too little of what is promised, at any instant from now on.
fn shortfall(promised: &[Span], kept: &[Span], now: Time) -> u32 {
    let rest = promised.iter().filter(|span| span.interval.end > now);
    let short = rest.map(|span| {
        let interval = Interval::new(span.interval.begin.max(now), span.interval.end);
        let inside = |instant: &Time| interval.begin <= *instant && *instant < interval.end;
        let edges = kept.iter().flat_map(|span| [span.interval.begin, span.interval.end]);
        let instants = edges.filter(inside).chain([interval.begin]);
        let least = instants.map(|instant| backing::taken(kept, instant).0).min().unwrap_or(0);
        span.capacity.0.saturating_sub(least)
    });
    short.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(begin: i64, end: i64, capacity: u32) -> Span {
        Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
    }

    #[test]
    fn what_is_missing_is_the_most_that_is_kept_too_little_from_now_on() {
        assert_eq!(shortfall(&[span(10, 20, 4)], &[span(10, 20, 4)], Time(0)), 0);
        assert_eq!(shortfall(&[span(10, 20, 4)], &[], Time(0)), 4);
        assert_eq!(shortfall(&[span(10, 20, 4)], &[span(10, 15, 4), span(15, 20, 1)], Time(0)), 3);
        assert_eq!(shortfall(&[span(10, 20, 4)], &[span(12, 20, 4)], Time(12)), 0, "the past does not count");
        assert_eq!(shortfall(&[span(10, 20, 4)], &[], Time(20)), 0);
        assert_eq!(shortfall(&[span(10, 20, 4)], &[span(0, 30, 9)], Time(0)), 0);
    }
}
