//! Jobs as a scheduler sees them, and which waiting jobs get a promised start. Real run times are never known
//! here.
//!
//! There is one scheduling loop; a policy is a set of parameters. FCFS promises the first job its start and
//! lets no other job overtake; EASY promises the same and lets all jobs overtake that keep the promise;
//! conservative backfilling promises every job its start.

use crate::profile::Need;
use crate::units::{Capacity, Seconds, Time};
use std::fmt;
use std::str::FromStr;

/// A queueing policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Number of jobs at the front of the queue with a promised start; at least one.
    promises: usize,
    /// Whether jobs may overtake.
    backfill: bool,
}

impl Policy {
    /// First come, first served: no job overtakes.
    pub const FCFS: Policy = Policy { promises: 1, backfill: false };
    /// EASY backfilling: only the first job is protected.
    pub const EASY: Policy = Policy { promises: 1, backfill: true };
    /// Conservative backfilling: every waiting job is protected.
    pub const CONSERVATIVE: Policy = Policy { promises: usize::MAX, backfill: true };

    /// Backfilling that protects the first `promises` jobs; 1 is EASY. None for zero.
    pub const fn backfilling(promises: usize) -> Option<Policy> {
        if promises == 0 { None } else { Some(Policy { promises, backfill: true }) }
    }

    /// Number of waiting jobs with a promised start.
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

/// An unknown policy name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheduler '{0}'; use fcfs, easy, conservative, or easy[promises=K] with K of 1 or more")]
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

/// The caller's own key for a job, such as an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey(pub u32);

/// A waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// When it was submitted.
    pub submit: Time,
    /// Longest run time, as its owner says.
    pub estimate: Seconds,
    /// Required capacity.
    pub capacity: Capacity,
    /// Higher goes first. Ties are broken by submit time, then by the order of submission.
    pub priority: i32,
}

/// A running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Latest end, by its estimate.
    pub expected_end: Time,
    /// Capacity that it uses.
    pub capacity: Capacity,
}

impl Waiting {
    /// Capacity and duration for a search in a profile.
    pub fn need(&self) -> Need {
        Need { capacity: self.capacity, length: self.estimate }
    }

    // Compares crosswise: the earlier submit time is the smaller one, so it stands on the other side.
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
