//! Examples on both sides of the borders of the rules of judgement. Only tests.

use super::claims::CLAIMS;
use crate::Verdict;
use crate::claim::borders;
use Verdict::{DirectionOnly, NotReproduced, Reproduced};

#[track_caller]
fn assert_verdict(id: &str, figures: &[(f64, f64)], expected: Verdict) {
    borders::assert_verdict((&CLAIMS, id), &[], figures, expected);
}

#[test]
fn numbers_are_compared_with_those_of_the_paper() {
    // Paper: +20% and +71%, 48 and 62 minutes.
    assert_verdict("gridsim/waiting-10", &[(21.0, 1.0)], Reproduced);
    assert_verdict("gridsim/waiting-10", &[(21.1, 1.0)], DirectionOnly);
    assert_verdict("gridsim/waiting-10", &[(40.0, 21.0)], DirectionOnly);
    assert_verdict("gridsim/waiting-10", &[(-1.0, 30.0)], NotReproduced);
    assert_verdict("gridsim/waiting-20", &[(70.5, 0.1)], Reproduced);
    assert_verdict("gridsim/waiting-20", &[(70.4, 0.1)], DirectionOnly);
    assert_verdict("gridsim/offset-10", &[(50.0, 2.0)], Reproduced);
    assert_verdict("gridsim/offset-10", &[(50.1, 2.0)], NotReproduced);
    assert_verdict("gridsim/offset-20", &[(56.0, 6.0)], Reproduced);
    assert_verdict("gridsim/offset-20", &[(55.7, 7.0)], NotReproduced);
}

#[test]
fn growth_needs_its_whole_interval() {
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (9.0, 1.0), (3.0, 1.0)], Reproduced);
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (9.0, 10.0), (3.0, 1.0)], DirectionOnly);
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (4.0, 1.0), (-2.0, 1.0)], DirectionOnly);
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (-4.0, 1.0), (-9.0, 1.0)], NotReproduced);
    assert_verdict("gridsim/offset-grows", &[(48.0, 1.0), (62.0, 1.0), (28.0, 1.0)], Reproduced);
    assert_verdict("gridsim/offset-grows", &[(48.0, 1.0), (50.0, 1.0), (4.0, 1.0)], DirectionOnly);
    assert_verdict("gridsim/offset-grows", &[(48.0, 1.0), (47.0, 1.0), (-2.0, 1.0)], NotReproduced);
}

#[test]
fn utilisation_must_drop_into_the_range() {
    assert_verdict(
        "gridsim/utilisation-range",
        &[(95.0, 1.0), (80.0, 1.0), (60.0, 1.0), (15.0, 1.0), (35.0, 1.0)],
        Reproduced,
    );
    assert_verdict(
        "gridsim/utilisation-range",
        &[(95.0, 1.0), (81.1, 1.0), (60.0, 1.0), (13.9, 1.0), (35.0, 1.0)],
        DirectionOnly,
    );
    assert_verdict(
        "gridsim/utilisation-range",
        &[(70.0, 1.0), (70.0, 1.0), (70.0, 1.0), (0.0, 1.0), (0.0, 1.0)],
        NotReproduced,
    );
    assert_verdict("gridsim/utilisation-restartable", &[(96.0, 9.0), (92.0, 9.0), (4.0, 0.6)], Reproduced);
    assert_verdict("gridsim/utilisation-restartable", &[(96.0, 9.0), (92.0, 9.0), (4.0, 0.7)], DirectionOnly);
    assert_verdict("gridsim/utilisation-restartable", &[(97.0, 9.0), (92.0, 9.0), (5.0, 0.7)], NotReproduced);
}

#[test]
fn orders_are_judged_on_the_differences_of_the_seeds() {
    // Four values, whose intervals overlap, and the differences of two pairs of them.
    for id in [
        "gridsim/offset-advance",
        "gridsim/utilisation-non-restartable",
        "gridsim/rejections-share",
        "gridsim/rejections-non-restartable",
    ] {
        for (first, second, expected) in [
            ((1.0, 0.9), (2.0, 1.9), Reproduced),
            ((1.0, 0.9), (2.0, 2.0), DirectionOnly),
            ((0.0, 0.0), (2.0, 1.9), NotReproduced),
            ((1.0, 0.9), (-0.1, 1.9), NotReproduced),
        ] {
            let values = [(50.0, 99.0); 4];
            assert_verdict(id, &[&values[..], &[first, second]].concat(), expected);
        }
    }
}

#[test]
fn parallel_jobs_succeed_more_often_with_a_reservation_and_with_less_competition() {
    let values = [(1.0, 9.0), (70.0, 9.0), (60.0, 9.0)];
    for (ten, twenty, between, more, less_competition) in [
        ((69.0, 1.0), (59.0, 1.0), (10.0, 9.9), Reproduced, Reproduced),
        ((69.0, 1.0), (59.0, 60.0), (10.0, 10.0), DirectionOnly, DirectionOnly),
        ((69.0, 1.0), (-1.0, 0.5), (-0.1, 0.0), NotReproduced, NotReproduced),
    ] {
        let figures = [&values[..], &[ten, twenty, between]].concat();
        assert_verdict("gridsim/parallel-reservations", &figures, more);
        assert_verdict("gridsim/parallel-competition", &figures, less_competition);
    }
}
