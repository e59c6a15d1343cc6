//! LSF's commands: in which environment they run, by which words they say that LSF is down, and the records that they print with
//! `-json`.

use super::Settings;
use crate::command::{Command, Runner};
use crate::dialect::{Tools, failed, unreadable};
use crate::error::LrmsError;
use serde_json::{Map, Value};

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
pub(super) struct Record(Map<String, Value>);

/// How LSF's commands are run. With `LSB_DISPLAY_YEAR` times are printed with seconds and the year (lsf.conf reference).
pub(super) fn tools(runner: Runner, settings: &Settings) -> Tools {
    let mut environment = settings.environment.clone();
    environment.entry("LSB_DISPLAY_YEAR".into()).or_insert_with(|| "Y".into());
    let tools = Tools::new(runner, settings.bin.clone(), environment, &DOWN);
    tools.with_date(settings.date.clone()).probed_by("lsid", &[])
}

/// Runs a command that prints records with `-json`; `nothing` are the words it uses where there are none.
pub(super) fn records(tools: &Tools, command: &Command, nothing: &[&str]) -> Result<Vec<Record>, LrmsError> {
    let outcome = tools.run(command)?;
    match read(&outcome.out) {
        Ok(records) => Ok(records),
        Err(_) if nothing.iter().any(|words| outcome.said().contains(words)) => Ok(Vec::new()),
        Err(_) if !outcome.is_success() => Err(failed(command, &outcome)),
        Err(why) => Err(unreadable(command, why)),
    }
}

/// `{"COMMAND":…,"RECORDS":[{…},…]}`, perhaps behind a line for people.
fn read(text: &str) -> Result<Vec<Record>, String> {
    let json = text.find('{').map(|at| &text[at..]).ok_or("it is not JSON")?;
    let value: Value = serde_json::from_str(json).map_err(|why| format!("it is not JSON: {why}"))?;
    let Some(Value::Array(records)) = value.get("RECORDS") else {
        return Err("it has no RECORDS".into());
    };
    let record = |value: &Value| value.as_object().cloned().map(Record).ok_or("a record is no object");
    Ok(records.iter().map(record).collect::<Result<_, _>>()?)
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
