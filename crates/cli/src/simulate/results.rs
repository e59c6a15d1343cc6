//! The results of a simulation: a table for people, JSON for programs. All times in JSON are in seconds.

use super::Run;
use crate::json;
use crate::numbers::{count, length, percent, plural};
use crate::table::Table;
use crate::trace::machine;
use anyhow::Result;
use bookahead_plan::metrics::utilisation_over_time;
use bookahead_plan::{Interval, Seconds};
use bookahead_workload::requests::Request;
use bookahead_workload::trace::{CleaningReport, Trace};
use serde::Serialize;
use std::io::{Write, stdout};

pub(crate) fn print_table(
    name: &str,
    trace: &Trace,
    requests: Option<&[Request]>,
    runs: &[Run],
) -> Result<()> {
    let head = [String::new()].into_iter().chain(runs.iter().map(|run| run.policy.to_string())).collect();
    let mut table = Table::new(head);
    let mut row = |name: &str, cell: &dyn Fn(&Run) -> String| table.row(name, runs.iter().map(cell));
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

/// What reservations hold of the machine during the makespan of the jobs.
fn reserved_share(run: &Run, trace: &Trace) -> f64 {
    let begin = run.completed.iter().map(|job| job.submit).min().unwrap_or_default();
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
    schedulers: Vec<SchedulerResults>,
}

#[derive(Serialize)]
struct SchedulerResults {
    scheduler: String,
    jobs: usize,
    mean_wait: f64,
    median_wait: i64,
    p95_wait: i64,
    max_wait: i64,
    mean_response: f64,
    mean_bounded_slowdown: f64,
    makespan: i64,
    utilisation: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reservations: Option<ReservationResults>,
}

#[derive(Serialize)]
struct ReservationResults {
    requested: usize,
    granted: usize,
    reserved: f64,
    jobs_killed: usize,
}

pub(crate) fn print_json(
    name: &str,
    trace: &Trace,
    requests: Option<&[Request]>,
    runs: &[Run],
) -> Result<()> {
    let schedulers = runs.iter().map(|run| SchedulerResults::of(run, trace, requests)).collect();
    let results = Results {
        trace: name,
        machine: trace.machine.0,
        unit: trace.unit,
        cleaning: &trace.report,
        schedulers,
    };
    Ok(json::print(&results)?)
}

impl SchedulerResults {
    fn of(run: &Run, trace: &Trace, requests: Option<&[Request]>) -> SchedulerResults {
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
