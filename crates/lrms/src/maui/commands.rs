//! Running the commands of Maui and Torque, and what an exit code or a sentence of theirs means for all of them.

use crate::command::{Command, Outcome, Runner};
use crate::error::LrmsError;
use crate::text::xml::{self, Element};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// What they say where their daemon does not answer.
const DOWN: [&str; 7] = [
    "cannot connect to",
    "cannot request service",
    "lost connection",
    "Connection refused",
    "Connection timed out",
    "Unable to communicate with",
    "Communication failure",
];

/// How the commands are run.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) runner: Runner,
    pub(super) maui_bin: Option<PathBuf>,
    pub(super) torque_bin: Option<PathBuf>,
    pub(super) environment: BTreeMap<String, String>,
}

impl Commands {
    /// A command of Maui.
    pub(super) fn maui(&self, program: &str) -> Command {
        self.command(self.maui_bin.as_ref(), program)
    }

    /// A command of Torque.
    pub(super) fn torque(&self, program: &str) -> Command {
        self.command(self.torque_bin.as_ref(), program)
    }

    fn command(&self, bin: Option<&PathBuf>, program: &str) -> Command {
        let path = bin.map(|bin| bin.join(program).to_string_lossy().into_owned());
        let command = Command::new(path.unwrap_or_else(|| program.to_owned()));
        self.environment.iter().fold(command, |command, (name, value)| command.env(name, value))
    }

    /// Runs it, whatever its exit code. Its word that the daemon does not answer is silence.
    pub(super) fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        let outcome = self.runner.run(command)?;
        if !outcome.is_success() && DOWN.iter().any(|words| outcome.err.contains(words)) {
            return Err(LrmsError::Silent { what: shown(command), after: began.elapsed() });
        }
        Ok(outcome)
    }

    /// Runs a command that should end well, for what it prints.
    pub(super) fn print(&self, command: &Command) -> Result<String, LrmsError> {
        let outcome = self.run(command)?;
        if outcome.is_success() { Ok(outcome.out) } else { Err(failed(command, &outcome)) }
    }

    /// Runs a command that prints XML; nothing at all is an empty document.
    pub(super) fn document(&self, command: &Command) -> Result<Element, LrmsError> {
        document(command, &self.print(command)?)
    }
}

/// What a command printed, as XML.
pub(super) fn document(command: &Command, text: &str) -> Result<Element, LrmsError> {
    if text.trim().is_empty() {
        return Ok(Element::default());
    }
    xml::document(text).map_err(|why| unreadable(command, why))
}

/// A command that failed for a reason that is not known.
pub(super) fn failed(command: &Command, outcome: &Outcome) -> LrmsError {
    LrmsError::Failed { command: shown(command), code: outcome.code, said: start(outcome.said()) }
}

/// A command that printed something else than it should.
pub(super) fn unreadable(command: &Command, why: impl Into<String>) -> LrmsError {
    LrmsError::Unreadable { command: shown(command), why: why.into() }
}

/// Maui or Torque says no.
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
