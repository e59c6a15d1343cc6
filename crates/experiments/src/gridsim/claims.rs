//! What the paper says about its figures beside ours. The rules were written before the first run: directions, and for
//! numbers a factor of [`FACTOR`] either way. Reasons for differences are taken from the runs, as far as they show any.

use super::case::Case;
use super::reasons;
use super::results::{
    NON_RESTARTABLE, RESTARTABLE, Results, all, mean_of_sites, offset, percent_above, rejections,
    reserved_success, success, utilisation, wait,
};
use super::setup::published;
use crate::{Claim, Estimate};

/// A published number is met from its half to its double.
pub(super) const FACTOR: f64 = 2.0;
/// Utilisation is unchanged within so many percentage points.
pub(super) const UNCHANGED: f64 = 5.0;

const NONE: Case = Case::advance(0, RESTARTABLE);
const TEN: Case = Case::advance(10, RESTARTABLE);
const TWENTY: Case = Case::advance(20, RESTARTABLE);

/// All claims on the first of the results, figure by figure; the others, under other choices, help to explain.
pub(super) fn claims(results: &[Results]) -> Vec<Claim> {
    let mut claims = Vec::new();
    claims.extend(waiting(results));
    claims.extend(offsets(results));
    claims.extend(utilisations(results));
    claims.extend(rejected(results));
    claims.extend(parallel(results));
    claims
}

fn within_factor(ours: f64, paper: f64) -> bool {
    ours >= paper / FACTOR && ours <= paper * FACTOR
}

fn named(name: &str, estimate: Estimate) -> (String, Estimate) {
    (name.to_owned(), estimate)
}

/// The reason, where one is needed.
fn unless(reproduced: bool, why: impl FnOnce() -> String) -> String {
    if reproduced { String::new() } else { why() }
}

fn waiting(results: &[Results]) -> [Claim; 3] {
    let ours = &results[0];
    let growth = |case| ours.against(case, NONE, all(wait), percent_above);
    let (ten, twenty) = (growth(TEN), growth(TWENTY));
    let number = |id, paper_text, statement, estimate: Estimate, paper: f64| {
        let reproduced = within_factor(estimate.mean, paper);
        Claim {
            id,
            source: "Section 5.2.1, Figure 7",
            statement,
            paper: paper_text,
            ours: format!("{:+.0}%", estimate.mean),
            measured: vec![named("growth of the mean waiting time, %", estimate)],
            rule: "the growth is positive and between half and double the paper's",
            reproduced,
            why: unless(reproduced, || reasons::waiting(results)),
        }
    };
    let grows = 0.0 < ten.mean && ten.mean < twenty.mean;
    [
        number(
            "gridsim/waiting-10",
            "+20%",
            "Queued jobs wait longer where 10% of the jobs are reservations.",
            ten,
            published::WAITING_10,
        ),
        number(
            "gridsim/waiting-20",
            "+71%",
            "Queued jobs wait longer where 20% of the jobs are reservations.",
            twenty,
            published::WAITING_20,
        ),
        Claim {
            id: "gridsim/waiting-grows",
            source: "Section 5.2.1, Figure 7",
            statement: "The more reservations, the longer queued jobs wait.",
            paper: "0 < +20% < +71%",
            ours: format!("0 < {:+.0}% < {:+.0}%", ten.mean, twenty.mean),
            measured: vec![named("growth with 10%, %", ten), named("growth with 20%, %", twenty)],
            rule: "more waiting with 10% than with none, and more with 20% than with 10%",
            reproduced: grows,
            why: unless(grows, || reasons::waiting(results)),
        },
    ]
}

fn offsets(results: &[Results]) -> [Claim; 4] {
    let ours = &results[0];
    let offset_of = |case| ours.of(case, all(offset));
    let (ten, twenty) = (offset_of(TEN), offset_of(TWENTY));
    let (now_ten, now_twenty) = (offset_of(Case::immediate(10)), offset_of(Case::immediate(20)));
    let number = |id, paper_text, statement, estimate: Estimate, paper: f64| {
        let reproduced = within_factor(estimate.mean, paper);
        Claim {
            id,
            source: "Section 5.2.2, Figure 8",
            statement,
            paper: paper_text,
            ours: format!("{:.0} min", estimate.mean),
            measured: vec![named("mean offset, minutes", estimate)],
            rule: "between half and double the paper's",
            reproduced,
            why: unless(reproduced, || reasons::offset_size(results)),
        }
    };
    let grows = ten.mean < twenty.mean;
    let ahead_is_better = ten.mean < now_ten.mean && twenty.mean < now_twenty.mean;
    [
        number(
            "gridsim/offset-10",
            "48 min",
            "With 10% reservations they start so much later than wanted, on average.",
            ten,
            published::OFFSET_10,
        ),
        number(
            "gridsim/offset-20",
            "62 min",
            "With 20% reservations they start so much later than wanted, on average.",
            twenty,
            published::OFFSET_20,
        ),
        Claim {
            id: "gridsim/offset-grows",
            source: "Section 5.2.2, Figure 8",
            statement: "The more reservations, the larger their offset.",
            paper: "+29% from 10% to 20%",
            ours: format!("{:+.0}%", percent_above(twenty.mean, ten.mean)),
            measured: vec![named("offset with 10%, minutes", ten), named("offset with 20%, minutes", twenty)],
            rule: "a larger mean offset with 20% than with 10%",
            reproduced: grows,
            why: unless(grows, || reasons::offset_size(results)),
        },
        Claim {
            id: "gridsim/offset-advance",
            source: "Section 5.2.2, Figure 8",
            statement: "Asking ahead of time gives a smaller offset than asking for the same moment.",
            paper: "lower for advance reservations",
            ours: format!(
                "{:.0} against {:.0} min with 10%, {:.0} against {:.0} with 20%",
                ten.mean, now_ten.mean, twenty.mean, now_twenty.mean
            ),
            measured: vec![
                named("advance with 10%, minutes", ten),
                named("immediate with 10%, minutes", now_ten),
                named("advance with 20%, minutes", twenty),
                named("immediate with 20%, minutes", now_twenty),
            ],
            rule: "a smaller mean offset for advance than for immediate reservations, with 10% and with 20%",
            reproduced: ahead_is_better,
            why: unless(ahead_is_better, || reasons::immediate(results)),
        },
    ]
}

fn utilisations(results: &[Results]) -> [Claim; 3] {
    let ours = &results[0];
    let of = |case| ours.of(case, mean_of_sites(utilisation));
    let (none, ten, twenty) = (of(NONE), of(TEN), of(TWENTY));
    let (long_ten, long_twenty) =
        (of(Case::advance(10, NON_RESTARTABLE)), of(Case::advance(20, NON_RESTARTABLE)));
    let (low, high) = published::UTILISATION;
    let inside = |estimate: Estimate| low <= estimate.mean && estimate.mean <= high;
    let drops = [ten, twenty].iter().all(|estimate| inside(*estimate) && estimate.mean < none.mean);
    let unchanged = (ten.mean - twenty.mean).abs() <= UNCHANGED;
    let lower = long_ten.mean < ten.mean && long_twenty.mean < twenty.mean;
    let claim = |id, statement, paper, ours, measured, rule, reproduced| Claim {
        id,
        source: "Section 5.2.3, Figure 9",
        statement,
        paper,
        ours,
        measured,
        rule,
        reproduced,
        why: unless(reproduced, || reasons::used(results)),
    };
    [
        claim(
            "gridsim/utilisation-range",
            "Where reservations are supported, utilisation drops to between 60 and 80%.",
            "60 to 80%",
            format!("{:.0}% without, {:.0}% with 10%, {:.0}% with 20%", none.mean, ten.mean, twenty.mean),
            vec![named("0%", none), named("10%, restartable", ten), named("20%, restartable", twenty)],
            "with 10% and with 20% restartable reservations, the mean of the five resources is between 60 and 80% \
             and lower than without",
            drops,
        ),
        claim(
            "gridsim/utilisation-restartable",
            "Utilisation does not change for restartable jobs.",
            "unchanged",
            format!("{:.0}% with 10%, {:.0}% with 20%", ten.mean, twenty.mean),
            vec![named("10%, restartable", ten), named("20%, restartable", twenty)],
            "the mean of the five resources differs by at most 5 percentage points between 10% and 20% restartable \
             reservations",
            unchanged,
        ),
        claim(
            "gridsim/utilisation-non-restartable",
            "Utilisation is lower for jobs that cannot be restarted, since their slots are too long.",
            "lower",
            format!(
                "{:.0}% against {:.0}% with 10%, {:.0}% against {:.0}% with 20%",
                long_ten.mean, ten.mean, long_twenty.mean, twenty.mean
            ),
            vec![
                named("10%, non-restartable", long_ten),
                named("10%, restartable", ten),
                named("20%, non-restartable", long_twenty),
                named("20%, restartable", twenty),
            ],
            "the mean of the five resources is lower than with restartable jobs, with 10% and with 20%",
            lower,
        ),
    ]
}

fn rejected(results: &[Results]) -> [Claim; 2] {
    let ours = &results[0];
    let of = |share, stopped| ours.of(Case::advance(share, stopped), all(rejections));
    let (ten, twenty) = (of(10, RESTARTABLE), of(20, RESTARTABLE));
    let (long_ten, long_twenty) = (of(10, NON_RESTARTABLE), of(20, NON_RESTARTABLE));
    let measured = vec![
        named("10%, restartable", ten),
        named("20%, restartable", twenty),
        named("10%, non-restartable", long_ten),
        named("20%, non-restartable", long_twenty),
    ];
    let more = ten.mean < twenty.mean && long_ten.mean < long_twenty.mean;
    let longer = ten.mean < long_ten.mean && twenty.mean < long_twenty.mean;
    [
        Claim {
            id: "gridsim/rejections-share",
            source: "Section 5.2.4, Figure 10",
            statement: "The more reservations are requested, the more are rejected.",
            paper: "higher with 20% than with 10%",
            ours: format!(
                "{:.0} and {:.0} restartable, {:.0} and {:.0} not",
                ten.mean, twenty.mean, long_ten.mean, long_twenty.mean
            ),
            measured: measured.clone(),
            rule: "more rejections with 20% than with 10%, for both kinds of jobs",
            reproduced: more,
            why: unless(more, || reasons::rejected(results)),
        },
        Claim {
            id: "gridsim/rejections-non-restartable",
            source: "Section 5.2.4, Figure 10",
            statement: "Jobs that cannot be restarted are rejected more often, since they ask for longer slots.",
            paper: "higher for non-restartable jobs",
            ours: format!(
                "{:.0} against {:.0} with 10%, {:.0} against {:.0} with 20%",
                long_ten.mean, ten.mean, long_twenty.mean, twenty.mean
            ),
            measured,
            rule: "more rejections than for restartable jobs, with 10% and with 20%",
            reproduced: longer,
            why: unless(longer, || reasons::rejected(results)),
        },
    ]
}

fn parallel(results: &[Results]) -> [Claim; 2] {
    let ours = &results[0];
    let none = ours.of(Case::parallel(0), all(success));
    let reserved = |share| ours.of(Case::parallel(share), all(reserved_success));
    let (ten, twenty) = (reserved(10), reserved(20));
    let helps = none.mean < ten.mean && none.mean < twenty.mean;
    let less_competition = twenty.mean < ten.mean;
    let measured = vec![
        named("jobs without reservations, %", none),
        named("reservations of 10%, %", ten),
        named("reservations of 20%, %", twenty),
    ];
    let ours = format!("{:.1}% without, {:.1}% with 10%, {:.1}% with 20%", none.mean, ten.mean, twenty.mean);
    [
        Claim {
            id: "gridsim/parallel-reservations",
            source: "Section 5.2.5, Figure 11",
            statement: "Parallel jobs run as wanted more often with a reservation.",
            paper: "lowest without reservations",
            ours: ours.clone(),
            measured: measured.clone(),
            rule: "of the jobs that want a reservation a larger share succeeds, with 10% and with 20%, than of all jobs \
                   where none does",
            reproduced: helps,
            why: unless(helps, || reasons::parallel(results)),
        },
        Claim {
            id: "gridsim/parallel-competition",
            source: "Section 5.2.5, Figure 11",
            statement: "With 10% reservations they succeed more often than with 20%, as they have less competition.",
            paper: "10% better than 20%",
            ours,
            measured,
            rule: "of the jobs that want a reservation, a larger share succeeds with 10% than with 20%",
            reproduced: less_competition,
            why: unless(less_competition, || reasons::parallel(results)),
        },
    ]
}
