//! Whoever keeps the machines has a word in what is promised.

use super::*;
use bookahead_protocol::ledger::{Objection, Taking};

/// Sends a call; says what was asked for, and the answer.
fn send(
    site: &mut Site,
    now: i64,
    key: u128,
    call: Call,
    says: &Result<(), Objection>,
) -> (Vec<Taking>, Answer) {
    let envelope = Envelope { key: Key(key), caller: caller("ann"), call };
    let mut asked = Vec::new();
    let handled = site.ledger.handle_with(Moment(now), &envelope, &site.views, &mut |taking| {
        asked.push(taking.clone());
        says.clone()
    });
    site.events.extend(handled.events);
    site.changes.extend(handled.changes);
    (asked, handled.answer)
}

fn reserve(id: u128, request: Request) -> Call {
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis(60_000), book: false }
}

fn change(id: u128, request: Request) -> Call {
    Call::Change { id: ReservationId(id), version: None, request }
}

fn no() -> Result<(), Objection> {
    Err(Objection::Refused(Why::NotGranted("busy".into())))
}

fn later() -> Result<(), Objection> {
    Err(Objection::NotNow(Why::NoBatchSystem))
}

#[test]
fn room_is_asked_for_before_it_is_promised_and_what_is_not_granted_is_refused_for_good() {
    let mut site = Site::new(rules());
    let (asked, answer) = send(&mut site, 0, 1, reserve(1, fixed(100, 200, 3)), &no());
    assert_eq!(problem(&answer).why, Why::NotGranted("busy".into()));
    let [taking] = &asked[..] else { panic!("asked {asked:?}") };
    assert_eq!(
        (taking.owner.as_str(), &taking.takes, &taking.has),
        ("ann", &vec![span(100, 200, 3)], &vec![])
    );
    assert_eq!(site.ledger.reserved(&"cluster".into()).count(), 0);
    assert_eq!(site.changes, []);
    let (asked, again) = send(&mut site, 0, 1, reserve(1, fixed(100, 200, 3)), &Ok(()));
    assert_eq!((asked.len(), again), (0, answer), "the same answer, without asking");
    let (_, other_key) = send(&mut site, 0, 2, reserve(1, fixed(100, 200, 3)), &Ok(()));
    assert_eq!(problem(&other_key).why.code(), "not-granted", "the id stands for what was refused");
}

#[test]
fn what_is_put_off_leaves_no_trace_and_may_be_sent_again() {
    let mut site = Site::new(rules());
    let before = site.ledger.clone();
    let (_, answer) = send(&mut site, 0, 1, reserve(1, fixed(100, 200, 3)), &later());
    assert_eq!(problem(&answer).why, Why::NoBatchSystem);
    assert!(site.ledger == before && site.events.is_empty());
    let (_, answer) = send(&mut site, 0, 1, reserve(1, fixed(100, 200, 3)), &Ok(()));
    assert_eq!(answer.word(), "accepted");
}

#[test]
fn a_change_that_is_not_granted_leaves_what_was_promised() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 3));
    let (asked, answer) = send(&mut site, 0, 9, change(1, fixed(100, 300, 5)), &no());
    assert_eq!((&asked[0].has, &asked[0].takes), (&vec![span(100, 200, 3)], &vec![span(100, 300, 5)]));
    assert_eq!(problem(&answer).why.code(), "not-granted");
    let kept = site.ledger.entry(ReservationId(1)).unwrap();
    assert_eq!((&kept.spans, kept.state, kept.version), (&vec![span(100, 200, 3)], State::Committed, 1));
    let (_, answer) = send(&mut site, 0, 10, change(1, fixed(100, 300, 5)), &Ok(()));
    assert_eq!(answer.word(), "committed");
}

#[test]
fn a_late_commit_is_asked_for_again_and_one_in_time_is_not() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 3));
    let commit = Call::Commit { id: ReservationId(1), jobs: vec![] };
    let (asked, answer) = send(&mut site, 61_000, 8, commit.clone(), &no());
    assert_eq!((asked.len(), problem(&answer).why.code()), (1, "not-granted"));
    let (asked, answer) = send(&mut site, 61_000, 9, commit, &Ok(()));
    assert_eq!((asked.len(), answer.word()), (1, "committed"));
    site.hold(61_000, "ann", 2, fixed(200, 300, 3));
    let (asked, answer) =
        send(&mut site, 62_000, 11, Call::Commit { id: ReservationId(2), jobs: vec![] }, &no());
    assert_eq!((asked.len(), answer.word()), (0, "committed"));
}

#[test]
fn a_lost_book_is_made_anew_from_what_is_kept() {
    let mut site = Site::new(rules());
    assert!(site.ledger.is_unused());
    let adopt = |site: &mut Site, id: u128, spans: &[Span]| {
        let ticked =
            site.ledger.adopt(Moment(150_000), ReservationId(id), &"ann".into(), &"cluster".into(), spans);
        let events = ticked.events.len();
        site.events.extend(ticked.events);
        site.changes.extend(ticked.changes);
        events
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
    assert_eq!(site.ledger.entry(ReservationId(4)).unwrap().missing, Capacity(3), "there is only so much");
}

fn keep(site: &mut Site, now: i64, id: u128, kept: u32) -> usize {
    let ticked = site.ledger.kept(Moment(now), ReservationId(id), Capacity(kept));
    let events = ticked.events.len();
    site.events.extend(ticked.events);
    site.changes.extend(ticked.changes);
    events
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
    assert_eq!(site.ledger.could_have(id), Some(vec![span(100, 200, 4)]));
    assert_eq!(keep(&mut site, 1_000, 1, 1), 0, "said once");
    site.hold(1_000, "bob", 3, fixed(100, 200, 4));
    assert_eq!(site.ledger.could_have(id), Some(vec![span(100, 200, 2)]), "others have come");
    keep(&mut site, 1_000, 1, u32::MAX);
    assert_eq!(site.ledger.entry(id).unwrap().missing, Capacity(2));
    keep(&mut site, 1_000, 2, 1);
    assert_eq!(site.look(1_000, "ann", 2).word(), "cancelled", "of a hold nothing may be missing");
    assert_eq!(site.ledger.entry(id).unwrap().missing, Capacity(0), "which made room");
}
