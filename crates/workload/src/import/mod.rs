//! Accounting records of batch systems turned into a log: output of `sacct --parsable2` ([`sacct`]), PBS accounting
//! logs ([`pbs`]), and tables of another reader ([`Import::row`]). A line that cannot be read is counted and told with its
//! number; the others are used. Times are seconds since 1970 in UTC; a reader of local times is passed in.
//!
//! In the log, jobs are in order of submission, users, projects, queues and partitions have numbers, and time begins with
//! the first submission.

mod pbs;
mod report;
mod sacct;
mod value;

pub use report::{BadLine, ImportError, Problem, Report, Skipped};

use crate::files::{self, FileError, Line, Lines};
use crate::swf::{Header, Record, UNKNOWN};
use crate::{LARGEST, LONGEST};
pub use sacct::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;

/// Reads a time such as `2026-11-17T09:00:00` as seconds since 1970; None if it is none.
pub type ReadTime<'a> = &'a dyn Fn(&str) -> Option<i64>;

/// Format of accounting records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A table with columns separated by `|` and a line with their names: `sacct --parsable2 --format ...`.
    Sacct,
    /// Accounting log of PBS or Torque.
    Pbs,
}

/// What a job's size is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Processors.
    #[default]
    Processors,
    /// Nodes, for clusters that allocate whole nodes.
    Nodes,
}

/// Options of an import.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ImportOptions {
    /// What sizes are counted in.
    pub unit: Unit,
    /// Use the time at which a job became eligible instead of its submission, if it is known.
    pub eligible: bool,
    /// Write the names of users and projects into the header.
    pub names: bool,
    /// Size of the machine.
    pub machine: Option<u32>,
    /// Fail at the first line that cannot be read.
    pub strict: bool,
    /// Columns of a table that are named otherwise: the name that sacct has, and the name in the table.
    pub columns: Vec<(String, String)>,
}

/// One job, or one run of a job that ran several times. Unknown values are None, unknown names empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Accounted<'a> {
    /// Number in the batch system, if it is one whole number.
    number: Option<i64>,
    /// Submission, in seconds since 1970, as all times.
    submit: Option<i64>,
    /// When it could have started: dependencies met, no longer held.
    eligible: Option<i64>,
    /// Start.
    start: Option<i64>,
    /// End.
    end: Option<i64>,
    /// Time limit, in seconds.
    limit: Option<i64>,
    /// Allocated processors or nodes.
    allocated: Option<i64>,
    /// Requested processors or nodes.
    requested: Option<i64>,
    /// Status in the log: 0 failed, 1 completed, 5 cancelled.
    status: Option<i64>,
    /// Owner.
    user: &'a str,
    /// Project, account or group.
    group: &'a str,
    /// Queue, or quality of service.
    queue: &'a str,
    /// Partition.
    partition: &'a str,
    /// Name of the job or program.
    application: &'a str,
}

/// The log.
#[derive(Debug, Clone, PartialEq)]
pub struct Imported {
    /// Where it came from, its start, and names for the numbers.
    pub header: Header,
    /// In order of submission.
    pub records: Vec<Record>,
    /// Counts of lines.
    pub report: Report,
}

/// Names with their numbers, in the order of their first use.
#[derive(Debug, Default)]
pub struct Names(BTreeMap<String, i64>);

impl Names {
    /// The number of a name; unknown if it is empty.
    pub fn number(&mut self, name: &str) -> i64 {
        if name.is_empty() {
            return UNKNOWN;
        }
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len() as i64 + 1;
        self.0.insert(name.to_owned(), number);
        number
    }

    /// Adds a line such as `; User: 1 ada` for each name.
    pub fn describe(&self, key: &str, header: &mut Header) {
        let mut all: Vec<(i64, &str)> =
            self.0.iter().map(|(name, number)| (*number, name.as_str())).collect();
        all.sort_unstable();
        all.into_iter().for_each(|(number, name)| header.push(key, format_args!("{number} {name}")));
    }
}

/// An import in progress.
pub struct Import<'a> {
    options: &'a ImportOptions,
    time: ReadTime<'a>,
    sources: Vec<String>,
    records: Vec<Record>,
    users: Names,
    groups: Names,
    queues: Names,
    partitions: Names,
    applications: Names,
    /// Jobs that have started and not ended, of formats that tell of both.
    started: BTreeSet<String>,
    report: Report,
}

/// A reader of the lines of one file.
enum LineReader {
    Table(Table),
    Pbs,
}

impl<'a> Import<'a> {
    /// Begins an import. `time` reads local times.
    pub fn new(options: &'a ImportOptions, time: ReadTime<'a>) -> Import<'a> {
        Import {
            options,
            time,
            sources: Vec::new(),
            records: Vec::new(),
            users: Names::default(),
            groups: Names::default(),
            queues: Names::default(),
            partitions: Names::default(),
            applications: Names::default(),
            started: BTreeSet::new(),
            report: Report::default(),
        }
    }

    /// Reads a file, plain or gzip; `-` is standard input. Without a format it is recognised by the first line.
    pub fn read_file(&mut self, path: &Path, format: Option<Format>) -> Result<(), ImportError> {
        let (name, source) = files::open(path)?;
        self.read(&name, source, format)
    }

    /// Reads from `source`, plain or gzip; errors call it `name`.
    pub fn read(&mut self, name: &str, source: impl Read, format: Option<Format>) -> Result<(), ImportError> {
        let failed = |line, cause| FileError::Read { name: name.to_owned(), line, cause };
        let mut lines = Lines::new(source).map_err(|cause| failed(1, cause))?;
        let mut reader: Option<LineReader> = None;
        self.sources.push(name.to_owned());
        loop {
            let number = lines.number() + 1;
            let text = match lines.next_line().map_err(|cause| failed(number, cause))? {
                None => return Ok(()),
                Some(Line::TooLong) => Err(Problem::TooLong),
                Some(Line::Text(bytes)) => std::str::from_utf8(bytes).map_err(|_| Problem::NotText),
            };
            if text.as_ref().is_ok_and(|text| text.trim().is_empty()) {
                continue;
            }
            self.report.lines += 1;
            let read = match (text, &reader) {
                (Err(problem), _) => Err(problem),
                (Ok(text), Some(LineReader::Table(table))) => table.line(text, self),
                (Ok(text), Some(LineReader::Pbs)) => pbs::line(text, self),
                (Ok(text), None) if format.map_or_else(|| pbs::is_record(text), |f| f == Format::Pbs) => {
                    reader = Some(LineReader::Pbs);
                    pbs::line(text, self)
                }
                (Ok(text), None) => {
                    let names: Vec<&str> = text.split('|').collect();
                    reader = Some(LineReader::Table(self.table(name, &names)?));
                    self.report.skip(Skipped::Header);
                    Ok(())
                }
            };
            if let Err(problem) = read {
                self.bad(name, number, problem)?;
            }
        }
    }

    /// Names a table that another reader reads, with its columns.
    pub fn begin_table(&mut self, name: &str, columns: &[&str]) -> Result<Table, ImportError> {
        self.sources.push(name.to_owned());
        self.table(name, columns)
    }

    fn table(&self, name: &str, columns: &[&str]) -> Result<Table, ImportError> {
        let table = Table::of_columns(columns, &self.options.columns);
        // A first line without any known column is a file of another kind.
        let table = table.ok_or_else(|| ImportError::UnknownFormat { name: name.to_owned() })?;
        table.map_err(|missing| ImportError::MissingColumn { name: name.to_owned(), missing })
    }

    /// Adds a row of a table that another reader has read, with one value for each column. `number` is told if it
    /// cannot be used.
    pub fn row(
        &mut self,
        name: &str,
        number: u64,
        table: &Table,
        values: Vec<&str>,
    ) -> Result<(), ImportError> {
        self.report.lines += 1;
        table.row(values, self).or_else(|problem| self.bad(name, number, problem))
    }

    fn bad(&mut self, file: &str, line: u64, problem: Problem) -> Result<(), ImportError> {
        let bad = BadLine { file: file.to_owned(), line, problem };
        if self.options.strict {
            return Err(ImportError::Strict(bad));
        }
        self.report.add_bad(bad);
        Ok(())
    }

    fn add(&mut self, job: &Accounted<'_>) -> Result<(), Problem> {
        let eligible = job.eligible.filter(|_| self.options.eligible);
        let submit = eligible.or(job.submit).ok_or(Problem::NoSubmitTime)?;
        let Some(end) = job.end else {
            self.report.skip(Skipped::NotEnded);
            return Ok(());
        };
        let times = [Some(submit), job.start, Some(end), job.limit];
        if times.into_iter().flatten().any(|time| !(0..=LONGEST).contains(&time)) {
            return Err(Problem::OutOfRange);
        }
        let sizes = [job.allocated, job.requested];
        if sizes.into_iter().flatten().any(|size| !(0..=LARGEST).contains(&size)) {
            return Err(Problem::OutOfRange);
        }
        let started = job.start.filter(|start| *start > 0);
        if started.is_some_and(|start| start > end) || submit > end {
            return Err(Problem::TimesOutOfOrder);
        }
        // A job that was held can be released and started in the same second as it is told eligible.
        let submit = started.map_or(submit, |start| submit.min(start));
        self.records.push(Record {
            job: job.number.unwrap_or(UNKNOWN),
            submit,
            wait: started.unwrap_or(end) - submit,
            // A job that never started has no run time; loading the log drops it and counts it.
            run: started.map_or(0, |start| end - start),
            allocated_processors: job.allocated.unwrap_or(UNKNOWN),
            requested_processors: job.requested.unwrap_or(UNKNOWN),
            requested_time: job.limit.unwrap_or(UNKNOWN),
            status: job.status.unwrap_or(UNKNOWN),
            user: self.users.number(job.user),
            group: self.groups.number(job.group),
            executable: self.applications.number(job.application),
            queue: self.queues.number(job.queue),
            partition: self.partitions.number(job.partition),
            ..Record::BLANK
        });
        self.report.jobs += 1;
        Ok(())
    }

    /// The log. It has at least one job.
    pub fn finish(mut self) -> Result<Imported, ImportError> {
        self.started.iter().for_each(|_| self.report.skip(Skipped::NotEnded));
        // Stable: jobs of one second stay in the order of the files.
        self.records.sort_by_key(|record| record.submit);
        let Some(first) = self.records.first() else {
            return Err(ImportError::NoJob { report: Box::new(self.report) });
        };
        let origin = first.submit;
        let same_numbers = self.number_jobs();
        self.records.iter_mut().for_each(|record| record.submit -= origin);
        let mut header = Header::default();
        header.push("Version", "2.2");
        header.push("Conversion", "bookahead workload import");
        self.sources.iter().for_each(|source| header.push("Note", format_args!("imported from {source}")));
        if !same_numbers {
            header.push("Note", "jobs have new numbers, in order of submission");
        }
        if self.options.eligible {
            header.push("Note", "submit times are those at which jobs became eligible");
        }
        header.push("MaxJobs", self.records.len());
        header.push("MaxRecords", self.records.len());
        header.push("UnixStartTime", origin);
        if let Some(machine) = self.options.machine {
            header.push(if self.options.unit == Unit::Nodes { "MaxNodes" } else { "MaxProcs" }, machine);
        }
        if self.options.unit == Unit::Nodes {
            header.push("Note", "sizes are in nodes");
        }
        self.queues.describe("Queue", &mut header);
        self.partitions.describe("Partition", &mut header);
        if self.options.names {
            self.users.describe("User", &mut header);
            self.groups.describe("Group", &mut header);
        }
        Ok(Imported { header, records: self.records, report: self.report })
    }

    /// Keeps the numbers of the batch system if every job has one of its own; otherwise counts from 1.
    fn number_jobs(&mut self) -> bool {
        let mut numbers: Vec<i64> = self.records.iter().map(|record| record.job).collect();
        numbers.sort_unstable();
        let all_differ = numbers.windows(2).all(|pair| pair[0] < pair[1]);
        if all_differ && numbers.first().is_some_and(|number| *number >= 0) {
            return true;
        }
        for (at, record) in self.records.iter_mut().enumerate() {
            record.job = at as i64 + 1;
        }
        false
    }
}

#[cfg(test)]
mod tests;
