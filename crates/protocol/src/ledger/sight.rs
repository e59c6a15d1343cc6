//! One resource from the view of a requester: the capacity left by reservations, running jobs and promised
//! jobs, and the rating of a start.
//!
//! Jobs are added to the ledger's own profile for the duration of a look and removed afterwards. A profile is
//! a function of its contents, so no trace remains. Queue plans first use only reservations before a cut, and
//! are repeated with a later cut as long as a plan reaches beyond it
//! ([`bookahead_plan::placement::Prober::looked_until`]). Their cost depends on the reservations during the
//! queue, not on how far ahead the ledger reaches.

use super::book::Book;
use super::decision::{Context, View, Views};
use super::entry::Entry;
use super::notice::ResourceNotice;
use super::rules::Offered;
use super::state::{Ledger, Memory};
use super::tres::TresNeed;
use crate::ids::{Name, ReservationId};
use crate::tres::Tres;
use bookahead_plan::notice::History;
use bookahead_plan::placement::{Method, Prober};
use bookahead_plan::{Capacity, Cluster, Interval, Need, Profile, Seconds, Span, Starts, Time, Waiting};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The parameters of a look at a resource.
#[derive(Clone, Copy)]
pub(super) struct Looker<'a> {
    pub(super) now: Time,
    /// The user whose share counts.
    pub(super) user: &'a Name,
    /// The share in percent, if limited.
    pub(super) share: Option<u32>,
    /// A reservation whose capacity counts as free.
    pub(super) without: Option<ReservationId>,
    /// A reservation that does not count for the share.
    pub(super) beside: Option<ReservationId>,
    /// The number of its priority class. Waiting jobs of lower classes do not count.
    pub(super) priority: i32,
    /// The jobs of all resources.
    pub(super) views: &'a Views,
    /// Requested amounts beside the capacity.
    pub(super) tres: &'a Tres,
}

impl<'a> Looker<'a> {
    /// Without a limited share, and with no reservation counted as free.
    pub(super) fn new(ctx: Context<'a>, user: &'a Name, priority: i32, tres: &'a Tres) -> Looker<'a> {
        let (now, views) = (ctx.now.second(), ctx.views);
        Looker { now, user, share: None, without: None, beside: None, priority, views, tres }
    }

    /// The waiting jobs that count.
    fn counted(&self, view: &'a View) -> Cow<'a, [Waiting]> {
        let counts = |job: &&Waiting| !view.by_class || job.priority >= self.priority;
        if view.waiting.iter().all(|job| counts(&job)) {
            return Cow::Borrowed(&view.waiting);
        }
        Cow::Owned(view.waiting.iter().filter(counts).copied().collect())
    }
}

/// The view of one resource.
pub(super) struct Sight<'a> {
    pub(super) on: Resource<'a>,
    pub(super) free: Free<'a>,
    /// The waiting jobs that are in the profile.
    pub(super) promised: &'a [Span],
    pub(super) memory: &'a mut Memory,
}

/// The reservations of one resource by start.
#[derive(Clone, Copy)]
pub(super) struct Reservations<'a> {
    entries: &'a BTreeMap<ReservationId, Entry>,
    begins: &'a BTreeSet<(Time, ReservationId)>,
    without: Option<ReservationId>,
}

impl<'a> Reservations<'a> {
    /// The intervals of reservations that start before an instant, latest first.
    pub(super) fn before_reversed(self, instant: Time) -> impl Iterator<Item = Interval> + 'a {
        let ids = self.begins.range(..(instant, ReservationId(0))).rev().map(|(_, id)| *id);
        let ids = ids.filter(move |id| Some(*id) != self.without);
        ids.filter_map(move |id| self.entries.get(&id)).map(Entry::interval)
    }

    /// Lists the spans of reservations that start before `cut`; returns whether those are all.
    fn list(&self, cut: Time, into: &mut Vec<Span>) -> bool {
        let ids = self.begins.range(..(cut, ReservationId(0))).map(|(_, id)| id);
        for entry in ids.filter(|id| Some(**id) != self.without).filter_map(|id| self.entries.get(id)) {
            if entry.missing == Capacity::ZERO && entry.waiting.is_none() {
                into.extend_from_slice(&entry.spans);
            } else {
                into.extend(entry.takes());
            }
        }
        self.begins.last().is_none_or(|(last, _)| *last < cut)
    }
}

impl Ledger {
    /// Calls `see` with the view of a resource. The profile is restored afterwards.
    pub(super) fn look<R>(
        &mut self,
        at: usize,
        looker: &Looker<'_>,
        see: impl FnOnce(&mut Sight<'_>) -> R,
    ) -> R {
        let Ledger { rules, entries, books, memory, .. } = self;
        let (offered, book) = (&rules.resources[at], &mut books[at]);
        let view = looker.views.on(&offered.resource.name);
        let capacity = book.standing();
        let Book { profile, begins, shares, waits, tres, .. } = book;
        let (notice, waits) = (rules.notices.get(&offered.resource.name), &waits.history);
        let mut left = shares.as_mut().and_then(|shares| shares.get_mut(looker.user));
        let own = looker.without.and_then(|id| entries.get(&id));
        let taken = own.map(Entry::takes).unwrap_or_default();
        // Without requested things there is nothing to do for them.
        let own_tres = own.filter(|_| !looker.tres.is_empty()).map(Entry::tres_taken).unwrap_or_default();
        let here = |entry: &&Entry| entry.resource == offered.resource.name;
        let beside = looker.beside.and_then(|id| entries.get(&id)).filter(here);
        let promised = own.or(beside).map(Entry::promised).unwrap_or_default();
        // From here on everything done to the profiles is undone below, in the same function.
        taken.iter().for_each(|&span| profile.remove(span));
        tres.remove(&own_tres);
        if !looker.tres.is_empty() {
            tres.add(&view.tres);
        }
        if let Some(left) = &mut left {
            promised.iter().for_each(|&span| left.remove(span));
        }
        let reservations = Reservations { entries, begins, without: looker.without };
        let mut added = present(view, looker.now);
        added.iter().for_each(|&span| profile.add(span));
        let jobs = added.len();
        let (now, counted) = (looker.now, &*looker.counted(view));
        let on = Resource { offered, notice, waits, view, counted, now, capacity, reservations };
        on.add_promised(profile, memory, &mut added);
        let share =
            looker.share.map(|percent| Share { most: hundredths(offered, percent), left: left.as_deref() });
        let needs = tres.needs(looker.tres);
        let free = Free { room: profile, share, tres: &needs };
        let seen = see(&mut Sight { on, free, promised: &added[jobs..], memory });
        added.iter().for_each(|&span| profile.remove(span));
        taken.iter().for_each(|&span| profile.add(span));
        if !looker.tres.is_empty() {
            tres.remove(&view.tres);
        }
        tres.add(&own_tres);
        if let Some(left) = left {
            promised.iter().for_each(|&span| left.add(span));
        }
        seen
    }
}

/// The spans of running jobs and foreign reservations.
fn present(view: &View, now: Time) -> Vec<Span> {
    // A job beyond its expected end is still there, so it takes at least the current second.
    let running = view.running.iter().map(|job| {
        let length = (job.expected_end - now).max(Seconds(1));
        Span::starting(now, length, job.capacity)
    });
    running.chain(view.foreign.iter().copied()).collect()
}

/// A percentage of a resource, rounded down.
fn hundredths(offered: &Offered, percent: u32) -> Capacity {
    let most = u64::from(offered.resource.capacity.0) * u64::from(percent) / 100;
    Capacity(u32::try_from(most).unwrap_or(u32::MAX))
}

#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    pub(super) offered: &'a Offered,
    pub(super) notice: Option<&'a ResourceNotice>,
    pub(super) waits: &'a History,
    pub(super) view: &'a View,
    /// The waiting jobs that decide where the request goes.
    pub(super) counted: &'a [Waiting],
    pub(super) now: Time,
    /// Capacity that has not failed.
    pub(super) capacity: Capacity,
    pub(super) reservations: Reservations<'a>,
}

impl Resource<'_> {
    /// Adds the waiting jobs that a reservation must not delay: the first one, or all if local jobs are
    /// preferred.
    fn add_promised(&self, profile: &mut Profile, memory: &mut Memory, added: &mut Vec<Span>) {
        if self.counted.is_empty() {
            return;
        }
        let from = added.len();
        let placement = &self.offered.placement;
        if matches!(placement.method, Method::EarliestStart { local_jobs_preferred: true }) {
            let planned = self.plan(memory, self.counted, |prober, cluster| {
                let planned = prober.planned(placement.policy, cluster).to_vec();
                (planned, prober.looked_until())
            });
            added.extend(planned.iter().zip(self.counted).map(|(&start, job)| place(start, job)));
        } else if let Some(first) = self.first()
            && let Some(start) = profile.earliest_fit(self.now, first.need(), None)
        {
            added.push(place(start, first));
        }
        added[from..].iter().for_each(|&span| profile.add(span));
    }

    /// The first waiting job that can ever start.
    fn first(&self) -> Option<&Waiting> {
        let able = self.counted.iter().filter(|job| job.capacity <= self.capacity);
        self.offered.placement.policy.order().first(able, self.now, self.capacity)
    }

    /// Makes a plan for `waiting` jobs with only the reservations it depends on. `make` returns the plan and the instant that it
    /// depends on.
    pub(super) fn plan<R>(
        &self,
        memory: &mut Memory,
        waiting: &[Waiting],
        mut make: impl FnMut(&mut Prober, &Cluster<'_>) -> (R, Time),
    ) -> R {
        let mut cut = self.first_cut();
        loop {
            memory.spans.clear();
            let mut all = self.reservations.list(cut, &mut memory.spans);
            // Recurring maintenance reaches years ahead.
            let near = self.view.foreign.iter().filter(|span| span.interval.begin < cut);
            let before = memory.spans.len();
            memory.spans.extend(near);
            all &= memory.spans.len() - before == self.view.foreign.len();
            let cluster = Cluster {
                capacity: self.capacity,
                now: self.now,
                running: &self.view.running,
                waiting,
                reservations: &memory.spans,
            };
            let (made, until) = make(&mut memory.prober, &cluster);
            if all || until <= cut {
                return made;
            }
            // At least doubled, so the number of repetitions stays logarithmic.
            cut = (cut + (cut - self.now)).max(until);
        }
    }

    /// A guess when the queue will be empty, on the late side: twice the work at full capacity.
    fn first_cut(&self) -> Time {
        let work = self
            .view
            .waiting
            .iter()
            .map(|job| i128::from(job.estimate.0.max(1)) * i128::from(job.capacity.0));
        let work = work.sum::<i128>() * 2 / i128::from(self.capacity.0.max(1));
        let longest = self.view.waiting.iter().map(|job| job.estimate).max().unwrap_or_default();
        let busy =
            self.view.running.iter().map(|job| job.expected_end).max().unwrap_or(self.now).max(self.now);
        busy + Seconds(i64::try_from(work).unwrap_or(i64::MAX)) + longest + Seconds(1)
    }
}

fn place(start: Time, job: &Waiting) -> Span {
    Span::starting(start, job.estimate.max(Seconds(1)), job.capacity)
}

/// The capacity available to a user.
#[derive(Clone, Copy)]
pub(super) struct Free<'a> {
    /// Available to all users.
    pub(super) room: &'a Profile,
    /// The user's limited share.
    pub(super) share: Option<Share<'a>>,
    /// The requested things beside the capacity.
    pub(super) tres: &'a [TresNeed<'a>],
}

#[derive(Clone, Copy)]
pub(super) struct Share<'a> {
    /// Most capacity at any instant.
    pub(super) most: Capacity,
    /// [`u32::MAX`] less the capacity promised to the user. None if the user has nothing.
    pub(super) left: Option<&'a Profile>,
}

impl Share<'_> {
    /// The need in terms of `left`. None if it exceeds the whole share.
    fn need(&self, need: Need) -> Option<Need> {
        // `left` counts from u32::MAX, not from the share, so it stays valid when limits change.
        let beyond = u32::MAX - self.most.0;
        let capacity = need.capacity.0.checked_add(beyond)?;
        Some(Need { capacity: Capacity(capacity), ..need })
    }

    /// Most capacity that the user has at any instant of an interval.
    pub(super) fn has(&self, interval: Interval) -> u32 {
        let left = self.left.map_or(i64::from(u32::MAX), |left| left.min_free(interval));
        u32::try_from(i64::from(u32::MAX) - left).unwrap_or(u32::MAX)
    }
}

impl Free<'_> {
    pub(super) fn fits(&self, start: Time, need: Need) -> bool {
        let in_share = self.share.is_none_or(|share| {
            let left = share.need(need).map(|need| share.left.is_none_or(|left| left.fits(start, need)));
            left.unwrap_or(false)
        });
        in_share && self.room.fits(start, need) && self.tres.iter().all(|tres| tres.fits(start, need.length))
    }

    /// The earliest start from `from` on that ends by the deadline.
    pub(super) fn earliest_fit(&self, from: Time, need: Need, deadline: Option<Time>) -> Option<Time> {
        let own = match self.share {
            Some(share) => share.left.zip(Some(share.need(need)?)),
            None => None,
        };
        // Goes round the profiles: each moves the start later, until none does.
        let mut start = from;
        loop {
            let before = start;
            start = self.room.earliest_fit(start, need, deadline)?;
            if let Some((left, own)) = own {
                start = left.earliest_fit(start, own, deadline)?;
            }
            for tres in self.tres {
                start = tres.earliest_fit(start, need.length, deadline)?;
            }
            // One profile alone need not be visited again.
            if start == before || (own.is_none() && self.tres.is_empty()) {
                return Some(start);
            }
        }
    }

    /// The run of consecutive starts from `first`, which fits, to the last one that ends by `end`.
    pub(super) fn run(&self, first: Time, need: Need, end: Time) -> Starts {
        let below = self.room.first_below(first, i64::from(need.capacity.0)).map(|(below, _)| below);
        let own = self.share.and_then(|share| {
            let need = share.need(need)?;
            share.left?.first_below(first, i64::from(need.capacity.0)).map(|(below, _)| below)
        });
        let tres = self.tres.iter().filter_map(|tres| tres.blocked(first));
        let blocked = [below, own].into_iter().flatten().chain(tres).min().unwrap_or(Time::MAX);
        Starts { first, last: blocked.min(end) - need.length.max(Seconds(1)) }
    }

    pub(super) fn runs(&self, window: Interval, need: Need, most: usize) -> Vec<Starts> {
        let mut runs: Vec<Starts> = Vec::new();
        let mut from = window.begin;
        while runs.len() < most
            && let Some(first) = self.earliest_fit(from, need, Some(window.end))
        {
            let run = self.run(first, need, window.end);
            runs.push(run);
            // Whatever ends the run also blocks the very next start.
            from = run.last + Seconds(1);
            if run.last + need.length.max(Seconds(1)) >= window.end {
                break;
            }
        }
        runs
    }

    /// Runs of starts that cover a window: all of them if there are at most `most`, otherwise the next one in
    /// each of `most` equal parts.
    pub(super) fn cover(&self, window: Interval, need: Need, most: usize) -> Vec<Starts> {
        let mut runs = self.runs(window, need, most.saturating_add(1));
        if runs.len() <= most {
            return runs;
        }
        runs.clear();
        let width = i128::from(window.length().0.saturating_sub(need.length.0).max(0));
        for part in 0..most {
            let offset = width * part as i128 / most as i128;
            let from = window.begin + Seconds(i64::try_from(offset).unwrap_or(i64::MAX));
            let from = runs.last().map_or(from, |run| from.max(run.last + Seconds(1)));
            match self.earliest_fit(from, need, Some(window.end)) {
                Some(first) => runs.push(self.run(first, need, window.end)),
                None => break,
            }
        }
        runs
    }
}
