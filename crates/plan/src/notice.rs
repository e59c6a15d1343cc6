//! How long before its start a reservation must be asked for: a multiple of the time that the same request would
//! wait in the queue, so that reserving does not beat queueing.
//!
//! The wait is predicted from the jobs that started ([`History`]), by their mean or by an upper bound of a quantile
//! ([`QuantileBound`]). It relies on being told of every job that starts from the queue, in the order of time, and never of
//! reservations; it never looks whether a reservation fits.

use crate::policy::Waiting;
use crate::units::{Capacity, Seconds, Time};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// How the wait of a request is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// The mean wait of all jobs in the window, as in COSY.
    Mean,
    /// What the given share of similar jobs does not exceed, with the given confidence; of the finest class that
    /// has enough history for it.
    Quantile(QuantileBound),
}

/// A predicted wait and what it rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// The wait; zero where there is no history.
    pub wait: Seconds,
    /// The jobs that it was taken from.
    pub class: Class,
    /// How many there were.
    pub observations: usize,
    /// Whether there were enough for the confidence that was asked for. Where not, a quantile is the longest wait
    /// of all. A mean asks for one.
    pub sufficient: bool,
}

/// The notice that a site asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeRule {
    /// How waits are predicted.
    pub predictor: Predictor,
    /// The shortest notice, in hundredths of the predicted wait: 100 is the wait itself, 0 asks for none.
    pub percent: u32,
}

/// A reservation that was asked for too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a notice of {given} s is too short, {needed} s are needed: in the queue it would wait {} s \
     (history: {}, {} of them); start later, or submit it as a job",
    rests_on.wait,
    rests_on.class,
    rests_on.observations
)]
pub struct TooShortNotice {
    /// The notice that is needed.
    pub needed: Seconds,
    /// The notice that was given.
    pub given: Seconds,
    /// The wait behind it.
    pub rests_on: Prediction,
}

/// The rule of a site and the history that it is applied to.
#[derive(Debug, Clone)]
pub struct Notice {
    rule: NoticeRule,
    history: History,
}

impl Notice {
    /// With no history yet: nothing is asked for until jobs have started.
    pub fn new(rule: NoticeRule) -> Notice {
        Notice { rule, history: History::default() }
    }

    /// The rule.
    pub fn rule(&self) -> NoticeRule {
        self.rule
    }

    /// A job started from the queue.
    pub fn job_started(&mut self, job: &Waiting, now: Time) {
        self.history.record(job, now);
    }

    /// How long a job of this size and estimate would wait, if it were submitted now.
    pub fn predicted_wait(&self, capacity: Capacity, duration: Seconds) -> Prediction {
        self.history.predict(self.rule.predictor, capacity, duration)
    }

    /// The shortest notice for a reservation of this size and duration, rounded up to the second.
    pub fn shortest_notice(&self, capacity: Capacity, duration: Seconds) -> Seconds {
        self.rule.notice(self.predicted_wait(capacity, duration).wait)
    }

    /// Whether `given`, the time from now to the start, is notice enough; what it rests on, either way.
    pub fn check(
        &self,
        given: Seconds,
        capacity: Capacity,
        duration: Seconds,
    ) -> Result<Prediction, TooShortNotice> {
        let rests_on = self.predicted_wait(capacity, duration);
        let needed = self.rule.notice(rests_on.wait);
        if given < needed { Err(TooShortNotice { needed, given, rests_on }) } else { Ok(rests_on) }
    }
}

impl NoticeRule {
    /// The shortest notice where the predicted wait is `wait`.
    pub fn notice(&self, wait: Seconds) -> Seconds {
        let hundredths = i128::from(wait.0) * i128::from(self.percent);
        Seconds(i64::try_from(rounded_up(hundredths, 100)).unwrap_or(i64::MAX))
    }
}

/// The quotient of numbers that are not negative, rounded up.
fn rounded_up(sum: i128, by: i128) -> i128 {
    (sum + by - 1) / by
}

/// The quantile that is bounded and the confidence of the bound, in per cent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantileBound {
    quantile: u32,
    confidence: u32,
}

impl QuantileBound {
    /// The 95% quantile with 95% confidence, the usual choice for batch waits; it needs 59 observations.
    pub const USUAL: QuantileBound = QuantileBound { quantile: 95, confidence: 95 };

    /// Both from 1 to 99 per cent; None where they are not.
    pub fn new(quantile: u32, confidence: u32) -> Option<QuantileBound> {
        let possible = (1..=99).contains(&quantile) && (1..=99).contains(&confidence);
        possible.then_some(QuantileBound { quantile, confidence })
    }

    /// The rank, from 1, of the smallest of `observations` order statistics that is not below the quantile with the
    /// confidence. None where not even the largest is.
    ///
    /// The k-th smallest of n is below the quantile q only where at least k observations are, each with probability q:
    /// so it is not below it with probability P(Binomial(n, q) < k).
    pub fn rank(&self, observations: usize) -> Option<usize> {
        let weights = binomial_weights(observations, f64::from(self.quantile) / 100.0);
        let wanted = weights.iter().sum::<f64>() * f64::from(self.confidence) / 100.0;
        let mut below = 0.0;
        for rank in 1..=observations {
            below += weights[rank - 1];
            if below >= wanted {
                return Some(rank);
            }
        }
        None
    }
}

/// Numbers in the ratio of the probabilities of 0, 1, … n successes. Counted from the most probable one outwards, so
/// that what is too small for a float is too small to matter.
fn binomial_weights(n: usize, p: f64) -> Vec<f64> {
    let odds = p / (1.0 - p);
    let mode = (((n + 1) as f64 * p) as usize).min(n);
    let mut weights = vec![1.0; n + 1];
    for k in mode..n {
        weights[k + 1] = weights[k] * odds * (n - k) as f64 / (k + 1) as f64;
    }
    for k in (0..mode).rev() {
        weights[k] = weights[k + 1] / odds * (k + 1) as f64 / (n - k) as f64;
    }
    weights
}

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
