//! Capacity that fails and comes back.

use super::*;
use std::collections::BTreeSet;

fn lose(site: &mut Site, now: i64, capacity: u32) {
    let ticked = site.ledger.lost(Moment(now), &"cluster".into(), Capacity(capacity), Some(&BTreeSet::new()));
    site.note(ticked);
}

fn lose_beside(site: &mut Site, capacity: u32, in_use: &[u128]) {
    let in_use = in_use.iter().map(|id| ReservationId(*id)).collect();
    let ticked = site.ledger.lost(Moment(0), &"cluster".into(), Capacity(capacity), Some(&in_use));
    site.note(ticked);
}

fn restore(site: &mut Site, now: i64, capacity: u32) {
    let ticked = site.ledger.restored(Moment(now), &"cluster".into(), Capacity(capacity));
    site.note(ticked);
}

fn missing(site: &mut Site, now: i64, id: u128) -> u32 {
    reservation(&site.look(now, "ann", id)).missing[0].0
}

#[test]
fn the_newest_promises_are_hit_first_and_only_as_much_as_must_be() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 3));
    site.book(0, "ann", 2, fixed(100, 200, 3));
    site.hold(0, "ann", 3, fixed(150, 250, 2));
    site.book(0, "ann", 4, fixed(300, 400, 8));
    lose(&mut site, 1_000, 1);
    assert_eq!((missing(&mut site, 1_000, 4), missing(&mut site, 1_000, 2)), (1, 0));
    assert_eq!(
        (site.look(1_000, "ann", 3).word(), missing(&mut site, 1_000, 3)),
        ("held", 1),
        "holds survive"
    );
    lose(&mut site, 1_000, 3);
    assert_eq!([1, 2, 3, 4].map(|id| missing(&mut site, 1_000, id)), [0, 2, 2, 4]);
    assert_eq!(problem(&site.hold(1_000, "bob", 5, fixed(100, 200, 1))).why.code(), "no-room");
    assert_eq!(problem(&site.hold(1_000, "bob", 6, fixed(500, 600, 5))).why.code(), "too-wide");
    assert_eq!(site.hold(1_000, "bob", 7, fixed(500, 600, 4)).word(), "held");
    assert_eq!(site.look(100_000, "ann", 2).word(), "active", "it stays, as far as it can");
}

#[test]
fn those_in_use_are_hit_last_and_a_loss_that_hits_nobody_mends_nobody() {
    let mut site = Site::new(rules());
    (1..=3).for_each(|id| drop(site.book(0, "ann", id, fixed(100, 200, 2))));
    // The batch system has too little for one, although the ledger has room.
    let ticked = site.ledger.kept(Moment(0), ReservationId(1), Capacity(1));
    site.note(ticked);
    lose(&mut site, 0, 2);
    assert_eq!([1, 2, 3].map(|id| missing(&mut site, 0, id)), [1, 0, 0]);
    lose_beside(&mut site, 2, &[2, 3]);
    assert_eq!([1, 2, 3].map(|id| missing(&mut site, 0, id)), [2, 0, 0]);
    lose_beside(&mut site, 1, &[2, 3]);
    assert_eq!([1, 2, 3].map(|id| missing(&mut site, 0, id)), [2, 0, 1], "the newest of them");
}

#[test]
fn what_is_restored_goes_to_the_oldest_first() {
    let mut site = Site::new(rules());
    (1..=4).for_each(|id| drop(site.book(0, "ann", id, fixed(100, 200, 2))));
    lose(&mut site, 0, 5);
    assert_eq!([1, 2, 3, 4].map(|id| missing(&mut site, 0, id)), [0, 1, 2, 2]);
    restore(&mut site, 0, 2);
    assert_eq!([1, 2, 3, 4].map(|id| missing(&mut site, 0, id)), [0, 0, 1, 2]);
    assert_eq!(site.changes.last().unwrap().took, [span(100, 200, 1)]);
    restore(&mut site, 0, 9);
    assert_eq!([1, 2, 3, 4].map(|id| missing(&mut site, 0, id)), [0; 4]);
    assert_eq!(site.ledger.lost_capacity(&"cluster".into()), Capacity(0));
}

#[test]
fn room_that_appears_goes_to_those_that_miss_something() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 4));
    site.book(0, "ann", 2, fixed(100, 200, 4));
    lose(&mut site, 0, 3);
    assert_eq!(missing(&mut site, 0, 2), 3);
    site.release(0, "ann", 1, 100, 2);
    assert_eq!(missing(&mut site, 0, 2), 1, "two that were given back");
    site.cancel(0, "ann", 1);
    assert_eq!(missing(&mut site, 0, 2), 0);
    assert_eq!(problem(&site.hold(0, "bob", 3, fixed(100, 200, 2))).why.code(), "no-room");
}

#[test]
fn where_less_is_offered_than_was_promised_the_newest_miss_it_and_get_it_back_with_the_rest() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 5));
    site.book(0, "ann", 2, fixed(100, 200, 3));
    let snapshot = site.ledger.snapshot();
    let fewer = Rules::new("north", vec![offered("cluster", 6, VACANCIES)]);
    let mut ledger = Ledger::restore(fewer, snapshot.clone()).unwrap();
    let events = ledger.fit_rules(Moment(1_000)).events;
    let missing = |ledger: &Ledger| [1, 2].map(|id| ledger.entry(ReservationId(id)).unwrap().missing.0);
    assert_eq!((events.len(), missing(&ledger)), (1, [0, 2]));
    assert_eq!(ledger.fit_rules(Moment(1_000)).events.len(), 0, "said once");
    let mut again = Ledger::restore(rules(), ledger.snapshot()).unwrap();
    again.fit_rules(Moment(2_000));
    assert_eq!(missing(&again), [0, 0]);
}

#[test]
fn what_fails_again_and_again_is_never_more_than_there_is() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 4));
    lose(&mut site, 0, 7);
    lose(&mut site, 0, 7);
    assert_eq!(site.ledger.lost_capacity(&"cluster".into()), Capacity(8));
    assert_eq!(missing(&mut site, 0, 1), 4);
    assert_eq!(site.words(), ["held", "committed", "lost", "missing", "lost", "missing"]);
    restore(&mut site, 150_000, 8);
    assert_eq!(missing(&mut site, 150_000, 1), 0);
    let unheard_of = site.ledger.lost(Moment(0), &"elsewhere".into(), Capacity(1), Some(&BTreeSet::new()));
    assert!(unheard_of.events.is_empty());
}

#[test]
fn a_change_of_terms_makes_whole_again() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 8));
    lose(&mut site, 0, 2);
    assert_eq!(problem(&site.change(0, "ann", 1, None, fixed(100, 200, 7))).why.code(), "too-wide");
    assert_eq!(missing(&mut site, 0, 1), 2);
    let changed = site.change(0, "ann", 1, None, fixed(100, 200, 6));
    assert_eq!(reservation(&changed).missing, [Capacity(0)]);
}
