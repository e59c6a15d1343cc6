//! Placement of requests, and the answers to probes.

use super::*;
use bookahead_protocol::ledger::{Class, Priorities, Reveal, RulesError};
use bookahead_protocol::missing::Missing;
use std::collections::BTreeMap;

fn begins(slots: &[Slot]) -> Vec<(i64, i64)> {
    slots.iter().map(|slot| (slot.interval.begin.0, slot.slack.0)).collect()
}

/// Full until 100 and from 200 to 300, half full from 300 to 400.
fn busy(rules: Rules) -> Site {
    let mut site = Site::new(rules);
    site.book(0, "root", 91, fixed(0, 100, 8));
    site.book(0, "root", 92, fixed(200, 300, 8));
    site.book(0, "root", 93, fixed(300, 400, 4));
    site
}

#[test]
fn a_probe_without_jobs_tells_each_run_of_begins_once() {
    let mut site = busy(rules());
    site.tick(0);
    let events = site.events.len();
    let slots = site.probe(0, "ann", request(wanted(50, 500, 40, 6)));
    assert_eq!(begins(&slots), [(100, 60), (400, 60)]);
    assert_eq!(slots[0].free, Some(Capacity(8)));
    assert_eq!((slots[0].rating, slots[0].impact), (Some(Rating::BEST), Some(Impact::default())));
    let narrow = site.probe(0, "ann", request(wanted(50, 500, 40, 3)));
    assert_eq!(begins(&narrow), [(100, 60), (300, 160)]);
    assert_eq!(narrow[1].free, Some(Capacity(4)), "whenever it begins");
    assert_eq!(site.events.len(), events, "a probe leaves no trace");
}

#[test]
fn few_slots_are_told_but_over_the_whole_window() {
    let mut site = Site::new(Rules { reveal: Reveal { slots: 4, ..Reveal::default() }, ..rules() });
    for at in 0..20 {
        let begin = 100 + 20 * i64::try_from(at).unwrap();
        site.book(0, "root", at, fixed(begin, begin + 10, 8));
    }
    let slots = site.probe(0, "ann", request(wanted(100, 500, 10, 1)));
    assert_eq!(begins(&slots), [(110, 0), (210, 0), (310, 0), (410, 0)]);
    let call = Call::Probe {
        request: request(wanted(100, 500, 10, 1)),
        most: 2,
        starts: vec![Time(250), Time(255)],
    };
    let Answer::Offers(offers) = site.call(0, "ann", call) else { panic!() };
    let told: Vec<Slot> = offers.into_iter().flat_map(|offer| offer.slots).collect();
    assert_eq!(begins(&told), [(110, 0), (250, 0)], "preferred starts come first");
}

#[test]
fn a_site_tells_as_much_as_it_wants_to() {
    let reveal =
        Reveal { slots: 3, ratings: false, impacts: false, blockers: false, free: false, slack: false };
    let mut site = busy(Rules { reveal, ..rules() });
    let slots = site.probe(0, "ann", request(wanted(50, 500, 40, 6)));
    assert_eq!(begins(&slots).len(), 3);
    assert!(
        slots
            .iter()
            .all(|slot| slot.slack == Seconds(0)
                && (slot.free, slot.rating, slot.impact) == (None, None, None))
    );
    assert_eq!(begins(&slots)[0], (100, 0), "the earliest is among them");
    let refused = site.hold(0, "ann", 1, fixed(210, 220, 1));
    assert!(problem(&refused).blockers.is_empty());
}

#[test]
fn a_flexible_request_gets_its_earliest_slot_and_a_fixed_one_its_begin() {
    let mut site = busy(rules());
    assert_eq!(interval(&site.hold(0, "ann", 1, request(wanted(50, 500, 40, 6)))), (100, 140));
    assert_eq!(interval(&site.hold(0, "ann", 2, request(wanted(50, 500, 40, 6)))), (140, 180));
    assert_eq!(interval(&site.hold(0, "ann", 3, request(wanted(50, 500, 40, 6)))), (400, 440));
    assert_eq!(problem(&site.hold(0, "ann", 4, fixed(280, 310, 1))).why.code(), "no-room");
    assert_eq!(interval(&site.hold(0, "ann", 5, fixed(300, 310, 4))), (300, 310));
}

#[test]
fn of_several_resources_the_best_is_taken() {
    let mut second = offered("cheap", 4, VACANCIES);
    let mut first = offered("cluster", 8, VACANCIES);
    (first.resource.price, second.resource.price) = (7_200, 3_600);
    let mut site = Site::new(Rules::new("north", vec![first, second]));
    let at = |answer: &Answer| reservation(answer).slots[0].resource.to_string();
    let window = wanted(100, 500, 100, 3);
    assert_eq!(at(&site.hold(0, "ann", 1, request(window))), "cheap", "the cheaper of equals");
    let cheapest = Request { objective: Objective::LowestCost, ..request(window) };
    let cheap = site.hold(0, "ann", 2, cheapest);
    assert_eq!((at(&cheap), reservation(&cheap).slots[0].cost), ("cheap".into(), 300));
    site.book(0, "root", 3, fixed(100, 200, 5));
    assert_eq!(interval(&site.hold(0, "ann", 4, request(wanted(100, 500, 100, 4)))), (200, 300));
    let only = Part { resource: Some("cheap".into()), ..request(wanted(100, 500, 50, 4)).parts[0].clone() };
    assert_eq!(at(&site.hold(0, "ann", 5, Request::single(only))), "cheap");
    let slots = site.probe(0, "ann", request(wanted(400, 450, 50, 1)));
    assert_eq!(slots.len(), 2, "one on each");
}

#[test]
fn what_no_resource_could_ever_do_is_refused_at_once() {
    let mut site = Site::new(rules());
    let wide = site.hold(0, "ann", 1, fixed(10, 20, 9));
    let missing = Missing::Capacity { wanted: Capacity(9), largest: Capacity(8) };
    assert_eq!(problem(&wide).why, Why::no_such_resource(0, 1, "processors".into(), Some(missing)));
    let mut two = fixed(10, 20, 1);
    two.parts.push(two.parts[0].clone());
    assert_eq!(problem(&site.hold(0, "ann", 2, two)).why, Why::OnePartOnly(2));
    assert_eq!(problem(&site.hold(0, "ann", 3, fixed(10, 10, 1))).why.code(), "malformed");
}

#[test]
fn running_jobs_foreign_reservations_and_the_first_in_line_are_respected() {
    let mut site = Site::new(rules());
    site.show(View {
        running: vec![running(100, 6)],
        waiting: vec![waiting(0, 100, 8), waiting(1, 1_000, 8)],
        foreign: vec![span(300, 400, 7)],
        ..View::default()
    });
    let slots = site.probe(0, "ann", request(wanted(50, 500, 40, 2)));
    assert_eq!(begins(&slots), [(50, 10), (200, 60), (400, 60)], "the second in line is not promised");
    let delayed: Vec<u32> = slots.iter().map(|slot| slot.impact.unwrap().delayed).collect();
    assert_eq!(delayed, [0, 0, 1], "it is planned behind the foreign reservation");
    assert_eq!(problem(&site.hold(0, "ann", 1, fixed(150, 160, 1))).why.code(), "no-room");
    let least = Request { objective: Objective::LeastImpact, ..request(wanted(390, 1_500, 40, 2)) };
    let held = site.hold(0, "ann", 2, least);
    assert_eq!(interval(&held), (1_460, 1_500), "behind the second");
}

#[test]
fn local_jobs_preferred_leaves_every_planned_job_where_it_is() {
    let mut site = Site::new(Rules::new("north", vec![offered("cluster", 8, LOCAL_JOBS)]));
    let jobs = vec![waiting(0, 100, 8), waiting(1, 100, 5)];
    site.show(View { running: vec![running(100, 6)], waiting: jobs, ..View::default() });
    let slots = site.probe(0, "ann", request(wanted(150, 500, 40, 4)));
    assert_eq!(begins(&slots), [(300, 160)]);
    assert_eq!(slots[0].impact, Some(Impact::default()));
    assert_eq!(interval(&site.hold(0, "ann", 1, request(wanted(150, 500, 40, 3)))), (200, 240));
}

#[test]
fn a_reservation_may_delay_waiting_jobs_of_lower_classes_and_tells_what_it_does_to_them() {
    let class = |number| Class { number, ..Class::default() };
    let classes = BTreeMap::from([("urgent".into(), class(100)), ("low".into(), class(-10))]);
    let priorities = Priorities { classes, default: None };
    let normal = Rules { priorities, ..rules() };
    let mut preferring = normal.clone();
    preferring.resources[0].placement.admission = Admission::LOCAL_JOBS_PREFERRED;
    for rules in [normal, preferring] {
        let mut site = Site::new(rules);
        let show = |site: &mut Site, by_class| {
            site.show(View { waiting: vec![waiting(0, 100, 8)], by_class, ..View::default() });
        };
        let mut asked = fixed(50, 90, 4);
        for (class, by_class, granted) in [
            (None, true, false),
            (Some("low"), true, false),
            (Some("urgent"), true, true),
            (Some("urgent"), false, false),
        ] {
            show(&mut site, by_class);
            asked.description.priority = class.map(str::to_owned);
            let slots = site.probe(0, "ann", asked.clone());
            assert_eq!(!slots.is_empty(), granted, "{class:?} {by_class}");
            if granted {
                assert_eq!(slots[0].impact.unwrap().delayed, 1, "the waiting job starts later");
                assert_eq!(interval(&site.hold(0, "ann", 1, asked.clone())), (50, 90));
                site.cancel(0, "ann", 1);
            }
        }
    }
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let twice = Rules::new("north", vec![offered("cluster", 8, WHAT_IF), offered("cluster", 4, WHAT_IF)]);
    assert_eq!(Ledger::new(twice).unwrap_err(), RulesError::SameName("cluster".into()));
    let empty = Rules::new("north", vec![offered("cluster", 0, WHAT_IF)]);
    assert_eq!(Ledger::new(empty).unwrap_err(), RulesError::NoCapacity("cluster".into()));
    assert_eq!(Ledger::new(Rules::new("north", vec![])).unwrap_err(), RulesError::NoResource);
    let elsewhere = Ledger::new(Rules::new("south", vec![offered("cluster", 8, WHAT_IF)]));
    assert!(matches!(elsewhere.unwrap_err(), RulesError::OtherSite { .. }));
    let mut backwards = rules();
    backwards.limits.default.notice = Some(Seconds(-1));
    assert!(matches!(Ledger::new(backwards).unwrap_err(), RulesError::Negative(_)));
    let silent = Rules { reveal: Reveal { slots: 0, ..Reveal::default() }, ..rules() };
    assert_eq!(Ledger::new(silent).unwrap_err(), RulesError::NoSlots);
}
