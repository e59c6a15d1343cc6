//! Regressions found by fault tests.

use super::desk::{Desk, ada, book, keeps, look, span, words};
use bookahead_party::queries::BatchState;
use bookahead_party::{
    BatchError, BatchOrder, BatchReport, Clocks, Ended, Input, JobState, JobStatus, Look, Queries, Seen,
};
use bookahead_plan::{Capacity, Running, Time};
use bookahead_protocol::jobs::JobWord;
use bookahead_protocol::ledger::View;
use bookahead_protocol::{Call, JobId, Millis, Moment, ReservationId};

const LIMIT: Millis = Millis(10_000);

/// A site after the first look at an empty batch system.
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
    assert_eq!(
        words(&desk.call(1_010, 2, book(8, 100, true))),
        Vec::<&str>::new(),
        "a new one waits for the look"
    );
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
    // After its start, a batch system may show only the rest.
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
    let id = JobId(9);
    assert_eq!(words(&desk.submit(100, id, false)), Vec::<&str>::new());
    assert_eq!(words(&desk.step(100 + LIMIT.0, Input::Time)), ["job"], "it waits in the book");
    assert!(desk.site.job(id).is_some());
}

#[test]
fn giving_back_a_part_keeps_the_second_that_has_begun() {
    let mut desk = Desk::new(None);
    desk.start(0);
    desk.call(20, 1, book(7, 100, true));
    let (id, keep) = (ReservationId(7), Capacity(1));
    let released =
        desk.call(104_500, 2, Call::Release { id, part: Some(0), from: Time(104), keep, end_jobs: false });
    let left = vec![span(100, 105, 4), span(105, 110, 1)];
    assert_eq!(keeps(&released.batch_now)[0].1, [span(100, 110, 4)], "until it is durable");
    assert_eq!(keeps(&released.batch)[0].1, left);
}

#[test]
fn a_failure_in_the_middle_of_a_second_hits_no_more_than_it_must() {
    let mut desk = Desk::new(None);
    desk.start(0);
    desk.call(20, 1, book(7, 100, true));
    desk.call(30, 2, book(8, 100, true));
    desk.saw(104_500, None, &[], 2, Vec::new());
    assert_eq!((desk.missing(7), desk.missing(8)), (0, 2), "the newest alone");
}

#[test]
fn what_is_not_promised_yet_is_refused_when_capacity_fails() {
    let mut desk = met();
    let (order, _) = keeps(&desk.call(20, 1, book(7, 100, true)).batch)[0];
    desk.kept(30, order, 7);
    let kept = [(7, vec![span(100, 110, 4)])];
    let order = look(&desk.step(10_000, Input::WantLook));
    let seen = desk.saw(10_010, Some(order), &kept, 2, Vec::new());
    assert_eq!(words(&seen), Vec::<&str>::new(), "it may be away for a moment only");
    desk.call(15_000, 2, book(8, 100, true));
    let order = look(&desk.step(20_010, Input::Time));
    let seen = desk.saw(20_020, Some(order), &kept, 2, Vec::new());
    assert_eq!((words(&seen), desk.missing(7)), (vec!["not-granted"], 0));
}

#[test]
fn what_the_batch_system_keeps_too_little_of_is_missing_until_it_is_kept_again() {
    let mut desk = met();
    let (order, _) = keeps(&desk.call(20, 1, book(7, 100, true)).batch)[0];
    desk.kept(30, order, 7);
    let less = [(7, vec![span(100, 110, 2)])];
    let order = look(&desk.step(10_000, Input::WantLook));
    let seen = desk.saw(10_010, Some(order), &less, 0, Vec::new());
    assert_eq!(keeps(&seen.batch)[0].1, [span(100, 110, 4)], "all of it is ordered");
    let refused = desk.refused(10_020, keeps(&seen.batch)[0].0, 7);
    assert_eq!((desk.missing(7), keeps(&refused.batch)), (2, vec![]), "what there is is kept already");
    let order = look(&desk.step(20_030, Input::Time));
    let back = desk.saw(20_040, Some(order), &less, 0, Vec::new());
    desk.kept(20_050, keeps(&back.batch)[0].0, 7);
    assert_eq!(desk.missing(7), 0);
}

#[test]
fn what_is_short_right_after_silence_is_looked_at_as_soon_as_it_counts() {
    let mut desk = met();
    let (order, _) = keeps(&desk.call(20, 1, book(7, 100, true)).batch)[0];
    desk.kept(30, order, 7);
    let order = Some(look(&desk.step(20_000, Input::WantLook)));
    let hung =
        BatchReport::Looked { order, at: Moment(20_000), outcome: Err(BatchError::Unknown("hung".into())) };
    desk.step(30_000, Input::Batch(hung));
    let order = look(&desk.step(31_000, Input::Time));
    let less = [(7, vec![span(100, 110, 2)])];
    let seen = desk.saw(31_010, Some(order), &less, 0, Vec::new());
    assert_eq!((keeps(&seen.batch), desk.missing(7)), (vec![], 0), "it may be whole in a moment");
    let order = look(&desk.step(40_000, Input::Time));
    let seen = desk.saw(40_010, Some(order), &less, 0, Vec::new());
    assert_eq!((keeps(&seen.batch), desk.missing(7)), (vec![], 0), "the doubt is not over");
    let order = look(&desk.step(41_010, Input::Time));
    let seen = desk.saw(41_020, Some(order), &less, 0, Vec::new());
    assert_eq!(keeps(&seen.batch)[0].1, [span(100, 110, 4)], "no look later than that");
}

#[test]
fn after_all_of_it_was_refused_what_there_is_is_asked_for() {
    let mut desk = met();
    let (order, _) = keeps(&desk.call(20, 1, book(7, 100, true)).batch)[0];
    desk.kept(30, order, 7);
    let order = look(&desk.step(10_000, Input::WantLook));
    let running = vec![Running { expected_end: Time(5_000), capacity: Capacity(5), owner: 0 }];
    let view = View { running, ..View::default() };
    let seen = desk.saw_all(10_010, Some(order), Seen { view, ..Seen::default() }, Vec::new());
    assert_eq!(keeps(&seen.batch)[0].1, [span(100, 110, 4)], "it was deleted in the batch system");
    let refused = desk.refused(10_020, keeps(&seen.batch)[0].0, 7);
    assert_eq!(keeps(&refused.batch)[0].1, [span(100, 110, 3)], "jobs have the rest");
    assert_eq!(desk.missing(7), 4);
    desk.kept(10_030, keeps(&refused.batch)[0].0, 7);
    assert_eq!(desk.missing(7), 1);
}

#[test]
fn what_is_kept_and_not_promised_is_given_back_although_the_rest_is_refused() {
    let mut desk = met();
    let (order, _) = keeps(&desk.call(20, 1, book(7, 100, true)).batch)[0];
    desk.kept(30, order, 7);
    let order = look(&desk.step(10_000, Input::WantLook));
    let longer = [(7, vec![span(100, 150, 2)])];
    let seen = desk.saw(10_010, Some(order), &longer, 0, Vec::new());
    assert_eq!(keeps(&seen.batch)[0].1, [span(100, 110, 4)]);
    let refused = desk.refused(10_020, keeps(&seen.batch)[0].0, 7);
    assert_eq!(keeps(&refused.batch)[0].1, [span(100, 110, 2)], "no longer than was promised");
    let refused = desk.refused(10_030, keeps(&refused.batch)[0].0, 7);
    assert_eq!((keeps(&refused.batch), desk.missing(7)), (vec![], 2), "it is not asked again and again");
}

#[test]
fn what_is_over_by_the_clock_of_the_batch_system_is_not_ordered_again() {
    let mut desk = met();
    let (order, _) = keeps(&desk.call(20, 1, book(7, 100, true)).batch)[0];
    desk.kept(30, order, 7);
    let mut seen = |at: i64, ahead: i64| {
        let order = Some(look(&desk.step(at, Input::WantLook)));
        let (ours, theirs) = (Time(at / 1_000), Time(at / 1_000 + ahead));
        let resources = [("cluster".into(), Seen::default().into())].into();
        let look =
            Look { resources, clocks: Some(Clocks { ours, theirs, elsewhere: true }), ..Look::default() };
        let looked = BatchReport::Looked { order, at: Moment(at), outcome: Ok(look) };
        keeps(&desk.step(at + 10, Input::Batch(looked)).batch).len()
    };
    assert_eq!(seen(104_000, 8), 0, "the batch system does not show it any more");
    assert_eq!(seen(105_500, 0), 1, "it should be there");
}

/// A look at 7 and 8, which are kept, with some of 7 on nodes that are away.
fn with_away(away: u32) -> Seen {
    let backings = [7, 8].map(|id| (ReservationId(id), vec![span(1_000, 1_010, 4)])).into();
    let lost = Capacity(away);
    let away = (away > 0).then_some((ReservationId(7), lost)).into_iter().collect();
    Seen { backings, lost, away, ..Seen::default() }
}

#[test]
fn a_claim_on_nodes_that_are_away_stays_and_is_moved_only_as_a_whole() {
    let mut desk = met();
    for (key, id) in [(1, 7), (2, 8)] {
        let (order, _) = keeps(&desk.call(20, key, book(id, 1_000, true)).batch)[0];
        desk.kept(30, order, id);
    }
    let mut at = 10_000;
    let mut seen = |desk: &mut Desk, away: u32| {
        at += 10_010;
        let order = look(&desk.step(at, Input::WantLook));
        keeps(&desk.saw_all(at + 10, Some(order), with_away(away), Vec::new()).batch)
    };
    // A short absence has no effect.
    assert_eq!(seen(&mut desk, 2), []);
    assert_eq!((desk.missing(7), desk.missing(8)), (0, 0));
    assert_eq!(seen(&mut desk, 0), []);
    // The older one is on these nodes, and it alone loses capacity; nothing is ordered.
    assert_eq!(seen(&mut desk, 2), []);
    assert_eq!(seen(&mut desk, 2), []);
    assert_eq!((desk.missing(7), desk.missing(8)), (2, 0));
    assert_eq!(seen(&mut desk, 0), [], "it is whole when they are back");
    assert_eq!((desk.missing(7), desk.missing(8)), (0, 0));
    // After a minute a move is tried; if that is refused, it stays.
    let moves: Vec<_> = (0..8).flat_map(|_| seen(&mut desk, 2)).collect();
    assert_eq!((moves.len(), &moves[0].1[..]), (1, &[span(1_000, 1_010, 4)][..]));
    let refused = desk.refused(900_000, moves[0].0, 7);
    assert_eq!((desk.missing(7), keeps(&refused.batch)), (2, vec![]));
}

/// A job that has run and ended, as a look shows it.
fn ran(id: JobId, state: JobState) -> JobStatus {
    let (submitted, started, ended) = (Time(0), Some(Time(1)), Some(Time(2)));
    JobStatus { restarts: 0, id, state, submitted, started, ended, expected_start: None }
}

#[test]
fn a_job_that_started_and_ended_between_two_looks_is_known_to_have_run() {
    let mut desk = met();
    let id = JobId(9);
    let order = desk.submit(100, id, true).batch[0].order();
    desk.step(200, Input::Batch(BatchReport::Job { order, job: id, outcome: Ok(()) }));
    let order = look(&desk.step(20_010, Input::Time));
    let over = ran(id, JobState::Killed(Ended::Displaced));
    desk.saw(20_020, Some(order), &[], 0, vec![over]);
    let shown = desk.site.job(id).expect("it is known");
    assert_eq!((shown.state, shown.started), (JobWord::ReservationOver, Some(Time(1))));
}

#[test]
fn a_copy_that_is_cancelled_after_its_go_may_have_run() {
    let mut desk = met();
    for (id, goes) in [(JobId(8), false), (JobId(9), true)] {
        desk.submit(100, id, true);
        if goes {
            let call = desk.next_call();
            let told = desk.step(200, Input::Go { call, caller: ada(), id });
            assert!(told.batch.iter().any(|order| matches!(order, BatchOrder::Go { .. })));
        }
        let call = desk.next_call();
        desk.step(300, Input::CancelJob { call, caller: ada(), id });
        let shown = desk.site.job(id).expect("it is known");
        assert_eq!((shown.state, shown.started.is_some()), (JobWord::Cancelled, goes));
    }
}
