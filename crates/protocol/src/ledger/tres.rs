//! The things of a resource beside its capacity: one profile for each. A reservation takes its amounts from its begin
//! to its end, whatever happens to its capacity in between. A slot must fit the profile of the capacity and that of
//! each requested thing. A request without such things touches none of this.

use super::entry::{Entry, Then, Waiting};
use super::sight::Free;
use super::spans::{both, since};
use crate::ids::Name;
use crate::problem::Why;
use crate::tres::Tres;
use bookahead_plan::{Capacity, Interval, Need, Profile, Seconds, Span, Time};
use std::collections::BTreeMap;

/// Spans by the name of the thing.
pub(super) type TresSpans = BTreeMap<Name, Vec<Span>>;

/// What live reservations leave of each thing of a resource.
#[derive(Clone)]
pub(super) struct TresBook(BTreeMap<Name, (Capacity, Profile)>);

/// One requested thing: its profile and the requested amount.
pub(super) struct TresNeed<'a> {
    name: &'a Name,
    free: &'a Profile,
    amount: Capacity,
}

impl TresBook {
    pub(super) fn new(totals: &Tres) -> TresBook {
        let profile = |total| (total, Profile::new(total, Time::MIN));
        TresBook(totals.iter().map(|(name, total)| (name.clone(), profile(total))).collect())
    }

    pub(super) fn advance(&mut self, now: Time) {
        self.0.values_mut().for_each(|(_, profile)| {
            profile.advance(now);
        });
    }

    pub(super) fn add(&mut self, spans: &TresSpans) {
        self.each(spans, Profile::add);
    }

    pub(super) fn remove(&mut self, spans: &TresSpans) {
        self.each(spans, Profile::remove);
    }

    /// Things that the resource no longer has are skipped.
    fn each(&mut self, spans: &TresSpans, change: impl Fn(&mut Profile, Span)) {
        for (name, spans) in spans {
            if let Some((_, profile)) = self.0.get_mut(name) {
                spans.iter().for_each(|span| change(profile, *span));
            }
        }
    }

    /// Amounts taken in one second, without zeros.
    pub(super) fn taken_in(&self, second: Time) -> BTreeMap<Name, i64> {
        let taken = |(total, profile): &(Capacity, Profile)| i64::from(total.0) - profile.free_at(second);
        let all = self.0.iter().map(|(name, one)| (name.clone(), taken(one)));
        all.filter(|(_, taken)| *taken != 0).collect()
    }

    /// Sets the amounts taken in one second; other seconds stay as they are.
    pub(super) fn set_taken_in(&mut self, second: Time, taken: &BTreeMap<Name, i64>) {
        let now = self.taken_in(second);
        for (name, (_, profile)) in &mut self.0 {
            let of = |all: &BTreeMap<Name, i64>| all.get(name).copied().unwrap_or(0);
            super::book::take_more(profile, second, of(taken).saturating_sub(of(&now)));
        }
    }

    /// The profiles of the requested things. [`crate::Resource::suits`] has made sure that all exist.
    pub(super) fn needs<'a>(&'a self, wanted: &'a Tres) -> Vec<TresNeed<'a>> {
        let need = |(name, amount): (&'a Name, Capacity)| {
            let (_, free) = self.0.get(name)?;
            Some(TresNeed { name, free, amount })
        };
        wanted.iter().filter_map(need).collect()
    }
}

impl TresNeed<'_> {
    fn need(&self, length: Seconds) -> Need {
        Need { capacity: self.amount, length }
    }

    pub(super) fn fits(&self, start: Time, length: Seconds) -> bool {
        self.free.fits(start, self.need(length))
    }

    pub(super) fn earliest_fit(&self, from: Time, length: Seconds, deadline: Option<Time>) -> Option<Time> {
        self.free.earliest_fit(from, self.need(length), deadline)
    }

    /// When less than the amount is free for the first time.
    pub(super) fn blocked(&self, from: Time) -> Option<Time> {
        self.free.first_below(from, i64::from(self.amount.0)).map(|(below, _)| below)
    }

    fn free_in(&self, interval: Interval) -> Capacity {
        Capacity(u32::try_from(self.free.min_free(interval).max(0)).unwrap_or(u32::MAX))
    }

    /// The largest amount that fits somewhere in the window, at most the requested one.
    fn most(&self, from: Time, length: Seconds, deadline: Time) -> Capacity {
        let fits = |amount: u32| {
            let need = Need { capacity: Capacity(amount), length };
            amount == 0 || self.free.earliest_fit(from, need, Some(deadline)).is_some()
        };
        // Invariant: `low` fits, `high` does not.
        let (mut low, mut high) = (0, self.amount.0.saturating_add(1));
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if fits(middle) { low = middle } else { high = middle }
        }
        Capacity(low)
    }
}

impl Free<'_> {
    /// What is free of each requested thing throughout an interval.
    pub(super) fn tres_in(&self, interval: Interval) -> Tres {
        Tres(self.tres.iter().map(|need| (need.name.clone(), need.free_in(interval))).collect())
    }

    /// The refusal if only the things beside the capacity are in the way.
    pub(super) fn short_of(&self, from: Time, need: Need, deadline: Time) -> Option<Why> {
        let without = Free { tres: &[], ..*self };
        if self.tres.is_empty() || without.earliest_fit(from, need, Some(deadline)).is_none() {
            return None;
        }
        let wanted = self.tres.iter().map(|one| (one.name.clone(), one.amount));
        let most = |one: &TresNeed<'_>| one.most(from, need.length, deadline);
        let free = self.tres.iter().map(|one| (one.name.clone(), most(one)));
        let (wanted, free) = (Box::new(Tres(wanted.collect())), Box::new(Tres(free.collect())));
        Some(Why::ShortOf { wanted, free })
    }
}

impl Entry {
    /// Its amounts beside the capacity.
    pub fn tres(&self) -> &Tres {
        const NONE: &Tres = &Tres(BTreeMap::new());
        self.current_request().parts.first().map_or(NONE, |part| &part.tres)
    }

    /// Its amounts after the pending change, if there is one.
    pub(super) fn prepared_tres(&self) -> &Tres {
        match &self.waiting {
            Some(Waiting { then: Then::Change { request: Some(request), .. }, .. }) => {
                request.parts.first().map_or(self.tres(), |part| &part.tres)
            }
            _ => self.tres(),
        }
    }

    /// The amounts to keep in the batch system: during a pending change, the larger of old and new terms.
    pub fn kept_tres(&self) -> Tres {
        let mut kept = self.tres().clone();
        for (name, amount) in self.prepared_tres().iter() {
            let larger = kept.of(name).max(amount);
            kept.0.insert(name.clone(), larger);
        }
        kept
    }

    /// The amounts that it takes while it is live. During a pending change: the larger of old and new terms.
    pub(super) fn tres_taken(&self) -> TresSpans {
        let mut taken = TresSpans::new();
        if !self.is_live() {
            return taken;
        }
        let mut take = |tres: &Tres, interval: Interval| {
            for (name, capacity) in tres.iter() {
                let spans = taken.entry(name.clone()).or_default();
                *spans = both(spans, &[Span { interval, capacity }]);
            }
        };
        take(self.tres(), self.interval());
        if let Some(Waiting { then: Then::Change { spans, .. }, .. }) = &self.waiting
            && let (Some(first), Some(last)) = (spans.first(), spans.last())
        {
            take(self.prepared_tres(), Interval::new(first.interval.begin, last.interval.end));
        }
        taken
    }
}

/// The part of all spans from an instant on.
pub(super) fn all_since(spans: &TresSpans, instant: Time) -> TresSpans {
    spans.iter().map(|(name, spans)| (name.clone(), since(spans, instant))).collect()
}
