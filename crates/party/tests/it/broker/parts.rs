//! A job in a reservation that its owner names: it goes to the one suitable part, once, wherever the broker
//! is killed, and the reservation stays its owner's.

use super::desk::{Desk, ID, ada, caller, job, job_rules, name};
use bookahead_party::broker::{BrokerEvent, JobEvent};
use bookahead_party::{Input, JobCall as Ask, Party, PeerRequest, Queries};
use bookahead_plan::placement::Request as Wanted;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::broker::{Asked, Event, Outcome, Pick};
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord, Mode};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{
    Caller, Key, Millis, Moment, Name, Part, Request, Requirement, ReservationId, Slot, State, Test, Tres,
    Value,
};

const BOOKED: ReservationId = ReservationId(0xb00c);
const AT_NORTH: ReservationId = ReservationId(0x1);
const AT_SOUTH: ReservationId = ReservationId(0x2);

/// From second 100 to second 200.
const WHEN: Interval = Interval { begin: Time(100), end: Time(200) };

const COMMITTED: Event = Event::Committed { id: BOOKED };

fn pick(peer: &str, child: ReservationId, resource: &str, capacity: u32, interval: Interval) -> Pick {
    let slot = Slot {
        resource: resource.into(),
        site: peer.into(),
        joins: None,
        interval,
        capacity: Capacity(capacity),
        slack: Seconds(0),
        free: None,
        rating: None,
        impact: None,
        tres: Tres::default(),
        free_tres: Tres::default(),
        cost: 0,
    };
    Pick { peer: peer.into(), child, slot }
}

fn wanted(kind: &str, pick: &Pick) -> Part {
    let Interval { begin, end } = pick.slot.interval;
    let (duration, capacity) = (end - begin, pick.slot.capacity);
    let wanted = Wanted { earliest_start: begin, latest_end: end, duration, capacity };
    Part::new(wanted, kind)
}

/// A broker that has booked this for ada, with its state.
fn booked(parts: Vec<(&str, Pick)>, then: &[Event]) -> Desk {
    let request = Request::new(parts.iter().map(|(kind, pick)| wanted(kind, pick)).collect(), Vec::new());
    let asked = Asked { caller: ada(), request, hold_for: Millis::seconds(60), book: true, refused: None };
    let picks = parts.into_iter().map(|(_, pick)| pick).collect();
    let trying = Event::Trying { id: BOOKED, at: Moment(0), asked: Some(asked), picks };
    let held = Event::Held { id: BOOKED, until: Moment::of(Time(60)) };
    let mut desk = Desk::with(&["north", "south"]);
    for event in [trying, held].into_iter().chain(then.iter().cloned()) {
        let event = BrokerEvent::Booking(event);
        desk.broker.apply(&event);
        desk.journal.push(serde_json::to_string(&event).unwrap());
    }
    desk
}

/// Eight processors at north and four at south.
fn two_parts() -> Vec<(&'static str, Pick)> {
    let north = pick("north", AT_NORTH, "cluster", 8, WHEN);
    let south = pick("south", AT_SOUTH, "cluster", 4, WHEN);
    vec![("processors", north), ("processors", south)]
}

fn standing() -> Desk {
    booked(two_parts(), &[COMMITTED])
}

fn inside() -> JobRequest {
    JobRequest { reservation: Some(BOOKED), ..job() }
}

fn on(resource: &str) -> JobRequest {
    JobRequest { resource: Some(resource.into()), ..inside() }
}

/// With a job in the part at south.
fn at_south() -> Desk {
    let mut desk = standing();
    desk.submit(0, on("south/cluster")).unwrap();
    desk
}

/// South reports the state of the job.
fn told(desk: &mut Desk, at: i64, asked: Ask, state: JobWord) {
    let view = JobView {
        state,
        site: Some(name("south")),
        resource: Some(name("cluster")),
        reservation: Some(AT_SOUTH),
        ..desk.shown()
    };
    desk.reports(at, "south", asked, Ok(view));
}

fn refused(mut desk: Desk, job: JobRequest) -> Why {
    desk.submit(0, job).unwrap_err().why
}

/// Where a job goes: the peer, the id of the part and the resource there.
fn goes(mut desk: Desk, job: JobRequest) -> (String, Option<ReservationId>, Option<Name>) {
    desk.submit(0, job).unwrap();
    let [call] = &desk.out.calls[..] else { panic!("{:?}", desk.out.calls) };
    let PeerRequest::Job { caller, id, job: Some(handed), .. } = &call.request else { panic!("{call:?}") };
    assert_eq!((caller, *id), (&ada(), ID));
    (call.to.to_string(), handed.reservation, handed.resource.clone())
}

#[test]
fn a_job_goes_to_the_part_on_the_resource_that_it_names_by_the_names_there() {
    let cluster = || Some("cluster".into());
    assert_eq!(goes(standing(), on("north/cluster")), ("north".into(), Some(AT_NORTH), cluster()));
    assert_eq!(goes(standing(), on("south/cluster")), ("south".into(), Some(AT_SOUTH), cluster()));
}

#[test]
fn without_a_resource_the_one_part_of_its_kind_with_the_capacity_is_taken() {
    let large = JobRequest { capacity: Capacity(5), ..inside() };
    assert_eq!(goes(standing(), large).1, Some(AT_NORTH), "south has four");
    let mixed = || {
        let link = pick("south", AT_SOUTH, "link", 900, WHEN);
        booked(vec![two_parts().swap_remove(0), ("bandwidth", link)], &[COMMITTED])
    };
    assert_eq!(goes(mixed(), inside()).1, Some(AT_NORTH));
    let of_kind = JobRequest { kind: "bandwidth".into(), ..inside() };
    assert_eq!(goes(mixed(), of_kind).1, Some(AT_SOUTH));
    // A named resource is enough, whatever its kind.
    assert_eq!(goes(mixed(), on("south/link")).2, Some("link".into()));
}

#[test]
fn where_several_parts_suit_or_none_they_are_listed() {
    let several = refused(standing(), inside());
    assert_eq!(several.code(), "job-refused");
    assert_eq!(
        several.to_string(),
        format!(
            "the job could run in several parts of {BOOKED}: north/cluster with 8, south/cluster with 4; name one as the \
             resource"
        )
    );
    let too_large = JobRequest { capacity: Capacity(5), ..on("south/cluster") };
    for none in [on("east/cluster"), too_large, JobRequest { kind: "seats".into(), ..inside() }] {
        let none = refused(standing(), none);
        assert_eq!(none.code(), "job-refused");
        assert!(none.to_string().contains("it has north/cluster with 8, south/cluster with 4"), "{none:?}");
    }
    let later = Interval { begin: Time(300), end: Time(400) };
    let chain = [WHEN, later].map(|when| ("processors", pick("north", AT_NORTH, "cluster", 8, when)));
    let same = refused(booked(chain.to_vec(), &[COMMITTED]), on("north/cluster"));
    assert!(same.to_string().contains("submit it at the site"), "{same:?}");
}

#[test]
fn what_the_job_requires_of_its_resource_chooses_the_part() {
    let test = Test::Is(Value::Text("south".into()));
    let requirements = vec![Requirement { attribute: "site".into(), test }];
    let mut desk = standing();
    desk.submit(0, JobRequest { requirements, ..inside() }).unwrap();
    let PeerRequest::Job { job: Some(handed), .. } = &desk.out.calls[0].request else { panic!() };
    assert_eq!((handed.reservation, handed.requirements.len()), (Some(AT_SOUTH), 0));
}

#[test]
fn a_reservation_that_takes_no_jobs_is_refused_as_a_site_refuses_it() {
    let closed = |outcome| Event::Closed { id: BOOKED, at: Moment(0), asked: None, outcome };
    let elsewhere = JobRequest { reservation: Some(ReservationId(7)), ..on("north/cluster") };
    assert_eq!(refused(standing(), elsewhere).code(), "unknown");
    let others = standing().submit_as(0, &caller("bob"), (Key(1), ID), on("north/cluster")).unwrap_err();
    assert_eq!(others.why, Why::NotOwner(BOOKED));
    let held = refused(booked(two_parts(), &[]), on("north/cluster"));
    assert_eq!((held.code(), held.to_string().contains("commit it first")), ("unsupported", true));
    let cancelled = booked(two_parts(), &[COMMITTED, closed(Outcome::Cancelled)]);
    assert_eq!(refused(cancelled, on("north/cluster")).code(), "illegal");
    let expired = booked(two_parts(), &[closed(Outcome::Expired)]);
    assert_eq!(refused(expired, on("north/cluster")), Why::Expired);
    let over = standing().submit(200_000, on("north/cluster")).unwrap_err();
    assert_eq!(over.why.state(), Some(State::Completed), "{over:?}");
}

#[test]
fn what_is_for_finding_a_place_makes_no_sense_with_a_reservation() {
    let job = || on("north/cluster");
    for (field, job) in [
        ("mode", JobRequest { mode: Some(Mode::Flood), ..job() }),
        ("mode", JobRequest { mode: Some(Mode::Reserve), ..job() }),
        ("copies", JobRequest { copies: Some(2), ..job() }),
        ("latest_end", JobRequest { latest_end: Some(Time(150)), ..job() }),
        ("reference_mhz", JobRequest { reference_mhz: Some(2_000), ..job() }),
        ("input_bytes", JobRequest { input_bytes: Some(7), ..job() }),
    ] {
        let why = refused(standing(), job);
        assert_eq!(why.code(), "bad-request", "{field}");
        assert!(why.to_string().starts_with(&format!("{field} has no meaning")), "{why:?}");
    }
}

#[test]
fn its_owner_sees_the_reservation_by_its_own_id_and_the_name_that_the_resource_has_here() {
    let mut desk = at_south();
    let seen = |desk: &Desk| {
        let shown = desk.shown();
        (shown.state, shown.site.unwrap(), shown.resource.unwrap(), shown.reservation)
    };
    let here = |state| (state, name("south"), name("south/cluster"), Some(BOOKED));
    assert_eq!(seen(&desk), here(JobWord::Placing));
    assert_eq!(desk.shown().expected_start, Some(Time(100)));
    for state in [JobWord::Waiting, JobWord::Running, JobWord::Done] {
        told(&mut desk, 1_000, Ask::Look, state);
        assert_eq!(seen(&desk), here(state));
    }
}

#[test]
fn a_reservation_is_shown_with_its_job_from_when_the_site_has_it() {
    let mut desk = at_south();
    let jobs = |desk: &Desk| desk.broker.reservation(Moment(0), BOOKED).unwrap().jobs;
    assert_eq!(jobs(&desk), []);
    told(&mut desk, 100, Ask::Submit, JobWord::Waiting);
    assert_eq!(jobs(&desk), [(1, ID)]);
    let events = &desk.out.events;
    assert!(matches!(events[0], BrokerEvent::Job(JobEvent::Handed { .. })));
    assert!(matches!(events[1], BrokerEvent::Booking(Event::Attached { id: BOOKED, part: 1, job: ID })));
    assert_eq!((desk.out.notices[0].0, desk.out.notices[0].1.kind), (1, "committed"));
}

#[test]
fn wherever_the_broker_is_killed_the_job_is_handed_over_once_and_looked_after() {
    let mut desk = at_south();
    let first = desk.out.calls.clone();
    desk.restart(1_000);
    assert_eq!(desk.out.calls, first, "the very same call");
    desk.wait_until(6_000);
    assert_eq!(desk.out.calls, first);
    told(&mut desk, 6_100, Ask::Submit, JobWord::Waiting);
    desk.restart(7_000);
    assert_eq!(desk.said(), ["south Look"]);
    // The same call again is the same job, even long after the end of the reservation.
    desk.submit(300_000, on("south/cluster")).unwrap();
    assert!(desk.out.calls.is_empty());
    told(&mut desk, 300_100, Ask::Look, JobWord::Done);
    assert!(desk.out.calls.is_empty(), "the reservation is its owner's: {:?}", desk.out.calls);
    desk.restart(301_000);
    assert!(desk.out.calls.is_empty());
    assert_eq!(desk.shown().state, JobWord::Done);
}

#[test]
fn a_cancelled_job_is_ended_at_the_site_and_the_reservation_stays() {
    let mut desk = at_south();
    told(&mut desk, 100, Ask::Submit, JobWord::Waiting);
    desk.cancel(200, &ada()).unwrap();
    assert_eq!(desk.said(), ["south Drop"]);
    desk.restart(300);
    assert_eq!(desk.said(), ["south Drop"]);
    told(&mut desk, 400, Ask::Drop, JobWord::Cancelled);
    assert_eq!((desk.shown().state, desk.out.calls.len()), (JobWord::Cancelled, 0));
}

#[test]
fn what_the_site_refuses_could_not_start_for_the_reason_that_the_site_gives() {
    let mut desk = at_south();
    desk.reports(1, "south", Ask::Submit, Err(Why::Busy));
    assert_eq!(desk.shown().state, JobWord::Placing, "it may take it a little later");
    desk.reports(2, "south", Ask::Submit, Err(Why::JobRefused("south says no".into())));
    let over = desk.shown();
    assert_eq!((over.state, over.detail.as_deref()), (JobWord::CouldNotStart, Some("south says no")));
    assert_eq!((over.reservation, desk.out.calls.len()), (Some(BOOKED), 0));
}

#[test]
fn a_job_is_dropped_until_its_submission_cannot_be_under_way_any_more() {
    let mut desk = at_south();
    desk.cancel(100, &ada()).unwrap();
    desk.reports(200, "south", Ask::Drop, Err(Why::UnknownJob(ID)));
    desk.step(6_000, Input::Time);
    assert_eq!(desk.said(), ["south Drop"], "the submission may have come after the first");
    desk.reports(15_000, "south", Ask::Drop, Err(Why::UnknownJob(ID)));
    assert_eq!(desk.shown().state, JobWord::Cancelled);
    desk.step(60_000, Input::Time);
    assert!(desk.said().is_empty());
}

#[test]
fn what_the_site_had_and_knows_no_more_is_lost() {
    let mut desk = at_south();
    told(&mut desk, 100, Ask::Submit, JobWord::Waiting);
    desk.reports(200, "south", Ask::Look, Err(Why::UnknownJob(ID)));
    assert_eq!((desk.shown().state, desk.remarks()), (JobWord::Lost, vec!["job_lost"]));
}

#[test]
fn a_job_whose_site_stays_silent_until_it_would_have_forgotten_it_is_lost() {
    let mut desk = at_south();
    let a_day_later = 1_000 * (WHEN.end.0 + job_rules().retention.0);
    desk.wait_until(a_day_later);
    assert_eq!(desk.said(), ["south Submit"], "it may still answer");
    told(&mut desk, a_day_later, Ask::Submit, JobWord::Running);
    desk.wait_until(2 * a_day_later - 1_000 * WHEN.end.0);
    assert_eq!(desk.said(), ["south Look"], "a day has not passed since it answered");
    desk.wait_until(2 * a_day_later);
    let lost = desk.shown();
    assert_eq!((lost.state, lost.reservation), (JobWord::Lost, Some(BOOKED)));
    assert!(lost.detail.unwrap().contains("has not reported") && desk.out.calls.is_empty());
}

#[test]
fn a_journal_without_the_newer_fields_is_read() {
    let at_least = serde_json::json!({"Submitted": {
        "id": ID, "key": Key(1), "caller": ada(), "job": job(), "at": Time(0)
    }});
    let event: JobEvent = serde_json::from_value(at_least).unwrap();
    assert!(matches!(&event, JobEvent::Submitted { part: None, via, .. } if via.is_empty()));
    let written = serde_json::to_string(&event).unwrap();
    assert!(!written.contains("part"), "{written}");
}

#[test]
fn who_is_not_its_owner_can_do_nothing_to_it() {
    let mut desk = at_south();
    let bob: Caller = caller("bob");
    let problem: Problem = desk.cancel(0, &bob).unwrap_err();
    assert_eq!((problem.why.code(), desk.out.events.len()), ("forbidden", 0));
}
