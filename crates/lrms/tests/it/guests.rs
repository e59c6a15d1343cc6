//! Jobs inside a reservation.

use crate::{Drive, at, backing, builtin, cpu, inside, job, span, state, status};
use bookahead_lrms::Builtin;
use bookahead_party::{BatchOrder, BatchReport, Ended, JobState, OrderId};
use bookahead_plan::{Capacity, Policy, Time};

const RUNNING: JobState = JobState::Running;
const WAITING: JobState = JobState::Waiting;
const OVER: JobState = JobState::Killed(Ended::ReservationOver);

fn states(builtin: &mut Builtin) -> Vec<JobState> {
    builtin.jobs().into_iter().map(|status| status.state).collect()
}

/// Four of eight, from 10 to 30.
fn reserved() -> Builtin {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.back(at(0), &backing(7, &[span(10, 30, 4)])).unwrap();
    builtin
}

#[test]
fn a_guest_starts_when_its_reservation_begins_however_long_the_queue_is() {
    let mut builtin = reserved();
    for id in 0..20 {
        builtin.submit(at(0), &job(id, 4, 1_000, 1_000)).unwrap();
    }
    builtin.submit(at(1), &inside(job(50, 4, 15, 15), 7)).unwrap();
    builtin.pass(at(9));
    assert_eq!(state(&mut builtin, 50), WAITING);
    assert_eq!(status(&mut builtin, 50).expected_start, Some(Time(10)));
    assert!(builtin.next_event().is_some_and(|next| next == at(10)));
    builtin.pass(at(10));
    assert_eq!(state(&mut builtin, 50), RUNNING);
    let view = builtin.seen(at(10)).view.clone();
    assert_eq!(view.running.len(), 1, "what runs inside a reservation is not seen outside");
    builtin.pass(at(26));
    assert_eq!(state(&mut builtin, 50), JobState::Done { exit: 0 });
    assert_eq!(status(&mut builtin, 50).ended, Some(Time(25)));
}

#[test]
fn a_job_that_waits_in_the_queue_becomes_a_guest() {
    let mut builtin = reserved();
    builtin.submit(at(0), &job(1, 8, 9, 9)).unwrap();
    builtin.submit(at(0), &job(2, 4, 15, 15)).unwrap();
    builtin.pass(at(1));
    assert_eq!(states(&mut builtin), [RUNNING, WAITING]);
    let mut bind = |second, job| {
        let order = BatchOrder::Bind { order: OrderId(1), job: Box::new(job) };
        match builtin.carry_out(at(second), order).remove(0) {
            BatchReport::Job { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(bind(2, inside(job(2, 4, 15, 15), 7)), Ok(()));
    assert_eq!(bind(2, inside(job(2, 4, 15, 15), 7)), Ok(()), "said twice");
    assert!(bind(2, inside(job(1, 8, 9, 9), 7)).is_err(), "it runs");
    assert!(bind(2, inside(job(3, 1, 9, 9), 7)).is_err(), "it is unknown");
    builtin.pass(at(10));
    assert_eq!(state(&mut builtin, 2), RUNNING);
    assert_eq!(builtin.seen(at(10)).view.running.len(), 0, "it runs inside");
    builtin.pass(at(26));
    assert_eq!(status(&mut builtin, 2).ended, Some(Time(25)));
}

#[test]
fn guests_start_in_order_as_far_as_there_is_room_beside_the_others() {
    let mut builtin = reserved();
    for (id, capacity) in [(1, 2), (2, 3), (3, 2), (4, 1)] {
        builtin.submit(at(0), &inside(job(id, capacity, 10, 10), 7)).unwrap();
    }
    builtin.pass(at(10));
    assert_eq!(states(&mut builtin), [RUNNING, WAITING, RUNNING, WAITING]);
    assert_eq!(status(&mut builtin, 2).expected_start, Some(Time(20)));
    builtin.pass(at(20));
    let done = JobState::Done { exit: 0 };
    assert_eq!(states(&mut builtin), [done.clone(), RUNNING, done, RUNNING]);
}

#[test]
fn guests_end_with_their_reservation_and_those_who_never_started_with_them() {
    let mut builtin = reserved();
    builtin.submit(at(0), &inside(job(1, 3, 100, 100), 7)).unwrap();
    builtin.submit(at(0), &inside(job(2, 2, 100, 100), 7)).unwrap();
    builtin.pass(at(30));
    assert_eq!(states(&mut builtin), [OVER, OVER]);
    assert_eq!(
        (status(&mut builtin, 1).started, status(&mut builtin, 1).ended),
        (Some(Time(10)), Some(Time(30)))
    );
    assert_eq!((status(&mut builtin, 2).started, status(&mut builtin, 2).ended), (None, Some(Time(30))));
}

#[test]
fn the_last_guest_leaves_first_when_a_reservation_shrinks() {
    let mut builtin = reserved();
    for id in 1..=4 {
        builtin.submit(at(0), &inside(job(id, 1, 100, 100), 7)).unwrap();
    }
    builtin.pass(at(12));
    builtin.back(at(12), &backing(7, &[span(10, 15, 2), span(15, 40, 1)])).unwrap();
    builtin.pass(at(12));
    assert_eq!(states(&mut builtin), [RUNNING, RUNNING, OVER, OVER]);
    builtin.pass(at(15));
    assert_eq!(states(&mut builtin), [RUNNING, OVER, OVER, OVER]);
    builtin.back(at(20), &backing(7, &[])).unwrap();
    builtin.pass(at(20));
    assert_eq!(states(&mut builtin), [OVER, OVER, OVER, OVER]);
}

#[test]
fn a_guest_never_outlives_its_own_limit() {
    let mut builtin = reserved();
    builtin.submit(at(0), &inside(job(1, 1, 5, 9), 7)).unwrap();
    builtin.pass(at(100));
    assert_eq!(state(&mut builtin, 1), JobState::Killed(Ended::Limit));
    assert_eq!(status(&mut builtin, 1).ended, Some(Time(15)));
}

#[test]
fn a_guest_without_a_reservation_is_refused_and_so_is_one_that_is_too_wide_for_it() {
    let mut builtin = reserved();
    let refused = builtin.submit(at(0), &inside(job(1, 1, 5, 5), 8)).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("nothing is kept free"), "{refused}");
    assert!(refused.to_string().contains("rsv_8"), "{refused}");
    let refused = builtin.submit(at(0), &inside(job(1, 5, 5, 5), 7)).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("ask for less"), "{refused}");
    let refused = builtin.submit(at(30), &inside(job(1, 1, 5, 5), 7)).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("nothing is kept free"), "{refused}");
    assert!(builtin.jobs().is_empty());
}

#[test]
fn when_capacity_fails_jobs_outside_leave_before_guests() {
    let mut builtin = reserved();
    builtin.submit(at(0), &job(1, 2, 100, 100)).unwrap();
    builtin.submit(at(0), &job(2, 2, 100, 100)).unwrap();
    builtin.submit(at(0), &inside(job(3, 2, 100, 100), 7)).unwrap();
    builtin.submit(at(0), &inside(job(4, 2, 100, 100), 7)).unwrap();
    builtin.pass(at(10));
    let displaced = JobState::Killed(Ended::Displaced);
    builtin.fail(at(10), &cpu(), Capacity(1)).unwrap();
    builtin.pass(at(10));
    assert_eq!(states(&mut builtin), [RUNNING, displaced.clone(), RUNNING, RUNNING]);
    builtin.fail(at(11), &cpu(), Capacity(4)).unwrap();
    builtin.pass(at(11));
    assert_eq!(states(&mut builtin), [displaced.clone(), displaced.clone(), RUNNING, displaced]);
    assert_eq!(builtin.seen(at(11)).lost, Capacity(5));
    builtin.repair(at(12), &cpu(), Capacity(9)).unwrap();
    assert_eq!(builtin.seen(at(12)).lost, Capacity::ZERO);
}
