//! Examples on both sides of the borders of the rules of judgement. Only tests.

use super::claims::CLAIMS;
use super::results::{Batch, Results};
use super::run::Contender::WhatIf;
use super::run::Finding;
use crate::Verdict::{self, DirectionOnly, NotReproduced, Reproduced};
use crate::claim::borders;
use bookahead_plan::{Seconds, Time};

#[track_caller]
fn assert_verdict(id: &str, results: &Results, figures: &[(f64, f64)], expected: Verdict) {
    borders::assert_verdict((&CLAIMS, id), results, figures, expected);
}

fn is_what_if(batch: &Batch) -> bool {
    batch.setting.contender == WhatIf
}

/// Findings of two methods that differ by this much in the mean, and by `spread` more or less in each of the seeds.
fn apart(mean: f64, spread: f64, finding: impl Fn(f64) -> Finding) -> Results {
    Results::made(0, |batch| {
        let by_seed = if batch.setting.seed == 1 { spread } else { -spread };
        finding(100.0 + if is_what_if(batch) { mean + by_seed } else { 0.0 })
    })
}

#[test]
fn granted_shares_are_compared_with_those_of_the_paper() {
    let none = Results::made(0, |_| Finding::default());
    for (id, what_if, load) in [("what-if/success", 97.0, 80.0), ("what-if/success-high-load", 92.0, 58.0)] {
        assert_verdict(id, &none, &[(what_if, 1.0), (load + 2.0, 2.0)], Reproduced);
        assert_verdict(id, &none, &[(what_if, 1.0), (load + 2.0, 1.9)], DirectionOnly);
        assert_verdict(id, &none, &[(what_if, 90.0), (load, 1.0)], DirectionOnly);
        assert_verdict(id, &none, &[(what_if, 1.0), (what_if, 1.0)], NotReproduced);
    }
    let all = "what-if/all-granted-wide-window";
    assert_verdict(all, &none, &[(100.0, 0.0), (99.75, 0.0)], Reproduced);
    assert_verdict(all, &none, &[(100.0, 0.0), (99.7, 0.0)], NotReproduced);
}

#[test]
fn at_short_notice_the_methods_differ_more_than_over_all_workloads() {
    // The difference here is 54, its margin 1.4.
    for (overall, expected) in [(52.5, Reproduced), (52.7, DirectionOnly), (54.0, NotReproduced)] {
        let results = apart(overall, 0.0, |success| Finding { success, ..Finding::default() });
        assert_verdict("what-if/success-short-notice", &results, &[(92.0, 1.0), (38.0, 1.0)], expected);
    }
}

#[test]
fn the_makespan_has_the_paper_s_ends_and_is_not_longer_with_what_if_in_most_workloads() {
    let figures = |most| [(3.0, 1.0), (3.0, 1.0), (1.0, 0.1), (most, 0.1), (60_000.0, 10.0)];
    for (worse, most, expected) in [
        // 19 and 18 of the 36 workloads are not longer.
        (17, 8.0, Reproduced),
        (17, 8.6, DirectionOnly),
        (18, 8.0, NotReproduced),
    ] {
        let results = Results::made(0, |batch| {
            let hours = [batch.setting.book_ahead, batch.setting.window];
            let place = |all: [i64; 6], hour| all.iter().position(|known| *known == hour).unwrap();
            let at = 6 * place(super::BOOK_AHEAD, hours[0]) + place(super::WINDOWS, hours[1]);
            let longer = is_what_if(batch) && at < worse;
            Finding { makespan_change: if longer { 2.1 } else { 2.0 }, ..Finding::default() }
        });
        assert_verdict("what-if/makespan", &results, &figures(most), expected);
    }
}

#[test]
fn fewer_jobs_are_delayed_for_less_time_near_the_request() {
    // The margin of two seeds is 12.7 times the spread.
    for (hours, spread, first, expected) in [
        (-1.0, 0.05, 257.0, Reproduced),
        (-1.0, 0.05, 259.0, DirectionOnly),
        (-1.0, 0.1, 257.0, DirectionOnly),
        (0.0, 0.0, 257.0, NotReproduced),
    ] {
        let results = apart(hours, spread, |hours| {
            let added = vec![(Time(0), Seconds((3_600.0 * hours) as i64))];
            Finding { delayed: (10.0 * hours) as usize, added, ..Finding::default() }
        });
        let figures = [(first, 1.0), (332.0, 1.0), (0.0, 0.0), (0.0, 0.0)];
        assert_verdict("what-if/fewer-delays-near", &results, &figures, expected);
    }
}

#[test]
fn six_and_twelve_hours_ahead_have_the_numbers_of_table_1() {
    let delayed =
        |more| apart(more, 0.0, |delayed| Finding { delayed: delayed as usize, ..Finding::default() });
    let added = |more| apart(more, 0.0, |affected_wait| Finding { affected_wait, ..Finding::default() });
    for (more, jobs, load_wait, expected) in [
        (1.0, 429.0, 9_052.0, Reproduced),
        (1.0, 431.0, 9_052.0, DirectionOnly),
        // The waits are the same within a twentieth.
        (1.0, 429.0, 9_120.0, NotReproduced),
        (0.0, 429.0, 9_052.0, NotReproduced),
    ] {
        let figures = [(jobs, 1.0), (357.0, 1.0), (8_655.0, 1.0), (load_wait, 1.0)];
        assert_verdict("what-if/six-hours", &delayed(more), &figures, expected);
    }
    for (more, jobs, expected) in [
        (1.0, 393.0, Reproduced),
        (1.0, 395.0, DirectionOnly),
        (1.0, 411.0, NotReproduced),
        (0.0, 393.0, NotReproduced),
    ] {
        let figures = [(jobs, 1.0), (390.0, 1.0), (14_723.0, 1.0), (13_161.0, 1.0)];
        assert_verdict("what-if/twelve-hours", &added(more), &figures, expected);
    }
}

#[test]
fn delayed_jobs_wait_longer_and_far_ahead_both_methods_delay_as_many() {
    let none = Results::made(0, |_| Finding::default());
    let waits = [(11_132.0, 1.0), (11_644.0, 1.0), (2_873.0, 1.0), (2_053.0, 1.0)];
    assert_verdict("what-if/affected-waits", &none, &waits, Reproduced);
    let [first, second, third, fourth] = waits;
    assert_verdict("what-if/affected-waits", &none, &[(11_134.0, 1.0), second, third, fourth], DirectionOnly);
    assert_verdict("what-if/affected-waits", &none, &[first, second, first, fourth], NotReproduced);
    let far = "what-if/equal-far-ahead";
    assert_verdict(far, &none, &[(407.0, 1.0), (411.0, 1.0)], Reproduced);
    assert_verdict(far, &none, &[(409.0, 1.0), (411.0, 1.0)], DirectionOnly);
    assert_verdict(far, &none, &[(390.0, 1.0), (411.0, 1.0)], NotReproduced);
}

#[test]
fn the_limit_cuts_fewer_than_ten_jobs_and_helps_both_methods() {
    let cut = |cut| Results::made(cut, |_| Finding::default());
    assert_verdict("what-if/limit-affects-few", &cut(9), &[], Reproduced);
    assert_verdict("what-if/limit-affects-few", &cut(10), &[], NotReproduced);
    for (load, expected) in [(5.0, Reproduced), (9.0, DirectionOnly), (10.0, NotReproduced)] {
        let figures = [(5.0, 1.0), (load, 1.0), (10.0, 1.0), (10.0, 1.0)];
        assert_verdict("what-if/limit-helps", &cut(0), &figures, expected);
    }
}
