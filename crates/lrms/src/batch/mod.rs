//! Batch systems that are driven by commands.
//!
//! - [`system`]: the interface that each dialect implements
//! - [`Batch`]: the logic above it, shared by all dialects; [`crate::worker`] executes orders with it
//! - [`settings`]: its resources, accounts and limits
//! - [`tag`]: names by which our reservations and jobs are recognised
//! - [`tres`]: GPUs, memory, licences and other things beside cores and nodes
//! - [`accounts`]: mapping of owners to accounts and projects of the cluster
//!
//! The batch system is the only record of reservations and jobs; nothing is stored here. Between two looks (one look
//! reads nodes, reservations and jobs) our own changes are remembered. After a command without an answer, a look
//! comes before anything else.
//!
//! # Several at once
//! Several threads may call in parallel, but only one for each reservation and each job. One look serves all callers
//! that requested one before it began. The state is behind one lock, which is never held while a command runs.
//!
//! A dialect must undo a grant that falls short. Nothing is changed in the batch system unless the wanted state
//! differs.
//!
//! # Bounds
//! Limits on unfinished jobs and on remembered finished jobs are those of the built-in scheduler.

pub mod accounts;
mod adapter;
mod backing;
mod examine;
mod following;
mod looks;
mod pieces;
mod plan;
mod register;
pub mod settings;
mod submitting;
pub mod system;
pub mod tag;
pub mod tres;
mod view;

pub use accounts::{Accounts, Projects};
pub use adapter::Batch;
pub(crate) use looks::Looked;
pub use settings::Settings;
pub use system::{
    BatchSystem, FactState, Files, Finding, Grade, Handle, JobFact, JobSystem, NO_GO, Node, Picture, Place,
    ReservationSystem, Reserved, Share, Submission, Traits, Unit, Unreadable, Wanted,
};
pub(crate) use system::{add_cores, count, total};
pub use tag::Tag;
pub use tres::{TresJob, TresPicture};
