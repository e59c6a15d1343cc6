//! Running the commands of a batch system: from which folder, in which environment, and by which words they say that there is
//! nobody to speak to. It relies on `date` and `id` where the commands run, for the time and the account there.

use super::ends::{document, failed, said, shown, unreadable};
use crate::command::{Command, Outcome, Runner};
use crate::error::LrmsError;
use crate::text::script::called;
use crate::text::xml::Element;
use bookahead_plan::Time;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// All that is needed to run commands of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Tools {
    runner: Runner,
    bin: Option<PathBuf>,
    environment: BTreeMap<String, String>,
    silence: &'static [&'static str],
    date: String,
}

impl Tools {
    /// Commands from this folder, or else from `PATH`, with these variables. `silence` are words with which they fail
    /// where their daemon does not answer.
    pub(crate) fn new(
        runner: Runner,
        bin: Option<PathBuf>,
        environment: BTreeMap<String, String>,
        silence: &'static [&'static str],
    ) -> Tools {
        Tools { runner, bin, environment, silence, date: "date".into() }
    }

    /// With a command that succeeds if and only if the batch system answers, to be tried in times of silence.
    pub(crate) fn probed_by(self, program: &str, arguments: &[&str]) -> Tools {
        let probe = self.command(program).args(arguments.iter().copied());
        Tools { runner: self.runner.with_probe(probe), ..self }
    }

    /// With another program that tells the time.
    pub(crate) fn with_date(self, date: String) -> Tools {
        Tools { date, ..self }
    }

    /// The same, in slots that orders cannot take.
    pub(crate) fn for_looks(&self) -> Tools {
        Tools { runner: self.runner.for_looks(), ..self.clone() }
    }

    /// How a job calls one of the commands, in its shell.
    pub(crate) fn called(&self, program: &str) -> String {
        called(program, self.bin.as_ref().map(|bin| bin.to_string_lossy()).as_deref())
    }

    /// One of the commands, without arguments.
    pub(crate) fn command(&self, program: &str) -> Command {
        let path = self.bin.as_ref().map(|bin| bin.join(program).to_string_lossy().into_owned());
        let mut command = Command::new(path.unwrap_or_else(|| program.to_owned()));
        command.environment = self.environment.clone();
        command
    }

    /// Runs it, whatever its exit code. Its word that nobody answers is [`LrmsError::Silent`].
    pub(crate) fn run(&self, command: &Command) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        self.answered(command, self.runner.run(command)?, began.elapsed())
    }

    /// Runs commands side by side, and answers what came of each as [`Tools::run`] does, in their order.
    pub(crate) fn run_all(&self, commands: &[Command]) -> Vec<Result<Outcome, LrmsError>> {
        let began = Instant::now();
        let outcomes = self.runner.run_all(commands);
        let after = began.elapsed();
        let outcomes = outcomes.into_iter().zip(commands);
        outcomes.map(|(outcome, command)| self.answered(command, outcome?, after)).collect()
    }

    /// As [`Tools::run_all`], for a number of commands that is known.
    pub(crate) fn run_each<const N: usize>(
        &self,
        commands: &[Command; N],
    ) -> [Result<Outcome, LrmsError>; N] {
        let mut outcomes = self.run_all(commands).into_iter();
        commands.each_ref().map(|command| outcomes.next().unwrap_or_else(|| self.run(command)))
    }

    /// Runs a command that only asks, for what it prints; its failure is an error.
    pub(crate) fn ask(&self, command: &Command) -> Result<String, LrmsError> {
        printed(command, self.run(command)?)
    }

    /// Runs a command that only asks, and reads the document that it prints.
    pub(crate) fn ask_xml(&self, command: &Command) -> Result<Element, LrmsError> {
        document(command, &self.ask(command)?)
    }

    /// The command that tells the time where commands run, to be read by [`seconds`].
    pub(crate) fn date(&self) -> Command {
        Command::new(&self.date).arg("+%s")
    }

    /// The time where commands run.
    pub(crate) fn clock(&self) -> Result<Time, LrmsError> {
        let date = self.date();
        seconds(&date, &self.run(&date)?)
    }

    /// As whom commands run, if that can be found out.
    pub(crate) fn account(&self) -> Option<String> {
        let name = self.ask(&Command::new("id").arg("-un")).ok()?.trim().to_owned();
        (!name.is_empty()).then_some(name)
    }

    fn answered(&self, command: &Command, outcome: Outcome, after: Duration) -> Result<Outcome, LrmsError> {
        let is_silence = || self.silence.iter().any(|words| outcome.said().contains(words));
        if !outcome.is_success() && is_silence() {
            return Err(LrmsError::Silent { what: shown(command), after });
        }
        Ok(outcome)
    }
}

/// What a command printed that should succeed.
pub(crate) fn printed(command: &Command, outcome: Outcome) -> Result<String, LrmsError> {
    if outcome.is_success() { Ok(outcome.out) } else { Err(failed(command, &outcome)) }
}

/// The time that [`Tools::date`] told.
pub(crate) fn seconds(command: &Command, outcome: &Outcome) -> Result<Time, LrmsError> {
    let seconds = outcome.out.trim().parse().ok().filter(|_| outcome.is_success());
    let why = || format!("{:?} is no number of seconds", said(outcome));
    seconds.map(Time).ok_or_else(|| unreadable(command, why()))
}
