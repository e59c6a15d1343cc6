//! What a paper says, what we found, and whether the two agree. Agreement is decided by a rule written down with the
//! claim before it is run, mostly on the direction, never on closeness that was tuned for.

use crate::statistics::Estimate;
use serde::Serialize;

/// One statement of a paper beside ours.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    pub measured: Vec<(String, Estimate)>,
    /// When we say that it is reproduced.
    pub rule: &'static str,
    /// Whether our figures meet the rule.
    pub reproduced: bool,
    /// Why we differ, as far as the data shows; empty where we do not.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}
