//! Speaking to local resource managers. Nothing else knows how a batch system is spoken to.
//!
//! - [`adapter`]: what a site wants of a resource manager, one trait
//! - [`job`]: jobs as a site hands them over, and what becomes of them
//! - [`error`]: why something could not be done
//! - [`builtin`]: a scheduler for sites without a batch system
//! - [`batch`]: batch systems that are driven by their commands
//! - [`lsf`], [`maui`]: dialects of batch systems, written after their documentation
//! - [`command`]: running commands, here or over ssh
//! - [`slurm`]: the batch system Slurm
//! - [`grid_engine`]: Grid Engine, by its commands
//! - [`grid_engine`], [`pbs`]: Grid Engine and PBS, by their commands
//!
//! It relies on its caller for the time: it is an argument, and nothing here reads a clock. It never decides what is
//! promised; that is the ledger's.

pub mod adapter;
pub mod batch;
pub mod builtin;
mod calendar;
pub mod command;
pub mod error;
pub mod grid_engine;
pub mod job;
pub mod lsf;
pub mod maui;
pub mod pbs;
mod script;
pub mod slurm;
mod text;

pub use adapter::{Backing, Capabilities, Clocks, Lrms, Seen, Snapshot, Tagged};
pub use batch::Batch;
pub use builtin::{Builtin, Hosted};
pub use error::LrmsError;
pub use job::{Job, JobChange, JobState, JobStatus, Why, Work};
