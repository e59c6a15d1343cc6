//! What a user sees of a grid resource: life cycles, zones, hints, and jobs that are given too much time or too little.

use bookahead_experiments::gridsim::model::{
    IllegalMove, Job, JobId, LocalTime, Move, Piece, Rating, Refusal, Request, Resource, Returned, Rules,
    Start, State, Stopped, UseError, Work, Zone,
};
use bookahead_plan::{Interval, Seconds, Time};

const RATING: u32 = 100;

/// `cpus` CPUs that do 100 MI a second.
fn resource(cpus: usize) -> Resource {
    Resource::new(vec![Rating(RATING); cpus], Rules::default(), Time(0)).unwrap()
}

/// A job that takes so many seconds on a CPU of [`resource`].
fn job(id: u32, seconds: u64, stopped: Stopped) -> Job {
    Job { id: JobId(id), work: Work(seconds * u64::from(RATING)), stopped }
}

fn request(start: i64, seconds: i64, cpus: u32) -> Request {
    let zone = Zone::default();
    Request { zone, start: Start::At(LocalTime(start)), duration: Some(Seconds(seconds)), cpus }
}

/// Of each stretch: job, begin, end; in the order of jobs and time.
fn stretches(resource: &Resource) -> Vec<(u32, i64, i64)> {
    let row = |piece: &Piece| (piece.job.0, piece.interval.begin.0, piece.interval.end.0);
    let mut rows: Vec<_> = resource.pieces().iter().map(row).collect();
    rows.sort();
    rows
}

fn illegal<T>(from: State, attempted: Move) -> Result<T, UseError> {
    Err(UseError::Illegal(IllegalMove { from, attempted }))
}

#[test]
fn the_queue_is_served_in_order_and_does_not_overtake() {
    let mut resource = resource(2);
    let booked = resource.create(Time(0), &request(50, 100, 1)).unwrap();
    resource.commit(Time(0), booked.id, []).unwrap();
    for (id, seconds) in [(1, 200), (2, 60), (3, 40)] {
        resource.submit(Time(0), job(id, seconds, Stopped::Return));
    }
    resource.finish();
    // Job 2 would run into the reservation, so it waits for the end of the slot and job 3, which would not, with it.
    assert_eq!(stretches(&resource), [(1, 0, 200), (2, 150, 210), (3, 200, 240)]);
}

#[test]
fn a_reservation_is_accepted_committed_active_and_completed() {
    let mut resource = resource(2);
    let booked = resource.create(Time(0), &request(100, 50, 2)).unwrap();
    let state = |resource: &mut Resource, now| resource.query(Time(now), booked.id).unwrap().state;
    assert_eq!(state(&mut resource, 0), State::Accepted);
    resource.commit(Time(10), booked.id, []).unwrap();
    assert_eq!(state(&mut resource, 99), State::Committed);
    let jobs = [1, 2, 3].map(|id| job(id, 20, Stopped::Return));
    resource.commit(Time(99), booked.id, jobs).unwrap();
    assert_eq!(state(&mut resource, 100), State::Active);
    assert_eq!(resource.commit(Time(100), booked.id, []), illegal(State::Active, Move::Commit));
    assert_eq!(state(&mut resource, 150), State::Completed);
    assert_eq!(resource.cancel(Time(150), booked.id), illegal(State::Completed, Move::Cancel));
    assert_eq!(stretches(&resource), [(1, 100, 120), (2, 100, 120), (3, 120, 140)]);
}

#[test]
fn what_is_not_committed_in_time_is_rejected_and_its_room_is_free_again() {
    let mut resource = resource(1);
    let booked = resource.create(Time(0), &request(5_000, 100, 1)).unwrap();
    assert_eq!(booked.expires, Time(600));
    assert!(resource.create(Time(599), &request(5_000, 100, 1)).is_err());
    assert_eq!(resource.query(Time(600), booked.id).unwrap().state, State::Rejected);
    assert_eq!(resource.commit(Time(600), booked.id, []), illegal(State::Rejected, Move::Commit));
    assert!(resource.create(Time(600), &request(5_000, 100, 1)).is_ok());
    let late = resource.create(Time(600), &request(900, 100, 1)).unwrap();
    assert_eq!(late.expires, Time(900), "at the latest at its start");
}

#[test]
fn a_rejected_request_gets_a_hint_in_steps_of_minutes() {
    let mut resource = resource(1);
    resource.submit(Time(0), job(1, 400, Stopped::Return));
    let hint = |answer: Result<_, Refusal>| match answer {
        Err(Refusal::Busy { hint, .. }) => hint.0 / 60,
        _ => 0,
    };
    assert_eq!(hint(resource.create(Time(0), &request(0, 60, 1))), 10);
    assert_eq!(hint(resource.create(Time(0), &request(399, 60, 1))), 5);
    let Err(Refusal::Busy { id, .. }) = resource.create(Time(0), &request(0, 60, 1)) else { panic!() };
    assert_eq!(resource.query(Time(0), id).unwrap().state, State::Rejected);
    assert_eq!(resource.create(Time(0), &request(0, 60, 2)), Err(Refusal::Width));
    assert_eq!(resource.create(Time(9), &request(8, 60, 1)), Err(Refusal::InThePast));
    assert_eq!(resource.create(Time(9), &request(9, 0, 1)), Err(Refusal::NoDuration));
}

#[test]
fn users_and_resources_each_read_their_own_clock() {
    let rules = Rules { zone: Zone::hours(10), ..Rules::default() };
    let mut resource = Resource::new(vec![Rating(1)], rules, Time(0)).unwrap();
    let chicago = Zone::hours(-5);
    let start = Start::At(chicago.local(Time(7200)));
    let wanted = Request { zone: chicago, start, duration: Some(Seconds(60)), cpus: 1 };
    let booked = resource.create(Time(0), &wanted).unwrap();
    assert_eq!(booked.slot, Interval::starting(Time(7200), Seconds(60)));
    let (begin, end) = resource.query(Time(0), booked.id).unwrap().local;
    assert_eq!((begin, end), (LocalTime(12 * 3600), LocalTime(12 * 3600 + 60)));
}

#[test]
fn an_immediate_reservation_without_a_duration_ends_where_the_next_begins() {
    let mut resource = resource(1);
    let later = resource.create(Time(0), &request(500, 100, 1)).unwrap();
    resource.commit(Time(0), later.id, []).unwrap();
    let open = Request { start: Start::Now, duration: None, ..request(0, 0, 1) };
    let booked = resource.create(Time(20), &open).unwrap();
    assert_eq!(booked.slot, Interval::new(Time(20), Time(500)));
    resource.commit(Time(20), booked.id, [job(1, 30, Stopped::Return)]).unwrap();
    assert_eq!(resource.query(Time(20), booked.id).unwrap().state, State::Active);
    let long = resource.create(Time(600), &open).unwrap();
    assert_eq!(long.slot.length(), Rules::default().longest_open_slot);
}

#[test]
fn a_restartable_job_that_was_given_too_little_time_goes_on_when_a_cpu_is_free() {
    let mut resource = resource(1);
    let booked = resource.create(Time(0), &request(0, 70, 1)).unwrap();
    resource.commit(Time(0), booked.id, [job(1, 100, Stopped::Queue)]).unwrap();
    resource.submit(Time(0), job(2, 10, Stopped::Return));
    resource.finish();
    assert_eq!(stretches(&resource), [(1, 0, 70), (1, 80, 110), (2, 70, 80)]);
    let ended = Returned { job: JobId(1), at: Time(110), left: Work::NONE };
    assert_eq!(resource.returned().last(), Some(&ended));
}

#[test]
fn a_job_that_cannot_be_restarted_goes_back_unfinished_at_the_end_of_its_slot() {
    let mut resource = resource(1);
    let booked = resource.create(Time(0), &request(0, 70, 1)).unwrap();
    resource.commit(Time(0), booked.id, [job(1, 100, Stopped::Return)]).unwrap();
    resource.finish();
    assert_eq!(resource.returned(), [Returned { job: JobId(1), at: Time(70), left: Work(30 * 100) }]);
}

#[test]
fn a_slot_that_is_too_long_is_kept_to_its_end() {
    let mut resource = resource(1);
    let booked = resource.create(Time(0), &request(0, 200, 1)).unwrap();
    resource.commit(Time(0), booked.id, [job(1, 100, Stopped::Return)]).unwrap();
    resource.submit(Time(0), job(2, 10, Stopped::Return));
    resource.finish();
    assert_eq!(stretches(&resource), [(1, 0, 100), (2, 200, 210)]);
}

#[test]
fn cancelling_and_terminating_give_back_jobs_and_cpus() {
    let mut resource = resource(1);
    let first = resource.create(Time(0), &request(0, 200, 1)).unwrap();
    let second = resource.create(Time(0), &request(300, 200, 1)).unwrap();
    resource.commit(Time(0), first.id, [job(1, 100, Stopped::Queue)]).unwrap();
    resource.commit(Time(0), second.id, [job(2, 100, Stopped::Queue)]).unwrap();
    assert_eq!(resource.cancel(Time(40), second.id), Ok(State::Cancelled));
    assert_eq!(resource.cancel(Time(60), first.id), Ok(State::Terminated));
    resource.submit(Time(60), job(3, 400, Stopped::Return));
    resource.finish();
    let left = |id, at, left| Returned { job: JobId(id), at: Time(at), left: Work(left) };
    assert_eq!(resource.returned(), [left(2, 40, 10_000), left(1, 60, 4_000), left(3, 460, 0)]);
}

#[test]
fn a_change_is_granted_where_there_is_room_and_leaves_the_old_terms_where_there_is_none() {
    let mut resource = resource(2);
    let first = resource.create(Time(0), &request(100, 100, 1)).unwrap();
    resource.commit(Time(0), first.id, []).unwrap();
    let second = resource.create(Time(0), &request(300, 100, 2)).unwrap();
    resource.commit(Time(0), second.id, []).unwrap();
    let refused = resource.modify(Time(0), first.id, &request(250, 100, 1));
    assert!(matches!(refused, Err(UseError::Refused(Refusal::Busy { .. }))));
    assert_eq!(resource.query(Time(0), first.id).unwrap().slot, first.slot);
    let moved = Interval::starting(Time(150), Seconds(150));
    assert_eq!(resource.modify(Time(0), first.id, &request(150, 150, 2)), Ok(moved));
    let status = resource.query(Time(150), first.id).unwrap();
    assert_eq!((status.state, status.cpus), (State::Active, 2));
    let accepted = resource.create(Time(150), &request(900, 10, 1)).unwrap();
    let change = resource.modify(Time(150), accepted.id, &request(950, 10, 1));
    assert_eq!(change, illegal(State::Accepted, Move::RequestChange));
}

#[test]
fn the_faster_cpu_shortens_a_job() {
    let mut resource = Resource::new([100, 400].map(Rating).to_vec(), Rules::default(), Time(0)).unwrap();
    for id in [1, 2] {
        resource.submit(Time(0), job(id, 100, Stopped::Return));
    }
    resource.finish();
    assert_eq!(stretches(&resource), [(1, 0, 25), (2, 0, 100)]);
    assert!(Resource::new(vec![], Rules::default(), Time(0)).is_none());
    assert!(Resource::new(vec![Rating(0)], Rules::default(), Time(0)).is_none());
}
