//! Claims of the Migol paper beside our results. The paper prints its accuracies only as curves, so those
//! claims are about directions.

use super::costs::{Costs, Point};
use super::samples::{AS_IN_PAPER, At, Chooser, Decision, Results};
use super::setup::{SMALL, TEST_JOBS, WALL_TIMES, WORKLOADS, Workload};
use crate::check::{Check, printed};
use crate::claim::{Row, judge};
use crate::{Claim, Estimate};

/// Index of the paper's estimator in [`super::samples::Estimator::ALL`].
pub(super) const PAPER: usize = 0;
/// Index of the longest wall time, 150%.
const WORST: usize = WALL_TIMES.len() - 1;

pub(super) fn claims(results: &Results, points: &[Point], costs: Option<&Costs>) -> Vec<Claim> {
    let costs = costs.map(|costs| judge(&OF_COSTS, costs));
    [judge(&OF_ESTIMATES, results), judge(&OF_TIMES, points), costs.unwrap_or_default()].concat()
}

pub(super) const OF_ESTIMATES: [Row<Results>; 4] = [
    Row {
        claim: ["migol/accuracy-falls", "section IV.D, Figure 7", "falls (curves without numbers)"],
        statement: "the more the wall time differs from the actual run time, the less accurate is the estimation",
        rule: "for both test jobs and all three workloads the mean accuracy is lower at 150% than at 110%, and over \
               all of them it falls from each wall time to the next",
        measure: |results| {
            let mut ends = Vec::new();
            for (job, test) in TEST_JOBS.iter().enumerate() {
                for (load, workload) in WORKLOADS.iter().enumerate() {
                    ends.extend([0, WORST].map(|wall| {
                        let case = (job, load, wall);
                        let name = format!("{} job, {}, {}%", test.name, workload.name, WALL_TIMES[wall]);
                        let here = |at: &At| (at.test_job, at.workload, at.wall_time) == case;
                        (name, results.accuracy(PAPER, here))
                    }));
                }
            }
            ends
        },
        ours: |results, _| {
            let shown = WALL_TIMES.iter().zip(by_wall_time(results));
            let shown: Vec<_> = shown.map(|(wall, mean)| format!("{}% at {wall}%", mean.show(1))).collect();
            format!("mean accuracy {}", shown.join(", "))
        },
        checks: |results, ends| {
            let cases =
                TEST_JOBS.iter().flat_map(|job| WORKLOADS.iter().map(move |load| (job.name, load.name)));
            let falls = |((job, load), pair): ((&str, &str), &[Estimate])| {
                Check::below(format!("{job} job, {load}, 150% below 110%"), pair[1], pair[0])
            };
            let mut checks: Vec<Check> = cases.zip(ends.chunks(2)).map(falls).collect();
            checks.push(Check::falling("mean of all, by wall time", &by_wall_time(results)));
            checks
        },
        why: |_, _| {
            "if a workload drains fast, an estimate is as inaccurate at short wall times as at long ones"
                .into()
        },
    },
    Row {
        claim: [
            "migol/backfilling-small-jobs",
            "section IV.D, Figure 7b",
            "W1 is the least accurate for small jobs (curves without numbers)",
        ],
        statement: "under W1, whose long jobs fragment the cluster, backfilling makes the start of small jobs less \
                    predictable",
        rule: "for the small test job the mean accuracy over all wall times is lower under W1 than under W2 and under \
               W3",
        measure: |results| {
            let of = |load: usize| results.accuracy(PAPER, |at| at.is_small() && at.workload == load);
            WORKLOADS.iter().zip(0..).map(|(workload, load)| (workload.name.to_owned(), of(load))).collect()
        },
        ours: |_, means| {
            let shown = WORKLOADS.iter().zip(means);
            let shown: Vec<_> =
                shown.map(|(load, mean)| format!("{} {}%", load.name, mean.show(1))).collect();
            format!("mean accuracy for the {} job: {}", TEST_JOBS[SMALL].name, shown.join(", "))
        },
        checks: |_, means| {
            let others = WORKLOADS.iter().zip(means).skip(1);
            let lower = |(load, other): (&Workload, &Estimate)| {
                Check::below(format!("W1 below {}", load.name), means[0], *other)
            };
            others.map(lower).collect()
        },
        why: why_backfilling,
    },
    Row {
        claim: ["migol/ranking-total", "section V", "75%"],
        statement: "in total, the rankings of two clusters by estimates are correct in 75% of all cases",
        rule: "the share of right decisions, without those where both clusters start at the same time; and it is more \
               than by chance",
        measure: |results| {
            let by_estimate = |wanted: &dyn Fn(&Decision) -> bool| {
                results.ranked_right(Chooser::Estimate(PAPER), AS_IN_PAPER, wanted)
            };
            let blind = results.ranked_right(Chooser::AlwaysSecond, AS_IN_PAPER, |_| true);
            let all = [("all".to_owned(), by_estimate(&|_| true)), ("always Highland".to_owned(), blind)];
            let per_wall = (0..WALL_TIMES.len()).map(|wall| {
                let right = by_estimate(&|decision| decision.wall_time() == wall);
                (format!("{}%", WALL_TIMES[wall]), right)
            });
            all.into_iter().chain(per_wall).collect()
        },
        ours: |_, right| {
            format!(
                "{}%; always choosing Highland, which is twice as large, would be right in {}%",
                right[0].show(1),
                right[1].show(1)
            )
        },
        checks: |_, right| {
            vec![
                Check::number("right decisions", right[0], printed(75.0, 1.0)),
                Check::above("more than by chance", right[0], 50.0),
            ]
        },
        why: |_, right| {
            format!(
                "our workloads are easier to rank than the paper's, which are not printed: always choosing Highland \
                 would be right in {}%",
                right[1].show(1)
            )
        },
    },
    Row {
        claim: ["migol/ranking-at-150", "section V", "more than 60%"],
        statement: "even if wall times are 50% longer than run times, the right cluster is chosen for more than 60% \
                    of all jobs",
        rule: "more than 60% of the decisions at wall times of 150% are right",
        measure: |results| {
            let at_worst = |decision: &Decision| decision.wall_time() == WORST;
            let right = results.ranked_right(Chooser::Estimate(PAPER), AS_IN_PAPER, at_worst);
            vec![("150%".to_owned(), right)]
        },
        ours: |_, right| format!("{}%", right[0].show(1)),
        checks: |_, right| vec![Check::above("more than 60%", right[0], 60.0)],
        why: |_, _| "at this deviation the choice is hardly better than random".into(),
    },
];

pub(super) const OF_TIMES: [Row<[Point]>; 1] = [Row {
    claim: ["migol/scaling", "section IV.C, Figure 6", "twice, from 175 to 700 reservations"],
    statement: "with four times the active reservations, submitting a job takes only twice as long",
    rule: "the ratio of the computing times of the best of three with 700 and with 175 reservations at each site (the \
           median of many measurements), and that it is above 1",
    measure: |points| {
        let time = |count: usize| {
            let found = points.iter().find(|point| point.reservations == count);
            let time = found.map_or(Estimate::of(&[]), |point| point.best_of_three);
            (format!("µs at {count}"), time)
        };
        vec![time(175), time(700)]
    },
    ours: |_, times| {
        let (ratio, few, many) = (ratio(times), times[0].show(1), times[1].show(1));
        format!("{} times: {few} µs and {many} µs of computing, measured on this machine", ratio.show(2))
    },
    checks: |_, times| {
        let ratio = ratio(times);
        vec![
            Check::number("ratio of the times", ratio, printed(2.0, 1.0)),
            Check::above("more with 700 than with 175", ratio, 1.0),
        ]
    },
    why: |points, _| {
        let lists = |count: usize| points.iter().find(|point| point.reservations == count);
        let grown = lists(175).zip(lists(700)).map(|(few, many)| ratio(&[few.estimate, many.estimate]));
        format!(
            "our ledgers keep their calendars between requests, so that the time hardly grows; an estimate from lists, \
             which the paper makes for every request, grows {} times",
            grown.unwrap_or(Estimate::of(&[])).show(1)
        )
    },
}];

pub(super) const OF_COSTS: [Row<Costs>; 2] = [
    Row {
        claim: ["migol/broker-costs-more", "section IV.B, Figure 5", "reservation 13.7 s, job broker more"],
        statement: "submitting through the job broker costs more than a reservation, because it makes several \
                    reservations",
        rule: "the measured time of the best of three is longer than that of one reservation, and it takes more calls",
        measure: |costs| {
            let ways = [("reservation, µs", costs.reservation), ("best of three, µs", costs.best_of_three)];
            ways.map(|(name, way)| (name.to_owned(), way.computing)).into()
        },
        ours: |costs, times| {
            let (one, three) = (costs.reservation.cost, costs.best_of_three.cost);
            format!(
                "{} µs against {} µs, without network and batch system, in {} calls against {}; {} and {} sequential \
                 round trips, because the holds are requested at the same time",
                times[1].show(1),
                times[0].show(1),
                three.calls,
                one.calls,
                three.rounds,
                one.rounds
            )
        },
        checks: |costs, times| {
            let [one, three] = [&costs.reservation, &costs.best_of_three].map(|one| one.cost.calls as f64);
            vec![Check::above("longer", times[1], times[0]), Check::above("more calls", three, one)]
        },
        why: |_, _| "the best of three takes no longer, or no more calls".into(),
    },
    Row {
        claim: ["migol/bound-to-three", "section IV.C", "expected, not measured"],
        statement: "because at most three sites get reservation requests, the job broker scales to larger grids",
        rule: "the best of three takes as many calls and round trips in a grid of a hundred sites as in one of three",
        measure: |_| Vec::new(),
        ours: |costs, _| {
            let (few, many) = (costs.best_of_three.cost, costs.of_a_hundred.cost);
            let [three, hundred] = [costs.best_of_three, costs.of_a_hundred].map(|way| way.computing.show(1));
            format!(
                "{} calls with 3 sites, {} with 100; {three} µs and {hundred} µs, with the ranking of all sites",
                few.calls, many.calls
            )
        },
        checks: |costs, _| {
            let [few, many] = [&costs.best_of_three, &costs.of_a_hundred].map(|one| one.cost);
            vec![
                Check::same("calls", many.calls as f64, few.calls as f64),
                Check::same("round trips", many.rounds as f64, few.rounds as f64),
            ]
        },
        why: |_, _| "the number of sites changes the number of calls".into(),
    },
];

/// Mean accuracy over all test jobs and workloads, for each wall time.
fn by_wall_time(results: &Results) -> Vec<Estimate> {
    (0..WALL_TIMES.len()).map(|wall| results.accuracy(PAPER, |at| at.wall_time == wall)).collect()
}

fn why_backfilling(results: &Results, means: &[Estimate]) -> String {
    let wait = |load: usize| results.wait(None, |at| at.is_small() && at.workload == load).mean;
    // Without margins (one drawing) any difference counts, because nothing else is known about it.
    let apart = |other: &Estimate| {
        (other.mean - means[0].mean).abs() > other.margin.unwrap_or(0.0) + means[0].margin.unwrap_or(0.0)
    };
    let told = if means[1..].iter().all(apart) { "" } else { "some intervals overlap; " };
    format!(
        "{told}the small job waits {:.0} min on average under W1, {:.0} under W2 and {:.0} under W3, and formula (8) \
         measures an error relative to the wait, so that longer waits make it smaller; the workloads of the paper are \
         not printed",
        wait(0),
        wait(1),
        wait(2)
    )
}

/// How many times as long the second time is; nothing if a coarse clock has measured the first as zero.
fn ratio(times: &[Estimate]) -> Estimate {
    let (one, other) = (times[0], times[1]);
    if one.mean <= 0.0 || other.mean <= 0.0 {
        return Estimate::of(&[]);
    }
    let mean = other.mean / one.mean;
    // Relative errors of independent values add in squares.
    let relative = |time: Estimate| time.margin.map(|margin| margin / time.mean);
    let margin = relative(one).zip(relative(other)).map(|(a, b)| mean * a.hypot(b));
    Estimate { mean, margin, runs: one.runs.min(other.runs) }
}
