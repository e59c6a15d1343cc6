//! The Standard Workload Format (SWF, version 2.2) of the Parallel Workloads Archive: `;` lines with
//! directives, then one line of 18 blank-separated numbers per job, with -1 for unknown. The reader streams and
//! reports the outcome of every line; [`crate::trace`] decides whether a job makes sense.

mod header;
mod number;
mod reader;
mod record;

pub use header::{Header, write, write_file, write_file_as};
pub use reader::{JobLine, Malformed, Outcome, Reader};
pub use record::{Record, UNKNOWN};
