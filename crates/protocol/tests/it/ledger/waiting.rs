//! Waiting for the batch system: a request, a late commit or a change is pending until it is granted,
//! refused, cancelled, or overtaken by time.

use super::*;
use bookahead_protocol::deadline::Adaptive;
use bookahead_protocol::ledger::{HoldRules, RulesError, UserLimits};
use bookahead_protocol::problem::Limit;
use std::collections::BTreeSet;

/// The batch system has 30 s to answer.
fn asking() -> Rules {
    Rules { consent: Some(Millis(30_000)), ..rules() }
}

fn reserve(id: u128, request: Request) -> Call {
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis(60_000), book: false }
}

fn book(id: u128, request: Request) -> Call {
    Call::Reserve { id: ReservationId(id), request, hold_for: Millis::ZERO, book: true }
}

fn commit(id: u128) -> Call {
    Call::Commit { id: ReservationId(id), jobs: vec![] }
}

fn change(id: u128, request: Request) -> Call {
    Call::Change { id: ReservationId(id), version: None, request }
}

fn extend(id: u128, end: i64) -> Call {
    Call::Extend { id: ReservationId(id), version: None, end: Time(end) }
}

fn envelope(key: u128, call: Call) -> Envelope {
    Envelope { key: Key(key), caller: caller("ann"), call }
}

impl Site {
    /// Sends a call that has to wait.
    #[track_caller]
    fn wait(&mut self, now: i64, key: u128, call: Call) {
        assert!(self.handle(now, &envelope(key, call)).1, "it does not wait");
        assert_eq!(self.told(key), None);
    }

    /// The name of a reservation's state.
    fn state(&self, id: u128) -> &'static str {
        self.ledger.entry(ReservationId(id)).map_or("none", |entry| entry.state.word())
    }

    /// A granted and committed reservation.
    fn booked(&mut self, now: i64, id: u128, request: Request) {
        self.wait(now, 900 + id, book(id, request));
        self.grant(now, id);
        assert_eq!(self.state(id), "committed");
    }

    /// The answer to a call, as its stable name.
    #[track_caller]
    fn told_word(&self, key: u128) -> &'static str {
        self.told(key).expect("nothing was told yet").word()
    }
}

#[test]
fn a_request_rests_until_it_is_granted_and_its_hold_counts_from_the_grant() {
    let mut site = Site::new(asking());
    site.wait(0, 1, reserve(1, fixed(100, 200, 3)));
    let waits_since = |site: &Site| Some(site.ledger.entry(ReservationId(1))?.waiting.as_ref()?.since);
    assert_eq!((site.state(1), waits_since(&site)), ("requested", Some(Moment(0))));
    assert_eq!(site.ledger.next_deadline(), Some(Moment(30_000)));
    assert_eq!(site.grant(20_000, 1), ["granted"]);
    let told = site.told(1).unwrap();
    assert_eq!((told.word(), reservation(told).held_for), ("held", Some(Millis(60_000))));
    assert_eq!(site.ledger.entry(ReservationId(1)).unwrap().deadline, Moment(80_000));
    assert_eq!((site.ledger.is_waiting(ReservationId(1)), waits_since(&site)), (false, None));
    assert_eq!(site.grant(20_000, 1), [""; 0], "once");
    assert_eq!(
        site.commit(79_999, "ann", 1).word(),
        "committed",
        "in time: the batch system is not asked again"
    );
}

#[test]
fn a_booking_is_committed_when_it_is_granted_also_after_its_begin() {
    let mut site = Site::new(asking());
    site.wait(9_500, 1, book(1, fixed(10, 60, 3)));
    assert_eq!(site.tick(12_000), [""; 0], "its begin has come, but it is not promised yet");
    assert_eq!(site.grant(12_500, 1), ["granted", "committed"]);
    assert_eq!(site.told_word(1), "committed");
    assert_eq!(site.tick(12_500), ["begun"]);
    site.wait(20_000, 2, book(2, fixed(20, 25, 3)));
    assert_eq!(site.tick(25_000), ["not-granted"], "nothing would be left of it");
}

#[test]
fn what_waits_takes_its_room_its_share_and_counts_for_limits() {
    let mut rules = asking();
    rules.limits.default =
        UserLimits { count: Some(3), area: Some(1_000), share: Some(75), ..UserLimits::default() };
    let mut site = Site::new(rules);
    site.wait(0, 1, reserve(1, fixed(100, 200, 4)));
    let usage =
        |site: &Site| site.ledger.usage().map(|(_, usage)| (usage.count, usage.area)).collect::<Vec<_>>();
    assert_eq!(usage(&site), [(1, 400)]);
    let share = site.hold(0, "ann", 2, fixed(150, 160, 3));
    assert_eq!(problem(&share).why, Why::Limit { limit: Limit::Share, most: 75, asked: 88 });
    assert_eq!(problem(&site.hold(0, "bob", 3, fixed(150, 160, 5))).why.code(), "no-room");
    site.wait(0, 4, book(4, fixed(200, 300, 6)));
    let area = site.hold(0, "ann", 5, fixed(300, 301, 1));
    assert_eq!(problem(&area).why, Why::Limit { limit: Limit::Area, most: 1_000, asked: 1_001 });
    site.refuse(0, 4);
    site.wait(0, 6, reserve(6, fixed(300, 310, 1)));
    site.wait(0, 7, reserve(7, fixed(310, 320, 1)));
    assert_eq!(problem(&site.hold(0, "ann", 8, fixed(320, 330, 1))).why.code(), "limit", "three wait");
    site.refuse(0, 1);
    assert_eq!(usage(&site), [(2, 20)]);
    assert_eq!(site.hold(0, "bob", 9, fixed(150, 160, 5)).word(), "requested");
}

#[test]
fn old_and_new_terms_of_a_change_that_waits_both_count_for_limits() {
    let mut rules = asking();
    rules.limits.default = UserLimits { area: Some(1_000), share: Some(50), ..UserLimits::default() };
    let mut site = Site::new(rules);
    site.booked(0, 1, fixed(100, 200, 2));
    site.wait(0, 1, change(1, fixed(300, 400, 4)));
    let share = site.hold(0, "ann", 2, fixed(350, 360, 1));
    assert_eq!(problem(&share).why, Why::Limit { limit: Limit::Share, most: 50, asked: 63 });
    let old_share = site.hold(0, "ann", 3, fixed(150, 160, 3));
    assert_eq!(problem(&old_share).why, Why::Limit { limit: Limit::Share, most: 50, asked: 63 });
    let area = site.hold(0, "ann", 4, fixed(500, 701, 2));
    assert_eq!(problem(&area).why, Why::Limit { limit: Limit::Area, most: 1_000, asked: 1_002 });
    site.grant(0, 1);
    assert_eq!(
        site.hold(0, "ann", 5, fixed(500, 701, 2)).word(),
        "requested",
        "the old terms are given back"
    );
}

#[test]
fn what_is_refused_was_never_promised() {
    let mut site = Site::new(asking());
    site.wait(0, 1, reserve(1, fixed(100, 200, 8)));
    assert_eq!(site.changes.last().unwrap().took, [span(100, 200, 8)]);
    assert_eq!(site.refuse(1_000, 1), ["not-granted"]);
    assert_eq!(site.changes.last().unwrap().gave_back, [span(100, 200, 8)]);
    let refused = site.told(1).unwrap().clone();
    assert_eq!(problem(&refused).why, Why::NotGranted("busy".into()));
    assert_eq!(site.ledger.reserved(&"cluster".into()).count(), 0);
    assert_eq!(
        site.hold(1_000, "ann", 1, fixed(100, 200, 8)),
        refused,
        "the id stands for the refused request"
    );
    assert_eq!(site.look(1_000, "ann", 1), refused);
    assert_eq!(site.cancel(1_000, "ann", 1).word(), "rejected");
    assert_eq!(site.hold(1_000, "ann", 2, fixed(100, 200, 8)).word(), "requested", "there is room again");
}

#[test]
fn a_batch_system_that_takes_too_long_is_a_refusal_that_says_so() {
    let mut site = Site::new(asking());
    site.wait(5_000, 1, reserve(1, fixed(100, 200, 8)));
    site.wait(5_000, 2, reserve(2, fixed(10, 20, 8)));
    assert_eq!(site.tick(9_999), [""; 0]);
    assert_eq!(site.tick(10_000), ["not-granted"], "a hold is of no use after its begin");
    assert_eq!(problem(site.told(2).unwrap()).why, Why::BatchTimeout { waited: Millis(5_000) });
    assert_eq!(site.tick(35_000), ["not-granted"]);
    assert_eq!(site.told_word(1), "batch-timeout");
    assert_eq!(site.grant(35_000, 1), [""; 0], "too late: the grant must be undone");
    assert_eq!(
        (site.state(1), site.hold(35_000, "bob", 3, fixed(100, 200, 8)).word()),
        ("none", "requested")
    );
}

#[test]
fn a_request_that_waits_can_be_cancelled_and_a_grant_after_that_changes_nothing() {
    let mut site = Site::new(asking());
    site.wait(0, 1, reserve(1, fixed(100, 200, 8)));
    assert_eq!(site.cancel(1_000, "ann", 1).word(), "cancelled");
    assert_eq!(site.told_word(1), "cancelled", "so says the answer to the call that waited");
    assert_eq!(site.grant(2_000, 1), [""; 0]);
    assert_eq!((site.state(1), site.ledger.reserved(&"cluster".into()).count()), ("cancelled", 0));
    assert_eq!(site.hold(2_000, "ann", 1, fixed(100, 200, 8)).word(), "cancelled");
    assert_eq!(site.words(), ["requested", "cancelled"]);
}

#[test]
fn whatever_else_is_asked_of_a_request_that_waits_has_to_be_asked_again() {
    let mut site = Site::new(asking());
    site.wait(0, 1, reserve(1, fixed(100, 200, 8)));
    let id = ReservationId(1);
    let asked = [
        Call::Hold { id, hold_for: Millis(1) },
        commit(1),
        change(1, fixed(100, 200, 1)),
        extend(1, 300),
        Call::Release { id, part: Some(0), from: Time(150), keep: Capacity(0), end_jobs: false },
    ];
    let events = site.events.len();
    for call in asked {
        assert_eq!(site.call(0, "ann", call).word(), "busy");
    }
    let job = Call::Attach { id, part: 0, job: JobId(1) };
    assert_eq!(site.call(0, "ann", job).word(), "unsupported");
    assert_eq!(words(&site.events[events..]), [""; 0]);
    assert_eq!(site.look(0, "ann", 1).word(), "requested", "the owner can see it");
}

#[test]
fn a_repeated_call_waits_too_and_gets_the_same_answer() {
    let mut site = Site::new(asking());
    site.wait(0, 1, reserve(1, fixed(100, 200, 3)));
    let events = site.events.len();
    site.wait(1_000, 1, reserve(1, fixed(100, 200, 3)));
    assert_eq!(site.events.len(), events, "it has no effect");
    let other_call = site.send(1_000, &envelope(1, commit(1)));
    assert_eq!(problem(&other_call).why, Why::KeyTaken(Key(1)));
    let other_key = envelope(2, reserve(1, fixed(100, 200, 3)));
    assert!(site.handle(1_000, &other_key).1, "the same request under another key waits as well");
    site.grant(2_000, 1);
    let by = site.events.iter().rfind(|event| event.what.word() == "granted").unwrap().what.clone();
    let first = envelope(1, reserve(1, fixed(100, 200, 3)));
    let mut answers = [&first, &other_key].map(|caller| {
        let (answer, ticked) = site.ledger.settled_answer(Moment(2_000), caller, &by);
        site.note(ticked);
        answer
    });
    assert_eq!(answers[0], answers[1]);
    for key in [1, 2] {
        let again = site.send(3_000, &envelope(key, reserve(1, fixed(100, 200, 3))));
        assert_eq!(
            again,
            answers[0].again(Millis(1_000)),
            "with as much less of the hold as time has passed"
        );
        answers[0] = site.told(key).unwrap().clone();
    }
}

#[test]
fn the_answer_is_remembered_across_restarts_before_and_after_it_came() {
    let mut site = Site::new(asking());
    site.booked(0, 1, fixed(100, 200, 3));
    let wanted = Call::Change { id: ReservationId(1), version: Some(1), request: fixed(100, 200, 5) };
    site.wait(1_000, 1, wanted.clone());
    let change = envelope(1, wanted);
    let snapshot = site.ledger.snapshot();
    let restarted = [site.replayed(), Ledger::restore(asking(), snapshot.clone()).unwrap()];
    assert_eq!(restarted[1].snapshot(), snapshot);
    for mut ledger in restarted {
        assert_eq!(ledger, site.ledger);
        let again = ledger.handle(Moment(2_000), &change, &Views::default());
        assert_eq!((again.waits, again.events), (Some(ReservationId(1)), vec![]), "it waits too");
        // The answer is recorded although its caller is gone: a repetition is not refused because of the old
        // version.
        ledger.granted(Moment(3_000), ReservationId(1));
        let mut later = Ledger::restore(asking(), ledger.snapshot()).unwrap();
        for ledger in [&mut ledger, &mut later] {
            let told = ledger.handle(Moment(4_000), &change, &Views::default());
            assert_eq!((told.waits, told.events), (None, vec![]));
            assert_eq!((told.answer.word(), reservation(&told.answer).version), ("committed", 2));
        }
    }
}

#[test]
fn late_commits_wait_again_and_those_in_time_do_not() {
    let mut site = Site::new(asking());
    site.wait(0, 1, reserve(1, fixed(100, 200, 3)));
    site.grant(1_000, 1);
    assert_eq!(site.tick(61_000), ["expired"]);
    let late = Call::Commit { id: ReservationId(1), jobs: vec![JobId(7)] };
    site.wait(62_000, 2, late.clone());
    assert_eq!((site.state(1), site.words().last()), ("requested", Some(&"commit-requested")));
    site.wait(62_000, 3, late);
    site.wait(62_000, 4, commit(1));
    let more_jobs = site.call(62_000, "ann", Call::Commit { id: ReservationId(1), jobs: vec![JobId(8)] });
    assert_eq!(more_jobs.word(), "busy", "these would be lost");
    assert_eq!(site.hold(62_000, "ann", 1, fixed(100, 200, 3)).word(), "busy");
    assert_eq!(problem(&site.hold(62_000, "bob", 2, fixed(150, 160, 6))).why.code(), "no-room");
    assert_eq!(site.refuse(63_000, 1), ["not-granted"]);
    assert_eq!((site.state(1), site.told_word(2)), ("expired", "not-granted"));
    assert_eq!(site.hold(63_000, "bob", 3, fixed(150, 160, 6)).word(), "requested", "its room is free again");
    site.refuse(63_000, 3);
    site.wait(64_000, 5, Call::Commit { id: ReservationId(1), jobs: vec![JobId(7)] });
    assert_eq!(site.grant(65_000, 1), ["granted", "committed"]);
    let told = reservation(site.told(5).unwrap());
    assert_eq!((told.state, &told.jobs[..]), (State::Committed, &[(0, JobId(7))][..]));
}

#[test]
fn a_late_commit_that_waits_is_over_by_a_cancel_or_its_time_limit() {
    for cancelled in [true, false] {
        let mut site = Site::new(asking());
        site.wait(0, 1, reserve(1, fixed(100, 200, 3)));
        site.grant(0, 1);
        site.wait(60_000, 2, commit(1));
        if cancelled {
            site.cancel(70_000, "ann", 1);
        }
        site.tick(90_000);
        let after = if cancelled { ("cancelled", "cancelled") } else { ("expired", "batch-timeout") };
        assert_eq!((site.state(1), site.told_word(2)), after);
        assert_eq!(site.grant(90_000, 1), [""; 0]);
        assert_eq!(site.ledger.reserved(&"cluster".into()).count(), 0);
    }
}

#[test]
fn a_change_takes_old_and_new_terms_until_it_is_granted_or_refused() {
    let mut site = Site::new(asking());
    site.booked(0, 1, fixed(100, 200, 4));
    site.wait(0, 1, change(1, fixed(150, 250, 6)));
    assert_eq!(site.state(1), "change-requested");
    let reserved =
        |site: &Site| site.ledger.reserved(&"cluster".into()).map(|(_, span)| span).collect::<Vec<_>>();
    assert_eq!(reserved(&site), [span(100, 150, 4), span(150, 250, 6)]);
    assert_eq!(interval(&site.look(0, "ann", 1)), (100, 200), "the old terms are what it has");
    assert_eq!(
        site.call(0, "ann", change(1, fixed(100, 200, 1))).word(),
        "change-under-way",
        "one change at a time"
    );
    let job = Call::Attach { id: ReservationId(1), part: 0, job: JobId(1) };
    assert_eq!(site.call(0, "ann", job).word(), "change-under-way");
    site.refuse(1_000, 1);
    assert_eq!(
        (site.state(1), site.told_word(1), reserved(&site)),
        ("committed", "not-granted", vec![span(100, 200, 4)])
    );
    site.wait(2_000, 2, change(1, fixed(150, 250, 6)));
    assert_eq!(site.grant(3_000, 1), ["change-settled"]);
    let told = site.told(2).unwrap();
    assert_eq!((told.word(), interval(told), reservation(told).version), ("committed", (150, 250), 2));
    assert_eq!(reserved(&site), [span(150, 250, 6)]);
    site.wait(4_000, 3, change(1, fixed(160, 250, 6)));
    assert_eq!(site.tick(34_000), ["not-granted"]);
    assert_eq!((site.state(1), site.told_word(3)), ("committed", "batch-timeout"));
}

#[test]
fn a_change_that_waits_ends_with_a_cancel_or_when_the_old_terms_begin() {
    let mut site = Site::new(asking());
    site.booked(0, 1, fixed(100, 200, 4));
    site.booked(0, 2, fixed(100, 200, 4));
    site.wait(80_000, 1, change(1, fixed(150, 250, 4)));
    site.wait(80_000, 2, change(2, fixed(200, 300, 4)));
    assert_eq!(site.cancel(90_000, "ann", 1).word(), "cancelled");
    assert_eq!(site.told_word(1), "cancelled");
    assert_eq!(site.tick(100_000), ["begun"]);
    assert_eq!((site.state(2), site.told_word(2)), ("active", "not-granted"));
    assert_eq!((site.grant(100_000, 1).len(), site.grant(100_000, 2).len()), (0, 0), "too late");
    let reserved: Vec<_> = site.ledger.reserved(&"cluster".into()).collect();
    assert_eq!(reserved, [(ReservationId(2), span(100, 200, 4))]);
}

#[test]
fn a_change_to_terms_that_have_begun_may_still_be_granted() {
    let mut site = Site::new(asking());
    site.booked(0, 1, fixed(100, 200, 4));
    site.wait(5_000, 1, change(1, fixed(5, 50, 4)));
    assert_eq!(site.tick(7_000), [""; 0]);
    assert_eq!(site.grant(8_000, 1), ["change-settled"]);
    assert_eq!(site.tick(8_000), ["begun"]);
}

#[test]
fn a_longer_reservation_takes_its_room_beside_what_it_has() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 4));
    site.book(0, "bob", 2, fixed(300, 400, 5));
    let longer = site.extend(0, "ann", 1, Some(1), 250);
    assert_eq!(
        (longer.word(), interval(&longer), reservation(&longer).version),
        ("committed", (100, 250), 2)
    );
    assert_eq!(problem(&site.extend(0, "ann", 1, Some(1), 300)).why, Why::Changed { seen: 1, now: 2 });
    assert_eq!(reservation(&site.extend(0, "ann", 1, None, 250)).version, 2, "it lasts as long already");
    assert_eq!(problem(&site.extend(0, "ann", 1, None, 310)).why.code(), "no-room");
    let active = site.extend(150_500, "ann", 1, Some(2), 300);
    assert_eq!((active.word(), interval(&active)), ("active", (100, 300)));
    assert_eq!(site.tick(299_999), [""; 0]);
    assert_eq!(site.look(300_000, "ann", 1).word(), "completed");
    assert_eq!(problem(&site.extend(300_000, "ann", 1, None, 350)).why.code(), "illegal");
    site.hold(300_000, "ann", 3, fixed(350, 360, 1));
    assert_eq!(
        problem(&site.extend(300_000, "ann", 3, None, 370)).why.code(),
        "illegal",
        "of a hold: hold it longer"
    );
}

#[test]
fn a_longer_reservation_has_the_capacity_of_its_end() {
    let mut site = Site::new(rules());
    site.book(0, "ann", 1, fixed(100, 200, 6));
    site.release(0, "ann", 1, 150, 2);
    site.book(0, "bob", 2, fixed(200, 300, 6));
    assert_eq!(site.extend(0, "ann", 1, None, 300).word(), "committed");
    let mine = site.ledger.entry(ReservationId(1)).unwrap();
    assert_eq!(mine.spans, [span(100, 150, 6), span(150, 300, 2)]);
}

#[test]
fn a_longer_reservation_respects_limits_and_the_first_waiting_job() {
    let mut rules = rules();
    rules.limits.default.area = Some(1_000);
    rules.limits.default.count = Some(1);
    let mut site = Site::new(rules);
    site.book(0, "ann", 1, fixed(0, 100, 8));
    let too_much = site.extend(50_000, "ann", 1, None, 126);
    assert_eq!(problem(&too_much).why, Why::Limit { limit: Limit::Area, most: 1_000, asked: 1_008 });
    // A job that waits for the whole machine is promised the end of the reservation.
    site.show(View { waiting: vec![waiting(10, 50, 8)], ..View::default() });
    assert_eq!(problem(&site.extend(50_000, "ann", 1, None, 110)).why.code(), "no-room");
    site.show(View::default());
    assert_eq!(site.extend(50_000, "ann", 1, None, 125).word(), "active");
}

#[test]
fn a_longer_reservation_waits_for_the_batch_system_too() {
    let mut site = Site::new(asking());
    site.booked(0, 1, fixed(100, 200, 4));
    site.wait(0, 1, extend(1, 250));
    assert_eq!(problem(&site.hold(0, "bob", 2, fixed(240, 260, 5))).why.code(), "no-room");
    site.wait(0, 1, extend(1, 250));
    assert_eq!(site.grant(1_000, 1), ["change-settled"]);
    assert_eq!((site.told_word(1), interval(site.told(1).unwrap())), ("committed", (100, 250)));
    site.tick(100_000);
    site.wait(230_000, 2, extend(1, 300));
    assert_eq!(site.state(1), "change-requested");
    assert_eq!(site.grant(231_000, 1), ["change-settled"]);
    assert_eq!((site.state(1), site.told_word(2)), ("active", "active"));
    site.wait(290_000, 3, extend(1, 350));
    assert_eq!(site.tick(300_000), ["completed"], "its end comes before the answer");
    assert_eq!((site.told_word(3), site.grant(300_000, 1).len()), ("not-granted", 0));
}

#[test]
fn an_active_reservation_that_waits_for_more_time_can_be_terminated_or_told_no() {
    let mut site = Site::new(asking());
    site.booked(0, 1, fixed(10, 200, 4));
    site.tick(10_000);
    site.wait(20_000, 1, extend(1, 250));
    site.refuse(21_000, 1);
    assert_eq!((site.state(1), site.told_word(1)), ("active", "not-granted"));
    site.wait(22_000, 2, extend(1, 250));
    assert_eq!(site.cancel(23_500, "ann", 1).word(), "terminated");
    assert_eq!((site.told_word(2), interval(site.told(2).unwrap())), ("terminated", (10, 24)));
    assert_eq!(site.ledger.reserved(&"cluster".into()).count(), 0);
}

#[test]
fn what_is_missing_of_a_reservation_is_missing_of_a_longer_one() {
    for consent in [None, Some(Millis(30_000))] {
        let mut site = Site::new(Rules { consent, ..rules() });
        for id in [1, 2] {
            site.book(0, "ann", id, fixed(100, 200, 4));
            site.grant(0, id);
        }
        let lost = site.ledger.lost(Moment(0), &"cluster".into(), Capacity(2), Some(&BTreeSet::new()));
        site.note(lost);
        site.extend(0, "ann", 2, None, 300);
        let takes = |site: &Site| site.ledger.entry(ReservationId(2)).unwrap().takes();
        if consent.is_some() {
            assert_eq!(takes(&site), [span(100, 200, 2), span(200, 300, 4)], "the new time has room");
            site.grant(0, 2);
        }
        assert_eq!(takes(&site), [span(100, 300, 2)]);
        site.cancel(0, "ann", 1);
        if consent.is_some() {
            assert_eq!(takes(&site), [span(100, 300, 2)], "the batch system has not said so yet");
            let kept = site.ledger.kept(Moment(0), ReservationId(2), Capacity(4));
            site.note(kept);
        }
        assert_eq!(takes(&site), [span(100, 300, 4)], "whole again");
    }
}

#[test]
fn what_only_waits_is_refused_first_when_capacity_fails() {
    let mut site = Site::new(asking());
    site.booked(0, 1, fixed(100, 200, 4));
    site.wait(0, 1, change(1, fixed(100, 200, 6)));
    site.wait(0, 2, reserve(2, fixed(100, 200, 2)));
    let lost = site.ledger.lost(Moment(0), &"cluster".into(), Capacity(3), Some(&BTreeSet::new()));
    assert_eq!(site.note(lost), ["lost", "not-granted", "not-granted"]);
    assert_eq!((site.told_word(1), site.told_word(2)), ("not-granted", "not-granted"));
    assert_eq!((site.state(1), site.state(2)), ("committed", "none"));
    assert_eq!(site.ledger.entry(ReservationId(1)).unwrap().missing, Capacity(0));
    site.wait(0, 3, change(1, fixed(300, 400, 5)));
    let lost = site.ledger.lost(Moment(0), &"cluster".into(), Capacity(2), Some(&BTreeSet::new()));
    assert_eq!(
        site.note(lost),
        ["lost", "not-granted", "missing"],
        "then what was promised, as far as it must be"
    );
    assert_eq!(site.ledger.entry(ReservationId(1)).unwrap().missing, Capacity(1));
}

#[test]
fn time_spent_waiting_is_no_part_of_a_hold() {
    let adaptive = Adaptive { target: 800_000, shortest: Millis(100), longest: Millis(60_000) };
    let holds = HoldRules { adaptive: Some(adaptive), ..HoldRules::default() };
    let [mut asks, mut does_not] =
        [Some(Millis(30_000)), None].map(|consent| Site::new(Rules { consent, holds, ..rules() }));
    for id in 0..40 {
        let now = i64::try_from(id).unwrap() * 100_000;
        let call = |begin: i64| reserve(id, fixed(begin, begin + 10, 1));
        asks.wait(now - 20_000, 1_000 + id, call(now / 1_000 + 70));
        asks.grant(now, id);
        does_not.call(now, "ann", call(now / 1_000 + 70));
        if id % 2 == 0 {
            asks.commit(now, "ann", id);
            does_not.commit(now, "ann", id);
        }
    }
    assert_eq!(asks.ledger.observed(), does_not.ledger.observed());
    let deadline = |site: &Site| site.ledger.entry(ReservationId(39)).unwrap().deadline;
    assert_eq!(deadline(&asks), deadline(&does_not));
}

#[test]
fn rules_that_leave_no_time_to_answer_are_wrong() {
    for limit in [0, -1] {
        let wrong = Ledger::new(Rules { consent: Some(Millis(limit)), ..rules() });
        assert_eq!(wrong.unwrap_err(), RulesError::NoTimeToAnswer);
    }
}
