//! The state of a search: choices for some parts and the range of the others, an iteration over the choices
//! of one part, and the queue of decisions. Nothing here decides.

use super::table::{Bounds, Choice, Cost, Meter, Table, possible};
use bookahead_plan::Time;
use std::collections::BTreeSet;
use std::task::Poll;

/// The state of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Domain {
    /// The choice, if made.
    pub(super) pick: Option<usize>,
    /// Without a choice: the earliest start.
    pub(super) floor: Time,
}

/// The state of all parts.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) table: &'a Table,
    /// For each part, which of its slots are excluded.
    pub(super) gone: &'a [Vec<bool>],
    pub(super) domains: &'a [Domain],
}

/// An iteration over the choices of a part that can start between two times, by start.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Scan {
    part: usize,
    earliest: Time,
    latest: Time,
    next: usize,
}

impl Domain {
    pub(super) const OPEN: Domain = Domain { pick: None, floor: Time::MIN };
}

impl<'a> Scope<'a> {
    pub(super) fn with<'b>(self, domains: &'b [Domain]) -> Scope<'b>
    where
        'a: 'b,
    {
        Scope { domains, ..self }
    }

    pub(super) fn choice(self, part: usize) -> Option<&'a Choice> {
        self.domains[part].pick.map(|at| &self.table.rows[part].choices[at])
    }

    fn allows(self, part: usize, choice: &Choice, meter: &mut Meter) -> bool {
        let row = &self.table.rows[part];
        let place = |other: usize| {
            if other == part { Some(choice.place) } else { self.choice(other).map(|choice| choice.place) }
        };
        if self.gone[part][choice.found] {
            return false;
        }
        let broken = row.spatial.iter().position(|constraint| !possible(constraint, place));
        meter.charge(broken.map_or(row.spatial.len() + row.overlaps.len(), |at| at + 1));
        broken.is_none() && !self.clashes(part, choice)
    }
}

impl Scan {
    pub(super) fn new(table: &Table, part: usize, earliest: Time, latest: Time) -> Scan {
        let row = &table.rows[part];
        // A choice that starts earlier by more than the largest slack cannot reach `earliest`.
        let next = row.choices.partition_point(|choice| choice.earliest < earliest - row.widest);
        Scan { part, earliest, latest, next }
    }

    /// The next choice that the scope allows. None at the end.
    pub(super) fn next(&mut self, scope: Scope<'_>, meter: &mut Meter) -> Poll<Option<usize>> {
        let choices = &scope.table.rows[self.part].choices;
        while let Some(choice) = choices.get(self.next).filter(|choice| choice.earliest <= self.latest) {
            if meter.is_spent() {
                return Poll::Pending;
            }
            meter.charge(1);
            let at = self.next;
            self.next += 1;
            if choice.latest >= self.earliest && scope.allows(self.part, choice, meter) {
                return Poll::Ready(Some(at));
            }
        }
        Poll::Ready(None)
    }
}

/// Sort key of a candidate, the least is the best; or a bound that no candidate of a decision can beat.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Key {
    pub(super) cost: Cost,
    pub(super) end: Time,
    pub(super) begins: Vec<Time>,
    /// Indexes of slots, in the order found.
    pub(super) found: Vec<usize>,
}

/// The least cost of a part, and the earliest start at that cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Cheapest {
    pub(super) cost: Cost,
    pub(super) from: Time,
}

/// Bounds on every candidate of a decision: possible starts and least cost of each part.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Narrowed {
    pub(super) bounds: Bounds,
    pub(super) cheapest: Vec<Cheapest>,
}

/// Ordered by the key, which is the first field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) picks: Vec<Option<usize>>,
    pub(super) narrowed: Narrowed,
    /// Some of the remaining choices for the next part, best last. None before the first was taken.
    pub(super) choices: Option<Vec<usize>>,
}

impl Node {
    pub(super) fn domains(&self) -> Vec<Domain> {
        let floors = &self.narrowed.bounds.earliest;
        let domain = |(&pick, &floor)| Domain { pick, floor };
        self.picks.iter().zip(floors).map(domain).collect()
    }

    /// Approximate memory use. Counted as work, it bounds the memory of a search by its budget, and covers
    /// the cost of sorting and dropping thousands of decisions.
    fn bytes(&self) -> usize {
        256 + 96 * self.picks.len() + 8 * self.choices.as_ref().map_or(0, Vec::len)
    }
}

/// Decisions to process, best first.
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
