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
