//! PBS Professional and OpenPBS, by their commands. Formats are those of the manual pages pbs_rsub(1B), pbs_rstat(1B),
//! pbs_ralter(1B), pbs_rdel(1B), qsub(1B), qstat(1B), qdel(1B) and pbsnodes(8B), and of the PBS Professional Reference Guide
//! (attributes of jobs, reservations and vnodes); what commands print and return where those are silent was seen of OpenPBS
//! 23.06.
//!
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
//! - JSON leaves out what is zero, and writes numbers now and then as texts.
//! - A job without `walltime` is counted as endless, as PBS does (it counts five years).
//! - Of a standing reservation only the next occurrence is known.

mod create;
mod examine;
mod jobs;
mod nodes;
mod reservations;
mod submit;

use crate::batch::{BatchSystem, Finding, Picture, Place, Traits};
use crate::command::{Command, Runner};
use crate::dialect::{Tools, unreadable};
use crate::error::LrmsError;
use bookahead_plan::Seconds;
use nodes::Vnodes;
use serde_json::Value;
use std::path::PathBuf;

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
        Pbs { tools: tools(runner, &settings), settings }
    }
}

impl BatchSystem for Pbs {
    fn traits(&self) -> Traits {
        // PBS Professional before 2020 took 15 characters, in which no reservation could be recognised.
        Traits { smallest_step: Seconds(1), longest_name: 200, moves_jobs: false }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let tools = self.tools.for_looks();
        let (clock, vnodes) = Vnodes::ask(&tools, &self.settings.places)?;
        let reservations = reservations::list(&tools, &vnodes)?;
        let jobs = jobs::list(&tools, &self.settings.places, &vnodes, &reservations)?;
        let reservations = reservations.into_iter().map(|known| known.reserved).collect();
        Ok(Picture { clock, nodes: vnodes.into_nodes(), reservations, jobs })
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
    Tools::new(runner, settings.bin.clone(), environment, &DOWN).probed_by("qstat", &["-B"])
}

/// Runs a command that only asks, and reads the JSON that it prints.
fn ask_json(tools: &Tools, command: &Command) -> Result<Value, LrmsError> {
    object(command, &tools.ask(command)?)
}

/// What a command printed, as an object of JSON.
fn object(command: &Command, out: &str) -> Result<Value, LrmsError> {
    let value: Value = serde_json::from_str(out).map_err(|why| unreadable(command, why.to_string()))?;
    if value.is_object() { Ok(value) } else { Err(unreadable(command, "it is no object")) }
}

/// A text, however it is written.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(if *truth { "True" } else { "False" }.into()),
        _ => None,
    }
}

/// A whole number, however it is written.
fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// How many processors something has: JSON leaves out what is zero.
fn count(value: &Value) -> u32 {
    number(value).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}
