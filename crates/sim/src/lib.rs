//! A simulated site: the same deciding code that the daemons run, driven by a workload in virtual time.
//!
//! - [`site`]: one cluster, its jobs and its reservations, from the first submission to the last end
//! - [`mod@freeze`]: a cluster stopped at a moment
//! - [`rated`]: requests decided by rated slots
//! - [`grid`]: sites, brokers and clients on a network on which everything can go wrong
//! - [`with_notice`]: a shortest notice before any of them
//! - [`mod@side_by_side`]: the same workload under several rules at once
//! - [`workers`]: independent runs on several threads, in order
//! - [`events`]: what happens next, in the order in which the events of one instant are taken
//!
//! A run is a function of its input: no clock, no chance, the same result on every machine.

pub mod freeze;
pub mod grid;
pub mod rated;
pub mod site;
pub mod workers;

pub use crate::freeze::{Frozen, freeze};
pub use crate::rated::{Rated, WithNotice};
pub use crate::site::{EarliestFit, Fate, Granted, Job, Outcome, Overrun, Placement, Ran, Site, simulate};
pub use crate::workers::{run_all, side_by_side};
