//! Claiming jobs and jobs on hold on a real batch system, driven as by a site: their work is done after a go-ahead or
//! a release, once, and not without one; a restarted site recognises their state.

use bookahead_lrms::Batch;
use bookahead_party::{Ended, Job, JobState, Work};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, Moment};
use bookahead_tests::polling::until;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long a job waits for its go-ahead in these tests. Short, as one test waits for the end of it.
pub(crate) const GO_WITHIN: Seconds = Seconds(15);

pub(crate) fn now() -> Moment {
    Moment(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64)
}

/// A job that records in a file that it has run.
fn noting(id: u128, file: &Path) -> Job {
    let text = format!("#!/bin/sh\necho \"$1\" >> {}\nexit 3\n", file.display());
    Job {
        rerun: Default::default(),
        id: JobId(id),
        user: "ann".into(),
        resource: crate::cpu(),
        capacity: Capacity(1),
        limit: Seconds(300),
        reservation: None,
        work: Work::Script { text, arguments: vec![format!("it's {id}")] },
        claims: true,
        held: false,
        description: Default::default(),
    }
}

/// Follows a job until it has this state.
#[track_caller]
fn until_state(batch: &Batch, id: u128, expected: &JobState) {
    until(|| {
        let look = batch.look(now()).unwrap();
        batch.follow(now(), || false).unwrap();
        let state = look.jobs.into_iter().find(|job| job.id.0 == id).map(|job| job.state);
        if state.as_ref() == Some(expected) { Ok(()) } else { Err(format!("{state:?} is not {expected:?}")) }
    });
}

/// Releases a job that was submitted on hold, while another process submits it again.
#[track_caller]
pub(crate) fn one_is_released_and_its_double_never_runs(anew: &dyn Fn() -> Batch, folder: &Path) {
    let ran = folder.join("ran");
    let job = Job { claims: false, held: true, ..noting(3, &ran) };
    // A process looks, is stopped, and wakes up later.
    let fenced = anew();
    fenced.look(now()).unwrap();
    let active = anew();
    active.submit(now(), &job).unwrap();
    until_state(&active, 3, &JobState::Waiting);
    fenced.submit(now(), &job).unwrap();
    active.release(now(), JobId(3)).unwrap();
    active.release(now(), JobId(3)).unwrap();
    until_state(&active, 3, &JobState::Done { exit: 3 });
    active.look(now()).unwrap();
    active.follow(now(), || false).unwrap();
    assert_eq!(std::fs::read_to_string(&ran).unwrap(), "it's 3\n");
    // The double was cancelled, and its process cannot release it.
    let late = fenced.release(now(), JobId(3)).unwrap_err();
    assert!(late.is_refusal(), "{late}");
}

/// Gives one job its go-ahead and not another, with new adapters in between.
#[track_caller]
pub(crate) fn one_goes_and_one_does_not(anew: &dyn Fn() -> Batch, folder: &Path) {
    let (went, stayed) = (folder.join("went"), folder.join("stayed"));
    let batch = anew();
    batch.submit(now(), &noting(1, &went)).unwrap();
    until_state(&batch, 1, &JobState::Claiming);
    assert!(!went.exists(), "it has run before its go");
    let restarted = anew();
    until_state(&restarted, 1, &JobState::Claiming);
    restarted.go(now(), JobId(1)).unwrap();
    until_state(&restarted, 1, &JobState::Done { exit: 3 });
    assert_eq!(std::fs::read_to_string(&went).unwrap(), "it's 1\n");
    // Seen before its time is up: Grid Engine does not tell afterwards that it waited.
    batch.submit(now(), &noting(2, &stayed)).unwrap();
    until_state(&restarted, 2, &JobState::Claiming);
    until_state(&restarted, 2, &JobState::Killed(Ended::NoGo));
    assert!(!stayed.exists(), "it has run without a go");
    let told: Vec<JobState> = restarted
        .changes()
        .into_iter()
        .filter(|change| change.id == JobId(2))
        .map(|change| change.state)
        .collect();
    assert!(!told.contains(&JobState::Running), "{told:?}");
    let refused = restarted.go(now(), JobId(2)).unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert!(anew().go(now(), JobId(2)).unwrap_err().is_refusal());
}
