//! `bookahead demo --slurm`: two small Slurm clusters of our own, a site in front of each, and their broker, in real time.
//! Nothing is pretended but the machines: slurmctld and slurmd are the real ones, jobs are processes.
//!
//! - [`clusters`]: the two Slurms, and the jobs of their own users; [`tour`]: what to try first
//!
//! It relies on Debian's packages of Slurm and munge, and on no rights. However it ends, it leaves no process behind.

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

/// What is asked of the demo.
pub(super) struct Wishes<'a> {
    pub(super) folder: &'a Path,
    pub(super) tour: bool,
    /// It ends after the tour.
    pub(super) once: bool,
}

const BROKER: &str = "name = \"broker\"\n";

/// So often it is seen whether all are at work.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// From the start to the end, or to Ctrl-C, which may come at any moment.
pub(super) async fn run(wishes: &Wishes<'_>) -> Result<()> {
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
    say!("The demo runs: two Slurm clusters, a site for each, and a broker at {}", grid.url());
    let shown = tokio::select! {
        shown = show(wishes, &grid, &clusters) => shown,
        stopped = &mut stopped => stopped,
    };
    // Sites before their clusters, so that none asks a Slurm that has gone.
    let ended = grid.stop().await;
    tokio::task::spawn_blocking(move || drop(clusters)).await?;
    shown.and(ended)
}

async fn start(wishes: &Wishes<'_>, clusters: &[Cluster]) -> Result<Grid> {
    for cluster in clusters {
        cluster.fill().await?;
    }
    let sites = clusters.iter().map(|cluster| cluster.site(wishes.folder)).collect::<Result<_>>()?;
    let broker = BrokerConfig::parse(Path::new("broker"), BROKER)?;
    // Jobs run as this account: nobody else may submit any.
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
    say!("\nClusters, sites and broker go on until you press Ctrl-C.");
    let mut times = tokio::time::interval(LOOK_EVERY);
    loop {
        times.tick().await;
        ensure!(grid.is_well(), "a party of the demo has ended by itself; its last words are above");
    }
}
