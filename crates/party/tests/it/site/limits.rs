//! Limits of users apply to jobs outside reservations, too.

use super::desk::{Desk, Out, ada, words};
use bookahead_party::{Input, Reply};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::JobId;
use bookahead_protocol::ledger::UserLimits;
use bookahead_protocol::problem::{Limit, Why};

fn submit(desk: &mut Desk, id: u128, capacity: u32, limit: i64) -> Out {
    desk.submit_with(0, JobId(id), |job| (job.capacity, job.limit) = (Capacity(capacity), Seconds(limit)))
}

fn limited(limits: UserLimits) -> Desk {
    let mut desk = Desk::limited(limits);
    desk.start(0);
    desk
}

/// The limit that a job would exceed.
fn refused(out: &Out) -> (Limit, i64, i64) {
    match out.replies.as_slice() {
        [(_, Reply::Job(Err(problem)))] => match problem.why {
            Why::Limit { limit, most, asked } => (limit, most, asked),
            ref why => panic!("{why:?}"),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_may_have_one_reservation_cannot_take_the_cluster_with_jobs() {
    let mut desk = limited(UserLimits { count: Some(1), ..UserLimits::default() });
    assert_eq!(submit(&mut desk, 1, 8, 1_000_000_000).batch.len(), 1);
    assert_eq!(refused(&submit(&mut desk, 2, 1, 1)), (Limit::Jobs, 1, 2));
    assert_eq!(submit(&mut desk, 1, 8, 1_000_000_000).batch.len(), 0, "the same job is no second one");
    let limits = UserLimits {
        count: Some(1),
        share: Some(50),
        horizon: Some(Seconds(3_600)),
        ..UserLimits::default()
    };
    let mut desk = limited(limits);
    assert_eq!(refused(&submit(&mut desk, 1, 4, 3_601)), (Limit::JobTime, 3_600, 3_601));
    assert_eq!(refused(&submit(&mut desk, 1, 5, 60)), (Limit::JobShare, 50, 63));
    assert_eq!(submit(&mut desk, 1, 4, 3_600).batch.len(), 1);
}

#[test]
fn jobs_may_have_limits_of_their_own() {
    let limits = UserLimits {
        count: Some(1),
        jobs: Some(3),
        share: Some(10),
        job_share: Some(100),
        longest_job: Some(Seconds(60)),
        ..UserLimits::default()
    };
    let mut desk = limited(limits);
    for id in 1..=2 {
        assert_eq!(submit(&mut desk, id, 4, 60).batch.len(), 1);
    }
    assert_eq!(refused(&submit(&mut desk, 3, 1, 60)), (Limit::JobShare, 100, 113), "all of them together");
    assert_eq!(refused(&submit(&mut desk, 3, 1, 61)).0, Limit::JobShare);
    let call = desk.next_call();
    assert_eq!(words(&desk.step(1, Input::CancelJob { call, caller: ada(), id: JobId(1) })), ["job"]);
    assert_eq!(refused(&submit(&mut desk, 3, 1, 61)), (Limit::JobTime, 60, 61));
    assert_eq!(submit(&mut desk, 3, 1, 60).batch.len(), 1, "what is over does not count");
}
