//! Claims of a paper beside our results, and how far they agree. Each claim says what is compared; all claims of all
//! papers are judged by the same rule, [`crate::check::verdict`]. No claim was tuned to be met.

use crate::check::{Agreement, Check, Verdict, verdict};
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
    /// What is compared, in one sentence.
    pub rule: &'static str,
    /// The comparisons of the rule.
    pub checks: Vec<Check>,
    /// How far our values agree with the paper.
    pub verdict: Verdict,
    /// Why our result differs, as far as the data shows, or why it was not judged; empty if it is reproduced.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
}

/// A claim as data: what the paper says, and how our results `R` are measured and compared. The functions after
/// `measure` get the measured estimates in their order.
pub(crate) struct Row<R: ?Sized> {
    /// Id, source, and the paper's value.
    pub(crate) claim: [&'static str; 3],
    pub(crate) statement: &'static str,
    /// What is compared, in words.
    pub(crate) rule: &'static str,
    pub(crate) measure: fn(&R) -> Measured,
    /// Our value as text.
    pub(crate) ours: fn(&R, &[Estimate]) -> String,
    /// What is compared: each number that the paper prints, and each order that it states.
    pub(crate) checks: fn(&R, &[Estimate]) -> Vec<Check>,
    /// Why our result differs; called only if it is not reproduced.
    pub(crate) why: fn(&R, &[Estimate]) -> String,
}

/// Judges each claim of a table on the results.
pub(crate) fn judge<R: ?Sized>(rows: &[Row<R>], results: &R) -> Vec<Claim> {
    let claim = |row: &Row<R>| {
        let [id, source, paper] = row.claim;
        let measured = (row.measure)(results);
        let figures: Vec<Estimate> = measured.iter().map(|(_, estimate)| *estimate).collect();
        let ours = (row.ours)(results, &figures);
        let checks = (row.checks)(results, &figures);
        let verdict = verdict(&checks);
        let why = match verdict {
            Verdict::Reproduced => String::new(),
            Verdict::DirectionOnly | Verdict::NotReproduced => (row.why)(results, &figures),
            Verdict::NotJudged => "nothing was measured".into(),
        };
        let (statement, rule) = (row.statement, row.rule);
        Claim { id, source, statement, paper, ours, measured, rule, checks, verdict, why }
    };
    rows.iter().map(claim).collect()
}

impl Claim {
    /// Takes back the verdict, because these runs cannot judge the claim. The comparisons stay.
    pub(crate) fn not_judged(&mut self, reason: &str) {
        self.verdict = Verdict::NotJudged;
        self.why = reason.to_owned();
    }

    /// The verdict, the comparisons that do not agree in full, and why, as text.
    pub fn show_verdict(&self) -> String {
        let mut text = self.verdict.name().to_owned();
        let differing = self.checks.iter().filter(|check| check.agreement != Agreement::Full);
        let differing: Vec<String> = differing.map(Check::show).collect();
        if matches!(self.verdict, Verdict::DirectionOnly | Verdict::NotReproduced) {
            text += &format!(" ({})", some_of(&differing));
        }
        if self.why.is_empty() { text } else { format!("{text}: {}", self.why) }
    }
}

/// The first of the texts, and how many more there are: enough to see what differs.
fn some_of(texts: &[String]) -> String {
    const SHOWN: usize = 4;
    let more = texts.len().saturating_sub(SHOWN);
    let shown = texts[..texts.len() - more].join("; ");
    if more > 0 { format!("{shown}; and {more} more") } else { shown }
}

/// How many claims got each verdict: `5 reproduced, 3 direction only, 1 not reproduced`.
pub fn totals<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> String {
    let verdicts: Vec<Verdict> = claims.into_iter().map(|claim| claim.verdict).collect();
    let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    let some =
        Verdict::ALL.map(|verdict| (count(verdict), verdict)).into_iter().filter(|(count, _)| *count > 0);
    some.map(|(count, verdict)| format!("{count} {}", verdict.name())).collect::<Vec<_>>().join(", ")
}

/// Examples on both sides of the border of a claim's rule.
#[cfg(test)]
pub(crate) mod borders {
    use super::*;

    /// The checks of a claim on results, with these estimates in the place of the measured ones: each a mean with its
    /// margin.
    fn checks<R: ?Sized>(rows: &[Row<R>], id: &str, results: &R, figures: &[(f64, f64)]) -> Vec<Check> {
        let row = rows.iter().find(|row| row.claim[0] == id).expect("the claim is in the table");
        let of = |&(mean, margin): &(f64, f64)| Estimate { mean, margin: Some(margin), runs: 5 };
        let figures: Vec<Estimate> = figures.iter().map(of).collect();
        (row.checks)(results, &figures)
    }

    /// Judges a claim on estimates, and compares the verdict.
    #[track_caller]
    pub(crate) fn assert_verdict<R: ?Sized>(
        (rows, id): (&[Row<R>], &str),
        results: &R,
        figures: &[(f64, f64)],
        expected: Verdict,
    ) {
        let checks = checks(rows, id, results, figures);
        assert_eq!(verdict(&checks), expected, "{id}, {figures:?}: {checks:?}");
    }

    /// Judges a claim on what is measured from results, and compares the verdict.
    #[track_caller]
    pub(crate) fn assert_judged<R: ?Sized>((rows, id): (&[Row<R>], &str), results: &R, expected: Verdict) {
        let row = rows.iter().position(|row| row.claim[0] == id).expect("the claim is in the table");
        let claims = judge(&rows[row..=row], results);
        assert_eq!(claims[0].verdict, expected, "{id}: {}", claims[0].show_verdict());
    }
}

#[cfg(test)]
mod tests {
    use super::borders::assert_verdict;
    use super::*;
    use crate::check::printed;

    const ROWS: [Row<f64>; 2] = [
        Row {
            claim: ["test/number", "Table 1", "8"],
            statement: "it is eight",
            rule: "the number",
            measure: |result| vec![("number".into(), Estimate::exact(*result))],
            ours: |_, of| of[0].show(0),
            checks: |_, of| {
                vec![Check::number("number", of[0], printed(8.0, 1.0)), Check::positive("above zero", of[0])]
            },
            why: |_, _| "a reason".into(),
        },
        Row {
            claim: ["test/nothing", "Table 1", "none"],
            statement: "nothing is measured",
            rule: "nothing",
            measure: |_| Vec::new(),
            ours: |_, _| String::new(),
            checks: |_, _| Vec::new(),
            why: |_, _| "not called".into(),
        },
    ];

    #[test]
    fn a_claim_has_its_verdict_what_differs_and_why() {
        let shown = |result: f64| judge(&ROWS, &result)[0].show_verdict();
        assert_eq!(shown(8.0), "reproduced");
        assert_eq!(shown(9.0), "direction only (number: 9.0 ± 0.0, paper 8): a reason");
        let below =
            "not reproduced (number: -8.0 ± 0.0, paper 8; above zero: difference -8.00 ± 0.00): a reason";
        assert_eq!(shown(-8.0), below);
        assert_eq!(judge(&ROWS, &8.0)[1].show_verdict(), "not judged: nothing was measured");
    }

    #[test]
    fn estimates_can_be_put_in_the_place_of_results() {
        let number = (&ROWS[..], "test/number");
        assert_verdict(number, &0.0, &[(8.5, 0.0)], Verdict::Reproduced);
        assert_verdict(number, &0.0, &[(8.6, 0.0)], Verdict::DirectionOnly);
    }

    #[test]
    fn a_program_gets_the_verdict_and_every_comparison() {
        let claim = serde_json::to_value(&judge(&ROWS, &9.0)[0]).unwrap();
        assert_eq!(claim["verdict"], "direction-only");
        let first = serde_json::json!({
            "what": "number",
            "kind": "number",
            "ours": { "mean": 9.0, "margin": 0.0, "runs": 1 },
            "paper": { "value": 8.0, "unit": 1.0 },
            "agreement": "no",
        });
        assert_eq!(claim["checks"][0], first);
        assert_eq!(
            (&claim["checks"][1]["kind"], &claim["checks"][1]["agreement"]),
            (&"order".into(), &"full".into())
        );
    }

    #[test]
    fn the_totals_leave_out_verdicts_that_none_has() {
        let claims = [judge(&ROWS[..1], &8.0), judge(&ROWS, &9.0)].concat();
        assert_eq!(totals(&claims), "1 reproduced, 1 direction only, 1 not judged");
    }

    #[test]
    fn a_verdict_is_taken_back_where_the_runs_cannot_judge() {
        let mut claim = judge(&ROWS[..1], &8.0).remove(0);
        claim.not_judged("drawn workload");
        assert_eq!(claim.show_verdict(), "not judged: drawn workload");
        assert_eq!(claim.checks.len(), 2, "the comparisons stay");
    }
}
