//! Runs the commands of a batch system, locally or over ssh: with a timeout, in a fixed locale and time zone, with a
//! limit on parallel commands, and failing fast while the batch system is known to be down. This module does not know
//! the meaning of any command.
//!
//! - `runner`: where commands run, and the checks around each run
//! - `transport`: how one command is run, under which account and environment, how its exit is interpreted; usage
//!   counters
//! - `local`: one process on this machine; `ssh`: the same on another machine
//! - `outage`: detects outages and their end; limits parallel commands
//!
//! Required programs: `ssh` for remote hosts; on those, and for commands under another account, also `env` and
//! `timeout` of coreutils. The clock is read for timeouts only. No word ever reaches a shell unquoted, and a lost
//! connection is never mistaken for the exit of a command.

mod local;
mod outage;
mod runner;
mod ssh;
mod transport;

pub use runner::{MOST_AT_ONCE, Runner};
pub use ssh::{LONGEST_CONTROL_FOLDER, Ssh};
pub(crate) use transport::is_variable;
pub(crate) use transport::run_process;
pub use transport::{MOST_OUTPUT, ProgramUsage, Usage, quoted};

use std::collections::BTreeMap;

/// A command line with its environment and input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Path, or a name to look up in `PATH`.
    pub program: String,
    /// Passed on unchanged; no shell expands them.
    pub arguments: Vec<String>,
    /// Added to `LC_ALL=C` and `TZ=UTC`, which cannot be overridden.
    pub environment: BTreeMap<String, String>,
    /// Standard input; None for `/dev/null`.
    pub input: Option<String>,
    /// Account to run as; None for the account of the service. See [`Runner::becoming`].
    pub account: Option<String>,
}

/// Exit and output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code; None if a signal ended it. Over ssh, and under another account, a signal may show as 128 plus its
    /// number.
    pub code: Option<i32>,
    /// Standard output, at most [`MOST_OUTPUT`] bytes.
    pub out: String,
    /// Standard error, at most [`MOST_OUTPUT`] bytes.
    pub err: String,
}

impl Command {
    /// A program without arguments, with the account and the environment of the service.
    pub fn new(program: impl Into<String>) -> Command {
        let (arguments, environment) = (Vec::new(), BTreeMap::new());
        Command { program: program.into(), arguments, environment, input: None, account: None }
    }

    /// Appends one argument.
    pub fn arg(mut self, argument: impl Into<String>) -> Command {
        self.arguments.push(argument.into());
        self
    }

    /// Appends arguments.
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// Sets the standard input.
    pub fn input(mut self, text: impl Into<String>) -> Command {
        self.input = Some(text.into());
        self
    }

    /// Sets the account to run as; None for the account of the service.
    pub fn account(mut self, account: Option<String>) -> Command {
        self.account = account;
        self
    }
}

impl Outcome {
    /// Whether the exit code is 0.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// The message for users: standard error, or standard output if that is empty, trimmed.
    pub fn said(&self) -> &str {
        // Some commands report a failure on standard output only, such as DENIED of `pbs_rsub`.
        let err = self.err.trim();
        if err.is_empty() { self.out.trim() } else { err }
    }
}
