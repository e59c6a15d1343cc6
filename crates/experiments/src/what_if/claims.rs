//! Claims of the paper beside our results.

use super::WIDE_WINDOW;
use super::results::{Batch, Results, added_hours, of};
use super::run::Contender::{Load, WhatIf};
use super::run::Finding;
use crate::check::{Check, printed};
use crate::claim::Row;
use crate::{Estimate, Measured};

pub(super) const CLAIMS: [Row<Results>; 9] = [
    Row {
        claim: ["what-if/success", "5.2, Fig. 3", "what-if 97%, load 80%"],
        statement: "over all workloads what-if grants more reservations than load",
        rule: "both shares, and what-if grants more",
        measure: all_granted,
        ours: |_, both| show(both, "%"),
        checks: |_, both| granted_checks(both, 97.0, 80.0),
        why: unknown,
    },
    Row {
        claim: ["what-if/success-short-notice", "5.2", "what-if 92%, load 38%"],
        statement: "with book-ahead time and window of two hours at most the difference is largest",
        rule: "both shares, what-if grants more, and the difference is larger than over all workloads",
        measure: |results| {
            let small = |batch: &Batch| batch.setting.book_ahead <= 2 && batch.setting.window <= 2;
            both(results, small, |finding| finding.success)
        },
        ours: |_, both| show(both, "%"),
        // At least zero: if load grants more over all workloads, a smaller loss would otherwise count as a gain.
        checks: |results, both| {
            let all = all_granted(results);
            let [here, overall] = [both[0].minus(both[1]), all[0].1.minus(all[1].1)];
            let mut checks = granted_checks(both, 92.0, 38.0);
            checks.push(Check::above("difference against that over all workloads", here, overall));
            checks
        },
        why: unknown,
    },
    Row {
        claim: ["what-if/success-high-load", "5.2", "what-if 92%, load 58%"],
        statement: "what-if grants more of the fifth of the requests with the highest backlog",
        rule: "both shares, and what-if grants more",
        measure: |results| both(results, |_| true, |finding| finding.success_under_high_load),
        ours: |_, both| show(both, "%"),
        checks: |_, both| granted_checks(both, 92.0, 58.0),
        why: unknown,
    },
    Row {
        claim: ["what-if/all-granted-wide-window", "Table 1", "200 of 200"],
        statement: "with a window of 30 hours both methods grant all requests",
        rule: "both shares",
        measure: |results| both(results, is_wide, |finding| finding.success),
        ours: |_, both| show(both, "%"),
        // 99.5% is 199 of the 200 requests: one refused request per run is tolerated.
        checks: |_, both| {
            // The paper's table counts requests: the last digit is one of 200.
            let all = printed(100.0, 0.5);
            vec![Check::number("what-if", both[0], all), Check::number("load", both[1], all)]
        },
        why: unknown,
    },
    Row {
        claim: ["what-if/makespan", "5.3", "+1% to +8%"],
        statement: "reservations make the makespan longer by 1% to 8%, what-if less than load in most workloads",
        rule: "the least and the most of all workloads, and what-if's mean is not above load's",
        measure: |results| both(results, |_| true, change),
        ours: |results, both| {
            let [what_if, load] = [WhatIf, Load].map(|method| {
                let (least, most) = results.range(of(method), change);
                format!("{least:.1}% to {most:.1}%")
            });
            format!("what-if {what_if}, load {load}; on average {}", show(both, "%"))
        },
        checks: |results, both| {
            // The least and the most of all runs are single values, without an interval.
            let [least, most] = ends(results).map(|end| Estimate::of(&[end]));
            vec![
                Check::number("least change", least, printed(1.0, 1.0)),
                Check::number("most change", most, printed(8.0, 1.0)),
                Check::at_most("what-if not above load", both[0], both[1]),
            ]
        },
        why: why_longer,
    },
    Row {
        claim: [
            "what-if/fewer-delays-near",
            "Table 1, Fig. 4",
            "delayed jobs 172, 280, 319 against 284, 341, 372",
        ],
        statement: "with book-ahead times of 0 to 4 hours what-if delays fewer jobs and for less time in all",
        rule: "the mean numbers of delayed jobs; what-if delays fewer, and adds fewer hours",
        measure: |results| {
            let soon = |batch: &Batch| is_wide(batch) && batch.setting.book_ahead <= 4;
            [both(results, soon, delayed), both(results, soon, added_hours)].concat()
        },
        ours: |_, of| format!("delayed jobs: {}; added: {}", show(&of[..2], ""), show(&of[2..], " h")),
        checks: |_, of| {
            // Means of the three printed numbers of each method: 172, 280, 319 and 284, 341, 372.
            vec![
                Check::number("jobs delayed by what-if", of[0], printed(257.0, 1.0)),
                Check::number("jobs delayed by load", of[1], printed(332.3, 1.0)),
                Check::below("fewer jobs delayed", of[0], of[1]),
                Check::below("fewer hours added", of[2], of[3]),
            ]
        },
        why: |_, of| unclear(if difference(&of[..2]) < 0.0 { &of[2..] } else { &of[..2] }).into(),
    },
    Row {
        claim: ["what-if/equal-far-ahead", "Table 1", "407 against 411"],
        statement: "with a book-ahead time of 24 hours both methods delay about as many jobs",
        rule: "the two numbers of delayed jobs, and that they are the same",
        measure: |results| both(results, |batch| is_wide(batch) && batch.setting.book_ahead == 24, delayed),
        ours: |_, both| show(both, ""),
        checks: |_, both| {
            vec![
                Check::number("what-if", both[0], printed(407.0, 1.0)),
                Check::number("load", both[1], printed(411.0, 1.0)),
                Check::same("both delay as many", both[0], both[1]),
            ]
        },
        why: unknown,
    },
    Row {
        claim: ["what-if/limit-affects-few", "5.4", "less than 10 of 1800"],
        statement: "limiting jobs to fewer than 89 affects fewer than ten of them",
        rule: "fewer than ten",
        measure: |results| vec![("jobs cut".to_owned(), Estimate::of(&[results.cut as f64]))],
        ours: |results, _| {
            format!("{} of {}, those that become requests included", results.cut, results.jobs)
        },
        checks: |results, _| vec![Check::below("jobs cut, fewer than ten", results.cut as f64, 10.0)],
        why: unknown,
    },
    Row {
        claim: ["what-if/limit-helps", "5.4", "significantly improved"],
        statement: "with jobs limited to fewer than 89 the delays are much smaller",
        rule: "fewer added hours for both methods",
        // Runs with the limit exist only at the widest window, so they are compared with the others at that window.
        measure: |results| {
            let limited = [WhatIf, Load].map(|method| {
                let limited = |batch: &Batch| batch.limited && batch.setting.contender == method;
                (method.name().to_owned(), results.mean(limited, added_hours))
            });
            [limited.to_vec(), both(results, is_wide, added_hours)].concat()
        },
        ours: |_, of| {
            format!("added hours {}; without the limit {}", show(&of[..2], " h"), show(&of[2..], " h"))
        },
        checks: |_, of| vec![Check::below("what-if", of[0], of[2]), Check::below("load", of[1], of[3])],
        why: unknown,
    },
];

/// A value for what-if and load, in this order.
fn both(results: &Results, matching: fn(&Batch) -> bool, value: fn(&Finding) -> f64) -> Measured {
    let mean = |method| results.mean(|batch| of(method)(batch) && matching(batch), value);
    [WhatIf, Load].map(|method| (method.name().to_owned(), mean(method))).into()
}

fn all_granted(results: &Results) -> Measured {
    both(results, |_| true, |finding| finding.success)
}

/// The paper's granted shares, and that what-if grants more.
fn granted_checks(both: &[Estimate], what_if: f64, load: f64) -> Vec<Check> {
    vec![
        Check::number("what-if", both[0], printed(what_if, 1.0)),
        Check::number("load", both[1], printed(load, 1.0)),
        Check::above("what-if above load", both[0], both[1]),
    ]
}

fn show(both: &[Estimate], unit: &str) -> String {
    format!("what-if {}{unit}, load {}{unit}", both[0].show(1), both[1].show(1))
}

/// How much what-if is above load.
fn difference(both: &[Estimate]) -> f64 {
    both[0].mean - both[1].mean
}

fn is_wide(batch: &Batch) -> bool {
    batch.setting.window == WIDE_WINDOW
}

fn delayed(finding: &Finding) -> f64 {
    finding.delayed as f64
}

fn change(finding: &Finding) -> f64 {
    finding.makespan_change
}

/// The least and the most change of the makespan of all runs, in percent.
fn ends(results: &Results) -> [f64; 2] {
    let [what_if, load] = [WhatIf, Load].map(|method| results.range(of(method), change));
    [what_if.0.min(load.0), what_if.1.max(load.1)]
}

fn unknown(results: &Results, _: &[Estimate]) -> String {
    let why = if results.real {
        "the data does not show why: jobs and rules are those of the paper, as far as it states them"
    } else {
        "the workload is generated by a model, and its queue differs from that of the paper's trace"
    };
    why.into()
}

/// Explains why what-if is not below load: whether the difference is significant.
fn unclear(both: &[Estimate]) -> &'static str {
    match (both[0].margin, both[1].margin) {
        (Some(a), Some(b)) if difference(both).abs() <= a + b => {
            "the intervals overlap: the choice of the jobs that become requests matters more than the method"
        }
        (Some(_), Some(_)) => "the intervals do not overlap: on this workload the effect is reversed",
        _ => "one seed cannot show a significant difference; more seeds give intervals",
    }
}

fn why_longer(results: &Results, both: &[Estimate]) -> String {
    let (mut reasons, [least, longest]) = (Vec::new(), ends(results));
    if least < 0.5 {
        reasons.push(format!("in a run the makespan changes by only {least:.1}%"));
    }
    if longest > 8.5 {
        let setting = results.greatest(|batch| of(WhatIf)(batch) || of(Load)(batch), change);
        let at = setting.map(|s| format!(", {} h ahead, window {} h", s.book_ahead, s.window));
        reasons.push(format!("the longest of all runs is {longest:.1}% longer{}", at.unwrap_or_default()));
    }
    if difference(both) > 0.0 || reasons.is_empty() {
        reasons.push(unclear(both).to_owned());
    }
    reasons.join("; ")
}
