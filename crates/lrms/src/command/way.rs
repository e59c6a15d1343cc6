//! How one command is run: here as it is, here behind a prefix, or over there; and what its end means. It knows nothing of
//! other commands.

use super::local::{self, End, Limits, Stop};
use super::ssh::{Line, Ssh};
use super::usage::{Counters, Went};
use super::{Command, Outcome, line};
use crate::error::LrmsError;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::process::Command as Process;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A command may write so many bytes, to its standard output and to its standard error each.
pub const MOST_OUTPUT: usize = 64 << 20;

/// What the names of our own variables begin with, some of which are secret.
const OURS: &[u8] = b"BOOKAHEAD_";

/// How one command is run.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) time_out: Duration,
    /// None for this machine.
    pub(super) ssh: Option<Arc<Ssh>>,
    /// What stands before a command that runs as another account.
    pub(super) prefix: Vec<String>,
    /// What every command finds in its environment, unless it says otherwise.
    pub(super) environment: BTreeMap<String, String>,
}

/// A command that was checked.
pub(super) enum Prepared {
    /// Its own program, in our environment.
    Plain,
    /// These words, in our environment.
    Wrapped(Vec<String>),
    /// This line, over there.
    Remote(Arc<Ssh>, Line),
}

impl Way {
    /// A command with the environment that every command has.
    pub(super) fn complete<'a>(&self, command: &'a Command) -> Cow<'a, Command> {
        if self.environment.is_empty() {
            return Cow::Borrowed(command);
        }
        let mut complete = command.clone();
        for (name, value) in &self.environment {
            complete.environment.entry(name.clone()).or_insert_with(|| value.clone());
        }
        Cow::Owned(complete)
    }

    /// Checks a command and puts its words together. Nothing is run.
    pub(super) fn prepare(&self, command: &Command) -> Result<Prepared, LrmsError> {
        line::check(command)?;
        let words = || line::words(command, &self.prefix, self.time_out);
        match &self.ssh {
            Some(ssh) => Ok(Prepared::Remote(ssh.clone(), Line::of(&command.program, &words()?)?)),
            None if command.account.is_some() => Ok(Prepared::Wrapped(words()?)),
            None => Ok(Prepared::Plain),
        }
    }

    /// Runs a command now, and counts it.
    pub(super) fn run(
        &self,
        command: &Command,
        prepared: &Prepared,
        counters: &Counters,
        stop: Option<&Stop>,
    ) -> Result<Outcome, LrmsError> {
        let began = Instant::now();
        let process = self.process(command, prepared);
        let program = process.get_program().to_string_lossy().into_owned();
        let input = command.input.as_deref().filter(|text| !text.is_empty());
        let limits = Limits { until: began + self.time_out, most_bytes: MOST_OUTPUT, stop };
        let result = match local::run(process, input, limits) {
            Ok(end) => self.judge(command, prepared, end),
            Err(source) => Err(LrmsError::cannot_run(program, source)),
        };
        let went = match &result {
            Ok(outcome) if outcome.is_success() => Went::Well,
            Err(LrmsError::Silent { .. }) => Went::TimedOut,
            _ => Went::Wrong,
        };
        counters.count(&command.program, began.elapsed(), went);
        result
    }

    fn process(&self, command: &Command, prepared: &Prepared) -> Process {
        let mut process = match prepared {
            Prepared::Plain => {
                let mut process = Process::new(&command.program);
                process.args(&command.arguments);
                process
            }
            Prepared::Wrapped(words) => {
                let mut process = Process::new(words.first().map_or("", String::as_str));
                process.args(words.iter().skip(1));
                process
            }
            Prepared::Remote(ssh, line) => ssh.process(line, self.time_out),
        };
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.as_encoded_bytes().starts_with(OURS)) {
            process.env_remove(name);
        }
        if matches!(prepared, Prepared::Plain) {
            process.envs(line::own_environment(command));
        }
        process.envs(line::ALWAYS);
        process
    }

    fn judge(&self, command: &Command, prepared: &Prepared, end: End) -> Result<Outcome, LrmsError> {
        let program = command.program.clone();
        let outcome = match end {
            End::Exited { code, out, err } => match prepared {
                Prepared::Plain => return Ok(Outcome { code, out, err }),
                Prepared::Wrapped(_) => Outcome { code, out, err },
                Prepared::Remote(ssh, line) => ssh.outcome(line, code, out, &err)?,
            },
            End::TimedOut => return Err(LrmsError::Silent { what: program, after: self.time_out }),
            End::Unknown(why) => return Err(failed(program, format!("what came of it is not known: {why}"))),
            End::Stopped => return Err(failed(program, "it was ended, since nobody waits for it".into())),
            End::TooMuch(output) => {
                let most = MOST_OUTPUT >> 20;
                return Err(failed(
                    program,
                    format!("it wrote more than {most} MiB to its {output} and was ended; ask it for less"),
                ));
            }
        };
        if line::says_no_such_program(&program, outcome.code, &outcome.err) {
            let source = io::Error::new(io::ErrorKind::NotFound, outcome.said());
            return Err(LrmsError::cannot_run(program, source));
        }
        Ok(outcome)
    }
}

fn failed(command: String, said: String) -> LrmsError {
    LrmsError::Failed { command, code: None, said }
}
