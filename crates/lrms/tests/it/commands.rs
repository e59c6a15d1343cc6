//! Orders of a site, and their answers.

use crate::{Drive, at, backing, builtin, hosted, job, span, state, status};
use bookahead_lrms::{Builtin, LrmsError};
use bookahead_party::{Ended, Job, JobChange, JobState, Work};
use bookahead_plan::{Capacity, Policy, Time};
use bookahead_protocol::{JobId, Moment, Name};

fn change(id: u128, state: JobState, at: i64) -> JobChange {
    JobChange { id: JobId(id), state, at: Time(at) }
}

#[test]
fn what_becomes_of_jobs_is_told_once_and_in_order() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.submit(at(0), &job(1, 8, 20, 10)).unwrap();
    builtin.submit(at(0), &job(2, 8, 5, 9)).unwrap();
    builtin.submit(at(0), &job(3, 8, 5, 5)).unwrap();
    builtin.cancel(at(3), JobId(3)).unwrap();
    let told = builtin.pass(at(100));
    let expected = [
        change(1, JobState::Running, 0),
        change(3, JobState::Killed(Ended::Cancelled), 3),
        change(1, JobState::Done { exit: 0 }, 10),
        change(2, JobState::Running, 10),
        change(2, JobState::Killed(Ended::Limit), 15),
    ];
    assert_eq!(told, expected);
    assert_eq!(builtin.pass(at(200)), []);
}

#[test]
fn the_same_job_twice_is_one_job_and_another_under_its_id_is_refused() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.submit(at(0), &job(1, 8, 20, 10)).unwrap();
    builtin.submit(at(0), &job(1, 8, 20, 10)).unwrap();
    let refused = builtin.submit(at(0), &job(1, 8, 21, 10)).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("take a new id"), "{refused}");
    builtin.pass(at(30));
    builtin.submit(at(30), &job(1, 8, 20, 10)).unwrap();
    assert_eq!(builtin.pass(at(60)), []);
    assert_eq!(builtin.jobs().len(), 1);
}

#[test]
fn jobs_that_can_never_run_are_refused() {
    let mut builtin = builtin(8, Policy::EASY);
    let mut refused = |job: Job| builtin.submit(at(0), &job).unwrap_err().to_string();
    assert!(refused(job(1, 9, 1, 1)).contains("needs 9, and cpu has 8; ask for less"));
    assert!(refused(job(1, 0, 1, 1)).contains("request at least 1"));
    assert!(refused(job(1, 1, 0, 1)).contains("increase it"));
    assert!(refused(Job { resource: Name::from("gpu"), ..job(1, 1, 1, 1) }).contains("no resource gpu"));
    let script = Work::Script { text: "exit 0".into(), arguments: Vec::new() };
    assert!(refused(Job { work: script, ..job(1, 1, 1, 1) }).contains("runs no programs"));
    assert!(builtin.jobs().is_empty());
}

#[test]
fn cancelling_what_is_unknown_or_over_changes_nothing() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.cancel(at(0), JobId(9)).unwrap();
    builtin.submit(at(0), &job(1, 8, 20, 10)).unwrap();
    builtin.pass(at(10));
    builtin.cancel(at(10), JobId(1)).unwrap();
    assert_eq!(state(&mut builtin, 1), JobState::Done { exit: 0 });
}

#[test]
fn whoever_waits_behind_a_cancelled_job_moves_up() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.submit(at(0), &job(1, 5, 20, 20)).unwrap();
    builtin.submit(at(0), &job(2, 8, 50, 50)).unwrap();
    builtin.submit(at(0), &job(3, 3, 60, 60)).unwrap();
    builtin.submit(at(0), &job(4, 8, 10, 10)).unwrap();
    builtin.pass(at(1));
    let expected = |builtin: &mut Builtin, id| status(builtin, id).expected_start.map(|start| start.0);
    assert_eq!([2, 3, 4].map(|id| expected(&mut builtin, id)), [Some(20), Some(70), Some(130)]);
    builtin.cancel(at(1), JobId(2)).unwrap();
    builtin.pass(at(1));
    assert_eq!(state(&mut builtin, 3), JobState::Running);
    assert_eq!(expected(&mut builtin, 4), Some(61));
    builtin.cancel(at(2), JobId(3)).unwrap();
    assert_eq!(builtin.next_event(), Some(at(2)));
    builtin.pass(at(2));
    assert_eq!(expected(&mut builtin, 4), Some(20));
}

#[test]
fn nothing_starts_before_the_site_had_a_chance_to_say_what_is_reserved() {
    let mut builtin = Builtin::new(vec![hosted(8, Policy::EASY)], at(0), None).unwrap();
    builtin.submit(at(0), &job(1, 8, 20, 20)).unwrap();
    assert_eq!(builtin.next_event(), Some(at(0)));
    builtin.pass(at(5));
    assert_eq!(state(&mut builtin, 1), JobState::Waiting);
    builtin.back(at(6), &backing(1, &[span(0, 30, 1)])).unwrap();
    assert_eq!(builtin.next_event(), Some(at(6)));
    builtin.pass(at(6));
    assert_eq!(state(&mut builtin, 1), JobState::Waiting);
    assert_eq!(builtin.next_event(), Some(at(30)));
    builtin.pass(at(30));
    assert_eq!(state(&mut builtin, 1), JobState::Running);
}

#[test]
fn time_does_not_go_back() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.pass(at(50));
    builtin.submit(at(10), &job(1, 8, 20, 20)).unwrap();
    builtin.pass(at(20));
    assert_eq!(
        (status(&mut builtin, 1).submitted, status(&mut builtin, 1).started),
        (Time(50), Some(Time(50)))
    );
}

#[test]
fn a_moment_within_a_second_counts_as_that_second() {
    let mut builtin = builtin(8, Policy::EASY);
    builtin.submit(Moment(1_700), &job(1, 8, 2, 2)).unwrap();
    builtin.pass(Moment(1_800));
    assert_eq!(builtin.next_event(), Some(Moment(3_000)));
    builtin.pass(Moment(2_999));
    assert_eq!(state(&mut builtin, 1), JobState::Running);
    builtin.pass(Moment(3_000));
    assert_eq!(state(&mut builtin, 1), JobState::Done { exit: 0 });
}

#[test]
fn a_resource_that_is_not_there_cannot_be_spoken_of() {
    let mut builtin = builtin(8, Policy::EASY);
    let gpu = Name::from("gpu");
    assert!(builtin.fail(at(0), &gpu, Capacity(1)).is_err());
    assert!(builtin.repair(at(0), &gpu, Capacity(1)).is_err());
    let elsewhere = bookahead_party::Backing { resource: gpu, ..backing(1, &[]) };
    assert!(builtin.back(at(0), &elsewhere).unwrap_err().is_refusal());
    let twice = vec![hosted(8, Policy::EASY), hosted(4, Policy::EASY)];
    assert!(matches!(Builtin::new(twice, at(0), None), Err(LrmsError::SameName { .. })));
}
