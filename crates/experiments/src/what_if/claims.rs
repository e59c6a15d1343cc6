//! Claims of the paper beside our results.

use super::WIDE_WINDOW;
use super::results::{Batch, Results, added_hours, of};
use super::run::Contender::{Load, WhatIf};
use super::run::Finding;
use crate::check::{Check, printed};
use crate::claim::Row;
use crate::{Estimate, Measured};

pub(super) const CLAIMS: [Row<Results>; 12] = [
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
        claim: ["what-if/makespan", "5.3", "+1% to +8% (about 60000 s), what-if less in most"],
        statement: "reservations make the makespan longer by 1% to 8%, what-if less than load in most workloads",
        rule: "the least and the most of the workloads of a seed, and, workload by workload, what-if's less load's of the \
               same seeds, which is not above zero in most workloads",
        measure: |results| {
            let [least, most] = results.ends(is_paper, change);
            let [_, added] = results.ends(is_paper, |finding| finding.makespan_added);
            let named = [("least %", least), ("most %", most), ("most s", added)];
            let named = named.map(|(name, value)| (name.to_owned(), value));
            [both(results, |_| true, change), named.to_vec()].concat()
        },
        ours: |_, of| {
            format!(
                "{}% to {}% ({} s); on average {}",
                of[2].show(1),
                of[3].show(1),
                of[4].show(0),
                show(&of[..2], "%")
            )
        },
        checks: |results, of| {
            let cases = results.workloads().into_iter().map(|(ahead, window)| {
                let here =
                    move |batch: &Batch| (batch.setting.book_ahead, batch.setting.window) == (ahead, window);
                Check::at_most("", results.difference(here, change), 0.0)
            });
            vec![
                Check::number("least change", of[2], printed(1.0, 1.0)),
                Check::number("most change", of[3], printed(8.0, 1.0)),
                Check::number("most change in seconds", of[4], printed(60_000.0, 10_000.0)),
                Check::most("what-if not above load", cases),
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
        measure: |results| [both(results, is_soon, delayed), both(results, is_soon, added_hours)].concat(),
        ours: |_, of| format!("delayed jobs: {}; added: {}", show(&of[..2], ""), show(&of[2..], " h")),
        checks: |results, of| {
            // Means of the three printed numbers of each method: 172, 280, 319 and 284, 341, 372.
            vec![
                Check::number("jobs delayed by what-if", of[0], printed(257.0, 1.0)),
                Check::number("jobs delayed by load", of[1], printed(332.3, 1.0)),
                Check::positive("fewer jobs delayed", results.difference(is_soon, delayed).negated()),
                Check::positive("fewer hours added", results.difference(is_soon, added_hours).negated()),
            ]
        },
        why: |_, of| unclear(if difference(&of[..2]) < 0.0 { &of[2..] } else { &of[..2] }).into(),
    },
    Row {
        claim: ["what-if/six-hours", "Table 1", "429 against 357 jobs, added wait 8655 s against 9052 s"],
        statement: "with a book-ahead time of 6 hours what-if delays more jobs, each for about as long",
        rule: "the four numbers; what-if delays more jobs, and the added waits per delayed job are the same",
        measure: |results| at_hour(results, 6),
        ours: |_, of| show_hour(of),
        checks: |results, of| {
            let here = |batch: &Batch| is_wide(batch) && batch.setting.book_ahead == 6;
            let mut checks = hour_checks(of, [429.0, 357.0, 8_655.0, 9_052.0]);
            checks.push(Check::positive("what-if delays more", results.difference(here, delayed)));
            checks.push(Check::same("added wait", of[2], of[3]));
            checks
        },
        why: unknown,
    },
    Row {
        claim: [
            "what-if/twelve-hours",
            "Table 1",
            "393 against 390 jobs, added wait 14723 s against 13161 s",
        ],
        statement: "with a book-ahead time of 12 hours load is slightly better",
        rule: "the four numbers; as many jobs are delayed, and what-if adds more to the wait of each",
        measure: |results| at_hour(results, 12),
        ours: |_, of| show_hour(of),
        checks: |results, of| {
            let here = |batch: &Batch| is_wide(batch) && batch.setting.book_ahead == 12;
            let mut checks = hour_checks(of, [393.0, 390.0, 14_723.0, 13_161.0]);
            checks.push(Check::same("delayed jobs", of[0], of[1]));
            checks.push(Check::positive("what-if adds more", results.difference(here, added_wait)));
            checks
        },
        why: unknown,
    },
    Row {
        claim: ["what-if/affected-waits", "Table 1", "what-if 8112 to 16649 s, load 7853 to 15405 s"],
        statement: "delayed jobs wait several times as long as without reservations, 8 to 17 thousand seconds",
        rule: "the mean wait of the delayed jobs over the six book-ahead times, with and without reservations, and that it \
               is longer with them",
        measure: |results| {
            [both(results, is_wide, affected), both(results, is_wide, |finding| finding.original_wait)]
                .concat()
        },
        ours: |_, of| format!("with reservations {}; without {}", show(&of[..2], " s"), show(&of[2..], " s")),
        checks: |_, of| {
            // Means of the six printed numbers of each method.
            vec![
                Check::number("what-if, affected", of[0], printed(11_132.0, 1.0)),
                Check::number("load, affected", of[1], printed(11_644.0, 1.0)),
                Check::number("what-if, original", of[2], printed(2_873.0, 1.0)),
                Check::number("load, original", of[3], printed(2_053.0, 1.0)),
                Check::above("what-if, longer with reservations", of[0], of[2]),
                Check::above("load, longer with reservations", of[1], of[3]),
            ]
        },
        why: |results, of| {
            let jobs = results.mean(|batch| is_paper(batch) && is_wide(batch), delayed);
            format!(
                "a delayed job waits {:.0} s longer than before, where the paper's waits 8259 to 9591 s longer; {} jobs are \
                 delayed, where the paper's are 346 on average: which jobs become requests is not printed",
                (of[0].mean + of[1].mean - of[2].mean - of[3].mean) / 2.0,
                jobs.show(0)
            )
        },
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

fn affected(finding: &Finding) -> f64 {
    finding.affected_wait
}

/// Mean added wait of the delayed jobs, in seconds.
fn added_wait(finding: &Finding) -> f64 {
    finding.affected_wait - finding.original_wait
}

/// Runs of the two methods of the paper.
fn is_paper(batch: &Batch) -> bool {
    of(WhatIf)(batch) || of(Load)(batch)
}

/// The short book-ahead times of Table 1.
fn is_soon(batch: &Batch) -> bool {
    is_wide(batch) && batch.setting.book_ahead <= 4
}

/// Delayed jobs and their added wait at one book-ahead time of Table 1.
fn at_hour(results: &Results, hours: i64) -> Measured {
    let value = |name: &str, method, value: fn(&Finding) -> f64| {
        let here = |batch: &Batch| of(method)(batch) && is_wide(batch) && batch.setting.book_ahead == hours;
        (format!("{name}, {}", method.name()), results.mean(here, value))
    };
    let jobs = [WhatIf, Load].map(|method| value("delayed jobs", method, delayed));
    let waits = [WhatIf, Load].map(|method| value("added wait", method, added_wait));
    [jobs, waits].concat()
}

fn show_hour(of: &[Estimate]) -> String {
    format!("delayed jobs: {}; added wait: {}", show(&of[..2], ""), show(&of[2..], " s"))
}

/// The four numbers of [`at_hour`], in its order.
fn hour_checks(of: &[Estimate], paper: [f64; 4]) -> Vec<Check> {
    let names =
        ["jobs delayed by what-if", "jobs delayed by load", "wait added by what-if", "wait added by load"];
    let checks = names.into_iter().zip(of).zip(paper);
    checks.map(|((name, ours), paper)| Check::number(name, *ours, printed(paper, 1.0))).collect()
}

fn unknown(_: &Results, _: &[Estimate]) -> String {
    "the data does not show why: jobs and rules are those of the paper, as far as it states them".into()
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

fn why_longer(_: &Results, of: &[Estimate]) -> String {
    format!(
        "of the workloads of a seed the least changed grows by {}% and the most changed by {}%; {}",
        of[2].show(1),
        of[3].show(1),
        unclear(&of[..2])
    )
}
