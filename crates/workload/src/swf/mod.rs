//! The Standard Workload Format (SWF, version 2.2) of the Parallel Workloads Archive: `;` lines with
//! directives, then one line of 18 blank-separated numbers per job, -1 where unknown. Reading streams and
//! tells of every line what became of it; whether a job makes sense is decided in [`crate::trace`].

mod header;
mod number;
mod reader;
mod record;

pub use header::{Header, write, write_file, write_file_as};
pub use reader::{JobLine, Outcome, Reader};
pub use record::{Record, UNKNOWN};
