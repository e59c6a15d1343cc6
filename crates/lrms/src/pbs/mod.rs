//! PBS Professional and OpenPBS, by their commands. Formats are those of the manual pages pbs_rsub(1B), pbs_rstat(1B),
//! pbs_ralter(1B), pbs_rdel(1B), qsub(1B), qstat(1B), qdel(1B) and pbsnodes(8B), and of the PBS Professional Reference Guide
//! (attributes of jobs, reservations and vnodes); what commands print and return where those are silent was seen of OpenPBS
//! 23.06.
//!
//! - `records`: what `qstat` and `pbsnodes` print, with whatever users wrote into it
//! - `nodes`, `jobs`, `reservations`: what a picture is made of, and what became of jobs
//! - `create`: making, changing and deleting reservations
//! - `submit`: jobs on their way in
//! - `examine`: whether all is as it should be
//!
//! # What PBS does, and what follows
//! - A vnode is a node here. Commands print times in the zone of whoever runs them, and all run with `TZ=UTC`; the server's own
//!   zone does not matter.
//! - A reservation that is denied is no error of `pbs_rsub`: what it prints decides, and what was granted is read back.
//! - Dates are read to the second. A reservation must begin in the future, so one that is to begin at once begins some
//!   seconds later.
//! - A reservation that is deleted while a job runs in it keeps its cores until the job is gone, for half a minute.
//! - A job without `walltime` is counted as endless, as PBS does (it counts five years).
//! - Of a standing reservation only the next occurrence is known.

mod create;
mod examine;
mod jobs;
mod nodes;
mod records;
mod reservations;
mod submit;

use crate::batch::{BatchSystem, Finding, Picture, Place, Traits};
use crate::command::Runner;
use crate::dialect::Tools;
use crate::error::LrmsError;
use bookahead_plan::Seconds;
use nodes::Vnodes;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

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
    /// A folder for what jobs print, in which they run; the home folder of their account where none is given.
    pub output: Option<PathBuf>,
    /// How long `pbs_rsub` and `pbs_ralter` wait for the scheduler to confirm: at least one of its cycles. It comes on top of the
    /// time-out of commands.
    pub confirm_within: Seconds,
    /// The programs that tell the time, and whether an account exists.
    pub date: String,
    /// See `date`.
    pub id: String,
}

/// Small clusters have a cycle every second or two.
const CONFIRM_WITHIN: Seconds = Seconds(10);

/// A PBS.
#[derive(Debug)]
pub struct Pbs {
    tools: Tools,
    settings: Settings,
    /// As the last look showed them: a picture does not tell which share a host, or are taken as a whole.
    vnodes: Mutex<Option<Vnodes>>,
}

impl Settings {
    /// With these places, and all else as the commands find it.
    pub fn new(places: Vec<Place>) -> Settings {
        let (date, id) = ("date".into(), "id".into());
        Settings { places, conf: None, bin: None, output: None, confirm_within: CONFIRM_WITHIN, date, id }
    }
}

impl Pbs {
    /// A PBS whose commands are run by `runner`. Nothing is run yet.
    pub fn new(runner: Runner, settings: Settings) -> Pbs {
        Pbs { tools: tools(runner, &settings), settings, vnodes: Mutex::default() }
    }

    fn vnodes(&self, picture: &Picture) -> Vnodes {
        let seen = self.vnodes.lock().unwrap_or_else(PoisonError::into_inner);
        seen.clone().unwrap_or_else(|| Vnodes::of(&picture.nodes))
    }
}

impl BatchSystem for Pbs {
    fn traits(&self) -> Traits {
        // PBS Professional before 2020 took 15 characters, in which no reservation could be recognised.
        Traits {
            smallest_step: Seconds(1),
            longest_name: 200,
            moves_jobs: false,
            freed_within: reservations::FREED_WITHIN,
        }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let tools = self.tools.for_looks();
        let clock = tools.clock()?;
        let (vnodes, mut unreadable) = Vnodes::ask(&tools, &self.settings.places)?;
        let (reservations, odd) = reservations::list(&tools, &vnodes, clock)?;
        unreadable.extend(odd);
        let (jobs, odd) = jobs::list(&tools, &self.settings.places, &vnodes, &reservations)?;
        unreadable.extend(odd);
        let reservations = reservations.into_iter().map(|known| known.reserved).collect();
        let nodes = vnodes.nodes().cloned().collect();
        *self.vnodes.lock().unwrap_or_else(PoisonError::into_inner) = Some(vnodes);
        Ok(Picture { clock: Some(clock), nodes, reservations, jobs, unreadable })
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// What they say where the server does not answer.
const DOWN: [&str; 4] =
    ["cannot connect to server", "Connection refused", "Communication failure", "End of File"];

fn tools(runner: Runner, settings: &Settings) -> Tools {
    let conf = settings.conf.as_ref().map(|conf| conf.to_string_lossy().into_owned());
    let environment = conf.map(|conf| ("PBS_CONF_FILE".to_owned(), conf)).into_iter().collect();
    let tools = Tools::new(runner, settings.bin.clone(), environment, &DOWN);
    tools.with_date(settings.date.clone()).with_id(settings.id.clone()).probed_by("qstat", &["-B"])
}
