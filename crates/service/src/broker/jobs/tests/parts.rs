//! A job that is to run in a reservation which its owner has: it goes to the one part that suits it, once, wherever the broker is
//! killed, and the reservation stays its owner's.

use super::*;
use bookahead_plan::placement::Request as Wanted;
use bookahead_plan::{Interval, Seconds};
use bookahead_protocol::broker::{self, Asked, Pick};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{Objective, Part, Request, Slot};

const BOOKED: ReservationId = ReservationId(0xb00c);
const AT_NORTH: ReservationId = ReservationId(0x1);
const AT_SOUTH: ReservationId = ReservationId(0x2);

/// From the hundredth second to the two hundredth.
const WHEN: Interval = Interval { begin: Time(100), end: Time(200) };

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
        cost: 0,
    };
    Pick { peer: peer.into(), child, slot }
}

fn wanted(kind: &str, pick: &Pick) -> Part {
    let Interval { begin, end } = pick.slot.interval;
    let (duration, capacity) = (end - begin, pick.slot.capacity);
    let wanted = Wanted { earliest_start: begin, latest_end: end, duration, capacity };
    Part { wanted, kind: kind.into(), requirements: Vec::new(), resource: None }
}

/// What a broker has booked for ada, and what became of it.
fn booked(parts: Vec<(&str, Pick)>, then: &[broker::Event]) -> broker::Broker {
    let request = Request {
        parts: parts.iter().map(|(kind, pick)| wanted(kind, pick)).collect(),
        constraints: Vec::new(),
        objective: Objective::EarliestEnd,
    };
    let asked = Asked { caller: ada(), request, hold_for: Millis::seconds(60), book: true };
    let picks = parts.into_iter().map(|(_, pick)| pick).collect();
    let mut head = broker::Broker::new(broker::Rules::default());
    head.apply(&broker::Event::Trying { id: BOOKED, at: Moment(0), asked, picks });
    head.apply(&broker::Event::Held { id: BOOKED, until: Moment::of(Time(60)) });
    then.iter().for_each(|event| head.apply(event));
    head
}

const COMMITTED: broker::Event = broker::Event::Committed { id: BOOKED };

/// Eight processors at north and four at south.
fn two_parts() -> Vec<(&'static str, Pick)> {
    let north = pick("north", AT_NORTH, "cluster", 8, WHEN);
    let south = pick("south", AT_SOUTH, "cluster", 4, WHEN);
    vec![("processors", north), ("processors", south)]
}

fn inside() -> api::SubmitJob {
    let document = serde_json::json!({
        "reservation": BOOKED, "capacity": 4, "limit_seconds": 60, "work": {"type": "pretended", "run_seconds": 30}
    });
    serde_json::from_value(document).unwrap()
}

fn on(resource: &str) -> api::SubmitJob {
    api::SubmitJob { resource: Some(resource.into()), ..inside() }
}

impl Desk {
    /// Ada submits a job into what is booked.
    fn put(&mut self, head: &broker::Broker, asked: api::SubmitJob) -> Result<(), api::Problem> {
        self.put_by(&ada(), 0, head, asked)
    }

    fn put_by(
        &mut self,
        caller: &Caller,
        at: i64,
        head: &broker::Broker,
        asked: api::SubmitJob,
    ) -> Result<(), api::Problem> {
        let booking = asked.reservation.and_then(|id| head.booking(id));
        let peers = [peer("north", 8), peer("south", 8)];
        let ids = (Key(1), ID);
        let effects = self.jobs.submit(Moment(at), (caller, &[]), ids, asked, booking, peers.into_iter())?;
        self.does(effects);
        Ok(())
    }

    /// A site tells how the job itself is.
    fn told(&mut self, at: i64, site: &str, asked: Ask, state: api::JobState) {
        let job = api::Job {
            state,
            site: Some(site.into()),
            resource: Some("cluster".into()),
            reservation: Some(AT_SOUTH),
            ..self.shown()
        };
        let effects = self.jobs.on_job(Moment(at), &site.into(), (ID, asked), Ok(Box::new(job)));
        self.does(effects);
    }
}

fn refused(head: &broker::Broker, asked: api::SubmitJob) -> api::Problem {
    Desk::new().put(head, asked).unwrap_err()
}

/// Where a job goes: the peer, the id of the part and the resource there.
fn goes(head: &broker::Broker, asked: api::SubmitJob) -> (String, Option<ReservationId>, Option<Name>) {
    let mut desk = Desk::new();
    desk.put(head, asked).unwrap();
    let [Errand { to, what: What::Submit(caller, handed), .. }] = &desk.sent[..] else {
        panic!("{:?}", desk.sent)
    };
    assert_eq!((caller, handed.id), (&ada(), Some(ID)));
    (to.to_string(), handed.reservation, handed.resource.clone())
}

#[test]
fn a_job_goes_to_the_part_on_the_resource_that_it_names_by_the_names_there() {
    let head = booked(two_parts(), &[COMMITTED]);
    let cluster = || Some("cluster".into());
    assert_eq!(goes(&head, on("north/cluster")), ("north".into(), Some(AT_NORTH), cluster()));
    assert_eq!(goes(&head, on("south/cluster")), ("south".into(), Some(AT_SOUTH), cluster()));
}

#[test]
fn without_a_resource_the_one_part_of_its_kind_with_the_capacity_is_taken() {
    let head = booked(two_parts(), &[COMMITTED]);
    let large = api::SubmitJob { capacity: 5, ..inside() };
    assert_eq!(goes(&head, large).1, Some(AT_NORTH), "south has four");
    let link = pick("south", AT_SOUTH, "link", 900, WHEN);
    let mixed = booked(vec![two_parts().swap_remove(0), ("bandwidth", link)], &[COMMITTED]);
    assert_eq!(goes(&mixed, inside()).1, Some(AT_NORTH));
    let of_kind = api::SubmitJob { kind: "bandwidth".into(), ..inside() };
    assert_eq!(goes(&mixed, of_kind).1, Some(AT_SOUTH));
    // A name says it all, whatever kind it is.
    assert_eq!(goes(&mixed, on("south/link")).2, Some("link".into()));
}

#[test]
fn where_several_parts_suit_or_none_they_are_listed() {
    let head = booked(two_parts(), &[COMMITTED]);
    let several = refused(&head, inside());
    assert_eq!(several.code, "job-refused");
    assert_eq!(
        several.detail,
        format!(
            "the job could run in several parts of {BOOKED}: north/cluster with 8, south/cluster with 4; name one as the \
             resource (--resource)"
        )
    );
    let too_large = api::SubmitJob { capacity: 5, ..on("south/cluster") };
    for none in [on("east/cluster"), too_large, api::SubmitJob { kind: "seats".into(), ..inside() }] {
        let none = refused(&head, none);
        assert_eq!(none.code, "job-refused");
        assert!(none.detail.contains("it has north/cluster with 8, south/cluster with 4"), "{none:?}");
    }
    let later = Interval { begin: Time(300), end: Time(400) };
    let chain = [WHEN, later].map(|when| ("processors", pick("north", AT_NORTH, "cluster", 8, when)));
    let same = refused(&booked(chain.to_vec(), &[COMMITTED]), on("north/cluster"));
    assert!(same.detail.contains("submit it at the site"), "{same:?}");
}

#[test]
fn what_the_job_requires_of_its_resource_chooses_the_part() {
    let head = booked(two_parts(), &[COMMITTED]);
    let requirement = serde_json::json!([{"attribute": "site", "test": "is", "value": "south"}]);
    let requirements = serde_json::from_value(requirement).unwrap();
    let mut desk = Desk::new();
    desk.put(&head, api::SubmitJob { requirements, ..inside() }).unwrap();
    let What::Submit(_, handed) = &desk.sent[0].what else { panic!("{:?}", desk.sent) };
    assert_eq!((handed.reservation, handed.requirements.len()), (Some(AT_SOUTH), 0));
}

#[test]
fn a_reservation_that_takes_no_jobs_is_refused_as_a_site_refuses_it() {
    let closed = |outcome| broker::Event::Closed { id: BOOKED, at: Moment(0), asked: None, outcome };
    let head = booked(two_parts(), &[COMMITTED]);
    let elsewhere = api::SubmitJob { reservation: Some(ReservationId(7)), ..on("north/cluster") };
    assert_eq!(refused(&head, elsewhere).code, "unknown");
    let bob = Caller { user: "bob".into(), roles: vec!["user".into()] };
    let others = Desk::new().put_by(&bob, 0, &head, on("north/cluster")).unwrap_err();
    assert_eq!(others.code, "not-owner");
    let held = refused(&booked(two_parts(), &[]), on("north/cluster"));
    assert_eq!((held.code.as_str(), held.detail.contains("commit it first")), ("unsupported", true));
    let cancelled = booked(two_parts(), &[COMMITTED, closed(broker::Outcome::Cancelled)]);
    assert_eq!(refused(&cancelled, on("north/cluster")).code, "illegal");
    let over = Desk::new().put_by(&ada(), 200_000, &head, on("north/cluster")).unwrap_err();
    assert_eq!(over.why().unwrap().state(), Some(bookahead_protocol::State::Completed), "{over:?}");
    assert!(matches!(over.why(), Some(Why::Illegal(_))));
}

#[test]
fn what_is_for_finding_a_place_makes_no_sense_with_a_reservation() {
    let head = booked(two_parts(), &[COMMITTED]);
    let job = || on("north/cluster");
    let latest_end = Some(api::Timestamp::nearest(Time(150)));
    for (field, asked) in [
        ("mode", api::SubmitJob { mode: Some(api::Mode::Flood), ..job() }),
        ("mode", api::SubmitJob { mode: Some(api::Mode::Reserve), ..job() }),
        ("copies", api::SubmitJob { copies: Some(2), ..job() }),
        ("latest_end", api::SubmitJob { latest_end, ..job() }),
        ("reference_mhz", api::SubmitJob { reference_mhz: Some(2_000), ..job() }),
        ("input_bytes", api::SubmitJob { input_bytes: Some(7), ..job() }),
    ] {
        let problem = refused(&head, asked);
        assert_eq!(problem.code, "bad-request", "{field}");
        assert!(problem.detail.starts_with(&format!("{field} is for")), "{problem:?}");
    }
}

#[test]
fn its_owner_sees_his_own_reservation_and_the_name_that_the_resource_has_here() {
    let mut desk = Desk::new();
    desk.put(&booked(two_parts(), &[COMMITTED]), on("south/cluster")).unwrap();
    let seen = |desk: &Desk| {
        let shown = desk.shown();
        (shown.state, shown.site.unwrap(), shown.resource.unwrap(), shown.reservation)
    };
    let here = |state| (state, Name::from("south"), Name::from("south/cluster"), Some(BOOKED));
    assert_eq!(seen(&desk), here(api::JobState::Placing));
    assert_eq!(desk.shown().expected_start.unwrap().time(), Time(100));
    for state in [api::JobState::Waiting, api::JobState::Running, api::JobState::Done] {
        desk.told(1_000, "south", Ask::Look, state);
        assert_eq!(seen(&desk), here(state));
    }
    assert_eq!(desk.jobs.part_of(ID), Some((BOOKED, 1)));
}

#[test]
fn wherever_the_broker_is_killed_the_job_is_handed_over_once_and_looked_after() {
    let mut desk = Desk::new();
    let head = booked(two_parts(), &[COMMITTED]);
    desk.put(&head, on("south/cluster")).unwrap();
    let first = desk.sent.clone();
    desk.restart(1_000);
    assert_eq!(desk.sent, first, "the very same call");
    desk.wait_until(6_000);
    assert_eq!(desk.sent, first);
    desk.told(6_100, "south", Ask::Submit, api::JobState::Waiting);
    desk.restart(7_000);
    assert_eq!(desk.said(), ["south Look"]);
    // The same call again is the same job, also when the reservation is long over.
    desk.put_by(&ada(), 300_000, &head, on("south/cluster")).unwrap();
    assert!(desk.sent.is_empty());
    desk.told(300_100, "south", Ask::Look, api::JobState::Done);
    assert!(desk.sent.is_empty(), "the reservation is its owner's: {:?}", desk.sent);
    desk.restart(301_000);
    assert!(desk.sent.is_empty() && desk.jobs.next_timer().is_none());
    assert!(desk.jobs.all[&ID].is_settled());
    assert_eq!(desk.shown().state, api::JobState::Done);
}

#[test]
fn a_cancelled_job_is_ended_at_the_site_and_the_reservation_stays() {
    let mut desk = Desk::new();
    desk.put(&booked(two_parts(), &[COMMITTED]), on("south/cluster")).unwrap();
    desk.told(100, "south", Ask::Submit, api::JobState::Waiting);
    let effects = desk.jobs.cancel(Moment(200), &ada(), ID).unwrap();
    desk.does(effects);
    assert_eq!(desk.said(), ["south Drop"]);
    desk.restart(300);
    assert_eq!(desk.said(), ["south Drop"]);
    desk.told(400, "south", Ask::Drop, api::JobState::Cancelled);
    assert_eq!((desk.shown().state, desk.sent.len()), (api::JobState::Cancelled, 0));
}

#[test]
fn what_the_site_refuses_could_not_start_for_the_reason_that_the_site_gives() {
    let mut desk = Desk::new();
    desk.put(&booked(two_parts(), &[COMMITTED]), on("south/cluster")).unwrap();
    let answer = |code| Err(api::Problem::new(code, "south says no"));
    let effects = desk.jobs.on_job(Moment(1), &"south".into(), (ID, Ask::Submit), answer(api::Code::Busy));
    desk.does(effects);
    assert_eq!(desk.shown().state, api::JobState::Placing, "it may take it a little later");
    let effects = desk.jobs.on_job(Moment(2), &"south".into(), (ID, Ask::Submit), answer(api::Code::Illegal));
    desk.does(effects);
    let over = desk.shown();
    assert_eq!((over.state, over.detail.as_deref()), (api::JobState::CouldNotStart, Some("south says no")));
    assert_eq!((over.reservation, desk.sent.len()), (Some(BOOKED), 0));
}

#[test]
fn what_the_site_had_and_knows_no_more_is_lost() {
    let mut desk = Desk::new();
    desk.put(&booked(two_parts(), &[COMMITTED]), on("south/cluster")).unwrap();
    desk.told(100, "south", Ask::Submit, api::JobState::Waiting);
    let gone = Err(api::Problem::new(api::Code::UnknownJob, "it is not known here"));
    let effects = desk.jobs.on_job(Moment(200), &"south".into(), (ID, Ask::Look), gone);
    desk.does(effects);
    assert_eq!(desk.shown().state, api::JobState::Lost);
}

#[test]
fn a_job_whose_site_stays_silent_until_it_would_have_forgotten_it_is_lost() {
    let mut desk = Desk::new();
    desk.put(&booked(two_parts(), &[COMMITTED]), on("south/cluster")).unwrap();
    let a_day_later = 1_000 * (WHEN.end.0 + rules().retention.0);
    desk.wait_until(a_day_later);
    assert_eq!(desk.said(), ["south Submit"], "it may still answer");
    desk.told(a_day_later, "south", Ask::Submit, api::JobState::Running);
    desk.wait_until(2 * a_day_later - 1_000 * WHEN.end.0);
    assert_eq!(desk.said(), ["south Look"], "a day has not passed since it answered");
    desk.wait_until(2 * a_day_later);
    let lost = desk.shown();
    assert_eq!((lost.state, lost.reservation), (api::JobState::Lost, Some(BOOKED)));
    assert!(lost.detail.unwrap().contains("has not said") && desk.sent.is_empty());
    assert!(desk.jobs.next_timer().is_none());
}

#[test]
fn a_job_of_a_journal_from_before_is_read_as_one_without_a_part() {
    let line = serde_json::json!({"Submitted": {
        "id": ID, "key": Key(1), "caller": ada(), "asked": flooded(), "at": Time(0)
    }});
    let event: Event = serde_json::from_value(line).unwrap();
    assert!(matches!(&event, Event::Submitted { part: None, .. }));
    let written = serde_json::to_string(&event).unwrap();
    assert!(!written.contains("part"), "{written}");
}
