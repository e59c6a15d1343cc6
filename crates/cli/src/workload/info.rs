//! `bookahead workload info`: a trace in numbers.

use crate::json;
use crate::numbers::{count, length, percent};
use crate::table::Table;
use crate::trace::{TraceArguments, instant, machine, unit_name};
use anyhow::Result;
use bookahead_plan::Time;
use bookahead_workload::stats::{Distribution, Statistics};
use bookahead_workload::trace::{CleaningReport, Trace};
use clap::Args;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Write, stdout};

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// Print everything as JSON, the header's directives included
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.trace.load(false)?;
    let Some(statistics) = Statistics::of_jobs(&trace.jobs, trace.machine) else {
        anyhow::bail!("{}: there is no job in it", arguments.trace.name());
    };
    if arguments.json {
        json::print(&Info::of(&trace, &statistics))?;
    } else {
        write!(stdout(), "{}", tables(&trace, &statistics))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Info<'a> {
    header: BTreeMap<String, Vec<String>>,
    cleaning: &'a CleaningReport,
    unit: u32,
    statistics: &'a Statistics,
}

impl Info<'_> {
    fn of<'a>(trace: &'a Trace, statistics: &'a Statistics) -> Info<'a> {
        let mut header: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in trace.header.directives() {
            header.entry(key.into_owned()).or_default().push(value.into_owned());
        }
        Info { header, cleaning: &trace.report, unit: trace.unit, statistics }
    }
}

fn tables(trace: &Trace, statistics: &Statistics) -> String {
    let mut facts = Table::new(vec!["trace".to_owned(), String::new()]);
    for key in ["Computer", "Installation", "Acknowledge"] {
        if let Some(value) = trace.header.get(key) {
            facts.row(key, [value.trim().to_owned()]);
        }
    }
    facts.row("machine", [machine(trace)]);
    facts.row("jobs", [count(statistics.jobs as u64)]);
    facts.row("first submission", [instant(trace, Time(statistics.first_submit))]);
    facts.row("last submission", [instant(trace, Time(statistics.last_submit))]);
    facts.row("span", [length(statistics.span as f64)]);
    let load = statistics.offered_load.map_or("all at one instant".to_owned(), percent);
    facts.row("offered load", [load]);
    facts.row("serial jobs", [percent(statistics.serial_share)]);
    facts.row("sizes of a power of two", [percent(statistics.power_of_two_share)]);
    facts.row("run over request, mean", [percent(statistics.accuracy)]);

    let mut jobs = Table::new(["jobs", "mean", "median", "95% at most"].map(str::to_owned).to_vec());
    let times = |d: &Distribution| [length(d.mean), length(d.median as f64), length(d.p95 as f64)];
    jobs.row("run time", times(&statistics.run));
    jobs.row("requested time", times(&statistics.request));
    jobs.row("between submissions", times(&statistics.gap));
    let sizes = &statistics.processors;
    let size = [format!("{:.1}", sizes.mean), count(sizes.median as u64), count(sizes.p95 as u64)];
    jobs.row(unit_name(trace), size);
    format!("{facts}\n{jobs}")
}
