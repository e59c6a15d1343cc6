//! Counts of what was met, by name: what went wrong, and what was reached in spite of it. A plain value.

use std::collections::BTreeMap;

/// Counts by name. What never happened is not in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    /// Once more.
    pub fn count(&mut self, what: &'static str) {
        self.add(what, 1);
    }

    /// So often more.
    pub fn add(&mut self, what: &'static str, often: u64) {
        if often > 0 {
            *self.0.entry(what).or_default() += often;
        }
    }

    /// All of another.
    pub fn add_all(&mut self, other: &Tally) {
        other.rows().for_each(|(what, often)| self.add(what, often));
    }

    /// How often.
    pub fn of(&self, what: &str) -> u64 {
        self.0.get(what).copied().unwrap_or(0)
    }

    /// All of them, by name.
    pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.0.iter().map(|(what, often)| (*what, *often))
    }
}
