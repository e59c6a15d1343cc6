//! When would every waiting job start, if all jobs ran as long as estimated and nothing else came? The
//! question behind every what-if. It is asked thousands of times, so memory is reused and nothing is
//! allocated per job.
//!
//! It drives the [`Scheduler`] through the future that the estimates describe, so the plan equals the
//! scheduler's decisions. The cluster is not changed.

use crate::policy::{JobKey, Policy, Running, Waiting};
use crate::profile::Profile;
use crate::scheduler::Scheduler;
use crate::units::{Capacity, Seconds, Span, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The state of a cluster at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// Total capacity.
    pub capacity: Capacity,
    /// The moment.
    pub now: Time,
    /// Running jobs. One beyond its estimate is expected to end within a second.
    pub running: &'a [Running],
    /// Waiting jobs; those with equal submit times in submission order.
    pub waiting: &'a [Waiting],
    /// Granted reservations. The past is ignored.
    pub reservations: &'a [Span],
}

/// A planner with reusable memory.
pub struct Planner {
    scheduler: Scheduler,
    starts: Vec<Time>,
    /// Planned ends of jobs, with owner and capacity: only for orders that depend on usage.
    ends: BinaryHeap<Reverse<(Time, u32, Capacity)>>,
}

impl Default for Planner {
    fn default() -> Planner {
        Planner::new()
    }
}

impl Planner {
    /// Without memory yet; it grows with the first plans.
    pub fn new() -> Planner {
        let scheduler = Scheduler::new(Policy::EASY, Capacity::ZERO, Time(0));
        Planner { scheduler, starts: Vec::new(), ends: BinaryHeap::new() }
    }

    /// The planned start of each waiting job, in the order of `cluster.waiting`. [`Time::MAX`] for a job that
    /// can never start.
    pub fn plan(&mut self, policy: Policy, cluster: &Cluster<'_>) -> &[Time] {
        self.set_up(policy, cluster);
        let (scheduler, starts, ends) = (&mut self.scheduler, &mut self.starts, &mut self.ends);
        let needs_usage = policy.order().needs_usage();
        // Promises of an order that changes with time may move.
        let lasting = !policy.order().changes_with_time();
        loop {
            let now = scheduler.now();
            while let Some(&Reverse((end, owner, capacity))) = ends.peek().filter(|end| end.0.0 <= now) {
                scheduler.end(Running { expected_end: end, capacity, owner });
                ends.pop();
            }
            let mut started = |JobKey(at): JobKey| {
                starts[at as usize] = now;
                if needs_usage {
                    let job = &cluster.waiting[at as usize];
                    ends.push(Reverse((now + job.estimate.max(Seconds(1)), job.owner.id, job.capacity)));
                }
            };
            if lasting && policy.promises() == usize::MAX {
                scheduler.place_all(&mut started);
            } else {
                scheduler.schedule(started);
            }
            let all_promised = scheduler.promises().count() == scheduler.waiting();
            if all_promised && (lasting || scheduler.waiting() == 0) {
                // Nothing unforeseen happens in a plan, so every promise will be kept and the loop can stop
                // early.
                scheduler.promises().for_each(|(JobKey(at), start)| starts[at as usize] = start);
                return &self.starts;
            }
            match scheduler.next_chance() {
                Some(next) => scheduler.advance(next),
                None => return &self.starts,
            }
        }
    }

    /// The result of the last [`Planner::plan`].
    pub(crate) fn last_plan(&self) -> &[Time] {
        &self.starts
    }

    /// The capacity left by running jobs, reservations and the first waiting job: what a reservation may take
    /// without breaking a promise.
    pub fn room(&mut self, policy: Policy, cluster: &Cluster<'_>) -> &Profile {
        self.set_up(policy, cluster);
        self.scheduler.place_first(|_| {});
        self.scheduler.profile()
    }

    fn set_up(&mut self, policy: Policy, cluster: &Cluster<'_>) {
        self.scheduler.reset(policy, cluster.capacity, cluster.now);
        self.starts.clear();
        self.starts.resize(cluster.waiting.len(), Time::MAX);
        self.ends.clear();
        for &running in cluster.running {
            let expected_end = running.expected_end.max(cluster.now + Seconds(1));
            self.scheduler.adopt(Running { expected_end, ..running });
            if policy.order().needs_usage() {
                self.ends.push(Reverse((expected_end, running.owner, running.capacity)));
            }
        }
        for &span in cluster.reservations {
            self.scheduler.reserve(span);
        }
        for (at, &job) in (0u32..).zip(cluster.waiting) {
            // A job that is too wide is refused and keeps its start of `Time::MAX`.
            let _ = self.scheduler.submit(JobKey(at), job);
        }
    }
}
