//! Running LSF's commands, and what an exit code or a sentence of theirs means for all of them.

use crate::command::{Command, Outcome, Runner};
use crate::error::LrmsError;
use bookahead_plan::Time;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// What LSF's commands say when its daemons do not answer (they wait for them as long as they are let).
const DOWN: [&str; 6] = [
    "Cannot connect to LSF",
    "LSF is down",
    "LIM is down",
    "batch daemon not responding",
    "daemon is not responding",
    "Communication time out",
];

/// How LSF's commands are run.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) runner: Runner,
    pub(super) bin: Option<PathBuf>,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) date: String,
}

/// A record of what a command prints with `-json`: values by names in capital letters.
pub(super) struct Record(Map<String, Value>);

impl Commands {
    /// A command of LSF. With `LSB_DISPLAY_YEAR` times are printed with seconds and the year (lsf.conf reference).
    pub(super) fn command(&self, program: &str) -> Command {
        let path = self.bin.as_ref().map(|bin| bin.join(program));
        let program = path.map_or_else(|| program.to_owned(), |path| path.to_string_lossy().into_owned());
        let command = Command::new(program).env("LSB_DISPLAY_YEAR", "Y");
        self.environment.iter().fold(command, |command, (name, value)| command.env(name, value))
    }

    /// Runs it, whatever its exit code. LSF's word that its daemons do not answer is silence.
    pub(super) fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        let outcome = self.runner.run(command)?;
        let is_down = !outcome.is_success()
            && DOWN.iter().any(|words| outcome.err.contains(words) || outcome.out.contains(words));
        if is_down {
            return Err(LrmsError::Silent { what: shown(command), after: began.elapsed() });
        }
        Ok(outcome)
    }

    /// The time where the commands run.
    pub(super) fn clock(&self) -> Result<Time, LrmsError> {
        let command = Command::new(&self.date).arg("+%s");
        let outcome = self.runner.run(&command)?;
        let seconds = outcome.out.trim().parse().ok().filter(|_| outcome.is_success());
        let why = || format!("{:?} is no number of seconds", start(outcome.said()));
        seconds.map(Time).ok_or_else(|| unreadable(&command, why()))
    }

    /// Runs a command that prints records with `-json`; `nothing` are the words it uses where there are none.
    pub(super) fn records(&self, command: &Command, nothing: &[&str]) -> Result<Vec<Record>, LrmsError> {
        let outcome = self.run(command)?;
        match records(&outcome.out) {
            Ok(records) => Ok(records),
            Err(_) if nothing.iter().any(|words| outcome.said().contains(words)) => Ok(Vec::new()),
            Err(_) if !outcome.is_success() => Err(failed(command, &outcome)),
            Err(why) => Err(unreadable(command, why)),
        }
    }
}

impl Record {
    /// A value without blanks around; empty where there is none, which LSF also writes as `-`.
    pub(super) fn get(&self, name: &str) -> &str {
        let text = self.0.get(name).and_then(Value::as_str).map_or("", str::trim);
        if text == "-" { "" } else { text }
    }

    /// A number.
    pub(super) fn number<N: std::str::FromStr>(&self, name: &str) -> Option<N> {
        match self.0.get(name) {
            Some(Value::Number(number)) => number.to_string().parse().ok(),
            _ => self.get(name).parse().ok(),
        }
    }
}

/// `{"COMMAND":…,"RECORDS":[{…},…]}`, perhaps behind a line for people.
fn records(text: &str) -> Result<Vec<Record>, String> {
    let json = text.find('{').map(|at| &text[at..]).ok_or("it is not JSON")?;
    let value: Value = serde_json::from_str(json).map_err(|why| format!("it is not JSON: {why}"))?;
    let Some(Value::Array(records)) = value.get("RECORDS") else {
        return Err("it has no RECORDS".into());
    };
    let record = |value: &Value| value.as_object().cloned().map(Record).ok_or("a record is no object");
    Ok(records.iter().map(record).collect::<Result<_, _>>()?)
}

/// A command that failed for a reason that is not known.
pub(super) fn failed(command: &Command, outcome: &Outcome) -> LrmsError {
    LrmsError::Failed { command: shown(command), code: outcome.code, said: start(outcome.said()) }
}

/// A command that printed something else than it should.
pub(super) fn unreadable(command: &Command, why: impl Into<String>) -> LrmsError {
    LrmsError::Unreadable { command: shown(command), why: why.into() }
}

/// LSF says no.
pub(super) fn refused(what: impl Into<String>, said: impl Into<String>) -> LrmsError {
    LrmsError::Refused { what: what.into(), said: said.into() }
}

/// A command for people: the name of the program and its first words.
fn shown(command: &Command) -> String {
    let name = command.program.rsplit('/').next().unwrap_or_default();
    let words = [name].into_iter().chain(command.arguments.iter().map(String::as_str));
    start(&words.collect::<Vec<_>>().join(" "))
}

/// The beginning of something that may be long.
pub(super) fn start(text: &str) -> String {
    text.chars().take(300).collect()
}
