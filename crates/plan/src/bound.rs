//! Bounds on the size of jobs, with which the queue finds those that could start: the free capacity and its later drops
//! ([`Room`]), or the longest estimate for each capacity ([`Limits`]). [`Shortest`] sums up many jobs, so that all of them
//! can be skipped at once. A bound may let too many jobs through, never too few.

use crate::profile::Profile;
use crate::units::{Capacity, Seconds, Time};

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

    fn drops(&self) -> &[(u32, u32)] {
        &self.drops[..self.len]
    }
}

/// A bound on jobs by their size.
pub(crate) trait Bound {
    /// Whether a job may be within the bound.
    fn fits(&self, capacity: u32, estimate: u32) -> bool;

    /// Whether some of these jobs may be within it. False only if none is.
    fn may_fit(&self, jobs: &Shortest) -> bool;

    /// Marks the jobs that may be within the bound, and some others. Loops without an early exit are compiled to vector
    /// instructions.
    fn mark(&self, capacities: &[u32], estimates: &[u32], marks: &mut [u32]);
}

impl Bound for Room {
    #[inline]
    fn fits(&self, capacity: u32, estimate: u32) -> bool {
        capacity <= self.now
            && self.drops().iter().all(|&(after, free)| estimate <= after || capacity <= free)
    }

    #[inline]
    fn may_fit(&self, jobs: &Shortest) -> bool {
        let shortest = jobs.up_to(self.now);
        let any_of = |free: u32| jobs.up_to(free) < u32::MAX;
        shortest < u32::MAX && self.drops().iter().all(|&(after, free)| shortest <= after || any_of(free))
    }

    #[inline]
    fn mark(&self, capacities: &[u32], estimates: &[u32], marks: &mut [u32]) {
        for (mark, &capacity) in marks.iter_mut().zip(capacities) {
            *mark = u32::from(capacity <= self.now);
        }
        for &(after, free) in self.drops() {
            for ((mark, &capacity), &estimate) in marks.iter_mut().zip(capacities).zip(estimates) {
                *mark &= u32::from(estimate <= after) | u32::from(capacity <= free);
            }
        }
    }
}

/// The longest estimate allowed for each capacity: the more capacity, the shorter. Exact for any number of limits.
pub(crate) struct Limits {
    /// Jobs of at least this capacity have at most this estimate. Capacities descend, estimates ascend.
    pub(crate) stairs: Vec<(u32, u32)>,
    /// For each size class, the longest estimate allowed for its smallest capacity.
    classes: [u32; CLASSES],
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { stairs: Vec::new(), classes: [NO_LIMIT; CLASSES] }
    }
}

impl Limits {
    /// Allows every job.
    pub(crate) fn clear(&mut self) {
        self.stairs.clear();
        self.classes = [NO_LIMIT; CLASSES];
    }

    /// Excludes jobs of at least this capacity that have a longer estimate.
    pub(crate) fn limit(&mut self, capacity: u32, longest: Seconds) {
        let longest = cut_off(longest.0);
        if self.longest(capacity) <= longest {
            return;
        }
        // Stairs of at least this capacity that allow as much are implied by the new one.
        let end = self.stairs.partition_point(|stair| stair.0 >= capacity);
        let implied = self.stairs[..end].iter().rev().take_while(|stair| stair.1 >= longest).count();
        if implied == 0 {
            self.stairs.insert(end, (capacity, longest));
        } else {
            self.stairs[end - implied] = (capacity, longest);
            self.stairs.drain(end - implied + 1..end);
        }
        for class in &mut self.classes[Shortest::first_class_from(capacity)..] {
            *class = longest.min(*class);
        }
    }

    /// Excludes jobs that need more than this capacity.
    pub(crate) fn narrow(&mut self, widest: u32) {
        if let Some(wider) = widest.checked_add(1) {
            self.limit(wider, Seconds(0));
        }
    }

    fn longest(&self, capacity: u32) -> u32 {
        let below = |stair: &&(u32, u32)| stair.0 <= capacity;
        self.stairs.iter().find(below).map_or(NO_LIMIT, |&(_, longest)| longest)
    }
}

impl Bound for Limits {
    #[inline]
    fn fits(&self, capacity: u32, estimate: u32) -> bool {
        estimate <= self.classes[Shortest::class(capacity)] && estimate <= self.longest(capacity)
    }

    #[inline]
    fn may_fit(&self, jobs: &Shortest) -> bool {
        jobs.0.iter().zip(&self.classes).fold(false, |any, (shortest, longest)| any | (shortest <= longest))
    }

    #[inline]
    fn mark(&self, capacities: &[u32], estimates: &[u32], marks: &mut [u32]) {
        let widest = self.stairs.first().filter(|stair| stair.1 == 0).map_or(u32::MAX, |stair| stair.0 - 1);
        let longest = self.longest(1);
        for ((mark, &capacity), &estimate) in marks.iter_mut().zip(capacities).zip(estimates) {
            *mark =
                u32::from(capacity <= widest) & (u32::from(estimate <= longest) | u32::from(capacity == 0));
        }
    }
}

/// Longest estimate, see [`cut_off`].
const NO_LIMIT: u32 = u32::MAX - 1;
/// Size classes: nothing, then by powers of two; the last one contains all larger sizes.
pub(crate) const CLASSES: usize = 16;

/// For each size class, the shortest estimate of some jobs of this class or smaller. [`u32::MAX`] if there are none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortest(pub(crate) [u32; CLASSES]);

impl Shortest {
    pub(crate) const OF_NONE: Shortest = Shortest([u32::MAX; CLASSES]);

    #[inline]
    pub(crate) fn class(capacity: u32) -> usize {
        ((u32::BITS - capacity.leading_zeros()) as usize).min(CLASSES - 1)
    }

    /// The first class that has no smaller capacity.
    pub(crate) fn first_class_from(capacity: u32) -> usize {
        capacity.checked_sub(1).map_or(0, |below| (Shortest::class(below) + 1).min(CLASSES))
    }

    /// The shortest estimate of the jobs of this capacity or less, and of some that are larger.
    #[inline]
    pub(crate) fn up_to(&self, capacity: u32) -> u32 {
        self.0[Shortest::class(capacity)]
    }

    pub(crate) fn include(&mut self, capacity: u32, estimate: u32) {
        for shortest in &mut self.0[Shortest::class(capacity)..] {
            *shortest = estimate.min(*shortest);
        }
    }

    pub(crate) fn of_all(parts: &[Shortest]) -> Shortest {
        let mut all = Shortest::OF_NONE;
        for part in parts {
            for (shortest, &other) in all.0.iter_mut().zip(&part.0) {
                *shortest = other.min(*shortest);
            }
        }
        all
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
