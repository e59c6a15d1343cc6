//! Reservations found in the batch system: a lost ledger is rebuilt from them, and capacity that is not kept
//! is missing.

use super::*;

#[test]
fn a_lost_book_is_made_anew_from_what_is_kept() {
    let mut site = Site::new(rules());
    assert!(site.ledger.is_unused());
    let adopt = |site: &mut Site, id: u128, spans: &[Span]| {
        let ticked = site.ledger.adopt(
            Moment(150_000),
            ReservationId(id),
            &"ann".into(),
            &"cluster".into(),
            spans,
            &Tres::default(),
        );
        site.note(ticked).len()
    };
    assert_eq!(adopt(&mut site, 1, &[span(100, 200, 3)]), 2);
    site.tick(150_000);
    assert_eq!(adopt(&mut site, 1, &[span(100, 200, 3)]), 0, "once");
    assert_eq!(adopt(&mut site, 2, &[span(200, 300, 4), span(300, 400, 2)]), 3);
    assert_eq!(adopt(&mut site, 3, &[span(0, 100, 4)]), 0, "it is over");
    assert!(!site.ledger.is_unused());
    assert_eq!(site.look(150_000, "ann", 1).word(), "active");
    let reserved: Vec<_> = site.ledger.reserved(&"cluster".into()).collect();
    let two = ReservationId(2);
    let expected =
        [(ReservationId(1), span(100, 200, 3)), (two, span(200, 300, 4)), (two, span(300, 400, 2))];
    assert_eq!(reserved, expected);
    adopt(&mut site, 4, &[span(200, 300, 7)]);
    assert_eq!(
        site.ledger.entry(ReservationId(4)).unwrap().missing,
        Capacity(3),
        "there is no more capacity"
    );
}

fn keep(site: &mut Site, now: i64, id: u128, kept: u32) -> usize {
    let ticked = site.ledger.kept(Moment(now), ReservationId(id), Capacity(kept));
    site.note(ticked).len()
}

#[test]
fn what_is_not_kept_is_missing_until_it_is_kept_again() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 4));
    site.hold(0, "ann", 2, fixed(100, 200, 2));
    let id = ReservationId(1);
    keep(&mut site, 1_000, 1, 1);
    assert_eq!(site.changes.last().unwrap().took, [span(100, 200, 1)]);
    assert_eq!(site.ledger.entry(id).unwrap().missing, Capacity(3));
    assert_eq!(site.ledger.could_have(id, &View::default()), Capacity(4));
    let running = vec![Running { expected_end: Time(150), capacity: Capacity(2), owner: 0 }];
    let foreign = vec![span(150, 160, 1), span(200, 300, 9)];
    let view = View { running, foreign, ..View::default() };
    assert_eq!(site.ledger.could_have(id, &view), Capacity(3), "others have the rest");
    assert_eq!(keep(&mut site, 1_000, 1, 1), 0, "said once");
    site.hold(1_000, "bob", 3, fixed(100, 200, 4));
    assert_eq!(site.ledger.could_have(id, &View::default()), Capacity(2), "others have come");
    keep(&mut site, 1_000, 1, u32::MAX);
    assert_eq!(site.ledger.entry(id).unwrap().missing, Capacity(2));
    keep(&mut site, 1_000, 2, 1);
    assert_eq!(site.look(1_000, "ann", 2).word(), "held", "a hold stays, and misses something");
    assert_eq!(site.ledger.entry(ReservationId(2)).unwrap().missing, Capacity(1));
}
