//! Placing a flexible request into a schedule: candidate slots out, each rated by what it would do to the jobs that
//! wait. Nothing is booked here.
//!
//! Three methods behind one question ([`Prober::probe`]):
//! - *load*: a slot is good if it begins after the present workload is expected to be worked off;
//! - *what-if*: the queue is planned with the slot taken, and the slot is as good as that plan;
//! - *earliest start*: a slot is good if it fits into the vacancies that running and planned jobs leave.
//!
//! A slot that conflicts with running jobs, the first waiting job or reservations is never good. An [`Admission`] limit
//! on what a slot may do to waiting jobs goes with any method: with none allowed, local jobs are preferred; without a
//! limit, reservations come first.

mod impact;
mod prober;
pub mod relax;

pub use impact::{Admission, Impact, SlotRules, workload_end};
pub use prober::{Prober, Rules};
pub use relax::{BUSY_STEPS, Blocker, Reason, Refusal, Relaxation};

use crate::profile::Need;
use crate::units::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};

/// What a client wants of a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// It may begin no earlier.
    pub earliest_start: Time,
    /// It must have ended by then.
    pub latest_end: Time,
    /// How long it lasts.
    pub duration: Seconds,
    /// How much it takes.
    pub capacity: Capacity,
}

impl Request {
    /// The room it needs.
    pub fn need(&self) -> Need {
        Need { capacity: self.capacity, length: self.duration }
    }

    /// When it must begin at the latest.
    pub fn latest_start(&self) -> Time {
        self.latest_end - self.duration
    }

    /// The stretch of time in which it must lie.
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
    /// By the vacancies that running and planned jobs leave. With local jobs preferred all waiting jobs count,
    /// otherwise only the first.
    EarliestStart {
        /// Whether no waiting job may be delayed.
        local_jobs_preferred: bool,
    },
}

/// How much the makespan and the mean completion time of a plan count in the what-if method; together one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Weights {
    makespan: f64,
}

impl Weights {
    /// Both count the same.
    pub const EVEN: Weights = Weights { makespan: 0.5 };

    /// The makespan counts so much, the mean completion time the rest; None outside 0 to 1.
    pub fn new(makespan: f64) -> Option<Weights> {
        (0.0..=1.0).contains(&makespan).then_some(Weights { makespan })
    }
}

/// A concrete begin, and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Slot {
    /// When it begins; how long and how much is the request's.
    pub start: Time,
    /// From 0 (it cannot be had) to 1.
    pub availability: f64,
    /// What it would do to waiting jobs; known where the method or the admission limit had to plan it.
    pub impact: Option<Impact>,
}

/// In which order slots are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preference {
    /// The earliest first.
    Earliest,
    /// The best rated first, of those the earliest.
    #[default]
    BestAvailability,
    /// The one that delays waiting jobs the least in all, of those the earliest.
    LeastImpact,
}

impl Preference {
    /// Puts slots in the order in which they are to be tried; those that cannot be had are left out.
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
