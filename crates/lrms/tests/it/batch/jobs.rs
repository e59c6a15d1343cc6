//! Jobs are submitted once, found again, followed to their end, and cancelled when required.

use super::pretend::{Fault, Pretend};
use super::{Drive, batch, settings};
use crate::{at, backing, inside, job, span};
use bookahead_lrms::batch::{FactState, JobFact, NO_GO, Settings, Unit};
use bookahead_lrms::{Batch, LrmsError};
use bookahead_party::{Ended, Job, JobChange, JobState, JobStatus};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::{JobId, Millis};

const DONE: JobState = JobState::Done { exit: 0 };
const OVER: JobState = JobState::Killed(Ended::ReservationOver);

fn told(batch: &Batch, second: i64) -> Vec<(u128, JobState, i64)> {
    let change = |change: JobChange| (change.id.0, change.state, change.at.0);
    batch.pass(at(second)).unwrap().into_iter().map(change).collect()
}

fn status(batch: &Batch, id: u128) -> JobStatus {
    batch.jobs().into_iter().find(|status| status.id == JobId(id)).unwrap()
}

#[test]
fn a_job_is_followed_from_its_submission_to_its_end() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.submit(at(0), &job(1, 4, 10, 5)).unwrap();
    assert_eq!(status(&batch, 1).state, JobState::Waiting);
    pretend.world().pass(2);
    assert_eq!(told(&batch, 2), [(1, JobState::Running, 1)]);
    assert_eq!(told(&batch, 3), []);
    pretend.world().pass(5);
    assert_eq!(told(&batch, 7), [(1, DONE, 6)]);
    let status = status(&batch, 1);
    assert_eq!((status.submitted, status.started, status.ended), (Time(0), Some(Time(1)), Some(Time(6))));
}

#[test]
fn what_happened_between_two_looks_is_told_in_order() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.submit(at(0), &job(1, 8, 10, 5)).unwrap();
    batch.submit(at(0), &job(2, 8, 10, 2)).unwrap();
    pretend.world().pass(20);
    let expected = [(1, JobState::Running, 1), (2, JobState::Running, 1), (2, DONE, 3), (1, DONE, 6)];
    assert_eq!(told(&batch, 20), expected);
}

#[test]
fn it_is_asked_so_often_and_only_while_there_are_jobs() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    let looks = || pretend.world().looks;
    assert!(batch.next_look().is_some(), "it has to look once");
    batch.pass(at(0)).unwrap();
    assert_eq!((batch.next_look(), looks()), (None, 1));
    batch.pass(at(100)).unwrap();
    assert_eq!(looks(), 1);
    batch.submit(at(100), &job(1, 4, 10, 5)).unwrap();
    batch.pass(at(100)).unwrap();
    assert_eq!(looks(), 2);
    batch.pass(at(100) + Millis(500)).unwrap();
    assert_eq!((looks(), batch.next_look()), (2, Some(at(101))));
    batch.cancel(at(101), JobId(1)).unwrap();
    assert_eq!((looks(), batch.next_look()), (2, None));
    assert_eq!(told(&batch, 101), [(1, JobState::Killed(Ended::Cancelled), 101)]);
}

#[test]
fn a_job_in_a_reservation_gets_all_its_pieces_the_next_first() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(7, &[span(30, 40, 2), span(20, 30, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 3, 10, 5), 7)).unwrap();
    let world = pretend.world();
    let begin = |at: usize| {
        let handle = &world.jobs[0].reservations[at];
        world.reservations.iter().find(|reserved| reserved.handle == *handle).unwrap().interval.begin
    };
    assert_eq!((begin(0), begin(1)), (Time(20), Time(30)));
    drop(world);
    assert_eq!(told(&batch, 1), []);
    assert_eq!(status(&batch, 1).expected_start, Some(Time(20)));
    pretend.world().pass(20);
    assert_eq!(told(&batch, 20), [(1, JobState::Running, 20)]);
}

#[test]
fn a_job_that_waits_is_put_into_a_reservation_once() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(7, &[span(20, 30, 16)])).unwrap();
    batch.submit(at(0), &job(1, 16, 100, 5)).unwrap();
    let bound = inside(job(1, 16, 100, 5), 7);
    pretend.world().faults.push_back(Fault::SilentAfter);
    assert!(!batch.bind(at(1), &bound).unwrap_err().is_refusal());
    batch.bind(at(1), &bound).unwrap();
    batch.bind(at(1), &bound).unwrap();
    batch.submit(at(1), &bound).unwrap();
    let world = pretend.world();
    assert_eq!(world.log.iter().filter(|line| line.starts_with("bind ")).count(), 2, "{:?}", world.log);
    assert_eq!(world.jobs[0].reservations.len(), 1);
    drop(world);
    pretend.world().pass(20);
    assert_eq!(told(&batch, 20), [(1, JobState::Running, 20)]);
    assert!(batch.bind(at(21), &inside(job(2, 1, 5, 5), 7)).unwrap_err().is_refusal(), "it is unknown");
}

#[test]
fn a_job_without_a_place_is_refused() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(7, &[span(20, 30, 4)])).unwrap();
    let refused = |second: i64, job: &Job| {
        let why = batch.submit(at(second), job).unwrap_err();
        assert!(why.is_refusal(), "{why}");
        why
    };
    assert!(matches!(refused(0, &inside(job(1, 1, 5, 5), 8)), LrmsError::NoBacking { .. }));
    assert!(matches!(refused(0, &inside(job(1, 5, 5, 5), 7)), LrmsError::TooWide { .. }));
    assert!(matches!(refused(0, &job(1, 17, 5, 5)), LrmsError::TooWide { .. }));
    assert!(matches!(refused(0, &job(1, 0, 5, 5)), LrmsError::Malformed(_)));
    assert!(matches!(refused(0, &job(1, 1, 0, 5)), LrmsError::Malformed(_)));
    assert!(matches!(refused(30, &inside(job(1, 1, 5, 5), 7)), LrmsError::NoBacking { .. }));
    assert!(pretend.world().jobs.is_empty());
}

#[test]
fn a_job_is_submitted_once_however_often_it_is_said() {
    let pretend = Pretend::new(2, 8);
    let one = batch(&pretend);
    one.submit(at(0), &job(1, 4, 10, 5)).unwrap();
    one.submit(at(0), &job(1, 4, 10, 5)).unwrap();
    let refused = one.submit(at(0), &job(1, 5, 10, 5)).unwrap_err();
    assert!(matches!(refused, LrmsError::OtherJob { .. }), "{refused}");
    let restarted = batch(&pretend);
    restarted.submit(at(0), &job(1, 4, 10, 5)).unwrap();
    assert_eq!(pretend.world().jobs.len(), 1);
}

#[test]
fn after_silence_a_job_is_looked_for_before_it_is_submitted_again() {
    for fault in [Fault::SilentBefore, Fault::SilentAfter] {
        let pretend = Pretend::new(2, 8);
        let batch = batch(&pretend);
        pretend.world().faults.push_back(fault);
        assert!(!batch.submit(at(0), &job(1, 4, 10, 5)).unwrap_err().is_refusal());
        batch.submit(at(0), &job(1, 4, 10, 5)).unwrap();
        assert_eq!(pretend.world().jobs.len(), 1);
        batch.cancel(at(0), JobId(1)).unwrap();
        assert!(pretend.world().live().is_empty());
    }
}

#[test]
fn of_two_jobs_of_one_name_one_is_ended() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    pretend.world().faults.push_back(Fault::SilentLate);
    batch.submit(at(0), &job(1, 4, 10, 5)).unwrap_err();
    batch.submit(at(0), &job(1, 4, 10, 5)).unwrap();
    pretend.world().settle();
    assert_eq!(pretend.world().live().len(), 2, "the first came late");
    assert_eq!(told(&batch, 1), []);
    assert_eq!(pretend.world().live().len(), 1);
    pretend.world().pass(10);
    assert_eq!(told(&batch, 10), [(1, JobState::Running, 1), (1, DONE, 6)]);
}

#[test]
fn a_job_on_hold_runs_only_after_its_release_which_may_be_repeated() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.submit(at(0), &Job { held: true, ..job(1, 4, 10, 5) }).unwrap();
    pretend.world().pass(10);
    assert_eq!(told(&batch, 10), []);
    pretend.world().faults.push_back(Fault::SilentAfter);
    batch.release(at(10), JobId(1)).unwrap_err();
    batch.release(at(10), JobId(1)).unwrap();
    pretend.world().pass(10);
    assert_eq!(told(&batch, 20), [(1, JobState::Running, 11), (1, DONE, 16)]);
    assert!(matches!(batch.release(at(20), JobId(1)), Err(LrmsError::Refused { .. })), "it is over");
    assert!(matches!(batch.release(at(20), JobId(2)), Err(LrmsError::Refused { .. })), "it is unknown");
}

#[test]
fn a_second_job_on_hold_that_another_process_submitted_is_ended_also_if_the_first_is_over() {
    let held = Job { held: true, ..job(1, 4, 10, 5) };
    for passed in [0, 2, 10] {
        let pretend = Pretend::new(2, 8);
        let active = batch(&pretend);
        active.submit(at(0), &held).unwrap();
        active.release(at(0), JobId(1)).unwrap();
        pretend.world().pass(passed);
        // A process that has lost its journal, and knows nothing of the first one: its look was before that.
        let late = Pretend::new(2, 8);
        batch(&late).submit(at(0), &held).unwrap();
        let mut double = late.world().jobs[0].clone();
        double.native = "99".into();
        pretend.world().jobs.push(double);
        // The process that is active next finds both.
        let next = batch(&pretend);
        next.pass(at(passed)).unwrap();
        next.pass(at(passed + 1)).unwrap();
        let live: Vec<String> = pretend.world().live().iter().map(|job| job.native.clone()).collect();
        assert!(!live.contains(&"99".to_owned()), "after {passed} seconds: {live:?}");
        let state = status(&next, 1).state;
        let expected = [JobState::Waiting, JobState::Running, DONE];
        assert!(expected.contains(&state) && (passed < 10 || state == DONE), "{state:?}");
    }
}

#[test]
fn a_job_that_came_late_after_silence_is_found_by_the_next_look() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    pretend.world().faults.push_back(Fault::SilentLate);
    batch.submit(at(0), &job(1, 4, 10, 5)).unwrap_err();
    batch.pass(at(1)).unwrap();
    assert!(batch.jobs().is_empty());
    assert_eq!(batch.next_look(), None);
    pretend.world().settle();
    batch.look(at(10)).unwrap();
    assert!(batch.next_look().is_some());
    batch.pass(at(10)).unwrap();
    assert_eq!(status(&batch, 1).state, JobState::Waiting, "so that the site may end it");
}

#[test]
fn jobs_are_found_again_after_a_restart() {
    let pretend = Pretend::new(2, 8);
    let one = batch(&pretend);
    one.keep(at(0), &backing(7, &[span(0, 30, 4)])).unwrap();
    one.submit(at(0), &inside(job(1, 4, 100, 100), 7)).unwrap();
    one.submit(at(0), &job(2, 2, 10, 3)).unwrap();
    pretend.world().pass(1);
    one.submit(at(1), &job(3, 16, 10, 3)).unwrap();
    pretend.world().pass(9);
    let restarted = batch(&pretend);
    assert!(restarted.jobs().is_empty());
    let expected = [(1, JobState::Running, 1), (2, JobState::Running, 1), (2, DONE, 4)];
    assert_eq!(told(&restarted, 10), expected);
    let ids: Vec<u128> = restarted.jobs().iter().map(|status| status.id.0).collect();
    assert_eq!(ids, [1, 2, 3], "in the order of submission");
    pretend.world().pass(25);
    let told = told(&restarted, 35);
    assert!(told.contains(&(1, OVER, 30)), "{told:?}");
}

#[test]
fn jobs_of_another_site_on_the_same_cluster_are_not_ours() {
    let pretend = Pretend::new(2, 8);
    let ours = batch(&pretend);
    let other = Settings { site: "uni-b".into(), ..settings(Unit::Cores, 16) };
    let theirs = Batch::new(Box::new(pretend.clone()), other).unwrap();
    theirs.submit(at(0), &job(1, 4, 10, 5)).unwrap();
    ours.pass(at(0)).unwrap();
    assert!(ours.jobs().is_empty());
    ours.submit(at(0), &job(1, 4, 10, 5)).unwrap();
    assert_eq!(pretend.world().jobs.len(), 2);
    ours.pass(at(2)).unwrap();
    assert_eq!(pretend.world().live().len(), 2);
}

#[test]
fn who_runs_out_of_time_ran_out_of_what_came_first() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(7, &[span(0, 30, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 1, 10, 99), 7)).unwrap();
    batch.submit(at(0), &inside(job(2, 1, 100, 99), 7)).unwrap();
    batch.submit(at(0), &inside(job(3, 4, 100, 99), 7)).unwrap();
    batch.submit(at(0), &job(4, 1, 15, 99)).unwrap();
    pretend.world().pass(1);
    batch.pass(at(1)).unwrap();
    pretend.world().pass(40);
    let limit = JobState::Killed(Ended::Limit);
    assert_eq!(told(&batch, 41), [(1, limit.clone(), 11), (4, limit, 16), (2, OVER, 30), (3, OVER, 41)]);
    assert!(pretend.world().live().is_empty(), "the one that would have waited for ever is ended");
}

#[test]
fn one_that_runs_on_when_its_reservation_is_over_is_ended_at_once() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(7, &[span(10, 20, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 4, 100, 50), 7)).unwrap();
    pretend.world().pass(19);
    assert_eq!(told(&batch, 19).len(), 1);
    batch.pass(at(19) + Millis(600)).unwrap();
    assert_eq!(batch.next_look(), Some(at(20)), "and not a second after the last look");
    // The batch system is slow to end it.
    assert_eq!(told(&batch, 20), []);
    assert!(pretend.world().live().is_empty());
    assert_eq!(told(&batch, 21), [(1, OVER, 19)], "by the clock of the batch system");
}

#[test]
fn one_that_ignores_the_signal_at_the_end_of_its_reservation_is_over_when_it_really_is() {
    let pretend = Pretend::new(2, 8);
    pretend.world().kill_wait = 10;
    let batch = batch(&pretend);
    batch.keep(at(0), &backing(7, &[span(10, 20, 4)])).unwrap();
    batch.submit(at(0), &inside(job(1, 4, 100, 50), 7)).unwrap();
    pretend.world().pass(20);
    assert_eq!(told(&batch, 20), [(1, JobState::Running, 10)]);
    pretend.world().pass(9);
    assert_eq!(told(&batch, 29), []);
    assert_eq!(pretend.world().log.iter().filter(|command| command.starts_with("cancel")).count(), 1);
    pretend.world().pass(1);
    assert_eq!(told(&batch, 30), [(1, OVER, 30)]);
}

#[test]
fn one_that_is_cancelled_as_it_starts_and_not_by_us_could_not_start() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    for id in [1, 2] {
        batch.submit(at(0), &job(id, 4, 100, 50)).unwrap();
    }
    pretend.world().pass(3);
    // Batch systems count whole seconds: what ended at once may end in the next one.
    for (job, ended) in pretend.world().jobs.iter_mut().zip([2, 3]) {
        (job.state, job.ended) = (FactState::Cancelled, Some(Time(ended)));
    }
    let told = told(&batch, 3);
    let [ran, (1, JobState::Killed(Ended::CouldNotStart(why)), 2), cancelled] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(why.contains("could not be launched"), "{why}");
    assert_eq!(*ran, (2, JobState::Running, 1));
    assert_eq!(*cancelled, (2, JobState::Killed(Ended::Cancelled), 3));
}

#[test]
fn jobs_end_early_where_that_is_wanted_and_another_reservation_follows() {
    for (follows, ends) in [(20, 15), (26, 20)] {
        let pretend = Pretend::new(2, 8);
        pretend.world().kill_wait = 3;
        let early = Settings { end_jobs_early: Seconds(5), ..settings(Unit::Cores, 16) };
        let batch = Batch::new(Box::new(pretend.clone()), early).unwrap();
        batch.keep(at(0), &backing(7, &[span(10, 20, 4)])).unwrap();
        batch.keep(at(0), &backing(8, &[span(follows, 40, 16)])).unwrap();
        batch.submit(at(0), &inside(job(1, 4, 100, 50), 7)).unwrap();
        pretend.world().pass(14);
        assert_eq!(told(&batch, 14), [(1, JobState::Running, 10)]);
        batch.pass(at(14) + Millis(600)).unwrap();
        assert_eq!(batch.next_look(), Some(at(15)));
        pretend.world().pass(1);
        assert_eq!(told(&batch, 15), []);
        pretend.world().pass(9);
        assert_eq!(told(&batch, 24), [(1, OVER, ends + 3)]);
    }
}

#[test]
fn a_job_that_vanished_is_asked_for_and_else_lost() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    for id in 1..=3 {
        batch.submit(at(0), &job(id, 2, 100, 99)).unwrap();
    }
    pretend.world().pass(5);
    batch.pass(at(5)).unwrap();
    let facts = std::mem::take(&mut pretend.world().jobs);
    let ended = Some(Time(7));
    let exit = JobFact { state: FactState::Done { exit: 3 }, ended, ..facts[0].clone() };
    let failed =
        JobFact { state: FactState::Failed { why: "its node died".into() }, ended, ..facts[1].clone() };
    pretend.world().accounting = [(facts[0].native.clone(), exit), (facts[1].native.clone(), failed)].into();
    let (failed, lost) = (Ended::Failed("its node died".into()), Ended::Lost);
    let ends = [(2, JobState::Killed(failed), 7), (3, JobState::Killed(lost), 9)];
    assert_eq!(told(&batch, 9), [&[(1, JobState::Done { exit: 3 }, 7)], &ends[..]].concat());
}

#[test]
fn one_that_was_never_started_says_why() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.submit(at(0), &job(1, 2, 100, 99)).unwrap();
    pretend.world().jobs[0].state = FactState::Failed { why: "no such folder".into() };
    let expected = JobState::Killed(Ended::CouldNotStart("no such folder".into()));
    assert_eq!(told(&batch, 1), [(1, expected, 1)]);
}

#[test]
fn a_cancel_that_was_not_heard_is_repeated() {
    for fault in [Fault::SilentBefore, Fault::SilentAfter, Fault::SilentLate] {
        let pretend = Pretend::new(2, 8);
        let batch = batch(&pretend);
        batch.submit(at(0), &job(1, 2, 100, 99)).unwrap();
        pretend.world().faults.push_back(fault);
        assert!(!batch.cancel(at(1), JobId(1)).unwrap_err().is_refusal());
        assert_eq!(told(&batch, 3).pop().unwrap().1, JobState::Killed(Ended::Cancelled));
        assert!(pretend.world().live().is_empty());
        batch.cancel(at(4), JobId(1)).unwrap();
        batch.cancel(at(4), JobId(2)).unwrap();
    }
}

#[test]
fn while_it_is_silent_nothing_is_lost_and_nothing_is_asked_more_often() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.submit(at(0), &job(1, 2, 100, 3)).unwrap();
    pretend.world().deaf = true;
    assert!(!batch.pass(at(1)).unwrap_err().is_refusal());
    assert_eq!(batch.next_look(), Some(at(2)));
    assert!(batch.look(at(1)).is_err());
    pretend.world().pass(10);
    pretend.world().deaf = false;
    assert_eq!(told(&batch, 10), [(1, JobState::Running, 1), (1, DONE, 4)]);
}

#[test]
fn jobs_are_bounded() {
    let pretend = Pretend::new(2, 8);
    let bounded = Settings { most_jobs: 3, remembered: 2, ..settings(Unit::Cores, 16) };
    let batch = Batch::new(Box::new(pretend.clone()), bounded).unwrap();
    for id in 1..=3 {
        batch.submit(at(0), &job(id, 2, 100, 3)).unwrap();
    }
    let refused = batch.submit(at(0), &job(4, 2, 100, 3)).unwrap_err();
    assert!(matches!(refused, LrmsError::Full { most: 3 }), "{refused}");
    pretend.world().pass(10);
    assert_eq!(told(&batch, 10).len(), 6);
    assert_eq!(batch.jobs().len(), 2);
    batch.submit(at(10), &job(4, 2, 100, 3)).unwrap();
    assert_eq!(told(&batch, 12), [], "what was forgotten is not told again");
    assert_eq!(batch.jobs().len(), 3);
}

#[test]
fn a_thousand_jobs_that_vanished_are_asked_for_a_few_at_a_time() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    for id in 0..1_000 {
        batch.submit(at(0), &job(id, 2, 100, 3)).unwrap();
    }
    pretend.world().jobs.clear();
    let (mut second, mut lost) = (1, 0);
    while lost < 1_000 {
        lost += told(&batch, second).len();
        second += 1;
        assert!(second < 30, "{lost}");
    }
    assert_eq!(second, 21);
}

#[test]
fn a_job_that_is_put_back_into_the_queue_waits_again() {
    let pretend = Pretend::new(2, 8);
    let batch = batch(&pretend);
    batch.submit(at(0), &job(1, 2, 100, 50)).unwrap();
    pretend.world().pass(2);
    batch.pass(at(2)).unwrap();
    let fact = pretend.world().jobs.remove(0);
    pretend.world().jobs.push(JobFact { state: FactState::Waiting, started: None, ..fact });
    assert_eq!(told(&batch, 4), [(1, JobState::Waiting, 4)]);
    assert_eq!(status(&batch, 1).started, None);
}

/// A claiming job that has its capacity.
fn claiming(pretend: &Pretend) -> Batch {
    let batch = batch(pretend);
    batch.submit(at(0), &Job { claims: true, ..job(1, 4, 100, 5) }).unwrap();
    pretend.world().pass(2);
    assert_eq!(told(&batch, 2), [(1, JobState::Claiming, 1)]);
    batch
}

#[test]
fn a_job_that_claims_runs_after_its_go() {
    let pretend = Pretend::new(2, 8);
    let batch = claiming(&pretend);
    pretend.world().pass(28);
    assert_eq!(told(&batch, 30), []);
    assert_eq!((status(&batch, 1).started, pretend.world().jobs[0].awaits_go), (None, true));
    batch.go(at(30), JobId(1)).unwrap();
    pretend.world().pass(1);
    assert_eq!(told(&batch, 31), [(1, JobState::Running, 31)]);
    pretend.world().pass(10);
    assert_eq!(told(&batch, 41), [(1, DONE, 35)]);
    assert!(batch.go(at(41), JobId(1)).unwrap_err().is_refusal(), "it is over");
}

#[test]
fn a_job_that_gets_no_go_ends_without_having_run_also_if_nobody_saw_it_claim() {
    for seen in [true, false] {
        let pretend = Pretend::new(2, 8);
        let no_go = JobState::Killed(Ended::NoGo);
        let one = claiming(&pretend);
        // A restart.
        let batch = if seen { one } else { batch(&pretend) };
        pretend.world().pass(100);
        assert_eq!(told(&batch, 102), [(1, no_go, 91)]);
        assert_eq!(status(&batch, 1).started, None);
        assert!(batch.go(at(102), JobId(1)).unwrap_err().is_refusal());
    }
}

#[test]
fn a_go_that_comes_when_its_job_has_given_up_does_not_make_it_one_that_ran() {
    let pretend = Pretend::new(2, 8);
    let batch = claiming(&pretend);
    pretend.world().pass(58);
    // Its wrapper has ended, but it still seems to run.
    batch.go(at(60), JobId(1)).unwrap();
    {
        let mut world = pretend.world();
        let job = &mut world.jobs[0];
        (job.state, job.ended) = (FactState::Done { exit: NO_GO }, Some(Time(61)));
    }
    assert_eq!(told(&batch, 61), [(1, JobState::Killed(Ended::NoGo), 61)]);
}

#[test]
fn no_go_is_given_once_the_job_may_give_up_before_it_hears_of_it() {
    let pretend = Pretend::new(2, 8);
    let batch = claiming(&pretend);
    pretend.world().pass(59);
    let late = batch.go(at(61), JobId(1)).unwrap_err();
    assert!(late.is_refusal() && late.to_string().contains("has claimed for too long"), "{late}");
    assert_eq!(told(&batch, 61), [], "it has not got it, and waits on");
    pretend.world().pass(40);
    assert_eq!(told(&batch, 101), [(1, JobState::Killed(Ended::NoGo), 91)]);
}

#[test]
fn whether_a_job_claims_or_runs_is_seen_after_a_restart_and_so_is_an_exit_code_like_ours() {
    let pretend = Pretend::new(2, 8);
    claiming(&pretend);
    let second = batch(&pretend);
    assert_eq!(told(&second, 2), [(1, JobState::Claiming, 1)]);
    second.go(at(2), JobId(1)).unwrap();
    let third = batch(&pretend);
    assert_eq!(told(&third, 3), [(1, JobState::Running, 1)]);
    {
        let mut world = pretend.world();
        let job = &mut world.jobs[0];
        (job.state, job.ended) = (FactState::Done { exit: NO_GO }, Some(Time(5)));
    }
    assert_eq!(told(&third, 5), [(1, JobState::Done { exit: NO_GO }, 5)], "it ran, and ended so by itself");
}
