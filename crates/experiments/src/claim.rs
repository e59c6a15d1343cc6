//! Claims of a paper beside our results, and whether they agree. Each claim has a rule for agreement that was written
//! before the first run. Most rules are about the direction of an effect; none was tuned to be met.

use crate::statistics::Estimate;
use serde::Serialize;

/// Our measured values behind a claim, by name.
pub type Measured = Vec<(String, Estimate)>;

/// One claim of a paper beside our result.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Claim {
    /// Stable name, such as `what-if/success-mean`.
    pub id: &'static str,
    /// Section, figure or table of the paper.
    pub source: &'static str,
    /// The claim in one sentence.
    pub statement: &'static str,
    /// The paper's value, as printed.
    pub paper: &'static str,
    /// Our value, as text.
    pub ours: String,
    /// Our measured values, each with its confidence interval.
    pub measured: Measured,
    /// The rule by which it counts as reproduced.
    pub rule: &'static str,
    /// Whether our values meet the rule.
    pub reproduced: bool,
    /// Why our result differs, as far as the data shows; empty if it is reproduced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

impl Claim {
    /// A claim without a statement, our value or a verdict yet.
    pub(crate) fn new(id: &'static str, source: &'static str, paper: &'static str) -> Claim {
        Claim { id, source, paper, ..Claim::default() }
    }

    pub(crate) fn says(self, statement: &'static str) -> Claim {
        Claim { statement, ..self }
    }

    pub(crate) fn ours(self, ours: impl Into<String>, measured: Measured) -> Claim {
        Claim { ours: ours.into(), measured, ..self }
    }

    /// Sets the verdict. `why` is called only if the claim is not reproduced.
    pub(crate) fn judged<W: Into<String>>(
        self,
        rule: &'static str,
        reproduced: bool,
        why: impl FnOnce() -> W,
    ) -> Claim {
        // Tests of the experiments check that a claim has an explanation exactly if it is not reproduced.
        let why = if reproduced { String::new() } else { why().into() };
        Claim { rule, reproduced, why, ..self }
    }
}
