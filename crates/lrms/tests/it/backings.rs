//! The reserved spans are those of the last order, however often and in whatever sequence orders came.

use crate::{Drive, at, backing, builtin, inside, job, span};
use bookahead_lrms::Builtin;
use bookahead_party::JobState;
use bookahead_plan::{Policy, Span, Time};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

fn spans() -> impl Strategy<Value = Vec<Span>> {
    let one = (0..60_i64, 1..20_i64, 1..4_u32)
        .prop_map(|(begin, length, capacity)| span(begin, begin + length, capacity));
    prop::collection::vec(one, 0..3)
}

/// Gives each order in turn, and lets jobs run around the reservations to the end.
fn play(said: &[(u128, Vec<Span>)], jobs: &[(u32, i64)]) -> Vec<(JobState, Option<Time>)> {
    let mut builtin = builtin(8, Policy::EASY);
    for (id, spans) in said {
        builtin.back(at(0), &backing(*id, spans)).unwrap();
    }
    for (id, (capacity, limit)) in (0..).zip(jobs) {
        builtin.submit(at(0), &job(id, *capacity, *limit, *limit)).unwrap();
    }
    builtin.pass(at(5_000));
    builtin.jobs().into_iter().map(|status| (status.state, status.started)).collect()
}

proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn the_last_word_for_each_reservation_counts(
        last in prop::collection::vec(spans(), 1..5), before in prop::collection::vec((0..5_u128, spans()), 0..5),
        jobs in prop::collection::vec((1..9_u32, 1..20_i64), 0..8), twice in any::<bool>(), turn in 0..5_usize,
    ) {
        let last: Vec<(u128, Vec<Span>)> = (0..5).zip(last).collect();
        let mut said = before;
        said.retain(|(id, _)| last.iter().any(|(of, _)| of == id));
        let mut turned = last.clone();
        turned.rotate_left(turn % last.len());
        said.extend(turned.clone());
        if twice {
            said.extend(turned);
        }
        prop_assert_eq!(play(&said, &jobs), play(&last, &jobs));
    }
}

#[test]
fn saying_it_again_while_it_is_active_changes_nothing() {
    let mut builtin = builtin(8, Policy::EASY);
    let said = backing(1, &[span(0, 100, 6)]);
    builtin.back(at(0), &said).unwrap();
    builtin.submit(at(0), &job(1, 2, 50, 50)).unwrap();
    builtin.pass(at(10));
    let before = builtin.look(at(10));
    let next = builtin.next_event();
    builtin.back(at(10), &said).unwrap();
    assert_eq!(builtin.look(at(10)), before);
    assert_eq!(builtin.next_event(), next);
}

#[test]
fn what_is_over_is_no_longer_kept_free() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.back(at(0), &backing(1, &[span(0, 10, 6)])).unwrap();
    builtin.back(at(0), &backing(2, &[span(0, 20, 2)])).unwrap();
    builtin.pass(at(10));
    let is_free =
        |builtin: &mut Builtin, number, id| builtin.submit(at(10), &inside(job(number, 1, 1, 1), id)).is_ok();
    assert_eq!([1, 2].map(|id| is_free(&mut builtin, id, id)), [false, true]);
    builtin.back(at(10), &backing(2, &[])).unwrap();
    assert!(!is_free(&mut builtin, 3, 2));
}

#[test]
fn a_job_does_not_start_if_it_would_reach_into_a_reservation() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.back(at(0), &backing(1, &[span(10, 20, 4)])).unwrap();
    builtin.submit(at(0), &job(1, 5, 11, 3)).unwrap();
    builtin.submit(at(0), &job(2, 5, 10, 10)).unwrap();
    builtin.pass(at(100));
    let starts: Vec<Option<Time>> = builtin.jobs().into_iter().map(|status| status.started).collect();
    assert_eq!(starts, [Some(Time(20)), Some(Time(0))]);
}
