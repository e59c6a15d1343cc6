//! Running the commands of a batch system, here or over ssh: with a time-out, in the language and time zone that their
//! output is read in, so many at once and no more, and none while the batch system is known to be silent. Nothing here
//! knows what a command means.
//!
//! - `runner`: where commands run, and all that holds for each
//! - `transport`: how one is run, as whom and with which environment, and what its end means; what was run and how long
//! - `local`: one process on this machine, from its start to its end; `ssh`: the same on another machine
//! - `outage`: silence, and how its end is noticed; how many run at once
//!
//! It relies on programs to be found: `ssh` for other machines; there, and wherever an account is given, `env` and
//! `timeout` of coreutils. It reads the clock, for time-outs alone. It never hands a word to a shell unquoted, and never
//! takes a lost connection for the answer of a command.

mod local;
mod outage;
mod runner;
mod ssh;
mod transport;

pub use runner::{MOST_AT_ONCE, Runner};
pub use ssh::{LONGEST_CONTROL_FOLDER, Ssh};
pub(crate) use transport::is_variable;
pub use transport::{MOST_OUTPUT, ProgramUsage, Usage, quoted};

use std::collections::BTreeMap;

/// A command to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// A program: a path, or a name that is looked for in `PATH`.
    pub program: String,
    /// As the program will see them.
    pub arguments: Vec<String>,
    /// In addition to `LC_ALL=C` and `TZ=UTC`, which it cannot change.
    pub environment: BTreeMap<String, String>,
    /// What it reads.
    pub input: Option<String>,
    /// As whom it runs; None for the account of the service. See [`Runner::becoming`].
    pub account: Option<String>,
}

/// What came of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its exit code; None where a signal ended it. (Over ssh, and where it ran as another account, a signal may show as
    /// 128 and its number.)
    pub code: Option<i32>,
    /// What it wrote to its standard output.
    pub out: String,
    /// What it wrote to its standard error.
    pub err: String,
}

impl Command {
    /// A program without arguments.
    pub fn new(program: impl Into<String>) -> Command {
        let (arguments, environment) = (Vec::new(), BTreeMap::new());
        Command { program: program.into(), arguments, environment, input: None, account: None }
    }

    /// With one more argument.
    pub fn arg(mut self, argument: impl Into<String>) -> Command {
        self.arguments.push(argument.into());
        self
    }

    /// With more arguments.
    pub fn args<S: Into<String>>(mut self, arguments: impl IntoIterator<Item = S>) -> Command {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// With a variable in its environment.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Command {
        self.environment.insert(name.into(), value.into());
        self
    }

    /// With something to read.
    pub fn input(mut self, text: impl Into<String>) -> Command {
        self.input = Some(text.into());
        self
    }

    /// As an account of the cluster.
    pub fn account(mut self, account: Option<String>) -> Command {
        self.account = account;
        self
    }
}

impl Outcome {
    /// Whether it says that all went well.
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }

    /// What it said, for people: its standard error, or else its standard output, without blanks around.
    pub fn said(&self) -> &str {
        let err = self.err.trim();
        if err.is_empty() { self.out.trim() } else { err }
    }
}
