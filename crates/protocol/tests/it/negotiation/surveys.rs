//! Why a survey found nothing: of all refusals for a part, the most informative one is returned.

use super::town::{name, part, together};
use bookahead_plan::placement::{Reason, Relaxation};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_protocol::broker::{Broker, Effects, Outgoing, Rules};
use bookahead_protocol::{
    Answer, Call, Caller, Condition, Envelope, Key, Millis, Moment, Name, Offer, Problem, Request,
    Reservation, ReservationId, Resource, Slot, State, Tres, Why,
};

const PEERS: [&str; 3] = ["east", "north", "west"];

fn broker(peers: &[&str]) -> Broker {
    let mut broker = Broker::new(Rules::default());
    for peer in peers {
        broker.register(name(peer), vec![Resource::new(peer, "cluster", "processors", 8)], None);
    }
    broker.resume(Moment(0));
    broker
}

fn probe(broker: &mut Broker, request: Request) -> Vec<Outgoing> {
    let call = Call::Probe { request, most: 1, starts: Vec::new() };
    let caller = Caller { user: name("ada"), roles: Vec::new() };
    broker.handle(Moment(0), &name("ada"), &Envelope { key: Key(1), caller, call }).send
}

fn one() -> Request {
    Request::single(part("processors", 4, 100, 200, 100))
}

fn refused(why: Why) -> Answer {
    Problem::new(why).into()
}

fn no_room() -> Why {
    Why::NoSlot(Reason::NoRoom)
}

/// With an answer that suggests alternatives.
fn advice() -> Answer {
    let relaxations = vec![Relaxation::Later(Seconds(60))];
    Problem { relaxations, ..Problem::new(no_room()) }.into()
}

/// The reply to the client, once all have answered or the time is up.
fn told(broker: &mut Broker, last: Effects) -> Problem {
    let replies = if last.replies.is_empty() { broker.tick(Moment(60_000)).replies } else { last.replies };
    match replies.as_slice() {
        [reply] => match &reply.answer {
            Answer::Problem(problem) => (**problem).clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

/// The reply if the peers answer this, in this order. None for a silent peer.
fn told_of(answers: &[Option<Answer>]) -> Problem {
    let mut broker = broker(&PEERS[..answers.len()]);
    let calls = probe(&mut broker, one());
    let mut last = Effects::default();
    for (call, answer) in calls.iter().zip(answers) {
        if let Some(answer) = answer {
            last = broker.on_answer(Moment(10), &call.to, call.envelope.key, answer);
        }
    }
    told(&mut broker, last)
}

#[test]
fn a_refusal_with_a_reason_wins_over_silence_and_over_haste() {
    for answers in [
        [Some(refused(no_room())), Some(refused(Why::Silence)), Some(refused(Why::Busy))],
        [Some(refused(Why::Silence)), Some(refused(no_room())), Some(refused(Why::Busy))],
        [Some(refused(Why::Busy)), Some(refused(Why::Silence)), Some(refused(no_room()))],
        [Some(refused(no_room())), None, Some(refused(Why::Silence))],
        [Some(refused(Why::Circle)), Some(refused(no_room())), None],
    ] {
        assert_eq!(told_of(&answers).why, no_room(), "{answers:?}");
    }
    let busy = [Some(refused(Why::Silence)), Some(refused(Why::Busy)), Some(refused(Why::Silence))];
    assert_eq!(told_of(&busy).why, Why::Busy);
    assert_eq!(told_of(&[Some(refused(Why::Silence)), None]).why, Why::Silence);
}

#[test]
fn what_passes_is_not_why_a_booking_is_refused_for_good() {
    let mut broker = broker(&["east"]);
    let (id, hold_for) = (ReservationId(1), Millis::seconds(9));
    let call = Call::Reserve { id, request: one(), hold_for, book: true };
    let caller = Caller { user: name("ada"), roles: Vec::new() };
    let envelope = Envelope { key: Key(1), caller, call };
    let calls = broker.handle(Moment(0), &name("ada"), &envelope).send;
    let answer = refused(Why::NoBatchSystem);
    let last = broker.on_answer(Moment(10), &calls[0].to, calls[0].envelope.key, &answer);
    assert_eq!(told(&mut broker, last).why, Why::Silence);
    let again = broker.handle(Moment(20), &name("ada"), &envelope);
    assert_eq!(told(&mut broker, again).why, Why::Silence, "this id is not tried again");
}

#[test]
fn what_passes_is_not_remembered_of_a_call_that_is_passed_on() {
    let mut broker = broker(&["east"]);
    let caller = Caller { user: name("ada"), roles: Vec::new() };
    let envelope = |key, call| Envelope { key: Key(key), caller: caller.clone(), call };
    let (id, hold_for) = (ReservationId(1), Millis::seconds(9));
    let book = envelope(1, Call::Reserve { id, request: one(), hold_for, book: true });
    let mut calls = broker.handle(Moment(0), &name("ada"), &book).send;
    while let Some(call) = calls.pop() {
        let answer = match &call.envelope.call {
            Call::Probe { .. } => offer(&call.to, &call),
            Call::Reserve { id, .. } => held(*id, State::Held, &call),
            Call::Commit { id, .. } => held(*id, State::Committed, &call),
            other => panic!("{other:?}"),
        };
        calls.extend(broker.on_answer(Moment(10), &call.to, call.envelope.key, &answer).send);
    }
    let extend = envelope(2, Call::Extend { id, version: None, end: Time(300) });
    for _ in 0..2 {
        let calls = broker.handle(Moment(20), &name("ada"), &extend).send;
        assert_eq!(calls.len(), 1, "the peer is asked each time");
        let last = broker.on_answer(Moment(30), &calls[0].to, calls[0].envelope.key, &refused(Why::Busy));
        assert_eq!(told(&mut broker, last).why, Why::Busy);
    }
}

/// The answer of a peer about a requested reservation.
fn held(id: ReservationId, state: State, call: &Outgoing) -> Answer {
    let interval = Interval::new(Time(100), Time(200));
    let Answer::Offers(offers) = offer_at(&call.to, interval, Capacity(4)) else { panic!("no offer") };
    Answer::Reservation(Reservation {
        id,
        owner: name("ada"),
        state,
        slots: offers[0].slots.clone(),
        held_for: Some(Millis::seconds(60)),
        jobs: Vec::new(),
        missing: Vec::new(),
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

#[test]
fn a_refusal_that_says_what_would_do_wins_over_all_others() {
    for answers in [
        [Some(advice()), Some(refused(no_room())), Some(refused(Why::Silence))],
        [Some(refused(Why::Silence)), Some(advice()), Some(refused(no_room()))],
    ] {
        assert_eq!(Answer::from(told_of(&answers)), advice());
    }
}

#[test]
fn who_would_only_ask_in_a_circle_has_nothing_and_is_not_silent() {
    let nothing = Why::no_such_resource(0, 1, name("processors"), None);
    assert_eq!(told_of(&[Some(refused(Why::Circle))]).why, nothing);
    assert_eq!(told_of(&[Some(refused(Why::Circle)), None]).why, Why::Silence);
}

#[test]
fn what_is_said_of_a_part_that_somebody_has_is_not_why_there_is_nothing() {
    let mut broker = broker(&["east", "north"]);
    let request = together(vec![part("processors", 4, 100, 200, 100), part("processors", 4, 300, 400, 100)]);
    let calls = probe(&mut broker, request);
    assert_eq!(calls.len(), 4, "each peer is probed for each part");
    let begins = |call: &Outgoing| match &call.envelope.call {
        Call::Probe { request, .. } => request.parts[0].wanted.earliest_start,
        other => panic!("{other:?}"),
    };
    let first = begins(&calls[0]);
    let mut last = Effects::default();
    for call in &calls {
        // The first part is available at one of the two; no peer answers for the second.
        let answer = match (begins(call) == first, call.to == name("north")) {
            (true, true) => offer(&call.to, call),
            (true, false) => advice(),
            (false, _) => refused(Why::Silence),
        };
        last = broker.on_answer(Moment(10), &call.to, call.envelope.key, &answer);
    }
    assert_eq!(told(&mut broker, last).why, Why::Silence);
}

fn offer(site: &Name, call: &Outgoing) -> Answer {
    let Call::Probe { request, .. } = &call.envelope.call else { panic!("{call:?}") };
    let wanted = request.parts[0].wanted;
    offer_at(site, Interval::new(wanted.earliest_start, wanted.latest_end), wanted.capacity)
}

fn offer_at(site: &Name, interval: Interval, capacity: Capacity) -> Answer {
    let slot = Slot {
        resource: name("cluster"),
        site: site.clone(),
        joins: None,
        interval,
        capacity,
        slack: Seconds(0),
        free: None,
        rating: None,
        impact: None,
        tres: Tres::default(),
        free_tres: Tres::default(),
        cost: 0,
    };
    Answer::Offers(vec![Offer { slots: vec![slot] }])
}

/// A broker over twenty sites that probes three of them first.
fn large_broker() -> Broker {
    let mut broker = Broker::new(Rules { probe_first: Some(3), maker: 7, ..Rules::default() });
    for at in 0..20 {
        let peer = format!("site{at:02}");
        broker.register(name(&peer), vec![Resource::new(&peer, "cluster", "processors", 8)], None);
    }
    broker.resume(Moment(0));
    broker
}

fn probe_with_key(broker: &mut Broker, key: u128, request: Request) -> Vec<Outgoing> {
    let call = Call::Probe { request, most: 1, starts: Vec::new() };
    let caller = Caller { user: name("ada"), roles: Vec::new() };
    broker.handle(Moment(0), &name("ada"), &Envelope { key: Key(key), caller, call }).send
}

#[test]
fn a_broker_that_probes_a_few_peers_first_asks_no_more_if_they_have_room_and_others_each_time() {
    let mut broker = large_broker();
    let mut asked = std::collections::BTreeSet::new();
    for key in 0..20 {
        let calls = probe_with_key(&mut broker, key, one());
        assert_eq!(calls.len(), 3);
        let mut replies = 0;
        for call in &calls {
            let effects = broker.on_answer(Moment(10), &call.to, call.envelope.key, &offer(&call.to, call));
            assert!(effects.send.is_empty(), "nobody else is asked");
            replies += effects.replies.len();
            asked.insert(call.to.clone());
        }
        assert_eq!(replies, 1);
    }
    assert!(asked.len() > 15, "requests are spread over the sites: {asked:?}");
}

#[test]
fn all_peers_are_probed_in_the_end_if_those_before_have_no_room() {
    let mut broker = large_broker();
    let mut rounds = Vec::new();
    let mut calls = probe_with_key(&mut broker, 1, one());
    let mut asked = std::collections::BTreeSet::new();
    let mut last = Effects::default();
    while !calls.is_empty() {
        rounds.push(calls.len());
        let mut next = Vec::new();
        for call in &calls {
            assert!(asked.insert(call.to.clone()), "{} is asked twice", call.to);
            last = broker.on_answer(Moment(10), &call.to, call.envelope.key, &refused(no_room()));
            next.extend(last.send.clone());
        }
        calls = next;
    }
    assert_eq!(rounds, [3, 6, 11]);
    assert_eq!(told(&mut broker, last).why, no_room());
}

#[test]
fn parts_whose_first_offers_do_not_match_are_looked_for_at_other_peers() {
    let mut broker = large_broker();
    let parts = vec![part("processors", 4, 100, 900, 100), part("processors", 8, 100, 900, 100)];
    let mut calls = probe_with_key(&mut broker, 1, together(parts));
    let (mut asked, mut replies) = (0, Vec::new());
    while let Some(call) = calls.pop() {
        asked += 1;
        let Call::Probe { request, .. } = &call.envelope.call else { panic!("{call:?}") };
        let wanted = request.parts[0].wanted;
        // The first ones have room for one part early and for the other late; all others at any time.
        let interval = match (asked, wanted.capacity) {
            (..13, Capacity(4)) => Interval::new(Time(100), Time(200)),
            (..13, _) => Interval::new(Time(300), Time(400)),
            _ => Interval::new(Time(500), Time(600)),
        };
        let answer = offer_at(&call.to, interval, wanted.capacity);
        let effects = broker.on_answer(Moment(10), &call.to, call.envelope.key, &answer);
        calls.extend(effects.send);
        replies.extend(effects.replies);
    }
    assert!(matches!(replies[0].answer, Answer::Offers(_)), "{replies:?}");
    assert!(asked > 12, "{asked}");
}
