//! Choosing and loading a trace: the options that every command which reads one has in common.

use crate::numbers::{count, plural};
use crate::times::Instant;
use anyhow::{Context, Result};
use bookahead_plan::{Capacity, Interval, Time};
use bookahead_workload::swf::Reader;
use bookahead_workload::trace::{CleaningReport, Estimates, scale_load};
use bookahead_workload::{LoadOptions, Overruns, Trace};
use clap::{Args, ValueEnum};
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
    #[arg(long, value_name = "FACTOR", help_heading = "Jobs")]
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
        let mut trace = Trace::load(&self.trace, &options)?;
        report(&self.name(), &trace.report);
        if let Some(factor) = self.load {
            scale_load(&mut trace.jobs, factor)?;
        }
        let changed = self.estimates.apply(&mut trace.jobs, self.overrun.into())?;
        if changed > 0 {
            let changed = plural(changed as u64, "job");
            eprintln!("{changed} ran longer than estimated and were treated by the rule for overruns");
        }
        Ok(trace)
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
        let begin = self.from.map_or(Ok(Time::MIN), |time| time.in_trace(unix_start))?;
        let end = self.to.map_or(Ok(Time::MAX), |time| time.in_trace(unix_start))?;
        anyhow::ensure!(begin < end, "--from {begin} is not before --to {end} (seconds of the trace)");
        Ok(Some(Interval::new(begin, end)))
    }

    /// When the trace began, from the head of the file.
    fn unix_start(&self) -> Result<Option<i64>> {
        anyhow::ensure!(
            self.trace != Path::new("-"),
            "a calendar time needs the header before the jobs are read; give seconds of the trace, or a file"
        );
        let mut reader = Reader::open(&self.trace)?;
        reader.next_job().context("while looking for the date of the trace")?;
        Ok(reader.header().unix_start_time())
    }
}

fn report(name: &str, report: &CleaningReport) {
    let (dropped, outside) = (report.dropped(), report.outside_range);
    eprintln!("{name}: {} of {} kept", count(report.kept), plural(report.read, "job"));
    if outside > 0 {
        eprintln!("  {} outside the range", count(outside));
    }
    if dropped > 0 {
        eprintln!("  {} dropped:", count(dropped));
    }
    for (reason, number) in report.counts().filter(|(reason, _)| reason.is_drop()) {
        eprintln!("    {:>9}  {}", count(number), reason.sentence());
    }
    if report.counts().any(|(reason, _)| !reason.is_drop()) {
        eprintln!("  mended:");
    }
    for (reason, number) in report.counts().filter(|(reason, _)| !reason.is_drop()) {
        eprintln!("    {:>9}  {}", count(number), reason.sentence());
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
