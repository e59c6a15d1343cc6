//! Jobs as a scheduler sees them, and which waiting jobs get a promised start. Real run times are never known
//! here.
//!
//! There is one scheduling loop; a policy is a set of parameters. FCFS promises the first job its start and
//! lets no other job overtake; EASY promises the same and lets all jobs overtake that keep the promise;
//! conservative backfilling promises every job its start. The order of the queue is a parameter too, see
//! [`crate::order`].

use crate::order::{Factors, Order};
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
    /// Which job goes first.
    order: Order,
}

impl Policy {
    /// First come, first served: no job overtakes.
    pub const FCFS: Policy = Policy { promises: 1, backfill: false, order: Order::Submit };
    /// EASY backfilling: only the first job is protected.
    pub const EASY: Policy = Policy { promises: 1, backfill: true, order: Order::Submit };
    /// Conservative backfilling: every waiting job is protected.
    pub const CONSERVATIVE: Policy = Policy { promises: usize::MAX, backfill: true, order: Order::Submit };

    /// Backfilling that protects the first `promises` jobs; 1 is EASY. None for zero.
    pub const fn backfilling(promises: usize) -> Option<Policy> {
        if promises == 0 { None } else { Some(Policy { promises, ..Policy::EASY }) }
    }

    /// Number of waiting jobs with a promised start.
    pub const fn promises(&self) -> usize {
        self.promises
    }

    /// Whether jobs may overtake.
    pub const fn backfills(&self) -> bool {
        self.backfill
    }

    /// The same policy with another order of the queue.
    pub const fn ordered_by(self, order: Order) -> Policy {
        Policy { order, ..self }
    }

    /// Which job goes first.
    pub const fn order(&self) -> Order {
        self.order
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut options = Vec::new();
        f.write_str(match self {
            Policy { backfill: false, .. } => "fcfs",
            Policy { promises: usize::MAX, .. } => "conservative",
            _ => "easy",
        })?;
        if self.promises != 1 && self.promises != usize::MAX {
            options.push(format!("promises={}", self.promises));
        }
        if self.order != Order::Submit {
            options.push(format!("order={}", self.order));
        }
        if options.is_empty() { Ok(()) } else { write!(f, "[{}]", options.join(",")) }
    }
}

/// An unknown policy name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unknown scheduler '{0}'; use fcfs, easy or conservative, with options such as easy[promises=4] (1 or more), \
    easy[order=ORDER] with submit, sjf, lxf, wfp3, unicef, fairshare or multifactor, or \
    easy[order=multifactor,age=1,size=1,fairshare=1] with weights of 0 or more"
)]
pub struct UnknownPolicy(String);

impl FromStr for Policy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Policy, UnknownPolicy> {
        parse(text).ok_or_else(|| UnknownPolicy(text.to_owned()))
    }
}

fn parse(text: &str) -> Option<Policy> {
    let (name, options) = match text.split_once('[') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(']')?)),
        None => (text, None),
    };
    let mut policy = match name {
        "fcfs" => Policy::FCFS,
        "easy" => Policy::EASY,
        "conservative" => Policy::CONSERVATIVE,
        _ => return None,
    };
    for option in options.into_iter().flat_map(|options| options.split(',')) {
        let (option, value) = option.split_once('=')?;
        match option {
            "promises" if policy.backfill && policy.promises != usize::MAX => {
                policy.promises = value.parse().ok().filter(|promises| *promises > 0)?;
            }
            "order" => policy.order = Order::NAMED.into_iter().find(|order| order.name() == value)?,
            // Weights follow the order that they belong to.
            weight => {
                let Order::Multifactor(factors) = &mut policy.order else { return None };
                *factors.named(weight)? = value.parse().ok()?;
            }
        }
    }
    Some(policy)
}

impl Factors {
    fn named(&mut self, weight: &str) -> Option<&mut u32> {
        match weight {
            "age" => Some(&mut self.age),
            "size" => Some(&mut self.size),
            "fairshare" => Some(&mut self.fairshare),
            _ => None,
        }
    }
}

/// The caller's own key for a job, such as an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobKey(pub u32);

/// The user or project whose usage counts for fair share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Owner {
    /// The caller's own number of the owner.
    pub id: u32,
    /// Capacity-seconds that the owner has used, if the caller knows more than the scheduler: in a copy of a
    /// queue that is only planned.
    pub used: u64,
}

impl Owner {
    /// No particular owner. All such jobs share their usage.
    pub const NONE: Owner = Owner { id: 0, used: 0 };
}

/// A waiting job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// When it was submitted.
    pub submit: Time,
    /// Longest run time, as its owner says.
    pub estimate: Seconds,
    /// Required capacity.
    pub capacity: Capacity,
    /// Higher goes first. Ties are broken by the policy's order, then by submit time, then by the order of
    /// submission.
    pub priority: i32,
    /// Whose usage it adds to.
    pub owner: Owner,
}

/// A running job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Latest end, by its estimate.
    pub expected_end: Time,
    /// Capacity that it uses.
    pub capacity: Capacity,
    /// Number of its owner.
    pub owner: u32,
}

impl Waiting {
    /// Capacity and duration for a search in a profile.
    pub fn need(&self) -> Need {
        Need { capacity: self.capacity, length: self.estimate }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in [
            "fcfs",
            "easy",
            "conservative",
            "easy[promises=4]",
            "fcfs[order=sjf]",
            "easy[order=wfp3]",
            "conservative[order=unicef]",
            "easy[promises=4,order=fairshare]",
            "easy[order=multifactor,age=10,size=0,fairshare=3]",
        ] {
            assert_eq!(name.parse::<Policy>().expect(name).to_string(), name);
        }
        assert_eq!("easy[promises=1]".parse(), Ok(Policy::EASY));
        assert_eq!("easy[order=submit]".parse(), Ok(Policy::EASY));
        let even = Policy::EASY.ordered_by(Order::Multifactor(Factors::EVEN));
        assert_eq!("easy[order=multifactor]".parse(), Ok(even));
        for name in
            ["easy[order=]", "easy[order=own]", "easy[age=1,order=multifactor]", "easy[order=sjf,age=1]"]
        {
            assert!(name.parse::<Policy>().is_err(), "{name}");
        }
        for name in ["fcfs[promises=2]", "easy[]", "easy[order=multifactor,age=-1]", "easy[order=sjf"] {
            assert!(name.parse::<Policy>().is_err(), "{name}");
        }
        for name in ["", "EASY", "easy[promises=0]", "easy[promises=-1]", "easy[depth=2]", "sjf"] {
            assert!(name.parse::<Policy>().is_err(), "{name}");
        }
    }
}
