//! A decision in the queue: choices for some parts, and what is left for the next.

use super::bound::Cheapest;
use super::scope::Domain;
use super::table::Cost;
use super::temporal::Bounds;
use bookahead_plan::Time;

/// How good a candidate is, the least being the best; or what no candidate of a decision can beat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) cost: Cost,
    pub(super) end: Time,
    pub(super) begins: Vec<Time>,
    /// The places of slots in the order found.
    pub(super) found: Vec<usize>,
}

/// What every candidate of a decision keeps to: when each part can begin, and the least that it costs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Narrowed {
    pub(super) bounds: Bounds,
    pub(super) cheapest: Vec<Cheapest>,
}

/// Ordered by the key, which comes first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) picks: Vec<Option<usize>>,
    pub(super) narrowed: Narrowed,
    /// Some of what is left for the next part, the best last; none before the first was taken.
    pub(super) choices: Option<Vec<usize>>,
}

impl Node {
    /// What is open in it.
    pub(super) fn domains(&self) -> Vec<Domain> {
        let floors = &self.narrowed.bounds.earliest;
        let domain = |(&pick, &floor)| Domain { pick, floor };
        self.picks.iter().zip(floors).map(domain).collect()
    }
}
