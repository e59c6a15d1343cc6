//! Loads a log: applies the cleaning rules to every record, counts the results, and sorts the jobs by submission.
//! The machine size is the caller's or, at the first job line, the header's. A loaded trace is never empty: a log
//! without a sound job is an error.

use super::clean::{Rules, Verdict};
use super::job::{CleaningReport, Job, LoadError, LoadOptions};
use crate::LARGEST;
use crate::reason::{Mends, Reason};
use crate::swf::{Header, Outcome, Reader, Record};
use bookahead_plan::{Capacity, Time};
use std::io::Read;
use std::path::Path;

/// Largest number of jobs for which memory is reserved because the header announces them. A header can announce
/// any number.
const MOST_PROMISED_JOBS: i64 = 1 << 20;

/// A cleaned log: jobs in order of submission; jobs of one instant in the order of the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Header of the log.
    pub header: Header,
    /// Size of the machine, in units.
    pub machine: Capacity,
    /// Processors per unit.
    pub unit: u32,
    /// Sound jobs; at least one.
    pub jobs: Vec<Job>,
    /// Record of each job, in the order of `jobs`; empty unless [`LoadOptions::keep_records`] is set.
    pub records: Vec<Record>,
    /// Counts of the job lines.
    pub report: CleaningReport,
}

impl Trace {
    /// Loads a file, plain or gzip; `-` is standard input.
    pub fn load(path: &Path, options: &LoadOptions) -> Result<Trace, LoadError> {
        Loading::new(Reader::open(path)?, options)?.finish()
    }

    /// Loads from `source`, plain or gzip; errors call it `name`.
    pub fn read<R: Read>(
        name: impl Into<String>,
        source: R,
        options: &LoadOptions,
    ) -> Result<Trace, LoadError> {
        Loading::new(Reader::new(name, source)?, options)?.finish()
    }
}

/// A log that is being loaded.
struct Loading<'a, R: Read> {
    reader: Reader<R>,
    options: &'a LoadOptions,
    /// Set at the first job line, when the header is complete.
    rules: Option<Rules>,
    latest: Time,
    jobs: Vec<Job>,
    records: Vec<Record>,
    report: CleaningReport,
}

impl<'a, R: Read> Loading<'a, R> {
    fn new(reader: Reader<R>, options: &'a LoadOptions) -> Result<Loading<'a, R>, LoadError> {
        if options.unit == 0 {
            return Err(LoadError::UnitZero);
        }
        if options.first == Some(0) {
            return Err(LoadError::FirstZero);
        }
        Ok(Loading {
            reader,
            options,
            rules: None,
            latest: Time::MIN,
            jobs: Vec::new(),
            records: Vec::new(),
            report: CleaningReport::default(),
        })
    }

    fn finish(mut self) -> Result<Trace, LoadError> {
        self.take_jobs()?;
        let malformed = self.report.count(Reason::MalformedLine) + self.report.count(Reason::LineTooLong);
        if malformed == self.report.read
            && let Some(error) = self.not_swf()
        {
            return Err(error);
        }
        let Loading { reader, rules, options, jobs, records, report, .. } = self;
        let name = reader.name().to_owned();
        let Some(rules) = rules else { return Err(LoadError::NoJobLine { name }) };
        if jobs.is_empty() {
            return Err(LoadError::NoSoundJob { name, report: Box::new(report) });
        }
        // Most logs are already in order and need no sorting.
        let (jobs, records) = match report.count(Reason::SubmitOutOfOrder) {
            0 => (jobs, records),
            _ => in_order(jobs, records),
        };
        let header = reader.into_header();
        Ok(Trace { header, machine: rules.machine, unit: options.unit, jobs, records, report })
    }

    /// Loads jobs until the file ends or [`LoadOptions::first`] is reached.
    fn take_jobs(&mut self) -> Result<(), LoadError> {
        let enough = self.options.first.unwrap_or(usize::MAX);
        while self.jobs.len() < enough {
            let Some(job) = self.reader.next_job()? else { break };
            let rules = match self.rules {
                Some(rules) => rules,
                // Without a header and with a malformed line, the machine size is not what is missing.
                None => self.begin().map_err(|error| self.not_swf().unwrap_or(error))?,
            };
            self.report.read += 1;
            let verdict = match job.outcome {
                Outcome::Sound(mends) => rules.judge(self.reader.record(), mends),
                Outcome::Dropped(reason) => Verdict::Drop(reason),
            };
            self.settle(job.line, verdict)?;
        }
        Ok(())
    }

    /// The error for a file without a header whose first line is malformed.
    #[cold]
    fn not_swf(&self) -> Option<LoadError> {
        let malformed = self.reader.first_malformed()?.clone();
        let headed = self.reader.header().lines().next().is_some();
        (!headed).then(|| LoadError::NotSwf { name: self.reader.name().to_owned(), malformed })
    }

    /// Called at the first job line, when the header is complete.
    #[cold]
    fn begin(&mut self) -> Result<Rules, LoadError> {
        let header = self.reader.header();
        let promised = header.number("MaxRecords").or(header.number("MaxJobs")).unwrap_or(0);
        let promised = usize::try_from(promised.clamp(0, MOST_PROMISED_JOBS)).unwrap_or(0);
        let room = promised.min(self.options.first.unwrap_or(promised));
        self.jobs.reserve(room);
        let rules = Rules {
            machine: machine(self.reader.name(), header, self.options)?,
            unit: self.options.unit,
            overruns: self.options.overruns,
            range: self.options.range,
        };
        self.rules = Some(rules);
        Ok(rules)
    }

    #[inline]
    fn settle(&mut self, line: u64, verdict: Verdict) -> Result<(), LoadError> {
        match verdict {
            Verdict::Keep(job, mends) => self.keep(line, job, mends)?,
            Verdict::Drop(reason) => {
                self.tolerate(line, reason)?;
                self.report.drop_one(reason);
            }
            Verdict::OutsideRange => self.report.outside_range += 1,
        }
        Ok(())
    }

    #[inline]
    fn keep(&mut self, line: u64, job: Job, mut mends: Mends) -> Result<(), LoadError> {
        if job.submit < self.latest {
            mends.add(Reason::SubmitOutOfOrder);
        } else {
            self.latest = job.submit;
        }
        if let Some(reason) = mends.first() {
            self.tolerate(line, reason)?;
        }
        self.report.keep_one(mends);
        self.jobs.push(job);
        if self.options.keep_records {
            self.records.push(*self.reader.record());
        }
        Ok(())
    }

    #[inline]
    fn tolerate(&self, line: u64, reason: Reason) -> Result<(), LoadError> {
        if !self.options.strict {
            return Ok(());
        }
        Err(LoadError::Strict { name: self.reader.name().to_owned(), line, reason })
    }
}

/// Size of the machine in units: from the options, else from the header.
fn machine(name: &str, header: &Header, options: &LoadOptions) -> Result<Capacity, LoadError> {
    let told = options.processors.map(|processors| i64::from(processors.0));
    let Some(processors) = told.or_else(|| header.processors()) else {
        return Err(LoadError::NoMachine { name: name.to_owned() });
    };
    let unit = options.unit;
    // Processors beyond the last complete node cannot be used.
    match u32::try_from(processors / i64::from(unit)) {
        Ok(units) if units > 0 && processors <= LARGEST => Ok(Capacity(units)),
        _ => Err(LoadError::BadMachine { name: name.to_owned(), processors, unit }),
    }
}

/// Sorts by submit time; the sort is stable, so jobs of one instant stay in the order of the file.
fn in_order(mut jobs: Vec<Job>, records: Vec<Record>) -> (Vec<Job>, Vec<Record>) {
    if records.is_empty() {
        jobs.sort_by_key(|job| job.submit);
        return (jobs, records);
    }
    let mut pairs: Vec<(Job, Record)> = jobs.into_iter().zip(records).collect();
    pairs.sort_by_key(|(job, _)| job.submit);
    pairs.into_iter().unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Interval;

    /// A log of the machine's 10 processors with one job line per `(job, submit, run, processors)`.
    fn log(jobs: &[(i64, i64, i64, i64)]) -> String {
        let mut text = "; MaxProcs: 10\n".to_owned();
        for (job, submit, run, processors) in jobs {
            text += &format!("{job} {submit} -1 {run} -1 -1 -1 {processors} 100{}\n", " -1".repeat(9));
        }
        text
    }

    fn load(text: &str, options: LoadOptions) -> Result<Trace, LoadError> {
        Trace::read("log", text.as_bytes(), &options)
    }

    fn numbers(trace: &Trace) -> Vec<i64> {
        trace.jobs.iter().map(|job| job.number).collect()
    }

    #[track_caller]
    fn check_error(text: &str, options: LoadOptions, expected: &str) {
        assert_eq!(load(text, options).unwrap_err().to_string(), expected);
    }

    #[test]
    fn jobs_are_ordered_by_submission_and_ties_stay_as_in_the_file() {
        let text = log(&[(1, 5, 1, 1), (2, 3, 1, 1), (3, 5, 1, 1), (4, 3, 1, 1), (5, 9, 1, 1)]);
        for keep_records in [false, true] {
            let trace = load(&text, LoadOptions { keep_records, ..LoadOptions::default() }).unwrap();
            assert_eq!(numbers(&trace), [2, 4, 1, 3, 5]);
            assert_eq!(trace.report.count(Reason::SubmitOutOfOrder), 2);
            let records: Vec<_> = trace.records.iter().map(|record| record.job).collect();
            assert_eq!(records, if keep_records { vec![2, 4, 1, 3, 5] } else { vec![] });
        }
    }

    #[test]
    fn only_the_first_sound_jobs_are_taken_and_reading_stops_there() {
        let text = log(&[(1, 1, 1, 1), (2, 2, 0, 1), (3, 3, 1, 1), (4, 4, 1, 1)]);
        let trace = load(&text, LoadOptions { first: Some(2), ..LoadOptions::default() }).unwrap();
        assert_eq!(numbers(&trace), [1, 3]);
        assert_eq!((trace.report.read, trace.report.kept, trace.report.dropped()), (3, 2, 1));
    }

    #[test]
    fn jobs_outside_the_range_are_counted_apart() {
        let text = log(&[(1, 1, 1, 1), (2, 2, 1, 1), (3, 3, 1, 1), (4, 4, 1, 1)]);
        let range = Some(Interval::new(Time(2), Time(4)));
        let trace = load(&text, LoadOptions { range, ..LoadOptions::default() }).unwrap();
        assert_eq!(numbers(&trace), [2, 3]);
        assert_eq!((trace.report.outside_range, trace.report.dropped()), (2, 0));
    }

    #[test]
    fn the_machine_is_the_callers_then_the_headers() {
        let text = log(&[(1, 1, 1, 10)]);
        assert_eq!(load(&text, LoadOptions::default()).unwrap().machine, Capacity(10));
        let larger = LoadOptions { processors: Some(Capacity(64)), unit: 8, ..LoadOptions::default() };
        let trace = load(&text, larger).unwrap();
        assert_eq!((trace.machine, trace.jobs[0].processors), (Capacity(8), Capacity(2)));
    }

    #[test]
    fn impossible_machines_are_refused() {
        let unknown = "1 1 -1 1 1\n";
        let expected =
            "log: the header has no machine size (MaxProcs or MaxNodes); give the number of processors";
        check_error(unknown, LoadOptions::default(), expected);
        let none = LoadOptions { processors: Some(Capacity(0)), ..LoadOptions::default() };
        assert!(matches!(load(unknown, none), Err(LoadError::BadMachine { processors: 0, .. })));
        let below_a_node = LoadOptions { processors: Some(Capacity(7)), unit: 8, ..LoadOptions::default() };
        assert!(matches!(load(unknown, below_a_node), Err(LoadError::BadMachine { .. })));
        let huge = "; MaxProcs: 2147483648\n1 1 -1 1 1\n";
        assert!(matches!(load(huge, LoadOptions::default()), Err(LoadError::BadMachine { .. })));
        let no_unit = LoadOptions { unit: 0, ..LoadOptions::default() };
        assert!(matches!(load(unknown, no_unit), Err(LoadError::UnitZero)));
    }

    #[test]
    fn to_ask_for_no_job_is_an_error() {
        let none = LoadOptions { first: Some(0), ..LoadOptions::default() };
        assert!(matches!(load(&log(&[(1, 1, 1, 1)]), none), Err(LoadError::FirstZero)));
    }

    #[test]
    fn strict_loading_stops_at_the_first_job_dropped_or_mended() {
        let strict = LoadOptions { strict: true, ..LoadOptions::default() };
        assert!(load(&log(&[(1, 1, 1, 1)]), strict).is_ok());
        let expected =
            "log:3: the job did not run (field 4); correct the line, or load without strict checking";
        check_error(&log(&[(1, 1, 1, 1), (2, 2, 0, 1)]), strict, expected);
        for mended in [log(&[(1, 1, 101, 1)]), log(&[(1, 2, 1, 1), (2, 1, 1, 1)])] {
            assert!(matches!(load(&mended, strict), Err(LoadError::Strict { .. })));
        }
    }

    #[test]
    fn a_log_without_jobs_and_one_without_sound_jobs_are_told_apart() {
        for empty in ["", "\n\n", "; MaxProcs: 10\n"] {
            assert!(matches!(load(empty, LoadOptions::default()), Err(LoadError::NoJobLine { .. })));
        }
        let expected = "log: no job is left (2 job lines read, 0 kept, 1 malformed-line, 1 no-run-time); \
                        check the file, the machine size and the range";
        check_error(&(log(&[(1, 1, 0, 1)]) + "no log\n"), LoadOptions::default(), expected);
    }

    #[test]
    fn a_file_of_another_format_is_not_a_log() {
        let not = "not a log in Standard Workload Format: a job line has 18 numbers separated by blanks, and this \
                   begins with";
        for processors in [None, Some(Capacity(8))] {
            let options = LoadOptions { processors, ..LoadOptions::default() };
            let csv = "a table with separators (CSV)";
            check_error(
                "\njob,submit\n1,2\n",
                options,
                &format!("log:2: {not} \"job,submit\"; the file looks like {csv}"),
            );
            check_error(
                "{\"a\": 1}\n",
                options,
                &format!("log:1: {not} \"{{\\\"a\\\": 1}}\"; the file looks like JSON"),
            );
        }
        let png = Trace::read("log", &b"\x89PNG\r\n\x1a\n\0\0"[..], &LoadOptions::default()).unwrap_err();
        assert!(png.to_string().ends_with("looks like an image"), "{png}");
        let headed = load("; MaxProcs: 8\nno log\n", LoadOptions::default());
        assert!(matches!(headed, Err(LoadError::NoSoundJob { .. })));
        let mixed = LoadOptions { processors: Some(Capacity(8)), ..LoadOptions::default() };
        let text = log(&[(1, 1, 1, 1)]).replace("; MaxProcs: 10", "no log");
        assert_eq!(load(&text, mixed).unwrap().jobs.len(), 1, "one bad line is dropped");
    }

    #[test]
    fn a_promise_in_the_header_costs_nothing() {
        let text = "; MaxJobs: 9223372036854775807\n".to_owned() + &log(&[(1, 1, 1, 1)]);
        assert_eq!(load(&text, LoadOptions::default()).unwrap().jobs.len(), 1);
    }
}
