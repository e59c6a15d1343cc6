//! Waiting jobs that are moved into a reservation with its commit.

use super::desk::{Desk, Out, ada, book, look, words};
use bookahead_party::{
    BatchError, BatchOrder, BatchReport, Input, JobState, JobStatus, OrderId, Origin, Queries,
};
use bookahead_plan::Time;
use bookahead_protocol::{Call, Caller, Envelope, JobId, Key, ReservationId};

const JOB: JobId = JobId(5);
const ID: ReservationId = ReservationId(7);

/// A site with a waiting job and a hold of four processors.
fn waiting() -> Desk {
    let mut desk = Desk::new(None);
    desk.start(0);
    let order = desk.submit(0, JOB, false).batch[0].order();
    reported(&mut desk, order, Ok(()));
    assert_eq!(words(&desk.call(0, 1, book(7, 100, false))), ["held"]);
    desk
}

fn reported(desk: &mut Desk, order: OrderId, outcome: Result<(), BatchError>) -> Out {
    desk.step(1, Input::Batch(BatchReport::Job { order, job: JOB, outcome }))
}

fn commit(jobs: &[JobId]) -> Call {
    Call::Commit { id: ID, jobs: jobs.to_vec() }
}

/// The order to move the job into its reservation.
fn bound(out: &Out) -> OrderId {
    let [BatchOrder::Bind { order, job }] = out.batch.as_slice() else { panic!("{:?}", out.batch) };
    assert_eq!((job.id, job.reservation), (JOB, Some(ID)));
    *order
}

fn reservation_of(desk: &Desk) -> Option<ReservationId> {
    desk.site.job(JOB).unwrap().reservation
}

fn status(state: JobState) -> JobStatus {
    JobStatus {
        restarts: 0,
        id: JOB,
        state,
        submitted: Time(0),
        started: None,
        ended: None,
        expected_start: None,
    }
}

#[test]
fn a_waiting_job_given_with_the_commit_is_put_into_the_reservation() {
    let mut desk = waiting();
    let out = desk.call(10, 2, commit(&[JOB]));
    assert_eq!(words(&out), ["committed"]);
    reported(&mut desk, bound(&out), Ok(()));
    assert_eq!(reservation_of(&desk), Some(ID));
    let again = desk.call(20, 2, commit(&[JOB]));
    assert_eq!((words(&again), again.batch.len()), (vec!["committed"], 0));
    assert_eq!(words(&desk.submit(20, JOB, false)), ["job"], "the same job, submitted again");
}

#[test]
fn unknown_and_foreign_jobs_are_refused_and_the_hold_stays() {
    let mut desk = waiting();
    assert_eq!(words(&desk.call(10, 2, commit(&[JOB, JobId(6)]))), ["job-refused"]);
    let bob = Caller { user: "bob".into(), roles: Vec::new() };
    let mine = |call| Envelope { key: Key(9), caller: bob.clone(), call };
    let Call::Reserve { request, hold_for, .. } = book(8, 200, false) else { unreachable!() };
    let reserve = Call::Reserve { id: ReservationId(8), request, hold_for, book: false };
    for (call, word) in [
        (reserve, "held"),
        (Call::Commit { id: ReservationId(8), jobs: vec![JOB] }, "forbidden"),
        (Call::Show { id: ReservationId(8) }, "held"),
    ] {
        let (number, envelope) = (desk.next_call(), mine(call));
        let envelope = Envelope { key: Key(u128::from(number.0) + 100), ..envelope };
        let out = desk.step(10, Input::Call { call: number, envelope, origin: Origin::default() });
        assert_eq!(words(&out), [word]);
    }
    assert_eq!(words(&desk.call(10, 3, Call::Show { id: ID })), ["held"]);
    assert_eq!(reservation_of(&desk), None);
    assert_eq!(desk.site.job(JOB).unwrap().owner, ada().user);
}

#[test]
fn a_job_that_runs_or_belongs_to_another_reservation_is_refused() {
    let mut desk = waiting();
    let out = desk.call(10, 2, commit(&[JOB]));
    reported(&mut desk, bound(&out), Ok(()));
    desk.call(10, 3, book(8, 100, true));
    let other = Call::Commit { id: ReservationId(8), jobs: vec![JOB] };
    assert_eq!(words(&desk.call(20, 4, other)), ["job-refused"]);
    desk.submit(20, JobId(6), false);
    let change = bookahead_party::JobChange { id: JobId(6), state: JobState::Running, at: Time(0) };
    desk.step(30, Input::Batch(BatchReport::JobChanged(change)));
    assert_eq!(words(&desk.call(40, 5, commit(&[JobId(6)]))), ["job-refused"]);
}

#[test]
fn a_job_that_the_batch_system_does_not_move_waits_as_before() {
    let mut desk = waiting();
    let out = desk.call(10, 2, commit(&[JOB]));
    let out = reported(&mut desk, bound(&out), Err(BatchError::Refused("it has just started".into())));
    assert_eq!(out.remarks.len(), 1);
    assert_eq!(reservation_of(&desk), None);
}

#[test]
fn a_move_that_was_not_answered_is_ordered_again_after_a_restart_until_it_is_done() {
    let mut desk = waiting();
    let out = desk.call(10, 2, commit(&[JOB]));
    reported(&mut desk, bound(&out), Err(BatchError::Unknown("no answer".into())));
    let order = look(&desk.restart(1_000));
    let out = desk.saw(1_010, Some(order), &[], 0, vec![status(JobState::Waiting)]);
    reported(&mut desk, bound(&out), Ok(()));
    let order = look(&desk.restart(2_000));
    let out = desk.saw(2_010, Some(order), &[], 0, vec![status(JobState::Waiting)]);
    assert!(out.batch.is_empty(), "{:?}", out.batch);
    assert_eq!(reservation_of(&desk), Some(ID));
}

#[test]
fn a_job_that_is_still_on_its_way_to_the_batch_system_is_moved_when_it_is_there() {
    let mut desk = Desk::new(None);
    desk.start(0);
    let order = desk.submit(0, JOB, false).batch[0].order();
    desk.call(0, 1, book(7, 100, false));
    assert!(desk.call(10, 2, commit(&[JOB])).batch.is_empty());
    bound(&reported(&mut desk, order, Ok(())));
}
