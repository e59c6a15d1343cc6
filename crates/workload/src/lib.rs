//! Job logs in Standard Workload Format, the rules that turn a log into a list of jobs, workload models that
//! draw such a list from a seed, reservation requests, and the statistics of all of them. The crate uses the
//! units of `bookahead-plan`; it never schedules, and reads no clock.
//!
//! - [`swf`]: the format, line by line
//! - [`import`]: accounting records of batch systems, turned into the format
//! - [`trace`]: from lines to sound jobs, with a report of dropped and corrected ones
//! - [`models`]: seeded generators
//! - [`requests`]: jobs turned into reservation requests, and their file
//! - [`stats`]: statistics of a workload
//! - [`streams`]: seeded random numbers

pub mod files;
pub mod import;
pub mod models;
pub mod reason;
pub mod requests;
pub mod stats;
pub mod streams;
pub mod swf;
pub mod trace;

pub use files::FileError;
pub use reason::{Mends, Reason};
pub use trace::{Job, LoadError, LoadOptions, Overrun, Trace};

/// Largest instant and duration in a workload, in seconds (about 35,000 years): sums of a few of them stay far
/// below the largest `i64`.
pub const LONGEST: i64 = 1 << 40;

/// Largest number of processors or nodes of a machine or a job; fits both `i32` and `u32`.
pub const LARGEST: i64 = i32::MAX as i64;
