//! PBS Professional and OpenPBS, driven by their commands. Formats follow the manual pages pbs_rsub(1B),
//! pbs_rstat(1B), pbs_ralter(1B), pbs_rdel(1B), qsub(1B), qstat(1B), qdel(1B) and pbsnodes(8B), and the PBS
//! Professional Reference Guide (attributes of jobs, reservations and vnodes). Details missing there were observed
//! with OpenPBS 23.06.
//!
//! - `records`: parses the output of `qstat` and `pbsnodes`, with all text that users wrote into it
//! - `nodes`, `jobs`, `reservations`: the parts of a picture, and results of jobs
//! - `create`: creates, changes and deletes reservations
//! - `submit`: submits and cancels jobs
//! - `examine`: checks for operators
//!
//! # Behaviour of PBS, and consequences
//! - A vnode is a node here. Commands print times in their own time zone, and all run with `TZ=UTC`; the time zone of
//!   the server does not matter.
//! - `pbs_rsub` does not fail if a reservation is denied: its output decides, and the grant is read back.
//! - Times have a resolution of a second. A reservation must begin in the future, so one that should begin at once
//!   begins some seconds later.
//! - A reservation deleted while a job runs in it occupies its cores until the job is gone, for half a minute.
//! - A job without `walltime` counts as endless, as in PBS (it assumes five years).
//! - Of a standing reservation only the next occurrence is known.

mod create;
mod examine;
mod jobs;
mod nodes;
mod records;
mod reservations;
mod submit;
mod tres;

use crate::batch::{BatchSystem, Finding, Picture, Place, Traits, TresPicture};
use crate::command::Runner;
use crate::dialect::Tools;
use crate::error::LrmsError;
use bookahead_party::Sharing;
use bookahead_plan::Seconds;
use bookahead_protocol::Tres;
use nodes::Vnodes;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Settings of a PBS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Resources of the site. A place's partition is a queue for jobs outside of reservations (reservations have no
    /// queue of their choice); its features are resources of vnodes: `gpu=a100`, or `fast` for a boolean one.
    pub places: Vec<Place>,
    /// `PBS_CONF_FILE`; None for `/etc/pbs.conf`.
    pub conf: Option<PathBuf>,
    /// Folder of the commands; None for `PATH`.
    pub bin: Option<PathBuf>,
    /// Folder for the output of jobs, and their working folder; None for the home folder of their account.
    pub output: Option<PathBuf>,
    /// How long `pbs_rsub` and `pbs_ralter` wait for a decision of the scheduler: at least one of its cycles. It is
    /// added to the timeout of commands.
    pub confirm_within: Seconds,
    /// The program that prints the time.
    pub date: String,
    /// The program that tells whether an account exists.
    pub id: String,
}

/// Small clusters have a scheduling cycle every second or two.
const CONFIRM_WITHIN: Seconds = Seconds(10);

/// A cluster managed by PBS.
#[derive(Debug)]
pub struct Pbs {
    tools: Tools,
    settings: Settings,
    /// From the last look: a picture does not show which vnodes share a host, or are occupied as a whole.
    vnodes: Mutex<Option<Vnodes>>,
}

impl Settings {
    /// Defaults for the PBS that the commands find by themselves.
    pub fn new(places: Vec<Place>) -> Settings {
        let (date, id) = ("date".into(), "id".into());
        Settings { places, conf: None, bin: None, output: None, confirm_within: CONFIRM_WITHIN, date, id }
    }
}

impl Pbs {
    /// Runs no command yet.
    pub fn new(runner: Runner, settings: Settings) -> Pbs {
        Pbs { tools: tools(runner, &settings), settings, vnodes: Mutex::default() }
    }

    fn vnodes(&self, picture: &Picture) -> Vnodes {
        // A copy is returned, so that the lock is not held while a command runs.
        let seen = self.vnodes.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone().unwrap_or_else(|| Vnodes::of(&picture.nodes))
    }
}

impl BatchSystem for Pbs {
    fn traits(&self) -> Traits {
        // PBS Professional before 2020 accepted 15 characters, too few for our names.
        Traits {
            smallest_step: Seconds(1),
            longest_name: 200,
            moves_jobs: false,
            requeues_jobs: false,
            freed_within: reservations::FREED_WITHIN,
            sharing: Sharing::FromTheBeginning,
            tres: true,
            attracts: false,
        }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let tools = self.tools.for_looks();
        // The clock first: it decides how long a leaving reservation still counts.
        let clock = tools.clock()?;
        let (vnodes, mut unreadable) = Vnodes::ask(&tools, &self.settings.places)?;
        let (reservations, odd) = reservations::list(&tools, &vnodes, clock)?;
        unreadable.extend(odd);
        let listed = jobs::list(&tools, &self.settings.places, &vnodes, &reservations)?;
        unreadable.extend(listed.unreadable);
        let reserved = reservations.iter().filter(|known| !known.tres.is_empty());
        let reserved = reserved.map(|known| (known.reserved.handle.clone(), known.tres.clone())).collect();
        let tres = TresPicture { totals: Tres::default(), nodes: vnodes.tres(), reserved, jobs: listed.tres };
        let reservations = reservations.into_iter().map(|known| known.reserved).collect();
        let nodes = vnodes.nodes().cloned().collect();
        *self.vnodes.lock().unwrap_or_else(PoisonError::into_inner) = Some(vnodes);
        let clock_elsewhere = false;
        Ok(Picture {
            clock: Some(clock),
            clock_elsewhere,
            nodes,
            reservations,
            jobs: listed.jobs,
            unreadable,
            tres,
        })
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// Messages of commands if the server does not answer.
const DOWN: [&str; 4] =
    ["cannot connect to server", "Connection refused", "Communication failure", "End of File"];

fn tools(runner: Runner, settings: &Settings) -> Tools {
    let conf = settings.conf.as_ref().map(|conf| conf.to_string_lossy().into_owned());
    let environment = conf.map(|conf| ("PBS_CONF_FILE".to_owned(), conf)).into_iter().collect();
    let tools = Tools::new(runner, settings.bin.clone(), environment, &DOWN);
    tools.with_date(settings.date.clone()).with_id(settings.id.clone()).probed_by("qstat", &["-B"])
}
