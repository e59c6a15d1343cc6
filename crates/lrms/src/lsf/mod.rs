//! IBM Spectrum LSF, driven by its commands. Written from the command reference of LSF 10.1
//! (`ibm.com/docs/en/spectrum-lsf/10.1.0`: brsvadd, brsvmod, brsvdel, brsvs, bhosts, bqueues, bjobs, bhist, bsub,
//! bkill); never tested with a real LSF.
//!
//! # Requirements
//! `bjobs` and `bhosts` with `-json` (10.1.0.2 and later). Administrators of LSF may reserve, others only with a
//! `ResourceReservation` policy.
//!
//! # Assumptions
//! The documentation does not confirm: that commands read and print times of reservations in their own time zone,
//! which is UTC; that `bjobs` prints waiting jobs in scheduling order; how `bqueues -l` writes the hosts of a queue;
//! that names of reservations are limited to 39 letters, digits and `_`; and the messages if there are no jobs or
//! reservations.
//!
//! # Guarantees of LSF
//! - A slot is LSF's core. Reservations begin and end on whole minutes, and last at least ten. LSF reserves slots in
//!   whole periods of ten minutes: another reservation that shares such a period is refused (brsvadd).
//! - LSF ignores running jobs when it reserves: it suspends them when a job of the reservation needs their slots.
//!   Hosts are therefore chosen here, where no running job reaches into the interval.
//! - A reservation is closed: its jobs are killed when it ends. A job may use only one reservation.

mod create;
mod examine;
mod jobs;
mod nodes;
mod reservations;
mod room;
mod submit;
mod times;

use crate::batch::{BatchSystem, Finding, Picture, Place, Traits};
use crate::command::{Command, Runner};
use crate::dialect::{Tools, failed, json, unreadable};
use crate::error::LrmsError;
use bookahead_party::Sharing;
use bookahead_plan::Seconds;
use nodes::Members;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// Settings of an LSF cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The resources. A partition is a queue, a feature is a boolean resource of LSF.
    pub places: Vec<Place>,
    /// Folder of LSF's commands; None for `PATH`.
    pub bin: Option<PathBuf>,
    /// Variables that the commands need, such as `LSF_ENVDIR`.
    pub environment: BTreeMap<String, String>,
    /// Working folder and output folder of jobs on the cluster; None for the home folder of the account.
    pub output: Option<PathBuf>,
    /// The program that prints the time where the commands run, since LSF does not report it.
    pub date: String,
}

/// A cluster managed by LSF.
#[derive(Debug)]
pub struct Lsf {
    tools: Tools,
    places: Vec<Place>,
    output: Option<PathBuf>,
    /// Hosts of each resource. They change only with LSF's configuration, and the query needs several commands.
    members: Mutex<Option<Members>>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (places, environment) = (Vec::new(), BTreeMap::new());
        Settings { places, bin: None, environment, output: None, date: "date".into() }
    }
}

impl Lsf {
    /// Runs no command yet.
    pub fn new(runner: Runner, settings: Settings) -> Lsf {
        let tools = tools(runner, &settings);
        Lsf { tools, places: settings.places, output: settings.output, members: Mutex::default() }
    }
}

impl BatchSystem for Lsf {
    fn traits(&self) -> Traits {
        Traits {
            smallest_step: Seconds(times::STEP),
            longest_name: create::LONGEST_NAME,
            moves_jobs: false,
            requeues_jobs: false,
            freed_within: Seconds::ZERO,
            sharing: Sharing::Never,
            tres: false,
            attracts: false,
        }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let tools = self.tools.for_looks();
        let clock = tools.clock()?;
        // Taken out, so the lock is not held while commands run. A parallel look reads them again.
        let known = self.members.lock().unwrap_or_else(PoisonError::into_inner).take();
        let members = nodes::members(&tools, &self.places, known, clock)?;
        let nodes = nodes::all(&tools, &members)?;
        // Jobs first: the reservation of a listed job existed then, so if it is missing now, it is gone.
        let (jobs, odd) = jobs::all(&tools, clock)?;
        let reservations = reservations::all(&tools, clock)?;
        let mut jobs = jobs::facts(jobs, &self.places, &members, &reservations);
        submit::read_goes(&tools, &mut jobs)?;
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = Some(members);
        Ok(Picture { clock: Some(clock), nodes, reservations, jobs, unreadable: odd, ..Picture::default() })
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// Messages of commands if LSF's daemons do not answer (they would wait without limit).
const DOWN: [&str; 6] = [
    "Cannot connect to LSF",
    "LSF is down",
    "LIM is down",
    "batch daemon not responding",
    "daemon is not responding",
    "Communication time out",
];

/// A record of `-json` output: values by names in capital letters.
struct Record(Map<String, Value>);

/// With `LSB_DISPLAY_YEAR`, times are printed with seconds and the year (lsf.conf reference).
fn tools(runner: Runner, settings: &Settings) -> Tools {
    let mut environment = settings.environment.clone();
    environment.entry("LSB_DISPLAY_YEAR".into()).or_insert_with(|| "Y".into());
    let tools = Tools::new(runner, settings.bin.clone(), environment, &DOWN);
    tools.with_date(settings.date.clone()).probed_by("lsid", &[])
}

/// Runs a command with `-json` and returns its records and the number of unreadable ones. `nothing` lists its
/// messages if there are none.
fn records(tools: &Tools, command: &Command, nothing: &[&str]) -> Result<(Vec<Record>, usize), LrmsError> {
    let outcome = tools.run(command)?;
    match read(&outcome.out) {
        Ok(records) => Ok(records),
        Err(_) if nothing.iter().any(|words| outcome.said().contains(words)) => Ok((Vec::new(), 0)),
        Err(_) if !outcome.is_success() => Err(failed(command, &outcome)),
        Err(why) => Err(unreadable(command, why)),
    }
}

/// `{"COMMAND":…,"RECORDS":[{…},…]}`, perhaps after a line of text.
fn read(text: &str) -> Result<(Vec<Record>, usize), &'static str> {
    let json = text.find('{').map(|at| &text[at..]).ok_or("it is not JSON")?;
    let (records, odd) = json::objects(json, "RECORDS").ok_or("it has no RECORDS")?;
    Ok((records.into_iter().map(Record).collect(), odd))
}

impl Record {
    /// A trimmed value; empty if missing, which LSF also writes as `-`.
    fn get(&self, name: &str) -> &str {
        let text = self.0.get(name).and_then(Value::as_str).map_or("", str::trim);
        if text == "-" { "" } else { text }
    }

    fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        match self.0.get(name) {
            Some(Value::Number(number)) => number.to_string().parse().ok(),
            _ => self.get(name).parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::damage::{loses_only_one, survives};

    #[test]
    fn damage_to_one_job_loses_no_other() {
        let text = include_str!("../../tests/it/lsf/fixtures/bjobs.json");
        survives(text, |text| drop(read(text)));
        // Damage to the text between records may lose more.
        let between = |text: &str| {
            let lines = text.lines().filter(|line| !line.contains('"')).map(str::to_owned);
            let braces = text.bytes().filter(|byte| b"{}[]".contains(byte));
            (lines.collect::<Vec<_>>(), braces.collect::<Vec<_>>())
        };
        let ids = |text: &str| {
            let (records, _) = read(text).unwrap_or_default();
            records.iter().map(|record| record.get("JOBID").to_owned()).collect::<Vec<_>>()
        };
        loses_only_one(text, |damaged| {
            let is_inside = between(damaged) == between(text) && damaged.contains("\"RECORDS\":[");
            ids(if is_inside { damaged } else { text })
        });
    }
}
