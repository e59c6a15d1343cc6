//! Slurm, 22.05 and later, driven by its commands. What it promises by itself is less than it seems to; so what is made is
//! read back and compared, and what must not be left to it is decided here:
//!
//! - It grants fewer nodes than it was asked for, and lays whole nodes over cores that others have: reservations are made in
//!   cores only, which it checks well ([`create`]), on nodes that were chosen here where whole nodes are wanted.
//! - When the times of a reservation in cores change it checks nothing: that is done here ([`change`]).
//! - It deletes nothing that jobs name, and `scancel --reservation` leaves out those that name several ([`delete`]).
//! - It gives a reservation in cores no other nodes, and moves none that has begun when its nodes fail; but jobs may be given
//!   another reservation, also while they run ([`delete`]).
//!
//! - [`own_cluster`]: a small Slurm of our own, for demonstrations and tests
//!
//! It relies on `scontrol`, `squeue`, `sbatch`, `scancel` and, with accounting, `sacct` and `sacctmgr`. It never sets a flag that would let
//! others into a reservation of ours (`FLEX`, `MAGNETIC`, `OVERLAP`, `MAINT`).

mod change;
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

#[cfg(unix)]
pub use own_cluster::{OwnCluster, OwnClusterError, OwnClusterSettings};

use crate::batch::{BatchSystem, Finding, Picture, Place, Traits, Unreadable};
use crate::command::Runner;
use crate::dialect::Tools;
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use commands::{scontrol, squeue};
use jobs::Surroundings;
use nodes::SlurmNode;
use reservations::Booked;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Slurm takes 300 characters and more; file names and columns do not.
const LONGEST_NAME: usize = 200;

/// How Slurm is spoken to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The resources: partitions, or parts of them.
    pub places: Vec<Place>,
    /// The configuration that commands are told to use, as `SLURM_CONF`; None for the one that they find by themselves.
    pub conf: Option<PathBuf>,
    /// The folder of the commands; None where `PATH` leads to them.
    pub bin: Option<PathBuf>,
    /// Whether `sacct` may be asked about jobs that the controller has forgotten.
    pub accounting: bool,
    /// The projects that are used, each with accounts that use it, for [`BatchSystem::examine`] to look whether Slurm knows
    /// them. Slurm calls a project an account.
    pub projects: BTreeMap<String, BTreeSet<String>>,
    /// Where what jobs print goes, and where jobs run that name no folder: a folder that all nodes have, best one that they
    /// share. None for the home folder of the account.
    pub output: Option<PathBuf>,
    /// So long it is waited for that a reservation whose jobs were ended can be deleted. More than Slurm's `KillWait` is not
    /// needed.
    pub let_go_within: Duration,
}

/// A cluster that Slurm manages.
#[derive(Debug)]
pub struct Slurm {
    tools: Tools,
    settings: Settings,
    /// That of the commands, once it was asked.
    version: Mutex<Option<(u32, u32)>>,
    granted: Granted,
}

impl Settings {
    /// These resources of the cluster that the commands find by themselves.
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
    /// Spoken to by these commands. Nothing is asked yet.
    pub fn new(runner: Runner, settings: Settings) -> Slurm {
        let tools = commands::tools(runner, &settings);
        Slurm { tools, settings, version: Mutex::default(), granted: Granted::default() }
    }

    fn version(&self) -> Result<(u32, u32), LrmsError> {
        // Whoever asks at the same time waits for the answer.
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
            freed_within: Seconds::ZERO,
        }
    }

    /// Four commands side by side. `squeue --json` of 22.05 takes a fifth of a second with a thousand jobs, and all others
    /// together a tenth of that.
    fn look(&self) -> Result<Picture, LrmsError> {
        let (began, tools) = (Instant::now(), self.tools.for_looks());
        let asked = [&["-o", "show", "nodes"][..], &["show", "res"], &["show", "config"]];
        let [nodes, reservations, config] = asked.map(|words| scontrol(&tools, words.iter().copied()));
        let [nodes, reservations, config, jobs] =
            tools.ask_each(&[nodes, reservations, config, squeue(&tools)]);
        let nodes = nodes::read(&nodes?)?;
        let reservations = reservations::read(&reservations?)?;
        let clock = clock(&config?);
        let (jobs, odd) = json::read(&jobs?)?;
        let granted = self.granted.compare(&reservations, began);
        let picture = picture(&self.settings, clock, &nodes, &reservations, jobs, &granted);
        Ok(Picture { unreadable: Unreadable::jobs(odd).collect(), ..picture })
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// How the cores of a reservation are spread over nodes.
type Spread = BTreeMap<String, u32>;

/// How those of reservations that we made are spread, by name, for the first seconds until Slurm tells; and since when.
#[derive(Debug, Default)]
struct Granted(Mutex<BTreeMap<String, (Instant, Spread)>>);

impl Granted {
    fn note(&self, name: &str, spread: Spread) {
        self.known().insert(name.to_owned(), (Instant::now(), spread));
    }

    /// What is known, after what is not there any more, or what Slurm tells itself now, is forgotten. A look that began before
    /// one was made says nothing of it.
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

/// The time at the controller, which stands in the first line of `scontrol show config`.
fn clock(config: &str) -> Option<Time> {
    config.lines().find_map(|line| formats::time(line.strip_prefix("Configuration data as of ")?.trim()))
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
    // One that has ended is shown for some seconds more.
    let is_over = |end: Time| clock.is_some_and(|now| end <= now);
    let told = reservations.iter().flat_map(|booked| {
        let cores_of = |name: &str| by_name.get(name).map(|node| node.cores);
        let (cores, spread) = booked.spread(cores_of, granted.get(&booked.name));
        booked.told(&cores, spread)
    });
    Picture {
        clock,
        nodes: nodes.iter().filter_map(|node| node.told(&settings.places)).collect(),
        reservations: told.filter(|reserved| !is_over(reserved.interval.end)).collect(),
        jobs: jobs::told(jobs, &around),
        unreadable: Vec::new(),
    }
}
