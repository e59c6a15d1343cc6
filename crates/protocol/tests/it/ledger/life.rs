//! The life of a reservation, by every path.

use super::*;
use bookahead_protocol::ledger::Because;
use bookahead_protocol::problem::Impossible;

#[test]
fn a_hold_is_committed_begins_and_completes() {
    let mut site = Site::new(rules());
    let held = site.hold(1_000, "ann", 1, fixed(100, 200, 4));
    assert_eq!((held.word(), interval(&held)), ("held", (100, 200)));
    assert_eq!(reservation(&held).held_for, Some(Millis(60_000)));
    let committed = site.commit(2_000, "ann", 1);
    assert_eq!((committed.word(), reservation(&committed).held_for), ("committed", None));
    assert_eq!(site.ledger.next_deadline(), Some(Moment(100_000)));
    assert_eq!(site.look(99_999, "ann", 1).word(), "committed");
    assert_eq!(site.look(100_000, "ann", 1).word(), "active");
    assert_eq!(site.look(199_999, "ann", 1).word(), "active");
    assert_eq!(site.look(200_000, "ann", 1).word(), "completed");
    assert_eq!(site.words(), ["held", "committed", "begun", "completed"]);
    assert_eq!(site.changes.len(), 1, "what was taken came back by itself");
}

#[test]
fn one_call_books_without_a_hold_and_may_begin_at_once() {
    let mut site = Site::new(rules());
    let booked = site.book(10_700, "ann", 1, fixed(10, 20, 8));
    assert_eq!((booked.word(), interval(&booked)), ("committed", (10, 20)));
    assert_eq!(site.look(10_700, "ann", 1).word(), "active");
    let held = site.hold(10_800, "bob", 2, request(wanted(0, 100, 5, 8)));
    assert_eq!(interval(&held), (20, 25));
    assert_eq!(problem(&site.hold(30_000, "bob", 3, fixed(30, 40, 1))).why.code(), "no-window");
    let soon = site.hold(30_000, "bob", 4, request(wanted(30, 50, 5, 1)));
    assert_eq!(interval(&soon), (31, 36), "what is held begins in the future");
}

#[test]
fn jobs_are_attached_with_the_commit_again_and_later() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 4));
    let id = ReservationId(1);
    let early = site.call(0, "ann", Call::Attach { id, part: 0, job: JobId(9) });
    assert_eq!(problem(&early).why.code(), "unsupported");
    site.call(1, "ann", Call::Commit { id, jobs: vec![JobId(1), JobId(2), JobId(1)] });
    site.call(2, "ann", Call::Commit { id, jobs: vec![JobId(2), JobId(3)] });
    site.call(3, "ann", Call::Attach { id, part: 0, job: JobId(4) });
    let active = site.call(100_000, "ann", Call::Attach { id, part: 0, job: JobId(5) });
    let jobs: Vec<u128> = reservation(&active).jobs.iter().map(|(_, job)| job.0).collect();
    assert_eq!((active.word(), jobs), ("active", vec![1, 2, 3, 4, 5]));
    let elsewhere = site.call(100_001, "ann", Call::Attach { id, part: 1, job: JobId(6) });
    assert_eq!(problem(&elsewhere).why, Why::NoSuchPart(1));
    let over = site.call(200_000, "ann", Call::Attach { id, part: 0, job: JobId(6) });
    let illegal = IllegalMove { from: State::Completed, attempted: Move::Commit };
    assert_eq!(problem(&over).why, Why::Illegal(illegal));
}

#[test]
fn cancelling_gives_the_room_back_from_the_next_whole_second() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    assert_eq!(site.cancel(1, "ann", 1).word(), "cancelled");
    site.book(2, "ann", 2, fixed(100, 200, 8));
    assert_eq!(site.cancel(3, "ann", 2).word(), "cancelled");
    site.book(4, "ann", 3, fixed(100, 200, 8));
    let terminated = site.cancel(149_001, "ann", 3);
    assert_eq!((terminated.word(), interval(&terminated)), ("terminated", (100, 150)));
    assert_eq!(site.changes.last().unwrap().gave_back, [span(150, 200, 8)]);
    assert_eq!(problem(&site.book(149_002, "bob", 4, fixed(149, 160, 1))).why.code(), "no-room");
    assert_eq!(site.book(149_002, "bob", 5, fixed(150, 160, 8)).word(), "committed");
    assert_eq!(site.cancel(149_003, "ann", 3).word(), "terminated", "it is over, as was wanted");
}

#[test]
fn what_is_over_is_cancelled_without_effect_and_what_is_completed_cannot_be() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    assert_eq!(site.cancel(60_000, "ann", 1).word(), "cancelled", "it had expired");
    assert_eq!(problem(&site.commit(60_000, "ann", 1)).why.code(), "illegal", "no late commit after that");
    site.book(0, "ann", 2, fixed(100, 200, 8));
    site.hold(0, "ann", 3, fixed(100, 200, 8));
    assert_eq!(site.cancel(0, "ann", 3).word(), "rejected", "it had been refused");
    let completed = site.cancel(200_000, "ann", 2);
    let illegal = IllegalMove { from: State::Completed, attempted: Move::Cancel };
    assert_eq!(problem(&completed).why, Why::Illegal(illegal));
    site.book(200_000, "ann", 4, fixed(300, 400, 8));
    assert_eq!(site.cancel(200_000, "ann", 4).word(), "cancelled");
    assert_eq!(site.cancel(200_000, "ann", 4).word(), "cancelled");
    let gone = site.commit(200_000, "ann", 4);
    let illegal = IllegalMove { from: State::Cancelled, attempted: Move::Commit };
    assert_eq!(problem(&gone).why, Why::Illegal(illegal));
}

#[test]
fn a_cancel_that_overtakes_its_reservation_wins() {
    let mut site = Site::new(rules());
    let id = ReservationId(7);
    assert_eq!(problem(&site.cancel(0, "ann", 7)).why, Why::NothingToCancel(id));
    assert_eq!(problem(&site.hold(1, "ann", 7, fixed(10, 20, 1))).why, Why::CancelledBefore(id));
    assert_eq!(problem(&site.commit(2, "ann", 7)).why, Why::CancelledBefore(id));
    assert_eq!(problem(&site.cancel(3, "ann", 7)).why, Why::CancelledBefore(id));
    assert_eq!(site.words(), ["cancelled-before"]);
    let day = 86_400_000;
    assert_eq!(problem(&site.commit(day - 1, "ann", 7)).why, Why::CancelledBefore(id));
    assert_eq!(problem(&site.commit(day, "ann", 7)).why, Why::Unknown(id), "forgotten after a day");
}

#[test]
fn a_part_is_given_back_and_then_the_rest() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 8));
    let less = site.release(0, "ann", 1, 150, 3);
    assert_eq!((interval(&less), reservation(&less).version), ((100, 200), 2));
    assert_eq!(reservation(&less).slots[0].capacity, Capacity(8));
    assert_eq!(site.changes.last().unwrap().took, [span(100, 150, 8), span(150, 200, 3)]);
    assert_eq!(site.book(0, "bob", 2, fixed(150, 200, 5)).word(), "committed");
    let same = site.release(0, "ann", 1, 150, 3);
    assert_eq!(reservation(&same).version, 2, "there is nothing more to give back");
    assert_eq!(reservation(&site.look(160_000, "ann", 1)).slots[0].capacity, Capacity(3));
    let shorter = site.release(160_000, "ann", 1, 180, 0);
    assert_eq!((shorter.word(), interval(&shorter)), ("active", (100, 180)));
    let done = site.release(170_500, "ann", 1, 100, 0);
    assert_eq!((done.word(), interval(&done)), ("completed", (100, 171)));
    assert_eq!(problem(&site.release(170_500, "ann", 1, 100, 0)).why.code(), "illegal");
    let part = Call::Release {
        id: ReservationId(2),
        part: Some(3),
        from: Time(0),
        keep: Capacity(0),
        end_jobs: false,
    };
    assert_eq!(problem(&site.call(170_500, "bob", part)).why, Why::NoSuchPart(3));
}

#[test]
fn a_release_that_would_give_back_nothing_is_refused_in_plain_words() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 8));
    let said = |answer: &Answer| (problem(answer).why.code(), problem(answer).why.to_string());
    let (code, more) = said(&site.release(0, "ann", 1, 150, 500));
    assert_eq!(code, "not-released");
    assert!(more.contains("a capacity of 8") && more.contains("the 500 to keep"), "{more}");
    let (code, late) = said(&site.release(0, "ann", 1, 200, 0));
    assert_eq!(code, "not-released");
    assert!(late.contains("it ends before"), "{late}");
    let (_, over) = said(&{
        site.cancel(0, "ann", 1);
        site.release(0, "ann", 1, 150, 0)
    });
    assert_eq!(over, "a reservation that is cancelled cannot be released");
}

#[test]
fn the_answer_to_a_release_shows_what_is_left() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 8));
    let answer = site.release(150_400, "ann", 1, 0, 3);
    assert_eq!(reservation(&answer).slots[0].capacity, Capacity(3));
}

#[test]
fn of_what_has_begun_only_the_end_changes_and_the_capacity_to_less() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 4));
    site.book(0, "bob", 2, fixed(300, 400, 5));
    let longer = site.change(150_400, "ann", 1, Some(1), fixed(100, 260, 4));
    assert_eq!((longer.word(), interval(&longer)), ("active", (100, 260)));
    assert_eq!(reservation(&longer).version, 2);
    assert_eq!(problem(&site.change(150_400, "ann", 1, None, fixed(100, 310, 4))).why.code(), "no-room");
    let impossible = |answer: &Answer| match &problem(answer).why {
        Why::Unsupported(what) => *what,
        why => panic!("{why}"),
    };
    let other_begin = site.change(150_400, "ann", 1, None, fixed(160, 260, 4));
    assert_eq!(impossible(&other_begin), Impossible::BeginOfActive);
    let more = site.change(150_400, "ann", 1, None, fixed(100, 260, 5));
    assert_eq!(impossible(&more), Impossible::MoreOfActive);
    let past = site.change(150_400, "ann", 1, None, fixed(100, 151, 4));
    assert_eq!(impossible(&past), Impossible::EndIsPast);
    let shorter = site.change(150_400, "ann", 1, Some(2), fixed(100, 220, 3));
    assert_eq!((shorter.word(), interval(&shorter)), ("active", (100, 220)));
    assert_eq!(reservation(&shorter).slots[0].capacity, Capacity(3));
    assert_eq!(site.book(150_400, "bob", 3, fixed(160, 230, 5)).word(), "committed", "what was given back");
    assert_eq!(site.look(220_000, "ann", 1).word(), "completed");
}

#[test]
fn giving_back_everything_before_the_start_is_a_cancel() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 8));
    assert_eq!(site.release(0, "ann", 1, 100, 0).word(), "cancelled");
    site.hold(0, "ann", 2, fixed(100, 200, 8));
    assert_eq!(site.release(0, "ann", 2, 20, 4).word(), "held");
    assert_eq!(site.release(0, "ann", 2, 20, 0).word(), "cancelled");
    let because = site.events.iter().filter_map(|event| match event.what {
        What::Cancelled { because, .. } => Some(because),
        _ => None,
    });
    assert_eq!(because.collect::<Vec<_>>(), [Because::Owner; 2]);
}

#[test]
fn a_change_takes_nothing_of_the_second_that_has_begun() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 8));
    let into_this_second = site.change(5_500, "ann", 1, None, fixed(5, 9, 8));
    assert_eq!(problem(&into_this_second).why.code(), "no-window");
    let next_second = site.change(5_500, "ann", 1, None, fixed(6, 9, 8));
    assert_eq!(reservation(&next_second).slots[0].interval.begin, Time(6));
}

#[test]
fn a_change_takes_the_new_terms_or_keeps_the_old_ones() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 6));
    site.book(0, "bob", 2, fixed(200, 300, 6));
    // Its own capacity counts as free: from 150 on it would not fit beside itself.
    let moved = site.change(0, "ann", 1, Some(1), fixed(110, 200, 8));
    assert_eq!((moved.word(), interval(&moved), reservation(&moved).version), ("committed", (110, 200), 2));
    let [.., wants, settles] = &site.changes[..] else { panic!("{:?}", site.changes) };
    assert_eq!(wants.gave_back, [span(100, 200, 6)]);
    assert_eq!(wants.took, [span(100, 110, 6), span(110, 200, 8)], "new terms are taken before old ones go");
    assert_eq!((&wants.took, &settles.took[..]), (&settles.gave_back, &[span(110, 200, 8)][..]));
    let refused = site.change(0, "ann", 1, Some(2), fixed(150, 250, 8));
    assert_eq!(problem(&refused).why.code(), "no-room");
    let kept = site.look(0, "ann", 1);
    assert_eq!((kept.word(), interval(&kept), reservation(&kept).version), ("committed", (110, 200), 2));
    let seen = site.change(0, "ann", 1, Some(1), fixed(120, 200, 8));
    assert_eq!(problem(&seen).why, Why::Changed { seen: 1, now: 2 });
    assert_eq!(site.words()[4..], ["change-requested", "change-settled"], "a refusal changes nothing");
    site.hold(0, "ann", 3, fixed(300, 400, 1));
    assert_eq!(problem(&site.change(0, "ann", 3, None, fixed(300, 400, 2))).why.code(), "illegal");
    assert_eq!(problem(&site.change(150_000, "ann", 1, None, fixed(300, 400, 2))).why.code(), "unsupported");
}

#[test]
fn only_the_owner_and_operators_may_act() {
    let mut site = Site::new(rules());
    let id = ReservationId(1);
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    let jobs = vec![];
    let calls = [
        Call::Hold { id, hold_for: Millis(1) },
        Call::Commit { id, jobs },
        Call::Attach { id, part: 0, job: JobId(1) },
        Call::Change { id, version: None, request: fixed(100, 200, 1) },
        Call::Extend { id, version: None, end: Time(300) },
        Call::Release { id, part: Some(0), from: Time(0), keep: Capacity(0), end_jobs: false },
        Call::Cancel { id },
        Call::Show { id },
    ];
    for call in calls {
        let roles = vec!["broker".into()];
        let answer = site.call_as(0, Caller { user: "bob".into(), roles }, call);
        assert_eq!(problem(&answer).why, Why::NotOwner(id));
    }
    let operator = Caller { user: "bob".into(), roles: vec!["operator".into()] };
    let committed = site.call_as(0, operator, Call::Commit { id, jobs: vec![] });
    assert_eq!(reservation(&committed).owner, "ann".into());
}

#[test]
fn what_is_over_is_forgotten_a_day_later_and_with_it_all_that_was_remembered() {
    let mut site = Site::new(rules());
    site.hold(0, "ann", 1, fixed(100, 200, 8));
    site.book(1, "ann", 2, fixed(200, 300, 8));
    site.book(2, "ann", 3, fixed(200, 300, 8));
    site.cancel(3, "ann", 4);
    let day = 86_400_000;
    site.tick(day + 299_999);
    let left: Vec<u128> = site.ledger.entries().map(|(id, _)| id.0).collect();
    assert_eq!((left, site.ledger.denied().count()), (vec![2], 0));
    site.tick(day + 300_000);
    assert_eq!(site.ledger.entries().count() + site.ledger.answers_remembered(), 0);
    assert_eq!((site.ledger.usage().count(), site.ledger.next_deadline()), (0, None));
    assert_eq!(problem(&site.commit(day + 300_000, "ann", 2)).why.code(), "unknown");
}
