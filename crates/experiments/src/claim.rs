//! What a paper says, what we found, and whether the two agree. Agreement is decided by a rule written down with the
//! claim before it is run, mostly on the direction, never on closeness that was tuned for.

use crate::statistics::Estimate;
use serde::Serialize;

/// Our figures behind a claim, each with its name.
pub type Measured = Vec<(String, Estimate)>;

/// One statement of a paper beside ours.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Claim {
    /// A name that stays, such as `what-if/success-mean`.
    pub id: &'static str,
    /// Where it stands: section, figure or table.
    pub source: &'static str,
    /// What is claimed, in a sentence.
    pub statement: &'static str,
    /// The paper's value, as it is printed there.
    pub paper: &'static str,
    /// Our value.
    pub ours: String,
    /// Our figures behind it, each with its interval.
    pub measured: Measured,
    /// When we say that it is reproduced.
    pub rule: &'static str,
    /// Whether our figures meet the rule.
    pub reproduced: bool,
    /// Why we differ, as far as the data shows; empty where we do not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Claim {
    /// A claim by its name, its place in the paper and the paper's value; not judged yet.
    pub(crate) fn new(id: &'static str, source: &'static str, paper: &'static str) -> Claim {
        Claim { id, source, paper, ..Claim::default() }
    }

    pub(crate) fn says(self, statement: &'static str) -> Claim {
        Claim { statement, ..self }
    }

    pub(crate) fn ours(self, ours: impl Into<String>, measured: Measured) -> Claim {
        Claim { ours: ours.into(), measured, ..self }
    }

    /// Whether the rule is met; the reason is asked for only where it is not.
    pub(crate) fn judged<W: Into<String>>(
        self,
        rule: &'static str,
        reproduced: bool,
        why: impl FnOnce() -> W,
    ) -> Claim {
        let why = if reproduced { String::new() } else { why().into() };
        Claim { rule, reproduced, why, ..self }
    }
}
