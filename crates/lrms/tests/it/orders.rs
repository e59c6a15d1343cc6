//! The order of the built-in scheduler's queue: priority classes first, then the order of the policy.

use crate::{Drive, at, hosted, job, wake};
use bookahead_lrms::{Builtin, Hosted};
use bookahead_party::{Job, JobState};
use bookahead_plan::Policy;
use bookahead_protocol::{Description, JobId, Moment, Name};

fn builtin(policy: &str) -> Builtin {
    let priorities = [("low".into(), -5), ("urgent".into(), 100)].into();
    let policy: Policy = policy.parse().unwrap();
    let mut builtin = Builtin::new(vec![Hosted { priorities, ..hosted(8, policy) }], at(0), None).unwrap();
    wake(&mut builtin, 0);
    builtin
}

fn of_class(class: &str, job: Job) -> Job {
    Job { description: Description { priority: Some(class.into()), ..Description::default() }, ..job }
}

fn of_user(user: &str, job: Job) -> Job {
    Job { user: Name::from(user), ..job }
}

/// Submits jobs that need the whole resource while one runs until 10, and returns the order in which they start.
fn starts(policy: &str, jobs: &[Job]) -> Vec<(u128, i64)> {
    let mut builtin = builtin(policy);
    builtin.submit(at(0), &of_user("first", job(1, 8, 10, 10))).unwrap();
    let mut changes = builtin.pass(at(0));
    for (second, job) in (1..).zip(jobs) {
        builtin.submit(at(second), job).unwrap();
        changes.extend(builtin.pass(at(second)));
    }
    changes.extend(builtin.pass(at(1_000)));
    let started = changes.iter().filter(|change| change.state == JobState::Running);
    started.map(|change| (change.id.0, change.at.0)).collect()
}

#[test]
fn jobs_behind_in_the_priority_queue_of_waiting_jobs_start_after_those_of_a_higher_class() {
    let jobs = [
        of_class("low", job(2, 8, 10, 10)),
        job(3, 8, 10, 10),
        of_class("urgent", job(4, 8, 10, 10)),
        of_class("urgent", job(5, 8, 10, 10)),
    ];
    for policy in ["fcfs", "easy", "conservative", "easy[order=sjf]", "conservative[order=wfp3]"] {
        assert_eq!(starts(policy, &jobs), [(1, 0), (4, 10), (5, 20), (3, 30), (2, 40)], "{policy}");
    }
}

#[test]
fn the_policy_orders_jobs_of_one_class() {
    let jobs = [job(2, 8, 30, 30), job(3, 8, 20, 20), job(4, 8, 10, 10)];
    assert_eq!(starts("easy", &jobs), [(1, 0), (2, 10), (3, 40), (4, 60)]);
    assert_eq!(starts("easy[order=sjf]", &jobs), [(1, 0), (4, 10), (3, 20), (2, 40)]);
    // At 10 they have waited 9, 8 and 7 seconds: 0.3, 0.4 and 0.7 times their requests.
    assert_eq!(starts("easy[order=lxf]", &jobs), [(1, 0), (4, 10), (3, 20), (2, 40)]);
}

#[test]
fn the_user_who_has_used_least_goes_first_under_fair_share() {
    let jobs = [of_user("first", job(2, 8, 10, 10)), of_user("other", job(3, 8, 10, 10)), job(4, 8, 10, 10)];
    assert_eq!(starts("easy", &jobs), [(1, 0), (2, 10), (3, 20), (4, 30)]);
    assert_eq!(starts("easy[order=fairshare]", &jobs), [(1, 0), (3, 10), (4, 20), (2, 30)]);
}

#[test]
fn usage_is_kept_when_a_waiting_job_is_cancelled() {
    let mut builtin = builtin("easy[order=fairshare]");
    builtin.submit(at(0), &of_user("first", job(1, 8, 10, 10))).unwrap();
    builtin.pass(at(0));
    let waiting =
        [of_user("first", job(2, 8, 10, 10)), job(3, 8, 10, 10), of_user("other", job(4, 8, 10, 10))];
    for job in &waiting {
        builtin.submit(at(1), job).unwrap();
    }
    builtin.pass(at(5));
    builtin.cancel(at(6), JobId(3)).unwrap();
    builtin.pass(at(6));
    let expected = builtin.look(Moment(i64::MIN)).jobs;
    let expected: Vec<_> =
        expected.iter().filter_map(|job| Some((job.id.0, job.expected_start?.0))).collect();
    assert_eq!(expected, [(2, 20), (4, 10)], "expected starts follow the order");
    let changes = builtin.pass(at(1_000));
    let started = changes.iter().filter(|change| change.state == JobState::Running);
    assert_eq!(started.map(|change| (change.id.0, change.at.0)).collect::<Vec<_>>(), [(4, 10), (2, 20)]);
}
