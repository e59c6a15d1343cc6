//! The waiting jobs in queue order, laid out to find the jobs that could start now quickly: capacities and
//! estimates are in separate arrays, and each block of them knows its shortest jobs.
//!
//! A removed job is only marked; marked places are swept out when half of them are empty. The queue returns
//! candidates, and never decides whether one starts.

use crate::order::{Order, Score};
use crate::policy::{JobKey, Waiting};
use crate::profile::Profile;
use crate::units::{Capacity, Seconds, Time};
use std::cmp::Reverse;
use std::ops::Range;

/// Jobs in a block. One block is scanned in a few nanoseconds and skipped in one.
const BLOCK: usize = 64;
/// Smallest number of places to sweep; below it there is nothing to gain.
const SWEEP_FROM: usize = 2 * BLOCK;

/// Most drops in a [`Room`]. Further ones are checked by [`Stairs::admit`].
pub(crate) const DROPS: usize = 8;

/// A bound on jobs that may start now: the free capacity, and later drops of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    now: u32,
    /// After this many seconds, only this capacity is free.
    drops: [(u32, u32); DROPS],
    len: usize,
}

impl Room {
    pub(crate) fn new(now: u32) -> Room {
        Room { now, drops: [(0, 0); DROPS], len: 0 }
    }

    /// Adds a drop, later and lower than the last. Ignored if there is no space for it: the bound then only
    /// gets weaker.
    pub(crate) fn drop_to(&mut self, after: u32, free: u32) {
        if self.len < DROPS {
            self.drops[self.len] = (after, free);
            self.len += 1;
        }
    }

    /// Lowers the free capacity.
    pub(crate) fn narrow(&mut self, now: u32) {
        self.now = now;
    }

    /// Excludes jobs that need at least this capacity for at least this long. If there is no space for it, one of the
    /// others is replaced: the bound only gets weaker.
    pub(crate) fn rule_out(&mut self, capacity: u32, length: Seconds) {
        let rule = (cut_off(length.0 - 1), capacity.saturating_sub(1));
        let implied = |(after, free): &(u32, u32)| rule.0 <= *after && rule.1 <= *free;
        if let Some(weaker) = self.drops[..self.len].iter_mut().find(|drop| implied(drop)) {
            *weaker = rule;
        } else if self.len < DROPS {
            self.drop_to(rule.0, rule.1);
        } else {
            self.drops.rotate_left(1);
            self.drops[DROPS - 1] = rule;
        }
    }

    fn drops(&self) -> &[(u32, u32)] {
        &self.drops[..self.len]
    }
}

#[derive(Clone, Copy)]
struct Place {
    key: JobKey,
    job: Waiting,
    live: bool,
}

/// Size classes by powers of two; the last one contains all larger sizes.
const CLASSES: usize = 16;

/// For each size class, the shortest estimate of a block's jobs of this class or smaller. [`u32::MAX`] if
/// there are none.
#[derive(Clone, Copy)]
struct Shortest([u32; CLASSES]);

impl Shortest {
    const OF_NONE: Shortest = Shortest([u32::MAX; CLASSES]);

    fn class(capacity: u32) -> usize {
        (capacity.max(1).ilog2() as usize).min(CLASSES - 1)
    }

    fn include(&mut self, capacity: u32, estimate: u32) {
        for shortest in &mut self.0[Shortest::class(capacity)..] {
            *shortest = estimate.min(*shortest);
        }
    }

    /// Whether the block may contain a job that fits. False only if it has none.
    #[inline]
    fn may_fit(&self, room: &Room) -> bool {
        let shortest = self.0[Shortest::class(room.now)];
        let any_of = |free: u32| free > 0 && self.0[Shortest::class(free)] < u32::MAX;
        shortest < u32::MAX && room.drops().iter().all(|&(after, free)| shortest <= after || any_of(free))
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    capacities: Vec<u32>,
    /// In seconds, capped.
    estimates: Vec<u32>,
    places: Vec<Place>,
    blocks: Vec<Shortest>,
    /// No place before this one is live.
    front: usize,
    live: usize,
}

impl Queue {
    pub(crate) fn clear(&mut self) {
        self.capacities.clear();
        self.estimates.clear();
        self.places.clear();
        self.blocks.clear();
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
        // An appended job only adds to the summary of the last block. An insertion shifts all later blocks.
        if at + 1 == self.places.len() && !at.is_multiple_of(BLOCK) {
            self.blocks[at / BLOCK].include(self.capacities[at], self.estimates[at]);
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

    /// The first place from `from` on whose job may fit the room.
    pub(crate) fn candidate(&self, from: usize, room: &Room) -> Option<usize> {
        let mut from = from.max(self.front);
        // Often it is the very next one.
        if self.places.get(from).is_some_and(|place| place.live) && self.fits(from, room) {
            return Some(from);
        }
        while from < self.places.len() {
            let block = from / BLOCK;
            let end = ((block + 1) * BLOCK).min(self.places.len());
            if self.blocks[block].may_fit(room)
                && let Some(found) = self.candidate_in(from..end, room)
            {
                return Some(found);
            }
            from = end;
        }
        None
    }

    fn fits(&self, at: usize, room: &Room) -> bool {
        let (capacity, estimate) = (self.capacities[at], self.estimates[at]);
        capacity <= room.now
            && room.drops().iter().all(|&(after, free)| estimate <= after || capacity <= free)
    }

    /// Whether any job may fit the room. False only if none does.
    pub(crate) fn may_fit(&self, room: &Room) -> bool {
        self.blocks.iter().any(|block| block.may_fit(room))
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
        let shortest = self.blocks[at / BLOCK].0[Shortest::class(self.capacities[at])];
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

    fn candidate_in(&self, range: Range<usize>, room: &Room) -> Option<usize> {
        let capacities = &self.capacities[range.clone()];
        let estimates = &self.estimates[range.clone()];
        // Loops without an early exit are compiled to vector instructions.
        let mut fits = [0u32; BLOCK];
        let fits = &mut fits[..range.len()];
        for (fits, &capacity) in fits.iter_mut().zip(capacities) {
            *fits = u32::from(capacity <= room.now);
        }
        for &(after, free) in room.drops() {
            for ((fits, &capacity), &estimate) in fits.iter_mut().zip(capacities).zip(estimates) {
                *fits &= u32::from(estimate <= after) | u32::from(capacity <= free);
            }
        }
        if fits.iter().fold(0, |any, fits| any | fits) == 0 {
            return None;
        }
        fits.iter().zip(range).find(|&(&fits, at)| fits != 0 && self.places[at].live).map(|(_, at)| at)
    }

    fn summarise_from(&mut self, first: usize) {
        self.blocks.resize(self.places.len().div_ceil(BLOCK), Shortest::OF_NONE);
        for block in first..self.blocks.len() {
            self.summarise(block);
        }
    }

    fn summarise(&mut self, block: usize) {
        let range = block * BLOCK..((block + 1) * BLOCK).min(self.places.len());
        let mut shortest = [u32::MAX; CLASSES];
        for (&capacity, &estimate) in self.capacities[range.clone()].iter().zip(&self.estimates[range]) {
            let class = &mut shortest[Shortest::class(capacity)];
            *class = estimate.min(*class);
        }
        for class in 1..CLASSES {
            shortest[class] = shortest[class].min(shortest[class - 1]);
        }
        self.blocks[block] = Shortest(shortest);
    }
}

/// Seconds as stored in a block. Capped below [`u32::MAX`], which means no job.
pub(crate) fn cut_off(seconds: i64) -> u32 {
    seconds.clamp(0, i64::from(u32::MAX - 1)) as u32
}

/// At least `free` until just before `until`.
#[derive(Debug, Clone, Copy)]
struct Stair {
    until: Time,
    free: i64,
    /// Free capacity at `until`.
    next: i64,
}

/// The decreasing minimum of the free capacity from the profile's origin on, computed on demand.
#[derive(Default)]
pub(crate) struct Stairs {
    found: Vec<Stair>,
}

impl Stairs {
    /// Starts again, because the profile has changed.
    pub(crate) fn reset(&mut self) {
        self.found.clear();
    }

    /// Free capacity now, without drops. None if nothing is free.
    pub(crate) fn room_now(profile: &Profile) -> Option<Room> {
        let now = amount(profile.free_now());
        (now > 0).then(|| Room::new(now))
    }

    /// The bound for a job to start now, from the first stair and those found so far. None if nothing is
    /// free.
    pub(crate) fn room(&mut self, profile: &Profile) -> Option<Room> {
        let mut room = Stairs::room_now(profile)?;
        self.stair(0, profile);
        for stair in self.found.iter().filter(|stair| stair.until < Time::MAX) {
            room.drop_to(cut_off((stair.until - profile.origin()).0), amount(stair.next));
        }
        Some(room)
    }

    /// Whether `capacity` stays free for `length` from now on.
    pub(crate) fn admit(&mut self, profile: &Profile, capacity: Capacity, length: Seconds) -> bool {
        let end = profile.origin() + length;
        let mut at = 0;
        loop {
            let stair = self.stair(at, profile);
            if end <= stair.until || i64::from(capacity.0) > stair.next {
                return end <= stair.until && i64::from(capacity.0) <= stair.free;
            }
            at += 1;
        }
    }

    #[inline]
    fn stair(&mut self, at: usize, profile: &Profile) -> Stair {
        while at >= self.found.len() {
            let last = self.found.last();
            let (from, free) =
                last.map_or((profile.origin(), profile.free_now()), |last| (last.until, last.next));
            let (until, next) = profile.first_below(from, free).unwrap_or((Time::MAX, free));
            self.found.push(Stair { until, free, next });
        }
        self.found[at]
    }
}

/// Free capacity as it is stored in a room.
pub(crate) fn amount(free: i64) -> u32 {
    u32::try_from(free.max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Owner;
    use crate::units::{Capacity, Seconds, Time};

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
}
