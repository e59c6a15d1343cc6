//! A simulated site: the same deciding code that the daemons run, driven by a workload in virtual time.
//!
//! - [`site`]: one cluster, its jobs and its reservations, from the first submission to the last end, and what happens next
//! - [`rated`]: requests decided by rated slots, a shortest notice before that, and a cluster stopped at a moment
//! - [`grid`]: sites, brokers and clients on a network on which everything can go wrong
//! - [`workers`]: independent runs on several threads, in order, and the same workload under several rules at once
//!
//! A run is a function of its input: no clock, no chance, the same result on every machine.

pub mod grid;
pub mod rated;
pub mod site;
pub mod workers;

pub use rated::{Frozen, Rated, WithNotice, freeze};
pub use site::{EarliestFit, Fate, Granted, Job, Outcome, Overrun, Placement, Ran, Site, simulate};
pub use workers::{run_all, side_by_side};
