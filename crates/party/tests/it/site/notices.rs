//! Notices of jobs for those who watch.

use super::desk::{Desk, Out, ada, book};
use bookahead_party::{BatchReport, Ended, Input, JobChange, JobNews, JobState};
use bookahead_plan::Time;
use bookahead_protocol::jobs::JobWord;
use bookahead_protocol::{JobId, Moment, ReservationId};

const JOB: JobId = JobId(5);

/// Kind, index of its event, and state of the job.
fn told(out: &Out) -> Vec<(&'static str, usize, JobWord)> {
    let of_jobs = out.notices.iter().filter_map(|(at, notice)| Some((notice.kind, *at, notice.job?.state)));
    of_jobs.collect()
}

fn becomes(desk: &mut Desk, now: i64, state: JobState) -> Out {
    let change = JobChange { id: JOB, state, at: Time(now / 1_000) };
    desk.step(now, Input::Batch(BatchReport::JobChanged(change)))
}

/// What is told of the end of a running job.
fn of_end(state: JobState) -> (&'static str, JobWord) {
    let mut desk = Desk::new(None);
    desk.start(0);
    desk.submit(0, JOB, false);
    becomes(&mut desk, 1_000, JobState::Running);
    let out = becomes(&mut desk, 9_000, state);
    let [(kind, 0, state)] = told(&out)[..] else { panic!("{:?}", out.notices) };
    (kind, state)
}

#[test]
fn a_job_is_told_of_when_it_is_submitted_starts_and_ends() {
    let mut desk = Desk::new(None);
    desk.start(0);
    desk.call(0, 1, book(7, 0, true));
    let out = desk.submit_with(500, JOB, |job| job.reservation = Some(ReservationId(7)));
    let [(kind, _, state)] = told(&out)[..] else { panic!("{:?}", out.notices) };
    assert_eq!((kind, state), ("job-submitted", JobWord::Waiting));
    let out = becomes(&mut desk, 1_000, JobState::Running);
    // The batch system has accepted it as well, which is an event before that.
    assert_eq!(told(&out), [("job-started", 1, JobWord::Running)]);
    let notice = &out.notices[0].1;
    assert_eq!(
        (notice.at, notice.id, &notice.owner),
        (Moment(1_000), Some(ReservationId(7)), &Some(ada().user))
    );
    assert_eq!((notice.state, notice.told_owner()), (None, None), "notices to owners are about reservations");
    assert_eq!(told(&becomes(&mut desk, 1_500, JobState::Running)), [], "it is told once");
    let out = becomes(&mut desk, 2_000, JobState::Done { exit: 3 });
    let news = JobNews { id: JOB, state: JobWord::Done, exit: Some(3) };
    assert_eq!((out.notices[0].1.kind, out.notices[0].1.job), ("job-failed", Some(news)));
}

#[test]
fn the_kind_tells_how_it_ended() {
    assert_eq!(of_end(JobState::Done { exit: 0 }), ("job-completed", JobWord::Done));
    assert_eq!(of_end(JobState::Killed(Ended::Cancelled)), ("job-cancelled", JobWord::Cancelled));
    assert_eq!(of_end(JobState::Killed(Ended::Limit)), ("job-failed", JobWord::OutOfTime));
    assert_eq!(of_end(JobState::Killed(Ended::Lost)), ("job-failed", JobWord::Lost));
}
