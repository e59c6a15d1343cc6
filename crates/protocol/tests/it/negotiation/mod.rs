//! The negotiation of brokers with real ledgers. Every message is delivered at once and in order, unless a
//! test says otherwise. Random faults are tested with the simulated grid.

mod changing;
mod classes;
mod course;
mod ended;
mod healing;
mod hierarchy;
mod hold_times;
mod reasons;
mod recovery;
mod searching;
mod sequential;
mod surveys;
mod ties;
pub(crate) mod town;
