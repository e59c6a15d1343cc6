//! What the paper claims, beside what we find. The rules were written before the first run.

use super::WIDE_WINDOW;
use super::results::{Batch, Results, added_hours, of};
use super::run::Contender::{Load, WhatIf};
use super::run::Finding;
use super::workload::Workload;
use crate::{Claim, Estimate, Measured};

pub(super) fn claims(results: &Results, cut: usize, workload: &Workload) -> Vec<Claim> {
    let why_not = if workload.real {
        "the data does not tell: jobs and rules are the paper's as far as it says them"
    } else {
        "the workload is drawn from a model, with another queue than the paper's log"
    };
    [
        &granted(results, why_not)[..],
        &[makespan(results), fewer_delays(results), equal_far_ahead(results, why_not)],
        &limits(results, cut, workload.jobs.len(), why_not),
    ]
    .concat()
}

/// A figure of what-if, then of load.
struct Both([Estimate; 2]);

impl Both {
    fn of(results: &Results, matching: impl Fn(&Batch) -> bool, value: impl Fn(&Finding) -> f64) -> Both {
        Both([WhatIf, Load].map(|method| {
            let of_method = of(method);
            results.mean(|batch| of_method(batch) && matching(batch), &value)
        }))
    }

    fn measured(&self) -> Measured {
        [WhatIf, Load].iter().zip(self.0).map(|(method, estimate)| (method.name().into(), estimate)).collect()
    }

    fn show(&self, unit: &str) -> String {
        format!("what-if {}{unit}, load {}{unit}", self.0[0].show(1), self.0[1].show(1))
    }

    /// By how much what-if is above load.
    fn difference(&self) -> f64 {
        self.0[0].mean - self.0[1].mean
    }

    /// Why what-if is not below load: whether the data can tell them apart.
    fn unclear(&self) -> &'static str {
        match (self.0[0].margin, self.0[1].margin) {
            (Some(a), Some(b)) if self.difference().abs() <= a + b => {
                "the intervals overlap: which job of a block becomes the request matters more than the method"
            }
            (Some(_), Some(_)) => "the intervals do not overlap: on this workload it is the other way round",
            _ => "one choice of requests cannot tell them apart; more seeds give intervals",
        }
    }
}

fn is_wide(batch: &Batch) -> bool {
    batch.setting.window == WIDE_WINDOW
}

fn granted(results: &Results, why_not: &'static str) -> [Claim; 4] {
    let success = |finding: &Finding| finding.success;
    let small = |batch: &Batch| batch.setting.book_ahead <= 2 && batch.setting.window <= 2;
    let all = Both::of(results, |_| true, success);
    let small = Both::of(results, small, success);
    let busy = Both::of(results, |_| true, |finding| finding.success_under_high_load);
    let wide = Both::of(results, is_wide, success);
    let larger = "what-if grants more, and the difference is larger than over all workloads";
    [
        Claim::new("what-if/success", "5.2, Fig. 3", "what-if 97%, load 80%")
            .says("over all workloads what-if grants more reservations than load")
            .ours(all.show("%"), all.measured())
            .judged("what-if grants more", all.difference() > 0.0, || why_not),
        Claim::new("what-if/success-short-notice", "5.2", "what-if 92%, load 38%")
            .says("with book-ahead time and window of two hours at most the difference is largest")
            .ours(small.show("%"), small.measured())
            .judged(larger, small.difference() > all.difference().max(0.0), || why_not),
        Claim::new("what-if/success-high-load", "5.2", "what-if 92%, load 58%")
            .says("of the fifth of the requests with the highest backlog what-if grants more")
            .ours(busy.show("%"), busy.measured())
            .judged("what-if grants more", busy.difference() > 0.0, || why_not),
        Claim::new("what-if/all-granted-wide-window", "Table 1", "200 of 200")
            .says("with a window of 30 hours both methods grant all requests")
            .ours(wide.show("%"), wide.measured())
            .judged("both grant 99.5% or more", wide.0.iter().all(|part| part.mean >= 99.5), || why_not),
    ]
}

fn makespan(results: &Results) -> Claim {
    let change = |finding: &Finding| finding.makespan_change;
    let figures = Both::of(results, |_| true, change);
    let [what_if, load] = [WhatIf, Load].map(|method| results.range(of(method), change));
    let (longest, on_average) = (what_if.1.max(load.1), figures.show("%"));
    let why = || {
        let mut reasons = Vec::new();
        if longest > 8.0 {
            let setting = results.greatest(|batch| of(WhatIf)(batch) || of(Load)(batch), change);
            let at = setting.map(|s| format!(", {} h ahead, window {} h", s.book_ahead, s.window));
            reasons
                .push(format!("the longest of all runs is {longest:.1}% longer{}", at.unwrap_or_default()));
        }
        if figures.difference() > 0.0 {
            reasons.push(figures.unclear().to_owned());
        }
        reasons.join("; ")
    };
    let ours = format!(
        "what-if {:.1}% to {:.1}%, load {:.1}% to {:.1}%; on average {on_average}",
        what_if.0, what_if.1, load.0, load.1,
    );
    Claim::new("what-if/makespan", "5.3", "+1% to +8%")
        .says("reservations make the makespan longer by 1% to 8%, what-if less than load in most workloads")
        .ours(ours, figures.measured())
        .judged(
            "no workload's makespan is longer by more than 8%, and what-if's mean is not above load's",
            longest <= 8.0 && figures.difference() <= 0.0,
            why,
        )
}

fn fewer_delays(results: &Results) -> Claim {
    let soon = |batch: &Batch| is_wide(batch) && batch.setting.book_ahead <= 4;
    let jobs = Both::of(results, soon, |finding| finding.delayed as f64);
    let added = Both::of(results, soon, added_hours);
    let fewer = |figures: &Both| figures.difference() < 0.0;
    let ours = format!("delayed jobs: {}; added: {}", jobs.show(""), added.show(" h"));
    Claim::new(
        "what-if/fewer-delays-near",
        "Table 1, Fig. 4",
        "delayed jobs 172, 280, 319 against 284, 341, 372",
    )
    .says("with book-ahead times of 0 to 4 hours what-if delays fewer jobs and for less time in all")
    .ours(ours, [jobs.measured(), added.measured()].concat())
    .judged(
        "fewer delayed jobs and fewer added hours, each on average",
        fewer(&jobs) && fewer(&added),
        || if fewer(&jobs) { added.unclear() } else { jobs.unclear() },
    )
}

fn equal_far_ahead(results: &Results, why_not: &'static str) -> Claim {
    let far = |batch: &Batch| is_wide(batch) && batch.setting.book_ahead == 24;
    let jobs = Both::of(results, far, |finding| finding.delayed as f64);
    let equal = (jobs.0[0].mean / jobs.0[1].mean.max(1.0) - 1.0).abs() < 0.1;
    Claim::new("what-if/equal-far-ahead", "Table 1", "407 against 411")
        .says("with a book-ahead time of 24 hours both methods delay about as many jobs")
        .ours(jobs.show(""), jobs.measured())
        .judged("the two numbers of delayed jobs differ by less than a tenth", equal, || why_not)
}

fn limits(results: &Results, cut: usize, jobs: usize, why_not: &'static str) -> [Claim; 2] {
    let whole = Both::of(results, is_wide, added_hours);
    let limited =
        Both([WhatIf, Load].map(|method| {
            results.mean(|batch| batch.limited && batch.setting.contender == method, added_hours)
        }));
    let fewer = limited.0.iter().zip(whole.0).all(|(limited, whole)| limited.mean < whole.mean);
    let hours = format!("added hours {}; without the limit {}", limited.show(" h"), whole.show(" h"));
    let measured = vec![("jobs cut".to_owned(), Estimate::of(&[cut as f64]))];
    [
        Claim::new("what-if/limit-affects-few", "5.4", "less than 10 of 1800")
            .says("limiting jobs to fewer than 89 affects fewer than ten of them")
            .ours(format!("{cut} of {jobs}, those that become requests included"), measured)
            .judged("fewer than ten", cut < 10, || why_not),
        Claim::new("what-if/limit-helps", "5.4", "significantly improved")
            .says("with jobs limited to fewer than 89 the delays are much smaller")
            .ours(hours, [limited.measured(), whole.measured()].concat())
            .judged("fewer added hours for both methods", fewer, || why_not),
    ]
}
