//! Speaking to local resource managers. Nothing else knows how a batch system is spoken to.
//!
//! - [`adapter`]: what a site wants of a resource manager, one trait
//! - [`job`]: jobs as a site hands them over, and what becomes of them
//! - [`error`]: why something could not be done
//! - [`builtin`]: a scheduler for sites without a batch system
//! - [`batch`]: batch systems that are driven by their commands, and what each dialect of them has to know
//! - [`slurm`], [`grid_engine`]: dialects that were written with the batch system at hand
//! - [`pbs`], [`lsf`], [`maui`]: dialects that were written after documentation
//! - `dialect`, `text`: what dialects have in common, and what several batch systems print and read alike
//! - [`command`]: running commands, here or over ssh
//!
//! It relies on its caller for the time of the site: it is an argument. A clock is read where commands are run and waited for,
//! in [`command`] and in the dialects, for time-outs and for how long something took or is gone; nothing that is promised
//! depends on it. It never decides what is promised; that is the ledger's.

pub mod adapter;
pub mod batch;
pub mod builtin;
pub mod command;
mod dialect;
pub mod error;
pub mod grid_engine;
pub mod job;
pub mod lsf;
pub mod maui;
pub mod pbs;
pub mod slurm;
mod text;

pub use adapter::{Backing, Capabilities, Clocks, Lrms, Seen, Snapshot, Tagged};
pub use batch::Batch;
pub use builtin::{Builtin, Hosted};
pub use error::LrmsError;
pub use job::{Job, JobChange, JobState, JobStatus, Why, Work};
