//! The set-up: clusters as the paper describes them, background workloads and test jobs that it only names. All of it was
//! written down before the first run.

use bookahead_plan::{Capacity, Seconds};

/// A cluster of the paper, ten nodes each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cluster {
    /// Its name.
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
    /// All its cores.
    pub(super) fn capacity(&self) -> Capacity {
        Capacity(NODES * self.node)
    }
}

/// Jobs of one sort.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sort {
    /// Of all jobs of the workload, in per cent.
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
    /// What it is, for the page.
    pub(super) about: &'static str,
    /// The usual jobs.
    pub(super) usual: Sort,
    /// The others.
    pub(super) other: Sort,
}

const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;

/// The three workloads.
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

/// The offered load of every workload, run times counted: there is a queue most of the time.
pub(super) const LOAD: f64 = 0.9;
/// Wall times of background jobs, in per cent of their run times.
pub(super) const WALL_TIMES: [i64; 5] = [110, 120, 130, 140, 150];

/// What is submitted to see when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TestJob {
    /// Its name in the paper.
    pub(super) name: &'static str,
    /// Cores, on either cluster.
    pub(super) cores: Capacity,
    /// Its wall time.
    pub(super) wall_time: Seconds,
}

/// The large and the small test job.
pub(super) const TEST_JOBS: [TestJob; 2] = [
    TestJob { name: "large", cores: Capacity(8), wall_time: Seconds(HOUR) },
    TestJob { name: "small", cores: Capacity(1), wall_time: Seconds(10 * MINUTE) },
];
/// Where in [`TEST_JOBS`] the small one stands.
pub(super) const SMALL: usize = 1;

/// The pairs of workloads whose clusters are ranked: the first on Siemens, the second on Highland.
pub(super) const PAIRS: [(usize, usize); 3] = [(0, 1), (1, 2), (0, 2)];

/// Jobs in a drawn workload. The test job is submitted somewhere between a quarter and three quarters of them, so that the
/// cluster is neither filling up nor running empty.
pub(super) const JOBS: usize = 240;

/// How much is run for each seed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    /// Independent drawings of every workload.
    pub(super) drawings: usize,
    /// Moments in each of them.
    pub(super) moments: usize,
}

impl Size {
    /// Of a full or a quick run.
    pub(super) fn of(quick: bool) -> Size {
        if quick { Size { drawings: 6, moments: 3 } } else { Size { drawings: 40, moments: 8 } }
    }
}
