//! Jobs with several copies, under the built-in scheduler: each gets its capacity when its turn comes, and only the
//! one with a go-ahead runs.

use crate::processes::{DONE, asleep, open, read, script, until_state};
use crate::{Drive, at, backing, builtin, inside, job, span, state, status};
use bookahead_lrms::{Builtin, GO_WITHIN};
use bookahead_party::{Ended, Job, JobState};
use bookahead_plan::{Policy, Time};
use bookahead_protocol::JobId;

const NO_GO: JobState = JobState::Killed(Ended::NoGo);

fn claims(job: Job) -> Job {
    Job { claims: true, ..job }
}

fn told(builtin: &mut Builtin, second: i64) -> Vec<(u128, JobState, i64)> {
    builtin.pass(at(second)).into_iter().map(|change| (change.id.0, change.state, change.at.0)).collect()
}

#[test]
fn a_job_that_claims_takes_its_room_and_runs_from_its_go_on() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.submit(at(0), &claims(job(1, 8, 100, 10))).unwrap();
    builtin.submit(at(0), &job(2, 8, 10, 10)).unwrap();
    assert_eq!(told(&mut builtin, 0), [(1, JobState::Claiming, 0)]);
    assert_eq!(
        builtin.seen(at(0)).view.running[0].expected_end,
        Time(100),
        "its room is not given to others"
    );
    assert_eq!(
        (status(&mut builtin, 1).started, status(&mut builtin, 2).expected_start),
        (None, Some(Time(100)))
    );
    builtin.go(at(20), JobId(1)).unwrap();
    let expected = [(1, JobState::Running, 20), (1, DONE, 30), (2, JobState::Running, 30)];
    assert_eq!(told(&mut builtin, 30), expected);
    assert_eq!(status(&mut builtin, 1).started, Some(Time(20)));
}

#[test]
fn without_a_go_it_ends_in_time_without_having_run_and_its_room_is_free() {
    for reservation in [None, Some(7)] {
        let mut builtin = builtin(8, Policy::EASY);
        builtin.back(at(0), &backing(7, &[span(0, 500, 4)])).unwrap();
        let within = |job: Job| reservation.map_or(job.clone(), |id| inside(job, id));
        builtin.submit(at(0), &claims(within(job(1, 4, 100, 10)))).unwrap();
        builtin.submit(at(0), &within(job(2, 4, 100, 10))).unwrap();
        assert_eq!(told(&mut builtin, 0), [(1, JobState::Claiming, 0)]);
        let end = GO_WITHIN.0;
        assert_eq!(builtin.next_event(), Some(at(end)));
        assert_eq!(told(&mut builtin, end), [(1, NO_GO, end), (2, JobState::Running, end)]);
        assert_eq!(status(&mut builtin, 1).started, None);
        assert!(builtin.go(at(end), JobId(1)).unwrap_err().is_refusal(), "it is too late");
    }
}

#[test]
fn its_limit_counts_from_when_it_got_its_room_so_that_no_promise_is_broken() {
    for reservation in [None, Some(7)] {
        let mut builtin = builtin(8, Policy::EASY);
        builtin.back(at(0), &backing(7, &[span(0, 500, 4)])).unwrap();
        let job = reservation.map_or(job(1, 4, 50, 40), |id| inside(job(1, 4, 50, 40), id));
        builtin.submit(at(0), &claims(job)).unwrap();
        assert_eq!(told(&mut builtin, 0), [(1, JobState::Claiming, 0)]);
        builtin.go(at(20), JobId(1)).unwrap();
        let limit = JobState::Killed(Ended::Limit);
        assert_eq!(told(&mut builtin, 100), [(1, JobState::Running, 20), (1, limit, 50)]);
    }
}

#[test]
fn a_go_for_what_does_not_claim_is_refused_and_a_claim_can_be_cancelled() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.submit(at(0), &job(1, 8, 100, 10)).unwrap();
    builtin.submit(at(0), &claims(job(2, 8, 100, 10))).unwrap();
    builtin.pass(at(0));
    for id in [1, 2, 3] {
        let refused = builtin.go(at(0), JobId(id)).unwrap_err();
        assert!(refused.is_refusal() && refused.to_string().contains("it does not claim"), "{refused}");
    }
    builtin.pass(at(10));
    assert_eq!(state(&mut builtin, 2), JobState::Claiming);
    builtin.cancel(at(11), JobId(2)).unwrap();
    assert_eq!(told(&mut builtin, 11), [(2, JobState::Killed(Ended::Cancelled), 11)]);
    assert_eq!(builtin.seen(at(11)).view.running, []);
}

#[test]
fn a_program_does_nothing_before_its_go_and_claims_again_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = open(folder.path(), 0);
    builtin.submit(at(0), &claims(script(0x401, "echo ran", &[]))).unwrap();
    assert_eq!(told(&mut builtin, 1), [(0x401, JobState::Claiming, 1)]);
    drop(builtin);
    let mut builtin = asleep(folder.path(), 5);
    assert_eq!(state(&mut builtin, 0x401), JobState::Waiting);
    assert_eq!(told(&mut builtin, 5), []);
    assert_eq!(told(&mut builtin, 5), [(0x401, JobState::Claiming, 5)]);
    assert_eq!(read(folder.path(), 0x401, "started"), "");
    builtin.go(at(6), JobId(0x401)).unwrap();
    until_state(&mut builtin, 7, 0x401, &DONE);
    assert_eq!(read(folder.path(), 0x401, "output"), "ran\n");
    builtin.submit(at(8), &claims(script(0x402, "echo ran", &[]))).unwrap();
    builtin.pass(at(8));
    assert_eq!(told(&mut builtin, 8 + GO_WITHIN.0), [(0x402, NO_GO, 8 + GO_WITHIN.0)]);
    assert_eq!(read(folder.path(), 0x402, "output"), "");
}
