//! The fast simulation equals the reference job by job, in every order of the queue, on
//! random workloads with reservations, priorities and overruns.

use crate::job;
use crate::reference::{self, orders, policies};
use bookahead_plan::{Capacity, Order, Owner, Policy, Seconds, Time};
use bookahead_sim::{EarliestFit, Fate, Job, Overrun, Site, simulate};
use bookahead_tests::cases::cases;
use bookahead_workload::requests::Request;
use proptest::prelude::*;

pub(crate) fn jobs(most: usize) -> impl Strategy<Value = Vec<Job>> {
    let one = (
        0..60i64,
        1..=11u32,
        1..40i64,
        prop_oneof![Just(0i64), 0..40i64, -15..0i64],
        -1..=1i32,
        any::<bool>(),
        0..4u32,
    );
    prop::collection::vec(one, 0..most).prop_map(|drawn| {
        let mut jobs: Vec<Job> = drawn
            .into_iter()
            .map(|(submit, capacity, run, over, priority, urgent, owner)| {
                let mut job = job(submit, capacity, run, (run + over).max(1));
                job.asked.priority = if urgent { priority } else { 0 };
                job.asked.owner = Owner { id: owner, used: 0 };
                job
            })
            .collect();
        jobs.sort_by_key(|job| job.asked.submit);
        jobs
    })
}

pub(crate) fn requests(most: usize) -> impl Strategy<Value = Vec<Request>> {
    let one = (0..60i64, 0..50i64, 1..30i64, 0..40i64, 1..=11u32);
    prop::collection::vec(one, 0..most).prop_map(|drawn| {
        let mut requests: Vec<Request> = drawn
            .into_iter()
            .map(|(submit, ahead, duration, window, processors)| Request {
                number: 0,
                submit: Time(submit),
                earliest_start: Time(submit + ahead),
                latest_end: Time(submit + ahead + duration + window),
                duration: Seconds(duration),
                processors: Capacity(processors),
                released: None,
            })
            .collect();
        requests.sort_by_key(|request| request.submit);
        requests
    })
}

fn assert_equal(site: Site, jobs: &[Job], requests: &[Request]) -> Result<(), TestCaseError> {
    let fast = simulate(site, jobs, requests, &mut EarliestFit, |_| {});
    let plain = reference::simulate(site, jobs, requests);
    let times = |fate: &Fate| match fate {
        Fate::Ran(ran) => Some((ran.start.0, ran.end.0)),
        Fate::TooWide => None,
    };
    prop_assert_eq!(fast.jobs.iter().map(times).collect::<Vec<_>>(), plain.jobs, "{}", site.policy);
    let granted: Vec<Option<i64>> = fast.requests.iter().map(|start| start.map(|time| time.0)).collect();
    prop_assert_eq!(granted, plain.requests, "{}", site.policy);
    Ok(())
}

pub(crate) fn order() -> impl Strategy<Value = Order> {
    prop_oneof![1 => Just(Order::Submit), 2 => prop::sample::select(orders())]
}

proptest! {
    #![proptest_config(cases(1_200))]

    #[test]
    fn with_reservations_and_priorities(jobs in jobs(25), requests in requests(8), order in order()) {
        for policy in policies().map(|policy| policy.ordered_by(order)) {
            assert_equal(Site { policy, capacity: Capacity(10), overrun: Overrun::Kill }, &jobs, &requests)?;
        }
    }

    #[test]
    fn with_overruns_that_are_extended(jobs in jobs(20), requests in requests(6), order in order()) {
        for policy in policies().map(|policy| policy.ordered_by(order)) {
            assert_equal(Site { policy, capacity: Capacity(10), overrun: Overrun::Extend }, &jobs, &requests)?;
        }
    }

}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn without_reservations_in_long_queues(jobs in jobs(80), order in order()) {
        for policy in policies().map(|policy| policy.ordered_by(order)) {
            assert_equal(Site { policy, capacity: Capacity(10), overrun: Overrun::Kill }, &jobs, &[])?;
        }
    }
}

proptest! {
    #![proptest_config(cases(4))]

    /// Long enough for empty places of the queue to be swept out while a part of the plan is known.
    #[test]
    fn every_job_protected_in_queues_of_hundreds(jobs in jobs(150), requests in requests(4), order in order()) {
        let policy = Policy::CONSERVATIVE.ordered_by(order);
        assert_equal(Site { policy, capacity: Capacity(10), overrun: Overrun::Kill }, &jobs, &requests)?;
    }
}
