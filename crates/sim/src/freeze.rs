//! A simulated cluster stopped at a moment: who runs and who waits, as its scheduler would know it. What is submitted later
//! has no part in it.

use crate::site::{EarliestFit, Fate, Job, Site, simulate};
use bookahead_plan::{Capacity, Cluster, Running, Time, Waiting};

/// The moment, after the pass of its instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frozen {
    /// When.
    pub now: Time,
    /// What there is in all.
    pub capacity: Capacity,
    /// Running jobs: their index, when they started, and what is known of them.
    pub running: Vec<(usize, Time, Running)>,
    /// Waiting jobs: their index.
    pub waiting: Vec<usize>,
    running_now: Vec<Running>,
    waiting_now: Vec<Waiting>,
}

/// Runs `jobs`, which are in order of submission, until `now`.
pub fn freeze(site: Site, jobs: &[Job], now: Time) -> Frozen {
    let submitted = &jobs[..jobs.partition_point(|job| job.asked.submit <= now)];
    let outcome = simulate(site, submitted, &[], &mut EarliestFit, |_| {});
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    for (at, (job, fate)) in submitted.iter().zip(&outcome.jobs).enumerate() {
        match fate {
            Fate::Ran(ran) if ran.start > now => waiting.push(at),
            Fate::Ran(ran) if ran.end > now => {
                let expected_end = ran.start + job.asked.estimate;
                running.push((at, ran.start, Running { expected_end, capacity: job.asked.capacity }));
            }
            Fate::Ran(_) | Fate::TooWide => {}
        }
    }
    Frozen {
        now,
        capacity: site.capacity,
        running_now: running.iter().map(|(_, _, running)| *running).collect(),
        waiting_now: waiting.iter().map(|&at| submitted[at].asked).collect(),
        running,
        waiting,
    }
}

impl Frozen {
    /// As planners know it.
    pub fn cluster(&self) -> Cluster<'_> {
        Cluster {
            capacity: self.capacity,
            now: self.now,
            running: &self.running_now,
            waiting: &self.waiting_now,
            reservations: &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Overrun;
    use bookahead_plan::{Policy, Seconds};

    #[test]
    fn at_a_moment_some_run_some_wait_and_the_rest_is_unknown() {
        let job = |submit, capacity, run| Job {
            asked: Waiting {
                submit: Time(submit),
                estimate: Seconds(run + 10),
                capacity: Capacity(capacity),
                priority: 0,
            },
            run: Seconds(run),
        };
        let jobs = [job(0, 4, 10), job(0, 6, 100), job(20, 10, 5), job(30, 4, 50), job(60, 1, 5)];
        let site = Site { policy: Policy::FCFS, capacity: Capacity(10), overrun: Overrun::Kill };
        let frozen = freeze(site, &jobs, Time(30));
        assert_eq!(frozen.running.iter().map(|(at, start, _)| (*at, start.0)).collect::<Vec<_>>(), [(1, 0)]);
        assert_eq!(frozen.waiting, [2, 3]);
        let cluster = frozen.cluster();
        assert_eq!(cluster.running[0].expected_end, Time(110), "by its estimate");
        assert_eq!(cluster.waiting.len(), 2);
    }
}
