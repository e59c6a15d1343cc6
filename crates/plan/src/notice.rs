//! The shortest notice for a reservation: a multiple of the time that the same request would wait in the
//! queue, so that reserving does not beat queueing.
//!
//! The wait is predicted from recently started jobs ([`History`]), by their mean or by an upper bound of a
//! quantile ([`QuantileBound`]). Every job that starts from the queue must be reported, in order of time;
//! reservations must not. Whether a reservation fits is not checked here.

use crate::policy::Waiting;
use crate::units::{Capacity, Seconds, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;

/// How the wait of a request is predicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Predictor {
    /// The mean wait of all jobs in the window, as in COSY.
    Mean,
    /// The wait that the given share of similar jobs does not exceed, with the given confidence. Uses the
    /// finest class with enough history.
    Quantile(QuantileBound),
}

/// A predicted wait and its basis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prediction {
    /// The wait; zero without history.
    pub wait: Seconds,
    /// The jobs that it was predicted from.
    pub class: Class,
    /// Number of these jobs.
    pub observations: usize,
    /// Whether they were enough for the requested confidence. If not, a quantile is the longest wait of all.
    /// One is enough for a mean.
    pub sufficient: bool,
}

/// A site's rule for the notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeRule {
    /// How waits are predicted.
    pub predictor: Predictor,
    /// The shortest notice in percent of the predicted wait: 100 is the wait itself, 0 means no notice.
    pub percent: u32,
}

/// A reservation that was requested too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "a notice of {} is too short; it needs {}, because it would wait {} in the queue \
     (history: {}, {} of them); start later, or submit it as a job",
    given.in_words(),
    needed.in_words(),
    rests_on.wait.in_words(),
    rests_on.class,
    rests_on.observations
)]
pub struct TooShortNotice {
    /// The notice needed.
    pub needed: Seconds,
    /// The notice given.
    pub given: Seconds,
    /// The predicted wait behind it.
    pub rests_on: Prediction,
}

/// A site's rule and the history that it is applied to.
#[derive(Debug, Clone)]
pub struct Notice {
    rule: NoticeRule,
    history: History,
}

impl Notice {
    /// Without history: no notice is needed until jobs have started.
    pub fn new(rule: NoticeRule) -> Notice {
        Notice { rule, history: History::default() }
    }

    /// The rule that it was made with.
    pub fn rule(&self) -> NoticeRule {
        self.rule
    }

    /// Reports that a job started from the queue.
    pub fn job_started(&mut self, job: &Waiting, now: Time) {
        self.history.record(job, now);
    }

    /// The predicted wait of a job with this capacity and estimate, if submitted now.
    pub fn predicted_wait(&self, capacity: Capacity, duration: Seconds) -> Prediction {
        self.history.predict(self.rule.predictor, capacity, duration)
    }

    /// The shortest notice for a reservation with this capacity and duration, rounded up to the second.
    pub fn shortest_notice(&self, capacity: Capacity, duration: Seconds) -> Seconds {
        self.rule.notice(self.predicted_wait(capacity, duration).wait)
    }

    /// Checks `given`, the time from now to the start. Returns the prediction either way.
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
    /// The shortest notice for a predicted wait.
    pub fn notice(&self, wait: Seconds) -> Seconds {
        let hundredths = i128::from(wait.0) * i128::from(self.percent);
        Seconds(i64::try_from(rounded_up(hundredths, 100)).unwrap_or(i64::MAX))
    }
}

/// The quotient of non-negative numbers, rounded up.
fn rounded_up(sum: i128, by: i128) -> i128 {
    (sum + by - 1) / by
}

/// A quantile and the confidence of its upper bound, in percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuantileBound {
    quantile: u32,
    confidence: u32,
}

impl QuantileBound {
    /// The 95 % quantile with 95 % confidence, the usual choice for batch waits. Needs 59 observations.
    pub const USUAL: QuantileBound = QuantileBound { quantile: 95, confidence: 95 };

    /// Both from 1 to 99 percent; None otherwise.
    pub fn new(quantile: u32, confidence: u32) -> Option<QuantileBound> {
        let possible = (1..=99).contains(&quantile) && (1..=99).contains(&confidence);
        possible.then_some(QuantileBound { quantile, confidence })
    }

    /// The rank, from 1, of the smallest of `observations` order statistics that is an upper bound of the
    /// quantile with the confidence. None if even the largest is not.
    ///
    /// The k-th smallest of n is below the quantile q only if at least k observations are, each with
    /// probability q. So it is a bound with probability P(Binomial(n, q) < k).
    pub fn rank(&self, observations: usize) -> Option<usize> {
        let weights = binomial_weights(observations, f64::from(self.quantile) / 100.0);
        // The weights are only proportional to probabilities, so the confidence is scaled by their sum.
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

/// Numbers proportional to the probabilities of 0, 1, … n successes. Computed outwards from the most probable
/// one, so that only negligible ones underflow.
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

/// Number of starts remembered for each class. With 1000, a bound of the 95 % quantile is close to the
/// quantile (rank 962; with the minimum of 59 it would be the largest), and a change of load is visible
/// within about a week on a cluster that starts a job every ten minutes.
pub const WINDOW: usize = 1000;

/// The jobs that a prediction is based on. A class `c` of size or duration contains 2^c to 2^(c+1) - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Class {
    /// Jobs of similar capacity and estimate.
    SizeAndDuration {
        /// Class of the capacity.
        size: u32,
        /// Class of the estimate, in seconds.
        duration: u32,
    },
    /// Jobs of similar capacity.
    Size {
        /// Class of the capacity.
        size: u32,
    },
    /// All jobs.
    All,
}

impl Class {
    /// The classes of a job, finest first.
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

/// Waits of recently started jobs, by class. At most [`WINDOW`] of each class. Serialized as the waits of each
/// class, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<(Class, Vec<Seconds>)>", into = "Vec<(Class, Vec<Seconds>)>")]
pub struct History {
    classes: BTreeMap<Class, Window>,
}

/// Recent waits of one class.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
struct Window {
    /// In order of the starts. Not kept sorted: jobs start far more often than a quantile is computed.
    recent: VecDeque<Seconds>,
    sum: i128,
}

impl History {
    /// Adds a job that started at `now`. A start before the submission counts as no wait.
    pub fn record(&mut self, job: &Waiting, now: Time) {
        self.record_wait(job.capacity, job.estimate, now - job.submit);
    }

    /// Adds the wait of a job with this capacity and estimate. A negative one counts as no wait.
    pub fn record_wait(&mut self, capacity: Capacity, estimate: Seconds, wait: Seconds) {
        for class in Class::of(capacity, estimate) {
            self.classes.entry(class).or_default().push(wait.max(Seconds::ZERO));
        }
    }

    /// Whether no start is remembered.
    pub fn is_empty(&self) -> bool {
        self.classes.is_empty()
    }

    /// Number of remembered starts of a class.
    pub fn observations(&self, class: Class) -> usize {
        self.classes.get(&class).map_or(0, |window| window.recent.len())
    }

    /// The predicted wait of a job.
    pub fn predict(&self, predictor: Predictor, capacity: Capacity, duration: Seconds) -> Prediction {
        let Some(all) = self.classes.get(&Class::All) else {
            return Prediction { wait: Seconds::ZERO, class: Class::All, observations: 0, sufficient: false };
        };
        let observations = all.recent.len();
        let of_all = |wait, sufficient| Prediction { wait, class: Class::All, observations, sufficient };
        let Predictor::Quantile(bound) = predictor else { return of_all(all.mean(), true) };
        let windows = Class::of(capacity, duration).into_iter().filter_map(|class| {
            let window = self.classes.get(&class)?;
            let observations = window.recent.len();
            let wait = window.smallest(bound.rank(observations)?);
            Some(Prediction { wait, class, observations, sufficient: true })
        });
        // Too few jobs for the confidence: their longest wait is the best available guess.
        let longest = all.recent.iter().max().copied().unwrap_or_default();
        windows.into_iter().next().unwrap_or_else(|| of_all(longest, false))
    }
}

impl From<Vec<(Class, Vec<Seconds>)>> for History {
    fn from(written: Vec<(Class, Vec<Seconds>)>) -> History {
        let mut history = History::default();
        for (class, waits) in written {
            let window = history.classes.entry(class).or_default();
            waits.into_iter().for_each(|wait| window.push(wait));
        }
        history
    }
}

impl From<History> for Vec<(Class, Vec<Seconds>)> {
    fn from(history: History) -> Vec<(Class, Vec<Seconds>)> {
        history.classes.into_iter().map(|(class, window)| (class, window.recent.into())).collect()
    }
}

impl Window {
    fn push(&mut self, wait: Seconds) {
        if self.recent.len() == WINDOW
            && let Some(oldest) = self.recent.pop_front()
        {
            self.sum -= i128::from(oldest.0);
        }
        self.recent.push_back(wait);
        self.sum += i128::from(wait.0);
    }

    /// The wait of this rank, from 1 for the shortest. As costly as [`QuantileBound::rank`].
    fn smallest(&self, rank: usize) -> Seconds {
        let mut waits: Vec<Seconds> = self.recent.iter().copied().collect();
        *waits.select_nth_unstable(rank - 1).1
    }

    /// The mean, rounded up; zero without waits.
    fn mean(&self) -> Seconds {
        let count = self.recent.len().max(1) as i128;
        Seconds(i64::try_from(rounded_up(self.sum, count)).unwrap_or(i64::MAX))
    }
}
