//! The set-up: the clusters of the paper, and background workloads and test jobs, which the paper only names. All of it
//! was fixed before the first run. Background jobs are drawn from a seed and are the same for all wall times.

use bookahead_plan::{Capacity, Owner, Seconds, Time, Waiting};
use bookahead_sim::Job;
use bookahead_workload::streams::Stream;

/// A cluster of the paper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cluster {
    pub(super) name: &'static str,
    /// Cores of a node.
    pub(super) node: u32,
}

/// Compute nodes of each cluster.
pub(super) const NODES: u32 = 10;

/// Siemens has one CPU in a node, Highland two cores.
pub(super) const CLUSTERS: [Cluster; 2] =
    [Cluster { name: "Siemens", node: 1 }, Cluster { name: "Highland", node: 2 }];

impl Cluster {
    pub(super) fn capacity(&self) -> Capacity {
        Capacity(NODES * self.node)
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sort {
    /// Percentage of all jobs of the workload.
    pub(super) share: i64,
    /// The shortest and the longest run time, in seconds.
    pub(super) run: (i64, i64),
    /// The fewest and the most nodes.
    pub(super) nodes: (i64, i64),
}

/// A background workload: jobs of one or two sorts at a constant rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Workload {
    /// Its name in the paper.
    pub(super) name: &'static str,
    /// Description on the page.
    pub(super) about: &'static str,
    pub(super) usual: Sort,
    pub(super) other: Sort,
}

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

pub(super) const WORKLOADS: [Workload; 3] = [
    Workload {
        name: "W1",
        about: "short jobs of 5 to 20 minutes on 1 to 4 nodes, and 15% long ones of 2 to 6 hours on 1 to 3 nodes, which \
                fragment the cluster",
        usual: Sort { share: 85, run: (5 * MINUTE, 20 * MINUTE), nodes: (1, 4) },
        other: Sort { share: 15, run: (2 * HOUR, 6 * HOUR), nodes: (1, 3) },
    },
    Workload {
        name: "W2",
        about: "jobs of 10 to 60 minutes on 1 to 5 nodes",
        usual: Sort { share: 100, run: (10 * MINUTE, HOUR), nodes: (1, 5) },
        other: Sort { share: 0, run: (10 * MINUTE, HOUR), nodes: (1, 5) },
    },
    Workload {
        name: "W3",
        about: "jobs of 5 to 30 minutes on 1 to 10 nodes",
        usual: Sort { share: 100, run: (5 * MINUTE, 30 * MINUTE), nodes: (1, 10) },
        other: Sort { share: 0, run: (5 * MINUTE, 30 * MINUTE), nodes: (1, 10) },
    },
];

/// Offered load of each workload by real run times: high enough for a queue most of the time.
pub(super) const LOAD: f64 = 0.9;
/// Wall times of background jobs, in percent of their run times.
pub(super) const WALL_TIMES: [i64; 5] = [110, 120, 130, 140, 150];

/// A job whose start is estimated and measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TestJob {
    /// Its name in the paper.
    pub(super) name: &'static str,
    /// Cores, on either cluster.
    pub(super) cores: Capacity,
    pub(super) wall_time: Seconds,
}

/// The large and the small test job.
pub(super) const TEST_JOBS: [TestJob; 2] = [
    TestJob { name: "large", cores: Capacity(8), wall_time: Seconds(HOUR) },
    TestJob { name: "small", cores: Capacity(1), wall_time: Seconds(10 * MINUTE) },
];
/// Index of the small job in [`TEST_JOBS`].
pub(super) const SMALL: usize = 1;

/// Pairs of workloads for the ranking: the first on Siemens, the second on Highland.
pub(super) const PAIRS: [(usize, usize); 3] = [(0, 1), (1, 2), (0, 2)];

/// Jobs of a workload. Test jobs are submitted between a quarter and three quarters of them, so that the cluster is
/// neither filling up nor draining.
pub(super) const JOBS: usize = 240;

/// Size of a run per seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Independent drawings of every workload.
    pub(super) drawings: usize,
    /// Test submissions in each drawing.
    pub(super) moments: usize,
}

impl Size {
    pub(super) fn of(quick: bool) -> Size {
        if quick { Size { drawings: 6, moments: 3 } } else { Size { drawings: 40, moments: 8 } }
    }
}

/// A drawn workload: jobs in order of submission, and the moments at which test jobs are submitted.
pub(super) struct Drawn {
    jobs: Vec<(Time, Capacity, Seconds)>,
    pub(super) moments: Vec<Time>,
}

impl Drawn {
    pub(super) fn new(
        workload: &Workload,
        cluster: &Cluster,
        seed: u64,
        drawing: usize,
        moments: usize,
    ) -> Drawn {
        let stream = |what: &str| {
            // Workload and cluster are in the name, so that the two sides of a ranking decision are
            // independent.
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
                // Sizes are in nodes, so that a job takes the same share of either cluster.
                let cores = sizes.whole(nodes.0, nodes.1) as u32 * cluster.node;
                (Time(clock as i64), Capacity(cores), Seconds(runs.whole(run.0, run.1)))
            })
            .collect();
        let (first, last) = (jobs[JOBS / 4].0, jobs[JOBS * 3 / 4].0);
        let moments = (0..moments).map(|_| Time(begins.whole(first.0, last.0))).collect();
        Drawn { jobs, moments }
    }

    /// The jobs with wall times of `wall_time` percent of their run times, rounded up.
    pub(super) fn jobs(&self, wall_time: i64) -> Vec<Job> {
        let job = |&(submit, capacity, run): &(Time, Capacity, Seconds)| {
            let estimate = Seconds((run.0 * wall_time + 99) / 100);
            Job { asked: Waiting { submit, estimate, capacity, priority: 0, owner: Owner::NONE }, run }
        };
        self.jobs.iter().map(job).collect()
    }
}

impl Workload {
    /// Mean of cores times run time, in core-seconds.
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
