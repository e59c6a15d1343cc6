//! How long jobs waited that have started: the last ones of each class of size and duration, of each class of size,
//! and of all. Classes are powers of two, since both sizes and times spread over orders of magnitude.
//!
//! It relies on being told of starts in the order of time. It never grows beyond [`WINDOW`] waits for each class.

use super::{Prediction, Predictor, rounded_up};
use crate::job::Waiting;
use crate::units::{Capacity, Seconds, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// How many starts of a class are remembered. A bound of the 95% quantile is then close to the quantile (rank 962 of
/// 1000; the 59 that it needs at least give the largest), while a change of load is seen within about a week on a
/// cluster that starts a job every ten minutes.
pub const WINDOW: usize = 1000;

/// Which jobs a prediction was taken from. A class of size or duration `c` has those from 2^c to 2^(c+1) - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Of similar size and similar estimate.
    SizeAndDuration {
        /// The class of the capacity.
        size: u32,
        /// The class of the estimate, in seconds.
        duration: u32,
    },
    /// Of similar size.
    Size {
        /// The class of the capacity.
        size: u32,
    },
    /// All jobs.
    All,
}

impl Class {
    /// The classes that a job belongs to, from the finest to all.
    pub fn of(capacity: Capacity, duration: Seconds) -> [Class; 3] {
        let size = capacity.0.max(1).ilog2();
        let duration = duration.0.max(1).ilog2();
        [Class::SizeAndDuration { size, duration }, Class::Size { size }, Class::All]
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = |class: u32| (2u64 << class) - 1;
        match *self {
            Class::SizeAndDuration { size, duration } => write!(
                f,
                "jobs of size {} to {} and {} to {} s",
                1u64 << size,
                last(size),
                1u64 << duration,
                last(duration)
            ),
            Class::Size { size } => write!(f, "jobs of size {} to {}", 1u64 << size, last(size)),
            Class::All => f.write_str("jobs of all sizes"),
        }
    }
}

/// The waits of the jobs that started last, by class.
#[derive(Debug, Clone, Default)]
pub struct History {
    classes: BTreeMap<Class, Window>,
}

/// The last waits of one class.
#[derive(Debug, Clone, Default)]
struct Window {
    /// In the order of the starts.
    recent: VecDeque<Seconds>,
    /// The same from the shortest to the longest.
    sorted: Vec<Seconds>,
    sum: i128,
}

impl History {
    /// A job started at `now`. A start before the submission counts as no wait.
    pub fn record(&mut self, job: &Waiting, now: Time) {
        let wait = (now - job.submit).max(Seconds::ZERO);
        for class in Class::of(job.capacity, job.estimate) {
            self.classes.entry(class).or_default().push(wait);
        }
    }

    /// How many starts of a class are remembered.
    pub fn observations(&self, class: Class) -> usize {
        self.classes.get(&class).map_or(0, |window| window.sorted.len())
    }

    /// The predicted wait of a job.
    pub fn predict(&self, predictor: Predictor, capacity: Capacity, duration: Seconds) -> Prediction {
        let Some(all) = self.classes.get(&Class::All) else {
            return Prediction { wait: Seconds::ZERO, class: Class::All, observations: 0, sufficient: false };
        };
        let observations = all.sorted.len();
        let of_all = |wait, sufficient| Prediction { wait, class: Class::All, observations, sufficient };
        let Predictor::Quantile(bound) = predictor else { return of_all(all.mean(), true) };
        let windows = Class::of(capacity, duration).into_iter().filter_map(|class| {
            let window = self.classes.get(&class)?;
            let observations = window.sorted.len();
            let wait = window.sorted[bound.rank(observations)? - 1];
            Some(Prediction { wait, class, observations, sufficient: true })
        });
        // The longest wait of a few jobs says something, if less than was asked for.
        let longest = all.sorted.last().copied().unwrap_or_default();
        windows.into_iter().next().unwrap_or_else(|| of_all(longest, false))
    }
}

impl Window {
    fn push(&mut self, wait: Seconds) {
        if self.recent.len() == WINDOW
            && let Some(oldest) = self.recent.pop_front()
        {
            let at = self.sorted.partition_point(|&other| other < oldest);
            self.sorted.remove(at);
            self.sum -= i128::from(oldest.0);
        }
        self.recent.push_back(wait);
        let at = self.sorted.partition_point(|&other| other < wait);
        self.sorted.insert(at, wait);
        self.sum += i128::from(wait.0);
    }

    /// The mean, rounded up; zero where there is nothing.
    fn mean(&self) -> Seconds {
        let count = self.recent.len().max(1) as i128;
        Seconds(i64::try_from(rounded_up(self.sum, count)).unwrap_or(i64::MAX))
    }
}
