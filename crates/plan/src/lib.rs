//! Decisions without I/O. Everything that Bookahead decides about one resource is decided here, from values:
//! no clock, no files, no threads, no randomness. The simulator and the daemons drive the same code.
//!
//! - [`units`]: instants, durations, capacities; half-open intervals
//! - [`profile`]: free capacity over time
//! - [`policy`]: jobs as a scheduler sees them; FCFS, EASY, conservative backfilling
//! - [`order`], [`usage`]: which waiting job goes first; what owners have used
//! - [`scheduler`]: which waiting jobs start now
//! - [`planner`]: when every waiting job would start
//! - [`placement`]: possible slots for a reservation, and their effect on jobs
//! - [`metrics`]: figures of a schedule
//! - [`notice`]: how far ahead a reservation must be requested
//!
//! A resource has one capacity. A cluster with several resources has a profile and a scheduler for each.

mod bound;
pub mod metrics;
pub mod notice;
pub mod order;
pub mod placement;
pub mod planner;
pub mod policy;
pub mod profile;
mod queue;
pub mod scheduler;
pub mod units;
pub mod usage;

pub use order::Order;
pub use planner::{Cluster, Planner};
pub use policy::{JobKey, Owner, Policy, Running, Waiting};
pub use profile::{Frontier, Need, Profile, Starts};
pub use scheduler::Scheduler;
pub use units::{Capacity, Interval, Seconds, Span, Time};
