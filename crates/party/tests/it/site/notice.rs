//! The shortest notice of a resource, predicted from the jobs that the site saw start.

use super::desk::{Desk, Out, book};
use bookahead_party::{Party, Reply, Seen};
use bookahead_plan::notice::{NoticeRule, Predictor, QuantileBound, WINDOW};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::Answer;
use bookahead_protocol::ledger::{ResourceNotice, Started};
use bookahead_protocol::problem::{Basis, Problem, Why};

const MEAN: ResourceNotice =
    ResourceNotice::Predicted(NoticeRule { predictor: Predictor::Mean, percent: 100 });

fn predicting(rule: ResourceNotice) -> Desk {
    let mut desk = Desk::with_notice(rule);
    desk.start(0);
    desk
}

/// A job of four processors for ten seconds that started at `start` after this wait.
fn job(start: i64, wait: i64) -> Started {
    let (capacity, estimate) = (Capacity(4), Seconds(10));
    Started { start: Time(start), eligible: Time(start - wait), capacity, estimate }
}

fn see(desk: &mut Desk, now: i64, started: Vec<Started>) -> Out {
    desk.saw_all(now * 1_000, None, Seen { started, ..Seen::default() }, Vec::new())
}

/// The refusal of four processors for ten seconds, if it is refused.
fn asked(desk: &mut Desk, now: i64, id: u128, begin: i64) -> Result<(), Problem> {
    match desk.call(now * 1_000, id, book(id, begin, true)).replies.pop() {
        Some((_, Reply::Answer(Answer::Problem(problem)))) => Err(*problem),
        Some((_, Reply::Answer(Answer::Reservation(_)))) => Ok(()),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn too_soon(answer: Result<(), Problem>) -> (i64, i64, u32, Basis) {
    match answer.expect_err("it should be refused").why {
        Why::TooSoon { not_before, wait, jobs, basis, .. } => (not_before.0, wait.0, jobs, basis),
        why => panic!("{why:?}"),
    }
}

#[test]
fn only_if_the_notice_is_longer_than_the_mean_wait_of_queued_jobs_is_a_reservation_accepted() {
    let mut desk = predicting(MEAN);
    assert_eq!(asked(&mut desk, 1_000, 1, 1_005), Ok(()), "without history every notice is enough");
    assert_eq!(see(&mut desk, 1_000, vec![job(990, 100), job(995, 200)]).events.len(), 1);
    assert_eq!(see(&mut desk, 1_001, vec![job(990, 100), job(995, 200)]).events.len(), 0, "they count once");
    let refused = asked(&mut desk, 1_001, 2, 1_150);
    let problem = refused.clone().unwrap_err();
    assert_eq!(too_soon(refused), (1_151, 150, 2, Basis::Mean));
    assert_eq!(
        problem.why.to_string(),
        "jobs waited 2m 30s on average lately (2 jobs), and a reservation needs 2m 30s of notice here"
    );
    assert_eq!(asked(&mut desk, 1_001, 3, 1_151), Ok(()));
}

#[test]
fn a_refusal_for_its_notice_has_a_counter_offer_that_can_be_accepted_two_minutes_later() {
    let mut desk = predicting(MEAN);
    see(&mut desk, 1_000, vec![job(990, 600)]);
    let problem = asked(&mut desk, 1_000, 1, 1_010).unwrap_err();
    let later = problem.relaxations.iter().find_map(|change| match change {
        bookahead_plan::placement::Relaxation::Later(by) => Some(by.0),
        _ => None,
    });
    // The first full minute at least two minutes after the first allowed start, which is 1600.
    assert_eq!(later, Some(1_740 - 1_010), "{problem:?}");
    assert_eq!(asked(&mut desk, 1_120, 2, 1_740), Ok(()));
}

#[test]
fn jobs_that_asked_for_as_much_predict_the_wait_if_a_quantile_is_wanted() {
    let rule = NoticeRule { predictor: Predictor::Quantile(QuantileBound::USUAL), percent: 100 };
    let mut desk = predicting(ResourceNotice::Predicted(rule));
    let narrow = |start| Started { capacity: Capacity(1), ..job(start, 5_000) };
    let mut all: Vec<Started> = (0..100).map(|at| job(1_000 + at, 60)).collect();
    all.extend((0..100).map(|at| narrow(2_000 + at)));
    see(&mut desk, 3_000, all);
    assert_eq!(too_soon(asked(&mut desk, 3_000, 1, 3_030)), (3_060, 60, 100, Basis::SimilarJobs));
}

#[test]
fn after_a_restart_the_history_of_waits_is_the_same() {
    let mut desk = predicting(MEAN);
    let seen = vec![job(990, 100), job(995, 200), job(996, 300)];
    see(&mut desk, 1_000, seen.clone());
    let before = desk.site.ledger().clone();
    let state = serde_json::to_string(&desk.site.state()).unwrap();
    desk.restart(1_001_000);
    assert_eq!(*desk.site.ledger(), before, "by its events");
    assert_eq!(see(&mut desk, 1_002, seen.clone()).events.len(), 0, "jobs that still run are known");
    assert_eq!(see(&mut desk, 1_003, [seen, vec![job(1_002, 0)]].concat()).events.len(), 1);
    assert_eq!(too_soon(asked(&mut desk, 1_003, 1, 1_010)).1, 150);
    desk.restart_from(1_004_000, serde_json::from_str(&state).unwrap());
    assert_eq!(*desk.site.ledger(), before, "by its snapshot");
}

#[test]
fn the_history_of_waits_is_bounded() {
    let mut desk = predicting(MEAN);
    let mut size = 0;
    for round in 0..5 {
        let from = 10_000 * round;
        let started = (1..5_000).map(|at| job(from + at, at % 977)).collect();
        see(&mut desk, from + 9_000, started);
        let state = serde_json::to_string(&desk.site.state()).unwrap();
        if round == 0 {
            size = state.len();
        }
        // Three classes of at most WINDOW waits each; the digits of numbers differ.
        assert!(state.len() <= size + 1_000 && state.len() < 3 * WINDOW * 8, "{} bytes", state.len());
    }
}

#[test]
fn a_site_that_predicts_nothing_records_nothing() {
    let mut desk = predicting(ResourceNotice::Fixed(Seconds(60)));
    assert_eq!(see(&mut desk, 1_000, vec![job(990, 100)]).events.len(), 0);
    let problem = asked(&mut desk, 1_000, 1, 1_059).unwrap_err();
    assert_eq!(
        problem.why.to_string(),
        "a reservation must be requested at least 1m before its start here, and this leaves 59s"
    );
    assert_eq!(asked(&mut desk, 1_000, 2, 1_060), Ok(()));
}
