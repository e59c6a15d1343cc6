//! `bookahead sweep`: one run of a command for each combination of parameters, on this machine, on Slurm or on
//! HyperQueue, with the results as Parquet.
//!
//! - [`description`], [`values`], [`grid`]: what is run
//! - [`task`]: how a run is done
//! - [`store`], [`chunk`], [`table`]: the folder of the results, and how a killed sweep continues
//! - [`batch`]: chunks as jobs of a batch system
//! - [`report`]: charts and a table of the results

mod batch;
mod chunk;
mod description;
pub(crate) mod grid;
mod report;
mod store;
pub(crate) mod table;
pub(crate) mod task;
pub(crate) mod values;

use crate::output::{Progress, plural, print_json, say, threads};
use anyhow::{Context, Result, bail, ensure};
use batch::{Batch, System};
use bookahead_lrms::LrmsError;
use chunk::{Failure, failures, run_chunks, unfinished};
use clap::{Args, Subcommand, ValueEnum};
use description::Sweep;
use std::path::{Path, PathBuf};
use store::{FolderLock, Store, Submitted};
use task::Task;

/// Most runs of a sweep. Keys and numbers of more would not fit into the memory of a small machine.
pub(crate) const MOST_RUNS: usize = 10_000_000;
/// The version with a digest of the source code that decides results (build.rs), so that a change of the code gives runs
/// other keys.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "+", env!("BOOKAHEAD_SOURCE"));
/// Failures and dead chunks that are listed.
const LISTED: usize = 20;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,

    #[command(flatten)]
    run: RunArguments,
}

#[derive(Args)]
struct RunArguments {
    /// Description of the sweep, in TOML; see docs/how-to/sweeps.md
    #[arg(value_name = "SWEEP", required = true)]
    file: Option<PathBuf>,

    /// Where to run
    #[arg(long, value_enum, default_value_t = Place::Local)]
    on: Place,

    /// Number of threads on this machine; does not change the results [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Show no progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    /// On all cores of this machine
    Local,
    /// As job arrays of Slurm
    Slurm,
    /// As tasks of HyperQueue
    Hyperqueue,
}

#[derive(Subcommand)]
enum Command {
    /// Draw heat maps, curves with intervals and a table of the results
    Report(report::Arguments),
    /// Run one chunk; jobs of Slurm and HyperQueue do this
    Chunk(ChunkArguments),
    /// Repeat one run and print its results as JSON; nothing is stored
    One(OneArguments),
}

#[derive(Args)]
struct ChunkArguments {
    /// Folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Number of the chunk, from 0 [default: from HQ_TASK_ID]
    #[arg(value_name = "CHUNK")]
    chunk: Option<usize>,

    /// Number of threads; does not change the results
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
}

#[derive(Args)]
struct OneArguments {
    /// Folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Number of the run, from 0
    #[arg(value_name = "RUN")]
    run: usize,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.command {
        Some(Command::Report(arguments)) => report::run(arguments),
        Some(Command::Chunk(arguments)) => one_chunk(arguments),
        Some(Command::One(arguments)) => one_run(arguments),
        None => sweep(&arguments.run),
    }
}

fn sweep(arguments: &RunArguments) -> Result<()> {
    let file = arguments.file.as_deref().context("no description of a sweep")?;
    let (mut sweep, text) = Sweep::read(file)?;
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let lock = FolderLock::take(&sweep.out)?;
    // Jobs may start in another folder.
    sweep.out = std::fs::canonicalize(&sweep.out)?;
    let identity = Task::new(&sweep, folder).and_then(|task| task.identity());
    let identity = identity.with_context(|| file.display().to_string())?;
    let store = match running(&sweep, identity)? {
        Some(store) => store,
        None => start(sweep, text, folder, identity, arguments)?,
    };
    if let Some(submitted) = &store.plan.submitted {
        let system = System::named(&submitted.on).context("sweep.json names an unknown batch system")?;
        Batch::new(system, &store)?.wait(&store, submitted, arguments.quiet)?;
    }
    drop(lock);
    conclude(&store)
}

/// The plan whose jobs still wait or run.
fn running(sweep: &Sweep, identity: u128) -> Result<Option<Store>> {
    let Ok(store) = Store::open(&sweep.out) else { return Ok(None) };
    let Some(submitted) = &store.plan.submitted else { return Ok(None) };
    let (Some(system), false) = (System::named(&submitted.on), unfinished(&store).is_empty()) else {
        return Ok(None);
    };
    let jobs = submitted.jobs.join(" ");
    let alive = Batch::new(system, &store)?.is_alive(&store, submitted).with_context(|| {
        format!("cannot find out whether jobs {jobs} of an earlier start still run; delete sweep.json if they do not")
    })?;
    if !alive {
        return Ok(None);
    }
    ensure!(
        store.is_of(sweep, identity),
        "jobs {jobs} of {} run an earlier description of this sweep, or another version; cancel them, or wait for their end",
        system.name()
    );
    say!("waiting for jobs {jobs} of {}, which were submitted earlier", system.name());
    Ok(Some(store))
}

/// Plans what is left, and runs or submits it.
fn start(
    sweep: Sweep,
    text: String,
    folder: &Path,
    identity: u128,
    arguments: &RunArguments,
) -> Result<Store> {
    let mut store = Store::plan(sweep, text, folder, identity)?;
    let (all, left) = (store.sweep.runs(), store.pending());
    if left < all {
        say!("{} of {} are done already", plural((all - left) as u64, "run"), all);
    }
    let system = match arguments.on {
        _ if left == 0 => return Ok(store),
        Place::Local => {
            let task = Task::new(&store.sweep, folder)?;
            let progress = Progress::new(left as u64, "runs", arguments.quiet);
            let chunks: Vec<usize> = (0..store.chunks()).collect();
            let more = |more| progress.add(more);
            let ran = run_chunks(&store, &task, &chunks, threads(arguments.threads), &more)?;
            drop((progress, task));
            say!("ran {}", plural(ran as u64, "run"));
            return Ok(store);
        }
        Place::Slurm => System::Slurm,
        Place::Hyperqueue => System::HyperQueue,
    };
    submit(&mut store, system)?;
    Ok(store)
}

fn submit(store: &mut Store, system: System) -> Result<()> {
    let batch = Batch::new(system, store)?;
    let on = system.name().to_owned();
    // Before the jobs exist: if we are killed now, the next start looks for them.
    store.set_submitted(Some(Submitted { on: on.clone(), jobs: Vec::new() }))?;
    match batch.submit(store) {
        Ok(jobs) => {
            let chunks = plural(store.chunks() as u64, "chunk");
            say!("submitted {chunks} to {on} as {}", jobs.join(" "));
            store.set_submitted(Some(Submitted { on, jobs }))
        }
        Err(error) => {
            // A command that did not answer may have submitted a job.
            if !error.chain().any(|cause| matches!(cause.downcast_ref(), Some(LrmsError::Silent { .. }))) {
                store.set_submitted(None)?;
            }
            Err(error)
        }
    }
}

/// Tells what was done and what failed.
fn conclude(store: &Store) -> Result<()> {
    let (failed, dead) = (failures(store), unfinished(store));
    if failed.is_empty() && dead.is_empty() {
        let _ = std::fs::remove_dir_all(store.root.join("work"));
        let runs = plural(store.sweep.runs() as u64, "run");
        say!("{runs} done; results: {}", store.root.join("runs").display());
        return Ok(());
    }
    list_failures(store, &failed)?;
    for chunk in dead.iter().take(LISTED) {
        let root = store.root.display();
        say!("chunk {chunk} ended early; see {}; to continue it alone:", store.work().display());
        say!("  bookahead sweep chunk {root} {chunk}");
    }
    let some = dead.len().saturating_sub(LISTED);
    if some > 0 {
        say!("and {}", plural(some as u64, "more chunk"));
    }
    let what = [(failed.len(), "run"), (dead.len(), "chunk")];
    let what = what.iter().filter(|(number, _)| *number > 0);
    let what: Vec<String> = what.map(|(number, noun)| plural(*number as u64, noun)).collect();
    bail!("{} failed; the same command again does what is left", what.join(" and "))
}

fn list_failures(store: &Store, failed: &[Failure]) -> Result<()> {
    if failed.is_empty() {
        return Ok(());
    }
    let task = Task::new(&store.sweep, &store.folder())?;
    for failure in failed.iter().take(LISTED) {
        say!("run {} failed: {}; to repeat it alone:", failure.run, failure.why);
        say!("  {}", task.repeat(&store.root, failure.run));
    }
    let some = failed.len().saturating_sub(LISTED);
    if some > 0 {
        say!("and {}", plural(some as u64, "more run"));
    }
    Ok(())
}

fn one_chunk(arguments: &ChunkArguments) -> Result<()> {
    let store = Store::open(&arguments.folder)?;
    let task_id = || std::env::var("HQ_TASK_ID").ok()?.parse().ok();
    let chunk = arguments.chunk.or_else(task_id).context("no number of a chunk; add it behind the folder")?;
    ensure!(chunk < store.chunks(), "there is no chunk {chunk}; there are {}, from 0", store.chunks());
    let planned = &store.plan.version;
    ensure!(
        planned == VERSION,
        "the sweep was planned by version {planned}; this is {VERSION}; use a program of the same source"
    );
    let task = Task::new(&store.sweep, &store.folder())?;
    ensure!(
        task.identity()? == store.identity,
        "an input file has changed since the sweep was planned; start bookahead sweep again"
    );
    let ran = run_chunks(&store, &task, &[chunk], arguments.threads, &|_| {})?;
    let all = plural(store.runs_of(chunk).count() as u64, "run");
    say!("chunk {chunk}: ran {ran} of {all}");
    Ok(())
}

fn one_run(arguments: &OneArguments) -> Result<()> {
    let store = Store::open(&arguments.folder)?;
    let (run, runs) = (arguments.run, store.sweep.runs());
    ensure!(run < runs, "there is no run {run}; there are {runs}, from 0");
    let task = Task::new(&store.sweep, &store.folder())?;
    let setting = store.sweep.setting(run);
    let outcome = task.run(&setting)?;
    let mut row: table::Row = setting
        .iter()
        .map(|(parameter, value)| table::Cell::new(parameter.column.clone(), (*value).clone()))
        .collect();
    row.extend(outcome.row);
    Ok(print_json(&table::object(&row))?)
}
