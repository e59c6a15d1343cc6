//! Placing a flexible request into a schedule: returns candidate slots, each rated by its effect on waiting
//! jobs. Nothing is booked here.
//!
//! One question ([`Prober::probe`]), three methods:
//! - *load*: a slot is good if it starts after the expected end of the present workload;
//! - *what-if*: the queue is planned with the slot taken, and the slot is as good as that plan;
//! - *earliest start*: a slot is good if it fits into the vacancies that running and planned jobs leave.
//!
//! A slot that conflicts with running jobs, the first waiting job or reservations is never good. An
//! [`Admission`] limit on the effect on waiting jobs can be combined with any method: with no delay allowed,
//! local jobs are preferred; without a limit, reservations come first.

mod impact;
mod prober;
pub mod relax;

pub use impact::{Admission, Impact, SlotRules};
pub use prober::{Prober, Rules};
pub use relax::{BUSY_STEPS, Blocker, Reason, Refusal, Relaxation};

use crate::profile::Need;
use crate::units::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};

/// A request for a reservation on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// Earliest allowed start.
    pub earliest_start: Time,
    /// Latest allowed end.
    pub latest_end: Time,
    /// Duration.
    pub duration: Seconds,
    /// Required capacity.
    pub capacity: Capacity,
}

impl Request {
    /// Capacity and duration for a search in a profile.
    pub fn need(&self) -> Need {
        Need { capacity: self.capacity, length: self.duration }
    }

    /// Latest allowed start.
    pub fn latest_start(&self) -> Time {
        self.latest_end - self.duration
    }

    /// The interval that it must lie in.
    pub fn window(&self) -> Interval {
        Interval::new(self.earliest_start, self.latest_end)
    }
}

/// How slots are rated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Method {
    /// By the approximate end of the present workload.
    Load,
    /// By plans of the queue with the slot taken.
    WhatIf(Weights),
    /// By the vacancies that running and planned jobs leave. With local jobs preferred all waiting jobs
    /// count, otherwise only the first.
    EarliestStart {
        /// Whether no waiting job may be delayed.
        local_jobs_preferred: bool,
    },
}

/// Weights of the makespan and the mean completion time in the what-if method. Their sum is 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    makespan: f64,
}

impl Weights {
    /// Equal weights.
    pub const EVEN: Weights = Weights { makespan: 0.5 };

    /// With this weight of the makespan, from 0 to 1; None otherwise.
    pub fn new(makespan: f64) -> Option<Weights> {
        (0.0..=1.0).contains(&makespan).then_some(Weights { makespan })
    }
}

/// A start and its rating.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// Its start. Duration and capacity are those of the request.
    pub start: Time,
    /// Rating from 0 (not available) to 1.
    pub availability: f64,
    /// Effect on waiting jobs, if the method or the admission limit had to plan it.
    pub impact: Option<Impact>,
}

/// Order in which slots are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// Earliest first.
    Earliest,
    /// Best rated first, then earliest.
    #[default]
    BestAvailability,
    /// Smallest total delay of waiting jobs first, then earliest.
    LeastImpact,
}

impl Preference {
    /// Sorts slots by preference. Removes those that are not available.
    pub fn rank(self, slots: &mut Vec<Slot>) {
        slots.retain(|slot| slot.availability > 0.0);
        let delay = |slot: &Slot| slot.impact.as_ref().map_or(Seconds::ZERO, |impact| impact.total_delay);
        slots.sort_by(|a, b| {
            let first = match self {
                Preference::Earliest => std::cmp::Ordering::Equal,
                Preference::BestAvailability => b.availability.total_cmp(&a.availability),
                Preference::LeastImpact => delay(a).cmp(&delay(b)),
            };
            first.then(a.start.cmp(&b.start))
        });
    }
}
