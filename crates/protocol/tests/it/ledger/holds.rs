//! Holds: how long they last, and what follows.

use super::*;
use bookahead_protocol::deadline::{Adaptive, HoldCounts};
use bookahead_protocol::ledger::HoldRules;

fn hold_longer(site: &mut Site, now: i64, id: u128, hold_for: i64) -> Answer {
    site.call(now, "ann", Call::Hold { id: ReservationId(id), hold_for: Millis(hold_for) })
}

fn held_for(answer: &Answer) -> i64 {
    reservation(answer).held_for.unwrap().0
}

fn site(holds: HoldRules) -> Site {
    Site::new(Rules { holds, ..rules() })
}

#[test]
fn a_hold_that_is_not_committed_evaporates() {
    let mut site = site(HoldRules { late_commits: false, ..HoldRules::default() });
    site.hold(500, "ann", 1, fixed(100, 200, 8));
    assert_eq!(problem(&site.hold(60_499, "bob", 2, fixed(150, 160, 1))).why.code(), "no-room");
    assert_eq!(site.look(60_499, "ann", 1).word(), "held");
    assert_eq!(site.hold(60_500, "bob", 3, fixed(150, 160, 1)).word(), "held");
    assert_eq!(site.look(60_500, "ann", 1).word(), "expired");
    assert_eq!(problem(&site.commit(60_500, "ann", 1)).why, Why::Expired);
    assert_eq!(problem(&hold_longer(&mut site, 60_500, 1, 9)).why, Why::Expired);
}

#[test]
fn a_commit_at_exactly_the_deadline_is_late() {
    let mut in_time = site(HoldRules { late_commits: false, ..HoldRules::default() });
    in_time.hold(0, "ann", 1, fixed(100, 200, 8));
    in_time.hold(0, "ann", 2, fixed(200, 300, 8));
    assert_eq!(in_time.commit(59_999, "ann", 1).word(), "committed");
    assert_eq!(problem(&in_time.commit(60_000, "ann", 2)).why, Why::Expired);
}

#[test]
fn a_late_commit_takes_the_room_if_it_is_still_free() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    site.hold(0, "ann", 2, fixed(200, 300, 8));
    assert_eq!(site.commit(70_000, "ann", 1).word(), "committed");
    site.book(70_000, "bob", 3, fixed(250, 260, 1));
    assert_eq!(problem(&site.commit(70_000, "ann", 2)).why, Why::Expired);
    assert_eq!(site.look(70_000, "ann", 2).word(), "expired");
    site.hold(70_000, "ann", 4, fixed(300, 400, 8));
    let rest = site.commit(350_500, "ann", 4);
    assert_eq!((rest.word(), interval(&rest)), ("committed", (350, 400)), "only the rest can be had");
    assert_eq!(site.look(350_500, "ann", 4).word(), "active");
    site.hold(350_500, "ann", 5, fixed(400, 401, 1));
    assert_eq!(problem(&site.commit(401_000, "ann", 5)).why, Why::Expired, "nothing is left of it");
}

#[test]
fn a_late_commit_respects_jobs_and_limits() {
    let mut rules = rules();
    rules.limits.default.count = Some(1);
    let mut site = Site::new(rules);
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    site.show(View { running: vec![running(150, 1)], ..View::default() });
    assert_eq!(problem(&site.commit(70_000, "ann", 1)).why, Why::Expired);
    site.show(View::default());
    site.book(70_000, "ann", 2, fixed(500, 600, 1));
    assert_eq!(problem(&site.commit(70_000, "ann", 1)).why.code(), "limit");
    site.cancel(70_000, "ann", 2);
    assert_eq!(site.commit(70_000, "ann", 1).word(), "committed");
}

#[test]
fn a_hold_lasts_no_longer_than_until_its_slot_begins() {
    let mut site = Site::new(rules());
    assert_eq!(held_for(&site.hold(0, "ann", 1, fixed(10, 20, 1))), 10_000);
    assert_eq!(held_for(&hold_longer(&mut site, 1_000, 1, 60_000)), 9_000);
    assert_eq!(site.look(9_999, "ann", 1).word(), "held");
    assert_eq!(site.look(10_000, "ann", 1).word(), "expired");
    assert_eq!(site.words(), ["held", "expired"]);
}

#[test]
fn a_hold_lasts_no_longer_than_the_site_grants() {
    let mut site = site(HoldRules { longest: Millis(5_000), ..HoldRules::default() });
    assert_eq!(held_for(&site.hold(0, "ann", 1, fixed(100, 200, 1))), 5_000);
    assert_eq!(held_for(&hold_longer(&mut site, 3_000, 1, 60_000)), 2_000, "all of it, not each time");
    assert_eq!(held_for(&hold_longer(&mut site, 4_000, 1, 10)), 1_000, "holding longer never shortens");
    site.commit(4_000, "ann", 1);
    assert_eq!(hold_longer(&mut site, 4_000, 1, 10).word(), "committed", "it is held for good");
    site.cancel(4_000, "ann", 1);
    assert_eq!(problem(&hold_longer(&mut site, 4_000, 1, 10)).why.code(), "illegal");
    let short = Call::Reserve {
        id: ReservationId(2),
        request: fixed(100, 200, 1),
        hold_for: Millis(1_000),
        book: false,
    };
    assert_eq!(held_for(&site.call(10_000, "ann", short)), 1_000);
    assert_eq!(held_for(&hold_longer(&mut site, 10_500, 2, 3_000)), 3_000);
    for now in [12_000, 13_000, 14_000] {
        assert_eq!(held_for(&hold_longer(&mut site, now, 2, 60_000)), 15_000 - now, "for ever is too long");
    }
    assert_eq!(site.look(15_000, "ann", 2).word(), "expired");
}

#[test]
fn holds_are_shorter_where_many_evaporate() {
    let adaptive = Adaptive { target: 800_000, shortest: Millis(100), longest: Millis(60_000) };
    let mut site = site(HoldRules { adaptive: Some(adaptive), ..HoldRules::default() });
    // Half of them expire after 60 s, the others last for a good 80 s: (1/0.8 − 1) of that is allowed.
    for id in 0..30 {
        let now = i64::try_from(id).unwrap() * 100_000;
        let held = site.hold(now, "ann", id, fixed(now / 1_000 + 70, now / 1_000 + 80, 1));
        if id < 20 {
            assert_eq!(held_for(&held), 60_000);
        }
        if id % 2 == 0 {
            site.commit(now, "ann", id);
        }
    }
    assert_eq!(site.ledger.observed().committed, 15);
    let held = site.hold(3_000_000, "ann", 99, fixed(3_500, 3_600, 1));
    assert!((15_000..25_000).contains(&held_for(&held)), "{}", held_for(&held));
}

#[test]
fn holds_are_counted_by_outcome_and_never_less() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    assert_eq!(problem(&site.hold(0, "bob", 2, fixed(100, 200, 1))).why.code(), "no-room");
    site.commit(0, "ann", 1);
    site.cancel(0, "ann", 1);
    site.hold(0, "ann", 3, fixed(100, 200, 1));
    site.cancel(0, "ann", 3);
    site.hold(0, "ann", 4, fixed(100_000, 100_100, 1));
    site.commit(90_000, "ann", 4);
    let counts = site.ledger.hold_counts();
    let expected = HoldCounts { granted: 3, refused: 1, committed: 2, expired: 1, cancelled: 1 };
    assert_eq!(counts, expected, "a cancelled reservation is no cancelled hold; a late commit counts twice");
}
