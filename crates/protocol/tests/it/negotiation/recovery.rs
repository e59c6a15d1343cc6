//! A broker that crashes and restarts from its journal, at every step of a negotiation.

use super::town::{Town, name, part, reservation, together, why};
use bookahead_protocol::broker::{Broker, Rules};
use bookahead_protocol::{Call, Millis, Request, ReservationId, State, Why};

const PEERS: [&str; 2] = ["north", "south"];

fn town() -> Town {
    let mut town = Town::new();
    town.cluster("north", 8);
    town.cluster("south", 8);
    town.broker("broker", &PEERS);
    town
}

fn pair() -> Request {
    together(vec![part("processors", 6, 300, 1_000, 100), part("processors", 6, 300, 1_000, 100)])
}

#[test]
fn what_was_only_tried_is_given_back_and_its_owner_told() {
    let mut town = town();
    town.away.insert(name("south"));
    let reserve = Call::Reserve {
        id: ReservationId(1),
        request: Request::single(part("processors", 6, 100, 200, 100)),
        hold_for: Millis::seconds(30),
        book: true,
    };
    let envelope = town.envelope(reserve);
    town.send("broker", &envelope);
    // The survey ends without south; north is asked to hold, and its answer is lost with the broker.
    town.away.insert(name("broker"));
    town.wait(5_500);
    assert_eq!(town.states("north"), [State::Held]);
    town.away.clear();
    town.restart("broker", &PEERS, 100);
    assert_eq!(town.states("north"), [State::Cancelled]);
    assert_eq!(why(town.send("broker", &envelope)), Why::Interrupted);
    assert!(town.head("broker").is_settled());
}

#[test]
fn what_was_held_and_acknowledged_can_be_committed_after_a_crash() {
    let mut town = town();
    reservation(town.reserve("broker", 1, pair(), false));
    town.restart("broker", &PEERS, 100);
    assert_eq!(reservation(town.commit("broker", 1)).state, State::Committed);
    assert_eq!(
        (town.states("north"), town.states("south")),
        (vec![State::Committed], vec![State::Committed])
    );
}

#[test]
fn a_hold_still_expires_after_a_crash() {
    let mut town = town();
    reservation(town.reserve("broker", 1, pair(), false));
    town.restart("broker", &PEERS, 100);
    town.wait(40_000);
    assert_eq!(why(town.commit("broker", 1)), Why::Expired);
    assert_eq!(town.states("north"), [State::Cancelled]);
}

#[test]
fn what_was_decided_is_finished_after_a_crash() {
    let mut town = town();
    reservation(town.reserve("broker", 1, pair(), false));
    town.away.insert(name("south"));
    let commit = town.envelope(Call::Commit { id: ReservationId(1), jobs: vec![] });
    assert_eq!(town.send("broker", &commit), None, "one part is committed, the other does not answer");
    assert_eq!((town.states("north"), town.states("south")), (vec![State::Committed], vec![State::Held]));
    town.away.clear();
    town.restart("broker", &PEERS, 100);
    assert_eq!(reservation(town.send("broker", &commit)).state, State::Committed);
    assert_eq!(town.states("south"), [State::Committed]);
}

#[test]
fn what_was_decided_and_cannot_be_finished_is_undone_and_reported() {
    let mut town = town();
    reservation(town.reserve("broker", 1, pair(), false));
    town.away.insert(name("south"));
    let commit = town.envelope(Call::Commit { id: ReservationId(1), jobs: vec![] });
    town.send("broker", &commit);
    town.wait(90_000);
    assert_eq!(town.states("south"), [State::Expired], "its hold has evaporated");
    town.away.clear();
    town.wait(60_000);
    assert_eq!(why(town.send("broker", &commit)), Why::PartLost);
    assert_eq!(
        (town.states("north"), town.states("south")),
        (vec![State::Cancelled], vec![State::Cancelled])
    );
    assert!(town.head("broker").is_settled());
}

#[test]
fn a_commit_that_is_never_answered_is_undone_when_the_first_part_begins() {
    let mut town = town();
    reservation(town.reserve("broker", 1, pair(), false));
    town.away.insert(name("south"));
    let commit = town.envelope(Call::Commit { id: ReservationId(1), jobs: vec![] });
    town.send("broker", &commit);
    town.wait(299_000);
    assert_eq!(town.states("north"), [State::Committed]);
    town.wait(2_000);
    assert!(
        !town.states("north").contains(&State::Committed) && !town.states("north").contains(&State::Active)
    );
    assert!(!town.head("broker").is_settled(), "south may not know yet");
    town.away.clear();
    town.wait(120_000);
    assert!(town.head("broker").is_settled());
}

#[test]
fn the_bookings_of_a_broker_are_the_fold_of_its_events() {
    let mut town = town();
    reservation(town.reserve("broker", 1, pair(), false));
    reservation(town.commit("broker", 1).or_else(|| town.commit("broker", 1)));
    town.reserve("broker", 2, pair(), false);
    town.call("broker", Call::Cancel { id: ReservationId(3) });
    town.wait(40_000);
    town.call("broker", Call::Cancel { id: ReservationId(1) });
    let (live, journal) = &town.brokers[&name("broker")];
    let mut replayed = Broker::new(Rules { maker: 100, ..Rules::default() });
    journal.iter().for_each(|event| replayed.apply(event));
    let shown = |broker: &Broker| {
        broker
            .bookings()
            .map(|booking| (booking.id, booking.state, booking.outcome.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&replayed), shown(live));
    assert_eq!(shown(live).len(), 2);
    assert_eq!(replayed.snapshot(), live.snapshot(), "including ids cancelled before they were reserved");
}

#[test]
fn what_is_written_down_can_be_read_again() {
    let mut town = town();
    reservation(town.reserve("broker", 1, pair(), false));
    reservation(town.commit("broker", 1));
    town.reserve("broker", 2, Request::single(part("processors", 8, 300, 400, 100)), false);
    town.reserve("broker", 3, Request::single(part("qpu", 1, 300, 400, 100)), false);
    town.wait(40_000);
    town.call("broker", Call::Cancel { id: ReservationId(1) });
    let (_, journal) = &town.brokers[&name("broker")];
    for event in journal {
        let text = serde_json::to_string(event).unwrap();
        assert_eq!(
            serde_json::from_str::<bookahead_protocol::broker::Event>(&text).unwrap(),
            *event,
            "{text}"
        );
    }
    for event in &town.written {
        let text = serde_json::to_string(event).unwrap();
        assert_eq!(
            serde_json::from_str::<bookahead_protocol::ledger::Event>(&text).unwrap(),
            *event,
            "{text}"
        );
    }
    assert!(journal.len() > 10 && town.written.len() > 10);
}
