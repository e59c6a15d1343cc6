//! How a command can fail, told apart by the exit code: what was written cannot be meant, somebody said no, or something did
//! not work.

use bookahead_api::Problem;
use std::process::ExitCode;

/// Said at the end of the help of every command that asks a server.
pub(crate) const EXIT_CODES: &str = "\
Exit codes: 0 done, 1 failed (nobody answers, a file cannot be written), 2 wrong usage (options, times and request \
files that cannot be meant), 3 refused (with a reason and, where there is one, what would do instead)";

/// What was written cannot be meant.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Somebody said no, or that he cannot at the moment; `text` is what to tell the user.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Refused {
    pub(crate) problem: Box<Problem>,
    pub(crate) text: String,
}

/// The exit code of a failure.
pub(crate) fn exit_code(error: &anyhow::Error) -> ExitCode {
    if error.downcast_ref::<Usage>().is_some() {
        ExitCode::from(2)
    } else if error.downcast_ref::<Refused>().is_some_and(|refused| refused.problem.status < 500) {
        ExitCode::from(3)
    } else {
        ExitCode::FAILURE
    }
}
