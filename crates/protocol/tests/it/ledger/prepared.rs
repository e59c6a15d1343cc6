//! Prepared changes: old and new terms are kept together, each counted once, until the owner decides.

use super::*;

fn prepare(id: u128, change: u128, request: Request) -> Call {
    let (id, change, hold_for) = (ReservationId(id), ChangeId(change), Millis::seconds(20));
    Call::PrepareChange { id, change, version: None, terms: NewTerms::Request(request), hold_for }
}

fn finish(change: u128, accept: bool) -> Call {
    Call::FinishChange { id: ReservationId(1), change: ChangeId(change), accept }
}

fn area(site: &Site) -> i128 {
    site.ledger.usage().map(|(_, usage)| usage.area).sum()
}

#[test]
fn the_union_of_both_terms_is_taken_and_counted_once() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 6));
    let prepared = site.call(0, "ann", prepare(1, 7, fixed(150, 300, 5)));
    let shown = reservation(&prepared);
    assert_eq!((shown.state, shown.held_for), (State::ChangeRequested, Some(Millis::seconds(20))));
    assert_eq!((interval(&prepared), shown.prepared[0].interval.end), ((100, 200), Time(300)));
    assert_eq!(area(&site), 600 + 500, "six until 200, five until 300");
    assert_eq!(site.book(0, "bob", 2, fixed(150, 250, 3)).word(), "no-room");
    assert_eq!(site.book(0, "bob", 3, fixed(200, 300, 3)).word(), "committed");
    let taken = site.call(5_000, "ann", finish(7, true));
    assert_eq!((taken.word(), interval(&taken), area(&site) - 300), ("committed", (150, 300), 750));
    assert_eq!(reservation(&site.call(6_000, "ann", finish(7, true))).version, 2, "once");
}

#[test]
fn without_a_word_in_time_or_at_the_begin_of_either_terms_the_old_ones_stand() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 6));
    site.call(0, "ann", prepare(1, 7, fixed(150, 250, 6)));
    assert_eq!(site.tick(20_000), ["change-given-up"]);
    assert_eq!(problem(&site.call(20_000, "ann", finish(7, true))).why, Why::NotPrepared);
    let earlier = site.call(70_000, "ann", prepare(1, 8, fixed(80, 180, 6)));
    assert_eq!(reservation(&earlier).held_for, Some(Millis::seconds(10)), "until the new terms begin");
    site.tick(80_000);
    site.call(90_000, "ann", prepare(1, 9, fixed(150, 250, 6)));
    assert_eq!(site.tick(100_000), ["begun"], "by its old terms");
    assert_eq!(problem(&site.call(100_000, "ann", finish(9, true))).why, Why::NotPrepared);
    assert_eq!(interval(&site.look(100_000, "ann", 1)), (100, 200));
}

#[test]
fn a_probe_for_other_terms_of_a_reservation_counts_its_room_as_free() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 6));
    let begins = |site: &mut Site, user: &str, changes: Option<u128>| {
        let mut request = fixed(150, 250, 6);
        request.parts[0].changes = changes.map(ReservationId);
        site.probe(0, user, request).len()
    };
    assert_eq!((begins(&mut site, "ann", None), begins(&mut site, "ann", Some(1))), (0, 1));
    assert_eq!(begins(&mut site, "bob", Some(1)), 0, "only its owner can give it back");
}

#[test]
fn a_change_that_was_given_up_before_it_came_is_not_prepared_and_a_cancel_ends_one_that_is() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 6));
    assert_eq!(site.call(0, "ann", finish(7, false)).word(), "committed");
    assert_eq!(site.call(0, "ann", prepare(1, 7, fixed(150, 250, 6))).word(), "not-prepared");
    site.call(0, "ann", prepare(1, 8, fixed(150, 250, 6)));
    assert_eq!(site.call(0, "ann", prepare(1, 9, fixed(150, 250, 6))).word(), "change-under-way");
    assert_eq!(site.cancel(0, "ann", 1).word(), "cancelled");
    assert_eq!(site.call(0, "ann", finish(8, true)).word(), "illegal");
    assert_eq!(site.call(0, "ann", finish(8, false)).word(), "cancelled");
    assert_eq!(area(&site), 0);
}
