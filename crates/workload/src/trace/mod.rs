//! From the records of a log to jobs that can be scheduled: which are sound, what is mended in them, how
//! they are counted and ordered, and how load and estimates are varied. The rules are fixed and their
//! effect is counted; a job is never changed or lost without a trace in the report.

mod clean;
mod error;
mod estimates;
mod job;
mod load;
mod options;
mod report;
mod scaling;

pub use error::LoadError;
pub use estimates::{Estimates, EstimatesError};
pub use job::Job;
pub use load::Trace;
pub use options::{LoadOptions, Overruns, OverrunsError};
pub use report::CleaningReport;
pub use scaling::{ScalingError, offered_load, scale_load, scale_to_load};
