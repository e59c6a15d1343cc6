//! How much stays free from now on, and until when: a staircase that only goes down. A job may start now if the
//! stair on which it ends is high enough, so that many candidates are checked at the cost of a few searches.
//!
//! Stairs are found when first asked for, and hold only until the profile changes.

use crate::profile::Profile;
use crate::queue::{Room, cut_off};
use crate::units::{Capacity, Seconds, Time};

/// At least `free` until just before `until`.
#[derive(Debug, Clone, Copy)]
struct Stair {
    until: Time,
    free: i64,
    /// What is free at `until`.
    next: i64,
}

/// The staircase from the profile's origin on.
#[derive(Default)]
pub(crate) struct Stairs {
    found: Vec<Stair>,
}

impl Stairs {
    /// Begins anew, because the profile has changed.
    pub(crate) fn reset(&mut self) {
        self.found.clear();
    }

    /// What is free now, for however short a time; None where nothing is.
    pub(crate) fn room_now(profile: &Profile) -> Option<Room> {
        let now = amount(profile.free_now());
        (now > 0).then(|| Room::new(now))
    }

    /// What any job must fit to start now, by the first stair and those found so far; None where nothing is free.
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

fn amount(free: i64) -> u32 {
    u32::try_from(free.max(0)).unwrap_or(u32::MAX)
}
