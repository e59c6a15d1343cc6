//! Jobs as a scheduler knows them, and which waiting jobs are promised a start. It never knows how long a job will really take.
//!
//! There is one scheduling loop; a policy is its parameters. FCFS promises the head of the queue its start and
//! lets nobody pass; EASY promises the same and lets everybody pass who keeps the promise; conservative
//! backfilling promises every job its start.

use crate::profile::Need;
use crate::units::{Capacity, Seconds, Time};
use std::fmt;
use std::str::FromStr;

/// A queueing policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How many jobs at the front of the queue have a promised start (at least one).
    promises: usize,
    /// Whether jobs may start before others that wait in front of them.
    backfill: bool,
}

impl Policy {
    /// First come, first served: nobody overtakes.
    pub const FCFS: Policy = Policy { promises: 1, backfill: false };
    /// EASY backfilling: only the head of the queue is protected.
    pub const EASY: Policy = Policy { promises: 1, backfill: true };
    /// Conservative backfilling: every waiting job is protected.
    pub const CONSERVATIVE: Policy = Policy { promises: usize::MAX, backfill: true };

    /// Backfilling that protects the first `promises` jobs of the queue; one is EASY. None where it is zero.
    pub const fn backfilling(promises: usize) -> Option<Policy> {
        if promises == 0 { None } else { Some(Policy { promises, backfill: true }) }
    }

    /// How many waiting jobs have a promised start.
    pub const fn promises(&self) -> usize {
        self.promises
    }

    /// Whether jobs may overtake.
    pub const fn backfills(&self) -> bool {
        self.backfill
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Policy::FCFS => f.write_str("fcfs"),
            Policy::EASY => f.write_str("easy"),
            Policy::CONSERVATIVE => f.write_str("conservative"),
            Policy { promises, .. } => write!(f, "easy[promises={promises}]"),
        }
    }
}

/// A name that is no policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no scheduler; take fcfs, easy, conservative, or easy[promises=K] with K of 1 or more")]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Policy, UnknownPolicy> {
        let unknown = || UnknownPolicy(name.to_owned());
        match name {
            "fcfs" => Ok(Policy::FCFS),
            "easy" => Ok(Policy::EASY),
            "conservative" => Ok(Policy::CONSERVATIVE),
            _ => name
                .strip_prefix("easy[promises=")
                .and_then(|rest| rest.strip_suffix(']'))
                .and_then(|promises| promises.parse().ok())
                .and_then(Policy::backfilling)
                .ok_or_else(unknown),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["fcfs", "easy", "conservative", "easy[promises=4]"] {
            assert_eq!(name.parse::<Policy>().expect(name).to_string(), name);
        }
        assert_eq!("easy[promises=1]".parse(), Ok(Policy::EASY));
        for name in ["", "EASY", "easy[promises=0]", "easy[promises=-1]", "easy[depth=2]", "sjf"] {
            assert!(name.parse::<Policy>().is_err(), "{name}");
        }
    }
}
