//! What the surroundings of a ledger know at the moment of a call and the ledger does not: the jobs of each
//! resource, and what is reserved there by others.

use crate::ids::Name;
use bookahead_plan::{Running, Span, Waiting};
use std::collections::BTreeMap;

/// What is to be seen on each resource. One that is missing has no jobs and no foreign reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Views(pub BTreeMap<Name, View>);

/// What is to be seen on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Jobs that run outside of reservations.
    pub running: Vec<Running>,
    /// Jobs that wait, those with the same submit time in the order in which they were submitted.
    pub waiting: Vec<Waiting>,
    /// Reservations that are not in this ledger; never those that are.
    pub foreign: Vec<Span>,
}

const NOTHING: &View = &View { running: Vec::new(), waiting: Vec::new(), foreign: Vec::new() };

impl Views {
    /// Of one resource, and nothing elsewhere.
    pub fn of(resource: Name, view: View) -> Views {
        Views(BTreeMap::from([(resource, view)]))
    }

    /// What is to be seen on a resource.
    pub fn on(&self, resource: &Name) -> &View {
        self.0.get(resource).unwrap_or(NOTHING)
    }
}

impl View {
    /// Whether no job runs or waits, so that every begin that fits is as good as any other.
    pub fn has_no_jobs(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }
}
