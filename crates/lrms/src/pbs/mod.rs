//! PBS Professional and OpenPBS, by their commands. Formats are those of the manual pages pbs_rsub(1B), pbs_rstat(1B),
//! pbs_ralter(1B), pbs_rdel(1B), qsub(1B), qstat(1B), qdel(1B) and pbsnodes(8B), and of the PBS Professional Reference Guide
//! (attributes of jobs, reservations and vnodes); what commands print and return where those are silent was seen of OpenPBS
//! 23.06.
//!
//! - `commands`: how they are run, and what it means that the server does not answer
//! - `vnodes`, `jobs`, `reservations`: what a picture is made of
//! - `booking`: making, changing and deleting reservations
//! - `submission`, `outcome`: jobs on their way in, and what became of them
//! - `examination`: whether all is as it should be
//!
//! # What PBS does, and what follows
//! - A vnode is a node here. Commands print times in the zone of whoever runs them, and all run with `TZ=UTC`; the server's own
//!   zone does not matter.
//! - A reservation that is denied is no error of `pbs_rsub`: what it prints decides, and what was granted is read back.
//! - Dates are read to the second. A reservation must begin in the future, so one that is to begin at once begins some
//!   seconds later.
//! - JSON leaves out what is zero, and writes numbers now and then as texts.
//! - A job without `walltime` is counted as endless, as PBS does (it counts five years).
//! - Of a standing reservation only the next occurrence is known.

mod booking;
mod commands;
mod examination;
mod jobs;
mod outcome;
mod reservations;
mod submission;
mod vnodes;

use crate::adapter::Capabilities;
use crate::batch::{BatchSystem, Finding, Handle, JobFact, Picture, Place, Submission, Traits, Wanted};
use crate::command::Runner;
use crate::error::LrmsError;
use bookahead_plan::Seconds;
use commands::Tools;
use std::path::PathBuf;
use vnodes::Vnodes;

/// How a PBS is found and used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the site offers of it. A place's partition is a queue for jobs outside of reservations (reservations know no
    /// queues); its features are resources of vnodes: `gpu=a100`, or `fast` for one that is true.
    pub places: Vec<Place>,
    /// `PBS_CONF_FILE`; `/etc/pbs.conf` where none is given.
    pub conf: Option<PathBuf>,
    /// The folder of the commands; looked for in `PATH` where none is given.
    pub bin: Option<PathBuf>,
    /// A folder for what jobs print; where `qsub` runs where none is given.
    pub output: Option<PathBuf>,
    /// So many seconds `pbs_rsub` and `pbs_ralter` wait for the scheduler. Must be less than the time-out of commands.
    pub decided_within: u32,
}

/// A PBS.
#[derive(Debug)]
pub struct Pbs {
    tools: Tools,
    settings: Settings,
}

impl Settings {
    /// With these places, and all else as the commands find it.
    pub fn new(places: Vec<Place>) -> Settings {
        Settings { places, conf: None, bin: None, output: None, decided_within: 10 }
    }
}

impl Pbs {
    /// A PBS whose commands are run by `runner`. Nothing is run yet.
    pub fn new(runner: Runner, settings: Settings) -> Pbs {
        Pbs { tools: Tools::new(runner, &settings), settings }
    }
}

impl BatchSystem for Pbs {
    fn traits(&self) -> Traits {
        let capabilities = Capabilities {
            smallest_step: Seconds(1),
            whole_nodes: false,
            change_while_active: true,
            operator_only: false,
        };
        // PBS Professional before 2020 took 15 characters, in which no reservation could be recognised.
        Traits { capabilities, longest_name: 200 }
    }

    fn look(&mut self) -> Result<Picture, LrmsError> {
        let (clock, vnodes) = Vnodes::ask(&self.tools, &self.settings.places)?;
        let reservations = reservations::list(&self.tools, &vnodes)?;
        let jobs = jobs::list(&self.tools, &self.settings.places, &vnodes, &reservations)?;
        let reservations = reservations.into_iter().map(|known| known.reserved).collect();
        Ok(Picture { clock, nodes: vnodes.into_nodes(), reservations, jobs })
    }

    fn create(&mut self, wanted: &Wanted, picture: &Picture) -> Result<Handle, LrmsError> {
        booking::create(&self.tools, self.settings.decided_within, wanted, picture)
    }

    fn change(
        &mut self,
        handle: &Handle,
        wanted: &Wanted,
        picture: &Picture,
    ) -> Result<Option<Handle>, LrmsError> {
        booking::change(&self.tools, self.settings.decided_within, handle, wanted, picture)
    }

    fn delete(&mut self, handle: &Handle) -> Result<(), LrmsError> {
        booking::delete(&self.tools, handle)
    }

    fn submit(&mut self, job: &Submission) -> Result<String, LrmsError> {
        submission::submit(&self.tools, &self.settings, job)
    }

    fn cancel(&mut self, native: &str) -> Result<(), LrmsError> {
        submission::cancel(&self.tools, native)
    }

    fn outcome(&mut self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        outcome::outcome(&self.tools, native)
    }

    fn examine(&mut self) -> Vec<Finding> {
        examination::examine(&self.tools, &self.settings)
    }
}
