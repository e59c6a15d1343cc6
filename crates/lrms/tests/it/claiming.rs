//! Claiming jobs on a real batch system, driven as by a site: their work is done after a go-ahead, once, and not
//! without one; a restarted site recognises their state.

use bookahead_lrms::Batch;
use bookahead_party::{Ended, Job, JobState, Work};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, Moment};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a job waits for its go-ahead in these tests. Short, as one test waits for the end of it.
pub(crate) const GO_WITHIN: Seconds = Seconds(8);

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
        description: Default::default(),
    }
}

/// Follows a job until it has this state.
#[track_caller]
fn until(batch: &Batch, id: u128, expected: &JobState) {
    let deadline = Instant::now() + Duration::from_secs(40);
    loop {
        let look = batch.look(now()).unwrap();
        batch.follow(now(), || false).unwrap();
        let state = look.jobs.into_iter().find(|job| job.id.0 == id).map(|job| job.state);
        if state.as_ref() == Some(expected) {
            return;
        }
        assert!(Instant::now() < deadline, "it is {state:?} and never {expected:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Gives one job its go-ahead and not another, with new adapters in between.
#[track_caller]
pub(crate) fn one_goes_and_one_does_not(anew: &dyn Fn() -> Batch, folder: &Path) {
    let (went, stayed) = (folder.join("went"), folder.join("stayed"));
    let batch = anew();
    batch.submit(now(), &noting(1, &went)).unwrap();
    batch.submit(now(), &noting(2, &stayed)).unwrap();
    until(&batch, 1, &JobState::Claiming);
    assert!(!went.exists(), "it has run before its go");
    let restarted = anew();
    until(&restarted, 1, &JobState::Claiming);
    restarted.go(now(), JobId(1)).unwrap();
    until(&restarted, 1, &JobState::Done { exit: 3 });
    assert_eq!(std::fs::read_to_string(&went).unwrap(), "it's 1\n");
    until(&restarted, 2, &JobState::Killed(Ended::NoGo));
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
