//! A copy of a [`Profile`] in two plain arrays, for planning: many searches and additions in a row, and no removals.
//! The copy is dropped when something must be taken back.
//!
//! A plan mostly has some hundred breakpoints, and then scans of arrays are faster than the tree. Everything here is O(n);
//! plans of many thousand breakpoints were not measured.

use super::{Need, Profile};
use crate::bound::amount;
use crate::units::{Seconds, Time};
use std::ops::Range;

/// Free capacity over time; only gets fuller. Empty if it is not in use.
#[derive(Default)]
pub(crate) struct Flat {
    /// Begins of the steps in order; the first is the origin.
    times: Vec<i64>,
    /// Free capacity from each begin to the next one, [shifted]; the last holds forever. Nothing is free where too much was
    /// taken.
    free: Vec<i32>,
    /// Steps before this one are over.
    head: usize,
    facts: Facts,
}

/// Number of searches remembered, and number of steps from which on that pays.
const FACTS: usize = 8;
const FACTS_FROM: usize = 64;

/// Result of a search: a capacity is not free for a length from any step before an index.
#[derive(Clone, Copy)]
struct Fact {
    capacity: u32,
    length: i64,
    before: usize,
}

/// Results of the last searches. Indexes only grow when steps are inserted, so a fact stays true. Replaced in turn.
struct Facts {
    known: [Fact; FACTS],
    next: usize,
}

impl Default for Facts {
    /// Facts that rule nothing out.
    fn default() -> Facts {
        Facts { known: [Fact { capacity: u32::MAX, length: i64::MAX, before: 0 }; FACTS], next: 0 }
    }
}

impl Facts {
    /// A need that is smaller in both dimensions and does not fit rules out the larger one. Returns the index before
    /// which it does not fit, and the length for which that is known.
    #[inline]
    fn not_before(&self, need: Need) -> (usize, i64) {
        let mut best = (0, 0);
        for fact in &self.known {
            if fact.before > best.0 && fact.capacity <= need.capacity.0 && fact.length <= need.length.0 {
                best = (fact.before, fact.length);
            }
        }
        best
    }

    fn learn(&mut self, need: Need, before: usize) {
        let (capacity, length) = (need.capacity.0, need.length.0);
        let implied =
            |fact: &Fact| capacity <= fact.capacity && length <= fact.length && before >= fact.before;
        let slot = self.known.iter().position(implied).unwrap_or_else(|| {
            self.next = (self.next + 1) % FACTS;
            self.next
        });
        self.known[slot] = Fact { capacity, length, before };
    }
}

impl Flat {
    pub(crate) fn clear(&mut self) {
        self.times.clear();
        self.free.clear();
        self.head = 0;
        self.facts = Facts::default();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.times.is_empty()
    }

    pub(crate) fn copy_from(&mut self, profile: &Profile) {
        self.clear();
        let mut free = profile.base;
        self.times.push(profile.origin.0);
        self.free.push(shifted(amount(free)));
        let (mut leaf, mut bound) = profile.tree.leaf_at(profile.origin.0);
        loop {
            let (times, steps) = profile.tree.leaf_steps(leaf);
            self.times.extend_from_slice(times);
            self.free.extend(steps.iter().map(|step| {
                free += step;
                shifted(amount(free))
            }));
            let Some(next) = bound else { break };
            (leaf, bound) = profile.tree.leaf_at(next);
        }
    }

    /// Moves the origin to `now`, not earlier than before.
    pub(crate) fn advance(&mut self, now: Time) {
        while self.times.get(self.head + 1).is_some_and(|&time| time <= now.0) {
            self.head += 1;
        }
        if let Some(first) = self.times.get_mut(self.head) {
            *first = now.0;
        }
    }

    pub(crate) fn free_now(&self) -> u32 {
        unshifted(self.free[self.head])
    }

    /// Whether `need` fits at the origin.
    pub(crate) fn fits_now(&self, need: Need) -> bool {
        let stop = self.stop(self.head, need);
        let wanted = shifted(need.capacity.0);
        first(&self.free[self.head..stop], |free| free < wanted).is_none()
    }

    /// The first step after `at` that begins when `need`, started with the step `at`, is over.
    fn stop(&self, at: usize, need: Need) -> usize {
        let end = self.times[at].saturating_add(need.length.0);
        at + 1 + self.times[at + 1..].partition_point(|&time| time < end)
    }

    /// Each time from the origin on at which less is free than before, and the free capacity then.
    pub(crate) fn drops(&self) -> impl Iterator<Item = (Time, u32)> {
        let mut at = self.head;
        std::iter::from_fn(move || {
            let least = self.free[at];
            at += 1 + first(&self.free[at + 1..], |free| free < least)?;
            Some((Time(self.times[at]), unshifted(self.free[at])))
        })
    }

    /// The most that is free at any instant before `until`.
    pub(crate) fn most_free(&self, until: Time) -> u32 {
        let before = self.times[self.head..].partition_point(|&time| time < until.0);
        self.free[self.head..self.head + before].iter().copied().max().map_or(0, unshifted)
    }

    /// Takes `need` at the origin. Its end may be a new step in the middle of the first one, so what is known of later
    /// steps is forgotten.
    pub(crate) fn add_now(&mut self, need: Need) {
        self.facts = Facts::default();
        self.add(self.head..self.stop(self.head, need), need, 0);
    }

    /// The earliest start later than now at which `need` fits, if it is before `until`: the steps that it covers, the
    /// last one maybe in part. Otherwise a length, less than needed: the capacity is not free for longer from any start
    /// later than now and before `until`.
    pub(crate) fn earliest_later(&mut self, need: Need, until: Time) -> Result<Range<usize>, Seconds> {
        let wanted = shifted(need.capacity.0);
        let remembers = self.times.len() - self.head > FACTS_FROM;
        let (known, length) = if remembers { self.facts.not_before(need) } else { (0, 0) };
        let mut longest = Seconds(length - 1);
        let mut at = known.max(self.head + 1);
        let found = loop {
            let enough = self.free.get(at..).and_then(|free| first(free, |free| free >= wanted));
            at += enough.ok_or(longest)?;
            if self.times[at] >= until.0 {
                return Err(longest);
            }
            // Most room that is too short ends soon, so its end is looked for first.
            let begin = self.times[at];
            let end = begin.saturating_add(need.length.0);
            let after = at + 1;
            let short =
                after + first(&self.free[after..], |free| free < wanted).unwrap_or(self.free.len() - after);
            match self.times.get(short) {
                Some(&time) if time < end => longest = longest.max(Seconds(time - begin)),
                _ => break at..after + self.times[after..short].partition_point(|&time| time < end),
            }
            at = short + 1;
        };
        if remembers && found.start > known {
            self.facts.learn(need, found.start);
        }
        Ok(found)
    }

    pub(crate) fn time(&self, at: usize) -> Time {
        Time(self.times[at])
    }

    /// Takes `need` where [`Flat::earliest_later`] found room for it. Returns whether less than `watched` is free there
    /// then.
    pub(crate) fn add(&mut self, steps: Range<usize>, need: Need, watched: u32) -> bool {
        let end = self.times[steps.start].saturating_add(need.length.0);
        if self.times.get(steps.end) != Some(&end) && end < i64::MAX {
            self.times.insert(steps.end, end);
            self.free.insert(steps.end, self.free[steps.end - 1]);
        }
        // The capacity is free in all of these steps, so no difference wraps around.
        let (taken, watched) = (need.capacity.0.cast_signed(), shifted(watched));
        let mut less = false;
        for free in &mut self.free[steps] {
            *free = free.wrapping_sub(taken);
            less |= *free < watched;
        }
        less
    }
}

/// A number as a signed one, in the same order and with the same differences: vector instructions compare only these
/// directly.
fn shifted(free: u32) -> i32 {
    (free ^ (1 << 31)).cast_signed()
}

fn unshifted(free: i32) -> u32 {
    free.cast_unsigned() ^ (1 << 31)
}

/// Index of the first value that meets a condition. Whole blocks are compared without an early exit, which is compiled to
/// vector instructions.
#[inline]
fn first(values: &[i32], meets: impl Fn(i32) -> bool) -> Option<usize> {
    const BLOCK: usize = 16;
    let (blocks, _) = values.as_chunks::<BLOCK>();
    let skipped =
        blocks.iter().take_while(|block| !block.iter().fold(false, |any, &value| any | meets(value)));
    let from = skipped.count() * BLOCK;
    values[from..].iter().position(|&value| meets(value)).map(|at| from + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Capacity, Seconds, Span};
    use proptest::prelude::*;

    fn needs(most: usize) -> impl Strategy<Value = Vec<Need>> {
        let need = (1..=12u32, 1..60i64)
            .prop_map(|(capacity, length)| Need { capacity: Capacity(capacity), length: Seconds(length) });
        prop::collection::vec(need, 1..most)
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(300))]

        #[test]
        fn it_finds_and_takes_the_same_room_as_the_profile(
            reserved in prop::collection::vec((0..900i64, 1..50i64, 1..8u32), 0..120),
            needs in needs(200),
            until in prop_oneof![Just(i64::MAX), 10..900i64],
            advances in prop::collection::vec(0..20i64, 200),
        ) {
            let mut profile = Profile::new(Capacity(10), Time(0));
            for (begin, length, capacity) in reserved {
                profile.add(Span::starting(Time(begin), Seconds(length), Capacity(capacity)));
            }
            let mut flat = Flat::default();
            flat.copy_from(&profile);
            for (number, (need, advance)) in needs.into_iter().zip(advances).enumerate() {
                if number % 10 == 9 {
                    let now = profile.origin() + Seconds(advance);
                    profile.advance(now);
                    flat.advance(now);
                }
                let now = profile.origin();
                prop_assert_eq!(i64::from(flat.free_now()), profile.free_now().max(0));
                prop_assert_eq!(flat.fits_now(need), profile.fits(now, need));
                if number % 7 == 3 && flat.fits_now(need) {
                    profile.add(Span::starting(now, need.length, need.capacity));
                    flat.add_now(need);
                    continue;
                }
                let found = flat.earliest_later(need, Time(until));
                // A need that fits now also fits a second later, between two steps, where it is not searched.
                if flat.fits_now(need) {
                    continue;
                }
                let later = profile.earliest_fit(now, need, None).filter(|start| start.0 < until);
                prop_assert_eq!(found.clone().ok().map(|steps| flat.time(steps.start)), later);
                // No longer need of this capacity has room there either.
                if let Err(Seconds(longest)) = found {
                    prop_assert!(longest < need.length.0);
                    let longer = Need { length: Seconds((longest + 1).max(1)), ..need };
                    let starts = (now.0 + 1..until.min(1_500)).filter(|&start| profile.free_at(Time(start - 1)) != profile.free_at(Time(start)));
                    for start in starts {
                        prop_assert!(!profile.fits(Time(start), longer), "{start}");
                    }
                }
                if let (Ok(steps), Some(start)) = (found, later) {
                    let span = Span::starting(start, need.length, need.capacity);
                    profile.add(span);
                    let watched = number as u32 % 12;
                    let less = profile.min_free(span.interval) < i64::from(watched);
                    prop_assert_eq!(flat.add(steps, need, watched), less);
                }
            }
        }

        #[test]
        fn its_drops_and_peaks_are_those_of_the_profile(
            reserved in prop::collection::vec((0..300i64, 1..50i64, 1..8u32), 0..40),
            until in 1..300i64,
        ) {
            let mut profile = Profile::new(Capacity(10), Time(0));
            for (begin, length, capacity) in reserved {
                profile.add(Span::starting(Time(begin), Seconds(length), Capacity(capacity)));
            }
            let mut flat = Flat::default();
            flat.copy_from(&profile);
            let free = |second| profile.free_at(Time(second)).max(0);
            let mut least = free(0);
            let mut drops = Vec::new();
            for second in 0..400 {
                if free(second) < least {
                    least = free(second);
                    drops.push((Time(second), least));
                }
            }
            let found: Vec<(Time, i64)> = flat.drops().map(|(time, free)| (time, i64::from(free))).collect();
            prop_assert_eq!(found, drops);
            prop_assert_eq!(Some(i64::from(flat.most_free(Time(until)))), (0..until).map(free).max());
        }
    }
}
