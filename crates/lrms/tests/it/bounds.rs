//! Memory is bounded.

use crate::{Drive, at, builtin, cpu, job, wake};
use bookahead_lrms::builtin::sources::{Mix, Steady};
use bookahead_lrms::builtin::{MOST_JOBS, REMEMBERED};
use bookahead_lrms::{Builtin, Hosted};
use bookahead_plan::{Capacity, Policy, Seconds, Time};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A busy cluster, and a counter of the jobs from its source.
fn busy(load: u32) -> (Builtin, Arc<AtomicUsize>) {
    let widths = [1, 2, 4, 8, 32].map(Capacity).to_vec();
    let mix = Mix { capacity: Capacity(128), load, widths, estimates: [30, 300, 900].map(Seconds).to_vec() };
    let brought = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&brought);
    let source = Steady::new(&mix, Time(0), 1).inspect(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let hosted = Hosted { source: Box::new(source), ..Hosted::new(cpu(), Capacity(128)) };
    let mut builtin = Builtin::new(vec![hosted], at(0), None).unwrap();
    wake(&mut builtin, 0);
    (builtin, brought)
}

/// The most items that it stores while this many jobs come.
fn most_remembered(load: u32, jobs: usize) -> usize {
    let (mut builtin, brought) = busy(load);
    let (mut now, mut most) = (0, 0);
    while brought.load(Ordering::Relaxed) < jobs {
        now += 3_600;
        assert_eq!(builtin.pass(at(now)), []);
        most = most.max(builtin.remembered());
    }
    most
}

#[test]
fn a_million_local_jobs_leave_nothing_behind() {
    let most = most_remembered(80, 1_000_000);
    assert!(most < 1_000, "{most}");
}

#[test]
fn local_jobs_go_elsewhere_when_too_many_wait() {
    // For each waiting job: itself and its place in the queue. For each running job: itself, its end and its
    // capacity.
    let most = most_remembered(300, 40_000);
    assert!((20_000..22_000).contains(&most), "{most}");
}

#[test]
fn of_jobs_that_are_over_the_newest_are_remembered() {
    let mut builtin = builtin(8, Policy::EASY);
    for id in 0..3 * REMEMBERED as u128 {
        builtin.submit(at(0), &job(id, 8, 1, 1)).unwrap();
    }
    builtin.pass(at(100_000));
    let jobs = builtin.jobs();
    assert_eq!(jobs.len(), REMEMBERED);
    assert_eq!(jobs[0].id.0, 2 * REMEMBERED as u128);
    assert_eq!(builtin.remembered(), REMEMBERED);
}

#[test]
fn only_so_many_submitted_jobs_may_wait() {
    let mut builtin = builtin(8, Policy::EASY);
    for id in 0..MOST_JOBS as u128 {
        builtin.submit(at(0), &job(id, 8, 1, 1)).unwrap();
    }
    let refused = builtin.submit(at(0), &job(99_999, 8, 1, 1)).unwrap_err();
    assert!(refused.is_refusal() && refused.to_string().contains("wait or run already"), "{refused}");
    builtin.pass(at(10));
    builtin.submit(at(10), &job(99_999, 8, 1, 1)).unwrap();
}
