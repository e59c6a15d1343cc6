//! Counts of an import, and its errors.

use crate::files::FileError;
use std::collections::BTreeMap;
use std::fmt;
use thiserror::Error;

/// Most lines that are told one by one.
const MOST_TOLD: usize = 20;

/// Why a line or row cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// The line is longer than 64 KiB.
    #[error("the line is longer than 64 KiB")]
    TooLong,
    /// The line is not UTF-8.
    #[error("the line is not UTF-8 text")]
    NotText,
    /// Too few or too many values.
    #[error("{found} values, but {expected} columns")]
    WrongCount {
        /// Values of the line.
        found: usize,
        /// Columns of the table.
        expected: usize,
    },
    /// A value cannot be read.
    #[error("cannot read {value:?} as {column}")]
    BadValue {
        /// Column or attribute.
        column: String,
        /// The value, at most 40 characters.
        value: String,
    },
    /// The line is no record of the format.
    #[error("this is not an accounting record")]
    NotARecord,
    /// The submit time is unknown.
    #[error("the submit time is unknown")]
    NoSubmitTime,
    /// The job ends before it starts, or before its submission.
    #[error("the job ends before it starts or is submitted")]
    TimesOutOfOrder,
    /// A number is too large or negative.
    #[error("a time or a size is out of range")]
    OutOfRange,
}

impl Problem {
    /// A value that cannot be read.
    pub fn bad_value(column: &str, value: &str) -> Problem {
        Problem::BadValue { column: column.to_owned(), value: value.chars().take(40).collect() }
    }
}

/// A line that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadLine {
    /// Path, or "standard input".
    pub file: String,
    /// Number of the line or row; the first is 1.
    pub line: u64,
    /// What is wrong with it.
    pub problem: Problem,
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.problem)
    }
}

/// Lines that are sound and give no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Skipped {
    /// Names of columns.
    Header,
    /// A step of a job.
    Step,
    /// The sum of a job array, whose tasks have lines of their own.
    ArrayParent,
    /// A job that waits or runs.
    NotEnded,
    /// A record of another kind than the end of a job.
    OtherRecord,
}

impl Skipped {
    /// For people.
    pub fn sentence(self) -> &'static str {
        match self {
            Skipped::Header => "lines with names of columns",
            Skipped::Step => "steps of jobs",
            Skipped::ArrayParent => "job arrays as a whole, whose tasks have their own lines",
            Skipped::NotEnded => "jobs that had not ended",
            Skipped::OtherRecord => "records other than the end of a job",
        }
    }
}

/// Counts of the lines of an import: jobs + skipped + bad = lines, without jobs that were only seen to start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Lines that are not blank.
    pub lines: u64,
    /// Jobs in the log.
    pub jobs: u64,
    /// Lines that cannot be used.
    pub bad: u64,
    /// The first of them.
    pub first_bad: Vec<BadLine>,
    skipped: BTreeMap<Skipped, u64>,
}

impl Report {
    /// Sound lines without a job, by kind.
    pub fn skipped(&self) -> impl Iterator<Item = (Skipped, u64)> {
        self.skipped.iter().map(|(kind, count)| (*kind, *count))
    }

    pub(super) fn skip(&mut self, kind: Skipped) {
        *self.skipped.entry(kind).or_default() += 1;
    }

    pub(super) fn add_bad(&mut self, bad: BadLine) {
        self.bad += 1;
        if self.first_bad.len() < MOST_TOLD {
            self.first_bad.push(bad);
        }
    }
}

/// Why nothing is imported.
#[derive(Debug, Error)]
pub enum ImportError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The first line is of no known format.
    #[error(
        "{name}: neither a table with the columns of sacct (first line JobID|Submit|...) nor a PBS accounting log; for \
         the first: sacct --parsable2 --format JobID,Submit,Start,End,Timelimit,ReqCPUS,AllocCPUS,State,User"
    )]
    UnknownFormat {
        /// Path, or "standard input".
        name: String,
    },
    /// A table lacks a column that is needed.
    #[error(
        "{name}: there is no column {missing}; add it to --format of sacct, or name another with --columns"
    )]
    MissingColumn {
        /// Path, or "standard input".
        name: String,
        /// The column.
        missing: &'static str,
    },
    /// A line cannot be used, and that is not tolerated.
    #[error("{0}; correct the line, or import without --strict")]
    Strict(BadLine),
    /// There is no job.
    #[error("no job in {} lines{}", report.lines, first(report))]
    NoJob {
        /// Counts of the lines.
        report: Box<Report>,
    },
}

fn first(report: &Report) -> String {
    report.first_bad.first().map_or_else(String::new, |bad| format!("; {bad}"))
}
