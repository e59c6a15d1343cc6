//! Torque with the Maui scheduler, driven by their commands. Written after the Maui Administrator's Guide
//! (`docs.adaptivecomputing.com/maui`: setres, showres, releaseres, showq, diagnose -r, 7.1 Advance Reservations, 13.3 Resource
//! Manager Extensions), what the clients of Maui 3.3 print, and the manual pages of Torque (qsub(1B), qstat(1B), qdel(1B), pbsnodes(8B));
//! never run against a real Maui. Some pages of the guide show Moab, its commercial successor: `showq --xml` and
//! `mrsvctl -m` are Moab's and not used here.
//!
//! # What it relies on
//! The account of the service is one of Maui's `ADMIN1` or `ADMIN2`; Torque knows the job attribute `x` (all of its versions do).
//! `setres` and `showres -n` read and print times in the zone of whoever runs them, which is UTC; `showres` without `-n` and
//! `diagnose` print the server's, so no absolute time is taken from them.
//!
//! # What Maui can promise
//! - Processors or whole nodes to the second, beside running jobs up to their limits and all reservations: `TASKS==n` takes what is
//!   free or refuses. A reservation cannot be changed.
//! - Maui appends a number to a reservation's name, so a name can be there twice: what is there is looked at first.
//! - Jobs are not killed when a reservation ends; Maui starts one that is bound to it only where its limit fits. All jobs of the
//!   account may use the reservation, bound or not (7.1.1.4); the flag `BYNAME` is read wrongly by setres of 3.3.
//! - `releaseres` ends with zero whatever happened: what is there is read back.

mod commands;
mod create;
mod delete;
mod examine;
mod jobs;
mod nodes;
mod queue;
mod reservations;
mod submit;
mod times;

use crate::batch::{
    BatchSystem, Finding, Handle, JobFact, Picture, Place, Reserved, Submission, Traits, Wanted,
};
use crate::command::Runner;
use crate::dialect;
use crate::error::LrmsError;
use bookahead_plan::Seconds;
use commands::Commands;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// How Maui and Torque are reached, and what of them is used.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The resources. A partition is a queue (which Maui calls a class), a feature is a property of nodes.
    pub places: Vec<Place>,
    /// The folder of Maui's commands; None where they are in `PATH`.
    pub maui_bin: Option<PathBuf>,
    /// The folder of Torque's commands; None where they are in `PATH`.
    pub torque_bin: Option<PathBuf>,
    /// Variables that the commands need, as `MAUIHOMEDIR` and `PBS_DEFAULT`.
    pub environment: BTreeMap<String, String>,
    /// A folder of the cluster for what jobs write; None for what Torque does by itself, which is a file where qsub runs.
    pub output: Option<PathBuf>,
}

/// Torque with Maui, as the layer above drives them.
#[derive(Debug)]
pub struct Maui {
    commands: Commands,
    places: Vec<Place>,
    output: Option<PathBuf>,
}

impl Maui {
    /// Torque and Maui with these settings. Nothing is run yet.
    pub fn new(runner: Runner, settings: Settings) -> Maui {
        let commands = Commands::new(runner, &settings);
        Maui { commands, places: settings.places, output: settings.output }
    }
}

impl BatchSystem for Maui {
    fn traits(&self) -> Traits {
        Traits { smallest_step: Seconds(1), longest_name: create::LONGEST_NAME, moves_jobs: false }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let commands = &self.commands.for_looks();
        let nodes = nodes::all(commands, &self.places)?;
        // Jobs first: of a job that is seen its reservation was there, so one that is not seen is no more.
        let jobs = jobs::all(commands)?;
        let queue = queue::read(commands)?;
        let seen = reservations::all(commands, &nodes)?;
        let jobs = jobs::facts(jobs, &self.places, &nodes, &queue, &seen);
        Ok(Picture { clock: seen.clock, nodes, reservations: seen.reservations, jobs })
    }

    fn create(&self, wanted: &Wanted, picture: &Picture) -> Result<Reserved, LrmsError> {
        create::create(&self.commands, wanted, picture)
    }

    fn change(&self, _: &Handle, _: &Wanted, _: &Picture) -> Result<Option<Reserved>, LrmsError> {
        Ok(None)
    }

    fn delete(&self, handle: &Handle) -> Result<(), LrmsError> {
        delete::delete(&self.commands, handle)
    }

    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        submit::submit(&self.commands, job, self.output.as_deref())
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        Err(dialect::refused(format!("to let the job {native} run"), submit::NO_CLAIMS))
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        submit::cancel(&self.commands, native)
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        jobs::one(&self.commands, native)
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}
