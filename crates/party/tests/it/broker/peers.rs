//! The register: which peers are admitted, which resources are offered, and the broker's own hold time.

use super::desk::{Desk, broker, heartbeat, job_rules, name, site};
use bookahead_party::broker::Broker;
use bookahead_party::queries::BatchState;
use bookahead_party::{Heartbeat, Input, OfferedResource, Party, Queries, Role};
use bookahead_protocol::broker::Rules;
use bookahead_protocol::problem::Why;
use bookahead_protocol::{Millis, Moment, Resource};
use std::collections::BTreeSet;

fn offered(desk: &Desk) -> Vec<String> {
    desk.broker.resources().iter().map(|resource| resource.name.to_string()).collect()
}

#[test]
fn what_peers_offer_is_offered_by_names_that_begin_with_theirs() {
    let mut desk = Desk::with(&["north", "south"]);
    assert_eq!(desk.remarks(), ["peer_up"]);
    assert_eq!(offered(&desk), ["north/cluster", "south/cluster"]);
    let sites = desk.broker.sites(Moment(5_000));
    let itself = &sites[0].said;
    assert_eq!((itself.name.as_str(), itself.role, itself.resources.len()), ("grid", Role::Broker, 2));
    assert_eq!(itself.resources[0].through, [name("grid-1")], "resources name the brokers on the way");
    let known: Vec<(&str, bool)> = sites[1..].iter().map(|site| (site.said.name.as_str(), site.up)).collect();
    assert_eq!(known, [("north", true), ("south", true)]);
    desk.step(6_000, Input::Silent { peer: name("north") });
    assert_eq!((desk.remarks(), offered(&desk)), (vec!["peer_silent"], vec!["south/cluster".to_owned()]));
    desk.step(7_000, Input::Silent { peer: name("north") });
    assert!(desk.out.is_empty(), "that is known");
}

#[test]
fn a_peer_that_is_silent_when_it_is_asked_counts_as_up_only_when_it_answers_again() {
    let mut desk = Desk::with(&["north"]);
    desk.step(0, Input::Silent { peer: name("north") });
    desk.hears(1_000, site("north", 0)).unwrap();
    assert!(offered(&desk).is_empty(), "whatever it says of itself");
    desk.hears_in(2_000, site("north", 0), Some(12)).unwrap();
    assert_eq!((offered(&desk).len(), desk.remarks()), (1, vec!["peer_up"]));
    assert_eq!(desk.broker.sites(Moment(0))[1].round_trip, Some(Millis(12)));
    desk.hears(3_000, site("north", 0)).unwrap();
    assert_eq!(desk.broker.sites(Moment(0))[1].round_trip, Some(Millis(12)), "as of late");
}

#[test]
fn what_is_reached_through_the_broker_itself_is_not_offered_and_its_own_address_is_no_peers() {
    let mut desk = Desk::new();
    let through = |brokers: &[&str]| OfferedResource {
        resource: Resource::new("far", &brokers.join("/"), "processors", 8),
        through: brokers.iter().map(|broker| name(broker)).collect(),
    };
    let other = Heartbeat {
        role: Role::Broker,
        resources: vec![through(&["other", "grid-1"]), through(&["other"]), through(&["b"; 8])],
        ..heartbeat("other", Vec::new())
    };
    desk.hears(0, other).unwrap();
    assert_eq!(offered(&desk), ["other/other"], "not in a circle, and not further than calls go");
    assert_eq!(desk.broker.sites(Moment(0))[0].said.resources[0].through, [name("grid-1"), name("other")]);
    let mirror = Heartbeat { url: "http://grid/".to_owned(), ..heartbeat("mirror", Vec::new()) };
    let why = desk.hears(0, mirror).unwrap_err().why;
    assert!(why.to_string().contains("is the address of this broker itself"), "{why}");
    let itself = Box::new(heartbeat("grid", Vec::new()));
    desk.step(0, Input::Heard { call: None, heartbeat: itself, round_trip: Some(1) });
    assert_eq!(desk.remarks(), ["peer_refused"], "there is no caller to answer");
}

#[test]
fn where_a_broker_is_not_open_only_those_that_are_named_may_register() {
    let about = heartbeat("grid", Vec::new());
    let named = BTreeSet::from([name("north")]);
    let mut desk = Desk::new();
    desk.broker = Broker::new(Rules::default(), job_rules(), about, name("grid-1"), named, false);
    desk.hears(0, site("north", 0)).unwrap();
    let why = desk.hears(0, site("south", 0)).unwrap_err().why;
    assert!(matches!(&why, Why::NotAdmittedAsPeer(text) if text.contains("not a peer")), "{why:?}");
    assert_eq!(offered(&desk), ["north/cluster"]);
}

#[test]
fn a_hold_takes_the_broker_as_long_as_its_slowest_peer_and_two_trips_there() {
    let mut desk = Desk::with(&["quiet"]);
    let told = |desk: &Desk| desk.broker.sites(Moment(0))[0].said.hold_takes;
    assert_eq!(told(&desk), None, "no peer tells");
    let takes = |name: &str, takes: i64| Heartbeat { hold_takes: Some(Millis(takes)), ..site(name, 0) };
    desk.hears_in(0, takes("north", 3), Some(1)).unwrap();
    assert_eq!(told(&desk), Some(Millis(3 + 2 + 50)));
    desk.hears_in(0, takes("south", 4_000), Some(100)).unwrap();
    assert_eq!(told(&desk), Some(Millis(4_000 + 200 + 50)));
    assert_eq!(desk.broker.head().hold_time(&name("south")), Millis(3 * 4_000 + 2_000));
    assert_eq!(desk.broker.head().hold_time(&name("quiet")), Millis(10_000), "as configured");
    desk.step(0, Input::Silent { peer: name("south") });
    assert_eq!(told(&desk), Some(Millis(3 + 2 + 50)));
}

#[test]
fn a_broker_shows_whether_the_batch_systems_of_its_sites_answer() {
    let mut desk = Desk::with(&["plain"]);
    let told = |desk: &Desk| {
        let sites = desk.broker.sites(Moment(0));
        sites.into_iter().find(|known| known.said.name == name("north")).unwrap().said.batch
    };
    for batch in [Some(BatchState::Ok), Some(BatchState::Silent), None] {
        desk.hears(0, Heartbeat { batch, ..site("north", 0) }).unwrap();
        assert_eq!(told(&desk), batch);
    }
}

#[test]
fn a_copy_for_readers_learns_of_peers_by_facts() {
    let desk = Desk::with(&["north"]);
    let mut reader = broker().read_copy();
    let (number, facts) = desk.broker.facts();
    assert!(number > 0);
    reader.set_facts(facts);
    assert_eq!(reader.sites(Moment(0)), desk.broker.sites(Moment(0)));
    assert_eq!(reader.resources(), desk.broker.resources());
}
