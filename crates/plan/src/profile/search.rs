//! The questions asked of a step function: where is it lowest, where does it first fall below a need, where does
//! it stay above one for long enough. Each is a guide that steers one walk over the tree and says which subtrees
//! need not be entered. Guides never change anything.

use super::tree::Subtree;

/// What a walk does with a subtree.
pub(super) enum Way {
    /// Nothing inside matters.
    Past,
    /// Look inside.
    Into,
    /// The walk is over.
    Done,
}

/// Steers a walk over the values from left to right. A value holds from its `begin` until the next one's.
pub(super) trait Guide {
    /// Asked before a subtree is entered.
    fn subtree(&mut self, subtree: &Subtree) -> Way;
    /// Shown each value inside; answers whether the walk is over.
    fn value(&mut self, begin: i64, value: i64) -> bool;
}

/// Finds the least value over `from..to`.
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
    fn value(&mut self, begin: i64, value: i64) -> bool {
        if begin >= self.to {
            return true;
        }
        self.least = self.least.min(value);
        false
    }
}

/// Finds where the first value below `need` begins, not before `from`.
pub(super) struct FirstBelow {
    pub(super) from: i64,
    pub(super) need: i64,
    /// Where, and that value.
    pub(super) found: Option<(i64, i64)>,
}

impl Guide for FirstBelow {
    #[inline]
    fn subtree(&mut self, subtree: &Subtree) -> Way {
        if subtree.low >= self.need { Way::Past } else { Way::Into }
    }

    #[inline]
    fn value(&mut self, begin: i64, value: i64) -> bool {
        if value < self.need {
            self.found = Some((begin.max(self.from), value));
        }
        value < self.need
    }
}

/// Finds the first run of values not below `need` that lasts `length` and begins between `from` and `latest`.
/// After the walk `run` is the answer; it may be later than `latest`, which then means that there is none.
pub(super) struct EarliestFit {
    pub(super) from: i64,
    pub(super) latest: i64,
    pub(super) length: i64,
    pub(super) need: i64,
    /// Where the run began that reaches to where the walk is.
    pub(super) run: Option<i64>,
}

impl EarliestFit {
    /// Whether the walk, having come to `time`, has its answer or can have none.
    #[inline]
    fn settled_at(&self, time: i64) -> bool {
        match self.run {
            Some(run) => run.saturating_add(self.length) <= time,
            None => time > self.latest,
        }
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
    fn value(&mut self, begin: i64, value: i64) -> bool {
        if self.settled_at(begin) {
            return true;
        }
        if value >= self.need {
            self.enough_from(begin);
        } else {
            self.run = None;
        }
        false
    }
}
