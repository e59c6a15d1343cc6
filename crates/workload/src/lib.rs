//! Jobs in and out: job logs in Standard Workload Format, the rules by which a log becomes a list of jobs,
//! workload models that draw such a list from a seed, reservation requests, and the statistics of all of
//! them. It relies on the units of `bookahead-plan`; it never schedules, and reads no clock.
//!
//! - [`swf`]: the format, line by line
//! - [`trace`]: from lines to sound jobs, with an account of what was dropped and mended
//! - [`models`]: seeded generators
//! - [`requests`]: jobs turned into reservation requests, and their file
//! - [`stats`]: what a workload looks like in numbers
//! - [`streams`]: chance, from a seed

pub mod files;
pub mod models;
pub mod reason;
pub mod requests;
pub mod stats;
pub mod streams;
pub mod swf;
pub mod trace;

pub use files::FileError;
pub use reason::{Mends, Reason};
pub use trace::{Job, LoadError, LoadOptions, Overruns, Trace};

/// No instant and no length of time in a workload is above this (about 35,000 years): sums of a few of them
/// stay far from the end of an `i64`.
pub const LONGEST: i64 = 1 << 40;

/// No machine and no job has more processors than this, nor more nodes.
pub const LARGEST: i64 = i32::MAX as i64;
