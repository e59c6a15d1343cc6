//! Examples on both sides of the borders of the rules of judgement. Only tests.

use super::claims::CLAIMS;
use crate::claim::verdict_with;
use crate::{Estimate, Verdict};
use Verdict::{DirectionOnly, NotReproduced, Reproduced};

/// Judges a claim on estimates, each a mean with its margin, and compares the verdict.
#[track_caller]
fn assert_verdict(id: &str, figures: &[(f64, f64)], expected: Verdict) {
    let of = |&(mean, margin): &(f64, f64)| Estimate { mean, margin: Some(margin), runs: 5 };
    let figures: Vec<Estimate> = figures.iter().map(of).collect();
    assert_eq!(verdict_with(&CLAIMS, id, &[], &figures), expected, "{id}: {figures:?}");
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
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (9.0, 1.0)], Reproduced);
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (9.0, 10.0)], DirectionOnly);
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (4.0, 1.0)], DirectionOnly);
    assert_verdict("gridsim/waiting-grows", &[(6.0, 1.0), (-4.0, 1.0)], NotReproduced);
    assert_verdict("gridsim/offset-grows", &[(48.0, 1.0), (62.0, 1.0), (28.0, 1.0)], Reproduced);
    assert_verdict("gridsim/offset-grows", &[(48.0, 1.0), (50.0, 1.0), (4.0, 1.0)], DirectionOnly);
    assert_verdict("gridsim/offset-grows", &[(48.0, 1.0), (47.0, 1.0), (-2.0, 1.0)], NotReproduced);
}

#[test]
fn utilisation_must_drop_into_the_range() {
    assert_verdict("gridsim/utilisation-range", &[(95.0, 1.0), (80.0, 1.0), (60.0, 1.0)], Reproduced);
    assert_verdict("gridsim/utilisation-range", &[(95.0, 1.0), (81.1, 1.0), (60.0, 1.0)], DirectionOnly);
    assert_verdict("gridsim/utilisation-range", &[(70.0, 1.0), (70.0, 1.0), (70.0, 1.0)], NotReproduced);
    assert_verdict("gridsim/utilisation-restartable", &[(96.0, 0.6), (92.0, 0.0)], Reproduced);
    assert_verdict("gridsim/utilisation-restartable", &[(96.0, 0.7), (92.0, 0.0)], DirectionOnly);
    assert_verdict("gridsim/utilisation-restartable", &[(97.0, 0.7), (92.0, 0.0)], NotReproduced);
}
