//! Holding the parts of a candidate one after the other, up to the first refusal.

use super::town::{Town, name, part, reservation, together, why};
use bookahead_protocol::broker::{Broker, Rules};
use bookahead_protocol::deadline::Scheme;
use bookahead_protocol::{Call, Millis, Moment, Request, ReservationId, State, Why};

const PEERS: [&str; 4] = ["east", "north", "south", "west"];

fn town() -> Town {
    let mut town = Town::new();
    town.holding = Scheme::Sequential;
    PEERS.iter().for_each(|site| town.cluster(site, 8));
    town.broker("broker", &PEERS);
    town
}

/// Parts that fill a site each, so that all have to be at different sites.
fn wanted(parts: usize) -> Request {
    together(vec![part("processors", 8, 100, 200, 100); parts])
}

/// The calls of a negotiation after its probes, each as `word site`.
fn calls(town: &Town) -> Vec<String> {
    let of_broker = town.heard.iter().filter(|(from, _, word)| *from == name("broker") && *word != "probe");
    of_broker.map(|(_, to, word)| format!("{word} {to}")).collect()
}

/// Requests `parts` while west does not answer the survey. The caller then changes the sites before the survey ends.
fn surveyed(town: &mut Town, parts: usize) -> bookahead_protocol::Envelope {
    town.away.insert(name("west"));
    let (id, hold_for) = (ReservationId(1), Millis::seconds(30));
    let reserve = town.envelope(Call::Reserve { id, request: wanted(parts), hold_for, book: true });
    assert_eq!(town.send("broker", &reserve), None);
    reserve
}

fn booked_by_another(town: &mut Town, site: &str) {
    let request = Request::single(part("processors", 8, 100, 200, 100));
    reservation(town.reserve(site, 2, request, true));
}

#[test]
fn each_part_is_requested_when_the_one_before_is_held() {
    let mut town = town();
    // East does not answer a hold: nobody else is asked meanwhile.
    let reserve = surveyed(&mut town, 3);
    town.away.insert(name("east"));
    town.wait(6_000);
    assert_eq!(calls(&town), Vec::<String>::new());
    town.away.remove(&name("east"));
    town.wait(3_000);
    assert_eq!(reservation(town.send("broker", &reserve)).state, State::Committed);
    let in_order =
        ["reserve east", "reserve north", "reserve south", "commit east", "commit north", "commit south"];
    assert_eq!(calls(&town), in_order);
    assert!(town.head("broker").is_settled());
}

#[test]
fn after_a_refusal_only_what_is_held_is_cancelled_and_no_further_peer_is_asked() {
    let mut town = town();
    let reserve = surveyed(&mut town, 3);
    booked_by_another(&mut town, "north");
    town.wait(6_000);
    // East is held, north refuses, south is not asked. With west silent, there is no other candidate.
    assert_eq!(calls(&town)[..3], ["reserve east", "reserve north", "cancel east"]);
    assert!(matches!(why(town.send("broker", &reserve)), Why::NoCandidate { .. }));
    assert_eq!((town.states("east").pop(), town.states("south")), (Some(State::Cancelled), vec![]));
    assert!(town.head("broker").is_settled(), "the parts that nobody was asked for need no release");
}

#[test]
fn a_refusal_of_the_first_part_leaves_nothing_to_cancel() {
    let mut town = town();
    let reserve = surveyed(&mut town, 2);
    booked_by_another(&mut town, "east");
    town.wait(6_000);
    assert_eq!(reservation(town.send("broker", &reserve)).state, State::Committed);
    let in_order = ["reserve east", "reserve north", "reserve south", "commit north", "commit south"];
    assert_eq!(calls(&town), in_order);
    assert!(town.head("broker").is_settled());
}

#[test]
fn a_request_that_is_cancelled_half_held_leaves_nothing() {
    let mut town = town();
    surveyed(&mut town, 3);
    town.away.insert(name("north"));
    town.wait(6_000);
    assert_eq!(town.states("east"), [State::Held]);
    town.call("broker", Call::Cancel { id: ReservationId(1) });
    assert_eq!((town.states("east"), town.heard("south", "cancel")), (vec![State::Cancelled], 0));
    town.away.clear();
    town.wait(60_000);
    assert!(town.head("broker").is_settled() && PEERS.iter().all(|site| !stands(&town, site)));
}

/// Whether a site has anything that is held, committed or running.
fn stands(town: &Town, site: &str) -> bool {
    town.states(site).iter().any(|state| !state.is_over())
}

#[test]
fn all_or_nothing_if_the_broker_crashes_after_any_message() {
    let mut whole = 0;
    for letters in 0.. {
        let mut town = town();
        town.letters_left = Some(letters);
        let reserve = Call::Reserve {
            id: ReservationId(1),
            request: wanted(4),
            hold_for: Millis::seconds(30),
            book: true,
        };
        let reserve = town.envelope(reserve);
        let done = town.send("broker", &reserve).is_some();
        town.letters_left = None;
        town.restart("broker", &PEERS, 100);
        town.wait(60_000);
        let committed = PEERS.iter().filter(|site| town.states(site).contains(&State::Committed)).count();
        assert!(committed == 0 || committed == 4, "{committed} after {letters} messages");
        assert!(committed == 4 || PEERS.iter().all(|site| !stands(&town, site)), "{letters}");
        assert!(town.head("broker").is_settled(), "{letters}");
        whole += usize::from(committed == 4);
        if done {
            break;
        }
    }
    assert!(whole > 1, "decisions are finished after a crash");
}

#[test]
fn the_first_part_is_held_for_as_long_as_all_others_may_take() {
    for (holding, longest, trips) in [(Scheme::Sequential, 30, 4), (Scheme::Parallel, 10, 2)] {
        let mut broker = Broker::new(Rules { holding, ..Rules::default() });
        let mut town = town();
        let sites = ["east", "north", "south"];
        sites.iter().for_each(|site| broker.register(name(site), town.offers(site), None));
        broker.resume(Moment(0));
        let (id, hold_for) = (ReservationId(1), Millis::seconds(5));
        let reserve = town.envelope(Call::Reserve { id, request: wanted(3), hold_for, book: false });
        let mut effects = broker.handle(Moment(0), &name("ada"), &reserve);
        for probe in effects.send.clone() {
            let offers = town.send(probe.to.as_str(), &probe.envelope).unwrap();
            effects = broker.on_answer(Moment(100), &probe.to, probe.envelope.key, &offers);
        }
        let Call::Reserve { hold_for, .. } = effects.send[0].envelope.call else { panic!("{effects:?}") };
        assert_eq!(hold_for, Millis(5_000 + longest * 1_000 + trips * 100), "{holding:?}");
    }
}
