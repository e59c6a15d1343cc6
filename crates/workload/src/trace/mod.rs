//! From the records of a log to jobs that can be scheduled: which are sound, what is mended in them, how
//! they are counted and ordered, and how load and estimates are varied. The rules are fixed and their
//! effect is counted; a job is never changed or lost without a trace in the report.

mod clean;
mod job;
mod load;
mod scaling;

pub use job::{CleaningReport, Job, LoadError, LoadOptions, Overruns, OverrunsError};
pub use load::Trace;
pub use scaling::{Estimates, EstimatesError, ScalingError, offered_load, scale_load, scale_to_load};
