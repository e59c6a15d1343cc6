//! When would every waiting job start, if all jobs ran as long as estimated and nothing else came? The question
//! behind every what-if: asked thousands of times on the same memory, with nothing allocated for a job.
//!
//! It drives the [`Scheduler`] through the future that the estimates describe, so the plan is what the
//! scheduler would do. It never changes the cluster it is asked about.

use crate::policy::{JobKey, Policy, Running, Waiting};
use crate::profile::Profile;
use crate::scheduler::Scheduler;
use crate::units::{Capacity, Seconds, Span, Time};

/// What is known of a cluster at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Cluster<'a> {
    /// What there is in all.
    pub capacity: Capacity,
    /// The moment.
    pub now: Time,
    /// Jobs that run. One that is beyond its estimate is expected to end within the second.
    pub running: &'a [Running],
    /// Jobs that wait, those with the same submit time in the order in which they were submitted.
    pub waiting: &'a [Waiting],
    /// Granted reservations; what lies in the past is ignored.
    pub reservations: &'a [Span],
}

/// Memory for planning, to be used again and again.
pub struct Planner {
    scheduler: Scheduler,
    starts: Vec<Time>,
}

impl Default for Planner {
    fn default() -> Planner {
        Planner::new()
    }
}

impl Planner {
    /// Ready to plan; its memory grows with the first plans.
    pub fn new() -> Planner {
        Planner { scheduler: Scheduler::new(Policy::EASY, Capacity::ZERO, Time(0)), starts: Vec::new() }
    }

    /// The planned start of each waiting job, in the order of `cluster.waiting`; [`Time::MAX`] for one that can
    /// never start.
    pub fn plan(&mut self, policy: Policy, cluster: &Cluster<'_>) -> &[Time] {
        self.set_up(policy, cluster);
        let (scheduler, starts) = (&mut self.scheduler, &mut self.starts);
        loop {
            let now = scheduler.now();
            scheduler.schedule(|JobKey(at)| starts[at as usize] = now);
            let all_promised = scheduler.promises().len() == scheduler.waiting();
            if all_promised {
                // Nothing unforeseen happens in a plan, so every promise will be kept.
                scheduler.promises().for_each(|(JobKey(at), start)| starts[at as usize] = start);
                return &self.starts;
            }
            match scheduler.next_chance() {
                Some(next) => scheduler.advance(next),
                None => return &self.starts,
            }
        }
    }

    /// What the last call of [`Planner::plan`] returned.
    pub fn last_plan(&self) -> &[Time] {
        &self.starts
    }

    /// The room that running jobs, reservations and the first waiting job leave, now and later: what a reservation may
    /// take without breaking a promise.
    pub fn room(&mut self, policy: Policy, cluster: &Cluster<'_>) -> &Profile {
        self.set_up(policy, cluster);
        self.scheduler.place_first(|_| {});
        self.scheduler.profile()
    }

    fn set_up(&mut self, policy: Policy, cluster: &Cluster<'_>) {
        self.scheduler.reset(policy, cluster.capacity, cluster.now);
        self.starts.clear();
        self.starts.resize(cluster.waiting.len(), Time::MAX);
        for &running in cluster.running {
            let expected_end = running.expected_end.max(cluster.now + Seconds(1));
            self.scheduler.adopt(Running { expected_end, ..running });
        }
        for &span in cluster.reservations {
            self.scheduler.reserve(span);
        }
        for (at, &job) in (0u32..).zip(cluster.waiting) {
            // One that is too wide never starts, and its start says so.
            let _ = self.scheduler.submit(JobKey(at), job);
        }
    }
}
