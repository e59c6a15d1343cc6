//! Executes a site's orders on its batch system. No other crate knows the commands or formats of a batch system.
//!
//! - [`worker`]: runs orders in parallel and reports their outcomes, for sites with a batch system
//! - [`batch`]: the logic shared by all batch systems that are driven by commands
//! - [`slurm`], [`grid_engine`]: dialects developed and tested against the real batch system
//! - [`pbs`], [`lsf`], [`maui`]: dialects written from documentation and captured output
//! - `dialect`: code shared by several dialects, such as output parsers and job scripts
//! - [`command`]: runs commands, locally or over ssh
//! - [`builtin`]: a scheduler for sites without a batch system; it takes the same orders
//! - `environment`: the variables that tell a job about its reservation
//! - [`maintenance`]: recurring maintenance windows of a site
//! - [`output`]: reads what jobs print
//! - [`error`]: error types
//!
//! The caller passes in the site's time. [`worker`], [`command`] and the dialects also read a clock, but only for
//! timeouts and to measure durations; no promise depends on it. This crate never decides what is promised; the ledger
//! does.

pub mod batch;
pub mod builtin;
pub mod command;
mod dialect;
mod environment;
pub mod error;
pub mod grid_engine;
pub mod lsf;
pub mod maintenance;
pub mod maui;
pub mod output;
pub mod pbs;
pub mod slurm;
pub mod worker;

pub use batch::Batch;
pub use builtin::{Builtin, Hosted};
pub use environment::Within;
pub use error::LrmsError;
pub use worker::Worker;

use bookahead_plan::Seconds;

/// How long a claiming job waits for its go-ahead, in seconds. The wrapper in a batch system gives up after another
/// half of it. A reachable broker answers within seconds; for an unreachable one, a minute of idle room is enough.
pub const GO_WITHIN: Seconds = Seconds(60);
