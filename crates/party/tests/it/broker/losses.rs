//! Losses of parts at their sites: when a broker queries them, and what it shows then.

use super::bookings::{ID, committed, granted};
use super::desk::{Desk, name, site};
use bookahead_party::{Changes, Heartbeat, Input, Origin, PeerRequest, Queries};
use bookahead_plan::{Capacity, Time};
use bookahead_protocol::ledger::Because;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{
    Answer, Call, Condition, Envelope, Loss, Lost, Moment, Reservation, ReservationId, State,
};
use std::sync::Arc;

/// The reservation at north for the booking's part.
fn part(desk: &Desk) -> ReservationId {
    desk.broker.head().booking(ID).unwrap().children[0].pick.child
}

/// North reports the number of changes since one of its starts, and the last ones.
fn hears(desk: &mut Desk, at: i64, epoch: i64, number: u64, recent: &[ReservationId]) {
    let recent = recent.iter().copied().collect();
    let changes = Some(Arc::new(Changes { epoch: Moment(epoch), number, recent }));
    let heartbeat = Box::new(Heartbeat { changes, ..site("north", 0) });
    desk.step(at, Input::Heard { call: None, heartbeat, round_trip: Some(1) });
}

fn asked(desk: &Desk) -> Envelope {
    match &desk.out.calls[0].request {
        PeerRequest::Call(envelope) => (**envelope).clone(),
        other => panic!("{other:?}"),
    }
}

/// North answers the query with its reservation, changed in some way.
fn shows(desk: &mut Desk, at: i64, how: impl FnOnce(&mut Reservation)) {
    let envelope = asked(desk);
    let commit = Envelope { call: Call::Commit { id: part(desk), jobs: Vec::new() }, ..envelope.clone() };
    let Answer::Reservation(mut there) = granted(&name("north"), &commit) else { panic!("granted") };
    there.held_for = None;
    how(&mut there);
    answers(desk, at, &envelope, Answer::Reservation(there));
}

fn answers(desk: &mut Desk, at: i64, to: &Envelope, answer: Answer) {
    desk.step(at, Input::Answered { from: name("north"), key: to.key, answer, origin: Origin::default() });
}

fn shown(desk: &Desk) -> Reservation {
    desk.broker.reservation(Moment(0), ID).unwrap()
}

fn told(desk: &Desk) -> Vec<&'static str> {
    desk.out.notices.iter().map(|(_, notice)| notice.kind).collect()
}

#[test]
fn a_site_is_asked_about_the_parts_that_it_names_and_no_others() {
    let mut desk = committed();
    hears(&mut desk, 50, 7, 0, &[]);
    assert_eq!(desk.said(), ["north show"], "the first time, about all");
    shows(&mut desk, 60, |_| {});
    assert_eq!(told(&desk), [""; 0], "nothing is new");
    hears(&mut desk, 70, 7, 2, &[ReservationId(1), ReservationId(2)]);
    assert_eq!(desk.said(), [""; 0], "none of ours");
    let ours = part(&desk);
    hears(&mut desk, 80, 7, 3, &[ReservationId(1), ReservationId(2), ours]);
    assert_eq!(desk.said(), ["north show"]);
    shows(&mut desk, 90, |_| {});
    hears(&mut desk, 100, 7, 3, &[ours]);
    assert_eq!(desk.said(), [""; 0], "that was known");
    hears(&mut desk, 110, 7, 900, &[ReservationId(1)]);
    assert_eq!(desk.said(), ["north show"], "it cannot tell what has changed");
    shows(&mut desk, 120, |_| {});
    hears(&mut desk, 130, 8, 900, &[]);
    assert_eq!(desk.said(), ["north show"], "it was started anew");
}

#[test]
fn missing_capacity_is_shown_until_it_is_back() {
    let mut desk = committed();
    hears(&mut desk, 5_000, 7, 0, &[]);
    shows(&mut desk, 5_010, |there| there.missing = vec![Capacity(3)]);
    assert_eq!(told(&desk), ["degraded"]);
    let view = shown(&desk);
    assert_eq!((view.state, view.condition), (State::Committed, Condition::Degraded));
    assert_eq!(view.missing, [Capacity(3)]);
    assert_eq!(view.losses, [Loss { part: 0, since: Time(5), why: Lost::Degraded, heal_at: None }]);
    desk.restart(6_000);
    assert_eq!(shown(&desk).missing, [Capacity(3)], "it is written down");
    hears(&mut desk, 7_000, 7, 0, &[]);
    shows(&mut desk, 7_010, |_| {});
    assert_eq!((told(&desk), shown(&desk).condition), (vec!["whole"], Condition::Whole));
}

#[test]
fn a_booking_of_which_nothing_is_left_is_over() {
    for (by, state, outcome) in [
        (Some(Because::Operator), State::Cancelled, "lost"),
        (Some(Because::Owner), State::Cancelled, "cancelled"),
        (None, State::Expired, "lost"),
    ] {
        let mut desk = committed();
        hears(&mut desk, 50, 7, 0, &[]);
        shows(&mut desk, 60, |there| (there.state, there.given_up) = (state, by));
        assert_eq!(told(&desk), ["broken", outcome]);
        assert_eq!(shown(&desk).state, State::Cancelled);
    }
}

#[test]
fn a_site_that_does_not_know_a_part_has_lost_it_and_one_that_is_silent_has_not() {
    let mut desk = committed();
    hears(&mut desk, 50, 7, 0, &[]);
    let show = asked(&desk);
    answers(&mut desk, 60, &show, Problem::new(Why::NoBatchSystem).into());
    assert_eq!(shown(&desk).condition, Condition::Whole, "it could not say");
    desk.wait_until(5_060);
    assert_eq!(desk.said(), ["north show"], "so it is asked again");
    desk.wait_until(20_000);
    assert_eq!(shown(&desk).condition, Condition::Whole, "silence says nothing");
    desk.wait_until(26_000);
    let (show, unknown) = (asked(&desk), Why::Unknown(part(&desk)));
    answers(&mut desk, 26_010, &show, Problem::new(unknown).into());
    assert_eq!(told(&desk), ["broken", "lost"]);
}

#[test]
fn all_parts_are_asked_about_now_and_then() {
    let mut desk = committed();
    desk.wait_until(50);
    desk.wait_until(60_000);
    assert_eq!(desk.said(), [""; 0]);
    desk.wait_until(60_050);
    assert_eq!(desk.said(), ["north show"], "although no change was reported");
}

#[test]
fn what_a_site_told_before_its_terms_were_changed_does_not_count() {
    let mut desk = committed();
    hears(&mut desk, 50, 7, 0, &[]);
    let show = asked(&desk);
    desk.call(60, 3, Call::Extend { id: ID, version: None, end: Time(300) });
    let extend = asked(&desk);
    let commit = Envelope { call: Call::Commit { id: part(&desk), jobs: Vec::new() }, ..extend.clone() };
    let Answer::Reservation(before) = granted(&name("north"), &commit) else { panic!("granted") };
    let mut longer = before.clone();
    longer.slots[0].interval.end = Time(300);
    answers(&mut desk, 70, &extend, Answer::Reservation(longer));
    answers(&mut desk, 80, &show, Answer::Reservation(before));
    let view = shown(&desk);
    assert_eq!((view.slots[0].interval.end, view.version), (Time(300), 2));
    desk.wait_until(5_080);
    assert_eq!(desk.said(), ["north show"], "it is asked again");
}

#[test]
fn a_part_that_is_released_as_a_whole_is_gone_at_once() {
    let mut desk = committed();
    desk.call(50, 3, Call::Release { id: ID, part: None, from: Time(0), keep: Capacity(0), end_jobs: false });
    let release = asked(&desk);
    let Answer::Reservation(mut there) = granted(&name("north"), &release) else { panic!("granted") };
    (there.state, there.given_up, there.held_for) = (State::Cancelled, Some(Because::Owner), None);
    answers(&mut desk, 60, &release, Answer::Reservation(there));
    assert_eq!(desk.answer().word(), "cancelled");
    assert_eq!(shown(&desk).state, State::Cancelled);
    desk.call(70, 4, Call::Commit { id: ID, jobs: Vec::new() });
    assert!(matches!(desk.answer(), Answer::Problem(_)));
}
