//! Reservation requests: jobs of a workload that want a fixed piece of the machine some time ahead instead
//! of a place in the queue, and the file in which they are kept. Which jobs these are depends on the seed
//! alone; nothing here decides whether a request is granted.

mod file;
mod select;

use bookahead_plan::{Capacity, Seconds, Time};

pub use file::{COLUMNS, Problem, RequestsError, load, read, write, write_file};
pub use select::{Selection, SelectionError, select};

/// One reservation request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Request {
    /// The number of the job it comes from.
    pub number: i64,
    /// When it is made.
    pub submit: Time,
    /// The earliest instant at which it may begin.
    pub earliest_start: Time,
    /// The instant by which it must have ended.
    pub latest_end: Time,
    /// How long it lasts.
    pub duration: Seconds,
    /// How much of the machine it needs, in the unit of the trace.
    pub processors: Capacity,
}
