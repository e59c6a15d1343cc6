//! How long before its start a reservation must be asked for: a multiple of the time that the same request would
//! wait in the queue, so that reserving does not beat queueing.
//!
//! The wait is predicted from the jobs that started ([`history`]), by their mean or by an upper bound of a quantile
//! ([`bound`]). It relies on being told of every job that starts from the queue, and never of reservations; it never
//! looks whether a reservation fits.

pub mod bound;
pub mod history;

pub use bound::QuantileBound;
pub use history::{Class, History, WINDOW};

use crate::job::Waiting;
use crate::units::{Capacity, Seconds, Time};

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
