//! The commands of PBS and how they are run, what their failures mean, and reading JSON in which a number may be a text.

use super::Settings;
use crate::command::{Command, Outcome, Runner};
use crate::error::LrmsError;
use serde_json::Value;
use std::path::PathBuf;
use std::time::Instant;

/// All that is needed to run one of the commands.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    runner: Runner,
    bin: Option<PathBuf>,
    conf: Option<PathBuf>,
}

impl Tools {
    pub(super) fn new(runner: Runner, settings: &Settings) -> Tools {
        Tools { runner, bin: settings.bin.clone(), conf: settings.conf.clone() }
    }

    /// One of the commands, without arguments.
    pub(super) fn command(&self, program: &str) -> Command {
        let path = match &self.bin {
            Some(bin) => bin.join(program).to_string_lossy().into_owned(),
            None => program.to_owned(),
        };
        let command = Command::new(path);
        match &self.conf {
            Some(conf) => command.env("PBS_CONF_FILE", conf.to_string_lossy()),
            None => command,
        }
    }

    /// Runs it, whatever its exit code. That the server cannot be reached is [`LrmsError::Silent`].
    pub(super) fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        let outcome = self.runner.run(command)?;
        let words =
            ["cannot connect to server", "Connection refused", "Communication failure", "End of File"];
        if !outcome.is_success() && words.iter().any(|words| outcome.err.contains(words)) {
            return Err(LrmsError::Silent { what: called(command), after: began.elapsed() });
        }
        Ok(outcome)
    }

    /// Runs a command that only asks, and reads the JSON that it prints.
    pub(super) fn ask_json(&self, command: &Command) -> Result<Value, LrmsError> {
        let outcome = self.run(command)?;
        if !outcome.is_success() {
            return Err(failed(command, &outcome));
        }
        let value: Value =
            serde_json::from_str(&outcome.out).map_err(|why| unreadable(command, why.to_string()))?;
        if value.is_object() { Ok(value) } else { Err(unreadable(command, "it is no object")) }
    }
}

/// What was run, for people.
pub(super) fn called(command: &Command) -> String {
    let program = command.program.rsplit('/').next().unwrap_or_default();
    let arguments = command.arguments.iter().map(String::as_str).filter(|argument| argument.len() < 100);
    std::iter::once(program).chain(arguments).take(16).collect::<Vec<_>>().join(" ")
}

pub(super) fn failed(command: &Command, outcome: &Outcome) -> LrmsError {
    LrmsError::Failed { command: called(command), code: outcome.code, said: outcome.said().into() }
}

pub(super) fn unreadable(command: &Command, why: impl Into<String>) -> LrmsError {
    LrmsError::Unreadable { command: called(command), why: why.into() }
}

/// A text, however it is written.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(if *truth { "True" } else { "False" }.into()),
        _ => None,
    }
}

/// A whole number, however it is written.
pub(super) fn number(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// How many processors something has: JSON leaves out what is zero.
pub(super) fn count(value: &Value) -> u32 {
    number(value).and_then(|number| u32::try_from(number).ok()).unwrap_or(0)
}
