//! Claims of the Migol paper beside our results. The rules were written before the first run. The paper prints its
//! accuracies only as curves, so those claims are about directions.

use super::costs::{Costs, Point};
use super::samples::{AS_IN_PAPER, Chooser, Decision, Results};
use super::setup::{SMALL, TEST_JOBS, WALL_TIMES, WORKLOADS};
use crate::{Claim, Estimate};

/// Index of the paper's estimator in [`super::samples::Estimator::ALL`].
pub(super) const PAPER: usize = 0;
/// Index of the longest wall time, 150%.
const WORST: usize = WALL_TIMES.len() - 1;

pub(super) fn claims(results: &Results, points: &[Point], costs: Option<&Costs>) -> Vec<Claim> {
    let mut claims = vec![
        accuracy_falls(results),
        backfilling(results),
        ranked_right(results),
        ranked_right_at_worst(results),
        twice_the_time(points),
    ];
    claims.extend(costs.map(broker_costs_more));
    claims.extend(costs.map(bound_to_three));
    claims
}

fn accuracy_falls(results: &Results) -> Claim {
    let (mut measured, mut falls) = (Vec::new(), true);
    for (job, test) in TEST_JOBS.iter().enumerate() {
        for (load, workload) in WORKLOADS.iter().enumerate() {
            let at = |wall: usize| {
                results.accuracy(PAPER, |at| (at.test_job, at.workload, at.wall_time) == (job, load, wall))
            };
            let (first, last) = (at(0), at(WORST));
            falls &= last.mean < first.mean;
            let name = |wall: usize| format!("{} job, {}, {}%", test.name, workload.name, WALL_TIMES[wall]);
            measured.extend([(name(0), first), (name(WORST), last)]);
        }
    }
    let overall: Vec<Estimate> =
        (0..WALL_TIMES.len()).map(|wall| results.accuracy(PAPER, |at| at.wall_time == wall)).collect();
    let steps = overall.windows(2).all(|pair| pair[1].mean < pair[0].mean);
    let shown: Vec<String> =
        WALL_TIMES.iter().zip(&overall).map(|(wall, mean)| format!("{}% at {wall}%", mean.show(1))).collect();
    Claim::new("migol/accuracy-falls", "section IV.D, Figure 7", "falls (curves without numbers)")
        .says("the more the wall time differs from the actual run time, the less accurate is the estimation")
        .ours(format!("mean accuracy {}", shown.join(", ")), measured)
        .judged(
            "for both test jobs and all three workloads the mean accuracy is lower at 150% than at 110%, \
             and over all of them it falls from each wall time to the next",
            falls && steps,
            || "if a workload drains fast, an estimate is as inaccurate at short wall times as at long ones",
        )
}

fn backfilling(results: &Results) -> Claim {
    let of = |load: usize| results.accuracy(PAPER, |at| at.is_small() && at.workload == load);
    let means: Vec<Estimate> = (0..WORKLOADS.len()).map(of).collect();
    let reproduced = means[1..].iter().all(|other| means[0].mean < other.mean);
    let shown: Vec<String> = WORKLOADS
        .iter()
        .zip(&means)
        .map(|(workload, mean)| format!("{} {}%", workload.name, mean.show(1)))
        .collect();
    let wait = |load: usize| results.wait(None, |at| at.is_small() && at.workload == load).mean;
    // Without margins (one drawing) any difference counts, because nothing else is known about it.
    let apart = |other: &Estimate| {
        (other.mean - means[0].mean).abs() > other.margin.unwrap_or(0.0) + means[0].margin.unwrap_or(0.0)
    };
    let told = if means[1..].iter().all(apart) { "" } else { "some intervals overlap; " };
    let why = || {
        format!(
            "{told}the small job waits {:.0} min on average under W1, {:.0} under W2 and {:.0} under W3, \
             and formula (8) measures an error relative to the wait, so that longer waits make it smaller; \
             the workloads of the paper are not printed",
            wait(0),
            wait(1),
            wait(2)
        )
    };
    Claim::new(
        "migol/backfilling-small-jobs",
        "section IV.D, Figure 7b",
        "W1 is the least accurate for small jobs (curves without numbers)",
    )
    .says(
        "under W1, whose long jobs fragment the cluster, backfilling makes the start of small jobs less \
         predictable",
    )
    .ours(
        format!("mean accuracy for the {} job: {}", TEST_JOBS[SMALL].name, shown.join(", ")),
        WORKLOADS.iter().map(|workload| workload.name.to_owned()).zip(means).collect(),
    )
    .judged(
        "for the small test job the mean accuracy over all wall times is lower under W1 than under W2 and \
         under W3",
        reproduced,
        why,
    )
}

fn ranked_right(results: &Results) -> Claim {
    let by_estimate = |wanted: &dyn Fn(&Decision) -> bool| {
        results.ranked_right(Chooser::Estimate(PAPER), AS_IN_PAPER, wanted)
    };
    let all = by_estimate(&|_| true);
    let blind = results.ranked_right(Chooser::AlwaysSecond, AS_IN_PAPER, |_| true);
    let per_wall = (0..WALL_TIMES.len()).map(|wall| {
        let right = by_estimate(&|decision| decision.wall_time() == wall);
        (format!("{}%", WALL_TIMES[wall]), right)
    });
    Claim::new("migol/ranking-total", "section V", "75%")
        .says("in total, the rankings of two clusters by estimates are correct in 75% of all cases")
        .ours(
            format!(
                "{}%; always choosing Highland, which is twice as large, would be right in {}%",
                all.show(1),
                blind.show(1)
            ),
            [("all".to_owned(), all), ("always Highland".to_owned(), blind)]
                .into_iter()
                .chain(per_wall)
                .collect(),
        )
        .judged(
            "at least 75% of all decisions are right, without those where both clusters start at the same \
             time",
            all.mean >= 75.0,
            || "fewer decisions are right than in the paper",
        )
}

fn ranked_right_at_worst(results: &Results) -> Claim {
    let at_worst = |decision: &Decision| decision.wall_time() == WORST;
    let right = results.ranked_right(Chooser::Estimate(PAPER), AS_IN_PAPER, at_worst);
    Claim::new("migol/ranking-at-150", "section V", "more than 60%")
        .says(
            "even if wall times are 50% longer than run times, the right cluster is chosen for more than \
             60% of all jobs",
        )
        .ours(format!("{}%", right.show(1)), vec![("150%".to_owned(), right)])
        .judged(
            "more than 60% of the decisions at wall times of 150% are right",
            right.mean > 60.0,
            || "at this deviation the choice is hardly better than random",
        )
}

fn twice_the_time(points: &[Point]) -> Claim {
    let time = |count: usize| {
        let found = points.iter().find(|point| point.reservations == count);
        found.map_or(0.0, |point| point.best_of_three)
    };
    let (few, many) = (time(175), time(700));
    // A coarse clock may measure a time of zero.
    let ratio = if few > 0.0 { many / few } else { 0.0 };
    let single = |value: f64| Estimate { mean: value, margin: None, runs: 1 };
    Claim::new("migol/scaling", "section IV.C, Figure 6", "twice, from 175 to 700 reservations")
        .says("with four times the active reservations, submitting a job takes only twice as long")
        .ours(
            format!("{ratio:.2} times: {few:.0} µs and {many:.0} µs of computing, measured on this machine"),
            vec![("µs at 175".to_owned(), single(few)), ("µs at 700".to_owned(), single(many))],
        )
        .judged(
            "the best of three takes at most twice the computing time with 700 reservations at each site \
             that it takes with 175 (the median of many measurements)",
            few > 0.0 && ratio <= 2.0,
            || "measured times vary from run to run; see the table",
        )
}

fn broker_costs_more(costs: &Costs) -> Claim {
    let (one, three) = (costs.reservation.cost, costs.best_of_three.cost);
    Claim::new("migol/broker-costs-more", "section IV.B, Figure 5", "reservation 13.7 s, job broker more")
        .says(
            "submitting through the job broker costs more than a reservation, because it makes several \
             reservations")
        .ours(format!(
            "{} calls against {}, in {} and {} sequential round trips, because the holds are requested at the \
             same time",
            three.calls, one.calls, three.rounds, one.rounds
        ), Vec::new())
        .judged(
            "the best of three takes more calls than one reservation",
            three.calls > one.calls,
            || "the best of three takes no more calls",
        )
}

fn bound_to_three(costs: &Costs) -> Claim {
    let (few, many) = (costs.best_of_three.cost, costs.of_a_hundred.cost);
    Claim::new("migol/bound-to-three", "section IV.C", "expected, not measured")
        .says("because at most three sites get reservation requests, the job broker scales to larger grids")
        .ours(format!("{} calls with 3 sites, {} with 100", few.calls, many.calls), Vec::new())
        .judged(
            "the best of three takes as many calls and round trips in a grid of a hundred sites as in one \
             of three",
            few == many,
            || "the number of sites changes the number of calls",
        )
}
