//! Claims of a paper beside our results, and whether they agree. Each claim has a rule for agreement that was written
//! before the first run. Most rules are about the direction of an effect; none was tuned to be met.

use crate::statistics::Estimate;
use serde::Serialize;

/// Our measured values behind a claim, by name.
pub type Measured = Vec<(String, Estimate)>;

/// One claim of a paper beside our result.
#[derive(Debug, Clone, PartialEq, Serialize)]
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

/// A claim as data: what the paper says, and how our results `R` are measured and judged. The functions after
/// `measure` get the measured estimates in their order.
pub(crate) struct Row<R: ?Sized> {
    /// Id, source, and the paper's value.
    pub(crate) claim: [&'static str; 3],
    pub(crate) statement: &'static str,
    pub(crate) rule: &'static str,
    pub(crate) measure: fn(&R) -> Measured,
    /// Our value as text.
    pub(crate) ours: fn(&R, &[Estimate]) -> String,
    /// Whether our values meet the rule.
    pub(crate) holds: fn(&R, &[Estimate]) -> bool,
    /// Why our result differs; called only if the rule is not met.
    pub(crate) why: fn(&R, &[Estimate]) -> String,
}

/// Judges each claim of a table on the results.
pub(crate) fn judge<R: ?Sized>(rows: &[Row<R>], results: &R) -> Vec<Claim> {
    let claim = |row: &Row<R>| {
        let [id, source, paper] = row.claim;
        let measured = (row.measure)(results);
        let figures: Vec<Estimate> = measured.iter().map(|(_, estimate)| *estimate).collect();
        let ours = (row.ours)(results, &figures);
        let reproduced = (row.holds)(results, &figures);
        // Tests of the experiments check that a claim has an explanation exactly if it is not reproduced.
        let why = if reproduced { String::new() } else { (row.why)(results, &figures) };
        let (statement, rule) = (row.statement, row.rule);
        Claim { id, source, statement, paper, ours, measured, rule, reproduced, why }
    };
    rows.iter().map(claim).collect()
}
