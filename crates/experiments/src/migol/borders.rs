//! Examples on both sides of the borders of the rules of judgement. Only tests.

use super::claims::{OF_COSTS, OF_ESTIMATES, OF_TIMES};
use super::costs::{Costs, Way};
use super::samples::{At, Results, Sample};
use super::sites::Cost;
use crate::Estimate;
use crate::Verdict::{self, DirectionOnly, NotReproduced, Reproduced};
use crate::claim::borders;
use bookahead_plan::Seconds;

/// Estimates with this accuracy, in percent, of waits of 10,000 s.
fn accurate(percent: impl Fn(At, usize) -> i64) -> Results {
    Results::made(|at, drawing| {
        let estimated = Seconds(10_000 + 100 * (100 - percent(at, drawing)));
        Sample { estimated: [estimated; 2], real: Seconds(10_000) }
    })
}

#[test]
fn accuracy_falls_in_every_case_and_from_each_wall_time_to_the_next() {
    let falls = (&OF_ESTIMATES[..], "migol/accuracy-falls");
    let means = [80, 70, 60, 50, 40];
    borders::assert_judged(falls, &accurate(|at, _| means[at.wall_time]), Reproduced);
    let rises_once = [80, 70, 75, 50, 40];
    borders::assert_judged(falls, &accurate(|at, _| rises_once[at.wall_time]), DirectionOnly);
    let spread = |at: At, drawing: usize| means[at.wall_time] + 10 * drawing as i64;
    borders::assert_judged(falls, &accurate(spread), DirectionOnly);
    let one_case = |at: At, _| if (at.test_job, at.workload) == (1, 2) { 40 } else { means[at.wall_time] };
    borders::assert_judged(falls, &accurate(one_case), NotReproduced);
}

#[track_caller]
fn assert_verdict(id: &str, figures: &[(f64, f64)], expected: Verdict) {
    borders::assert_verdict((&OF_ESTIMATES, id), &accurate(|_, _| 50), figures, expected);
}

#[test]
fn small_jobs_are_the_least_predictable_under_the_first_workload() {
    // The margin of each difference is 1.4.
    let small = "migol/backfilling-small-jobs";
    assert_verdict(small, &[(30.0, 1.0), (31.5, 1.0), (40.0, 1.0)], Reproduced);
    assert_verdict(small, &[(30.0, 1.0), (31.4, 1.0), (40.0, 1.0)], DirectionOnly);
    assert_verdict(small, &[(30.0, 1.0), (30.0, 1.0), (40.0, 1.0)], NotReproduced);
}

#[test]
fn rankings_are_compared_with_the_paper_s_numbers() {
    let total = "migol/ranking-total";
    assert_verdict(total, &[(76.0, 1.0)], Reproduced);
    assert_verdict(total, &[(76.1, 1.0)], DirectionOnly);
    assert_verdict(total, &[(50.0, 1.0)], NotReproduced);
    let worst = "migol/ranking-at-150";
    assert_verdict(worst, &[(61.1, 1.0)], Reproduced);
    assert_verdict(worst, &[(61.0, 1.0)], DirectionOnly);
    assert_verdict(worst, &[(60.0, 1.0)], NotReproduced);
}

#[test]
fn four_times_the_reservations_take_twice_the_time() {
    let scaling = (&OF_TIMES[..], "migol/scaling");
    for (few, many, expected) in [
        ((10.0, 0.1), (25.0, 0.1), Reproduced),
        ((10.0, 0.1), (26.0, 0.1), DirectionOnly),
        ((10.0, 2.0), (11.0, 2.0), DirectionOnly),
        ((10.0, 0.1), (10.0, 0.1), NotReproduced),
        // A clock that is too coarse.
        ((0.0, 0.0), (0.0, 0.0), NotReproduced),
    ] {
        borders::assert_verdict(scaling, &[][..], &[few, many], expected);
    }
}

fn costs(calls: [usize; 3]) -> Costs {
    let way = |calls| Way { cost: Cost { calls, rounds: calls }, computing: Estimate::exact(1.0) };
    let [reservation, best_of_three, of_a_hundred] = calls.map(way);
    Costs { reservation, best_of_three, of_a_hundred, flooding: 0 }
}

#[test]
fn the_broker_takes_longer_and_more_calls_and_no_more_in_a_larger_grid() {
    let more = (&OF_COSTS[..], "migol/broker-costs-more");
    for (calls, longest, expected) in [
        ([2, 6, 6], 11.5, Reproduced),
        ([2, 6, 6], 11.4, DirectionOnly),
        ([2, 6, 6], 10.0, NotReproduced),
        ([6, 6, 6], 11.5, NotReproduced),
    ] {
        borders::assert_verdict(more, &costs(calls), &[(10.0, 1.0), (longest, 1.0)], expected);
    }
    let bound = (&OF_COSTS[..], "migol/bound-to-three");
    borders::assert_verdict(bound, &costs([2, 6, 6]), &[], Reproduced);
    borders::assert_verdict(bound, &costs([2, 6, 7]), &[], NotReproduced);
}
