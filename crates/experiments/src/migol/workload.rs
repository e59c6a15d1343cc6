//! Background jobs, drawn from a seed: the same jobs whatever wall times are asked for.

use super::setup::{Cluster, JOBS, LOAD, Sort, Workload};
use bookahead_plan::{Capacity, Seconds, Time, Waiting};
use bookahead_sim::Job;
use bookahead_workload::streams::Stream;

/// A drawn workload: jobs in order of submission, and the moments at which test jobs are submitted.
pub(super) struct Drawn {
    jobs: Vec<(Time, Capacity, Seconds)>,
    pub(super) moments: Vec<Time>,
}

impl Drawn {
    /// Draws a workload for a cluster.
    pub(super) fn new(
        workload: &Workload,
        cluster: &Cluster,
        seed: u64,
        drawing: usize,
        moments: usize,
    ) -> Drawn {
        let stream = |what: &str| {
            Stream::new(seed, &format!("migol/{}/{}/{drawing}/{what}", workload.name, cluster.name))
        };
        let [mut gaps, mut sorts, mut sizes, mut runs, mut begins] =
            ["gaps", "sorts", "sizes", "runs", "moments"].map(stream);
        let mean_gap = workload.mean_area(cluster) / (f64::from(cluster.capacity().0) * LOAD);
        let mut clock = 0.0;
        let jobs: Vec<(Time, Capacity, Seconds)> = (0..JOBS)
            .map(|_| {
                clock += gaps.exponential(mean_gap);
                let usual = sorts.whole(1, 100) <= workload.usual.share;
                let Sort { run, nodes, .. } = if usual { workload.usual } else { workload.other };
                let cores = sizes.whole(nodes.0, nodes.1) as u32 * cluster.node;
                (Time(clock as i64), Capacity(cores), Seconds(runs.whole(run.0, run.1)))
            })
            .collect();
        let (first, last) = (jobs[JOBS / 4].0, jobs[JOBS * 3 / 4].0);
        let moments = (0..moments).map(|_| Time(begins.whole(first.0, last.0))).collect();
        Drawn { jobs, moments }
    }

    /// The jobs with wall times of so many per cent of their run times, rounded up.
    pub(super) fn jobs(&self, wall_time: i64) -> Vec<Job> {
        let job = |&(submit, capacity, run): &(Time, Capacity, Seconds)| {
            let estimate = Seconds((run.0 * wall_time + 99) / 100);
            Job { asked: Waiting { submit, estimate, capacity, priority: 0 }, run }
        };
        self.jobs.iter().map(job).collect()
    }
}

impl Workload {
    /// The mean of cores times run time.
    fn mean_area(&self, cluster: &Cluster) -> f64 {
        let middle = |(low, high): (i64, i64)| (low + high) as f64 / 2.0;
        let area = |sort: &Sort| {
            sort.share as f64 / 100.0 * middle(sort.run) * middle(sort.nodes) * f64::from(cluster.node)
        };
        area(&self.usual) + area(&self.other)
    }
}

#[cfg(test)]
mod tests {
    use super::super::setup::{CLUSTERS, WORKLOADS};
    use super::*;

    #[test]
    fn workloads_bring_the_load_they_are_meant_to() {
        for workload in &WORKLOADS {
            assert_eq!(workload.usual.share + workload.other.share, 100);
            for cluster in &CLUSTERS {
                let (mut area, mut offered) = (0.0, 0.0);
                for drawing in 0..400 {
                    let jobs = Drawn::new(workload, cluster, 1, drawing, 1).jobs(100);
                    area += jobs
                        .iter()
                        .map(|job| f64::from(job.asked.capacity.0) * job.run.0 as f64)
                        .sum::<f64>();
                    offered += f64::from(cluster.capacity().0) * jobs[JOBS - 1].asked.submit.0 as f64;
                    assert!(jobs.iter().all(|job| job.asked.capacity <= cluster.capacity()));
                }
                assert!((area / offered - LOAD).abs() < 0.02, "{}: {}", workload.name, area / offered);
            }
        }
    }

    #[test]
    fn wall_times_change_nothing_but_the_wall_times() {
        let drawn = Drawn::new(&WORKLOADS[0], &CLUSTERS[0], 1, 0, 4);
        for (short, long) in drawn.jobs(110).iter().zip(drawn.jobs(150)) {
            assert_eq!((short.run, short.asked.submit), (long.run, long.asked.submit));
            assert!(short.asked.estimate < long.asked.estimate && short.run <= short.asked.estimate);
        }
    }
}
