//! Free for one user: what is free at all, and, where his share of the resource is limited, what is left of
//! his share. A need fits where it fits both; searches go from one to the other until they agree.

use bookahead_plan::{Capacity, Interval, Need, Profile, Seconds, Starts, Time};

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
