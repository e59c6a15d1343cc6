//! Errors of a resource manager. Each message says what happened, why, and what to do.

use bookahead_party::BatchError;
use bookahead_plan::Capacity;
use bookahead_protocol::{JobId, Name, ReservationId};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why an order failed. [`LrmsError::is_refusal`] tells whether nothing was changed.
#[derive(Debug, Clone, Error)]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum LrmsError {
    /// The resource is not configured at this site.
    #[error("this site has no resource {resource}; use one that the site lists")]
    UnknownResource { resource: Name },
    /// Two configured resources share a name.
    #[error("two resources are called {resource}; give each its own name")]
    SameName { resource: Name },
    /// A job refers to a reservation that has no backing here.
    #[error(
        "nothing is kept free on {resource} for {id}: it is not committed, or has ended; commit it first, or \
         submit the job without a reservation"
    )]
    NoBacking { resource: Name, id: ReservationId },
    /// The job can never fit: it needs more than the resource or its reservation has.
    #[error("the job needs {needed}, and {within} has {available}; ask for less")]
    TooWide { needed: Capacity, within: String, available: Capacity },
    /// The job's description is invalid.
    #[error("the job cannot be run: {0}")]
    Malformed(String),
    /// The id is taken by a different job.
    #[error("another job already has the id {id}; take a new id for each job")]
    OtherJob { id: JobId },
    /// The site simulates jobs and cannot run programs.
    #[error(
        "this site runs no programs; submit a placeholder (--pretend 10m), or set processes = true under [jobs] in \
         its configuration"
    )]
    OnlyPretends,
    /// The site has reached its limit of unfinished jobs.
    #[error("{most} jobs wait or run already; try again when some have ended")]
    Full { most: usize },
    /// Another process holds the lock of the job folder.
    #[error("{} is in use by another process; stop that process, or use another folder", folder.display())]
    InUse { folder: PathBuf },
    /// A file in the job folder is not readable as this program writes it.
    #[error("{} is damaged: {why}; restore it, or remove its folder to abandon the job", path.display())]
    Damaged { path: PathBuf, why: String },
    /// The batch system rejected the request. Nothing was changed.
    #[error("the batch system refused {what}: {said}")]
    Refused {
        /// The request, in a few words.
        what: String,
        said: String,
    },
    /// No answer, or none within the timeout. The command may have taken effect.
    #[error("{what} {}; check that the batch system is up, and try again", silence(*after, said.as_deref()))]
    Silent {
        what: String,
        after: Duration,
        /// The reason, if it was not a timeout: for example a refused connection.
        said: Option<String>,
    },
    /// The host where commands run cannot be reached, or the connection broke. The command may have taken effect.
    #[error("cannot reach {host}: {said}; check that `ssh {host}` works for this account without a password")]
    Unreachable { host: String, said: String },
    /// The command or its configuration is unsafe or invalid, so it was not run. Nothing was changed.
    #[error("cannot run {what}: {why}")]
    NotRunnable {
        /// The command, or the host it was meant for.
        what: String,
        /// The fault and its remedy.
        why: String,
    },
    /// The program of the batch system could not be executed.
    #[error("cannot run {program}: {source}; install it, or configure its path")]
    CannotRun { program: String, source: Arc<io::Error> },
    /// The command failed for an unknown reason. It may have taken effect.
    #[error("{command} {}: {said}", ending(*code))]
    Failed {
        command: String,
        /// Exit code; None if a signal ended the command.
        code: Option<i32>,
        said: String,
    },
    /// The output of a command could not be parsed.
    #[error(
        "cannot parse the output of {command}: {why}; check that this version of the batch system is supported"
    )]
    Unreadable { command: String, why: String },
    /// The backing could not be made as requested.
    #[error("the room for {id} is not reserved as requested: {why}; {kept}")]
    NotBacked { id: ReservationId, why: Box<LrmsError>, kept: Kept },
    /// The user is not mapped to an account of the cluster.
    #[error(
        "{owner} has no account on the cluster: {why}; add one for this user to the site's configuration"
    )]
    NoAccount { owner: Name, why: String },
    /// The configuration is invalid.
    #[error("cannot be set up: {0}")]
    Misconfigured(String),
    /// A file operation failed.
    #[error("cannot {what} {}: {source}; check the folder and its permissions", path.display())]
    Files { what: &'static str, path: PathBuf, source: Arc<io::Error> },
}

/// The state of a backing after a failed change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Unchanged.
    AsBefore,
    /// Smaller than before: a removed piece could not be created again.
    Less,
    /// As requested, plus a piece that should have been deleted.
    More,
    /// Unknown until the next look at the batch system.
    Unknown,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kept::AsBefore => "the previous reservation is unchanged",
            Kept::Less => "less is reserved than before; request it again",
            Kept::More => "something that should be deleted is still reserved; try again",
            Kept::Unknown => "the present state is unknown; it is checked before the next attempt",
        })
    }
}

fn silence(after: Duration, said: Option<&str>) -> String {
    said.map_or_else(|| format!("did not answer within {after:?}"), str::to_owned)
}

fn ending(code: Option<i32>) -> String {
    match code {
        Some(code) => format!("failed with exit code {code}"),
        None => "was ended by a signal".to_owned(),
    }
}

impl LrmsError {
    /// Whether the request was refused and nothing was changed. Otherwise it failed in an unknown state, and a retry
    /// may succeed.
    pub fn is_refusal(&self) -> bool {
        // A refusal halfway through a change of a backing is final only if the old backing is intact.
        if let LrmsError::NotBacked { why, kept, .. } = self {
            return *kept == Kept::AsBefore && why.is_refusal();
        }
        matches!(
            self,
            LrmsError::UnknownResource { .. }
                | LrmsError::SameName { .. }
                | LrmsError::NoBacking { .. }
                | LrmsError::TooWide { .. }
                | LrmsError::Malformed(_)
                | LrmsError::OtherJob { .. }
                | LrmsError::OnlyPretends
                | LrmsError::Full { .. }
                | LrmsError::Refused { .. }
                | LrmsError::NoAccount { .. }
                | LrmsError::NotRunnable { .. }
                | LrmsError::Misconfigured(_)
        )
    }

    pub(crate) fn cannot_run(program: String, source: io::Error) -> LrmsError {
        LrmsError::CannotRun { program, source: Arc::new(source) }
    }

    /// Wraps an I/O error: `what` completes the sentence "cannot … PATH".
    pub(crate) fn files(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LrmsError {
        let path = path.to_owned();
        move |source| LrmsError::Files { what, path, source: Arc::new(source) }
    }
}

impl From<LrmsError> for BatchError {
    fn from(why: LrmsError) -> BatchError {
        if why.is_refusal() {
            BatchError::Refused(why.to_string())
        } else {
            BatchError::Unknown(why.to_string())
        }
    }
}
