//! Choosing and loading a trace: the options that every command which reads one has in common.

use crate::output::{count, plural, say};
use crate::times::Instant;
use anyhow::{Context, Result, anyhow, ensure};
use bookahead_figure::Clock;
use bookahead_plan::{Capacity, Interval, Time};
use bookahead_sim::Overrun;
use bookahead_workload::swf::{Header, Reader};
use bookahead_workload::trace::{CleaningReport, Estimates, scale_load};
use bookahead_workload::{LoadError, LoadOptions, Overruns, Trace};
use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use std::path::{Path, PathBuf};

/// Which jobs of which trace.
#[derive(Args)]
pub(crate) struct TraceArguments {
    /// A log in Standard Workload Format, plain or gzip; - is standard input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,

    /// Size of the machine in processors; by default what the header of the trace says
    #[arg(long, short, value_name = "N", help_heading = "Jobs")]
    pub(crate) processors: Option<u32>,

    /// Count in nodes of N processors: jobs take whole nodes
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Jobs")]
    unit: u32,

    /// Take only the first N sound jobs
    #[arg(long, short = 'n', value_name = "N", help_heading = "Jobs")]
    first: Option<usize>,

    /// Take only jobs submitted at or after this time (seconds of the trace, or RFC 3339)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Jobs")]
    from: Option<Instant>,

    /// Take only jobs submitted before this time
    #[arg(long, value_name = "TIME", allow_hyphen_values = true, help_heading = "Jobs")]
    to: Option<Instant>,

    /// Multiply the load: the gaps between submissions are divided by FACTOR
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true, help_heading = "Jobs")]
    load: Option<f64>,

    /// What a scheduler believes of run times: requested, actual, or factor:F (F times the actual)
    #[arg(long, value_name = "SOURCE", default_value = "requested", help_heading = "Jobs")]
    estimates: Estimates,

    /// What becomes of a job that ran longer than it requested
    #[arg(long, value_name = "RULE", value_enum, default_value_t = OverrunRule::Kill, help_heading = "Jobs")]
    pub(crate) overrun: OverrunRule,

    /// Fail at the first job that would be dropped or mended, and say where it is
    #[arg(long, help_heading = "Jobs")]
    strict: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OverrunRule {
    /// It is killed when its request is used up
    Kill,
    /// It goes on to its end, unless a reservation needs its processors
    Extend,
    /// It is left out
    Drop,
}

impl From<OverrunRule> for Overruns {
    fn from(rule: OverrunRule) -> Overruns {
        match rule {
            OverrunRule::Kill => Overruns::Cut,
            OverrunRule::Extend => Overruns::Keep,
            OverrunRule::Drop => Overruns::Drop,
        }
    }
}

impl From<OverrunRule> for Overrun {
    fn from(rule: OverrunRule) -> Overrun {
        match rule {
            OverrunRule::Extend => Overrun::Extend,
            OverrunRule::Kill | OverrunRule::Drop => Overrun::Kill,
        }
    }
}

impl TraceArguments {
    /// Loads the trace, says on standard error what was dropped and mended, and applies load and estimates.
    pub(crate) fn load(&self, keep_records: bool) -> Result<Trace> {
        let options = LoadOptions {
            processors: self.processors.map(Capacity),
            unit: self.unit,
            overruns: self.overrun.into(),
            first: self.first,
            range: self.range()?,
            strict: self.strict,
            keep_records,
        };
        let mut trace = Trace::load(&self.trace, &options).map_err(with_option)?;
        report(&self.name(), &trace.report);
        if let Some(factor) = self.load {
            scale_load(&mut trace.jobs, factor)?;
        }
        self.estimate(&mut trace)?;
        Ok(trace)
    }

    /// Applies the estimates. Jobs that are dropped for it leave together with their records.
    fn estimate(&self, trace: &mut Trace) -> Result<()> {
        let rule = if self.overrun == OverrunRule::Drop { Overruns::Keep } else { self.overrun.into() };
        let changed = self.estimates.apply(&mut trace.jobs, rule)?;
        if changed == 0 {
            return Ok(());
        }
        let changed = plural(changed as u64, "job");
        say!("{changed} longer than estimated, treated by the rule for overruns");
        if self.overrun == OverrunRule::Drop {
            let mut jobs = trace.jobs.iter();
            trace.records.retain(|_| jobs.next().is_some_and(|job| job.run <= job.request));
            trace.jobs.retain(|job| job.run <= job.request);
            let name = self.name();
            ensure!(!trace.jobs.is_empty(), "{name}: no job is left; check --estimates and --overrun");
        }
        Ok(())
    }

    /// The trace's name for people: the file's, without its folder.
    pub(crate) fn name(&self) -> String {
        let name = self.trace.file_name().unwrap_or(self.trace.as_os_str());
        if name == "-" { "standard input".to_owned() } else { name.to_string_lossy().into_owned() }
    }

    fn range(&self) -> Result<Option<Interval>> {
        if self.from.is_none() && self.to.is_none() {
            return Ok(None);
        }
        let calendar = [self.from, self.to].iter().any(|time| matches!(time, Some(Instant::Calendar(_))));
        let unix_start = if calendar { self.unix_start()? } else { None };
        let in_trace = |time: Instant| time.in_trace(unix_start).with_context(|| self.name());
        let begin = self.from.map_or(Ok(Time::MIN), in_trace)?;
        let end = self.to.map_or(Ok(Time::MAX), in_trace)?;
        ensure!(begin < end, "--from {begin} is not before --to {end} (seconds of the trace)");
        Ok(Some(Interval::new(begin, end)))
    }

    /// When the trace began, from the head of the file.
    fn unix_start(&self) -> Result<Option<i64>> {
        ensure!(
            self.trace != Path::new("-"),
            "a calendar time needs the header before the jobs are read; give seconds of the trace, or a file"
        );
        let mut reader = Reader::open(&self.trace)?;
        reader.next_job().context("while looking for the date of the trace")?;
        Ok(reader.header().unix_start_time())
    }
}

/// Names the option where one helps.
fn with_option(error: LoadError) -> anyhow::Error {
    match error {
        LoadError::NoMachine { .. } => anyhow!("{error}, as in --processors 128"),
        other => other.into(),
    }
}

/// The header to write with the jobs: the trace's, with the size of the machine that they were chosen for.
pub(crate) fn header(trace: &Trace) -> Header {
    let mut header = trace.header.clone();
    let processors = i64::from(trace.machine.0) * i64::from(trace.unit);
    if header.processors() != Some(processors) {
        header.set("MaxProcs", processors);
    }
    header
}

/// A file beside the data on standard output; the two must not be mixed.
pub(crate) fn file_not_stdout() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match path.to_str() {
        Some("-") => Err("standard output has the other data; give the name of a file"),
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
        say!("  mended:");
    }
    for (reason, number) in report.counts().filter(|(reason, _)| !reason.is_drop()) {
        say!("    {:>9}  {}", count(number), reason.sentence());
    }
}

/// The machine for people.
pub(crate) fn machine(trace: &Trace) -> String {
    let size = u64::from(trace.machine.0);
    if trace.unit == 1 {
        return plural(size, "processor");
    }
    format!("{} of {}", plural(size, "node"), plural(u64::from(trace.unit), "processor"))
}

/// What the machine is counted in.
pub(crate) fn unit_name(trace: &Trace) -> &'static str {
    if trace.unit == 1 { "processors" } else { "nodes" }
}

/// Dates on pictures where the trace knows them.
pub(crate) fn clock(trace: &Trace) -> Clock {
    trace.header.unix_start_time().map_or(Clock::SinceStart, |unix_of_zero| Clock::Utc { unix_of_zero })
}

/// On the calendar where the trace knows its date, in its own seconds otherwise.
pub(crate) fn instant(trace: &Trace, time: Time) -> String {
    let start = trace.header.unix_start_time();
    let date = start.and_then(|start| Timestamp::from_second(start.saturating_add(time.0)).ok());
    date.map_or_else(|| format!("{time} s"), |date| date.to_string())
}
