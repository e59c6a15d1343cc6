//! Searches in a step function: its minimum, the first value below a need, and the first run at or above a
//! need. Each is a guide that steers one walk over the tree and tells which subtrees to skip. Guides never
//! change the tree.

use super::node::Subtree;

/// What a walk does with a subtree.
pub(super) enum Way {
    /// Skip it.
    Past,
    /// Enter it.
    Into,
    /// End the walk.
    Done,
}

/// Steers a walk over the values from left to right. A value holds from its `begin` to that of the next one.
pub(super) trait Guide {
    /// Called before a subtree is entered.
    fn subtree(&mut self, subtree: &Subtree) -> Way;
    /// Called with the steps of a leaf; `value` is the value before the first. Returns whether the walk is
    /// over.
    fn leaf(&mut self, times: &[i64], steps: &[i64], value: i64) -> bool;
}

/// Finds the minimum over `from..to`.
pub(super) struct Least {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) least: i64,
}

impl Guide for Least {
    #[inline]
    fn subtree(&mut self, subtree: &Subtree) -> Way {
        if subtree.begin >= self.to {
            return Way::Done;
        }
        if subtree.low >= self.least {
            return Way::Past;
        }
        if self.from <= subtree.begin && subtree.end <= self.to {
            self.least = subtree.low;
            return Way::Past;
        }
        Way::Into
    }

    #[inline]
    fn leaf(&mut self, times: &[i64], steps: &[i64], mut value: i64) -> bool {
        for (&begin, step) in times.iter().zip(steps) {
            if begin >= self.to {
                return true;
            }
            value += step;
            self.least = self.least.min(value);
        }
        false
    }
}

/// Finds the start of the first value below `need`, from `from` on.
pub(super) struct FirstBelow {
    pub(super) from: i64,
    pub(super) need: i64,
    /// Its start, and the value.
    pub(super) found: Option<(i64, i64)>,
}

impl Guide for FirstBelow {
    #[inline]
    fn subtree(&mut self, subtree: &Subtree) -> Way {
        if subtree.low >= self.need { Way::Past } else { Way::Into }
    }

    #[inline]
    fn leaf(&mut self, times: &[i64], steps: &[i64], mut value: i64) -> bool {
        for (&begin, step) in times.iter().zip(steps) {
            value += step;
            if value < self.need {
                self.found = Some((begin.max(self.from), value));
                return true;
            }
        }
        false
    }
}

/// Finds the first run of values not below `need` that lasts for `length`, or until `assured`, and starts
/// between `from` and `latest`. The result is in `run`. If it is later than `latest`, there is none.
pub(super) struct EarliestFit {
    pub(super) from: i64,
    pub(super) latest: i64,
    pub(super) length: i64,
    /// From here on the need is known to be met.
    pub(super) assured: i64,
    pub(super) need: i64,
    /// Start of the run that reaches the current position.
    pub(super) run: Option<i64>,
}

impl EarliestFit {
    /// Whether the walk has its result at `time`, or can have none.
    #[inline]
    fn settled_at(&self, time: i64) -> bool {
        match self.run {
            Some(run) => self.lasted(run) <= time,
            None => time > self.latest,
        }
    }

    /// When a run that started at `run` has lasted long enough.
    #[inline]
    fn lasted(&self, run: i64) -> i64 {
        run.saturating_add(self.length).min(self.assured)
    }

    #[inline]
    fn enough_from(&mut self, begin: i64) {
        if self.run.is_none() {
            self.run = Some(begin.max(self.from));
        }
    }
}

impl Guide for EarliestFit {
    #[inline]
    fn subtree(&mut self, subtree: &Subtree) -> Way {
        if self.settled_at(subtree.begin) {
            return Way::Done;
        }
        if subtree.low >= self.need {
            self.enough_from(subtree.begin);
            return Way::Past;
        }
        if subtree.high < self.need {
            self.run = None;
            return Way::Past;
        }
        Way::Into
    }

    #[inline]
    fn leaf(&mut self, times: &[i64], steps: &[i64], mut value: i64) -> bool {
        let mut all = times.iter().zip(steps);
        loop {
            let Some(run) = self.run else {
                // Blocked: continue to the next value with enough.
                let Some(&begin) = all.find_map(|(begin, step)| {
                    value += step;
                    (value >= self.need).then_some(begin)
                }) else {
                    return times.last().is_some_and(|&last| last > self.latest);
                };
                self.run = Some(begin.max(self.from));
                continue;
            };
            // Enough: continue to a value with too little, or until the run has lasted long enough.
            let lasted = self.lasted(run);
            let Some(&begin) = all.find_map(|(begin, step)| {
                value += step;
                (value < self.need || *begin >= lasted).then_some(begin)
            }) else {
                return false;
            };
            if begin >= lasted {
                return true;
            }
            self.run = None;
        }
    }
}
