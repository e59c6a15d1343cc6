//! State after a crash. Dropping a value cleans up nothing, so it equals a crash between two calls; crashes within a
//! call are simulated by the files that they would leave.

use crate::processes::{
    DONE, alive, asleep, carried, file, open, read, reopened, script, until_gone, until_state,
};
use crate::{Drive, at, backing, hosted, inside, job, span, state, status};
use bookahead_lrms::{Builtin, LrmsError};
use bookahead_party::{Ended, Job, JobChange, JobState};
use bookahead_plan::{Capacity, Policy, Time};
use bookahead_protocol::{JobId, Name};
use bookahead_tests::polling::until_true;
use std::path::Path;
use std::process::{Command, Stdio};

/// Prints a line, and exits with 7 when it is told to.
const PATIENT: &str = "echo there; while [ ! -e go ]; do sleep 0.01; done; exit 7";

/// A running job whose daemon is gone.
fn left_alone(folder: &Path, id: u128) {
    let mut builtin = open(folder, 0);
    builtin.submit(at(0), &script(id, PATIENT, &[])).unwrap();
    builtin.pass(at(3));
    until_true("it is there", || read(folder, id, "output") == "there\n");
}

fn tell(folder: &Path, id: u128) {
    std::fs::write(file(folder, id, "go"), "").unwrap();
}

/// Kills the wrapper first, as it would record the end of the others.
fn kill(folder: &Path, id: u128) {
    let wrapper: u32 = read(folder, id, "started").trim().parse().unwrap();
    until_true("all are gone", || {
        let mut processes = alive(folder, id);
        processes.sort_by_key(|process| *process != wrapper);
        let numbers = processes.iter().map(u32::to_string);
        // One may be gone before it is killed.
        let _ = Command::new("kill").arg("-9").args(numbers).stderr(Stdio::null()).status().unwrap();
        processes.is_empty()
    });
}

#[test]
fn a_job_that_waited_still_waits_and_runs_once() {
    let folder = tempfile::tempdir().unwrap();
    let whole = |id| Job { capacity: Capacity(8), ..script(id, "echo ran", &[]) };
    let mut builtin = asleep(folder.path(), 0);
    for id in [0x203, 0x201, 0x202] {
        builtin.submit(at(5), &whole(id)).unwrap();
    }
    drop(builtin);
    let mut builtin = asleep(folder.path(), 9);
    let ids: Vec<u128> = builtin.jobs().iter().map(|status| status.id.0).collect();
    assert_eq!(ids, [0x203, 0x201, 0x202], "in the order of submission");
    assert_eq!(builtin.pass(at(9)), []);
    builtin.submit(at(9), &whole(0x201)).unwrap();
    assert_eq!(status(&mut builtin, 0x201).submitted, Time(5));
    for id in [0x203, 0x201, 0x202] {
        until_state(&mut builtin, 10, id, &DONE);
        assert_eq!(read(folder.path(), id, "output"), "ran\n");
    }
}

#[test]
fn a_job_that_ran_still_runs_and_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    left_alone(folder.path(), 0x204);
    let mut builtin = open(folder.path(), 20);
    assert_eq!(state(&mut builtin, 0x204), JobState::Running);
    assert_eq!(status(&mut builtin, 0x204).started, Some(Time(3)));
    let view = builtin.seen(at(20)).view.clone();
    assert_eq!(view.running[0].expected_end, Time(103), "its limit counts from its start");
    tell(folder.path(), 0x204);
    until_state(&mut builtin, 21, 0x204, &JobState::Done { exit: 7 });
    assert_eq!(read(folder.path(), 0x204, "output"), "there\n");
}

#[test]
fn a_job_that_ran_is_ended_in_time_with_all_its_processes() {
    let folder = tempfile::tempdir().unwrap();
    left_alone(folder.path(), 0x205);
    let mut builtin = open(folder.path(), 20);
    builtin.pass(at(103));
    assert_eq!(state(&mut builtin, 0x205), JobState::Killed(Ended::Limit));
    until_gone(&mut builtin, folder.path(), 103, 0x205);
}

#[test]
fn a_job_that_ended_while_nobody_watched_is_told_of_at_once() {
    let folder = tempfile::tempdir().unwrap();
    left_alone(folder.path(), 0x206);
    tell(folder.path(), 0x206);
    until_true("it has noted its end", || read(folder.path(), 0x206, "exit") == "7\n");
    let mut builtin = asleep(folder.path(), 20);
    let expected = JobChange { id: JobId(0x206), state: JobState::Done { exit: 7 }, at: Time(20) };
    assert_eq!(builtin.pass(at(20)), [expected]);
}

#[test]
fn a_job_of_which_nothing_is_left_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    left_alone(folder.path(), 0x207);
    kill(folder.path(), 0x207);
    for _ in 0..2 {
        let mut builtin = open(folder.path(), 20);
        assert_eq!(state(&mut builtin, 0x207), JobState::Killed(Ended::Lost));
    }
}

#[test]
fn a_process_that_only_has_the_number_of_ours_is_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = asleep(folder.path(), 0);
    builtin.submit(at(0), &script(0x208, "echo ran", &[])).unwrap();
    drop(builtin);
    let mut other = Command::new("sleep").arg("600").spawn().unwrap();
    std::fs::write(file(folder.path(), 0x208, "started"), format!("{}\n", other.id())).unwrap();
    let mut builtin = open(folder.path(), 1);
    assert_eq!(state(&mut builtin, 0x208), JobState::Killed(Ended::Lost));
    builtin.pass(at(10));
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn a_program_that_was_started_just_before_the_crash_is_not_started_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = open(folder.path(), 0);
    builtin.submit(at(0), &script(0x209, "echo ran", &[])).unwrap();
    // A process of this job that we do not know comes first.
    let mut first = Command::new("sleep")
        .arg("600")
        .env("BOOKAHEAD_FOLDER", carried(folder.path(), 0x209))
        .spawn()
        .unwrap();
    std::fs::write(file(folder.path(), 0x209, "started"), format!("{}\n", first.id())).unwrap();
    builtin.pass(at(1));
    until_true("only the first is left", || {
        builtin.pass(at(1));
        alive(folder.path(), 0x209) == [first.id()]
    });
    assert_eq!(state(&mut builtin, 0x209), JobState::Running);
    assert_eq!(read(folder.path(), 0x209, "output"), "");
    first.kill().unwrap();
    first.wait().unwrap();
    until_state(&mut builtin, 2, 0x209, &JobState::Killed(Ended::Lost));
}

#[test]
fn a_process_that_has_not_said_yet_that_it_started_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = asleep(folder.path(), 0);
    builtin.submit(at(0), &script(0x20a, "echo ran", &[])).unwrap();
    drop(builtin);
    let mut first = Command::new("sleep")
        .arg("600")
        .env("BOOKAHEAD_FOLDER", carried(folder.path(), 0x20a))
        .spawn()
        .unwrap();
    let mut builtin = open(folder.path(), 1);
    assert_eq!(state(&mut builtin, 0x20a), JobState::Running);
    std::fs::write(file(folder.path(), 0x20a, "exit"), "4\n").unwrap();
    until_state(&mut builtin, 2, 0x20a, &JobState::Done { exit: 4 });
    first.wait().unwrap();
}

#[test]
fn half_of_a_number_is_not_taken_for_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = asleep(folder.path(), 0);
    builtin.submit(at(0), &script(0x20b, "echo ran", &[])).unwrap();
    drop(builtin);
    std::fs::write(file(folder.path(), 0x20b, "started"), "99999999\n").unwrap();
    std::fs::write(file(folder.path(), 0x20b, "exit"), "1").unwrap();
    assert_eq!(state(&mut open(folder.path(), 1), 0x20b), JobState::Killed(Ended::Lost));
}

#[test]
fn jobs_inside_a_reservation_go_on_if_it_is_said_again_and_end_if_it_is_not() {
    for said in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let reserved = backing(5, &[span(0, 500, 2)]);
        let mut builtin = open(folder.path(), 0);
        builtin.back(at(0), &reserved).unwrap();
        let id = 0x20c + u128::from(said);
        builtin.submit(at(0), &inside(script(id, PATIENT, &[]), 5)).unwrap();
        builtin.pass(at(3));
        until_true("it is there", || read(folder.path(), id, "output") == "there\n");
        drop(builtin);
        let mut builtin = asleep(folder.path(), 20);
        assert_eq!(builtin.pass(at(20)), []);
        assert_eq!(builtin.seen(at(20)).backings.len(), 0);
        if said {
            builtin.back(at(20), &reserved).unwrap();
        }
        builtin.pass(at(21));
        let expected = if said { JobState::Running } else { JobState::Killed(Ended::ReservationOver) };
        assert_eq!(state(&mut builtin, id), expected);
        builtin.cancel(at(22), JobId(id)).unwrap();
        until_gone(&mut builtin, folder.path(), 22, id);
    }
}

#[test]
fn processes_of_jobs_that_are_over_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = open(folder.path(), 0);
    builtin
        .submit(at(0), &script(0x20e, "trap '' TERM; echo there; while :; do sleep 0.01; done", &[]))
        .unwrap();
    builtin.pass(at(0));
    until_true("it is there", || read(folder.path(), 0x20e, "output") == "there\n");
    builtin.cancel(at(1), JobId(0x20e)).unwrap();
    drop(builtin);
    assert!(!alive(folder.path(), 0x20e).is_empty());
    let mut builtin = asleep(folder.path(), 2);
    assert_eq!(state(&mut builtin, 0x20e), JobState::Killed(Ended::Cancelled));
    until_gone(&mut builtin, folder.path(), 2, 0x20e);
}

#[test]
fn pretended_jobs_are_known_again_too() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = open(folder.path(), 0);
    builtin.submit(at(0), &job(1, 8, 10, 4)).unwrap();
    builtin.submit(at(0), &job(2, 8, 10, 9)).unwrap();
    builtin.submit(at(0), &job(3, 8, 10, 9)).unwrap();
    builtin.pass(at(0));
    builtin.pass(at(4));
    builtin.cancel(at(5), JobId(3)).unwrap();
    let before = builtin.jobs();
    drop(builtin);
    let mut builtin = asleep(folder.path(), 6);
    assert_eq!(builtin.jobs(), before);
    assert_eq!(
        [1, 2, 3].map(|id| state(&mut builtin, id)),
        [DONE, JobState::Running, JobState::Killed(Ended::Cancelled)]
    );
    builtin.pass(at(6));
    builtin.pass(at(13));
    assert_eq!(status(&mut builtin, 2).ended, Some(Time(13)));
}

#[test]
fn jobs_that_have_no_place_any_more_say_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = asleep(folder.path(), 0);
    builtin.submit(at(0), &job(1, 8, 10, 4)).unwrap();
    drop(builtin);
    for (name, capacity, word) in
        [("cpu", 4, "has only 4"), ("cpu", 4, "has only 4"), ("gpu", 8, "has only 4")]
    {
        let hosted =
            vec![bookahead_lrms::Hosted { name: Name::from(name), ..hosted(capacity, Policy::EASY) }];
        let processes = reopened(folder.path());
        let mut builtin = Builtin::new(hosted, at(1), Some(processes)).unwrap();
        builtin.pass(at(1));
        match state(&mut builtin, 1) {
            JobState::Killed(Ended::CouldNotStart(why)) => assert!(why.contains(word), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn what_is_damaged_is_named_and_what_was_never_submitted_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = asleep(folder.path(), 0);
    builtin.submit(at(0), &job(1, 8, 10, 4)).unwrap();
    drop(builtin);
    let jobs = folder.path().join("jobs");
    std::fs::create_dir(jobs.join("new-job_2")).unwrap();
    std::fs::write(jobs.join("new-job_2").join("job.json"), "{").unwrap();
    std::fs::create_dir(jobs.join("lost+found")).unwrap();
    assert_eq!(asleep(folder.path(), 0).jobs().len(), 1);
    assert!(!jobs.join("new-job_2").exists() && jobs.join("lost+found").exists());
    let whole = std::fs::read(file(folder.path(), 1, "job.json")).unwrap();
    let other = String::from_utf8(whole.clone()).unwrap().replace("job_1", "job_7").into_bytes();
    for damaged in [&whole[..whole.len() / 2], &[][..], &other] {
        std::fs::write(file(folder.path(), 1, "job.json"), damaged).unwrap();
        let processes = reopened(folder.path());
        let refused = Builtin::new(Vec::new(), at(0), Some(processes)).err().unwrap();
        assert!(matches!(refused, LrmsError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("job_1/job.json"), "{refused}");
    }
}

#[test]
fn the_folders_of_forgotten_jobs_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = open(folder.path(), 0);
    builtin.remember(2);
    for id in 1..=5 {
        builtin.submit(at(0), &job(id, 8, 1, 1)).unwrap();
    }
    for second in 0..10 {
        builtin.pass(at(second));
    }
    let left = std::fs::read_dir(folder.path().join("jobs")).unwrap().count();
    assert_eq!((left, builtin.jobs().len()), (2, 2));
}

#[test]
fn a_folder_that_somebody_removed_stops_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let mut builtin = open(folder.path(), 0);
    builtin.submit(at(0), &script(0x20f, PATIENT, &[])).unwrap();
    builtin.submit(at(0), &Job { capacity: Capacity(8), ..script(0x210, "echo ran", &[]) }).unwrap();
    builtin.pass(at(0));
    until_true("it is there", || read(folder.path(), 0x20f, "output") == "there\n");
    for id in [0x20f, 0x210] {
        std::fs::remove_dir_all(file(folder.path(), id, "")).unwrap();
    }
    builtin.cancel(at(1), JobId(0x20f)).unwrap();
    until_true("both are over", || {
        builtin.pass(at(1));
        builtin.jobs().iter().all(|status| status.state.is_over())
    });
    assert!(matches!(state(&mut builtin, 0x210), JobState::Killed(Ended::CouldNotStart(_))));
    until_gone(&mut builtin, folder.path(), 1, 0x20f);
}
