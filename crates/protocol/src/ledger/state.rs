//! When two books are the same: what follows from the rest, and what is only memory for planning, does not
//! count.

use super::Ledger;
use crate::ids::Name;
use bookahead_plan::Capacity;
use std::fmt;
use std::hash::{Hash, Hasher};

impl Ledger {
    fn failures(&self) -> impl Iterator<Item = (&Name, Capacity)> {
        let names = self.rules.resources.iter().map(|offered| &offered.resource.name);
        names.zip(&self.books).map(|(name, book)| (name, book.lost))
    }
}

impl PartialEq for Ledger {
    fn eq(&self, other: &Ledger) -> bool {
        self.rules == other.rules
            && self.entries == other.entries
            && self.denied == other.denied
            && self.answers == other.answers
            && (self.accepted, self.observed, self.holds) == (other.accepted, other.observed, other.holds)
            && self.failures().eq(other.failures())
    }
}

// Rules hold weights that are numbers between 0 and 1, and never anything that differs from itself.
impl Eq for Ledger {}

impl Hash for Ledger {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.entries.hash(state);
        self.denied.hash(state);
        self.answers.hash(state);
        (self.accepted, self.observed, self.holds).hash(state);
        self.failures().for_each(|failure| failure.hash(state));
    }
}

impl fmt::Debug for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ledger")
            .field("entries", &self.entries)
            .field("denied", &self.denied)
            .field("answers", &self.answers)
            .field("accepted", &self.accepted)
            .field("observed", &self.observed)
            .field("holds", &self.holds)
            .field("lost", &self.failures().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}
