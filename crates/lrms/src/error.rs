//! Why a resource manager could not do something: what, why, and what to do about it.

use bookahead_party::BatchError;
use bookahead_plan::Capacity;
use bookahead_protocol::{JobId, Name, ReservationId};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// Why something could not be done. What the fields are is said by the messages.
#[derive(Debug, Clone, Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum LrmsError {
    /// There is no such resource.
    #[error("there is no resource {resource} here; ask for the resources of this site")]
    UnknownResource { resource: Name },
    /// Two resources have one name.
    #[error("there are two resources {resource}; give each a name of its own")]
    SameName { resource: Name },
    /// Nothing is kept free for the reservation of a job.
    #[error(
        "nothing is kept free on {resource} for {id}: it is not committed, or over; commit it first, or submit the job without it"
    )]
    NoBacking { resource: Name, id: ReservationId },
    /// A job needs more than there ever will be for it.
    #[error("the job needs {needed}, and {within} has {available}; ask for less")]
    TooWide { needed: Capacity, within: String, available: Capacity },
    /// A job that cannot be run as it is written.
    #[error("the job cannot be run: {0}")]
    Malformed(String),
    /// Another job has this id.
    #[error("another job was submitted as {id}; take a new id for each job")]
    OtherJob { id: JobId },
    /// Jobs can only be pretended here.
    #[error("no programs are run here, jobs are only pretended; give the site a folder for jobs")]
    OnlyPretends,
    /// Too many jobs wait or run.
    #[error("{most} jobs wait or run already; try again when some are over")]
    Full { most: usize },
    /// The folder of the jobs belongs to another process.
    #[error("{} is in use by another process; end that one, or take another folder", folder.display())]
    InUse { folder: PathBuf },
    /// What is in the folder of the jobs is not what was written there.
    #[error("{} is damaged: {why}; restore it, or remove its folder and give the job up", path.display())]
    Damaged { path: PathBuf, why: String },
    /// The batch system says no. Nothing was done.
    #[error("the batch system refuses {what}: {said}")]
    Refused {
        /// What it was asked for, in a few words.
        what: String,
        said: String,
    },
    /// No answer, or none in time: whether something was done is not known.
    #[error("{what} {}; see whether the batch system is up, and ask again", silence(*after, said.as_deref()))]
    Silent {
        what: String,
        after: Duration,
        /// Where it did not time out: what is known instead, such as that a connection was refused.
        said: Option<String>,
    },
    /// The machine where commands run cannot be reached, or was lost while one ran: whether something was done is not known.
    #[error("cannot reach {host}: {said}; see that `ssh {host}` works for this account without a password")]
    Unreachable { host: String, said: String },
    /// A command, or a way to run commands, that must not be used as it is written. Nothing was done.
    #[error("cannot run {what}: {why}")]
    NotRunnable {
        /// What should have been run, or where.
        what: String,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// A command of the batch system cannot be run at all.
    #[error("cannot run {program}: {source}; install it, or say where it is")]
    CannotRun { program: String, source: Arc<io::Error> },
    /// A command failed for a reason that is not known. Whether something was done is not known.
    #[error("{command} failed with {code:?}: {said}")]
    Failed {
        command: String,
        /// Its exit code; None where a signal ended it.
        code: Option<i32>,
        said: String,
    },
    /// What a command printed is not what it should print.
    #[error("{command} printed what cannot be read: {why}; is this a version that is supported?")]
    Unreadable { command: String, why: String },
    /// A backing is not as it was asked for.
    #[error("{id} is not kept free as it was asked: {why}; {kept}")]
    NotBacked { id: ReservationId, why: Box<LrmsError>, kept: Kept },
    /// A user has no account on the cluster.
    #[error("{owner} has no account on the cluster: {why}; name one for them in the site's configuration")]
    NoAccount { owner: Name, why: String },
    /// It cannot be set up as it is configured.
    #[error("cannot be set up: {0}")]
    Misconfigured(String),
    /// The file system would not.
    #[error("cannot {what} {}: {source}; check the folder and its permissions", path.display())]
    Files { what: &'static str, path: PathBuf, source: Arc<io::Error> },
}

/// What is kept free after something went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// What was before.
    AsBefore,
    /// Less than before: what was undone could not be made again.
    Less,
    /// What was asked for, and something that should be gone.
    More,
    /// That is not known before it is looked at again.
    Unknown,
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kept::AsBefore => "what was kept before is kept, and no more",
            Kept::Less => "less than before is kept; ask again for what is needed",
            Kept::More => "something that should be gone is still kept; ask again",
            Kept::Unknown => "what is kept is not known; it is looked at before the next try",
        })
    }
}

fn silence(after: Duration, said: Option<&str>) -> String {
    said.map_or_else(|| format!("did not answer within {after:?}"), str::to_owned)
}

impl LrmsError {
    /// Whether it will not be done, and nothing was done. Otherwise something failed, and what was done is not known:
    /// whoever asks again may get another answer.
    pub fn is_refusal(&self) -> bool {
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

    /// What the system said when a program was to be run.
    pub(crate) fn cannot_run(program: String, source: io::Error) -> LrmsError {
        LrmsError::CannotRun { program, source: Arc::new(source) }
    }

    /// What the file system said when this was tried with that file.
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
