//! The commands of Grid Engine and how they are run: in which environment, from which folder, and what their failures mean.

use super::Settings;
use super::xml::{self, Element};
use crate::command::{Command, Outcome, Runner};
use crate::error::LrmsError;
use bookahead_plan::Time;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// All that is needed to run one of the commands.
#[derive(Debug, Clone)]
pub(super) struct Tools {
    runner: Runner,
    bin: Option<PathBuf>,
    environment: BTreeMap<String, String>,
}

impl Tools {
    pub(super) fn new(runner: Runner, settings: &Settings) -> Tools {
        let variables = [
            ("SGE_ROOT", settings.root.as_ref().map(|root| root.to_string_lossy().into_owned())),
            ("SGE_CELL", settings.cell.clone()),
            ("SGE_QMASTER_PORT", settings.qmaster_port.map(|port| port.to_string())),
            ("SGE_EXECD_PORT", settings.execd_port.map(|port| port.to_string())),
        ];
        let given = variables.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        Tools { runner, bin: settings.bin.clone(), environment: given.collect() }
    }

    /// One of the commands, without arguments.
    pub(super) fn command(&self, program: &str) -> Command {
        let path = match &self.bin {
            Some(bin) => bin.join(program).to_string_lossy().into_owned(),
            None => program.to_owned(),
        };
        let mut command = Command::new(path);
        command.environment = self.environment.clone();
        command
    }

    /// Runs it, whatever its exit code. That the master cannot be reached is [`LrmsError::Silent`].
    pub(super) fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        let outcome = self.runner.run(command)?;
        if !outcome.is_success() && is_silence(outcome.said()) {
            return Err(LrmsError::Silent { what: called(command), after: began.elapsed() });
        }
        Ok(outcome)
    }

    /// Runs a command that only asks; its failure is an error.
    pub(super) fn ask(&self, command: &Command) -> Result<String, LrmsError> {
        let outcome = self.run(command)?;
        if outcome.is_success() { Ok(outcome.out) } else { Err(failed(command, &outcome)) }
    }

    /// Runs a command that only asks, and reads the document that it prints.
    pub(super) fn ask_xml(&self, command: &Command) -> Result<Element, LrmsError> {
        let out = self.ask(command)?;
        xml::read(&out).map_err(|why| unreadable(command, why))
    }

    /// The time on the machine where the commands run. Grid Engine itself does not tell the master's.
    pub(super) fn clock(&self) -> Result<Option<Time>, LrmsError> {
        let outcome = self.runner.run(&Command::new("date").arg("+%s"))?;
        Ok(outcome.out.trim().parse().ok().map(Time))
    }

    /// As whom the commands run.
    pub(super) fn account(&self) -> Result<String, LrmsError> {
        self.ask(&Command::new("id").arg("-un")).map(|name| name.trim().to_owned())
    }
}

/// What was run, for people.
pub(super) fn called(command: &Command) -> String {
    let program = command.program.rsplit('/').next().unwrap_or_default();
    let arguments = command.arguments.iter().map(String::as_str).filter(|argument| argument.len() < 100);
    std::iter::once(program).chain(arguments).take(12).collect::<Vec<_>>().join(" ")
}

pub(super) fn failed(command: &Command, outcome: &Outcome) -> LrmsError {
    LrmsError::Failed { command: called(command), code: outcome.code, said: outcome.said().into() }
}

pub(super) fn unreadable(command: &Command, why: impl Into<String>) -> LrmsError {
    LrmsError::Unreadable { command: called(command), why: why.into() }
}

/// Whether this is what commands say when the master does not answer.
fn is_silence(said: &str) -> bool {
    [
        "unable to send message to qmaster",
        "unable to contact qmaster",
        "commlib error",
        "can't get answer from",
    ]
    .iter()
    .any(|words| said.contains(words))
}
