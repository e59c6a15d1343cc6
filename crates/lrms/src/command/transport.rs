//! How one command is run, how its exit is interpreted, and usage counters for each program. Commands are independent
//! here.

use super::command_line::{ALWAYS, Command, Outcome, check, own_environment, words};
use super::local::{self, End, Limits, Stop};
use super::ssh::{Line, Ssh};
use crate::error::LrmsError;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::process::Command as Process;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limit on standard output and on standard error of a command, in bytes each. A command that exceeds it is killed.
pub const MOST_OUTPUT: usize = 64 << 20;

/// Prefix of our own environment variables. Some are secret, so commands do not inherit them.
const OURS: &[u8] = b"BOOKAHEAD_";

#[derive(Debug, Clone)]
pub(super) struct Transport {
    pub(super) time_out: Duration,
    /// None for this machine.
    pub(super) ssh: Option<Arc<Ssh>>,
    /// Prefix for commands under another account.
    pub(super) prefix: Vec<String>,
    /// Default environment of all commands.
    pub(super) environment: BTreeMap<String, String>,
}

pub(super) enum Prepared {
    /// The program itself, in our environment.
    Plain,
    /// These words, in our environment.
    Wrapped(Vec<String>),
    /// This line, on the remote host.
    Remote(Arc<Ssh>, Line),
}

impl Transport {
    /// Adds the default environment to a command.
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

    /// Validates a command and builds its words. Runs nothing.
    pub(super) fn prepare(&self, command: &Command) -> Result<Prepared, LrmsError> {
        check(command)?;
        let words = || words(command, &self.prefix, self.time_out);
        match &self.ssh {
            Some(ssh) => Ok(Prepared::Remote(ssh.clone(), Line::of(&command.program, &words()?)?)),
            None if command.account.is_some() => Ok(Prepared::Wrapped(words()?)),
            None => Ok(Prepared::Plain),
        }
    }

    /// Runs a command now and counts it.
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
        // Names are matched as bytes: a variable name need not be UTF-8.
        let ours = std::env::vars_os().map(|(name, _)| name);
        for name in ours.filter(|name| name.as_encoded_bytes().starts_with(OURS)) {
            process.env_remove(name);
        }
        // The wrapped forms set the command's variables with `env`, behind the change of account or host.
        if matches!(prepared, Prepared::Plain) {
            process.envs(own_environment(command));
        }
        // Last, so that neither the command nor our environment can change the locale and time zone that parsers rely
        // on.
        process.envs(ALWAYS);
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
            End::TimedOut => {
                return Err(LrmsError::Silent { what: program, after: self.time_out, said: None });
            }
            End::Unknown(why) => return Err(failed(program, format!("its exit status is unknown: {why}"))),
            End::Stopped => {
                return Err(failed(program, "it was ended because its result is no longer needed".into()));
            }
            End::TooMuch(output) => {
                let most = MOST_OUTPUT >> 20;
                return Err(failed(
                    program,
                    format!("it wrote more than {most} MiB to its {output} and was ended; query less data"),
                ));
            }
        };
        if says_no_such_program(&program, outcome.code, &outcome.err) {
            let source = io::Error::new(io::ErrorKind::NotFound, outcome.said());
            return Err(LrmsError::cannot_run(program, source));
        }
        Ok(outcome)
    }
}

/// Runs a process on this machine, outside of any batch system.
pub(crate) fn run_process(process: Process, within: Duration) -> Result<Outcome, LrmsError> {
    let program = process.get_program().to_string_lossy().into_owned();
    let limits = Limits { until: Instant::now() + within, most_bytes: MOST_OUTPUT, stop: None };
    match local::run(process, None, limits) {
        Ok(End::Exited { code, out, err }) => Ok(Outcome { code, out, err }),
        Ok(End::TimedOut) => Err(LrmsError::Silent { what: program, after: within, said: None }),
        Ok(_) => Err(failed(program, "it was ended before its exit".into())),
        Err(source) => Err(LrmsError::cannot_run(program, source)),
    }
}

fn failed(command: String, said: String) -> LrmsError {
    LrmsError::Failed { command, code: None, said }
}

/// Whether `env` reports a missing program, in which case nothing was done. It exits with 127, or with 126 if the
/// file is not executable (coreutils manual, "env invocation", exit status).
pub(super) fn says_no_such_program(program: &str, code: Option<i32>, err: &str) -> bool {
    let complaint = |line: &str| line.starts_with("env: ") && line.contains(program);
    matches!(code, Some(126 | 127)) && err.lines().last().is_some_and(complaint)
}

/// Limit on separately counted programs. No batch system has more commands.
const MOST_PROGRAMS: usize = 64;

/// Name under which the programs beyond [`MOST_PROGRAMS`] are counted together.
const OTHER_PROGRAMS: &str = "other";

/// Usage of all programs since the start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    /// By the name of the program, without its folder.
    pub programs: BTreeMap<String, ProgramUsage>,
}

/// Usage of one program. Commands that were refused during an outage are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProgramUsage {
    /// Number of runs, including failed attempts to start it.
    pub runs: u64,
    /// Runs without exit code 0, for any reason.
    pub failures: u64,
    /// Runs that exceeded the timeout and were killed.
    pub time_outs: u64,
    /// Total run time. Time spent waiting for a slot is not included.
    pub spent: Duration,
    /// Run time of the longest run.
    pub longest: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    Well,
    Wrong,
    TimedOut,
}

#[derive(Debug, Default)]
pub(super) struct Counters(Mutex<Usage>);

impl Usage {
    fn count(&mut self, program: &str, took: Duration, went: Went) {
        let name = program.rsplit('/').next().unwrap_or(program);
        let is_new = !self.programs.contains_key(name);
        let name = if is_new && self.programs.len() >= MOST_PROGRAMS { OTHER_PROGRAMS } else { name };
        let usage = self.programs.entry(name.to_owned()).or_default();
        usage.runs = usage.runs.saturating_add(1);
        usage.failures = usage.failures.saturating_add(u64::from(went != Went::Well));
        usage.time_outs = usage.time_outs.saturating_add(u64::from(went == Went::TimedOut));
        usage.spent = usage.spent.saturating_add(took);
        usage.longest = usage.longest.max(took);
    }
}

impl Counters {
    pub(super) fn count(&self, program: &str, took: Duration, went: Went) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).count(program, took, went);
    }

    pub(super) fn usage(&self) -> Usage {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn only_env_itself_says_that_there_is_no_such_program() {
        let complaint = "env: 'sbatsch': No such file or directory\n";
        assert!(says_no_such_program("sbatsch", Some(127), complaint));
        assert!(says_no_such_program("/x/y", Some(126), "env: '/x/y': Permission denied\n"));
        assert!(!says_no_such_program("sbatsch", Some(1), complaint));
        assert!(!says_no_such_program("sbatch", Some(127), "sh: 1: srun: not found\n"));
        assert!(!says_no_such_program("sbatch", Some(127), ""));
    }

    #[test]
    fn runs_are_counted_by_the_name_of_the_program_without_its_folder() {
        let mut usage = Usage::default();
        usage.count("/opt/slurm/bin/squeue", SECOND, Went::Well);
        usage.count("squeue", 3 * SECOND, Went::TimedOut);
        usage.count("sbatch", 2 * SECOND, Went::Wrong);
        let squeue =
            ProgramUsage { runs: 2, failures: 1, time_outs: 1, spent: 4 * SECOND, longest: 3 * SECOND };
        let sbatch =
            ProgramUsage { runs: 1, failures: 1, time_outs: 0, spent: 2 * SECOND, longest: 2 * SECOND };
        assert_eq!(usage.programs, [("squeue".into(), squeue), ("sbatch".into(), sbatch)].into());
    }

    #[test]
    fn the_number_of_names_is_bounded_and_no_run_is_lost() {
        let mut usage = Usage::default();
        for number in 0..1_000 {
            usage.count(&format!("/bin/program-{number}"), Duration::MAX, Went::Well);
        }
        usage.count("/bin/program-0", SECOND, Went::Well);
        assert_eq!(usage.programs.len(), MOST_PROGRAMS + 1);
        assert_eq!(usage.programs["program-0"].runs, 2);
        assert_eq!(usage.programs[OTHER_PROGRAMS].runs, 1_000 - MOST_PROGRAMS as u64);
        assert_eq!(usage.programs.values().map(|program| program.runs).sum::<u64>(), 1_001);
    }
}
