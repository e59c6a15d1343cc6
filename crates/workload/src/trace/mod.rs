//! From the records of a log to jobs that can be scheduled: which jobs are sound, how they are corrected,
//! counted and ordered, and how load and estimates are varied. The rules are fixed; every dropped or changed
//! job is counted in the report.

mod clean;
mod job;
mod load;
mod scaling;

pub use job::{CleaningReport, Job, LoadError, LoadOptions, Overrun};
pub use load::Trace;
pub(crate) use scaling::scale_to_load;
pub use scaling::{Estimates, EstimatesError, ScalingError, offered_load, scale_load};
