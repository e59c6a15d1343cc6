//! Jobs as a scheduler knows them: what was asked for, and what is believed of those that run. It never knows
//! how long a job will really take.

use crate::profile::Need;
use crate::units::{Capacity, Seconds, Time};

/// The caller's own name for a job: an index into whatever the caller keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey(pub u32);

/// A job that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// When it was submitted.
    pub submit: Time,
    /// How long it will take at most, as its owner says.
    pub estimate: Seconds,
    /// What it needs.
    pub capacity: Capacity,
    /// Higher goes first; equal priorities go by submit time, equal submit times in the order of submission.
    pub priority: i32,
}

/// A job that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// When it will end at the latest, by its estimate.
    pub expected_end: Time,
    /// What it holds.
    pub capacity: Capacity,
}

impl Waiting {
    /// The room it needs.
    pub fn need(&self) -> Need {
        Need { capacity: self.capacity, length: self.estimate }
    }

    /// Whether this one goes before `other`, which was submitted later.
    pub(crate) fn goes_before_later(&self, other: &Waiting) -> bool {
        (self.priority, other.submit) >= (other.priority, self.submit)
    }
}
