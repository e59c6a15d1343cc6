//! The availability profile: the free capacity of one resource at every instant from its origin on.
//!
//! Spans are added (their capacity is taken) and removed (it is given back). The profile answers how much is
//! free at an instant or throughout an interval, and where a rectangle fits. It is exact: a function of the
//! spans in it, independent of their order and of earlier ones.
//!
//! Cost, with n the number of breakpoints (instants where the free capacity changes): O(log n) for
//! everything, even for spans that cover many breakpoints. A search for room skips all stretches that are
//! entirely free or blocked, but visits each hole that is wide enough and too short. It costs O(log n + k)
//! with k such holes on its way.
//!
//! A span is never refused. If more is added than is free, [`Profile::free_at`] is negative; a site that lost
//! nodes needs to know that.

mod flat;
mod node;
mod search;
mod tree;

use crate::units::{Capacity, Interval, Seconds, Span, Time};
pub(crate) use flat::Flat;
use search::{EarliestFit, FirstBelow, Least};
use tree::Tree;

/// Free capacity over time, from an origin on.
#[derive(Clone)]
pub struct Profile {
    origin: Time,
    /// Free capacity from the origin to the first step.
    base: i64,
    tree: Tree,
}

/// A capacity for a duration, to search room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Required capacity.
    pub capacity: Capacity,
    /// Duration; at least one second is assumed.
    pub length: Seconds,
}

/// Consecutive starts at which a [`Need`] fits, both ends inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starts {
    /// The earliest start.
    pub first: Time,
    /// The latest start.
    pub last: Time,
}

impl Profile {
    /// With all of `capacity` free from `origin` on.
    pub fn new(capacity: Capacity, origin: Time) -> Profile {
        Profile { origin, base: i64::from(capacity.0), tree: Tree::new() }
    }

    /// As [`Profile::new`], but reuses the memory.
    pub fn reset(&mut self, capacity: Capacity, origin: Time) {
        self.origin = origin;
        self.base = i64::from(capacity.0);
        self.tree.clear();
    }

    /// Becomes equal to `other`, but reuses the memory.
    pub(crate) fn copy_from(&mut self, other: &Profile) {
        self.origin = other.origin;
        self.base = other.base;
        self.tree.copy_from(&other.tree);
    }

    /// The first instant of the profile.
    pub fn origin(&self) -> Time {
        self.origin
    }

    /// Number of changes of the free capacity after the origin.
    pub fn breakpoints(&self) -> usize {
        self.tree.len()
    }

    /// Takes the span's capacity for its interval. The part before the origin is ignored.
    pub fn add(&mut self, span: Span) {
        self.change(span.interval, -i64::from(span.capacity.0));
    }

    /// Undoes [`Profile::add`].
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
        // An end of `Time::MAX` means forever; a step there would never be reached.
        if interval.end < Time::MAX {
            self.tree.add(interval.end.0, -by);
        }
    }

    /// Moves the origin to `now` and forgets everything before. Returns whether the free capacity changed on
    /// the way. Does nothing if `now` is not later.
    pub fn advance(&mut self, now: Time) -> bool {
        if now <= self.origin {
            return false;
        }
        self.origin = now;
        let change = self.tree.pop_until(now.0);
        self.base += change.unwrap_or(0);
        change.is_some()
    }

    /// Free capacity at the origin, without a search.
    #[inline]
    pub fn free_now(&self) -> i64 {
        self.base
    }

    /// Free capacity at `instant`; negative if more was added than there is. Before the origin it is the same
    /// as at the origin.
    pub fn free_at(&self, instant: Time) -> i64 {
        self.base + self.tree.value_at(instant.0)
    }

    /// The least free capacity at any instant of the interval. For an empty one, the free capacity at its
    /// beginning.
    pub fn min_free(&self, interval: Interval) -> i64 {
        let begin = interval.begin.max(self.origin);
        let least = if self.before_first_step(begin) { self.base } else { i64::MAX };
        let mut guide = Least { from: begin.0, to: interval.end.0.max(begin.0.saturating_add(1)), least };
        self.tree.walk(begin.0, self.base, &mut guide);
        guide.least
    }

    /// Whether `need` fits at `start`.
    pub fn fits(&self, start: Time, need: Need) -> bool {
        let need = need.at_least_a_second();
        let below = self.first_below(start, i64::from(need.capacity.0));
        below.is_none_or(|(below, _)| start + need.length <= below)
    }

    /// The first instant from `from` on with less than `need` free, and the free capacity there.
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

    /// The earliest start from `not_before` on at which `need` fits, ending by the `deadline` if there is
    /// one.
    pub fn earliest_fit(&self, not_before: Time, need: Need, deadline: Option<Time>) -> Option<Time> {
        let length = need.at_least_a_second().length;
        let latest = deadline.map_or(Time::MAX, |deadline| deadline - length);
        self.first_run(not_before, need, latest, Time::MAX)
    }

    /// An earlier start for a span in this profile, of `need` at `start`, if nothing else moves. None if
    /// there is none.
    pub(crate) fn earlier_fit(&self, not_before: Time, need: Need, start: Time) -> Option<Time> {
        // Before its start, free capacity does not include its own span. From its start on it has what it
        // needs, so a run that reaches `start` is long enough.
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

    /// All starts at which `need` fits inside the window, as runs of consecutive instants in order. Each run
    /// costs one search.
    pub fn all_fits(&self, window: Interval, need: Need) -> impl Iterator<Item = Starts> {
        let need = need.at_least_a_second();
        let mut from = Some(window.begin);
        std::iter::from_fn(move || {
            let first = self.earliest_fit(from?, need, Some(window.end))?;
            let blocked = self.first_below(first, i64::from(need.capacity.0)).map(|(below, _)| below);
            // Every start between `last` and the block would run into it.
            from = blocked;
            let last = blocked.unwrap_or(Time::MAX).min(window.end) - need.length;
            Some(Starts { first, last })
        })
    }

    /// The profile inside `window`, for drawing: consecutive intervals and their free capacity.
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

/// Most facts remembered. More do not pay for searching them (`cargo bench --bench profile`).
const FACTS: usize = 128;

/// Places needs one after another, each at its earliest start, in a profile that only gets fuller meanwhile.
/// Remembers failed searches to skip parts of later ones.
#[derive(Default)]
pub struct Frontier {
    /// Needs, and the instant before which each does not fit; latest first.
    facts: Vec<(Need, Time)>,
    /// Start of the searches. Facts are valid only for this one.
    from: Option<Time>,
}

impl Frontier {
    /// Without facts.
    pub fn new() -> Frontier {
        Frontier { facts: Vec::with_capacity(FACTS + 1), from: None }
    }

    /// Forgets all facts. Must be called when something was removed from the profile.
    pub fn forget(&mut self) {
        self.facts.clear();
        self.from = None;
    }

    /// Adds `need` to the profile at its earliest start from `from` on, and returns that start. None if it
    /// never fits.
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
        // A need that is smaller in both dimensions and does not fit rules out the larger one.
        let smaller =
            |(known, _): &&(Need, Time)| known.capacity <= need.capacity && known.length <= need.length;
        self.facts.iter().find(smaller).map(|&(_, start)| start)
    }

    /// Keeps a fact, and drops those that it implies.
    fn learn(&mut self, need: Need, start: Time) {
        self.facts.retain(|(known, before)| {
            known.capacity < need.capacity || known.length < need.length || *before > start
        });
        let at = self.facts.partition_point(|&(_, before)| before > start);
        self.facts.insert(at, (need, start));
        self.facts.truncate(FACTS);
    }
}
