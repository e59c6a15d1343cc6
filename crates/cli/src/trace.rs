//! Selecting and loading a workload trace: the options shared by all commands that read one.

use crate::output::{count, plural, say};
use crate::sweep::values::Numbers;
use crate::times::Instant;
use anyhow::{Context, Result, anyhow, ensure};
use bookahead_figure::Clock;
use bookahead_plan::{Capacity, Interval, Time};
use bookahead_workload::swf::{Header, Reader};
use bookahead_workload::trace::{CleaningReport, Estimates, scale_load};
use bookahead_workload::{LoadError, LoadOptions, Overrun, Trace};
use clap::Args;
use clap::builder::{PathBufValueParser, PossibleValue, PossibleValuesParser, TypedValueParser};
use jiff::Timestamp;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(crate) struct TraceArguments {
    /// Trace in Standard Workload Format, plain or gzip; - for standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,

    /// Size of the machine in processors [default: from the header of the trace]
    #[arg(long, short, value_name = "N", help_heading = "Jobs")]
    pub(crate) processors: Option<u32>,

    /// Allocate whole nodes of N processors
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Jobs")]
    unit: u32,

    /// Use only the first N valid jobs
    #[arg(long, short = 'n', value_name = "N", help_heading = "Jobs")]
    first: Option<usize>,

    /// Use only jobs submitted at or after this time (seconds of the trace, or RFC 3339)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Jobs")]
    from: Option<Instant>,

    /// Use only jobs submitted before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Jobs")]
    to: Option<Instant>,

    /// Multiply the load by FACTOR, by dividing the gaps between submissions; simulate also takes several: 1,1.2,1.4
    /// or 1..2:0.1
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, help_heading = "Jobs")]
    load: Option<Numbers>,

    /// Run-time estimates given to the scheduler: requested, actual, or factor:F (F times the actual)
    #[arg(long, value_name = "SOURCE", default_value = "requested", help_heading = "Jobs")]
    estimates: Estimates,

    /// How to treat jobs that ran longer than they requested
    #[arg(long, value_name = "RULE", value_parser = overrun(), default_value = "kill", help_heading = "Jobs")]
    pub(crate) overrun: Overrun,

    /// Fail at the first job that would be dropped or repaired, and report its line
    #[arg(long, help_heading = "Jobs")]
    strict: bool,
}

fn overrun() -> impl TypedValueParser<Value = Overrun> {
    let rules = [
        ("kill", "Kill the job when its requested time is used up"),
        ("extend", "Let the job finish, unless a reservation needs its processors"),
        ("drop", "Leave the job out"),
    ];
    let named = rules.map(|(name, help)| PossibleValue::new(name).help(help));
    PossibleValuesParser::new(named).map(|name| match name.as_str() {
        "extend" => Overrun::Extend,
        "drop" => Overrun::Drop,
        _ => Overrun::Kill,
    })
}

impl TraceArguments {
    /// Loads the trace, reports dropped and repaired jobs on standard error, and applies load and estimates.
    pub(crate) fn load(&self, keep_records: bool) -> Result<Trace> {
        self.load_for(self.processors, keep_records)
    }

    /// The same, for a machine of this size in processors; None if the header tells.
    pub(crate) fn load_for(&self, processors: Option<u32>, keep_records: bool) -> Result<Trace> {
        ensure!(self.loads().len() < 2, "--load takes one factor here; simulate takes several");
        let mut trace = self.read(&self.options(processors, keep_records)?)?;
        self.adapt(&mut trace, self.loads().first().copied(), false)?;
        Ok(trace)
    }

    /// The factors of `--load`.
    pub(crate) fn loads(&self) -> &[f64] {
        self.load.as_ref().map_or(&[], |Numbers(numbers)| numbers)
    }

    /// Which jobs are read, and how they are cleaned.
    pub(crate) fn options(&self, processors: Option<u32>, keep_records: bool) -> Result<LoadOptions> {
        Ok(LoadOptions {
            processors: processors.map(Capacity),
            unit: self.unit,
            overruns: self.overrun,
            first: self.first,
            range: self.range()?,
            strict: self.strict,
            keep_records,
        })
    }

    /// Loads the trace and reports dropped and repaired jobs on standard error.
    pub(crate) fn read(&self, options: &LoadOptions) -> Result<Trace> {
        let trace = Trace::load(&self.trace, options).map_err(with_option)?;
        report(&self.name(), &trace.report);
        Ok(trace)
    }

    /// Applies load and estimates.
    pub(crate) fn adapt(&self, trace: &mut Trace, load: Option<f64>, quiet: bool) -> Result<()> {
        if let Some(factor) = load {
            scale_load(&mut trace.jobs, factor)?;
        }
        self.estimate(trace, quiet)
    }

    /// Applies the estimates. A job that is dropped for its estimate is removed together with its record.
    fn estimate(&self, trace: &mut Trace, quiet: bool) -> Result<()> {
        // Jobs to drop are kept here and removed below, because their records must go with them.
        let rule = if self.overrun == Overrun::Drop { Overrun::Extend } else { self.overrun };
        let changed = self.estimates.apply(&mut trace.jobs, rule)?;
        if changed == 0 {
            return Ok(());
        }
        let changed = plural(changed as u64, "job");
        if !quiet {
            say!("{changed} longer than estimated; --overrun decides how they are treated");
        }
        if self.overrun == Overrun::Drop {
            let mut jobs = trace.jobs.iter();
            trace.records.retain(|_| jobs.next().is_some_and(|job| job.run <= job.request));
            trace.jobs.retain(|job| job.run <= job.request);
            let name = self.name();
            ensure!(!trace.jobs.is_empty(), "{name}: no jobs left; check --estimates and --overrun");
        }
        Ok(())
    }

    /// The file name without its folder, or `standard input`.
    pub(crate) fn name(&self) -> String {
        let name = self.trace.file_name().unwrap_or(self.trace.as_os_str());
        if name == "-" { "standard input".to_owned() } else { name.to_string_lossy().into_owned() }
    }

    fn range(&self) -> Result<Option<Interval>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        // Only calendar times need the start date, which costs opening the file a second time.
        let calendar = [self.from, self.to].iter().any(|time| matches!(time, Some(Instant::Calendar(_))));
        let unix_start = if calendar { self.unix_start()? } else { None };
        let in_trace = |time: Instant| time.in_trace(unix_start).with_context(|| self.name());
        let begin = self.from.map_or(Ok(Time::MIN), in_trace)?;
        let end = self.to.map_or(Ok(Time::MAX), in_trace)?;
        ensure!(begin < end, "--from {begin} is not before --to {end} (seconds of the trace)");
        Ok(Some(Interval::new(begin, end)))
    }

    /// `UnixStartTime` of the header.
    fn unix_start(&self) -> Result<Option<i64>> {
        ensure!(
            self.trace != Path::new("-"),
            "a calendar time needs a trace in a file, not on standard input; use a file, or seconds of the trace"
        );
        let mut reader = Reader::open(&self.trace)?;
        // The header is complete once the first job has been read.
        reader.next_job().context("while reading the start date of the trace")?;
        Ok(reader.header().unix_start_time())
    }
}

/// Adds the option that would avoid the error.
fn with_option(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::NoMachine { .. } => anyhow!("{error}, for example --processors 128"),
        other => other.into(),
    }
}

/// The header of the trace, with `MaxProcs` set to the size of the machine that the jobs were selected for.
pub(crate) fn header(trace: &Trace) -> Header {
    let mut header = trace.header.clone();
    let processors = i64::from(trace.machine.0) * i64::from(trace.unit);
    // An unchanged size leaves the header as it was written.
    if header.processors() != Some(processors) {
        header.set("MaxProcs", processors);
    }
    header
}

/// Refuses `-`: the file is written in addition to the data on standard output, and the two must not be mixed.
pub(crate) fn file_not_stdout() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some("-") => Err("standard output is used for other data; use a file name"),
        _ => Ok(path),
    })
}

fn report(name: &str, report: &CleaningReport) {
    let (dropped, outside) = (report.dropped(), report.outside_range);
    say!("{name}: {} of {} kept", count(report.kept), plural(report.read, "job"));
    if outside > 0 {
        say!("  {} outside the range", count(outside));
    }
    if dropped > 0 {
        say!("  {} dropped:", count(dropped));
    }
    for (reason, number) in report.counts().filter(|(reason, _)| reason.is_drop()) {
        say!("    {:>9}  {}", count(number), reason.sentence());
    }
    if report.counts().any(|(reason, _)| !reason.is_drop()) {
        say!("  repaired:");
    }
    for (reason, number) in report.counts().filter(|(reason, _)| !reason.is_drop()) {
        say!("    {:>9}  {}", count(number), reason.sentence());
    }
}

/// `128 processors`, or `16 nodes of 8 processors`.
pub(crate) fn machine(trace: &Trace) -> String {
    let size = u64::from(trace.machine.0);
    if trace.unit == 1 {
        return plural(size, "processor");
    }
    format!("{} of {}", plural(size, "node"), plural(u64::from(trace.unit), "processor"))
}

pub(crate) fn unit_name(trace: &Trace) -> &'static str {
    if trace.unit == 1 { "processors" } else { "nodes" }
}

/// Charts show dates if the trace has a start date, and the time since its start otherwise.
pub(crate) fn clock(trace: &Trace) -> Clock {
    trace.header.unix_start_time().map_or(Clock::SinceStart, |unix_of_zero| Clock::Utc { unix_of_zero })
}

/// An RFC 3339 time if the trace has a start date; otherwise the time since its start: `day 3 04:12:00`. The first day
/// is day 1.
pub(crate) fn instant(trace: &Trace, time: Time) -> String {
    let start = trace.header.unix_start_time();
    let date = start.and_then(|start| Timestamp::from_second(start.saturating_add(time.0)).ok());
    date.map_or_else(|| since_start(time), |date| date.to_string())
}

pub(crate) fn since_start(Time(seconds): Time) -> String {
    let (day, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let day = i128::from(day) + 1;
    format!("day {day} {:02}:{:02}:{:02}", rest / 3_600, rest / 60 % 60, rest % 60)
}
