//! Carrying out a site's orders to its batch system. Nothing else knows how a batch system is spoken to.
//!
//! - [`worker`]: orders in, reports out, several at once, for sites with a batch system
//! - [`batch`]: batch systems that are driven by their commands, and what each dialect of them has to know
//! - [`slurm`], [`grid_engine`]: dialects that were written with the batch system at hand
//! - [`pbs`], [`lsf`], [`maui`]: dialects that were written after documentation
//! - `dialect`, `text`: what dialects have in common, and what several batch systems print and read alike
//! - [`command`]: running commands, here or over ssh
//! - [`builtin`]: a scheduler for sites without a batch system, which takes the same orders
//! - [`error`]: why something could not be done
//!
//! It relies on its caller for the time of the site: it is an argument. A clock is read where commands are run and waited for,
//! in [`worker`], [`command`] and the dialects, for time-outs and for how long something took or is gone; nothing that is
//! promised depends on it. It never decides what is promised; that is the ledger's.

pub mod batch;
pub mod builtin;
pub mod command;
mod dialect;
pub mod error;
pub mod grid_engine;
pub mod lsf;
pub mod maui;
pub mod pbs;
pub mod slurm;
pub mod worker;

pub use batch::Batch;
pub use builtin::{Builtin, Hosted};
pub use error::LrmsError;
pub use worker::Worker;

use bookahead_plan::Seconds;

/// How long a job that claims may get its go. In a batch system it gives up half as long after that. A broker that can be reached answers within seconds; for one that
/// cannot, a minute of idle room is enough.
pub const GO_WITHIN: Seconds = Seconds(60);
