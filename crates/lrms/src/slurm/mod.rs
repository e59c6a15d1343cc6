//! Slurm, 22.05 and later, driven by its commands. What it promises by itself is less than it seems to; so what is made is
//! read back and compared, and what must not be left to it is decided here:
//!
//! - It grants fewer nodes than it was asked for, and lays whole nodes over cores that others have: reservations are made in
//!   cores only, which it checks well ([`create`]), on nodes that were chosen here where whole nodes are wanted.
//! - When the times of a reservation in cores change it checks nothing: that is done here ([`change`]).
//! - It deletes nothing that jobs name, and `scancel --reservation` leaves out those that name several ([`delete`]).
//! - It gives a reservation in cores no other nodes, and moves none that has begun when its nodes fail; but jobs may be given
//!   another reservation, also while they run ([`moving`]).
//!
//! - [`own_cluster`]: a small Slurm of our own, for demonstrations and tests
//!
//! It relies on `scontrol`, `squeue`, `sbatch`, `scancel` and, with accounting, `sacct` and `sacctmgr`. It never sets a flag that would let
//! others into a reservation of ours (`FLEX`, `MAGNETIC`, `OVERLAP`, `MAINT`).

#[cfg(test)]
mod any_text;
mod change;
mod choice;
mod config;
mod create;
mod delete;
mod examine;
mod fields;
mod hosts;
mod jobs;
mod json;
mod look;
mod membership;
mod moving;
mod nodes;
mod outcome;
#[cfg(unix)]
pub mod own_cluster;
mod ranges;
mod refusal;
mod reservations;
mod speech;
mod states;
mod submit;
mod times;
mod version;

#[cfg(unix)]
pub use own_cluster::{OwnCluster, OwnClusterError, OwnClusterSettings};

use crate::batch::{
    BatchSystem, Finding, Handle, JobFact, Picture, Place, Reserved, Share, Submission, Traits, Wanted,
};
use crate::command::Runner;
use crate::error::LrmsError;
use bookahead_plan::Seconds;
use look::Granted;
use speech::Speech;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

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
    /// Where jobs that name no folder run, and where the output of such jobs goes, as `NAME.out`: a folder that all nodes
    /// have, best one that they share. The output of a job that names a folder goes there.
    pub jobs: PathBuf,
    /// So long it is waited for that a reservation whose jobs were ended can be deleted. More than Slurm's `KillWait` is not
    /// needed.
    pub let_go_within: Duration,
}

/// A cluster that Slurm manages.
#[derive(Debug)]
pub struct Slurm {
    speech: Speech,
    settings: Settings,
    /// The same commands, in slots that orders cannot take.
    looking: Speech,
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
            jobs: PathBuf::from("/tmp"),
            let_go_within: Duration::from_secs(45),
        }
    }
}

impl Slurm {
    /// Spoken to by these commands. Nothing is asked yet.
    pub fn new(runner: Runner, settings: Settings) -> Slurm {
        let looking = Speech::new(runner.for_looks(), &settings);
        Slurm { speech: Speech::new(runner, &settings), looking, settings, granted: Granted::default() }
    }
}

impl BatchSystem for Slurm {
    fn traits(&self) -> Traits {
        Traits { smallest_step: Seconds(1), longest_name: LONGEST_NAME, moves_jobs: true }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        look::look(&self.looking, &self.settings, &self.granted)
    }

    fn choose(&self, wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, LrmsError> {
        create::choose(wanted, picture)
    }

    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        create::create(&self.speech, wanted, picture, &self.granted)
    }

    fn change(
        &self,
        handle: &Handle,
        wanted: &Wanted,
        picture: &Picture,
    ) -> Result<Option<Reserved>, LrmsError> {
        change::change(&self.speech, handle, wanted, picture)
    }

    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        delete::delete(&self.speech, handle, self.settings.let_go_within)
    }

    fn move_jobs(&self, from: &Handle, to: &Handle) -> Result<(), LrmsError> {
        moving::move_jobs(&self.speech, from, to)
    }

    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        submit::submit(&self.speech, job, &self.settings.jobs)
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        submit::go(&self.speech, native)
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        delete::cancel(&self.speech, native)
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        outcome::outcome(&self.speech, native, &self.settings)
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(&self.speech, &self.settings)
    }
}
