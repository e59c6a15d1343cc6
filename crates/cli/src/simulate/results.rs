//! The results of a simulation: a table, JSON, a file with the times of each job (CSV, or SWF with the simulated
//! waits), and a file with the outcome of each reservation request. All times in JSON are in seconds.

use super::Run;
use super::twin::Told;
use crate::output::{self, count, length, percent, plural};
use crate::table::Table;
use crate::trace;
use crate::trace::machine;
use anyhow::Result;
use bookahead_plan::metrics::utilisation_over_time;
use bookahead_plan::{Interval, Seconds};
use bookahead_sim::{Fate, Granted, Ran};
use bookahead_workload::Job;
use bookahead_workload::files::{self, Packing};
use bookahead_workload::requests::{COLUMNS, Request};
use bookahead_workload::swf::{self, Record};
use bookahead_workload::trace::{CleaningReport, Trace};
use serde::Serialize;
use std::io::{self, Write, stdout};
use std::path::Path;

pub(crate) fn print_table(
    name: &str,
    trace: &Trace,
    requests: Option<&[Request]>,
    runs: &[Run],
) -> Result<()> {
    let head = [String::new()].into_iter().chain(runs.iter().map(|run| run.policy.to_string())).collect();
    let mut table = Table::figures(head);
    let mut row = |name: &str, cell: &dyn Fn(&Run) -> String| table.named_row(name, runs.iter().map(cell));
    let seconds = |length: Seconds| length.0 as f64;
    row("jobs", &|run| count(run.summary.jobs as u64));
    row("mean wait", &|run| length(run.summary.mean_wait));
    row("median wait", &|run| length(seconds(run.summary.median_wait)));
    row("95% wait at most", &|run| length(seconds(run.summary.p95_wait)));
    row("longest wait", &|run| length(seconds(run.summary.max_wait)));
    row("mean response", &|run| length(run.summary.mean_response));
    row("mean bounded slowdown", &|run| format!("{:.2}", run.summary.mean_bounded_slowdown));
    row("makespan", &|run| length(seconds(run.summary.makespan)));
    row("utilisation by jobs", &|run| percent(run.summary.utilisation));
    if let Some(requests) = requests {
        row("reservations granted", &|run| {
            format!("{} of {}", count(run.reservations.len() as u64), count(requests.len() as u64))
        });
        row("reserved", &|run| percent(reserved_share(run, trace)));
        row("jobs killed for them", &|run| count(run.outcome.killed as u64));
    }
    let mut out = stdout().lock();
    writeln!(out, "{name}: {} on {}", plural(trace.jobs.len() as u64, "job"), machine(trace))?;
    write!(out, "{table}")?;
    Ok(())
}

/// The share of the machine that is reserved during the makespan of the jobs.
fn reserved_share(run: &Run, trace: &Trace) -> f64 {
    let begin = run.completed.iter().map(|job| job.submit).min().unwrap_or_default();
    // The interval of the utilisation by jobs, so that the two shares can be added.
    let makespan = Interval::starting(begin, run.summary.makespan);
    let spans = run.reservations.iter().copied();
    utilisation_over_time(spans, trace.machine, makespan, makespan.length()).first().copied().unwrap_or(0.0)
}

#[derive(Serialize)]
struct Results<'a> {
    trace: &'a str,
    machine: u32,
    unit: u32,
    cleaning: &'a CleaningReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    site: Option<&'a Told>,
    schedulers: Vec<SchedulerResults>,
}

#[derive(Serialize)]
pub(super) struct SchedulerResults {
    pub(super) scheduler: String,
    pub(super) jobs: usize,
    pub(super) mean_wait: f64,
    pub(super) median_wait: i64,
    pub(super) p95_wait: i64,
    pub(super) max_wait: i64,
    pub(super) mean_response: f64,
    pub(super) mean_bounded_slowdown: f64,
    pub(super) makespan: i64,
    pub(super) utilisation: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reservations: Option<ReservationResults>,
}

#[derive(Serialize)]
pub(super) struct ReservationResults {
    pub(super) requested: usize,
    pub(super) granted: usize,
    pub(super) reserved: f64,
    pub(super) jobs_killed: usize,
}

pub(crate) fn print_json(
    name: &str,
    trace: &Trace,
    requests: Option<&[Request]>,
    runs: &[Run],
    site: Option<&Told>,
) -> Result<()> {
    let schedulers = runs.iter().map(|run| SchedulerResults::of(run, trace, requests)).collect();
    let results = Results {
        trace: name,
        machine: trace.machine.0,
        unit: trace.unit,
        cleaning: &trace.report,
        site,
        schedulers,
    };
    Ok(output::print_json(&results)?)
}

impl SchedulerResults {
    pub(super) fn of(run: &Run, trace: &Trace, requests: Option<&[Request]>) -> SchedulerResults {
        let summary = run.summary;
        SchedulerResults {
            scheduler: run.policy.to_string(),
            jobs: summary.jobs,
            mean_wait: summary.mean_wait,
            median_wait: summary.median_wait.0,
            p95_wait: summary.p95_wait.0,
            max_wait: summary.max_wait.0,
            mean_response: summary.mean_response,
            mean_bounded_slowdown: summary.mean_bounded_slowdown,
            makespan: summary.makespan.0,
            utilisation: summary.utilisation,
            reservations: requests.map(|requests| ReservationResults {
                requested: requests.len(),
                granted: run.reservations.len(),
                reserved: reserved_share(run, trace),
                jobs_killed: run.outcome.killed,
            }),
        }
    }
}

const JOB_COLUMNS: &str = "job,submit,start,end,processors,wait,request";

pub(crate) fn is_swf(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.strip_suffix(".gz").unwrap_or(&name).ends_with(".swf")
}

pub(crate) fn write_jobs(path: &Path, trace: &Trace, run: &Run) -> Result<()> {
    if is_swf(path) {
        let mut header = trace::header(trace);
        header.push_comment(&format!("Note: waits and run times are simulated, scheduler {}", run.policy));
        // The records are loaded only if this format is wanted; each belongs to the job at the same place.
        let records: Vec<Record> = trace
            .records
            .iter()
            .zip(ran(trace, run))
            .filter_map(|(record, (job, ran))| Some(simulated(record, job, ran?)))
            .collect();
        swf::write_file(path, &header, &records)?;
        return Ok(());
    }
    files::write(path, Packing::of_name(path), |out| write_csv(out, trace, run))?;
    Ok(())
}

fn ran<'a>(trace: &'a Trace, run: &'a Run) -> impl Iterator<Item = (&'a Job, Option<Ran>)> {
    trace.jobs.iter().zip(&run.outcome.jobs).map(|(job, fate)| match fate {
        Fate::Ran(ran) => (job, Some(*ran)),
        Fate::TooWide => (job, None),
    })
}

fn simulated(record: &Record, job: &Job, ran: Ran) -> Record {
    Record { submit: job.submit.0, wait: (ran.start - job.submit).0, run: (ran.end - ran.start).0, ..*record }
}

/// The numbers of each job that ran, in the order of [`JOB_COLUMNS`].
pub(super) fn job_numbers<'a>(trace: &'a Trace, run: &'a Run) -> impl Iterator<Item = [i64; 7]> + 'a {
    ran(trace, run).filter_map(|(job, ran)| {
        let ran = ran?;
        // The simulation counts whole nodes, but the results count processors, like the trace.
        let processors = i64::from(job.processors.0) * i64::from(trace.unit);
        let wait = ran.start - job.submit;
        Some([job.number, job.submit.0, ran.start.0, ran.end.0, processors, wait.0, job.request.0])
    })
}

fn write_csv(out: &mut dyn Write, trace: &Trace, run: &Run) -> io::Result<()> {
    writeln!(out, "{JOB_COLUMNS}")?;
    for [job, submit, start, end, processors, wait, request] in job_numbers(trace, run) {
        writeln!(out, "{job},{submit},{start},{end},{processors},{wait},{request}")?;
    }
    Ok(())
}

/// The columns of the request, then start and end if it was granted.
pub(crate) fn write_reservations(path: &Path, requests: &[Request], granted: &[Granted]) -> Result<()> {
    files::write(path, Packing::of_name(path), |out| {
        writeln!(out, "{COLUMNS},start,end")?;
        for (request, start) in requests.iter().zip(granted) {
            let Request { number, submit, earliest_start, latest_end, duration, processors, released: _ } =
                request;
            write!(out, "{number},{submit},{earliest_start},{latest_end},{duration},{processors},")?;
            match start {
                Some(start) => writeln!(out, "{start},{}", *start + *duration)?,
                None => writeln!(out, ",")?,
            }
        }
        Ok(())
    })?;
    Ok(())
}
