//! A job as schedulers see it, and the record that stands for it in a log. It relies on the units of the
//! planner and never says anything about when the job starts.

use bookahead_plan::{Capacity, Seconds, Time};

use crate::swf::Record;

/// A sound job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Job {
    /// Its number in the log.
    pub number: i64,
    /// When it is submitted.
    pub submit: Time,
    /// How long it runs; at least a second.
    pub run: Seconds,
    /// How long it asked to run; at least a second.
    pub request: Seconds,
    /// How much of the machine it needs, in the unit of the trace; at least one.
    pub processors: Capacity,
}

impl Job {
    /// Processors times run time.
    #[inline]
    pub fn area(&self) -> i128 {
        i128::from(self.processors.0) * i128::from(self.run.0)
    }

    /// The job as a line of a log, on a machine whose unit has `unit` processors.
    pub fn record(&self, unit: u32) -> Record {
        let processors = i64::from(self.processors.0) * i64::from(unit);
        Record {
            job: self.number,
            submit: self.submit.0,
            run: self.run.0,
            allocated_processors: processors,
            requested_processors: processors,
            requested_time: self.request.0,
            status: 1,
            ..Record::BLANK
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_takes_forty_bytes() {
        assert_eq!(size_of::<Job>(), 40);
    }
}
