//! Jobs that a site submits to its batch system, and what readers see of them.

use super::*;
use bookahead_party::batch::{Ended, JobChange, JobState, JobStatus, Work};
use bookahead_protocol::jobs::{JobRequest, JobWord};

fn job(claims: bool) -> JobRequest {
    JobRequest {
        rerun: Default::default(),
        reservation: None,
        resource: None,
        kind: "processors".into(),
        capacity: Capacity(2),
        limit: Seconds(60),
        latest_end: None,
        requirements: Vec::new(),
        reference_mhz: None,
        input_bytes: None,
        work: Work::Pretended { run: Seconds(5) },
        mode: None,
        copies: None,
        claims,
        description: Default::default(),
    }
}

impl Bench {
    fn submit(&mut self, id: u128, claims: bool) -> Out {
        self.calls += 1;
        let (call, key, origin) = (CallId(self.calls), Key(id), Origin::default());
        let job = Box::new(job(claims));
        self.step(Input::Submit { call, caller: caller(), key, id: JobId(id), job, origin })
    }

    fn job_done(&mut self, order: OrderId, id: u128, outcome: Result<(), BatchError>) -> Out {
        self.step(Input::Batch(BatchReport::Job { order, job: JobId(id), outcome }))
    }

    fn job_is(&mut self, id: u128, state: JobState) -> Out {
        let at = self.now.second();
        self.step(Input::Batch(BatchReport::JobChanged(JobChange { id: JobId(id), state, at })))
    }

    fn word(&self, id: u128) -> JobWord {
        self.site.job(JobId(id)).unwrap().state
    }
}

#[test]
fn a_job_is_written_down_before_the_batch_system_hears_of_it_and_answered_when_that_has_it() {
    let mut bench = Bench::met();
    let out = bench.submit(5, false);
    assert!(out.replies.is_empty() && out.events.len() == 1);
    let [BatchOrder::Submit { order, .. }] = out.batch.as_slice() else { panic!("{out:?}") };
    let out = bench.job_done(*order, 5, Ok(()));
    assert!(matches!(out.replies.as_slice(), [(_, Reply::Job(Ok(_)))]));
    bench.job_is(5, JobState::Running);
    assert_eq!(bench.word(5), JobWord::Running);
    bench.job_is(5, JobState::Done { exit: 0 });
    assert_eq!(bench.word(5), JobWord::Done);
}

#[test]
fn what_the_batch_system_calls_a_job_is_shown_and_survives_a_restart() {
    let mut bench = Bench::met();
    bench.submit(5, false);
    let named = |native: &str| Input::Batch(BatchReport::JobNamed { job: JobId(5), native: native.into() });
    assert_eq!(bench.step(named("17")).events.len(), 1);
    assert!(bench.step(named("17")).events.is_empty(), "it is known");
    bench.restart();
    assert_eq!(bench.site.job(JobId(5)).unwrap().native_id.as_deref(), Some("17"));
}

#[test]
fn a_job_that_the_batch_system_lost_is_not_run_again_and_an_unknown_one_is_cancelled() {
    let mut bench = Bench::met();
    let out = bench.submit(5, false);
    let order = out.batch[0].order();
    bench.job_done(order, 5, Ok(()));
    let look = look_of(&bench.pass(10));
    let stranger = JobStatus {
        restarts: 0,
        id: JobId(8),
        state: JobState::Waiting,
        submitted: Time(0),
        started: None,
        ended: None,
        expected_start: None,
    };
    let out = bench.looked(look, Look { jobs: vec![stranger], ..seen(&[]) });
    assert!(matches!(out.batch.as_slice(), [BatchOrder::Cancel { job: JobId(8), .. }]), "{:?}", out.batch);
    assert_eq!(bench.word(5), JobWord::Lost);
}

#[test]
fn a_job_is_submitted_on_hold_and_released_when_its_native_id_is_written() {
    let mut bench = Bench::holding_jobs();
    let out = bench.submit(5, false);
    let [BatchOrder::Submit { order, job }] = out.batch.as_slice() else { panic!("{out:?}") };
    assert!(job.held);
    bench.step(Input::Batch(BatchReport::JobNamed { job: JobId(5), native: "17".into() }));
    let out = bench.job_done(*order, 5, Ok(()));
    assert_eq!(out.events.len(), 1);
    let [BatchOrder::Release { order, .. }] = out.batch.as_slice() else { panic!("{out:?}") };
    assert_eq!(bench.job_done(*order, 5, Ok(())).events.len(), 1);
    // An operator may hold it now: it is not released again.
    let look = look_of(&bench.pass(10));
    let out = bench.looked(look, Look { jobs: vec![waiting(5)], ..seen(&[]) });
    assert!(out.batch.is_empty(), "{:?}", out.batch);
}

#[test]
fn a_release_without_an_answer_is_repeated_also_after_a_restart() {
    for restarts in [false, true] {
        let mut bench = Bench::holding_jobs();
        let order = bench.submit(5, false).batch[0].order();
        let order = bench.job_done(order, 5, Ok(())).batch[0].order();
        if !restarts {
            bench.job_done(order, 5, Err(BatchError::Unknown("no answer".into())));
        }
        let look = if restarts { look_of(&bench.restart()) } else { look_of(&bench.pass(1)) };
        let out = bench.looked(look, Look { jobs: vec![waiting(5)], ..seen(&[]) });
        let [BatchOrder::Release { order, .. }] = out.batch.as_slice() else { panic!("{out:?}") };
        bench.job_done(*order, 5, Ok(()));
        bench.job_is(5, JobState::Running);
        assert_eq!(bench.word(5), JobWord::Running);
    }
}

#[test]
fn a_job_on_hold_whose_submission_was_not_answered_is_released_when_a_look_shows_it() {
    let mut bench = Bench::holding_jobs();
    let order = bench.submit(5, false).batch[0].order();
    let out = bench.job_done(order, 5, Err(BatchError::Unknown("no answer".into())));
    assert!(out.batch.is_empty());
    let look = look_of(&bench.pass(1));
    let out = bench.looked(look, Look { jobs: vec![waiting(5)], ..seen(&[]) });
    assert!(matches!(out.batch.as_slice(), [BatchOrder::Release { .. }]), "{:?}", out.batch);
}

fn waiting(id: u128) -> JobStatus {
    JobStatus {
        restarts: 0,
        id: JobId(id),
        state: JobState::Waiting,
        submitted: Time(1_000),
        started: None,
        ended: None,
        expected_start: None,
    }
}

#[test]
fn a_copy_waits_for_its_go_which_is_said_again_when_it_was_not_heard() {
    let mut bench = Bench::met();
    let order = bench.submit(5, true).batch[0].order();
    bench.job_done(order, 5, Ok(()));
    bench.job_is(5, JobState::Claiming);
    assert_eq!(bench.word(5), JobWord::Claiming);
    let out = bench.step(Input::Go { call: CallId(99), caller: caller(), id: JobId(5) });
    let [BatchOrder::Go { order, .. }] = out.batch.as_slice() else { panic!("{out:?}") };
    bench.job_done(*order, 5, Err(BatchError::Unknown("no answer".into())));
    let look = look_of(&bench.pass(1));
    let claiming = JobStatus {
        restarts: 0,
        id: JobId(5),
        state: JobState::Claiming,
        submitted: Time(1_000),
        started: None,
        ended: None,
        expected_start: None,
    };
    let out = bench.looked(look, Look { jobs: vec![claiming], ..seen(&[]) });
    assert!(matches!(out.batch.as_slice(), [BatchOrder::Go { .. }]), "{:?}", out.batch);
    bench.job_is(5, JobState::Killed(Ended::NoGo));
    assert_eq!(bench.word(5), JobWord::CouldNotStart);
}

#[test]
fn a_read_copy_that_gets_the_events_shows_what_the_site_shows() {
    let mut bench = Bench::met();
    let mut copy = bench.site.read_copy();
    let before = bench.journal.len();
    bench.held(1, 2_000, 4);
    bench.call(2, Call::Commit { id: ReservationId(1), jobs: Vec::new() });
    bench.submit(5, false);
    for event in bench.journal[before..].iter().filter(|event| Site::is_shown(event)) {
        copy.apply(event);
    }
    copy.set_facts(bench.site.facts().1);
    let id = ReservationId(1);
    assert_eq!(copy.reservation(bench.now, id), bench.site.reservation(bench.now, id));
    assert_eq!(copy.job(JobId(5)), bench.site.job(JobId(5)));
    assert_eq!(copy.counts(), bench.site.counts());
    assert_eq!(copy.sites(bench.now), bench.site.sites(bench.now));
}

fn release(from: i64, keep: u32, end_jobs: bool) -> Call {
    Call::Release { id: ReservationId(1), part: None, from: Time(from), keep: Capacity(keep), end_jobs }
}

/// The status of a job in a look.
fn running(id: u128, started: i64) -> JobStatus {
    JobStatus {
        restarts: 0,
        id: JobId(id),
        state: JobState::Running,
        submitted: Time(started),
        started: Some(Time(started)),
        ended: None,
        expected_start: None,
    }
}

impl Bench {
    /// Reservation 1 is active with a capacity of 8 from 1,010 to 1,110, and the job 5 of 8 for 60 s is in it.
    fn with_a_job_inside(runs: bool) -> Bench {
        let mut bench = Bench::met();
        bench.held(1, 1_010, 8);
        bench.call(20, Call::Commit { id: ReservationId(1), jobs: Vec::new() });
        let look = look_of(&bench.pass(10));
        bench.looked(look, seen(&[(1, span(1_010, 1_110, 8))]));
        assert_eq!(bench.state(1), Some(State::Active));
        let inside = JobRequest { reservation: Some(ReservationId(1)), capacity: Capacity(8), ..job(false) };
        bench.calls += 1;
        let (call, origin) = (CallId(bench.calls), Origin::default());
        let (key, id, job) = (Key(21), JobId(5), Box::new(inside));
        let out = bench.step(Input::Submit { call, caller: caller(), key, id, job, origin });
        bench.job_done(out.batch[0].order(), 5, Ok(()));
        if runs {
            bench.job_is(5, JobState::Running);
        }
        bench
    }

    fn capacity(&self) -> u32 {
        let entry = self.site.ledger().entry(ReservationId(1)).unwrap();
        entry.capacity_at(Time(1_100)).0
    }
}

#[test]
fn a_release_is_refused_if_a_job_inside_needs_what_it_would_give_back() {
    for runs in [true, false] {
        let mut bench = Bench::with_a_job_inside(runs);
        let inside = Why::JobsInside { jobs: vec![JobId(5)], more: 0 };
        let out = bench.call(30, release(1_010, 1, false));
        assert_eq!((refusals(&out), keeps(&out)), (vec![inside.clone()], 0));
        // A change to less capacity is the same.
        let less = Call::Change { id: ReservationId(1), version: None, request: request(1_010, 100, 1) };
        assert_eq!(refusals(&bench.call(31, less)), [inside]);
        let word = if runs { JobWord::Running } else { JobWord::Waiting };
        assert_eq!((bench.capacity(), bench.word(5)), (8, word));
        // By its limit the job ends before this release.
        let (order, _) = keep_of(&bench.call(32, release(1_080, 1, false)), 1);
        assert_eq!(states(&bench.kept((order, ReservationId(1)), Ok(()))), [State::Active]);
        assert_eq!(bench.capacity(), 1);
    }
}

fn keeps(out: &Out) -> usize {
    out.batch.iter().filter(|order| matches!(order, BatchOrder::Keep { .. })).count()
}

#[test]
fn a_release_that_ends_jobs_waits_until_the_batch_system_has_ended_them() {
    let mut bench = Bench::with_a_job_inside(true);
    let kept = span(1_010, 1_110, 8);
    let out = bench.call(30, release(1_010, 1, true));
    let [BatchOrder::Cancel { job: JobId(5), order }] = out.batch.as_slice() else { panic!("{out:?}") };
    assert!(out.replies.is_empty());
    assert_eq!((bench.word(5), bench.capacity()), (JobWord::Cancelled, 8));
    bench.job_done(*order, 5, Ok(()));
    let repeated = bench.call(30, release(1_010, 1, true));
    assert!(repeated.replies.is_empty());
    // It is still there.
    let look = look_of(&bench.pass(1));
    let out = bench.looked(look, Look { jobs: vec![running(5, 1_010)], ..seen(&[(1, kept)]) });
    assert_eq!((keeps(&out), bench.capacity()), (0, 8));
    // So it is ended once more.
    for order in out.batch.iter().filter(|order| matches!(order, BatchOrder::Cancel { .. })) {
        bench.job_done(order.order(), 5, Ok(()));
    }
    let look = look_of(&bench.pass(1));
    let out = bench.looked(look, seen(&[(1, kept)]));
    let (order, spans) = keep_of(&out, 1);
    assert_eq!(spans.last(), Some(&span(1_012, 1_110, 1)));
    assert_eq!(states(&bench.kept((order, ReservationId(1)), Ok(()))), [State::Active, State::Active]);
    assert_eq!(bench.capacity(), 1);
}

#[test]
fn a_release_whose_jobs_do_not_end_in_time_changes_nothing_and_can_be_repeated() {
    let mut bench = Bench::with_a_job_inside(true);
    bench.call(30, release(1_010, 1, true));
    assert_eq!(refusals(&bench.pass(60)), [Why::Busy]);
    assert_eq!(bench.capacity(), 8);
    let (order, _) = keep_of(&bench.call(30, release(1_010, 1, true)), 1);
    let why = BatchError::Refused("jobs run in it".into());
    assert_eq!(
        refusals(&bench.kept((order, ReservationId(1)), Err(why))),
        [Why::NotGranted("jobs run in it".into())]
    );
    assert_eq!(bench.capacity(), 8, "as the batch system keeps it");
}

#[test]
fn jobs_that_fit_in_the_rest_do_not_prevent_a_release_and_are_not_ended() {
    let mut bench = Bench::with_a_job_inside(true);
    bench.job_is(5, JobState::Done { exit: 0 });
    for id in [6, 7, 8] {
        let inside = JobRequest { reservation: Some(ReservationId(1)), ..job(false) };
        bench.calls += 1;
        let (call, origin) = (CallId(bench.calls), Origin::default());
        let (key, id, job) = (Key(id), JobId(id), Box::new(inside));
        let out = bench.step(Input::Submit { call, caller: caller(), key, id, job, origin });
        bench.job_done(out.batch[0].order(), id.0, Ok(()));
        bench.job_is(id.0, JobState::Running);
    }
    // Each has a capacity of 2, and the one that started last has no room.
    let out = bench.call(30, release(1_010, 5, false));
    assert_eq!(refusals(&out), [Why::JobsInside { jobs: vec![JobId(8)], more: 0 }]);
    let (order, _) = keep_of(&bench.call(31, release(1_010, 6, true)), 1);
    assert_eq!(states(&bench.kept((order, ReservationId(1)), Ok(()))), [State::Active]);
    assert!([6, 7, 8].iter().all(|id| bench.word(*id) == JobWord::Running));
}
