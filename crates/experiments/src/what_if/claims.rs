//! What the paper claims, beside what we find. The rules were written before the first run.

use super::WIDE_WINDOW;
use super::contender::Contender::{self, Load, WhatIf};
use super::results::{Batch, Results, added_hours, of};
use super::run::Finding;
use super::workload::Workload;
use crate::{Claim, Estimate};

pub(super) fn claims(results: &Results, cut: usize, workload: &Workload) -> Vec<Claim> {
    let jobs = workload.jobs.len();
    let mut claims = vec![
        success(results),
        success_small(results),
        success_under_high_load(results),
        all_granted(results),
        makespan(results),
        fewer_delays(results),
        equal_far_ahead(results),
        limit_affects_few(cut, jobs),
        limit_helps(results),
    ];
    for claim in claims.iter_mut().filter(|claim| !claim.reproduced && claim.why.is_empty()) {
        claim.why = if workload.real {
            "the data does not tell: jobs and rules are the paper's as far as it says them".to_owned()
        } else {
            "the workload is drawn from a model, with another queue than the paper's log".to_owned()
        };
    }
    claims
}

/// A figure of both methods.
fn both(
    results: &Results,
    matching: impl Fn(&Batch) -> bool,
    value: impl Fn(&Finding) -> f64,
) -> [(Contender, Estimate); 2] {
    [WhatIf, Load].map(|method| {
        let of_method = of(method);
        (method, results.mean(|batch| of_method(batch) && matching(batch), &value))
    })
}

fn measured(figures: &[(Contender, Estimate)]) -> Vec<(String, Estimate)> {
    figures.iter().map(|(method, estimate)| (method.name().to_owned(), *estimate)).collect()
}

fn against(figures: &[(Contender, Estimate); 2], unit: &str) -> String {
    format!("what-if {}{unit}, load {}{unit}", figures[0].1.show(1), figures[1].1.show(1))
}

fn success(results: &Results) -> Claim {
    let figures = both(results, |_| true, |finding| finding.success);
    Claim {
        id: "what-if/success",
        source: "5.2, Fig. 3",
        statement: "over all workloads what-if grants more reservations than load",
        paper: "what-if 97%, load 80%",
        ours: against(&figures, "%"),
        measured: measured(&figures),
        rule: "what-if grants more",
        reproduced: figures[0].1.mean > figures[1].1.mean,
        why: String::new(),
    }
}

fn success_small(results: &Results) -> Claim {
    let small = |batch: &Batch| batch.setting.book_ahead <= 2 && batch.setting.window <= 2;
    let figures = both(results, small, |finding| finding.success);
    Claim {
        id: "what-if/success-short-notice",
        source: "5.2",
        statement: "with book-ahead time and window of two hours at most the difference is largest",
        paper: "what-if 92%, load 38%",
        ours: against(&figures, "%"),
        measured: measured(&figures),
        rule: "what-if grants more, and the difference is larger than over all workloads",
        reproduced: {
            let all = both(results, |_| true, |finding| finding.success);
            figures[0].1.mean - figures[1].1.mean > (all[0].1.mean - all[1].1.mean).max(0.0)
        },
        why: String::new(),
    }
}

fn success_under_high_load(results: &Results) -> Claim {
    let figures = both(results, |_| true, |finding| finding.success_under_high_load);
    Claim {
        id: "what-if/success-high-load",
        source: "5.2",
        statement: "of the fifth of the requests with the highest backlog what-if grants more",
        paper: "what-if 92%, load 58%",
        ours: against(&figures, "%"),
        measured: measured(&figures),
        rule: "what-if grants more",
        reproduced: figures[0].1.mean > figures[1].1.mean,
        why: String::new(),
    }
}

fn all_granted(results: &Results) -> Claim {
    let figures = both(results, |batch| batch.setting.window == WIDE_WINDOW, |finding| finding.success);
    Claim {
        id: "what-if/all-granted-wide-window",
        source: "Table 1",
        statement: "with a window of 30 hours both methods grant all requests",
        paper: "200 of 200",
        ours: against(&figures, "%"),
        measured: measured(&figures),
        rule: "both grant 99.5% or more",
        reproduced: figures.iter().all(|(_, estimate)| estimate.mean >= 99.5),
        why: String::new(),
    }
}

fn makespan(results: &Results) -> Claim {
    let figures = both(results, |_| true, |finding| finding.makespan_change);
    let range = |method| results.range(of(method), |finding| finding.makespan_change);
    let (what_if, load) = (range(WhatIf), range(Load));
    Claim {
        id: "what-if/makespan",
        source: "5.3",
        statement: "reservations make the makespan longer by 1% to 8%, what-if less than load in most workloads",
        paper: "+1% to +8%",
        ours: format!(
            "what-if {:.1}% to {:.1}%, load {:.1}% to {:.1}%; on average {}",
            what_if.0,
            what_if.1,
            load.0,
            load.1,
            against(&figures, "%")
        ),
        measured: measured(&figures),
        rule: "no workload's makespan is longer by more than 8%, and what-if's mean is not above load's",
        reproduced: what_if.1.max(load.1) <= 8.0 && figures[0].1.mean <= figures[1].1.mean,
        why: makespan_why(results, what_if.1.max(load.1), &figures),
    }
}

fn makespan_why(results: &Results, longest: f64, figures: &[(Contender, Estimate); 2]) -> String {
    let mut reasons = Vec::new();
    if longest > 8.0 {
        let either = |batch: &Batch| of(WhatIf)(batch) || of(Load)(batch);
        let setting = results.greatest(either, |finding| finding.makespan_change);
        let at =
            setting.map_or(String::new(), |s| format!(", {} h ahead, window {} h", s.book_ahead, s.window));
        reasons.push(format!("the longest of all runs is {longest:.1}% longer{at}"));
    }
    if figures[0].1.mean > figures[1].1.mean {
        reasons.push(unclear(figures));
    }
    reasons.join("; ")
}

/// Why one figure is not below the other: whether the data can tell them apart.
fn unclear(figures: &[(Contender, Estimate); 2]) -> String {
    let [(_, what_if), (_, load)] = figures;
    match (what_if.margin, load.margin) {
        (Some(a), Some(b)) if (what_if.mean - load.mean).abs() <= a + b => {
            "the intervals overlap: which job of a block becomes the request matters more than the method"
                .to_owned()
        }
        (Some(_), Some(_)) => {
            "the intervals do not overlap: on this workload it is the other way round".to_owned()
        }
        _ => "one choice of requests cannot tell them apart; more seeds give intervals".to_owned(),
    }
}

fn fewer_delays(results: &Results) -> Claim {
    let soon = |batch: &Batch| batch.setting.window == WIDE_WINDOW && batch.setting.book_ahead <= 4;
    let jobs = both(results, soon, |finding| finding.delayed as f64);
    let added = both(results, soon, added_hours);
    Claim {
        id: "what-if/fewer-delays-near",
        source: "Table 1, Fig. 4",
        statement: "with book-ahead times of 0 to 4 hours what-if delays fewer jobs and for less time in all",
        paper: "delayed jobs 172, 280, 319 against 284, 341, 372",
        ours: format!("delayed jobs: {}; added: {}", against(&jobs, ""), against(&added, " h")),
        measured: [measured(&jobs), measured(&added)].concat(),
        rule: "fewer delayed jobs and fewer added hours, each on average",
        reproduced: jobs[0].1.mean < jobs[1].1.mean && added[0].1.mean < added[1].1.mean,
        why: [&jobs, &added]
            .iter()
            .filter(|f| f[0].1.mean >= f[1].1.mean)
            .map(|f| unclear(f))
            .next()
            .unwrap_or_default(),
    }
}

fn equal_far_ahead(results: &Results) -> Claim {
    let far = |batch: &Batch| batch.setting.window == WIDE_WINDOW && batch.setting.book_ahead == 24;
    let jobs = both(results, far, |finding| finding.delayed as f64);
    Claim {
        id: "what-if/equal-far-ahead",
        source: "Table 1",
        statement: "with a book-ahead time of 24 hours both methods delay about as many jobs",
        paper: "407 against 411",
        ours: against(&jobs, ""),
        measured: measured(&jobs),
        rule: "the two numbers of delayed jobs differ by less than a tenth",
        reproduced: (jobs[0].1.mean / jobs[1].1.mean.max(1.0) - 1.0).abs() < 0.1,
        why: String::new(),
    }
}

fn limit_affects_few(cut: usize, jobs: usize) -> Claim {
    Claim {
        id: "what-if/limit-affects-few",
        source: "5.4",
        statement: "limiting jobs to fewer than 89 affects fewer than ten of them",
        paper: "less than 10 of 1800",
        ours: format!("{cut} of {jobs}, those that become requests included"),
        measured: vec![("jobs cut".to_owned(), Estimate::of(&[cut as f64]))],
        rule: "fewer than ten",
        reproduced: cut < 10,
        why: String::new(),
    }
}

fn limit_helps(results: &Results) -> Claim {
    let wide = |batch: &Batch| batch.setting.window == WIDE_WINDOW;
    let whole = both(results, wide, added_hours);
    let limited = [WhatIf, Load].map(|method| {
        let matching = |batch: &Batch| batch.limited && batch.setting.contender == method;
        (method, results.mean(matching, added_hours))
    });
    Claim {
        id: "what-if/limit-helps",
        source: "5.4",
        statement: "with jobs limited to fewer than 89 the delays are much smaller",
        paper: "significantly improved",
        ours: format!("added hours {}; without the limit {}", against(&limited, " h"), against(&whole, " h")),
        measured: [measured(&limited), measured(&whole)].concat(),
        rule: "fewer added hours for both methods",
        reproduced: limited.iter().zip(&whole).all(|(limited, whole)| limited.1.mean < whole.1.mean),
        why: String::new(),
    }
}
