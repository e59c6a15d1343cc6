//! Priority classes through brokers, at a site with waiting jobs: a class counts for everything that is asked of a site.

use super::town::{Town, name, offered, part, reservation, together};
use bookahead_plan::policy::Waiting;
use bookahead_plan::{Capacity, Owner, Seconds, Time};
use bookahead_protocol::ledger::{Class, Priorities, Rules, View, Views};
use bookahead_protocol::{Answer, Call, Description, Request, Reservation, ReservationId, Resource, Why};
use std::collections::BTreeMap;

/// Whom to ask: a site, its broker, and a broker of that.
const ALL: [&str; 3] = ["north", "broker", "top"];

/// Two sites where a job of the usual class waits for everything until 100. Only grace may use `royal`.
fn town() -> Town {
    let mut town = Town::new();
    for site in ["north", "south"] {
        let class = |number, users: &[&str]| Class {
            number,
            users: users.iter().map(|user| name(user)).collect(),
            ..Class::default()
        };
        let classes =
            BTreeMap::from([("urgent".into(), class(10, &[])), ("royal".into(), class(20, &["grace"]))]);
        let resource = Resource::new(site, "cluster", "processors", 8);
        let priorities = Priorities { classes, default: None };
        town.site_by(Rules { priorities, ..Rules::new(site, vec![offered(resource)]) });
        let waiting = vec![Waiting {
            submit: Time(0),
            estimate: Seconds(100),
            capacity: Capacity(8),
            priority: 0,
            owner: Owner::NONE,
        }];
        let view = View { waiting, by_class: true, ..View::default() };
        town.views.insert(name(site), Views::of("cluster".into(), view));
    }
    town.broker("broker", &["north", "south"]);
    town.broker("top", &["broker"]);
    town
}

fn of_class(class: Option<&str>, request: Request) -> Request {
    let priority = class.map(str::to_owned);
    Request { description: Description { priority, ..Description::default() }, ..request }
}

fn one(class: Option<&str>) -> Request {
    of_class(class, Request::single(part("processors", 4, 10, 400, 40)))
}

fn two(class: Option<&str>) -> Request {
    let parts = vec![part("processors", 4, 10, 400, 40), part("processors", 4, 10, 400, 40)];
    of_class(class, together(parts))
}

fn begins(reservation: &Reservation) -> Vec<i64> {
    reservation.slots.iter().map(|slot| slot.interval.begin.0).collect()
}

fn probed(town: &mut Town, whom: &str, request: Request) -> Result<i64, Why> {
    match town.call(whom, Call::Probe { request, most: 9, starts: Vec::new() }) {
        Some(Answer::Offers(offers)) => Ok(offers[0].slots[0].interval.begin.0),
        Some(Answer::Problem(problem)) => Err(problem.why),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_class_counts_through_brokers_as_it_does_at_the_site() {
    for whom in ALL {
        assert_eq!(probed(&mut town(), whom, one(None)), Ok(100), "{whom}");
        assert_eq!(probed(&mut town(), whom, one(Some("urgent"))), Ok(10), "{whom}");
        let book = |request| begins(&reservation(town().reserve(whom, 1, request, true)));
        assert_eq!((book(one(None)), book(one(Some("urgent")))), (vec![100], vec![10]), "{whom}");
        if whom != "north" {
            assert_eq!((book(two(None)), book(two(Some("urgent")))), (vec![100; 2], vec![10; 2]), "{whom}");
        }
    }
}

#[test]
fn new_terms_of_a_class_count_through_brokers() {
    for (whom, request) in
        ALL.iter().map(|whom| (*whom, one(None))).chain([("broker", two(None)), ("top", two(None))])
    {
        let mut town = town();
        let booked = reservation(town.reserve(whom, 1, request.clone(), true));
        assert!(begins(&booked).iter().all(|begin| *begin == 100));
        let mut urgent = of_class(Some("urgent"), request);
        // Other terms, so that it is planned anew.
        urgent.parts.iter_mut().for_each(|part| part.wanted.latest_end = Time(90));
        let changed = Call::Change { id: ReservationId(1), version: None, request: urgent };
        let changed = reservation(town.call(whom, changed));
        assert!(begins(&changed).iter().all(|begin| *begin < 60), "{whom}: {:?}", begins(&changed));
        assert_eq!(changed.description.priority.as_deref(), Some("urgent"));
    }
}

#[test]
fn a_part_that_is_lost_is_replaced_in_its_class() {
    for (class, healed_at) in [(None, None), (Some("urgent"), Some("south"))] {
        let mut town = town();
        // When the replacement is searched, the job waits still, and is planned from 61 to 161.
        let fixed = of_class(class, Request::single(part("processors", 4, 150, 190, 40)));
        let booked = reservation(town.reserve("broker", 1, fixed, true));
        assert_eq!((begins(&booked), booked.slots[0].site.as_str()), (vec![150], "north"));
        let child = town.head("broker").booking(ReservationId(1)).unwrap().children[0].pick.child;
        town.revoke("north", child);
        town.hears("broker", "north");
        town.wait(61_000);
        let now = town.head("broker").booking(ReservationId(1)).unwrap().view(town.now);
        let healed = now.losses.is_empty().then(|| now.slots[0].site.to_string());
        assert_eq!(healed.as_deref(), healed_at, "{class:?}");
    }
}

#[test]
fn a_class_that_a_user_may_not_use_is_refused_by_name_and_not_for_lack_of_room() {
    for whom in ALL {
        let mut town = town();
        let is_refused = |why: &Why| matches!(why, Why::Priority { class, .. } if class.as_str() == "royal");
        let why = probed(&mut town, whom, one(Some("royal"))).unwrap_err();
        assert!(is_refused(&why), "{whom}: {why:?}");
        let refused = town.reserve(whom, 1, one(Some("royal")), true);
        assert!(
            matches!(&refused, Some(Answer::Problem(problem)) if is_refused(&problem.why)),
            "{whom}: {refused:?}"
        );
    }
}

#[test]
fn probes_of_a_broker_tell_the_class_and_no_text() {
    let mut town = town();
    let mut request = one(Some("urgent"));
    request.description.name = Some("secret".into());
    request.description.note = Some("plan".into());
    let probe = Call::Probe { request: request.clone(), most: 1, starts: Vec::new() };
    let envelope = town.envelope(probe);
    let from = name("ada");
    let mut head = town.head("broker").clone();
    let sent = head.handle(town.now, &from, &envelope).send;
    assert!(!sent.is_empty());
    for outgoing in sent {
        let Call::Probe { request: told, .. } = outgoing.envelope.call else { panic!() };
        assert_eq!(told.description, Description { name: None, note: None, ..request.description.clone() });
    }
}
