//! Slurm 22.05 and later, driven by its commands. Slurm guarantees less than it seems to. Every grant is read back
//! and compared, and some decisions are made here:
//!
//! - Slurm may grant fewer nodes than requested, and puts whole nodes over cores of others. Reservations are
//!   therefore made in cores only, which it checks well ([`create`]); whole nodes are chosen here.
//! - Slurm checks nothing when the times of a reservation in cores change. The check is made here ([`create`]).
//! - Slurm does not delete a reservation that jobs name, and `scancel --reservation` skips jobs that name several
//!   ([`delete`]).
//! - Slurm cannot change the nodes of a reservation in cores, and does not replace failed nodes of one that has
//!   begun. But jobs, even running ones, can be moved to another reservation ([`delete`]).
//!
//! - [`own_cluster`]: a small private Slurm cluster, for demonstrations and tests
//!
//! It needs `scontrol`, `squeue`, `sbatch`, `scancel` and, with accounting, `sacct` and `sacctmgr`. It never sets a
//! flag that would let others into our reservations (`FLEX`, `OVERLAP`, `MAINT`); `MAGNETIC` only if the owner asks.

mod commands;
mod create;
mod delete;
mod examine;
mod formats;
mod jobs;
mod json;
mod nodes;
mod outcome;
#[cfg(unix)]
pub mod own_cluster;
mod reservations;
mod submit;
#[cfg(test)]
mod tests;
mod tres;

#[cfg(unix)]
pub use own_cluster::{OwnCluster, OwnClusterError, OwnClusterSettings};

use crate::batch::{BatchSystem, Finding, Handle, Picture, Place, Traits, TresPicture, Unreadable};
use crate::command::Runner;
use crate::dialect::Tools;
use crate::error::LrmsError;
use bookahead_party::Sharing;
use bookahead_plan::{Seconds, Time};
use commands::{scontrol, squeue};
use jobs::Surroundings;
use nodes::SlurmNode;
use reservations::Booked;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Slurm accepts 300 characters and more, but file names and columns of tools do not.
const LONGEST_NAME: usize = 200;

/// Settings of a Slurm cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The resources: partitions, or parts of them.
    pub places: Vec<Place>,
    /// `SLURM_CONF` for the commands; None for their default.
    pub conf: Option<PathBuf>,
    /// Folder of the commands; None for `PATH`.
    pub bin: Option<PathBuf>,
    /// Whether to query `sacct` for jobs that the controller has forgotten.
    pub accounting: bool,
    /// The projects in use, each with accounts that use it; [`BatchSystem::examine`] checks that Slurm knows them.
    /// Slurm calls a project an account.
    pub projects: BTreeMap<String, BTreeSet<String>>,
    /// Folder for the output of jobs, and working folder of jobs without one. It must exist on all nodes and should
    /// be shared. None for the home folder of the account.
    pub output: Option<PathBuf>,
    /// How long to wait for Slurm to release a reservation after its jobs were cancelled. More than Slurm's
    /// `KillWait` is not needed.
    pub let_go_within: Duration,
}

/// A cluster managed by Slurm.
#[derive(Debug)]
pub struct Slurm {
    tools: Tools,
    settings: Settings,
    /// Version of the commands; None before the first query.
    version: Mutex<Option<(u32, u32)>>,
    granted: Granted,
}

impl Settings {
    /// Defaults for the cluster that the commands find by themselves.
    pub fn new(places: Vec<Place>) -> Settings {
        Settings {
            places,
            conf: None,
            bin: None,
            accounting: false,
            projects: BTreeMap::new(),
            output: None,
            let_go_within: Duration::from_secs(45),
        }
    }
}

impl Slurm {
    /// Runs no command yet.
    pub fn new(runner: Runner, settings: Settings) -> Slurm {
        let tools = commands::tools(runner, &settings);
        Slurm { tools, settings, version: Mutex::default(), granted: Granted::default() }
    }

    fn version(&self) -> Result<(u32, u32), LrmsError> {
        // The lock is held during the query, so parallel callers share one query.
        let mut known = self.version.lock().unwrap_or_else(PoisonError::into_inner);
        match *known {
            Some(version) => Ok(version),
            None => commands::version(&self.tools).map(|version| *known.insert(version)),
        }
    }
}

impl BatchSystem for Slurm {
    fn traits(&self) -> Traits {
        Traits {
            smallest_step: Seconds(1),
            longest_name: LONGEST_NAME,
            moves_jobs: true,
            requeues_jobs: true,
            freed_within: Seconds::ZERO,
            sharing: Sharing::Always,
            tres: true,
            attracts: true,
        }
    }

    /// Runs four commands in parallel. With a thousand jobs, `squeue --json` of 22.05 takes 0.2 s, and all others
    /// together a tenth of that.
    fn look(&self) -> Result<Picture, LrmsError> {
        let (began, tools) = (Instant::now(), self.tools.for_looks());
        let asked = [&["-o", "show", "nodes"][..], &["show", "res"], &["show", "config"]];
        let [nodes, reservations, config] = asked.map(|words| scontrol(&tools, words.iter().copied()));
        let [nodes, reservations, config, jobs] =
            tools.ask_each(&[nodes, reservations, config, squeue(&tools)]);
        let nodes = nodes::read(&nodes?)?;
        let reservations = reservations::read(&reservations?)?;
        let config = config?;
        let clock = clock(&config);
        let (jobs, odd) = json::read(&jobs?)?;
        let tres = tres_picture(&config, &nodes, &reservations, &jobs);
        let granted = self.granted.compare(&reservations, began);
        let picture = picture(&self.settings, clock, &nodes, &reservations, jobs, &granted);
        let clock_elsewhere = is_elsewhere(&config, &this_host());
        Ok(Picture { unreadable: Unreadable::jobs(odd).collect(), tres, clock_elsewhere, ..picture })
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// Cores on each node.
type Spread = BTreeMap<String, u32>;

/// Spreads of the reservations that we created, by name, each with the time of its creation. Slurm reports them only
/// some seconds later.
#[derive(Debug, Default)]
struct Granted(Mutex<BTreeMap<String, (Instant, Spread)>>);

impl Granted {
    fn note(&self, name: &str, spread: Spread) {
        self.known().insert(name.to_owned(), (Instant::now(), spread));
    }

    /// Returns the known spreads after forgetting those that Slurm now reports itself, and those of deleted
    /// reservations. A look that began before a creation says nothing about it.
    fn compare(&self, reservations: &[Booked], began: Instant) -> BTreeMap<String, Spread> {
        let untold =
            |name: &String| reservations.iter().any(|one| one.name == *name && one.core_ids.is_empty());
        let mut known = self.known();
        known.retain(|name, (since, _)| *since > began || untold(name));
        known.iter().map(|(name, (_, spread))| (name.clone(), spread.clone())).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Spread)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time of the controller, from the first line of `scontrol show config`.
fn clock(config: &str) -> Option<Time> {
    config.lines().find_map(|line| formats::time(line.strip_prefix("Configuration data as of ")?.trim()))
}

/// Whether all controllers are on other machines than this one. They are listed as `SlurmctldHost[0] = name(address)`.
fn is_elsewhere(config: &str, this: &str) -> bool {
    let short = |host: &str| host.split(['.', '(']).next().unwrap_or(host).trim().to_ascii_lowercase();
    let named = |line: &str| {
        let (name, value) = line.split_once('=')?;
        name.trim().starts_with("SlurmctldHost[").then(|| short(value.trim()))
    };
    let hosts: Vec<String> = config.lines().filter_map(named).collect();
    let here = |host: &String| *host == short(this) || host == "localhost";
    !hosts.is_empty() && !this.is_empty() && !hosts.iter().any(here)
}

/// Name of this machine; empty if it is unknown.
fn this_host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// Licences from the configuration, things of nodes, and what reservations and jobs have.
fn tres_picture(
    config: &str,
    nodes: &[SlurmNode],
    reservations: &[Booked],
    jobs: &[json::SlurmJob],
) -> TresPicture {
    let licensed = reservations.iter().filter(|booked| !booked.licenses.is_empty());
    TresPicture {
        totals: formats::setting(config, "Licenses").map(tres::licenses).unwrap_or_default(),
        nodes: nodes.iter().map(|node| (node.name.clone(), node.tres.clone())).collect(),
        reserved: licensed.map(|booked| (Handle(booked.name.clone()), booked.licenses.clone())).collect(),
        jobs: tres::of_jobs(jobs),
    }
}

fn picture(
    settings: &Settings,
    clock: Option<Time>,
    nodes: &[SlurmNode],
    reservations: &[Booked],
    jobs: Vec<json::SlurmJob>,
    granted: &BTreeMap<String, Spread>,
) -> Picture {
    let by_name: BTreeMap<&str, &SlurmNode> = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let around = Surroundings { places: &settings.places, nodes: &by_name, clock };
    // Slurm shows a reservation for some seconds after its end.
    let is_over = |end: Time| clock.is_some_and(|now| end <= now);
    let told = reservations.iter().flat_map(|booked| {
        let cores_of = |name: &str| by_name.get(name).map(|node| node.cores);
        let (cores, spread) = booked.spread(cores_of, granted.get(&booked.name));
        booked.told(&cores, spread)
    });
    Picture {
        clock,
        clock_elsewhere: false,
        nodes: nodes.iter().filter_map(|node| node.told(&settings.places)).collect(),
        reservations: told.filter(|reserved| !is_over(reserved.interval.end)).collect(),
        jobs: jobs::told(jobs, &around),
        unreadable: Vec::new(),
        tres: TresPicture::default(),
    }
}
