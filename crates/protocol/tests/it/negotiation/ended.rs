//! What a broker remembers of bookings that are over is bounded, for each user and over all.

use super::town::{Town, part, reservation, together, why};
use bookahead_protocol::broker::{Booking, Bounds, Broker, Event, Rules};
use bookahead_protocol::per_user::Most;
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, Key, Millis, Request, Requirement, ReservationId, State, Test, Value,
};

/// Two parts with some 10,000 bytes of requirements, which all sites meet.
fn large() -> Request {
    let other = Value::Text("x".repeat(200).as_str().into());
    let sites = ["north", "south"].map(|site| Value::Text(site.into())).into_iter().chain(vec![other; 50]);
    let mut one = part("processors", 6, 100, 1_000, 100);
    one.requirements = vec![Requirement { attribute: "site".into(), test: Test::OneOf(sites.collect()) }];
    together(vec![part("processors", 6, 100, 1_000, 100), one])
}

fn by(user: &str, key: u128, call: Call) -> Envelope {
    Envelope { key: Key(key), caller: Caller { user: user.into(), roles: vec![] }, call }
}

fn reserve(id: u128, request: Request) -> Call {
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis::seconds(30), book: false }
}

fn whole(booking: &Booking) -> bool {
    booking.asked.as_ref().is_some_and(|asked| asked.refused.is_none())
}

/// Replays events with these bounds, half of them through a snapshot.
fn replayed(events: &[Event], bounds: Bounds) -> Broker {
    let rules = Rules { maker: 100, bounds, ..Rules::default() };
    let mut plain = Broker::new(rules.clone());
    let (first, rest) = events.split_at(events.len() / 2);
    first.iter().for_each(|event| plain.apply(event));
    let mut restored = Broker::restore(rules, plain.snapshot());
    let mut copy = plain.read_copy();
    for event in rest {
        [&mut plain, &mut restored].into_iter().for_each(|broker| broker.apply(event));
        // As for readers.
        if !matches!(event, Event::Answered { .. }) {
            copy.apply(event);
        }
    }
    assert!(restored.bookings().eq(plain.bookings()), "a restart changes nothing");
    let known = |broker: &Broker| -> Vec<_> {
        broker.bookings().map(|booking| (booking.id, booking.state, whole(booking))).collect()
    };
    assert_eq!(known(&copy), known(&plain), "readers see the same");
    plain
}

#[test]
fn bookings_made_and_cancelled_without_end_are_remembered_within_bounds_and_those_of_others_stay() {
    let mut town = Town::new();
    town.cluster("north", 8);
    town.cluster("south", 8);
    town.broker("broker", &["north", "south"]);
    reservation(town.send("broker", &by("ada", 1, reserve(1, large()))));
    town.send("broker", &by("ada", 2, Call::Cancel { id: ReservationId(1) }));
    for id in 10..60 {
        let held = reservation(town.send("broker", &by("eve", 100 + 2 * id, reserve(id, large()))));
        assert_eq!(held.state, State::Held);
        town.send("broker", &by("eve", 101 + 2 * id, Call::Cancel { id: ReservationId(id) }));
    }
    reservation(town.send("broker", &by("eve", 3, reserve(60, large()))));
    let (head, events) = &town.brokers[&"broker".into()];
    assert_eq!(head.bookings().filter(|booking| whole(booking)).count(), 52, "all, within the usual bounds");
    let most = |each| Most { each, all: 4 * each };
    let bounds =
        Bounds { ended: most(60_000), requests: most(100_000), answers: most(20_000), ..Bounds::default() };
    let broker = replayed(events, bounds);
    assert!(broker.booking(ReservationId(1)).is_some_and(whole), "ada has few");
    assert_eq!(broker.booking(ReservationId(60)).map(|booking| booking.state), Some(State::Held));
    let of_eve = || broker.bookings().filter(|booking| booking.id.0 >= 10 && booking.state.is_over());
    let (remembered, with_request) = (of_eve().count(), of_eve().filter(|booking| whole(booking)).count());
    assert!((5..20).contains(&remembered), "{remembered}");
    assert!((2..remembered).contains(&with_request), "{with_request} of {remembered}");
    assert!(of_eve().all(|booking| booking.id.0 > 40), "the newest");
    assert_eq!(broker.answered_about(Key(101 + 2 * 59)), Some(ReservationId(59)));
    assert_eq!(broker.answered_about(Key(101 + 2 * 10)), None, "its keys are dropped, too");
}

#[test]
fn a_booking_of_which_a_digest_is_left_recognises_its_request() {
    let mut town = Town::new();
    town.cluster("north", 8);
    town.cluster("south", 8);
    town.broker("broker", &["north", "south"]);
    reservation(town.send("broker", &by("eve", 1, reserve(1, large()))));
    town.send("broker", &by("eve", 2, Call::Cancel { id: ReservationId(1) }));
    town.wait(1);
    let events = town.brokers[&"broker".into()].1.clone();
    for id in 2..=4 {
        reservation(town.send("broker", &by("eve", 10 * id, reserve(id, large()))));
        town.send("broker", &by("eve", 10 * id + 1, Call::Cancel { id: ReservationId(id) }));
    }
    let most = Most { each: 30_000, all: 1_000_000 };
    let all = &town.brokers[&"broker".into()].1;
    assert!(events.len() < all.len());
    let broker = replayed(all, Bounds { requests: most, ..Bounds::default() });
    assert!(!broker.booking(ReservationId(1)).is_some_and(whole));
    town.brokers.get_mut(&"broker".into()).unwrap().0 = broker;
    assert_eq!(reservation(town.send("broker", &by("eve", 90, reserve(1, large())))).state, State::Cancelled);
    let other = reserve(1, together(vec![part("processors", 1, 100, 1_000, 100)]));
    assert_eq!(why(town.send("broker", &by("eve", 91, other))).code(), "id-taken");
    assert!(matches!(
        town.send("broker", &by("eve", 92, Call::Show { id: ReservationId(1) })),
        Some(Answer::Reservation(_))
    ));
}
