//! Claims of the paper beside our results. The rules were written before the first run.

use super::WIDE_WINDOW;
use super::results::{Batch, Results, added_hours, of};
use super::run::Contender::{Load, WhatIf};
use super::run::Finding;
use crate::claim::Row;
use crate::{Estimate, Measured};

pub(super) const CLAIMS: [Row<Results>; 9] = [
    Row {
        claim: ["what-if/success", "5.2, Fig. 3", "what-if 97%, load 80%"],
        statement: "over all workloads what-if grants more reservations than load",
        rule: "what-if grants more",
        measure: all_granted,
        ours: |_, both| show(both, "%"),
        holds: |_, both| difference(both) > 0.0,
        why: unknown,
    },
    Row {
        claim: ["what-if/success-short-notice", "5.2", "what-if 92%, load 38%"],
        statement: "with book-ahead time and window of two hours at most the difference is largest",
        rule: "what-if grants more, and the difference is larger than over all workloads",
        measure: |results| {
            let small = |batch: &Batch| batch.setting.book_ahead <= 2 && batch.setting.window <= 2;
            both(results, small, |finding| finding.success)
        },
        ours: |_, both| show(both, "%"),
        // At least zero: if load grants more over all workloads, a smaller loss would otherwise count as a gain.
        holds: |results, both| {
            let all = all_granted(results);
            difference(both) > difference(&[all[0].1, all[1].1]).max(0.0)
        },
        why: unknown,
    },
    Row {
        claim: ["what-if/success-high-load", "5.2", "what-if 92%, load 58%"],
        statement: "what-if grants more of the fifth of the requests with the highest backlog",
        rule: "what-if grants more",
        measure: |results| both(results, |_| true, |finding| finding.success_under_high_load),
        ours: |_, both| show(both, "%"),
        holds: |_, both| difference(both) > 0.0,
        why: unknown,
    },
    Row {
        claim: ["what-if/all-granted-wide-window", "Table 1", "200 of 200"],
        statement: "with a window of 30 hours both methods grant all requests",
        rule: "both grant 99.5% or more",
        measure: |results| both(results, is_wide, |finding| finding.success),
        ours: |_, both| show(both, "%"),
        // 99.5% is 199 of the 200 requests: one refused request per run is tolerated.
        holds: |_, both| both.iter().all(|part| part.mean >= 99.5),
        why: unknown,
    },
    Row {
        claim: ["what-if/makespan", "5.3", "+1% to +8%"],
        statement: "reservations make the makespan longer by 1% to 8%, what-if less than load in most workloads",
        rule: "no workload's makespan is longer by more than 8%, and what-if's mean is not above load's",
        measure: |results| both(results, |_| true, change),
        ours: |results, both| {
            let [what_if, load] = [WhatIf, Load].map(|method| {
                let (least, most) = results.range(of(method), change);
                format!("{least:.1}% to {most:.1}%")
            });
            format!("what-if {what_if}, load {load}; on average {}", show(both, "%"))
        },
        holds: |results, both| longest(results) <= 8.0 && difference(both) <= 0.0,
        why: why_longer,
    },
    Row {
        claim: [
            "what-if/fewer-delays-near",
            "Table 1, Fig. 4",
            "delayed jobs 172, 280, 319 against 284, 341, 372",
        ],
        statement: "with book-ahead times of 0 to 4 hours what-if delays fewer jobs and for less time in all",
        rule: "fewer delayed jobs and fewer added hours, each on average",
        measure: |results| {
            let soon = |batch: &Batch| is_wide(batch) && batch.setting.book_ahead <= 4;
            [both(results, soon, delayed), both(results, soon, added_hours)].concat()
        },
        ours: |_, of| format!("delayed jobs: {}; added: {}", show(&of[..2], ""), show(&of[2..], " h")),
        holds: |_, of| difference(&of[..2]) < 0.0 && difference(&of[2..]) < 0.0,
        why: |_, of| unclear(if difference(&of[..2]) < 0.0 { &of[2..] } else { &of[..2] }).into(),
    },
    Row {
        claim: ["what-if/equal-far-ahead", "Table 1", "407 against 411"],
        statement: "with a book-ahead time of 24 hours both methods delay about as many jobs",
        rule: "the two numbers of delayed jobs differ by less than a tenth",
        measure: |results| both(results, |batch| is_wide(batch) && batch.setting.book_ahead == 24, delayed),
        ours: |_, both| show(both, ""),
        holds: |_, both| (both[0].mean / both[1].mean.max(1.0) - 1.0).abs() < 0.1,
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
        holds: |results, _| results.cut < 10,
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
        holds: |_, of| of[0].mean < of[2].mean && of[1].mean < of[3].mean,
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

/// The longest makespan of all runs, in percent above that without reservations.
fn longest(results: &Results) -> f64 {
    results.range(of(WhatIf), change).1.max(results.range(of(Load), change).1)
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
    let (mut reasons, longest) = (Vec::new(), longest(results));
    if longest > 8.0 {
        let setting = results.greatest(|batch| of(WhatIf)(batch) || of(Load)(batch), change);
        let at = setting.map(|s| format!(", {} h ahead, window {} h", s.book_ahead, s.window));
        reasons.push(format!("the longest of all runs is {longest:.1}% longer{}", at.unwrap_or_default()));
    }
    if difference(both) > 0.0 {
        reasons.push(unclear(both).to_owned());
    }
    reasons.join("; ")
}
