//! The waiting jobs in queue order, laid out to find the jobs that could start now quickly: capacities and
//! estimates are in separate arrays, and each block of them knows its shortest jobs, as does each group of blocks and
//! each group of groups. So the next candidate in a long queue is found in a logarithmic number of steps.
//!
//! A removed job is only marked; marked places are swept out when half of them are empty. The queue returns
//! candidates, and never decides whether one starts.

use crate::bound::{Bound, CLASSES, Shortest, cut_off};
use crate::order::{Order, Score};
use crate::policy::{JobKey, Waiting};
use std::cmp::Reverse;
use std::ops::Range;

/// Jobs in a block. One block is scanned in a few nanoseconds and skipped in one.
const BLOCK: usize = 64;
/// Blocks or groups in a group. A power of two, so that divisions are shifts.
const GROUP: usize = 16;
/// Levels of groups: enough for 16 million blocks, and with more the last level only has more groups.
const LEVELS: usize = 6;
/// Smallest number of places to sweep; below it there is nothing to gain.
const SWEEP_FROM: usize = 2 * BLOCK;

#[derive(Clone, Copy)]
struct Place {
    key: JobKey,
    job: Waiting,
    live: bool,
}

#[derive(Default)]
pub(crate) struct Queue {
    capacities: Vec<u32>,
    /// In seconds, capped.
    estimates: Vec<u32>,
    places: Vec<Place>,
    /// Of each block; then of each group of blocks, of each group of groups, and so on.
    levels: [Vec<Shortest>; LEVELS],
    /// Number of levels in use. The last one has few groups.
    depth: usize,
    /// No place before this one is live.
    front: usize,
    live: usize,
}

impl Queue {
    pub(crate) fn clear(&mut self) {
        self.capacities.clear();
        self.estimates.clear();
        self.places.clear();
        self.levels.iter_mut().for_each(Vec::clear);
        self.depth = 0;
        self.front = 0;
        self.live = 0;
    }

    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Whether [`Queue::insert`] would put the job behind all others.
    pub(crate) fn appends(&self, order: Order, job: &Waiting) -> bool {
        self.places.last().is_none_or(|last| order.keeps_before(&last.job, job))
    }

    /// Inserts a job by its order. It must have been submitted after all others here.
    pub(crate) fn insert(&mut self, order: Order, key: JobKey, job: Waiting) {
        let place = Place { key, job, live: true };
        let at = if self.appends(order, &job) {
            self.places.len()
        } else {
            // Places before the front are empty and no longer in order, so the search starts at the front.
            self.front
                + self.places[self.front..].partition_point(|other| order.keeps_before(&other.job, &job))
        };
        self.capacities.insert(at, job.capacity.0);
        self.estimates.insert(at, cut_off(job.estimate.0));
        self.places.insert(at, place);
        self.front = self.front.min(at);
        self.live += 1;
        // An appended job only adds to the summaries of the last block and its groups. An insertion shifts all later
        // blocks.
        if at + 1 == self.places.len() && !at.is_multiple_of(BLOCK) {
            let mut group = at / BLOCK;
            for level in &mut self.levels[..self.depth] {
                level[group].include(self.capacities[at], self.estimates[at]);
                group /= GROUP;
            }
        } else {
            self.summarise_from(at / BLOCK);
        }
    }

    /// Sorts all jobs by priority, score (the larger first), submit time and key.
    pub(crate) fn arrange(&mut self, score: impl Fn(&Waiting) -> Score) {
        self.places.retain(|place| place.live);
        self.places.sort_by_cached_key(|Place { key, job, .. }| {
            (Reverse((job.priority, score(job))), job.submit, *key)
        });
        self.capacities.clear();
        self.capacities.extend(self.places.iter().map(|place| place.job.capacity.0));
        self.estimates.clear();
        self.estimates.extend(self.places.iter().map(|place| cut_off(place.job.estimate.0)));
        self.front = 0;
        self.summarise_from(0);
    }

    pub(crate) fn jobs(&self) -> impl Iterator<Item = &Waiting> {
        self.places.iter().filter(|place| place.live).map(|place| &place.job)
    }

    /// Inserts a job before all others, regardless of its priority.
    pub(crate) fn push_front(&mut self, key: JobKey, job: Waiting) {
        // No empty place before the first job: make one.
        if self.front == 0 {
            self.places.insert(0, Place { key, job, live: false });
            self.capacities.insert(0, 0);
            self.estimates.insert(0, 0);
            self.summarise_from(0);
            self.front = 1;
        }
        self.front -= 1;
        self.places[self.front] = Place { key, job, live: true };
        self.capacities[self.front] = job.capacity.0;
        self.estimates[self.front] = cut_off(job.estimate.0);
        self.live += 1;
        self.summarise(self.front / BLOCK);
    }

    pub(crate) fn pop_front(&mut self) -> Option<(JobKey, Waiting)> {
        let at = self.next_live(self.front)?;
        Some(self.take(at))
    }

    /// The first place from `from` on whose job may be within the bound.
    pub(crate) fn candidate(&self, from: usize, bound: &impl Bound) -> Option<usize> {
        let mut from = from.max(self.front);
        // Often it is the very next one.
        if self.places.get(from).is_some_and(|place| place.live)
            && bound.fits(self.capacities[from], self.estimates[from])
        {
            return Some(from);
        }
        loop {
            let block = self.next_block(from / BLOCK, bound)?;
            let end = (block + 1) * BLOCK;
            let range = from.max(block * BLOCK)..end.min(self.places.len());
            if let Some(found) = self.candidate_in(range, bound) {
                return Some(found);
            }
            from = end;
        }
    }

    /// The first block from `at` on that may contain a job within the bound.
    fn next_block(&self, mut at: usize, bound: &impl Bound) -> Option<usize> {
        let mut level = 0;
        loop {
            if bound.may_fit(self.levels[level].get(at)?) {
                if level == 0 {
                    return Some(at);
                }
                level -= 1;
                at *= GROUP;
                continue;
            }
            at += 1;
            while at.is_multiple_of(GROUP) && level + 1 < self.depth {
                level += 1;
                at /= GROUP;
            }
        }
    }

    /// Whether any job may be within the bound. False only if none is.
    pub(crate) fn may_fit(&self, bound: &impl Bound) -> bool {
        self.next_block(0, bound).is_some()
    }

    pub(crate) fn get(&self, at: usize) -> Waiting {
        self.places[at].job
    }

    pub(crate) fn key(&self, at: usize) -> JobKey {
        self.places[at].key
    }

    /// Removes the job at a place. The places of the others do not change until [`Queue::sweep`].
    pub(crate) fn take(&mut self, at: usize) -> (JobKey, Waiting) {
        let place = self.places[at];
        let shortest = self.levels[0][at / BLOCK].up_to(self.capacities[at]);
        let was_shortest = self.estimates[at] == shortest;
        self.places[at].live = false;
        // Larger than almost any room, so the vectorized scan skips the empty place.
        self.capacities[at] = u32::MAX;
        self.estimates[at] = u32::MAX;
        self.live -= 1;
        if at == self.front {
            self.front = self.next_live(at).unwrap_or(self.places.len());
        }
        // Only the removal of a shortest job can change the summary.
        if was_shortest {
            self.summarise(at / BLOCK);
        }
        (place.key, place.job)
    }

    /// Whether there are many empty places.
    pub(crate) fn wants_sweep(&self) -> bool {
        self.places.len() >= SWEEP_FROM && self.places.len() >= 2 * self.live
    }

    /// Removes empty places, if there are many.
    pub(crate) fn sweep(&mut self) {
        if self.live == 0 {
            self.clear();
            return;
        }
        if !self.wants_sweep() {
            return;
        }
        let mut to = 0;
        for from in self.front..self.places.len() {
            if self.places[from].live {
                self.places[to] = self.places[from];
                self.capacities[to] = self.capacities[from];
                self.estimates[to] = self.estimates[from];
                to += 1;
            }
        }
        self.places.truncate(to);
        self.capacities.truncate(to);
        self.estimates.truncate(to);
        self.front = 0;
        self.summarise_from(0);
    }

    /// The first job from a place on.
    pub(crate) fn next_live(&self, from: usize) -> Option<usize> {
        (from.max(self.front)..self.places.len()).find(|&at| self.places[at].live)
    }

    fn candidate_in(&self, range: Range<usize>, bound: &impl Bound) -> Option<usize> {
        let capacities = &self.capacities[range.clone()];
        let estimates = &self.estimates[range.clone()];
        let mut marks = [0u32; BLOCK];
        let marks = &mut marks[..range.len()];
        bound.mark(capacities, estimates, marks);
        let mut marked = marks.iter().zip(range).filter(|&(&mark, _)| mark != 0);
        marked
            .find(|&(_, at)| bound.fits(self.capacities[at], self.estimates[at]) && self.places[at].live)
            .map(|(_, at)| at)
    }

    /// Builds the summaries of all blocks from one on, and of their groups.
    fn summarise_from(&mut self, mut first: usize) {
        let mut len = self.places.len().div_ceil(BLOCK);
        for level in 0..LEVELS {
            if level >= self.depth {
                first = 0;
            }
            self.levels[level].resize(len, Shortest::OF_NONE);
            for at in first..len {
                self.levels[level][at] = self.summary(level, at);
            }
            if len <= GROUP || level + 1 == LEVELS {
                self.depth = level + 1;
                break;
            }
            (first, len) = (first / GROUP, len.div_ceil(GROUP));
        }
    }

    /// Renews the summary of a block, and those of its groups as far as they change.
    fn summarise(&mut self, mut at: usize) {
        for level in 0..self.depth {
            let summary = self.summary(level, at);
            if std::mem::replace(&mut self.levels[level][at], summary) == summary {
                break;
            }
            at /= GROUP;
        }
    }

    fn summary(&self, level: usize, at: usize) -> Shortest {
        if level > 0 {
            let parts = &self.levels[level - 1];
            return Shortest::of_all(&parts[at * GROUP..((at + 1) * GROUP).min(parts.len())]);
        }
        let range = at * BLOCK..((at + 1) * BLOCK).min(self.places.len());
        let mut shortest = [u32::MAX; CLASSES];
        for (&capacity, &estimate) in self.capacities[range.clone()].iter().zip(&self.estimates[range]) {
            let class = &mut shortest[Shortest::class(capacity)];
            *class = estimate.min(*class);
        }
        for class in 1..CLASSES {
            shortest[class] = shortest[class].min(shortest[class - 1]);
        }
        Shortest(shortest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound::{Limits, Room};
    use crate::policy::Owner;
    use crate::units::{Capacity, Seconds, Time};
    use proptest::prelude::*;

    fn job(submit: i64, capacity: u32, estimate: i64, priority: i32) -> Waiting {
        let (submit, estimate, capacity) = (Time(submit), Seconds(estimate), Capacity(capacity));
        Waiting { submit, estimate, capacity, priority, owner: Owner::NONE }
    }

    fn drain(queue: &mut Queue) -> Vec<u32> {
        std::iter::from_fn(|| queue.pop_front()).map(|(key, _)| key.0).collect()
    }

    #[test]
    fn priority_goes_before_submit_time_and_ties_keep_their_order() {
        let mut queue = Queue::default();
        for (key, (submit, priority)) in
            [(5, 0), (5, 0), (4, 0), (6, 1), (7, 1), (7, -1), (5, 0)].into_iter().enumerate()
        {
            queue.insert(Order::Submit, JobKey(key as u32), job(submit, 1, 1, priority));
        }
        assert_eq!(drain(&mut queue), [3, 4, 2, 0, 1, 6, 5]);
    }

    #[test]
    fn a_job_of_centuries_is_a_candidate_too() {
        let mut queue = Queue::default();
        queue.insert(Order::Submit, JobKey(0), job(0, 2, 1 << 40, 0));
        assert_eq!(queue.candidate(0, &Room::new(2)), Some(0));
        let mut room = Room::new(2);
        room.drop_to(cut_off(1 << 41), 0);
        assert_eq!(queue.candidate(0, &room), Some(0));
        room.drop_to(1_000, 1);
        assert_eq!(queue.candidate(0, &room), None);
    }

    #[test]
    fn candidates_are_found_in_order_across_blocks_and_after_removals() {
        let mut queue = Queue::default();
        for key in 0..1_000u32 {
            let small = key % 97 == 5;
            queue.insert(
                Order::Submit,
                JobKey(key),
                job(i64::from(key), if small { 2 } else { 50 }, i64::from(key % 7) * 100, 0),
            );
        }
        let mut room = Room::new(10);
        room.drop_to(300, 1);
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(at) = queue.candidate(from, &room) {
            found.push(queue.take(at).0.0);
            from = at + 1;
        }
        let expected: Vec<u32> = (0..1_000).filter(|key| key % 97 == 5 && key % 7 * 100 <= 300).collect();
        assert_eq!(found, expected);
        assert_eq!(queue.len(), 1_000 - expected.len());
        let rest: Vec<u32> = (0..1_000).filter(|key| !expected.contains(key)).collect();
        for &key in &rest[..800] {
            assert_eq!(queue.pop_front().map(|(JobKey(first), _)| first), Some(key));
        }
        queue.sweep();
        queue.push_front(JobKey(7_000), job(0, 3, 1, -5));
        assert_eq!(queue.pop_front().map(|(key, _)| key), Some(JobKey(7_000)));
        assert_eq!(drain(&mut queue), rest[800..]);
    }

    fn drawn_jobs(most: usize) -> impl Strategy<Value = Vec<(u32, i64)>> {
        let capacity = prop_oneof![0..6u32, 1..70_000u32, (0..17u32).prop_map(|power| 1 << power)];
        let estimate = prop_oneof![1..50i64, 1..100_000i64, Just(1i64 << 40)];
        prop::collection::vec((capacity, estimate), 1..most)
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(100))]

        /// The plain twin is the list of all limits.
        #[test]
        fn limits_exclude_the_same_jobs_as_each_of_them(limits in drawn_jobs(40), jobs in drawn_jobs(80)) {
            let mut room = Limits::default();
            for (number, &(capacity, longest)) in limits.iter().enumerate() {
                room.limit(capacity, Seconds(longest));
                prop_assert!(room.stairs.is_sorted_by(|one, two| one.0 > two.0 && one.1 < two.1));
                let mut all = Shortest::OF_NONE;
                let mut any = false;
                for &(capacity, estimate) in &jobs {
                    let fits = |&(from, longest): &(u32, i64)| {
                        capacity < from || cut_off(estimate) <= cut_off(longest)
                    };
                    let plain = limits[..=number].iter().all(fits);
                    prop_assert_eq!(room.fits(capacity, cut_off(estimate)), plain);
                    all.include(capacity, cut_off(estimate));
                    any |= plain;
                }
                prop_assert!(!any || room.may_fit(&all));
                let mut marks = vec![0; jobs.len()];
                let (capacities, estimates): (Vec<u32>, Vec<u32>) =
                    jobs.iter().map(|&(capacity, estimate)| (capacity, cut_off(estimate))).unzip();
                room.mark(&capacities, &estimates, &mut marks);
                for (mark, (capacity, estimate)) in marks.into_iter().zip(capacities.into_iter().zip(estimates)) {
                    prop_assert!(mark != 0 || !room.fits(capacity, estimate));
                }
            }
        }
    }

    proptest! {
        #![proptest_config(bookahead_tests::cases::cases(24))]

        /// The plain twin is a list in the order of submission, searched from its begin.
        #[test]
        fn a_long_queue_finds_the_same_candidates_as_a_list(
            jobs in drawn_jobs(3_000),
            steps in prop::collection::vec((0..40usize, any::<prop::sample::Index>(), 0..70_000u32, 1..100_000i64), 150),
        ) {
            let mut queue = Queue::default();
            let mut list: Vec<(u32, u32, i64)> = Vec::new();
            let mut rest = (0u32..).zip(jobs);
            for (number, from, widest, longest) in steps {
                for (key, (capacity, estimate)) in rest.by_ref().take(number * number / 10) {
                    queue.insert(Order::Submit, JobKey(key), job(i64::from(key), capacity, estimate, 0));
                    list.push((key, capacity, estimate));
                }
                let mut limits = Limits::default();
                limits.narrow(widest);
                limits.limit(widest / 4, Seconds(longest));
                let mut room = Room::new(widest);
                room.drop_to(cut_off(longest), (widest / 4).saturating_sub(1));
                let live: Vec<usize> = (0..queue.places.len()).filter(|&at| queue.places[at].live).collect();
                prop_assert_eq!(live.len(), list.len());
                let skipped = if list.is_empty() { 0 } else { from.index(list.len()) };
                let fits = |bound: &dyn Fn(u32, u32) -> bool| {
                    let mut behind = list.iter().zip(&live).skip(skipped);
                    behind.find(|((_, capacity, estimate), _)| bound(*capacity, cut_off(*estimate)))
                        .map(|(_, at)| *at)
                };
                let begin = live.get(skipped).copied().unwrap_or(0);
                let found = queue.candidate(begin, &limits);
                prop_assert_eq!(found, fits(&|capacity, estimate| limits.fits(capacity, estimate)));
                let plain = fits(&|capacity, estimate| room.fits(capacity, estimate));
                prop_assert_eq!(queue.candidate(begin, &room), plain);
                if let Some(at) = found {
                    let (key, _) = queue.take(at);
                    list.retain(|job| job.0 != key.0);
                }
                for _ in 0..number * number / 20 {
                    let Some((key, _)) = queue.pop_front() else { break };
                    prop_assert_eq!(key.0, list.remove(0).0);
                }
                if number % 8 == 0 {
                    queue.sweep();
                }
            }
        }
    }
}
