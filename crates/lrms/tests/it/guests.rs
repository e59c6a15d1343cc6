//! Jobs inside a reservation.

use crate::{at, backing, builtin, cpu, inside, job, span, state, status};
use bookahead_lrms::{Builtin, JobState, Lrms, LrmsError, Why};
use bookahead_plan::{Capacity, Policy, Time};

const RUNNING: JobState = JobState::Running;
const WAITING: JobState = JobState::Waiting;
const OVER: JobState = JobState::Killed(Why::ReservationOver);

fn states(builtin: &Builtin) -> Vec<JobState> {
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
    builtin.advance(at(9)).unwrap();
    assert_eq!(state(&builtin, 50), WAITING);
    assert_eq!(status(&builtin, 50).expected_start, Some(Time(10)));
    assert!(builtin.next_event().is_some_and(|next| next == at(10)));
    builtin.advance(at(10)).unwrap();
    assert_eq!(state(&builtin, 50), RUNNING);
    let view = builtin.snapshot(at(10)).unwrap().resources.remove(&cpu()).unwrap().view;
    assert_eq!(view.running.len(), 1, "what runs inside a reservation is not seen outside");
    builtin.advance(at(26)).unwrap();
    assert_eq!(state(&builtin, 50), JobState::Done { exit: 0 });
    assert_eq!(status(&builtin, 50).ended, Some(Time(25)));
}

#[test]
fn guests_start_in_order_as_far_as_there_is_room_beside_the_others() {
    let mut builtin = reserved();
    for (id, capacity) in [(1, 2), (2, 3), (3, 2), (4, 1)] {
        builtin.submit(at(0), &inside(job(id, capacity, 10, 10), 7)).unwrap();
    }
    builtin.advance(at(10)).unwrap();
    assert_eq!(states(&builtin), [RUNNING, WAITING, RUNNING, WAITING]);
    assert_eq!(status(&builtin, 2).expected_start, Some(Time(20)));
    builtin.advance(at(20)).unwrap();
    let done = JobState::Done { exit: 0 };
    assert_eq!(states(&builtin), [done.clone(), RUNNING, done, RUNNING]);
}

#[test]
fn guests_end_with_their_reservation_and_those_who_never_started_with_them() {
    let mut builtin = reserved();
    builtin.submit(at(0), &inside(job(1, 3, 100, 100), 7)).unwrap();
    builtin.submit(at(0), &inside(job(2, 2, 100, 100), 7)).unwrap();
    builtin.advance(at(30)).unwrap();
    assert_eq!(states(&builtin), [OVER, OVER]);
    assert_eq!((status(&builtin, 1).started, status(&builtin, 1).ended), (Some(Time(10)), Some(Time(30))));
    assert_eq!((status(&builtin, 2).started, status(&builtin, 2).ended), (None, Some(Time(30))));
}

#[test]
fn the_last_guest_leaves_first_when_a_reservation_shrinks() {
    let mut builtin = reserved();
    for id in 1..=4 {
        builtin.submit(at(0), &inside(job(id, 1, 100, 100), 7)).unwrap();
    }
    builtin.advance(at(12)).unwrap();
    builtin.back(at(12), &backing(7, &[span(10, 15, 2), span(15, 40, 1)])).unwrap();
    builtin.advance(at(12)).unwrap();
    assert_eq!(states(&builtin), [RUNNING, RUNNING, OVER, OVER]);
    builtin.advance(at(15)).unwrap();
    assert_eq!(states(&builtin), [RUNNING, OVER, OVER, OVER]);
    builtin.back(at(20), &backing(7, &[])).unwrap();
    builtin.advance(at(20)).unwrap();
    assert_eq!(states(&builtin), [OVER, OVER, OVER, OVER]);
}

#[test]
fn a_guest_never_outlives_its_own_limit() {
    let mut builtin = reserved();
    builtin.submit(at(0), &inside(job(1, 1, 5, 9), 7)).unwrap();
    builtin.advance(at(100)).unwrap();
    assert_eq!(state(&builtin, 1), JobState::Killed(Why::Limit));
    assert_eq!(status(&builtin, 1).ended, Some(Time(15)));
}

#[test]
fn a_guest_without_a_reservation_is_refused_and_so_is_one_that_is_too_wide_for_it() {
    let mut builtin = reserved();
    let refused = builtin.submit(at(0), &inside(job(1, 1, 5, 5), 8)).unwrap_err();
    assert!(matches!(refused, LrmsError::NoBacking { .. }), "{refused}");
    assert!(refused.to_string().contains("rsv_8"), "{refused}");
    let refused = builtin.submit(at(0), &inside(job(1, 5, 5, 5), 7)).unwrap_err();
    assert!(matches!(refused, LrmsError::TooWide { .. }), "{refused}");
    let refused = builtin.submit(at(30), &inside(job(1, 1, 5, 5), 7)).unwrap_err();
    assert!(matches!(refused, LrmsError::NoBacking { .. }), "{refused}");
    assert!(builtin.jobs().is_empty());
}

#[test]
fn when_capacity_fails_jobs_outside_leave_before_guests() {
    let mut builtin = reserved();
    builtin.submit(at(0), &job(1, 2, 100, 100)).unwrap();
    builtin.submit(at(0), &job(2, 2, 100, 100)).unwrap();
    builtin.submit(at(0), &inside(job(3, 2, 100, 100), 7)).unwrap();
    builtin.submit(at(0), &inside(job(4, 2, 100, 100), 7)).unwrap();
    builtin.advance(at(10)).unwrap();
    let displaced = JobState::Killed(Why::Displaced);
    builtin.fail(at(10), &cpu(), Capacity(1)).unwrap();
    builtin.advance(at(10)).unwrap();
    assert_eq!(states(&builtin), [RUNNING, displaced.clone(), RUNNING, RUNNING]);
    builtin.fail(at(11), &cpu(), Capacity(4)).unwrap();
    builtin.advance(at(11)).unwrap();
    assert_eq!(states(&builtin), [displaced.clone(), displaced.clone(), RUNNING, displaced]);
    assert_eq!(builtin.snapshot(at(11)).unwrap().resources[&cpu()].lost, Capacity(5));
    builtin.repair(at(12), &cpu(), Capacity(9)).unwrap();
    assert_eq!(builtin.snapshot(at(12)).unwrap().resources[&cpu()].lost, Capacity::ZERO);
}
