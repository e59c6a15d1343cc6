//! Types of loading: a job as schedulers see it, the options, the report on the job lines, and the errors. The defaults
//! are the rules under which Bookahead's results are compared with others. For every loaded trace, kept + dropped +
//! outside the range = read.

use crate::files::FileError;
use crate::reason::{Mends, Reason};
use crate::swf::{Malformed, Record};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use std::fmt;
use thiserror::Error;

/// A sound job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Job {
    /// Number in the log.
    pub number: i64,
    /// Submission.
    pub submit: Time,
    /// Actual run time; at least a second.
    pub run: Seconds,
    /// Requested run time; at least a second.
    pub request: Seconds,
    /// Required share of the machine, in the unit of the trace; at least one.
    pub processors: Capacity,
    /// User who submitted it; 0 if unknown.
    pub user: u32,
}

impl Job {
    /// Processors times run time, in unit-seconds.
    #[inline]
    pub fn area(&self) -> i128 {
        // Up to 2^71, which does not fit an `i64`.
        i128::from(self.processors.0) * i128::from(self.run.0)
    }

    /// The job as a line of a log, for a machine whose unit has `unit` processors.
    pub fn record(&self, unit: u32) -> Record {
        // A log counts processors, never nodes.
        let processors = i64::from(self.processors.0) * i64::from(unit);
        Record {
            job: self.number,
            submit: self.submit.0,
            run: self.run.0,
            allocated_processors: processors,
            requested_processors: processors,
            requested_time: self.request.0,
            status: 1,
            user: if self.user == 0 { Record::BLANK.user } else { i64::from(self.user) },
            ..Record::BLANK
        }
    }
}

/// Treatment of jobs that run longer than requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overrun {
    /// Kill them when their requested time is used up, as batch systems do.
    #[default]
    Kill,
    /// Let them run to their end, unless a reservation needs their processors.
    Extend,
    /// Leave them out. A simulation of such a job kills it.
    Drop,
}

/// Options for loading a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// Size of the machine in processors; default: that of the header.
    pub processors: Option<Capacity>,
    /// Size of a node in processors: machine and jobs are counted in nodes of this size.
    pub unit: u32,
    /// Treatment of jobs that ran longer than requested.
    pub overruns: Overrun,
    /// Stop after this many sound jobs, in the order of the file.
    pub first: Option<usize>,
    /// Load only jobs submitted in this interval.
    pub range: Option<Interval>,
    /// Fail at the first job that is dropped or corrected.
    pub strict: bool,
    /// Keep the complete record of every job.
    pub keep_records: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            processors: None,
            unit: 1,
            overruns: Overrun::Kill,
            first: None,
            range: None,
            strict: false,
            keep_records: false,
        }
    }
}

/// Counts of the job lines of a log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CleaningReport {
    /// Job lines read.
    pub read: u64,
    /// Jobs in the trace.
    pub kept: u64,
    /// Jobs submitted outside the chosen range.
    pub outside_range: u64,
    counts: [u64; Reason::ALL.len()],
}

impl CleaningReport {
    /// Number of jobs to which `reason` applied.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason.index()]
    }

    /// All reasons with a count above zero, in the order of [`Reason::ALL`].
    pub fn counts(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.count(reason))).filter(|(_, count)| *count > 0)
    }

    /// Number of dropped jobs.
    pub fn dropped(&self) -> u64 {
        self.counts().filter(|(reason, _)| reason.is_drop()).map(|(_, count)| count).sum()
    }

    pub(super) fn drop_one(&mut self, reason: Reason) {
        self.counts[reason.index()] += 1;
    }

    #[inline]
    pub(super) fn keep_one(&mut self, mends: Mends) {
        self.kept += 1;
        // Most jobs have no correction, and this saves them the search through all reasons.
        if !mends.is_empty() {
            for reason in mends.iter() {
                self.counts[reason.index()] += 1;
            }
        }
    }
}

impl fmt::Display for CleaningReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} job lines read, {} kept", self.read, self.kept)?;
        if self.outside_range > 0 {
            write!(f, ", {} outside the range", self.outside_range)?;
        }
        for (reason, count) in self.counts() {
            write!(f, ", {count} {}", reason.code())?;
        }
        Ok(())
    }
}

/// The counts of reasons that drop, or of those that correct, as a map from code to count.
struct CountMap<'a> {
    report: &'a CleaningReport,
    drops: bool,
}

impl Serialize for CountMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // The number of entries is not known before the counts are filtered.
        let mut map = serializer.serialize_map(None)?;
        for (reason, count) in self.report.counts().filter(|(reason, _)| reason.is_drop() == self.drops) {
            map.serialize_entry(reason.code(), &count)?;
        }
        map.end()
    }
}

impl Serialize for CleaningReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut report = serializer.serialize_struct("CleaningReport", 5)?;
        report.serialize_field("read", &self.read)?;
        report.serialize_field("kept", &self.kept)?;
        report.serialize_field("outside_range", &self.outside_range)?;
        report.serialize_field("dropped", &CountMap { report: self, drops: true })?;
        report.serialize_field("mended", &CountMap { report: self, drops: false })?;
        report.end()
    }
}

/// Why a log cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A job was dropped or corrected in strict mode.
    #[error("{name}:{line}: {}; correct the line, or load without strict checking", reason.sentence())]
    Strict {
        /// Path, or "standard input".
        name: String,
        /// Number of the line.
        line: u64,
        /// Fault of the line.
        reason: Reason,
    },
    /// The node size is zero.
    #[error("a node cannot have 0 processors; give a unit of at least 1")]
    UnitZero,
    /// The number of jobs to load is zero.
    #[error("cannot load the first 0 jobs; give at least 1")]
    FirstZero,
    /// Neither the header nor the options have the size of the machine.
    #[error("{name}: the header has no machine size (MaxProcs or MaxNodes); give the number of processors")]
    NoMachine {
        /// Path, or "standard input".
        name: String,
    },
    /// The size of the machine is out of range.
    #[error(
        "{name}: a machine of {processors} processors in nodes of {unit} is out of range; \
         give a number of processors between {unit} and 2147483647"
    )]
    BadMachine {
        /// Path, or "standard input".
        name: String,
        /// Size of the machine.
        processors: i64,
        /// Size of a node.
        unit: u32,
    },
    /// The file has no job lines.
    #[error("{name}: there is no job in it; check that this is a log in Standard Workload Format")]
    NoJobLine {
        /// Path, or "standard input".
        name: String,
    },
    /// Nothing in the file is a header or a job line of a log.
    #[error(
        "{name}:{}: not a log in Standard Workload Format: a job line has 18 numbers separated by blanks, and this \
         begins with {:?}; the file looks like {}",
        malformed.line, String::from_utf8_lossy(&malformed.beginning), malformed.looks_like()
    )]
    NotSwf {
        /// Path, or "standard input".
        name: String,
        /// The first line.
        malformed: Malformed,
    },
    /// All job lines were dropped or not selected.
    #[error("{name}: no job is left ({report}); check the file, the machine size and the range")]
    NoSoundJob {
        /// Path, or "standard input".
        name: String,
        /// Counts of the job lines.
        report: Box<CleaningReport>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_takes_forty_bytes() {
        assert_eq!(size_of::<Job>(), 40);
    }
}

#[cfg(test)]
mod report_tests {
    use super::*;

    fn example() -> CleaningReport {
        let mut mends = Mends::NONE;
        mends.add(Reason::RunCutAtRequest);
        let mut report = CleaningReport { read: 5, outside_range: 1, ..CleaningReport::default() };
        report.drop_one(Reason::NoRunTime);
        report.drop_one(Reason::NoRunTime);
        report.keep_one(Mends::NONE);
        report.keep_one(mends);
        report
    }

    #[test]
    fn a_report_is_written_as_maps_from_code_to_count() {
        let json = serde_json::to_string(&example()).unwrap();
        let expected = r#"{"read":5,"kept":2,"outside_range":1,"#.to_owned()
            + r#""dropped":{"no-run-time":2},"mended":{"run-cut-at-request":1}}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn a_report_is_a_sentence_for_people() {
        assert_eq!(
            example().to_string(),
            "5 job lines read, 2 kept, 1 outside the range, 2 no-run-time, 1 run-cut-at-request"
        );
    }

    #[test]
    fn only_drops_count_as_dropped() {
        assert_eq!(example().dropped(), 2);
    }
}
