//! Planning a queue: the promises of a plan, and no allocations when repeated.

use bookahead_plan::{Capacity, Cluster, Owner, Planner, Policy, Running, Seconds, Span, Time, Waiting};

fn waiting(submit: i64, capacity: u32, estimate: i64) -> Waiting {
    Waiting {
        submit: Time(submit),
        estimate: Seconds(estimate),
        capacity: Capacity(capacity),
        priority: 0,
        owner: Owner::NONE,
    }
}

fn cluster<'a>(running: &'a [Running], waiting: &'a [Waiting], reservations: &'a [Span]) -> Cluster<'a> {
    Cluster { capacity: Capacity(10), now: Time(1_000), running, waiting, reservations }
}

fn plan(policy: Policy, cluster: &Cluster<'_>) -> Vec<i64> {
    Planner::new().plan(policy, cluster).iter().map(|start| start.0).collect()
}

#[test]
fn jobs_are_planned_around_running_jobs_and_reservations() {
    let running = [Running { expected_end: Time(1_100), capacity: Capacity(8), owner: 0 }];
    let reservations = [Span::starting(Time(1_150), Seconds(50), Capacity(10))];
    let queue = [waiting(0, 10, 60), waiting(1, 2, 100), waiting(2, 2, 30), waiting(3, 2, 200)];
    let cluster = cluster(&running, &queue, &reservations);
    assert_eq!(plan(Policy::FCFS, &cluster), [1_200, 1_260, 1_260, 1_260]);
    // Under EASY the second and third start at once; the fourth would conflict with the reservation and the
    // first job.
    assert_eq!(plan(Policy::EASY, &cluster), [1_200, 1_000, 1_100, 1_260]);
    assert_eq!(plan(Policy::CONSERVATIVE, &cluster), [1_200, 1_000, 1_100, 1_260]);
}

#[test]
fn a_job_wider_than_the_machine_never_starts_and_delays_nobody() {
    let queue = [waiting(0, 11, 10), waiting(1, 10, 10)];
    for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE] {
        assert_eq!(plan(policy, &cluster(&[], &queue, &[])), [i64::MAX, 1_000]);
    }
}

#[test]
fn a_job_behind_a_reservation_for_ever_never_starts() {
    let forever =
        Span { interval: bookahead_plan::Interval::new(Time(1_005), Time::MAX), capacity: Capacity(9) };
    let queue = [waiting(0, 2, 10), waiting(1, 1, 10), waiting(2, 2, 5)];
    assert_eq!(plan(Policy::EASY, &cluster(&[], &queue, &[forever])), [i64::MAX, 1_000, 1_000]);
}

#[test]
fn an_overdue_job_is_expected_to_end_within_the_second() {
    let running = [Running { expected_end: Time(900), capacity: Capacity(10), owner: 0 }];
    assert_eq!(plan(Policy::EASY, &cluster(&running, &[waiting(0, 10, 10)], &[])), [1_001]);
}

#[test]
fn the_order_of_the_queue_is_not_that_of_the_list() {
    let mut queue = [waiting(5, 10, 10), waiting(3, 10, 10), waiting(3, 10, 10), waiting(9, 10, 10)];
    queue[3].priority = 1;
    for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE] {
        assert_eq!(plan(policy, &cluster(&[], &queue, &[])), [1_030, 1_010, 1_020, 1_000]);
    }
}

#[test]
fn an_empty_queue_has_an_empty_plan() {
    assert!(plan(Policy::EASY, &cluster(&[], &[], &[])).is_empty());
}

#[test]
fn planning_again_allocates_nothing() {
    let running: Vec<Running> = (0..50)
        .map(|n| Running { expected_end: Time(2_000 + 37 * n), capacity: Capacity(20), owner: 0 })
        .collect();
    let queue: Vec<Waiting> =
        (0..1_000).map(|n| waiting(n, 1 + (n * 7 % 400) as u32, 60 + n * 13 % 5_000)).collect();
    let reservations: Vec<Span> =
        (0..100).map(|n| Span::starting(Time(3_000 + 700 * n), Seconds(500), Capacity(300))).collect();
    let cluster = Cluster {
        capacity: Capacity(1_000),
        now: Time(1_000),
        running: &running,
        waiting: &queue,
        reservations: &reservations,
    };
    for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE, Policy::backfilling(5).unwrap()] {
        let mut planner = Planner::new();
        let first = planner.plan(policy, &cluster).to_vec();
        let counted = allocation_counter::measure(|| {
            assert_eq!(planner.plan(policy, &cluster), first);
        });
        assert_eq!(counted.count_total, 0, "{policy}");
    }
}
