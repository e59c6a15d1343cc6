//! `bookahead torture`: runs real sites and brokers under load, kills and restarts one of them every second, and checks
//! every acknowledged answer. No promise may be lost, no capacity sold twice, no co-reservation half booked.
//!
//! - [`daemons`]: the processes; [`client`]: the load; [`counts`]: its counters
//! - [`checker`]: the rules, without I/O
//!
//! The seed determines the choices of clients and kills, but not their timing, so that runs differ. Memory is bounded:
//! finished promises are dropped after each check, and clients have a bounded number of live reservations.

mod checker;
mod client;
mod counts;
mod daemons;

use crate::chance::Chance;
use crate::output::{count, length as written, plural, print_json, say};
use crate::table::Table;
use crate::times::length;
use anyhow::{Context, Result, bail};
use bookahead_api::{self as api, Length};
use bookahead_plan::{Seconds, Time};
use checker::{Promise, Rule, Term, Violation};
use clap::Args;
use client::{Party, Worker};
use counts::Counts;
use daemons::{Grid, Role};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Time of load between two checks. A check takes about a second, so that most of the time is load.
const ROUND: Duration = Duration::from_secs(20);
/// Timeout for brokers to complete their calls to sites: longer than their retry time and the holds left to expire.
const SETTLED_WITHIN: Duration = Duration::from_secs(60);
/// Interval between two checks of a schedule under load.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Reservations start this far ahead, so that none becomes active during the run.
const AHEAD: Seconds = Seconds(60 * 86_400);
/// Length of the schedules that are checked under load: longer than the windows of the clients, and within the limit
/// of a site.
const LOOKED_AT: Seconds = Seconds(60 * 86_400);
/// Violations in the results at most; the first ones are the most useful.
const SHOWN: usize = 20;

#[derive(Args)]
#[command(after_help = "\
Ctrl-C ends the load; all acknowledged answers are checked before the command exits. If a rule was violated, the exit code \
is 1 and the state folder is kept.")]
pub(crate) struct Arguments {
    /// Duration of the load, without checks
    #[arg(long, value_name = "LENGTH", default_value = "60s", value_parser = length)]
    duration: Seconds,

    /// Random seed for the choices of clients and kills
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Number of concurrent clients
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    clients: u32,

    /// Number of sites; two brokers reserve at them, one through the other
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=50))]
    sites: u32,

    /// Time between two kills
    #[arg(long, value_name = "LENGTH", default_value = "1s")]
    kill_every: Length,

    /// Keep configurations, journals and logs in this folder, which must be empty [default: a temporary folder]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,

    /// Keep the journals in this empty PostgreSQL database instead of files
    #[arg(long, value_name = "URL")]
    postgres: Option<String>,

    /// Start one in three killed processes with a clock that is wrong by hours or months for a moment, with this library of
    /// libfaketime
    #[arg(long, value_name = "LIBRARY")]
    wrong_clocks: Option<PathBuf>,

    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let temporary = tempfile::Builder::new().prefix("bookahead-torture-").tempdir();
    let temporary = temporary.context("cannot create a temporary folder")?;
    let folder = match &arguments.folder {
        Some(folder) => empty(folder)?,
        None => temporary.path().to_owned(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime")?;
    let results = runtime.block_on(torture(arguments, &folder));
    // An error counts, too: the logs of the daemons may explain it.
    let fails = results.as_ref().map_or(true, |results| results.violations > 0);
    if fails && arguments.folder.is_none() {
        say!("the state folder is kept: {}", temporary.keep().display());
    }
    let results = results?;
    if arguments.json {
        print_json(&results)?;
    } else {
        results.print()?;
    }
    match results.violations {
        0 => Ok(()),
        violations => bail!("{}", plural(violations, "violation")),
    }
}

fn empty(folder: &Path) -> Result<PathBuf> {
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    if fs::read_dir(folder)?.next().is_some() {
        bail!("{} is not empty; use a new folder", folder.display());
    }
    std::path::absolute(folder).with_context(|| format!("invalid folder {}", folder.display()))
}

#[derive(Serialize)]
struct Results {
    seed: u64,
    clients: u32,
    sites: u32,
    /// Time under load, without checks.
    seconds: f64,
    calls: Counts,
    acknowledged: u64,
    kills: u64,
    kills_of: BTreeMap<String, u64>,
    /// Starts with a wrong clock.
    wrong_clocks: u64,
    checks: u64,
    /// Sum over all checks.
    promises_checked: u64,
    /// Blocks of schedules that were checked under load.
    blocks_checked: u64,
    violations: u64,
    shown: Vec<Violation>,
}

impl Results {
    fn new(arguments: &Arguments) -> Results {
        let Arguments { seed, clients, sites, .. } = *arguments;
        Results {
            seed,
            clients,
            sites,
            seconds: 0.0,
            calls: Counts::default(),
            acknowledged: 0,
            kills: 0,
            kills_of: BTreeMap::new(),
            wrong_clocks: 0,
            checks: 0,
            promises_checked: 0,
            blocks_checked: 0,
            violations: 0,
            shown: Vec::new(),
        }
    }

    fn violated(&mut self, violations: Vec<Violation>) {
        self.violations += violations.len() as u64;
        violations.iter().for_each(|violation| say!("{violation}"));
        let room = SHOWN.saturating_sub(self.shown.len());
        self.shown.extend(violations.into_iter().take(room));
    }

    fn print(&self) -> Result<()> {
        let mut out = crate::output::stdout();
        let mut table = Table::figures(
            ["calls", "at sites", "refused", "at brokers", "refused"].map(str::to_owned).to_vec(),
        );
        for kind in self.calls.kinds() {
            let answers = |all: &BTreeMap<_, counts::Answers>| all.get(kind).copied().unwrap_or_default();
            let (site, broker) = (answers(&self.calls.at_sites), answers(&self.calls.at_brokers));
            let cells = [site.acknowledged, site.refused, broker.acknowledged, broker.refused];
            table.named_row(kind, cells.map(count));
        }
        writeln!(out, "{table}")?;
        let kills: Vec<_> = self.kills_of.iter().map(|(name, kills)| format!("{name} {kills}")).collect();
        let rows = [
            ("load", format!("{} by {}", written(self.seconds), plural(self.clients.into(), "client"))),
            ("acknowledged", plural(self.acknowledged, "call")),
            ("sent again", plural(self.calls.sent_again, "time")),
            ("repeated", plural(self.calls.repeated, "call")),
            ("kills", format!("{} ({})", count(self.kills), kills.join(", "))),
            ("wrong clocks", plural(self.wrong_clocks, "start")),
            (
                "checked",
                format!("{} in {}", plural(self.promises_checked, "promise"), plural(self.checks, "check")),
            ),
            ("violations", count(self.violations)),
        ];
        for (name, value) in rows {
            writeln!(out, "{name:<13} {value}")?;
        }
        for violation in &self.shown {
            writeln!(out, "{violation}")?;
        }
        Ok(())
    }
}

struct Torture {
    grid: Grid,
    workers: Vec<Worker>,
    chance: Chance,
    kill_every: Duration,
    /// The times that clients ask for.
    window: api::ScheduleQuery,
    results: Results,
}

async fn torture(arguments: &Arguments, folder: &Path) -> Result<Results> {
    let mut stopped = stop_signal()?;
    let grid = Grid::start(
        folder,
        arguments.sites,
        arguments.postgres.as_deref(),
        arguments.wrong_clocks.as_deref(),
    )
    .await?;
    let parties = grid.daemons.iter().map(Party::new).collect::<Result<Vec<_>, _>>()?;
    let begin = Time(now_ms() / 3_600_000 * 3_600) + AHEAD;
    let window = api::ScheduleQuery {
        from: begin.try_into().ok(),
        until: (begin + LOOKED_AT).try_into().ok(),
        ..api::ScheduleQuery::default()
    };
    let worker = |number| Worker::new(number, arguments.seed, parties.clone(), begin);
    let mut torture = Torture {
        grid,
        workers: (0..arguments.clients).map(worker).collect(),
        chance: Chance(arguments.seed),
        kill_every: Duration::from_millis(u64::try_from(arguments.kill_every.0.0).unwrap_or(0).max(1)),
        window,
        results: Results::new(arguments),
    };
    let mut left = Duration::from_secs(u64::try_from(arguments.duration.0).unwrap_or(0));
    while !left.is_zero() && !*stopped.borrow() {
        let round = left.min(ROUND);
        left -= round;
        torture.load(round, &mut stopped).await?;
        torture.check().await?;
        let Results { seconds, acknowledged, kills, violations, .. } = torture.results;
        let (calls, kills) = (plural(acknowledged, "call"), plural(kills, "kill"));
        say!("{}: {calls} acknowledged, {kills}, {}", written(seconds), plural(violations, "violation"));
    }
    let damaged = torture.grid.end()?;
    torture
        .results
        .violated(damaged.into_iter().map(|detail| Violation::new(Rule::BadJournal, detail)).collect());
    Ok(torture.results)
}

/// Becomes true on Ctrl-C or SIGTERM.
fn stop_signal() -> Result<watch::Receiver<bool>> {
    let (tell, stopped) = watch::channel(false);
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    tokio::spawn(async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        say!("stopping after a check of all acknowledged answers");
        // Fails only if the run is already over.
        let _ = tell.send(true);
    });
    Ok(stopped)
}

impl Torture {
    /// Runs clients and kills daemons for this long. At the end all daemons run and no call is outstanding.
    async fn load(&mut self, lasts: Duration, stopped: &mut watch::Receiver<bool>) -> Result<()> {
        let (began, paused) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let workers: Vec<_> = std::mem::take(&mut self.workers)
            .into_iter()
            .map(|worker| {
                let paused = paused.clone();
                tokio::spawn(async move { worker.run(&paused).await })
            })
            .collect();
        let looking = tokio::spawn(look(self.site_clients()?, self.window.clone(), paused.clone()));
        while began.elapsed() < lasts && !*stopped.borrow() {
            let wait = self.kill_every.min(lasts.saturating_sub(began.elapsed()));
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                _ = stopped.changed() => break,
            }
            self.grid.kill_one(&mut self.chance).await?;
        }
        // Only now, when all daemons run again: clients finish their current call, which may need any of them.
        paused.store(true, Ordering::Relaxed);
        for worker in workers {
            self.workers.push(worker.await.context("a client failed")?);
        }
        let (violations, blocks) = looking.await.context("a checker failed")?;
        self.results.violated(violations);
        self.results.blocks_checked += blocks;
        self.results.seconds += began.elapsed().as_secs_f64();
        self.count();
        Ok(())
    }

    fn site_clients(&self) -> Result<Vec<(String, bookahead_client::Client)>> {
        let sites = self.grid.daemons.iter().filter(|daemon| daemon.role == Role::Site);
        sites.map(|daemon| Ok((daemon.name.clone(), daemon.client("checker")?))).collect()
    }

    fn count(&mut self) {
        let results = &mut self.results;
        for worker in &mut self.workers {
            results.calls.add_all(&std::mem::take(&mut worker.counts));
            results.violated(std::mem::take(&mut worker.violations));
        }
        results.acknowledged = results.calls.acknowledged();
        results.kills_of =
            self.grid.daemons.iter().map(|daemon| (daemon.name.clone(), daemon.kills)).collect();
        results.kills = results.kills_of.values().sum();
        results.wrong_clocks = self.grid.wrong_clocks;
    }

    /// Compares all promises with the lists of sites and brokers, at once and after the brokers have settled.
    async fn check(&mut self) -> Result<()> {
        self.grid.wait_until_known().await?;
        let promises: Vec<Promise> = self.workers.iter().flat_map(Worker::promises).cloned().collect();
        let asked = now_ms();
        let mut books = self.grid.books().await?;
        let mut violations = checker::check_at_once(&promises, &books, asked);
        let until = Instant::now() + SETTLED_WITHIN;
        let unsettled = loop {
            let unsettled = checker::check_settled(&promises, &books, now_ms());
            if unsettled.is_empty() || Instant::now() > until {
                break unsettled;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
            books = self.grid.books().await?;
        };
        violations.extend(unsettled);
        self.results.violated(violations);
        self.results.checks += 1;
        self.results.promises_checked += promises.len() as u64;
        self.workers.iter_mut().for_each(Worker::forget_over);
        Ok(())
    }
}

/// Fetches the schedules of sites under load and checks each for overbooking. A site that is down is skipped.
async fn look(
    sites: Vec<(String, bookahead_client::Client)>,
    window: api::ScheduleQuery,
    paused: Arc<AtomicBool>,
) -> (Vec<Violation>, u64) {
    let (mut violations, mut seen) = (Vec::new(), 0);
    for (name, client) in sites.iter().cycle() {
        if paused.load(Ordering::Relaxed) {
            break;
        }
        if let Ok(schedule) = client.schedule(&window).await {
            let blocks = schedule.resources.iter().flat_map(|resource| &resource.blocks);
            let terms: Vec<Term> = blocks.map(|block| term(name, block)).collect();
            seen += terms.len() as u64;
            violations.extend(checker::overbooked(name, daemons::CAPACITY, terms.iter()));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    (violations, seen)
}

fn term(site: &str, block: &api::Block) -> Term {
    let (begin, end) = (block.begin.time().0, block.end.time().0);
    Term { site: site.to_owned(), begin, end, capacity: block.capacity }
}

/// Unix time in milliseconds, by the same clock as the daemons on this machine.
fn now_ms() -> i64 {
    bookahead_service::clock::Clock::WALL.now().0
}
