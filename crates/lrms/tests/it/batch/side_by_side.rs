//! Parallel orders: none waits without need, the known state stays right, and all outcomes are reported.

use super::held::Held;
use super::pretend::Fault;
use super::settings;
use crate::{at, backing, cpu, inside, job, span};
use bookahead_lrms::batch::Settings;
use bookahead_lrms::{Batch, Worker};
use bookahead_party::{BatchError, BatchOrder, BatchReport, Ended, Job, JobChange, JobState, Look, OrderId};
use bookahead_plan::{Span, Time};
use bookahead_protocol::{JobId, Millis, Moment, ReservationId};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// A worker and its reports.
struct Site {
    held: Held,
    worker: Worker,
    reports: Arc<(Mutex<Vec<BatchReport>>, Condvar)>,
}

impl Site {
    /// A site that looks by itself only once, as it has no jobs.
    fn new(held: Held, at_once: usize) -> Site {
        let settings = Settings { follow_every: Millis(20), ..settings(held.unit(), 32) };
        let batch = Batch::new(Box::new(held.clone()), settings).unwrap();
        let reports: Arc<(Mutex<Vec<BatchReport>>, Condvar)> = Arc::default();
        let (told, pretend) = (reports.clone(), held.pretend.clone());
        let worker = Worker::start(
            batch,
            at_once,
            Arc::new(move || Moment::of(Time(pretend.world().clock))),
            Arc::new(move |report| {
                told.0.lock().unwrap().push(report);
                told.1.notify_all();
            }),
        );
        Site { held, worker, reports }
    }

    /// A site that has looked and does not look again by itself.
    fn calm(held: Held, at_once: usize) -> Site {
        let site = Site::new(held, at_once);
        site.until("a look", |reports| reports.iter().any(|report| looked(report).is_some()));
        site
    }

    fn keep(&self, order: u64, id: u128, spans: &[Span]) {
        self.worker.order(BatchOrder::Keep { order: OrderId(order), backing: backing(id, spans) });
    }

    fn submit(&self, order: u64, job: Job) {
        self.worker.order(BatchOrder::Submit { order: OrderId(order), job: Box::new(job) });
    }

    fn look(&self, order: u64) {
        self.worker.order(BatchOrder::Look { order: OrderId(order) });
    }

    fn reports(&self) -> Vec<BatchReport> {
        self.reports.0.lock().unwrap().clone()
    }

    #[track_caller]
    fn until(&self, what: &str, come: impl Fn(&[BatchReport]) -> bool) -> Vec<BatchReport> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut reports = self.reports.0.lock().unwrap();
        while !come(&reports) {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "never: {what}; {reports:?}");
            reports = self.reports.1.wait_timeout(reports, left).unwrap().0;
        }
        reports.clone()
    }

    /// The outcome of an order.
    #[track_caller]
    fn outcome(&self, wanted: u64) -> Result<(), BatchError> {
        let of = |report: &BatchReport| match report {
            BatchReport::Kept { order, outcome, .. } | BatchReport::Job { order, outcome, .. } => {
                (order.0 == wanted).then(|| outcome.clone())
            }
            _ => None,
        };
        let reports = self
            .until(&format!("order {wanted}"), |reports| reports.iter().any(|report| of(report).is_some()));
        reports.iter().find_map(of).unwrap()
    }

    #[track_caller]
    fn looked(&self, wanted: u64) -> Look {
        let of = |report: &BatchReport| match report {
            BatchReport::Looked { order: Some(OrderId(order)), outcome, .. } if *order == wanted => {
                Some(outcome.clone().unwrap())
            }
            _ => None,
        };
        let reports = self
            .until(&format!("look {wanted}"), |reports| reports.iter().any(|report| of(report).is_some()));
        reports.iter().find_map(of).unwrap()
    }
}

fn looked(report: &BatchReport) -> Option<Option<u64>> {
    match report {
        BatchReport::Looked { order, .. } => Some(order.map(|order| order.0)),
        _ => None,
    }
}

fn changed(reports: &[BatchReport]) -> Vec<(u128, JobState)> {
    let of = |report: &BatchReport| match report {
        BatchReport::JobChanged(JobChange { id, state, .. }) => Some((id.0, state.clone())),
        _ => None,
    };
    reports.iter().filter_map(of).collect()
}

const WHEN: Span = span(100, 200, 1);

#[test]
fn orders_for_different_reservations_are_carried_out_at_once_and_those_for_one_in_order() {
    let site = Site::calm(Held::new(4, 8), 3);
    site.held.hold("create");
    for (order, id) in [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4)] {
        let end = if order == 2 { 300 } else { 200 };
        site.keep(order, id, &[span(100, end, 1)]);
    }
    site.held.until_held("create", 3);
    assert_eq!(
        site.held.held(),
        ["create"; 3],
        "as many as threads, and the second of one reservation waits for the first"
    );
    site.held.let_go();
    for order in 1..=5 {
        site.outcome(order).unwrap();
    }
    let ends: Vec<i64> =
        site.held.pretend.world().ours().iter().map(|reserved| reserved.interval.end.0).collect();
    assert_eq!(ends.iter().filter(|end| **end == 300).count(), 1, "{ends:?}");
    assert_eq!(ends.len(), 4);
}

#[test]
fn a_job_enters_a_reservation_after_what_was_ordered_for_that_before() {
    let site = Site::calm(Held::new(4, 8), 4);
    site.held.hold("create");
    site.keep(1, 7, &[span(0, 200, 4)]);
    for id in 1..=2 {
        site.submit(1 + id, inside(job(u128::from(id), 1, 50, 50), 7));
    }
    site.keep(4, 7, &[]);
    site.held.until_held("create", 1);
    site.held.hold("submit");
    site.held.let_go();
    for order in 1..=4 {
        site.outcome(order).unwrap();
    }
    let world = site.held.pretend.world();
    let verbs: Vec<&str> = world.log.iter().map(|command| command.split(' ').next().unwrap()).collect();
    assert_eq!(verbs, ["create", "submit", "submit", "delete"]);
}

#[test]
fn neither_looks_nor_orders_wait_for_each_other() {
    let site = Site::calm(Held::new(4, 8), 1);
    site.held.hold("look");
    site.look(1);
    site.held.until_held("look", 1);
    site.keep(2, 1, &[WHEN]);
    site.outcome(2).unwrap();
    site.held.let_go();
    assert!(site.looked(1).resources[&cpu()].backings.contains_key(&ReservationId(1)));
    site.held.hold("create");
    site.keep(3, 2, &[WHEN]);
    site.held.until_held("create", 1);
    site.look(4);
    assert_eq!(site.looked(4).resources[&cpu()].backings.len(), 1);
    site.held.let_go();
    site.outcome(3).unwrap();
}

#[test]
fn one_look_serves_all_that_were_ordered_before_it_began() {
    let site = Site::calm(Held::new(4, 8), 1);
    let before = site.held.pretend.world().looks;
    site.held.hold("look");
    site.look(1);
    site.held.until_held("look", 1);
    site.look(2);
    site.look(3);
    site.held.let_go();
    site.looked(3);
    let orders: Vec<u64> = site.reports().iter().filter_map(looked).flatten().collect();
    assert_eq!(orders, [1, 3]);
    assert_eq!(site.held.pretend.world().looks, before + 2);
}

#[test]
fn orders_that_need_a_look_share_one() {
    let held = Held::new(4, 8);
    held.hold("look");
    let site = Site::new(held, 8);
    for id in 1..=8 {
        site.keep(id, u128::from(id), &[WHEN]);
    }
    site.held.until_held("look", 1);
    site.held.let_go();
    for order in 1..=8 {
        site.outcome(order).unwrap();
    }
    let looks = site.held.pretend.world().looks;
    assert!(looks <= 2, "the first, and one for those who asked when it had begun: {looks}");
}

#[test]
fn a_look_that_began_before_a_change_does_not_undo_it() {
    let site = Site::calm(Held::new(4, 8), 2);
    site.keep(1, 1, &[WHEN]);
    site.keep(2, 2, &[WHEN]);
    site.outcome(1).and(site.outcome(2)).unwrap();
    // It has read everything, and reports it later.
    site.held.hold("looked");
    site.look(3);
    site.held.until_held("looked", 1);
    site.keep(4, 1, &[]);
    site.outcome(4).unwrap();
    site.keep(5, 3, &[WHEN]);
    site.submit(6, job(1, 1, 50, 50));
    site.outcome(5).and(site.outcome(6)).unwrap();
    site.held.let_go();
    let kept: Vec<u128> = site.looked(3).resources[&cpu()].backings.keys().map(|id| id.0).collect();
    assert_eq!(kept, [2, 3]);
    let commands = site.held.pretend.world().log.len();
    site.keep(7, 1, &[]);
    site.keep(8, 3, &[WHEN]);
    site.outcome(7).and(site.outcome(8)).unwrap();
    assert_eq!(site.held.pretend.world().log.len(), commands, "nothing is to be done");
    site.look(9);
    assert_eq!(site.looked(9).jobs[0].state, JobState::Waiting);
    assert_eq!(changed(&site.reports()), [], "nor is the job lost");
}

#[test]
fn a_look_that_began_after_a_change_was_not_answered_ends_the_doubt_and_no_other() {
    let site = Site::calm(Held::new(4, 8), 2);
    site.held.hold("looked");
    site.look(1);
    site.held.until_held("looked", 1);
    site.held.pretend.world().faults.push_back(Fault::SilentAfter);
    site.keep(2, 1, &[WHEN]);
    assert!(matches!(site.outcome(2), Err(BatchError::Unknown(_))));
    site.held.let_go();
    site.looked(1);
    let looks = site.held.pretend.world().looks;
    site.keep(3, 1, &[WHEN]);
    site.outcome(3).unwrap();
    let world = site.held.pretend.world();
    assert_eq!((world.looks, world.log.len()), (looks + 1, 1), "what was done is not done again");
}

#[test]
fn nodes_that_are_chosen_at_once_are_not_the_same() {
    let held = Held::new(3, 8).chooses();
    let site = Site::calm(held, 3);
    site.held.hold("create");
    for id in 1..=3 {
        site.keep(id, u128::from(id), &[WHEN]);
    }
    site.held.until_held("create", 3);
    let mut nodes: Vec<String> = site.held.chosen().into_iter().map(|shares| shares[0].0.clone()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n0", "n1", "n2"]);
    site.keep(4, 4, &[WHEN]);
    site.held.let_go();
    for order in 1..=3 {
        site.outcome(order).unwrap();
    }
    let refused = site.outcome(4).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("no nodes are free"), "{refused}");
}

#[test]
fn what_an_old_look_leaves_no_room_for_is_tried_by_a_new_one() {
    let held = Held::new(2, 8).chooses();
    held.pretend.world().reserve_foreign("maintenance", &[0, 1], 100, 200);
    let batch = Batch::new(Box::new(held.clone()), settings(held.unit(), 2)).unwrap();
    batch.look(at(0)).unwrap();
    held.pretend.world().reservations.clear();
    batch.keep(at(5), &backing(1, &[WHEN])).unwrap();
    assert_eq!(held.pretend.world().looks, 2);
}

#[test]
fn jobs_are_followed_without_an_order() {
    let site = Site::calm(Held::new(4, 8), 2);
    site.submit(1, job(1, 4, 10, 5));
    site.outcome(1).unwrap();
    site.held.pretend.world().pass(2);
    site.until("it runs", |reports| changed(reports) == [(1, JobState::Running)]);
    site.held.pretend.world().pass(10);
    let done = [(1, JobState::Running), (1, JobState::Done { exit: 0 })];
    let reports = site.until("it is over", |reports| changed(reports) == done);
    assert!(reports.iter().filter_map(looked).all(|order| order.is_none()));
}

#[test]
fn a_job_that_a_look_finds_before_its_submission_is_answered_is_one_job() {
    let site = Site::calm(Held::new(4, 8), 2);
    site.held.hold("submit");
    site.submit(1, job(1, 4, 10, 5));
    site.held.until_held("submit", 1);
    site.look(2);
    assert_eq!(site.looked(2).jobs, []);
    site.held.let_go();
    site.outcome(1).unwrap();
    site.look(5);
    assert_eq!(site.looked(5).jobs.len(), 1);
    site.submit(3, job(1, 4, 10, 5));
    site.outcome(3).unwrap();
    site.submit(4, job(1, 5, 10, 5));
    assert!(site.outcome(4).unwrap_err().is_refusal(), "it is another job of that id");
    assert_eq!(site.held.pretend.world().jobs.len(), 1);
}

#[test]
fn what_is_refused_and_what_is_not_known_are_told_apart() {
    let site = Site::calm(Held::new(1, 8), 2);
    site.held.pretend.world().faults.extend([Fault::Refuse, Fault::SilentBefore, Fault::Refuse]);
    site.keep(1, 1, &[WHEN]);
    assert!(matches!(site.outcome(1), Err(BatchError::Refused(said)) if said.contains("it was ordered")));
    site.keep(2, 1, &[WHEN]);
    assert!(matches!(site.outcome(2), Err(BatchError::Unknown(said)) if said.contains("did not answer")));
    site.submit(3, job(1, 1, 10, 5));
    assert!(matches!(site.outcome(3), Err(BatchError::Refused(_))));
    let go = BatchOrder::Go { order: OrderId(4), job: JobId(9) };
    site.worker.order(go);
    assert!(matches!(site.outcome(4), Err(BatchError::Refused(said)) if said.contains("it is unknown")));
    site.worker.order(BatchOrder::Cancel { order: OrderId(5), job: JobId(9) });
    site.outcome(5).unwrap();
    site.held.pretend.world().deaf = true;
    site.look(6);
    let silent = |report: &BatchReport| {
        matches!(
            report,
            BatchReport::Looked { order: Some(OrderId(6)), outcome: Err(BatchError::Unknown(_)), .. }
        )
    };
    site.until("silence", |reports| reports.iter().any(silent));
}

#[test]
fn what_is_over_by_our_doing_is_not_brought_back_by_an_older_look() {
    let site = Site::calm(Held::new(4, 8), 2);
    site.submit(1, job(1, 4, 50, 50));
    site.outcome(1).unwrap();
    site.held.hold("looked");
    site.look(2);
    site.held.until_held("looked", 1);
    site.worker.order(BatchOrder::Cancel { order: OrderId(3), job: JobId(1) });
    site.outcome(3).unwrap();
    site.held.let_go();
    site.looked(2);
    site.look(4);
    let cancelled = JobState::Killed(Ended::Cancelled);
    assert_eq!(site.looked(4).jobs[0].state, cancelled);
    assert_eq!(changed(&site.reports()), [(1, cancelled)]);
    let world = site.held.pretend.world();
    assert_eq!(world.log.iter().filter(|command| command.starts_with("cancel")).count(), 1);
}

#[test]
fn a_worker_that_stops_has_reported_all_that_it_began() {
    let Site { held, worker, reports } = Site::calm(Held::new(4, 8), 3);
    for id in 0..200 {
        let backing = backing(u128::from(id), &[WHEN]);
        worker.order(BatchOrder::Keep { order: OrderId(id), backing });
    }
    worker.stop();
    let begun = held.pretend.world().log.len();
    let kept = |report: &&BatchReport| matches!(report, BatchReport::Kept { .. });
    assert_eq!(reports.0.lock().unwrap().iter().filter(kept).count(), begun);
    assert_eq!(held.held(), [""; 0]);
}
