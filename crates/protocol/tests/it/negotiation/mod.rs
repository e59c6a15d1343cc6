//! The negotiation of brokers with real ledgers, every message delivered at once and in order unless a test says
//! otherwise. What random faults do is tested with the simulated grid.

mod changing;
mod course;
mod healing;
mod hierarchy;
mod hold_times;
mod recovery;
mod searching;
mod surveys;
mod ties;
pub(crate) mod town;
