//! The two Slurm clusters of the demo, the jobs of their local users, and the configurations of their sites.

use super::super::tour::foreign;
use anyhow::{Context, Result, bail};
use bookahead_lrms::command::Command;
use bookahead_lrms::slurm::{OwnCluster, OwnClusterSettings};
use bookahead_service::config::SiteConfig;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

struct Kind {
    name: &'static str,
    nodes: u32,
    /// In the order of submission. The first leaves room for the reservation of the tour; all others have to wait.
    jobs: &'static [LocalJob],
}

/// A job submitted directly to Slurm.
struct LocalJob {
    name: &'static str,
    cores: u32,
    minutes: u32,
}

const CORES_PER_NODE: u32 = 4;

const KINDS: [Kind; 2] = [
    Kind {
        name: "alpha",
        nodes: 4,
        jobs: &[
            LocalJob { name: "weather", cores: 8, minutes: 3 },
            LocalJob { name: "genome", cores: 16, minutes: 4 },
            LocalJob { name: "render", cores: 10, minutes: 5 },
        ],
    },
    Kind {
        name: "beta",
        nodes: 2,
        jobs: &[
            LocalJob { name: "protein", cores: 4, minutes: 3 },
            LocalJob { name: "traffic", cores: 8, minutes: 4 },
        ],
    },
];

const SITE: &str = include_str!("../parties/slurm.toml");

/// Timeout for the first local job to start, which Slurm normally does within a few seconds.
const RUNS_WITHIN: Duration = Duration::from_secs(20);

pub(super) struct Cluster {
    kind: &'static Kind,
    slurm: OwnCluster,
    /// Folder for the output of jobs submitted through the site.
    output: PathBuf,
}

/// Starts both clusters in parallel, because each takes seconds.
pub(super) async fn start(folder: &Path) -> Result<Vec<Cluster>> {
    let starting: Vec<_> = KINDS
        .iter()
        .map(|kind| {
            let folder = folder.to_owned();
            tokio::task::spawn_blocking(move || Cluster::start(kind, &folder))
        })
        .collect();
    let mut clusters = Vec::new();
    for cluster in starting {
        clusters.push(cluster.await??);
    }
    Ok(clusters)
}

impl Cluster {
    fn start(kind: &'static Kind, folder: &Path) -> Result<Cluster> {
        let own = folder.join(format!("slurm-{}", kind.name));
        forget(&own.join("state"))?;
        let settings = OwnClusterSettings {
            nodes: kind.nodes,
            cores_per_node: CORES_PER_NODE,
            ..OwnClusterSettings::new(kind.name, own)
        };
        let output = folder.join(format!("output-{}", kind.name));
        std::fs::create_dir_all(&output).with_context(|| format!("cannot create {}", output.display()))?;
        let slurm = OwnCluster::start(&settings);
        let slurm = slurm.with_context(|| format!("cannot start the Slurm cluster {}", kind.name))?;
        Ok(Cluster { kind, slurm, output })
    }

    pub(super) fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Path of its slurm.conf.
    pub(super) fn conf(&self) -> PathBuf {
        self.slurm.conf()
    }

    /// A Slurm command for this cluster.
    pub(super) fn command<const N: usize>(&self, program: &str, arguments: [&str; N]) -> Command {
        self.slurm.command(program).args(arguments)
    }

    /// The output so far of a job submitted through the site.
    pub(super) fn written_by(&self, job: &str) -> String {
        std::fs::read_to_string(self.output.join(format!("{job}.out"))).unwrap_or_default()
    }

    /// The configuration of its site.
    pub(super) fn site(&self, folder: &Path) -> Result<SiteConfig> {
        let mut config = SiteConfig::parse(&folder.join(self.kind.name), SITE)?;
        config.name = self.kind.name.into();
        if let Some(batch) = &mut config.batch {
            batch.conf = Some(self.slurm.conf());
            batch.output = Some(self.output.clone());
        }
        for resource in &mut config.resources {
            resource.capacity = self.kind.nodes * CORES_PER_NODE;
        }
        Ok(config)
    }

    /// Submits the local jobs and waits until the first of them runs.
    pub(super) async fn fill(&self) -> Result<()> {
        for LocalJob { name, cores, minutes } in self.kind.jobs {
            let options = [
                format!("--job-name={name}"),
                format!("--ntasks={cores}"),
                format!("--time={minutes}"),
                "--chdir=/".to_owned(),
                "--output=/dev/null".to_owned(),
                // Ends shortly before its time limit, so that Slurm does not have to kill it.
                format!("--wrap=sleep {}", minutes * 60 - 10),
            ];
            foreign(self.slurm.command("sbatch").args(options)).await?;
        }
        let began = Instant::now();
        while foreign(self.command("squeue", ["--noheader", "--states=RUNNING"])).await?.is_empty() {
            if began.elapsed() > RUNS_WITHIN {
                bail!("no job runs on {} after {RUNS_WITHIN:?}; please report this as a bug", self.kind.name);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }
}

/// Deletes the saved state of an earlier demo in the same folder: Slurm would wait for jobs that ended with it. The
/// sites restore their own reservations from their journals.
fn forget(state: &Path) -> Result<()> {
    match std::fs::remove_dir_all(state) {
        Err(why) if why.kind() != ErrorKind::NotFound => {
            Err(why).with_context(|| format!("cannot empty {}", state.display()))
        }
        _ => Ok(()),
    }
}
