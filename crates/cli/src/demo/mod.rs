//! `bookahead demo`: a broker and four sites in one process, with simulated users on an accelerated clock, and a guided
//! tour. Journals, API and negotiation are real; only the jobs are simulated. With `--slurm` the jobs are real too.
//!
//! - [`grid`]: the services; [`visitors`]: the simulated users
//! - [`tour`]: the guided tour
//! - [`slurm`]: the same with two real Slurm clusters

mod grid;
mod slurm;
mod tour;
mod visitors;

use crate::output::say;
use crate::times::length;
use anyhow::{Context, Result, ensure};
use bookahead_plan::Seconds;
use bookahead_service::clock::Clock;
use clap::Args;
use grid::Grid;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use visitors::{Account, Visitors};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run the tour, then exit
    #[arg(long)]
    once: bool,

    /// Use two real Slurm clusters, started and stopped by the demo, in real time; needs the Debian packages slurmctld,
    /// slurmd, slurm-client and munge, but no root
    #[arg(long, conflicts_with_all = ["speed", "lasts", "visitors", "seed", "json"])]
    slurm: bool,

    /// Speed of the clock, as a multiple of real time
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    speed: u32,

    /// Port of the broker on the loopback interface; 0 for any free port. Ignored with --slurm, which uses a Unix
    /// socket
    #[arg(long, value_name = "PORT", default_value_t = 7400)]
    port: u16,

    /// Folder for journals; continues from those already there [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    state: Option<PathBuf>,

    /// Exit after this time, by the clock of the demo
    #[arg(long = "for", value_name = "LENGTH", value_parser = length, conflicts_with = "once")]
    lasts: Option<Seconds>,

    /// Mean number of reservations by simulated users per hour, by the clock of the demo
    #[arg(long, value_name = "N", default_value_t = 60)]
    visitors: u32,

    /// Random seed of the simulated users
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Skip the tour
    #[arg(long, conflicts_with = "once")]
    no_tour: bool,

    /// Print statistics as JSON at the end
    #[arg(long, requires = "lasts")]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let temporary = tempfile::Builder::new().prefix("bookahead-demo-").tempdir();
    let temporary = temporary.context("cannot create a temporary folder")?;
    // Declared after the folder and so dropped before it: tasks that still use the folder end first.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime")?;
    let folder = match &arguments.state {
        Some(folder) => std::path::absolute(folder).context("invalid state folder")?,
        None => temporary.path().to_owned(),
    };
    if arguments.slurm {
        let Arguments { once, no_tour, .. } = *arguments;
        let wishes = slurm::Wishes { folder: &folder, tour: !no_tour, once };
        return runtime.block_on(slurm::run(&wishes));
    }
    let clock = grid::clock(&folder, arguments.speed)?;
    let (sites, broker) = (grid::sites(&clock)?, grid::broker(&clock)?);
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, arguments.port));
    let grid = runtime.block_on(Grid::start(&folder, sites, broker, Some(address)))?;
    say!(
        "The demo runs at {} times real time. Its broker, with a page for your browser, is at {}",
        clock.speed,
        grid.url()
    );
    let account = Account::begin(&folder);
    let visitors = Visitors::begin(runtime.handle(), &grid, arguments.visitors, arguments.seed)?;
    if !arguments.no_tour && !arguments.json {
        runtime.block_on(tour::run(grid.url(), arguments.once))?;
    }
    if !arguments.once {
        let clock = grid.clock();
        runtime.block_on(wait(&account, clock, arguments.lasts, &grid, &visitors))?;
    }
    // Visits end before the services stop, so that none of them fails.
    runtime.block_on(visitors.end());
    let told = account.told(&grid, &visitors);
    let told = runtime.block_on(told);
    runtime.block_on(grid.stop())?;
    if arguments.json {
        return Ok(crate::output::print_json(&told?)?);
    }
    say!("{}", told?);
    Ok(())
}

/// Waits for Ctrl-C or for the end of `lasts`. Records statistics every hour of the demo.
async fn wait(
    account: &Account,
    clock: Clock,
    lasts: Option<Seconds>,
    grid: &Grid,
    visitors: &Visitors,
) -> Result<()> {
    let lasts = lasts.map(|lasts| {
        let real = u64::try_from(lasts.0).unwrap_or(0) * 1_000 / u64::from(clock.speed());
        Duration::from_millis(real)
    });
    let mut hours = tokio::time::interval(Duration::from_millis(3_600_000 / u64::from(clock.speed())));
    let ended = async {
        match lasts {
            Some(lasts) => tokio::time::sleep(lasts).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(ended);
    loop {
        tokio::select! {
            () = &mut ended => return Ok(()),
            stopped = stopped() => return stopped,
            _ = hours.tick() => account.look(grid, visitors, lasts.is_some()).await,
        }
        ensure!(grid.is_well(), "a service of the demo has failed; see the messages above");
    }
}

/// Waits for Ctrl-C or SIGTERM.
async fn stopped() -> Result<()> {
    let mut told = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    tokio::select! {
        pressed = tokio::signal::ctrl_c() => pressed.context("cannot wait for Ctrl-C"),
        _ = told.recv() => Ok(()),
    }
}
