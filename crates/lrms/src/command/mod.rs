//! Runs the commands of a batch system, locally or over ssh: with a timeout, in a fixed locale and time zone, with a
//! limit on parallel commands, and failing fast while the batch system is known to be down. This module does not know
//! the meaning of any command.
//!
//! - `runner`: where commands run, and the checks around each run
//! - `transport`: how one command is run, and how its exit is interpreted; usage counters
//! - `command_line`: a command and its words, under which account and environment
//! - `local`: one process on this machine; `ssh`: the same on another machine
//! - `outage`: detects outages and their end; limits parallel commands
//!
//! Required programs: `ssh` for remote hosts; on those, and for commands under another account, also `env` and
//! `timeout` of coreutils. The clock is read for timeouts only. No word ever reaches a shell unquoted, and a lost
//! connection is never mistaken for the exit of a command.

mod command_line;
mod local;
mod outage;
mod runner;
mod ssh;
mod transport;

pub(crate) use command_line::is_variable;
pub use command_line::{Command, Outcome, quoted};
pub use runner::{MOST_AT_ONCE, Runner};
pub use ssh::{LONGEST_CONTROL_FOLDER, Ssh};
pub(crate) use transport::run_process;
pub use transport::{MOST_OUTPUT, ProgramUsage, Usage};
