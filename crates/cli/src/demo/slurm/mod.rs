//! `bookahead demo --slurm`: two small Slurm clusters, a site for each, and a broker, in real time. slurmctld and
//! slurmd are the real programs and jobs are processes; only the nodes are simulated.
//!
//! - [`clusters`]: the Slurm clusters and the jobs of their local users; [`tour`]: the guided tour
//!
//! It needs the Debian packages of Slurm and munge, but no root. It leaves no process behind, however it ends.

mod clusters;
mod tour;

use super::grid::Grid;
use super::stopped;
use crate::output::say;
use anyhow::{Result, ensure};
use bookahead_service::config::BrokerConfig;
use clusters::Cluster;
use std::path::Path;
use std::time::Duration;

pub(super) struct Wishes<'a> {
    pub(super) folder: &'a Path,
    pub(super) tour: bool,
    /// Exit after the tour.
    pub(super) once: bool,
}

const BROKER: &str = "name = \"broker\"\n";

/// Interval between checks that all services are running.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Runs the demo. Ctrl-C may come at any moment, also while the clusters start: dropping them stops their processes.
pub(super) async fn run(wishes: &Wishes<'_>) -> Result<()> {
    // One listener for all phases: a new one for each would miss a signal that arrives in between.
    let stopped = stopped();
    tokio::pin!(stopped);
    let clusters = tokio::select! {
        clusters = clusters::start(wishes.folder) => clusters?,
        stopped = &mut stopped => return stopped,
    };
    let grid = tokio::select! {
        grid = start(wishes, &clusters) => grid?,
        stopped = &mut stopped => return stopped,
    };
    say!("The demo is running: two Slurm clusters, a site for each, and a broker at {}", grid.url());
    let shown = tokio::select! {
        shown = show(wishes, &grid, &clusters) => shown,
        stopped = &mut stopped => stopped,
    };
    // Sites stop before their clusters, so that none polls a Slurm that is gone.
    let ended = grid.stop().await;
    // Dropping a cluster waits for its processes to end, which would block the runtime.
    tokio::task::spawn_blocking(move || drop(clusters)).await?;
    shown.and(ended)
}

async fn start(wishes: &Wishes<'_>, clusters: &[Cluster]) -> Result<Grid> {
    for cluster in clusters {
        cluster.fill().await?;
    }
    let sites = clusters.iter().map(|cluster| cluster.site(wishes.folder)).collect::<Result<_>>()?;
    let broker = BrokerConfig::parse(Path::new("broker"), BROKER)?;
    // On Unix sockets only, because jobs run as this account: no other user may submit any.
    Grid::start(wishes.folder, sites, broker, None).await
}

async fn show(wishes: &Wishes<'_>, grid: &Grid, clusters: &[Cluster]) -> Result<()> {
    if wishes.tour {
        tour::run(grid, clusters).await?;
    }
    if wishes.once {
        return Ok(());
    }
    tour::say_more(grid, clusters);
    say!("\nThe demo runs until you press Ctrl-C.");
    let mut times = tokio::time::interval(LOOK_EVERY);
    loop {
        times.tick().await;
        ensure!(grid.is_well(), "a service of the demo has failed; see the messages above");
    }
}
