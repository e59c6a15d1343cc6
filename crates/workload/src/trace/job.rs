//! What a log is loaded into and how: a job as schedulers see it, what may be chosen, the account of what became of the job
//! lines, and why a log gives no trace. The defaults are the rules under which Bookahead's results are compared with others.
//! For every loaded trace, kept + dropped + outside the range = read.

use crate::files::FileError;
use crate::reason::{Mends, Reason};
use crate::swf::Record;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use serde::ser::{Serialize, SerializeMap, SerializeStruct, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

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

/// What becomes of a job that ran longer than it asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overruns {
    /// Its run time is cut at the request, as a site that kills such jobs would.
    #[default]
    Cut,
    /// It runs on beyond its request.
    Keep,
    /// It leaves the trace.
    Drop,
}

/// A word that names no rule for overruns.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is no rule for jobs that run longer than they asked for; give cut, keep or drop")]
pub struct OverrunsError(String);

impl FromStr for Overruns {
    type Err = OverrunsError;

    fn from_str(text: &str) -> Result<Overruns, OverrunsError> {
        match text {
            "cut" => Ok(Overruns::Cut),
            "keep" => Ok(Overruns::Keep),
            "drop" => Ok(Overruns::Drop),
            _ => Err(OverrunsError(text.to_owned())),
        }
    }
}

/// How a log is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoadOptions {
    /// The size of the machine in processors; by default what the header says.
    pub processors: Option<Capacity>,
    /// The size of a node in processors: machine and jobs are counted in nodes of this size.
    pub unit: u32,
    /// What becomes of jobs that ran longer than they asked for.
    pub overruns: Overruns,
    /// Stop after so many sound jobs, in the order of the file.
    pub first: Option<usize>,
    /// Take only jobs submitted within.
    pub range: Option<Interval>,
    /// Take the first job that is dropped or mended for an error.
    pub strict: bool,
    /// Keep the full record of every job.
    pub keep_records: bool,
}

impl Default for LoadOptions {
    fn default() -> LoadOptions {
        LoadOptions {
            processors: None,
            unit: 1,
            overruns: Overruns::Cut,
            first: None,
            range: None,
            strict: false,
            keep_records: false,
        }
    }
}

/// What became of the job lines of a log.
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
    /// How often `reason` applied.
    pub fn count(&self, reason: Reason) -> u64 {
        self.counts[reason.index()]
    }

    /// All reasons that applied, in the order of [`Reason::ALL`].
    pub fn counts(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.into_iter().map(|reason| (reason, self.count(reason))).filter(|(_, count)| *count > 0)
    }

    /// Jobs dropped, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.counts().filter(|(reason, _)| reason.is_drop()).map(|(_, count)| count).sum()
    }

    pub(super) fn drop_one(&mut self, reason: Reason) {
        self.counts[reason.index()] += 1;
    }

    /// Counts a job that is kept.
    #[inline]
    pub(super) fn keep_one(&mut self, mends: Mends) {
        self.kept += 1;
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

/// Those counts whose reason drops, or those whose reason mends, as a map from code to count.
struct CountMap<'a> {
    report: &'a CleaningReport,
    drops: bool,
}

impl Serialize for CountMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
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

/// Why a log gives no trace.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A job was dropped or mended although none may be.
    #[error("{name}:{line}: {}; mend the line, or load without strict checking", reason.sentence())]
    Strict {
        /// The file.
        name: String,
        /// The line of the job.
        line: u64,
        /// What is wrong with it.
        reason: Reason,
    },
    /// A node of no processors.
    #[error("a node of 0 processors cannot be counted with; give a unit of at least 1")]
    UnitZero,
    /// No job is wanted.
    #[error("the first 0 jobs of a log are no trace; give at least 1")]
    FirstZero,
    /// The header does not say how large the machine is, and nobody else did.
    #[error("{name}: the header tells no machine size (MaxProcs or MaxNodes); give the number of processors")]
    NoMachine {
        /// The file.
        name: String,
    },
    /// The machine is of an impossible size.
    #[error(
        "{name}: a machine of {processors} processors in nodes of {unit} cannot be scheduled; \
         give a number of processors between {unit} and 2147483647"
    )]
    BadMachine {
        /// The file.
        name: String,
        /// Its processors.
        processors: i64,
        /// The processors of a node.
        unit: u32,
    },
    /// The file has no job line at all.
    #[error("{name}: there is no job in it; check that this is a log in Standard Workload Format")]
    NoJobLine {
        /// The file.
        name: String,
    },
    /// All job lines were dropped or not selected.
    #[error("{name}: no job is left ({report}); check the file, the machine size and the range")]
    NoSoundJob {
        /// The file.
        name: String,
        /// What became of the lines.
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
mod options_tests {
    use super::*;

    #[test]
    fn rules_for_overruns_are_named() {
        assert_eq!("cut".parse(), Ok(Overruns::Cut));
        assert_eq!("keep".parse(), Ok(Overruns::Keep));
        assert_eq!("drop".parse(), Ok(Overruns::Drop));
        assert!("kill".parse::<Overruns>().unwrap_err().to_string().contains("cut, keep or drop"));
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
