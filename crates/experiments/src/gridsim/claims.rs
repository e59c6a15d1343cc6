//! Claims of the paper about its figures beside our results. Explanations of differences are built from measured
//! numbers; they have no influence on the verdict.

use super::case::Case;
use super::results::{
    Measures, NON_RESTARTABLE, RESTARTABLE, Results, all, booked, granted, mean_of_sites, offset,
    percent_above, rejections, rejections_each, reserved_success, success, utilisation, wait,
};
use super::setup::{ALTERNATIVES, CHOICES, HINT_LIMIT, published};
use crate::check::{Check, Comparison, SAME};
use crate::claim::Row;
use crate::{Estimate, Measured};

const NONE: Case = Case::advance(0, RESTARTABLE);
const TEN: Case = Case::advance(10, RESTARTABLE);
const TWENTY: Case = Case::advance(20, RESTARTABLE);
const LONG_TEN: Case = Case::advance(10, NON_RESTARTABLE);
const LONG_TWENTY: Case = Case::advance(20, NON_RESTARTABLE);

const WAITING: &str = "Section 5.2.1, Figure 7";
const OFFSET: &str = "Section 5.2.2, Figure 8";
const USED: &str = "Section 5.2.3, Figure 9";
const REJECTED: &str = "Section 5.2.4, Figure 10";
const PARALLEL: &str = "Section 5.2.5, Figure 11";

/// All claims, judged on the first of the results. The others, with other choices, only help to explain differences.
pub(super) const CLAIMS: [Row<[Results]>; 14] = [
    Row {
        claim: ["gridsim/waiting-10", WAITING, "+20%"],
        statement: "Queued jobs wait longer if 10% of the jobs are reservations.",
        rule: "the growth, and that it is positive",
        measure: |results| growth(results, &[("growth of the mean waiting time, %", TEN)]),
        ours: |_, of| format!("{:+.0}%", of[0].mean),
        checks: |_, of| {
            vec![Check::number("growth", of[0], published::WAITING_10), Check::positive("longer", of[0])]
        },
        why: why_waiting,
    },
    Row {
        claim: ["gridsim/waiting-20", WAITING, "+71%"],
        statement: "Queued jobs wait longer if 20% of the jobs are reservations.",
        rule: "the growth, and that it is positive",
        measure: |results| growth(results, &[("growth of the mean waiting time, %", TWENTY)]),
        ours: |_, of| format!("{:+.0}%", of[0].mean),
        checks: |_, of| {
            vec![Check::number("growth", of[0], published::WAITING_20), Check::positive("longer", of[0])]
        },
        why: why_waiting,
    },
    Row {
        claim: ["gridsim/waiting-grows", WAITING, "grows"],
        statement: "The more reservations, the longer queued jobs wait.",
        rule: "more waiting with 10% than with none, and more with 20% than with 10%",
        measure: |results| {
            let step = results[0].against(TWENTY, TEN, all(wait), percent_above);
            let mut measured =
                growth(results, &[("growth with 10%, %", TEN), ("growth with 20%, %", TWENTY)]);
            measured.push(("growth from 10% to 20%, %".into(), step));
            measured
        },
        ours: |_, of| format!("0 < {:+.0}% < {:+.0}%", of[0].mean, of[1].mean),
        checks: |_, of| {
            let curve = Comparison::Curve { ends: of[1], steps: vec![of[0], of[2]] };
            vec![Check::new("growth with 0, 10 and 20%", curve)]
        },
        why: why_waiting,
    },
    Row {
        claim: ["gridsim/offset-10", OFFSET, "48 min"],
        statement: "Mean delay of reservations against the requested start, with 10% reservations.",
        rule: "the mean offset",
        measure: |results| measure(results, all(offset), &[("mean offset, minutes", TEN)]),
        ours: |_, of| format!("{:.0} min", of[0].mean),
        checks: |_, of| vec![Check::number("mean offset", of[0], published::OFFSET_10)],
        why: why_offset,
    },
    Row {
        claim: ["gridsim/offset-20", OFFSET, "62 min"],
        statement: "Mean delay of reservations against the requested start, with 20% reservations.",
        rule: "the mean offset",
        measure: |results| measure(results, all(offset), &[("mean offset, minutes", TWENTY)]),
        ours: |_, of| format!("{:.0} min", of[0].mean),
        checks: |_, of| vec![Check::number("mean offset", of[0], published::OFFSET_20)],
        why: why_offset,
    },
    Row {
        claim: ["gridsim/offset-grows", OFFSET, "+29% from 10% to 20%"],
        statement: "The more reservations, the larger their offset.",
        rule: "the growth, and that it is positive",
        measure: |results| {
            let both = [("offset with 10%, minutes", TEN), ("offset with 20%, minutes", TWENTY)];
            let growth = results[0].against(TWENTY, TEN, all(offset), percent_above);
            let mut measured = measure(results, all(offset), &both);
            measured.push(("growth from 10% to 20%, %".into(), growth));
            measured
        },
        ours: |_, of| format!("{:+.0}%", of[2].mean),
        checks: |_, of| {
            let growth = Check::number("growth of the offset", of[2], published::OFFSET_GROWTH);
            vec![growth, Check::positive("larger with 20%", of[2])]
        },
        why: why_offset,
    },
    Row {
        claim: ["gridsim/offset-advance", OFFSET, "lower for advance reservations"],
        statement: "A request ahead of time gives a smaller offset than an immediate one.",
        rule: "a smaller mean offset for advance than for immediate reservations, with 10% and with 20%, seed by seed",
        measure: |results| compared(results, all(offset), &AHEAD_AND_NOW, [(1, 0), (3, 2)]),
        ours: |_, of| {
            let [ten, now_ten, twenty, now_twenty] = means(of);
            format!(
                "{ten:.0} against {now_ten:.0} min with 10%, {twenty:.0} against {now_twenty:.0} with 20%"
            )
        },
        checks: |_, of| {
            vec![
                Check::positive("advance below immediate with 10%", of[4]),
                Check::positive("advance below immediate with 20%", of[5]),
            ]
        },
        why: |_, of| {
            let [ten, now_ten, twenty, now_twenty] = means(of);
            format!(
                "advance reservations that are granted are {ten:.0} and {twenty:.0} minutes late, immediate ones \
                 {now_ten:.0} and {now_twenty:.0}; with this small number of jobs the resources are not full of \
                 reservations yet"
            )
        },
    },
    Row {
        claim: ["gridsim/utilisation-range", USED, "60 to 80%"],
        statement: "With reservations, utilisation drops to between 60 and 80%.",
        rule: "with 10% and with 20% restartable reservations, the mean of the five resources is between 60 and 80% \
               and lower than without, seed by seed",
        measure: |results| {
            let cases = [("0%", NONE), KINDS[1], KINDS[3]];
            compared(results, mean_of_sites(utilisation), &cases, [(0, 1), (0, 2)])
        },
        ours: |_, of| {
            let [none, ten, twenty] = means(of);
            format!("{none:.0}% without, {ten:.0}% with 10%, {twenty:.0}% with 20%")
        },
        checks: |_, of| {
            let (low, high) = published::UTILISATION;
            let with = ["10%", "20%"].into_iter().zip(of[1..3].iter().zip(&of[3..]));
            let checks = with.flat_map(|(share, (with, lower))| {
                [
                    Check::range(format!("utilisation with {share}"), *with, low, high),
                    Check::positive(format!("lower with {share} than without"), *lower),
                ]
            });
            checks.collect()
        },
        why: why_used,
    },
    Row {
        claim: ["gridsim/utilisation-restartable", USED, "unchanged"],
        statement: "Utilisation does not change for restartable jobs.",
        rule: "the mean of the five resources is the same with 10% and with 20% restartable reservations, seed by seed",
        measure: |results| compared(results, mean_of_sites(utilisation), &[KINDS[1], KINDS[3]], [(0, 1)]),
        ours: |_, of| format!("{:.0}% with 10%, {:.0}% with 20%", of[0].mean, of[1].mean),
        checks: |_, of| {
            let tolerance = SAME * of[1].mean.abs();
            vec![Check::new("10% and 20%", Comparison::Same { difference: of[2], tolerance })]
        },
        why: why_used,
    },
    Row {
        claim: ["gridsim/utilisation-non-restartable", USED, "lower"],
        statement: "Utilisation is lower for jobs that cannot be restarted, because their slots are too long.",
        rule: "the mean of the five resources is lower than with restartable jobs, with 10% and with 20%, seed by seed",
        measure: |results| compared(results, mean_of_sites(utilisation), &KINDS, [(1, 0), (3, 2)]),
        ours: |_, of| against(means(of), "%"),
        checks: |_, of| {
            vec![
                Check::positive("non-restartable below restartable with 10%", of[4]),
                Check::positive("non-restartable below restartable with 20%", of[5]),
            ]
        },
        why: why_used,
    },
    Row {
        claim: ["gridsim/rejections-share", REJECTED, "higher with 20% than with 10%"],
        statement: "The more reservations are requested, the more are rejected.",
        rule: "more rejections with 20% than with 10%, for both kinds of jobs, seed by seed",
        measure: |results| compared(results, all(rejections), &SHORT_AND_LONG, [(1, 0), (3, 2)]),
        ours: |_, of| {
            let [ten, twenty, long_ten, long_twenty] = means(of);
            format!("{ten:.0} and {twenty:.0} restartable, {long_ten:.0} and {long_twenty:.0} not")
        },
        checks: |_, of| {
            vec![
                Check::positive("20% above 10%, restartable", of[4]),
                Check::positive("20% above 10%, non-restartable", of[5]),
            ]
        },
        why: why_rejected,
    },
    Row {
        claim: ["gridsim/rejections-non-restartable", REJECTED, "higher for non-restartable jobs"],
        statement: "Jobs that cannot be restarted are rejected more often, because they request longer slots.",
        rule: "more rejections than for restartable jobs, with 10% and with 20%, seed by seed",
        measure: |results| compared(results, all(rejections), &SHORT_AND_LONG, [(2, 0), (3, 1)]),
        ours: |_, of| {
            let [ten, twenty, long_ten, long_twenty] = means(of);
            against([long_ten, ten, long_twenty, twenty], "")
        },
        checks: |_, of| {
            vec![
                Check::positive("non-restartable above restartable with 10%", of[4]),
                Check::positive("non-restartable above restartable with 20%", of[5]),
            ]
        },
        why: why_rejected,
    },
    Row {
        claim: ["gridsim/parallel-reservations", PARALLEL, "lowest without reservations"],
        statement: "The parts of parallel jobs run together more often with a reservation.",
        rule: "a larger share of the jobs that request a reservation succeeds, with 10% and with 20%, than of all jobs \
               without reservations, seed by seed",
        measure: |results| parallel(results),
        ours: parallel_text,
        checks: |_, of| {
            vec![Check::positive("10% above none", of[3]), Check::positive("20% above none", of[4])]
        },
        why: why_parallel,
    },
    Row {
        claim: ["gridsim/parallel-competition", PARALLEL, "10% better than 20%"],
        statement: "With 10% reservations they succeed more often than with 20%, because of less competition.",
        rule: "of the jobs that request a reservation, a larger share succeeds with 10% than with 20%, seed by seed",
        measure: |results| parallel(results),
        ours: parallel_text,
        checks: |_, of| vec![Check::positive("10% above 20%", of[5])],
        why: why_parallel,
    },
];

const AHEAD_AND_NOW: [(&str, Case); 4] = [
    ("advance with 10%, minutes", TEN),
    ("immediate with 10%, minutes", Case::immediate(10)),
    ("advance with 20%, minutes", TWENTY),
    ("immediate with 20%, minutes", Case::immediate(20)),
];

const KINDS: [(&str, Case); 4] = [
    ("10%, non-restartable", LONG_TEN),
    ("10%, restartable", TEN),
    ("20%, non-restartable", LONG_TWENTY),
    ("20%, restartable", TWENTY),
];

const SHORT_AND_LONG: [(&str, Case); 4] = [KINDS[1], KINDS[3], KINDS[0], KINDS[2]];

/// A measure of named cases, and of pairs of them the first less the second, seed by seed: all cases of a seed have the
/// same jobs.
fn compared<const N: usize>(
    results: &[Results],
    number: impl Fn(&[Measures]) -> f64,
    cases: &[(&str, Case)],
    pairs: [(usize, usize); N],
) -> Measured {
    let mut measured = measure(results, &number, cases);
    measured.extend(pairs.map(|(one, other)| {
        let ((one, case), (other, base)) = (cases[one], cases[other]);
        (format!("{one} less {other}"), results[0].against(case, base, &number, |one, other| one - other))
    }));
    measured
}

/// A measure of named cases, with our own choices.
fn measure(results: &[Results], number: impl Fn(&[Measures]) -> f64, cases: &[(&str, Case)]) -> Measured {
    cases.iter().map(|&(name, case)| (name.to_owned(), results[0].of(case, &number))).collect()
}

/// Growth of the mean waiting time over that without reservations, in percent.
fn growth(results: &[Results], cases: &[(&str, Case)]) -> Measured {
    let growth = |case| results[0].against(case, NONE, all(wait), percent_above);
    cases.iter().map(|&(name, case)| (name.to_owned(), growth(case))).collect()
}

/// Success of all jobs without reservations, and of those that request one with 10% and 20%; and the differences
/// between the three, seed by seed.
fn parallel(results: &[Results]) -> Measured {
    let none = results[0].per_seed(Case::parallel(0), all(success));
    let [ten, twenty] =
        [10, 20].map(|share| results[0].per_seed(Case::parallel(share), all(reserved_success)));
    let less = |one: &[f64], other: &[f64]| -> Vec<f64> {
        one.iter().zip(other).map(|(one, other)| one - other).collect()
    };
    let measured = |name: &str, values: &[f64]| (name.to_owned(), Estimate::of(values));
    vec![
        measured("jobs without reservations, %", &none),
        measured("reservations of 10%, %", &ten),
        measured("reservations of 20%, %", &twenty),
        measured("10% less none", &less(&ten, &none)),
        measured("20% less none", &less(&twenty, &none)),
        measured("10% less 20%", &less(&ten, &twenty)),
    ]
}

fn means<const N: usize>(figures: &[Estimate]) -> [f64; N] {
    std::array::from_fn(|at| figures[at].mean)
}

/// Two values with 10% and two with 20%.
fn against([a, b, c, d]: [f64; 4], unit: &str) -> String {
    format!("{a:.0}{unit} against {b:.0}{unit} with 10%, {c:.0}{unit} against {d:.0}{unit} with 20%")
}

fn parallel_text(_: &[Results], figures: &[Estimate]) -> String {
    let [none, ten, twenty] = means(figures);
    format!("{none:.1}% without, {ten:.1}% with 10%, {twenty:.1}% with 20%")
}

fn mean(results: &Results, case: Case, number: fn(&Measures) -> f64) -> f64 {
    results.of(case, all(number)).mean
}

fn mean_used(results: &Results, case: Case) -> f64 {
    results.of(case, mean_of_sites(utilisation)).mean
}

fn overload() -> String {
    format!(
        "With the printed set-up, work arrives {:.0} times as fast as the resources can process it",
        CHOICES.overload()
    )
}

/// A sentence about the alternative with a lighter load; empty if it was not run.
fn lighter(results: &[Results], text: impl FnOnce(&Results) -> String) -> String {
    let at = ALTERNATIVES.iter().position(|(_, choices)| choices.per_hour < CHOICES.per_hour);
    // Results begin with our own choices. A quick run has no others, and then nothing is said about them.
    let text = at.and_then(|at| results.get(at + 1)).map(text);
    let text = text.map(|text| {
        format!(". With a load that the five resources can process (other choices, below) {text}")
    });
    text.unwrap_or_default()
}

/// A sentence about Algorithm 1 as printed; empty if it was not run.
fn as_printed(results: &[Results], text: impl FnOnce(&Results) -> String) -> String {
    let at = ALTERNATIVES.iter().position(|(_, choices)| choices.counted != CHOICES.counted);
    let text = at.and_then(|at| results.get(at + 1)).map(text);
    text.map(|text| format!(". With Algorithm 1 as printed {text}")).unwrap_or_default()
}

fn why_waiting(results: &[Results], _: &[Estimate]) -> String {
    let ours = &results[0];
    let lighter = lighter(results, |lighter| {
        let growth = |case| lighter.against(case, NONE, all(wait), percent_above).mean;
        let [ten, twenty] = [TEN, TWENTY].map(growth);
        format!("the growth is {ten:+.0}% and {twenty:+.0}%")
    });
    let printed = as_printed(results, |printed| {
        let growth = |case| printed.against(case, NONE, all(wait), percent_above).mean;
        format!("the growth is {:+.0}% and {:+.0}%", growth(TEN), growth(TWENTY))
    });
    format!(
        "{}: the wait, {:.0} minutes without reservations, is the time to drain a backlog. Jobs that run first then \
         lengthen the mean wait of the others by about their own share, and only {:.1}% and {:.1}% of the jobs get a \
         reservation if 10 and 20% request one; CPUs that stay idle for them cost little ({:.0}% of the CPU time is \
         used){printed}{lighter}",
        overload(),
        mean(ours, NONE, wait),
        mean(ours, TEN, booked),
        mean(ours, TWENTY, booked),
        mean_used(ours, TWENTY),
    )
}

fn why_offset(results: &[Results], _: &[Estimate]) -> String {
    let ours = &results[0];
    let lighter = lighter(results, |lighter| {
        format!("it is {:.0} and {:.0} minutes", mean(lighter, TEN, offset), mean(lighter, TWENTY, offset))
    });
    let printed = as_printed(results, |printed| {
        format!("it is {:.0} and {:.0} minutes", mean(printed, TEN, offset), mean(printed, TWENTY, offset))
    });
    format!(
        "{}, and reservations alone need more than R0, R3 and R4 have: {:.0}% and {:.0}% of the requested ones are granted, \
         after {:.1} and {:.1} rejections for each. The offset then depends on how long users retry (here up to {} \
         minutes) and how far ahead they book, neither of which the paper states{printed}{lighter}",
        overload(),
        mean(ours, TEN, granted),
        mean(ours, TWENTY, granted),
        mean(ours, TEN, rejections_each),
        mean(ours, TWENTY, rejections_each),
        HINT_LIMIT.0 / 60,
    )
}

fn why_used(results: &[Results], _: &[Estimate]) -> String {
    let used = |results: &Results| [NONE, TWENTY, LONG_TWENTY].map(|case| mean_used(results, case));
    let lighter = lighter(results, |lighter| {
        let [none, twenty, long] = used(lighter);
        format!("it is {none:.0}%, {twenty:.0}% and {long:.0}%")
    });
    let [none, twenty, long] = used(&results[0]);
    format!(
        "{}, so that CPUs are rarely idle: {none:.0}% of their time is used without reservations. Idle time before \
         reservations, where the next job does not fit, leaves {twenty:.0}%, and slots that are too long leave \
         {long:.0}%{lighter}",
        overload(),
    )
}

fn why_rejected(_: &[Results], figures: &[Estimate]) -> String {
    let [ten, twenty, long_ten, long_twenty] = means(figures);
    format!(
        "{ten:.0} and {twenty:.0} requests for restartable jobs are rejected, {long_ten:.0} and {long_twenty:.0} for \
         others: too few to compare"
    )
}

fn why_parallel(results: &[Results], figures: &[Estimate]) -> String {
    let [ten, twenty] = [10, 20].map(|share| mean(&results[0], Case::parallel(share), granted));
    format!(
        "{ten:.0}% and {twenty:.0}% of the requested reservations for parallel jobs are granted, and {:.1}% of the jobs \
         get four CPUs at once without one",
        figures[0].mean,
    )
}
