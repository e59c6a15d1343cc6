//! GridSim's resource from the side of a user: reservations, zones, hints, and jobs with slots that are too long or too
//! short.

use bookahead_experiments::gridsim::model::{
    CommitError, Counted, Job, JobId, LocalTime, Piece, Rating, Refusal, Request, ReservationId, Resource,
    Returned, Rules, Start, Stopped, Work, Zone,
};
use bookahead_plan::{Interval, Seconds, Time};

const RATING: u32 = 100;

/// A resource with CPUs of 100 MI per second.
fn resource(cpus: usize) -> Resource {
    Resource::new(vec![Rating(RATING); cpus], Rules::default(), Time(0)).unwrap()
}

/// A job that takes `seconds` on a CPU of [`resource`].
fn job(id: u32, seconds: u64, stopped: Stopped) -> Job {
    Job { id: JobId(id), work: Work(seconds * u64::from(RATING)), stopped }
}

fn request(start: i64, seconds: i64, cpus: u32) -> Request {
    let zone = Zone::default();
    Request { zone, start: Start::At(LocalTime(start)), duration: Seconds(seconds), cpus }
}

/// Job, begin and end of each piece, sorted.
fn stretches(resource: &Resource) -> Vec<(u32, i64, i64)> {
    let row = |piece: &Piece| (piece.job.0, piece.interval.begin.0, piece.interval.end.0);
    let mut rows: Vec<_> = resource.pieces().iter().map(row).collect();
    rows.sort();
    rows
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
    // Job 2 would run into the reservation, so it waits for the end of the slot. Job 3 would not, but it must not
    // overtake.
    assert_eq!(stretches(&resource), [(1, 0, 200), (2, 150, 210), (3, 200, 240)]);
}

#[test]
fn as_printed_only_reservations_count_and_a_running_job_is_paused_for_one() {
    let rules = Rules { counted: Counted::Reservations, ..Rules::default() };
    let mut printed = Resource::new(vec![Rating(RATING); 2], rules, Time(0)).unwrap();
    let mut ours = resource(2);
    for resource in [&mut printed, &mut ours] {
        resource.submit(Time(0), job(1, 100, Stopped::Return));
        resource.submit(Time(10), job(2, 100, Stopped::Return));
    }
    assert_eq!(ours.create(Time(20), &request(50, 40, 1)), Err(Refusal::Busy { hint: Seconds(300) }));
    let booked = printed.create(Time(20), &request(50, 40, 1)).unwrap();
    printed.commit(Time(20), booked.id, [job(3, 40, Stopped::Return)]).unwrap();
    assert!(printed.create(Time(20), &request(60, 40, 2)).is_err(), "other reservations count");
    printed.finish();
    // Job 2 was started last. It has 60 s left when a CPU is free again.
    assert_eq!(stretches(&printed), [(1, 0, 100), (2, 10, 50), (2, 90, 150), (3, 50, 90)]);
}

#[test]
fn jobs_are_attached_to_a_reservation_until_it_begins_and_share_its_cpus() {
    let mut resource = resource(2);
    let booked = resource.create(Time(0), &request(100, 50, 2)).unwrap();
    resource.commit(Time(10), booked.id, [job(1, 20, Stopped::Return)]).unwrap();
    let more = [2, 3].map(|id| job(id, 20, Stopped::Return));
    resource.commit(Time(99), booked.id, more).unwrap();
    assert_eq!(resource.commit(Time(100), booked.id, []), Err(CommitError::Begun));
    resource.finish();
    assert_eq!(resource.commit(Time(150), booked.id, []), Err(CommitError::Begun));
    assert_eq!(resource.commit(Time(150), ReservationId(1), []), Err(CommitError::Unknown));
    assert_eq!(stretches(&resource), [(1, 100, 120), (2, 100, 120), (3, 120, 140)]);
}

#[test]
fn what_is_not_committed_in_time_expires_and_its_room_is_free_again() {
    let mut resource = resource(1);
    let booked = resource.create(Time(0), &request(5_000, 100, 1)).unwrap();
    assert_eq!(booked.expires, Time(600));
    assert!(resource.create(Time(599), &request(5_000, 100, 1)).is_err());
    assert_eq!(resource.commit(Time(600), booked.id, []), Err(CommitError::Expired));
    assert!(resource.create(Time(600), &request(5_000, 100, 1)).is_ok());
    let late = resource.create(Time(600), &request(900, 100, 1)).unwrap();
    assert_eq!(late.expires, Time(900), "at the latest at its start");
}

#[test]
fn an_immediate_reservation_has_its_cpus_at_once() {
    let mut resource = resource(1);
    let wanted = Request { start: Start::Now, ..request(0, 60, 1) };
    let booked = resource.create(Time(20), &wanted).unwrap();
    assert_eq!(booked.slot, Interval::new(Time(20), Time(80)));
    resource.commit(Time(20), booked.id, [job(1, 30, Stopped::Return)]).unwrap();
    resource.finish();
    assert_eq!(stretches(&resource), [(1, 20, 50)]);
}

#[test]
fn a_rejected_request_gets_a_hint_in_steps_of_minutes() {
    let mut resource = resource(1);
    resource.submit(Time(0), job(1, 400, Stopped::Return));
    let hint = |answer: Result<_, Refusal>| match answer {
        Err(Refusal::Busy { hint }) => hint.0 / 60,
        _ => 0,
    };
    assert_eq!(hint(resource.create(Time(0), &request(0, 60, 1))), 10);
    assert_eq!(hint(resource.create(Time(0), &request(399, 60, 1))), 5);
    assert_eq!(resource.create(Time(0), &request(0, 60, 2)), Err(Refusal::Width));
    assert_eq!(resource.create(Time(9), &request(8, 60, 1)), Err(Refusal::InThePast));
    assert_eq!(resource.create(Time(9), &request(9, 0, 1)), Err(Refusal::NoDuration));
}

#[test]
fn a_start_is_meant_in_the_zone_of_the_user() {
    let mut resource = resource(1);
    let chicago = Zone::hours(-5);
    let wanted = Request { zone: chicago, ..request(7200 - 5 * 3600, 60, 1) };
    let booked = resource.create(Time(0), &wanted).unwrap();
    assert_eq!(booked.slot, Interval::starting(Time(7200), Seconds(60)));
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
