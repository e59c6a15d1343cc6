//! Keeping ledger and batch system in agreement: capacity is ordered before it is promised, and compared with
//! every look. If the batch system cannot keep a promise, the ledger shows the missing capacity until it can.
//! No job is cancelled because of that.

use super::orders::{Keep, Ordered};
use super::{
    AWAY_COUNTS_AFTER, DOUBT_AFTER_SILENCE, LOOK_AGAIN, OnLostJournal, Site, SiteEvent, SiteFlaw, Step,
};
use crate::batch::{Backing, BatchError, BatchOrder, Look, OrderId, Seen, Tagged};
use crate::step::{Level, Notice, Remark};
use bookahead_plan::{Capacity, Seconds, Span, Time};
use bookahead_protocol::ledger::{self, Event, What, shortfall};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{Answer, Call, Caller, Moment, Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most alternative starts in the notice of a degraded reservation: enough to choose from.
const MOST_BEGINS: u32 = 3;

/// Reservations that lose capacity last.
type Spared = BTreeSet<ReservationId>;

/// Owner of an adopted reservation whose name was too short to carry one.
const UNKNOWN_OWNER: &str = "unknown";

/// Largest tolerated difference of clocks in seconds. Beyond it, reservations start noticeably earlier or
/// later than promised.
const MOST_SKEW: u64 = 2;

/// Most reservations named one by one in the log at a start.
const MOST_NAMED: usize = 100;

impl Site {
    /// The capacity that each degraded reservation misses.
    pub(super) fn missing(&self) -> BTreeMap<ReservationId, Capacity> {
        let resources = self.rules.resources.iter().map(|offered| &offered.resource.name);
        let degraded = resources.flat_map(|resource| self.ledger.degraded(resource));
        degraded.filter_map(|id| Some((id, self.ledger.entry(id)?.missing))).collect()
    }
}

/// Logs the reservations that lost capacity because the configured capacity is below what was promised, and how many
/// got capacity back. `before` is what they missed.
pub(super) fn say_missing(before: &BTreeMap<ReservationId, Capacity>, events: &[Event], step: &mut Step) {
    let changed = events.iter().filter_map(|event| match event.what {
        What::Missing { id, capacity } => Some((id, capacity, before.get(&id).copied().unwrap_or_default())),
        _ => None,
    });
    let (lost, back): (Vec<_>, Vec<_>) = changed.partition(|(_, now, before)| now > before);
    for (id, now, _) in lost.iter().take(MOST_NAMED) {
        let why = format!("the configured capacity is below the promised capacity; {now} are missing");
        step.remark(Remark::new(Level::Warn, "promises_exceed_capacity", why).of(*id));
    }
    if let Some(more) = lost.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
        let why =
            format!("the configured capacity is below the promised capacity of {more} more reservations");
        step.remark(Remark::new(Level::Warn, "promises_exceed_capacity", why));
    }
    if !back.is_empty() {
        let why = format!("{} degraded reservations got capacity back", back.len());
        step.remark(Remark::new(Level::Info, "promises_kept_again", why));
    }
}

impl Site {
    /// The spans to keep in the batch system: everything promised, even if some of it is missing. A claim on
    /// nodes that are away costs nothing, and secures them when they come back.
    pub(super) fn wanted(&self, id: ReservationId) -> Vec<Span> {
        let Some(entry) = self.ledger.entry(id) else { return Vec::new() };
        let gives_up = self.is_broken(SiteFlaw::GiveUpNodesAway)
            || self.is_broken(SiteFlaw::GiveUpAllAway) && entry.takes().is_empty();
        if gives_up { entry.takes() } else { entry.backed().to_vec() }
    }

    /// Orders the spans that the ledger promises, unless they are kept or an order is in progress.
    pub(super) fn order_keep(&mut self, id: ReservationId, step: &mut Step) {
        let wanted = self.wanted(id);
        self.order_spans(id, wanted, false, step);
    }

    fn order_spans(&mut self, id: ReservationId, spans: Vec<Span>, replaces: bool, step: &mut Step) {
        if !self.met && !self.is_broken(SiteFlaw::OrderBeforeLook) {
            return;
        }
        if spans.is_empty() && self.is_broken(SiteFlaw::KeepLateGrants) {
            return;
        }
        let known = self.ledger.entry(id).map(|entry| entry.resource.clone());
        let from = self.compared_from(step.now);
        let otherwise = self.is_kept_otherwise(id) && !spans.is_empty();
        let backing = self.backing(&Name::from(""), id, spans.clone());
        let keep = self.orders.keeps.entry(id).or_default();
        // A reservation never ordered and not seen is not kept.
        let kept = keep.kept.get_or_insert_with(Vec::new).clone();
        keep.resource = known.or(keep.resource.take());
        let Some(resource) = keep.resource.clone() else { return };
        let same = is_same(&kept, &spans, from);
        let needed = if same { replaces || otherwise } else { !replaces };
        if keep.ordered.is_some() || keep.stuck || !needed {
            return;
        }
        // Its capacity is still being released by another reservation. It is ordered again after that report.
        if self.orders.is_freed(id, &resource, &spans) {
            self.orders.postponed.insert(id);
            return;
        }
        let order = self.orders.next(step.now);
        let (shared_with, tres) = (backing.terms.let_in(), backing.tres.clone());
        self.orders.ordered(id, Ordered { order, spans, shared_with, tres, replaces });
        let backing = Backing { resource, replaces, ..backing };
        step.out.batch.push(BatchOrder::Keep { order, backing });
    }

    /// Handles the result of a keep order.
    pub(super) fn on_kept(
        &mut self,
        order: OrderId,
        id: ReservationId,
        outcome: Result<(), BatchError>,
        step: &mut Step,
    ) {
        self.orders.ended(step.now, order);
        if !self.asks() {
            if self.unsettled.get(&id).is_some_and(|(last, _)| *last == order) {
                self.unsettled.remove(&id);
            }
            return;
        }
        let Some(ordered) = self.orders.reported(id, order) else { return };
        let keep = self.orders.keeps.entry(id).or_default();
        match outcome {
            Ok(()) => {
                keep.kept = Some(ordered.spans.clone());
                keep.shared_with = Some(ordered.shared_with.clone());
                keep.tres = Some(ordered.tres.clone());
                self.kept(id, &ordered, step);
            }
            // Right after silence a refusal means little: nodes that have not reported yet count as busy.
            Err(BatchError::Refused(_)) if step.now < self.doubt_until => {
                keep.stuck = true;
                self.next_look = self.next_look.min(step.now + LOOK_AGAIN);
            }
            // A failed move leaves it on its nodes.
            Err(BatchError::Refused(_)) if ordered.replaces => keep.stuck = true,
            Err(BatchError::Refused(why)) => {
                keep.stuck = true;
                self.refused(id, &ordered, &why, step);
            }
            Err(BatchError::Unknown(why)) => {
                keep.kept = None;
                keep.stuck = true;
                self.note_unanswered(&why, step);
                self.next_look = self.next_look.min(step.now + LOOK_AGAIN);
            }
        }
        self.order_keep(id, step);
        for id in std::mem::take(&mut self.orders.postponed) {
            self.order_keep(id, step);
        }
    }

    /// The order was carried out: grants the request that waits for it, or updates the missing capacity.
    fn kept(&mut self, id: ReservationId, ordered: &Ordered, step: &mut Step) {
        let wanted = self.wanted(id);
        if !self.ledger.is_waiting(id) {
            let short = shortfall(&wanted, &ordered.spans, self.compared_from(step.now));
            let keep = self.orders.keeps.entry(id).or_default();
            // The rest is ordered after the next look; it was refused a moment ago.
            keep.stuck = short > 0;
            if ordered.replaces {
                (keep.away_since, keep.away_told) = (None, Capacity::ZERO);
            }
            return self.note_missing(id, short, step);
        }
        if ordered.spans != wanted || ordered.tres != self.tres_wanted(id) {
            return;
        }
        let since = self.ledger.entry(id).and_then(|entry| Some(entry.waiting.as_ref()?.since));
        if let Some(since) = since {
            self.note_hold_took(step.now - since);
        }
        let ticked = self.ledger.granted(step.now, id);
        self.book(ticked.events, ticked.changes, step);
    }

    /// The order was refused: refuses the request that waits for it, or degrades the reservation.
    fn refused(&mut self, id: ReservationId, ordered: &Ordered, why: &str, step: &mut Step) {
        if self.ledger.is_waiting(id) {
            if ordered.spans == self.wanted(id) && ordered.tres == self.tres_wanted(id) {
                let ticked = self.ledger.not_granted(step.now, id, Why::NotGranted(why.to_owned()));
                self.book(ticked.events, ticked.changes, step);
                // The ledger wants the previous spans again, which may differ from what is kept.
                self.orders.keeps.entry(id).or_default().stuck = false;
            }
            return;
        }
        let wanted = self.wanted(id);
        let from = self.compared_from(step.now);
        let keep = self.orders.keeps.entry(id).or_default();
        let short = shortfall(&wanted, keep.kept.as_deref().unwrap_or_default(), from);
        // Not ordered again for users or amounts alone: it would be refused with every look.
        let unshared =
            keep.shared_with.replace(ordered.shared_with.clone()).as_ref() != Some(&ordered.shared_with);
        let other_tres = keep.tres.replace(ordered.tres.clone()).as_ref() != Some(&ordered.tres);
        let otherwise = unshared && !ordered.shared_with.is_empty() || other_tres && !ordered.tres.is_empty();
        if short != keep.short || otherwise {
            step.remark(Remark::new(Level::Error, "backing_refused", why).of(id));
        }
        self.note_missing(id, short, step);
        if ordered.spans == wanted {
            self.order_what_there_is(id, short, step);
        }
    }

    /// After a whole promise was refused: orders as much of it as seems available, if that is more than is
    /// kept; otherwise releases spans that are kept but not promised.
    fn order_what_there_is(&mut self, id: ReservationId, short: u32, step: &mut Step) {
        let Some(entry) = self.ledger.entry(id) else { return };
        let could_have = self.ledger.could_have(id, self.facts.views.on(&entry.resource));
        let all = entry.spans.iter().map(|span| span.capacity.0).max().unwrap_or(0);
        let (wanted, mut missing) = (self.wanted(id), all.saturating_sub(could_have.0));
        let from = self.compared_from(step.now);
        let keep = self.orders.keeps.entry(id).or_default();
        // If everything seems available, the batch system knows better: it refused.
        if missing == 0 || missing >= short {
            let surplus = shortfall(keep.kept.as_deref().unwrap_or_default(), &wanted, from);
            missing = if surplus > 0 { short } else { 0 };
        }
        if missing > 0 {
            keep.stuck = false;
            self.order_spans(id, ledger::less(&wanted, Capacity(missing)), false, step);
        }
    }

    /// Reports the missing capacity to the ledger: the part not kept, plus the part on nodes that are away.
    fn note_missing(&mut self, id: ReservationId, short: u32, step: &mut Step) {
        let now = step.now;
        let keep = self.orders.keeps.entry(id).or_default();
        keep.short = short;
        let away = keep.away_told.0;
        let Some(entry) = self.ledger.entry(id) else { return };
        let all = entry.spans.iter().map(|span| span.capacity.0).max().unwrap_or(0);
        let kept = all.saturating_sub(short).saturating_sub(away);
        let ticked = self.ledger.kept(now, id, Capacity(kept));
        self.book(ticked.events, ticked.changes, step);
    }

    pub(super) fn order_look(&mut self, step: &mut Step) {
        if self.orders.look.is_none() {
            let order = self.orders.next(step.now);
            self.orders.look = Some(order);
            step.out.batch.push(BatchOrder::Look { order });
        }
        self.next_look = step.now + self.options.look_every;
    }

    /// Handles a look, or its failure.
    pub(super) fn on_look(
        &mut self,
        order: Option<OrderId>,
        at: Moment,
        outcome: Result<Look, BatchError>,
        step: &mut Step,
    ) {
        if let Some(order) = order {
            // One look may serve several orders, and reports the newest of them.
            if let Some(look) = self.orders.look.take_if(|look| *look <= order) {
                self.orders.ended(step.now, look);
            }
        }
        let look = match outcome {
            Ok(look) => look,
            Err(why) => {
                self.note_silence(&why.to_string(), step);
                self.next_look = self.next_look.min(step.now + LOOK_AGAIN);
                return;
            }
        };
        // A look that was not ordered decides nothing, and before the first decision the site must not seem to know what
        // the batch system has: reservations there may have to be adopted.
        if order.is_none() && self.asks() && !self.met {
            return;
        }
        if self.is_silent() {
            self.doubt_until = step.now + DOUBT_AFTER_SILENCE;
        }
        if step.now < self.doubt_until {
            // Looks again as soon as failures are believed again.
            self.next_look = self.next_look.min(self.doubt_until);
        }
        self.note_look(at, &look, step);
        self.note_skew(&look, step);
        self.note_unreadable(&look, step);
        self.note_restored(&look, step);
        if !self.asks() {
            for (resource, seen) in &look.resources {
                self.note_lost(resource, seen.lost, Some(&seen.in_use), step);
            }
            if order.is_some() {
                self.reconcile_jobs(order, &look, step);
            }
            return;
        }
        let Some(order) = order else { return };
        if !self.meet(&look, step) {
            return;
        }
        self.learn(order, &look);
        // Order matters: losses on nodes that are away are attributed first, so that capacity that failed in
        // total does not degrade reservations whose nodes are up.
        let judged = self.note_away(&look, step);
        let first = step.out.batch.len();
        self.agree(order, &look, step);
        for resource in judged {
            let seen = &look.resources[&resource];
            let kept = seen.backings.keys().copied().filter(|id| self.is_kept(*id, step.now)).collect();
            self.note_lost(&resource, seen.lost, Some(&kept), step);
        }
        self.keep_no_less(first, step);
        self.reconcile_jobs(Some(order), &look, step);
        self.note_jobs_gone(order, &look, step);
        self.orders.forget_shown(order);
    }

    /// Decides about existing reservations with a new ledger: adopts them, leaves them to be deleted, or
    /// stops. Returns whether the site may continue.
    fn meet(&mut self, look: &Look, step: &mut Step) -> bool {
        let on_lost = self.options.on_lost_journal;
        let Some(what) = on_lost.filter(|_| !self.met && !self.opened && self.ledger.is_unused()) else {
            self.met = true;
            return true;
        };
        if what == OnLostJournal::Ask && !look.tagged.is_empty() {
            step.out.stop = Some(format!(
                "the journal is new, but the batch system has {} reservations of this site; start with --adopt to take \
                 them over, with --remove-found to delete them, or with the lost journal",
                look.tagged.len()
            ));
            return false;
        }
        let found = if what == OnLostJournal::Adopt { look.tagged.as_slice() } else { &[] };
        for Tagged { id, owner, resource, spans, tres } in found {
            let owner = owner.clone().unwrap_or_else(|| UNKNOWN_OWNER.into());
            let remark = Remark::new(
                Level::Warn,
                "reservation_adopted",
                format!("adopted an existing reservation for {owner}"),
            );
            step.remark(remark.of(*id).at(resource.clone()));
            let ticked = self.ledger.adopt(step.now, *id, &owner, resource, spans, tres);
            self.book(ticked.events, ticked.changes, step);
        }
        // Reservations found from now on belong to this ledger.
        (self.met, self.opened) = (true, true);
        step.out.events.push(SiteEvent::Opened);
        true
    }

    /// Updates what is kept from a look, except for reservations with a newer order.
    fn learn(&mut self, order: OrderId, look: &Look) {
        let mut seen: BTreeMap<ReservationId, (Name, Vec<Span>)> = BTreeMap::new();
        for (resource, on) in &look.resources {
            for (id, spans) in &on.backings {
                seen.insert(*id, (resource.clone(), spans.clone()));
            }
        }
        let known: BTreeSet<ReservationId> = self.orders.keeps.keys().chain(seen.keys()).copied().collect();
        for id in known.into_iter().filter(|id| self.orders.is_shown_by(*id, order)).collect::<Vec<_>>() {
            let keep = self.orders.keeps.entry(id).or_default();
            keep.stuck = false;
            match seen.remove(&id) {
                Some((resource, spans)) => (keep.resource, keep.kept) = (Some(resource), Some(spans)),
                None => keep.kept = Some(Vec::new()),
            }
        }
    }

    /// Orders everything that is promised and not kept, and releases everything that is kept and not
    /// promised.
    fn agree(&mut self, order: OrderId, look: &Look, step: &mut Step) {
        let mut ids: BTreeSet<ReservationId> = self.orders.keeps.keys().copied().collect();
        for offered in &self.rules.resources {
            ids.extend(self.ledger.reserved(&offered.resource.name).map(|(id, _)| id));
            ids.extend(self.ledger.degraded(&offered.resource.name));
        }
        for id in ids {
            if !self.orders.is_shown_by(id, order) {
                continue;
            }
            let kept = self.orders.keeps.get(&id).and_then(|keep| keep.kept.clone()).unwrap_or_default();
            let wanted = self.wanted(id);
            let same = is_same(&kept, &wanted, self.compared_from(step.now));
            // A change of amounts alone does not show in the spans: it is ordered again.
            let entry = self.ledger.entry(id);
            let same_tres = entry.is_none_or(|entry| *entry.tres() == entry.kept_tres());
            if self.ledger.is_waiting(id) && same && same_tres {
                // It was carried out, although the report got lost.
                let (spans, shared_with, tres) = (wanted.clone(), BTreeSet::new(), self.tres_wanted(id));
                let ordered = Ordered { order, spans, shared_with, tres, replaces: false };
                self.kept(id, &ordered, step);
            }
            if wanted.is_empty() && !kept.is_empty() {
                self.give_back_orphan(id, look, step);
                continue;
            }
            // It may be whole once the batch system has heard from all nodes again.
            let in_doubt = step.now < self.doubt_until;
            if in_doubt && !kept.is_empty() && shortfall(&wanted, &kept, self.compared_from(step.now)) > 0 {
                continue;
            }
            let keep = self.orders.keeps.entry(id).or_default();
            let moves = keep.away_since.is_some_and(|since| since + self.options.move_after <= step.now);
            if same && keep.short > 0 {
                self.note_missing(id, 0, step);
            }
            self.order_spans(id, wanted, same && moves && !in_doubt, step);
        }
    }

    fn give_back_orphan(&mut self, id: ReservationId, look: &Look, step: &mut Step) {
        let on = look.resources.iter().find(|(_, on): &(&Name, &Arc<Seen>)| on.backings.contains_key(&id));
        let mut remark = Remark::new(
            Level::Warn,
            "orphan_backing_removed",
            "deleting a reservation in the batch system that is not in the journal",
        )
        .of(id);
        remark.name = on.map(|(resource, _)| resource.clone());
        step.remark(remark);
        step.out.notices.push((step.out.events.len(), Notice::about(step.now, "orphan-removed", id)));
        self.order_spans(id, Vec::new(), false, step);
    }

    /// Records which reservations are on nodes that are away. Returns the resources on which that counts:
    /// short absences do not.
    fn note_away(&mut self, look: &Look, step: &mut Step) -> BTreeSet<Name> {
        let mut judged = BTreeSet::new();
        for (resource, seen) in &look.resources {
            let keeps =
                || self.orders.keeps.iter().filter(|(_, keep)| keep.resource.as_ref() == Some(resource));
            let away = |id: &ReservationId| seen.away.get(id).copied().unwrap_or(Capacity::ZERO);
            let more = keeps().any(|(id, keep)| away(id) > keep.away_told);
            let judges = if more || seen.lost > self.ledger.lost_capacity(resource) {
                // Nodes away at the start of the site were away before.
                let new = if self.looked_once { step.now } else { Moment(0) };
                let counts_at = *self.away_since.entry(resource.clone()).or_insert(new) + AWAY_COUNTS_AFTER;
                self.next_look = self.next_look.min(counts_at.max(step.now + LOOK_AGAIN));
                counts_at <= step.now && self.doubt_until <= step.now
            } else {
                true
            };
            for (id, keep) in &mut self.orders.keeps {
                if keep.resource.as_ref() == Some(resource) {
                    let away = away(id);
                    keep.away_since = (away > Capacity::ZERO).then(|| keep.away_since.unwrap_or(step.now));
                    keep.away_told = if judges { away } else { away.min(keep.away_told) };
                }
            }
            if judges {
                self.away_since.remove(resource);
                judged.insert(resource.clone());
                // No reservation loses capacity before it is known which ones are on the nodes that are away.
                self.note_lost(resource, seen.lost, None, step);
            }
        }
        self.looked_once = true;
        let misses = |id: ReservationId, keep: &Keep| {
            let missing = self.ledger.entry(id).map_or(Capacity::ZERO, |entry| entry.missing);
            !self.ledger.is_waiting(id) && keep.away_told.max(missing) > Capacity::ZERO
        };
        let missing = self.orders.keeps.iter().filter(|(id, keep)| misses(**id, keep));
        for (id, short) in missing.map(|(id, keep)| (*id, keep.short)).collect::<Vec<_>>() {
            self.note_missing(id, short, step);
        }
        judged
    }

    /// Reports newly failed capacity to the ledger.
    fn note_lost(&mut self, name: &Name, lost: Capacity, spared: Option<&Spared>, step: &mut Step) {
        let more = lost.0.saturating_sub(self.ledger.lost_capacity(name).0);
        let ticked = self.ledger.lost(step.now, name, Capacity(more), spared);
        self.book(ticked.events, ticked.changes, step);
    }

    /// Whether the whole promise is known to be kept.
    fn is_kept(&self, id: ReservationId, now: Moment) -> bool {
        let kept = self.orders.keeps.get(&id).and_then(|keep| keep.kept.as_deref());
        kept.is_some_and(|kept| shortfall(&self.wanted(id), kept, self.compared_from(now)) == 0)
    }

    /// Reports recovered capacity to the ledger.
    fn note_restored(&mut self, look: &Look, step: &mut Step) {
        for (resource, seen) in &look.resources {
            let known = self.ledger.lost_capacity(resource);
            if seen.lost < known {
                let ticked = self.ledger.restored(step.now, resource, Capacity(known.0 - seen.lost.0));
                self.book(ticked.events, ticked.changes, step);
            }
        }
    }

    /// Logs when the clocks of site and batch system start to differ, and when they agree again.
    fn note_skew(&mut self, look: &Look, step: &mut Step) {
        let skew = look.clocks.map_or(Seconds::ZERO, |clocks| clocks.skew());
        let differs = |skew: Seconds| skew.0.unsigned_abs() > MOST_SKEW;
        match (differs(self.skew), differs(skew)) {
            (false, true) => {
                let why = format!(
                    "the batch system's clock is {} s ahead of the site's, so reservations do not start at \
                     the promised time; synchronize both machines with a time server",
                    skew.0
                );
                step.remark(Remark::new(Level::Error, "clocks_differ", why));
            }
            (true, false) => {
                let why = "the batch system's clock agrees with the site's again";
                step.remark(Remark::new(Level::Info, "clocks_agree", why));
            }
            _ => {}
        }
        self.skew = skew;
    }

    /// The time from which promised and kept spans are compared. A span that is over by either clock is no
    /// longer kept.
    fn compared_from(&self, now: Moment) -> Time {
        now.second() + self.skew.max(Seconds::ZERO)
    }

    /// Logs the number of records that could not be parsed, when it changes.
    fn note_unreadable(&mut self, look: &Look, step: &mut Step) {
        let count = look.unreadable.len();
        if count == std::mem::replace(&mut self.unreadable, count) {
            return;
        }
        // The first five are enough to find the cause.
        let first = look.unreadable.iter().take(5).cloned().collect::<Vec<_>>().join(", ");
        step.remark(match count {
            0 => Remark::new(
                Level::Info,
                "records_readable",
                "all records of the batch system can be parsed again",
            ),
            _ => {
                let why =
                    format!("{count} records of the batch system cannot be parsed and are left out: {first}");
                Remark::new(Level::Warn, "records_unreadable", why)
            }
        });
    }

    /// Starts at which a reservation would be whole, within its owner's window.
    pub(super) fn could_begin(&mut self, now: Moment, id: ReservationId) -> Vec<Time> {
        let Some(entry) = self.ledger.entry(id) else { return Vec::new() };
        let call = Call::Probe { request: (*entry.request).clone(), most: MOST_BEGINS, starts: Vec::new() };
        let caller = Caller { user: entry.owner.clone(), roles: Vec::new() };
        let views = self.facts.views.clone();
        match self.ledger.ask(now, &caller, &call, &views) {
            Answer::Offers(offers) => {
                let slots = offers.iter().filter_map(|offer| offer.slots.first());
                slots.map(|slot| slot.interval.begin).collect()
            }
            Answer::Problem(_) | Answer::Reservation(_) => Vec::new(),
        }
    }
}

/// Whether both keep the same from now on, in any number of pieces. The past is ignored, because not every
/// batch system shows it.
fn is_same(one: &[Span], other: &[Span], now: Time) -> bool {
    shortfall(one, other, now) == 0 && shortfall(other, one, now) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lost_capacity_is_a_warning_and_it_names_its_reservation() {
        let event = |id: u128, missing: u32| Event {
            at: Moment(0),
            what: What::Missing { id: ReservationId(id), capacity: Capacity(missing) },
        };
        let before = BTreeMap::from([(ReservationId(1), Capacity(4)), (ReservationId(2), Capacity(1))]);
        let mut step = Step::new(Moment(0));
        say_missing(&before, &[event(1, 0), event(2, 3), event(3, 2)], &mut step);
        let said = step.out.remarks.iter().map(|remark| (remark.level, remark.event, remark.reservation));
        let lost = "promises_exceed_capacity";
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                (Level::Warn, lost, Some(ReservationId(2))),
                (Level::Warn, lost, Some(ReservationId(3))),
                (Level::Info, "promises_kept_again", None)
            ]
        );
    }
}
