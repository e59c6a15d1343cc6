//! Simulated sites: the decision code of the daemons, driven by a workload in virtual time.
//!
//! - [`site`]: one cluster with its jobs and reservations, from the first submission to the last end
//! - [`rated`]: placement by rated slots, a shortest notice, and a cluster stopped at a moment
//! - [`grid`]: sites, brokers and clients on a faulty network
//! - [`workers`]: independent runs on several threads, and one workload under several rules
//!
//! A run depends only on its input: no clock and no hidden randomness, the same result on every machine.

pub mod grid;
pub mod rated;
pub mod site;
pub mod workers;

pub use bookahead_workload::Overrun;
pub use rated::{Frozen, Rated, WithNotice, freeze};
pub use site::{EarliestFit, Fate, Granted, Job, Outcome, Placement, Ran, Site, simulate};
pub use workers::{run_all, side_by_side};
