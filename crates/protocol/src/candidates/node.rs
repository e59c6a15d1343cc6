//! A decision: choices for some parts, and what is left for the next; and the queue of those that are to be looked at. It
//! knows nothing of how decisions are made.

use super::bound::Cheapest;
use super::meter::Meter;
use super::scope::Domain;
use super::table::Cost;
use super::temporal::Bounds;
use bookahead_plan::Time;
use std::collections::BTreeSet;

/// How good a candidate is, the least being the best; or what no candidate of a decision can beat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Key {
    pub(super) cost: Cost,
    pub(super) end: Time,
    pub(super) begins: Vec<Time>,
    /// The places of slots in the order found.
    pub(super) found: Vec<usize>,
}

/// What every candidate of a decision keeps to: when each part can begin, and the least that it costs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
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

    /// About how much memory it keeps. Counted as work, this bounds the memory of a search by its budget, and covers what
    /// it takes to put a decision in order among thousands of others and to drop it.
    fn bytes(&self) -> usize {
        256 + 96 * self.picks.len() + 8 * self.choices.as_ref().map_or(0, Vec::len)
    }
}

/// Decisions to be looked at, the best first.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Queue(BTreeSet<Node>);

impl Queue {
    pub(super) fn insert(&mut self, node: Node, meter: &mut Meter) {
        meter.charge(node.bytes());
        self.0.insert(node);
    }

    pub(super) fn pop(&mut self) -> Option<Node> {
        self.0.pop_first()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
