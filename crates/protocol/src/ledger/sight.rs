//! One resource as somebody sees it who wants to reserve: what reservations, running jobs and promised jobs
//! leave, and how good a begin is there.
//!
//! The jobs are put into the profile of the book for the time of the look and taken out again: a profile is a
//! function of what is in it, so nothing remains. Plans of the queue are made with the reservations before a
//! cut, and again with a later one as long as a plan reaches beyond it
//! ([`bookahead_plan::placement::Prober::looked_until`]): they cost as much as there is reserved while the
//! queue lasts, however far ahead the book reaches.

use super::Ledger;
use super::book::Book;
use super::commands::Context;
use super::entry::Entry;
use super::rules::Offered;
use crate::ids::{Name, ReservationId};
use bookahead_plan::placement::{Method, Prober};
use bookahead_plan::{
    Capacity, Cluster, Interval, Need, Profile, Running, Seconds, Span, Starts, Time, Waiting,
};
use std::collections::{BTreeMap, BTreeSet};

/// Who looks, and at what.
#[derive(Clone, Copy)]
pub(super) struct Looker<'a> {
    /// The second of the look.
    pub(super) now: Time,
    /// Whose share counts.
    pub(super) user: &'a Name,
    /// That share, in hundredths, where it is limited.
    pub(super) share: Option<u32>,
    /// A reservation whose room counts as free.
    pub(super) without: Option<ReservationId>,
    /// A reservation that does not count for the share.
    pub(super) beside: Option<ReservationId>,
    /// The jobs of all resources.
    pub(super) views: &'a Views,
}

impl<'a> Looker<'a> {
    /// One whose share is not limited, and for whom nothing counts as free.
    pub(super) fn new(ctx: Context<'a>, user: &'a Name) -> Looker<'a> {
        Looker { now: ctx.now.second(), user, share: None, without: None, beside: None, views: ctx.views }
    }
}

/// What is seen.
pub(super) struct Sight<'a> {
    pub(super) on: Resource<'a>,
    pub(super) free: Free<'a>,
    /// The waiting jobs that have their place in the room.
    pub(super) promised: &'a [Span],
    pub(super) memory: &'a mut Memory,
}

/// Memory for planning; it has no meaning.
#[derive(Default)]
pub(super) struct Memory {
    prober: Prober,
    spans: Vec<Span>,
    pub(super) begins: Vec<Time>,
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        Memory::default()
    }
}

/// The reservations of one resource in order of their begins.
#[derive(Clone, Copy)]
pub(super) struct Reservations<'a> {
    entries: &'a BTreeMap<ReservationId, Entry>,
    begins: &'a BTreeSet<(Time, ReservationId)>,
    without: Option<ReservationId>,
}

impl<'a> Reservations<'a> {
    /// What those take that begin before an instant, the last first.
    pub(super) fn before_reversed(self, instant: Time) -> impl Iterator<Item = Interval> + 'a {
        let ids = self.begins.range(..(instant, ReservationId(0))).rev().map(|(_, id)| *id);
        let ids = ids.filter(move |id| Some(*id) != self.without);
        ids.filter_map(move |id| self.entries.get(&id)).map(Entry::interval)
    }

    /// Lists what those take that begin before `cut`; answers whether that is all there is.
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
    /// Looks at a resource.
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
        let Book { profile, begins, shares, .. } = book;
        let mut left = shares.as_mut().and_then(|shares| shares.get_mut(looker.user));
        let own = looker.without.and_then(|id| entries.get(&id));
        let taken = own.map(Entry::takes).unwrap_or_default();
        let here = |entry: &&Entry| entry.resource == offered.resource.name;
        let beside = looker.beside.and_then(|id| entries.get(&id)).filter(here);
        let promised = own.or(beside).map(Entry::promised).unwrap_or_default();
        taken.iter().for_each(|&span| profile.remove(span));
        if let Some(left) = &mut left {
            promised.iter().for_each(|&span| left.remove(span));
        }
        let reservations = Reservations { entries, begins, without: looker.without };
        let mut added = present(view, looker.now);
        added.iter().for_each(|&span| profile.add(span));
        let jobs = added.len();
        let on = Resource { offered, view, now: looker.now, capacity, reservations };
        on.add_promised(profile, memory, &mut added);
        let share =
            looker.share.map(|percent| Share { most: hundredths(offered, percent), left: left.as_deref() });
        let free = Free { room: profile, share };
        let seen = see(&mut Sight { on, free, promised: &added[jobs..], memory });
        added.iter().for_each(|&span| profile.remove(span));
        taken.iter().for_each(|&span| profile.add(span));
        if let Some(left) = left {
            promised.iter().for_each(|&span| left.add(span));
        }
        seen
    }
}

/// What running jobs and foreign reservations take.
fn present(view: &View, now: Time) -> Vec<Span> {
    let running = view.running.iter().map(|job| {
        let length = (job.expected_end - now).max(Seconds(1));
        Span::starting(now, length, job.capacity)
    });
    running.chain(view.foreign.iter().copied()).collect()
}

/// So many hundredths of a resource, rounded down.
fn hundredths(offered: &Offered, percent: u32) -> Capacity {
    let most = u64::from(offered.resource.capacity.0) * u64::from(percent) / 100;
    Capacity(u32::try_from(most).unwrap_or(u32::MAX))
}

/// The resource, its jobs, and its reservations.
#[derive(Clone, Copy)]
pub(super) struct Resource<'a> {
    pub(super) offered: &'a Offered,
    pub(super) view: &'a View,
    pub(super) now: Time,
    /// What has not failed.
    pub(super) capacity: Capacity,
    pub(super) reservations: Reservations<'a>,
}

impl Resource<'_> {
    /// Puts those jobs into the profile that a reservation may not delay: the first in line, or, where local
    /// jobs are preferred, all.
    fn add_promised(&self, profile: &mut Profile, memory: &mut Memory, added: &mut Vec<Span>) {
        if self.view.waiting.is_empty() {
            return;
        }
        let from = added.len();
        let placement = &self.offered.placement;
        if matches!(placement.method, Method::EarliestStart { local_jobs_preferred: true }) {
            let planned = self.plan(memory, |prober, cluster| {
                let planned = prober.planned(placement.policy, cluster).to_vec();
                (planned, prober.looked_until())
            });
            added.extend(planned.iter().zip(&self.view.waiting).map(|(&start, job)| place(start, job)));
        } else if let Some(first) = self.first()
            && let Some(start) = profile.earliest_fit(self.now, first.need(), None)
        {
            added.push(place(start, first));
        }
        added[from..].iter().for_each(|&span| profile.add(span));
    }

    /// The first in line of those that can ever start.
    fn first(&self) -> Option<&Waiting> {
        let able = self.view.waiting.iter().filter(|job| job.capacity <= self.capacity);
        able.min_by_key(|job| (std::cmp::Reverse(job.priority), job.submit))
    }

    /// Makes plans on as many reservations as they depend on: `make` says until when that is.
    pub(super) fn plan<R>(
        &self,
        memory: &mut Memory,
        mut make: impl FnMut(&mut Prober, &Cluster<'_>) -> (R, Time),
    ) -> R {
        let mut cut = self.first_cut();
        loop {
            memory.spans.clear();
            let all = self.reservations.list(cut, &mut memory.spans);
            memory.spans.extend_from_slice(&self.view.foreign);
            let cluster = Cluster {
                capacity: self.capacity,
                now: self.now,
                running: &self.view.running,
                waiting: &self.view.waiting,
                reservations: &memory.spans,
            };
            let (made, until) = make(&mut memory.prober, &cluster);
            if all || until <= cut {
                return made;
            }
            cut = (cut + (cut - self.now)).max(until);
        }
    }

    /// When the queue may be worked off, with room to spare.
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

/// What a user may take.
#[derive(Clone, Copy)]
pub(super) struct Free<'a> {
    /// What anybody may take.
    pub(super) room: &'a Profile,
    /// What he may take at most.
    pub(super) share: Option<Share<'a>>,
}

/// The share of a user.
#[derive(Clone, Copy)]
pub(super) struct Share<'a> {
    /// What he may have at the same time.
    pub(super) most: Capacity,
    /// All there could ever be, [`u32::MAX`], less what he has; None where he has nothing.
    pub(super) left: Option<&'a Profile>,
}

impl Share<'_> {
    /// The same need in terms of what is left; None where it is more than the whole share.
    fn need(&self, need: Need) -> Option<Need> {
        let beyond = u32::MAX - self.most.0;
        let capacity = need.capacity.0.checked_add(beyond)?;
        Some(Need { capacity: Capacity(capacity), ..need })
    }

    /// What he has at most during an interval.
    pub(super) fn has(&self, interval: Interval) -> u32 {
        let left = self.left.map_or(i64::from(u32::MAX), |left| left.min_free(interval));
        u32::try_from(i64::from(u32::MAX) - left).unwrap_or(u32::MAX)
    }
}

impl Free<'_> {
    /// Whether a need could begin at `start`.
    pub(super) fn fits(&self, start: Time, need: Need) -> bool {
        let in_share = self.share.is_none_or(|share| {
            let left = share.need(need).map(|need| share.left.is_none_or(|left| left.fits(start, need)));
            left.unwrap_or(false)
        });
        in_share && self.room.fits(start, need)
    }

    /// The earliest start, not before `from` and over by a deadline.
    pub(super) fn earliest_fit(&self, from: Time, need: Need, deadline: Option<Time>) -> Option<Time> {
        let Some(share) = self.share else { return self.room.earliest_fit(from, need, deadline) };
        let own = share.need(need)?;
        let mut start = self.room.earliest_fit(from, need, deadline)?;
        while let Some(left) = share.left {
            let later = left.earliest_fit(start, own, deadline)?;
            if later == start {
                break;
            }
            start = self.room.earliest_fit(later, need, deadline)?;
            if start == later {
                break;
            }
        }
        Some(start)
    }

    /// The starts from `first` on, which fits, to the last that fits without a break and is over by `end`.
    pub(super) fn run(&self, first: Time, need: Need, end: Time) -> Starts {
        let below = self.room.first_below(first, i64::from(need.capacity.0)).map(|(below, _)| below);
        let own = self.share.and_then(|share| {
            let need = share.need(need)?;
            share.left?.first_below(first, i64::from(need.capacity.0)).map(|(below, _)| below)
        });
        let blocked = [below, own].into_iter().flatten().min().unwrap_or(Time::MAX);
        Starts { first, last: blocked.min(end) - need.length.max(Seconds(1)) }
    }

    /// The first `most` runs of starts in a window.
    pub(super) fn runs(&self, window: Interval, need: Need, most: usize) -> Vec<Starts> {
        let mut runs: Vec<Starts> = Vec::new();
        let mut from = window.begin;
        while runs.len() < most
            && let Some(first) = self.earliest_fit(from, need, Some(window.end))
        {
            let run = self.run(first, need, window.end);
            runs.push(run);
            // What ends the run is in the way of the very next start.
            from = run.last + Seconds(1);
            if run.last + need.length.max(Seconds(1)) >= window.end {
                break;
            }
        }
        runs
    }

    /// Runs of starts that cover a window: all of them where they are few, else the next one in each of
    /// `most` parts.
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

/// What is to be seen on each resource. One that is missing has no jobs and no foreign reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Views(pub BTreeMap<Name, View>);

/// What is to be seen on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Jobs that run outside of reservations.
    pub running: Vec<Running>,
    /// Jobs that wait, those with the same submit time in the order in which they were submitted.
    pub waiting: Vec<Waiting>,
    /// Reservations that are not in this ledger; never those that are.
    pub foreign: Vec<Span>,
}

const NOTHING: &View = &View { running: Vec::new(), waiting: Vec::new(), foreign: Vec::new() };

impl Views {
    /// Of one resource, and nothing elsewhere.
    pub fn of(resource: Name, view: View) -> Views {
        Views(BTreeMap::from([(resource, view)]))
    }

    /// What is to be seen on a resource.
    pub fn on(&self, resource: &Name) -> &View {
        self.0.get(resource).unwrap_or(NOTHING)
    }
}

impl View {
    /// Whether no job runs or waits, so that every begin that fits is as good as any other.
    pub fn has_no_jobs(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }
}
