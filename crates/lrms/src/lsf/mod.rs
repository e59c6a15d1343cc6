//! IBM Spectrum LSF, driven by its commands. Written after the command reference of LSF 10.1
//! (`ibm.com/docs/en/spectrum-lsf/10.1.0`: brsvadd, brsvmod, brsvdel, brsvs, bhosts, bqueues, bjobs, bhist, bsub, bkill) and
//! never run against a real LSF.
//!
//! # What it relies on
//! `bjobs` and `bhosts` with `-json` (10.1.0.2 and later); administrators of LSF may reserve, others only where a
//! `ResourceReservation` policy says so.
//!
//! # What is assumed
//! No page that was read says it: that commands read and print times of reservations in the zone of whoever runs them, which
//! is UTC; that `bjobs` prints jobs that wait in the order in which they are considered; how `bqueues -l` writes the hosts of a queue;
//! that names of reservations have no more than 39 letters, digits and `_`; and what is said where there are no jobs or reservations.
//!
//! # What LSF can promise
//! - A slot is LSF's core. Reservations begin and end on whole minutes, and last at least ten. LSF keeps a reservation's
//!   slots free in whole periods of ten minutes: another one that shares such a period with it is refused (brsvadd).
//! - LSF does not look at running jobs when it reserves: it suspends them once a job of the reservation needs their slots.
//!   So hosts are chosen here, where no running job reaches into the window.
//! - A reservation is closed: its jobs are killed when it ends. A job may use one reservation only.

mod change;
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
use bookahead_plan::Seconds;
use nodes::Members;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// How LSF is reached, and what of it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The resources. A partition is a queue, a feature is a boolean resource of LSF.
    pub places: Vec<Place>,
    /// The folder of LSF's commands; None where they are in `PATH`.
    pub bin: Option<PathBuf>,
    /// Variables that the commands need, as `LSF_ENVDIR`.
    pub environment: BTreeMap<String, String>,
    /// A folder of the cluster in which jobs run and for what they print; None for the home folder of the account.
    pub output: Option<PathBuf>,
    /// The program that tells the time where the commands run, since LSF does not tell it.
    pub date: String,
}

/// LSF, as the layer above drives it.
#[derive(Debug)]
pub struct Lsf {
    tools: Tools,
    places: Vec<Place>,
    output: Option<PathBuf>,
    /// Which hosts belong to which resource: it changes with the configuration of LSF only, and costs several commands.
    members: Mutex<Option<Members>>,
}

impl Default for Settings {
    fn default() -> Settings {
        let (places, environment) = (Vec::new(), BTreeMap::new());
        Settings { places, bin: None, environment, output: None, date: "date".into() }
    }
}

impl Lsf {
    /// LSF with these settings. Nothing is run yet.
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
            freed_within: Seconds::ZERO,
        }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let tools = self.tools.for_looks();
        let clock = tools.clock()?;
        let known = self.members.lock().unwrap_or_else(PoisonError::into_inner).take();
        let members = nodes::members(&tools, &self.places, known, clock)?;
        let nodes = nodes::all(&tools, &members)?;
        // Jobs first: of a job that is seen its reservation was there, so one that is not seen is no more.
        let (jobs, odd) = jobs::all(&tools, clock)?;
        let reservations = reservations::all(&tools, clock)?;
        let mut jobs = jobs::facts(jobs, &self.places, &members, &reservations);
        submit::read_goes(&tools, &mut jobs)?;
        *self.members.lock().unwrap_or_else(PoisonError::into_inner) = Some(members);
        Ok(Picture { clock: Some(clock), nodes, reservations, jobs, unreadable: odd })
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// What LSF's commands say when its daemons do not answer (they wait for them as long as they are let).
const DOWN: [&str; 6] = [
    "Cannot connect to LSF",
    "LSF is down",
    "LIM is down",
    "batch daemon not responding",
    "daemon is not responding",
    "Communication time out",
];

/// A record of what a command prints with `-json`: values by names in capital letters.
struct Record(Map<String, Value>);

/// How LSF's commands are run. With `LSB_DISPLAY_YEAR` times are printed with seconds and the year (lsf.conf reference).
fn tools(runner: Runner, settings: &Settings) -> Tools {
    let mut environment = settings.environment.clone();
    environment.entry("LSB_DISPLAY_YEAR".into()).or_insert_with(|| "Y".into());
    let tools = Tools::new(runner, settings.bin.clone(), environment, &DOWN);
    tools.with_date(settings.date.clone()).probed_by("lsid", &[])
}

/// Runs a command that prints records with `-json`, and how many of them cannot be read; `nothing` are the words it uses where
/// there are none.
fn records(tools: &Tools, command: &Command, nothing: &[&str]) -> Result<(Vec<Record>, usize), LrmsError> {
    let outcome = tools.run(command)?;
    match read(&outcome.out) {
        Ok(records) => Ok(records),
        Err(_) if nothing.iter().any(|words| outcome.said().contains(words)) => Ok((Vec::new(), 0)),
        Err(_) if !outcome.is_success() => Err(failed(command, &outcome)),
        Err(why) => Err(unreadable(command, why)),
    }
}

/// `{"COMMAND":…,"RECORDS":[{…},…]}`, perhaps behind a line for people.
fn read(text: &str) -> Result<(Vec<Record>, usize), &'static str> {
    let json = text.find('{').map(|at| &text[at..]).ok_or("it is not JSON")?;
    let (records, odd) = json::objects(json, "RECORDS").ok_or("it has no RECORDS")?;
    Ok((records.into_iter().map(Record).collect(), odd))
}

impl Record {
    /// A value without blanks around; empty where there is none, which LSF also writes as `-`.
    fn get(&self, name: &str) -> &str {
        let text = self.0.get(name).and_then(Value::as_str).map_or("", str::trim);
        if text == "-" { "" } else { text }
    }

    /// A number.
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
        // Damage to what holds records together may lose more.
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
