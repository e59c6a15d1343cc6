//! Calls about reservations: calls to peers, replies, notices and published data.

use super::desk::{Desk, ada, caller, name};
use bookahead_party::broker::BrokerEvent;
use bookahead_party::schedule::{BlockKind, ScheduleWindow};
use bookahead_party::{Filter, Input, Origin, Party, PeerRequest, Queries, Viewer};
use bookahead_plan::placement::Request as Wanted;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{
    Answer, Call, Condition, Envelope, Key, Millis, Moment, Name, Offer, OnLoss, Part, Request, Reservation,
    ReservationId, Slot, State, Tres,
};

pub(super) const ID: ReservationId = ReservationId(0xb00c);
const WINDOW: ScheduleWindow =
    ScheduleWindow { interval: Interval { begin: Time(0), end: Time(1_000) }, pixels: None };

/// Lost parts of it are not replaced.
fn request() -> Request {
    let wanted = Wanted {
        earliest_start: Time(100),
        latest_end: Time(200),
        duration: Seconds(100),
        capacity: Capacity(4),
    };
    Request { on_loss: OnLoss::Keep, ..Request::single(Part::new(wanted, "processors")) }
}

pub(super) fn reserve(id: ReservationId) -> Call {
    Call::Reserve { id, request: request(), hold_for: Millis::seconds(30), book: false }
}

fn slot(site: &Name) -> Slot {
    Slot {
        resource: "cluster".into(),
        site: site.clone(),
        joins: None,
        interval: Interval { begin: Time(100), end: Time(200) },
        capacity: Capacity(4),
        slack: Seconds(0),
        free: None,
        rating: None,
        impact: None,
        tres: Tres::default(),
        free_tres: Tres::default(),
        cost: 0,
    }
}

/// The answer of a site with room to a call.
pub(super) fn granted(site: &Name, envelope: &Envelope) -> Answer {
    let state = match &envelope.call {
        Call::Probe { .. } => return Answer::Offers(vec![Offer { slots: vec![slot(site)] }]),
        Call::Reserve { .. } => State::Held,
        Call::Commit { .. } => State::Committed,
        _ => State::Cancelled,
    };
    Answer::Reservation(Reservation {
        id: envelope.call.id().unwrap(),
        owner: name("ada"),
        state,
        slots: vec![slot(site)],
        held_for: Some(Millis::seconds(60)),
        jobs: Vec::new(),
        missing: vec![Capacity(0)],
        condition: Condition::Whole,
        losses: Vec::new(),
        replaced: Vec::new(),
        given_up: None,
        refused: None,
        prepared: Vec::new(),
        version: 1,
        description: Default::default(),
        shared_with: Default::default(),
        consents: Default::default(),
        created: None,
        request: None,
    })
}

/// The site grants the last request.
pub(super) fn grant(desk: &mut Desk, at: i64) {
    let call = desk.out.calls[0].clone();
    let PeerRequest::Call(envelope) = call.request else { panic!("{call:?}") };
    let (from, key, answer) = (call.to.clone(), envelope.key, granted(&call.to, &envelope));
    desk.step(at, Input::Answered { from, key, answer, origin: call.origin });
}

/// A hold granted by north.
pub(super) fn held() -> Desk {
    let mut desk = Desk::with(&["north"]);
    desk.call(0, 1, reserve(ID));
    assert_eq!(desk.said(), ["north probe"]);
    grant(&mut desk, 10);
    assert_eq!(desk.said(), ["north reserve"]);
    grant(&mut desk, 20);
    desk
}

fn problem(answer: &Answer) -> &Why {
    match answer {
        Answer::Problem(problem) => &problem.why,
        other => panic!("{other:?}"),
    }
}

/// A committed booking at north.
pub(super) fn committed() -> Desk {
    let mut desk = held();
    desk.call(30, 2, Call::Commit { id: ID, jobs: Vec::new() });
    grant(&mut desk, 40);
    assert_eq!(desk.answer().word(), "committed");
    desk
}

#[test]
fn a_booking_is_held_committed_and_told_as_a_site_tells_it() {
    let mut desk = held();
    assert_eq!(desk.answer().word(), "held");
    let (place, notice) = &desk.out.notices[0];
    assert_eq!((notice.kind, notice.id, notice.state), ("held", Some(ID), Some(State::Held)));
    assert_eq!((notice.at, notice.owner.clone()), (Moment(20), Some(name("ada"))));
    assert!(matches!(&desk.out.events[*place], BrokerEvent::Booking(event) if event.word() == "held"));
    desk.call(30, 2, Call::Commit { id: ID, jobs: Vec::new() });
    grant(&mut desk, 40);
    assert_eq!(desk.answer().word(), "committed");
    desk.wait_until(100_000);
    desk.call(110_000, 3, Call::Cancel { id: ID });
    let kinds: Vec<&str> = desk.out.notices.iter().map(|(_, notice)| notice.kind).collect();
    assert_eq!(kinds, ["terminated"], "it had begun");
}

#[test]
fn a_key_belongs_to_one_booking_also_after_a_restart_and_while_a_call_is_under_way() {
    let mut desk = held();
    desk.call(30, 1, reserve(ReservationId(2)));
    assert_eq!(problem(desk.answer()), &Why::KeyTaken(Key(1)));
    desk.restart(40);
    desk.call(50, 1, reserve(ReservationId(2)));
    assert_eq!(problem(desk.answer()), &Why::KeyTaken(Key(1)));
    let mut desk = Desk::with(&["north"]);
    desk.call(0, 1, reserve(ID));
    desk.call(0, 1, reserve(ReservationId(2)));
    assert_eq!(problem(desk.answer()), &Why::KeyTaken(Key(1)), "its answer is not there yet");
}

#[test]
fn everybody_who_repeats_a_call_while_it_is_under_way_gets_its_answer() {
    let mut desk = Desk::with(&["north"]);
    desk.call(0, 1, reserve(ID));
    let probe = desk.out.calls.clone();
    desk.call(5, 1, reserve(ID));
    assert!(desk.out.calls.is_empty());
    desk.out.calls = probe;
    grant(&mut desk, 10);
    grant(&mut desk, 20);
    assert_eq!(desk.out.replies.len(), 2);
    assert!(desk.out.replies.iter().all(|(_, reply)| reply == desk.reply()));
}

#[test]
fn calls_to_peers_tell_through_whom_the_call_came_also_when_they_are_repeated() {
    let mut desk = Desk::with(&["north"]);
    let origin = Origin { trace: Some("00-1-2-01".into()), via: vec![name("far")].into() };
    let envelope = Envelope { key: Key(1), caller: ada(), call: reserve(ID) };
    let call = desk.call_id();
    desk.step(0, Input::Call { call, envelope, origin: origin.clone() });
    assert_eq!(desk.out.calls[0].origin, origin);
    desk.wait_until(1_000);
    assert_eq!((desk.said(), &desk.out.calls[0].origin), (vec!["north probe".to_owned()], &origin));
    grant(&mut desk, 1_100);
    assert_eq!((desk.said(), &desk.out.calls[0].origin), (vec!["north reserve".to_owned()], &origin));
}

#[test]
fn what_is_only_tried_takes_no_room_in_schedules() {
    let mut desk = Desk::with(&["north"]);
    desk.call(0, 1, reserve(ID));
    grant(&mut desk, 10);
    let viewer = Viewer::new(name("ada"), false);
    let blocks = |desk: &Desk, viewer: &Viewer| {
        let schedule = desk.broker.schedule(Moment(0), viewer, &WINDOW, None);
        assert_eq!((schedule.len(), schedule[0].resource.as_str()), (1, "north/cluster"));
        schedule[0].blocks.clone()
    };
    assert_eq!(desk.broker.reservation(Moment(0), ID).unwrap().state, State::Requested);
    assert!(blocks(&desk, &viewer).is_empty());
    grant(&mut desk, 20);
    let [block] = &blocks(&desk, &viewer)[..] else { panic!() };
    assert_eq!((block.kind, block.span.capacity), (BlockKind::Hold, Capacity(4)));
    assert_eq!(block.reservation, Some((ID, name("ada"), State::Held)));
    let other = Viewer::new(name("bob"), false);
    assert_eq!(blocks(&desk, &other)[0].reservation, None);
    assert!(desk.broker.schedule(Moment(0), &viewer, &WINDOW, Some(&name("other"))).is_empty());
}

#[test]
fn bookings_are_listed_shown_and_counted_and_a_copy_for_readers_does_the_same() {
    let mut desk = Desk::with(&["north"]);
    let mut reader = desk.broker.read_copy();
    let mut follow = |desk: &Desk| {
        let shown =
            desk.out.events.iter().filter(|event| <bookahead_party::Broker as Party>::is_shown(event));
        shown.for_each(|event| reader.apply(event));
    };
    for number in 1..=3 {
        desk.call(0, number, reserve(ReservationId(number)));
        follow(&desk);
        for at in [10, 20] {
            grant(&mut desk, at);
            follow(&desk);
        }
    }
    desk.call(30, 9, Call::Cancel { id: ReservationId(2) });
    follow(&desk);
    reader.set_facts(desk.broker.facts().1);
    let filter = Filter { limit: 2, ..Filter::default() };
    let page = desk.broker.list(Moment(40), &filter);
    assert_eq!((page.reservations.len(), page.total), (2, 3));
    assert_eq!(reader.list(Moment(40), &filter), page);
    let after = Filter { after: page.next, ..filter };
    let rest = reader.list(Moment(40), &after);
    assert_eq!((rest.reservations[0].id, rest.next, rest.total), (ReservationId(3), None, 3));
    assert_eq!(desk.broker.counts(), [(State::Held, 2), (State::Cancelled, 1)].into());
    assert_eq!(reader.counts(), desk.broker.counts());
    let show = Call::Show { id: ReservationId(1) };
    let shown = reader.ask(Moment(40), &ada(), &show).unwrap();
    assert_eq!(Some(shown), desk.broker.ask(Moment(40), &ada(), &show));
    let others = reader.ask(Moment(40), &caller("bob"), &show).unwrap();
    assert_eq!(problem(&others), &Why::NotOwner(ReservationId(1)));
    let probe = Call::Probe { request: request(), most: 1, starts: Vec::new() };
    assert_eq!(reader.ask(Moment(40), &ada(), &probe), None, "peers have to be asked");
    assert!(!<bookahead_party::Broker as Party>::is_shown(&answered(&desk)));
}

/// An event that contains an answer.
fn answered(desk: &Desk) -> BrokerEvent {
    let line = desk.journal.iter().find(|line| line.contains("\"Answered\"")).unwrap();
    serde_json::from_str(line).unwrap()
}

#[test]
fn a_state_stands_for_all_events_before_it() {
    let mut desk = held();
    let state = serde_json::to_string(&desk.broker.state()).unwrap();
    let mut restored = super::desk::broker();
    restored.restore(serde_json::from_str(&state).unwrap()).unwrap();
    assert_eq!(restored.state(), desk.broker.state());
    restored.start(Moment(100)).unwrap();
    desk.broker = restored;
    desk.call(110, 1, reserve(ReservationId(2)));
    assert_eq!(problem(desk.answer()), &Why::KeyTaken(Key(1)), "keys are known by it too");
}
