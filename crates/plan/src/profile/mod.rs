//! The availability profile: how much of one resource is free at every instant from its origin on.
//!
//! Spans are added (their capacity is taken) and removed (given back); the profile answers how much is free,
//! how much is free throughout an interval, and where a rectangle fits. It is exact: a function of the spans
//! that are in it, whatever the order in which they came and whatever came and went before.
//!
//! Cost, with n the number of breakpoints (instants where the free capacity changes): everything is
//! O(log n), also for spans that cover many breakpoints. A search for room descends past all stretches that are
//! free or blocked throughout; it looks at each hole that is wide enough but too short, so it costs
//! O(log n + k) with k such holes in its way.
//!
//! It relies on a tree of steps and never refuses a span: whoever adds more than is free gets a
//! negative answer from [`Profile::free_at`], which is what a site that lost nodes needs to know.

mod node;
mod search;
mod tree;

use crate::units::{Capacity, Interval, Seconds, Span, Time};
use search::{EarliestFit, FirstBelow, Least};
use tree::Tree;

/// Free capacity over time, from an origin on.
#[derive(Clone)]
pub struct Profile {
    origin: Time,
    /// What is free from the origin to the first step.
    base: i64,
    tree: Tree,
}

/// What room is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// How much.
    pub capacity: Capacity,
    /// For how long; anything below a second counts as a second.
    pub length: Seconds,
}

/// Consecutive instants at each of which a [`Need`] could begin: both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starts {
    /// The earliest.
    pub first: Time,
    /// The latest.
    pub last: Time,
}

impl Profile {
    /// All of `capacity` free from `origin` on.
    pub fn new(capacity: Capacity, origin: Time) -> Profile {
        Profile { origin, base: i64::from(capacity.0), tree: Tree::new() }
    }

    /// As [`Profile::new`], in the memory that this one has.
    pub fn reset(&mut self, capacity: Capacity, origin: Time) {
        self.origin = origin;
        self.base = i64::from(capacity.0);
        self.tree.clear();
    }

    /// Becomes equal to `other`, in the memory that this one has.
    pub fn copy_from(&mut self, other: &Profile) {
        self.origin = other.origin;
        self.base = other.base;
        self.tree.copy_from(&other.tree);
    }

    /// The first instant that the profile knows.
    pub fn origin(&self) -> Time {
        self.origin
    }

    /// How many times the free capacity changes after the origin.
    pub fn breakpoints(&self) -> usize {
        self.tree.len()
    }

    /// Takes the span's capacity for its interval. What lies before the origin is ignored.
    pub fn add(&mut self, span: Span) {
        self.change(span.interval, -i64::from(span.capacity.0));
    }

    /// Gives back what [`Profile::add`] took.
    pub fn remove(&mut self, span: Span) {
        self.change(span.interval, i64::from(span.capacity.0));
    }

    fn change(&mut self, interval: Interval, by: i64) {
        let begin = interval.begin.max(self.origin);
        if interval.end <= begin {
            return;
        }
        if begin == self.origin {
            self.base += by;
        } else {
            self.tree.add(begin.0, by);
        }
        if interval.end < Time::MAX {
            self.tree.add(interval.end.0, -by);
        }
    }

    /// Moves the origin on to `now` and forgets what lies before; answers whether the free capacity changed on
    /// the way. Moving back changes nothing.
    pub fn advance(&mut self, now: Time) -> bool {
        if now <= self.origin {
            return false;
        }
        self.origin = now;
        let change = self.tree.pop_until(now.0);
        self.base += change.unwrap_or(0);
        change.is_some()
    }

    /// What is free at the origin: [`Profile::free_at`] of it, at no cost.
    #[inline]
    pub fn free_now(&self) -> i64 {
        self.base
    }

    /// What is free at `instant`; negative where more was added than there is. The past before the origin is
    /// taken to be like the origin.
    pub fn free_at(&self, instant: Time) -> i64 {
        self.base + self.tree.value_at(instant.0)
    }

    /// The least that is free at any instant of the interval; of an empty one, what is free at its beginning.
    pub fn min_free(&self, interval: Interval) -> i64 {
        let begin = interval.begin.max(self.origin);
        let least = if self.before_first_step(begin) { self.base } else { i64::MAX };
        let mut guide = Least { from: begin.0, to: interval.end.0.max(begin.0.saturating_add(1)), least };
        self.tree.walk(begin.0, self.base, &mut guide);
        guide.least
    }

    /// Whether `need` could begin at `start`.
    pub fn fits(&self, start: Time, need: Need) -> bool {
        let need = need.at_least_a_second();
        let below = self.first_below(start, i64::from(need.capacity.0));
        below.is_none_or(|(below, _)| start + need.length <= below)
    }

    /// The first instant, not before `from`, at which less than `need` is free, and how much is.
    pub fn first_below(&self, from: Time, need: i64) -> Option<(Time, i64)> {
        let from = from.max(self.origin);
        if self.base < need && self.before_first_step(from) {
            return Some((from, self.base));
        }
        let mut guide = FirstBelow { from: from.0, need, found: None };
        self.tree.walk(from.0, self.base, &mut guide);
        guide.found.map(|(begin, free)| (Time(begin), free))
    }

    #[inline]
    fn before_first_step(&self, instant: Time) -> bool {
        self.tree.first().is_none_or(|first| instant.0 < first)
    }

    /// The first instant after `time` at which the free capacity changes.
    pub fn next_change(&self, time: Time) -> Option<Time> {
        self.tree.next_after(time.max(self.origin).0).map(Time)
    }

    /// The earliest start, not before `not_before`, at which `need` is free throughout, and, where there is a
    /// `deadline`, over by then.
    pub fn earliest_fit(&self, not_before: Time, need: Need, deadline: Option<Time>) -> Option<Time> {
        let length = need.at_least_a_second().length;
        let latest = deadline.map_or(Time::MAX, |deadline| deadline - length);
        self.first_run(not_before, need, latest, Time::MAX)
    }

    /// The earliest start at which a span in this profile, of `need` from `start` on, could begin instead, if it
    /// were the only thing to move: None where that is no earlier than `start`.
    pub fn earlier_fit(&self, not_before: Time, need: Need, start: Time) -> Option<Time> {
        // What comes before its start is free or not without regard to it; from its start on it has what it needs.
        self.first_run(not_before, need, start - Seconds(1), start)
    }

    fn first_run(&self, from: Time, need: Need, latest: Time, assured: Time) -> Option<Time> {
        let Need { capacity, length } = need.at_least_a_second();
        let from = from.max(self.origin);
        if latest < from {
            return None;
        }
        let wanted = i64::from(capacity.0);
        let enough = self.base >= wanted && self.before_first_step(from);
        let mut guide = EarliestFit {
            from: from.0,
            latest: latest.0,
            length: length.0,
            assured: assured.0,
            need: wanted,
            run: enough.then_some(from.0),
        };
        self.tree.walk(from.0, self.base, &mut guide);
        guide.run.filter(|&run| run <= latest.0).map(Time)
    }

    /// All starts at which `need` is free throughout and lies inside the window, as runs of consecutive
    /// instants in order. Each run costs one search.
    pub fn all_fits(&self, window: Interval, need: Need) -> impl Iterator<Item = Starts> {
        let need = need.at_least_a_second();
        let mut from = Some(window.begin);
        std::iter::from_fn(move || {
            let first = self.earliest_fit(from?, need, Some(window.end))?;
            let blocked = self.first_below(first, i64::from(need.capacity.0)).map(|(below, _)| below);
            from = blocked;
            let last = blocked.unwrap_or(Time::MAX).min(window.end) - need.length;
            Some(Starts { first, last })
        })
    }

    /// The profile inside `window`, for drawing: consecutive intervals and what is free in each.
    pub fn steps(&self, window: Interval) -> impl Iterator<Item = (Interval, i64)> {
        let mut begin = window.begin.max(self.origin);
        let mut free = self.free_at(begin);
        let (mut leaf, mut bound) = self.tree.leaf_at(begin.0);
        let mut at = self.tree.leaf_steps(leaf).0.partition_point(|&time| time <= begin.0);
        std::iter::from_fn(move || {
            if begin >= window.end {
                return None;
            }
            if at == self.tree.leaf_steps(leaf).0.len()
                && let Some(next) = bound
            {
                (leaf, bound) = self.tree.leaf_at(next);
                at = 0;
            }
            let (times, steps) = self.tree.leaf_steps(leaf);
            let end = times.get(at).map_or(Time::MAX, |&time| Time(time));
            let step = (Interval::new(begin, end.min(window.end)), free);
            free += steps.get(at).copied().unwrap_or(0);
            begin = end;
            at += 1;
            Some(step)
        })
    }
}

impl Need {
    fn at_least_a_second(self) -> Need {
        Need { length: self.length.max(Seconds(1)), ..self }
    }
}

/// More facts do not pay for looking through them (`cargo bench --bench profile`).
const FACTS: usize = 128;

/// Places needs one after another, each at its earliest start, in a profile that meanwhile only gets fuller.
#[derive(Default)]
pub struct Frontier {
    /// A need, and the instant before which it does not fit; latest first.
    facts: Vec<(Need, Time)>,
    /// The instant from which room is looked for.
    from: Option<Time>,
}

impl Frontier {
    /// Knows nothing.
    pub fn new() -> Frontier {
        Frontier { facts: Vec::with_capacity(FACTS + 1), from: None }
    }

    /// Forgets everything, as it must when something was removed from the profile.
    pub fn forget(&mut self) {
        self.facts.clear();
        self.from = None;
    }

    /// Takes `need` from the profile at its earliest start not before `from`, and returns that start; None where
    /// it never fits.
    pub fn place(&mut self, profile: &mut Profile, from: Time, need: Need) -> Option<Time> {
        if self.from != Some(from) {
            self.forget();
            self.from = Some(from);
        }
        let not_before = self.not_before(need).unwrap_or(from);
        let start = profile.earliest_fit(not_before, need, None)?;
        if start > not_before {
            self.learn(need, start);
        }
        profile.add(Span::starting(start, need.length, need.capacity));
        Some(start)
    }

    fn not_before(&self, need: Need) -> Option<Time> {
        let smaller =
            |(known, _): &&(Need, Time)| known.capacity <= need.capacity && known.length <= need.length;
        self.facts.iter().find(smaller).map(|&(_, start)| start)
    }

    /// Keeps the fact, and drops those that it makes superfluous.
    fn learn(&mut self, need: Need, start: Time) {
        self.facts.retain(|(known, before)| {
            known.capacity < need.capacity || known.length < need.length || *before > start
        });
        let at = self.facts.partition_point(|&(_, before)| before > start);
        self.facts.insert(at, (need, start));
        self.facts.truncate(FACTS);
    }
}
