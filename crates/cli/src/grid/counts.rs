//! Counts of what was injected and what was reached in spite of it, for tables and for programs, of one run or summed
//! over many.

use crate::numbers::count;
use bookahead_sim::grid::{Tally, Violation};
use serde::{Serialize, Serializer};

/// Counts by name, for programs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Counts(pub(crate) Tally);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.rows())
    }
}

impl Counts {
    /// With words for people.
    pub(crate) fn rows(&self) -> Vec<(String, u64)> {
        self.0.rows().map(|(name, number)| (name.replace('_', " "), number)).collect()
    }
}

/// Something that must not be.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Seen {
    rule: String,
    /// In seconds from the start.
    at: f64,
    what: String,
}

impl Seen {
    pub(crate) fn of(violation: &Violation) -> Seen {
        Seen {
            rule: violation.rule.to_string(),
            at: violation.at.0 as f64 / 1e3,
            what: violation.what.clone(),
        }
    }
}

/// What there was, in one line.
pub(crate) fn in_one_line(counts: &Counts) -> String {
    let some = counts.rows().into_iter().filter(|(_, number)| *number > 0);
    let some: Vec<String> = some.map(|(what, number)| format!("{what} {}", count(number))).collect();
    some.join(", ")
}

/// What the witness holds, for people.
pub(crate) const INVARIANTS: &str = "capacity, all or nothing, kept promises, once, nothing orphaned";
