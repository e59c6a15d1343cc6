//! What fault schedules found.

use crate::desk::{Desk, ada, book, keeps, look, span, words};
use bookahead_party::queries::BatchState;
use bookahead_party::{Input, Origin, Queries, Work};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::jobs::JobRequest;
use bookahead_protocol::{Call, JobId, Key, Millis, Moment, ReservationId};

const LIMIT: Millis = Millis(10_000);

/// A site that has looked at its batch system and found nothing.
fn met() -> Desk {
    let mut desk = Desk::new(Some(LIMIT));
    let order = look(&desk.start(0));
    desk.looked(10, order, &[]);
    desk
}

#[test]
fn a_repeated_request_that_waits_is_not_refused_after_a_restart() {
    let mut desk = met();
    let asked = desk.call(20, 1, book(7, 100, true));
    assert_eq!((keeps(&asked.batch).len(), words(&asked)), (1, vec![]));
    let order = look(&desk.restart(1_000));
    assert_eq!(words(&desk.call(1_010, 2, book(8, 100, true))), ["no-batch-system"], "a new one");
    assert_eq!(words(&desk.call(1_020, 1, book(7, 100, true))), Vec::<&str>::new());
    let seen = desk.looked(1_030, order, &[(7, vec![span(100, 110, 4)])]);
    assert_eq!(words(&seen), ["committed"]);
}

#[test]
fn what_is_kept_in_pieces_is_not_ordered_again() {
    let mut desk = met();
    let (order, _) = keeps(&desk.call(20, 1, book(7, 100, true)).batch)[0];
    desk.kept(30, order, 7);
    let order = look(&desk.step(20_000, Input::Time));
    let pieces = vec![span(100, 110, 1), span(100, 110, 3)];
    assert_eq!(keeps(&desk.looked(20_010, order, &[(7, pieces)]).batch), []);
    // Once it has begun, a batch system may show only what is to come.
    let order = look(&desk.step(104_000, Input::Time));
    let rest = vec![span(104, 110, 4)];
    assert_eq!(keeps(&desk.looked(104_010, order, &[(7, rest)]).batch), []);
    let order = look(&desk.step(105_000, Input::WantLook));
    let less = vec![span(100, 110, 3)];
    assert_eq!(keeps(&desk.looked(105_010, order, &[(7, less)]).batch).len(), 1, "it is not the same");
}

#[test]
fn a_look_that_is_told_by_a_newer_order_has_ended() {
    let mut desk = met();
    look(&desk.step(20_000, Input::Time));
    let (order, _) = keeps(&desk.call(20_010, 1, book(7, 100, true)).batch)[0];
    desk.looked(20_020, order, &[]);
    desk.kept(20_030, order, 7);
    let health = desk.site.batch_health(Moment(60_000)).expect("it has a batch system");
    assert_eq!(health.state, BatchState::Ok);
}

#[test]
fn a_submission_is_answered_although_the_batch_system_is_silent() {
    let mut desk = met();
    let work = Work::Pretended { run: Seconds(1) };
    let job = JobRequest {
        reservation: None,
        resource: None,
        kind: "processors".into(),
        capacity: Capacity(1),
        limit: Seconds(5),
        latest_end: None,
        requirements: Vec::new(),
        reference_mhz: None,
        input_bytes: None,
        work,
        mode: None,
        copies: None,
        claims: false,
    };
    let (call, id, origin) = (desk.next_call(), JobId(9), Origin::default());
    let submit = Input::Submit { call, caller: ada(), key: Key(9), id, job: Box::new(job), origin };
    assert_eq!(words(&desk.step(100, submit)), Vec::<&str>::new());
    assert_eq!(words(&desk.step(100 + LIMIT.0, Input::Time)), ["job"], "it waits in the book");
    assert!(desk.site.job(id).is_some());
}

#[test]
fn giving_back_a_part_keeps_the_second_that_has_begun() {
    let mut desk = Desk::new(None);
    desk.start(0);
    desk.call(20, 1, book(7, 100, true));
    let (id, keep) = (ReservationId(7), Capacity(1));
    let released = desk.call(104_500, 2, Call::Release { id, part: 0, from: Time(104), keep });
    let left = vec![span(100, 105, 4), span(105, 110, 1)];
    assert_eq!(keeps(&released.batch_now)[0].1, [span(100, 110, 4)], "until it is durable");
    assert_eq!(keeps(&released.batch)[0].1, left);
}
