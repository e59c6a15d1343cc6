//! Why a log gives no trace. Every message names the file and says what to do about it.

use thiserror::Error;

use super::report::CleaningReport;
use crate::files::FileError;
use crate::reason::Reason;

/// Why a log gives no trace.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A job was dropped or mended although none may be.
    #[error("{name}:{line}: {}; mend the line, or load without strict checking", reason.sentence())]
    Strict {
        /// The file.
        name: String,
        /// The line of the job.
        line: u64,
        /// What is wrong with it.
        reason: Reason,
    },
    /// A node of no processors.
    #[error("a node of 0 processors cannot be counted with; give a unit of at least 1")]
    UnitZero,
    /// No job is wanted.
    #[error("the first 0 jobs of a log are no trace; give at least 1")]
    FirstZero,
    /// The header does not say how large the machine is, and nobody else did.
    #[error("{name}: the header tells no machine size (MaxProcs or MaxNodes); give the number of processors")]
    NoMachine {
        /// The file.
        name: String,
    },
    /// The machine is of an impossible size.
    #[error(
        "{name}: a machine of {processors} processors in nodes of {unit} cannot be scheduled; \
         give a number of processors between {unit} and 2147483647"
    )]
    BadMachine {
        /// The file.
        name: String,
        /// Its processors.
        processors: i64,
        /// The processors of a node.
        unit: u32,
    },
    /// The file has no job line at all.
    #[error("{name}: there is no job in it; check that this is a log in Standard Workload Format")]
    NoJobLine {
        /// The file.
        name: String,
    },
    /// All job lines were dropped or not selected.
    #[error("{name}: no job is left ({report}); check the file, the machine size and the range")]
    NoSoundJob {
        /// The file.
        name: String,
        /// What became of the lines.
        report: Box<CleaningReport>,
    },
}
