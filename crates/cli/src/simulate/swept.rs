//! Simulations of a sweep: many runs in one process on traces that are read once, and `--load` with several factors.

use super::results::{self, SchedulerResults};
use super::{Arguments, Inputs, chosen, simulate};
use crate::output::{Progress, count, length, percent, print_json, threads};
use crate::sweep::grid::{Parameter, setting, size};
use crate::sweep::table::{Cell, Row, object};
use crate::sweep::task::{JobLists, Outcome, option_error};
use crate::sweep::values::{Kind, Value};
use crate::table::Table;
use anyhow::{Context, Result, bail, ensure};
use bookahead_plan::Policy;
use bookahead_sim::run_all;
use bookahead_workload::trace::Trace;
use clap::Parser;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Traces that were read, by file and options. Runs take copies, which cost far less than reading.
#[derive(Default)]
pub(crate) struct Traces(Mutex<BTreeMap<String, Arc<Trace>>>);

/// Most traces in memory. A sweep over more reads some of them again.
const MOST_TRACES: usize = 8;

impl Traces {
    fn get(&self, arguments: &Arguments, processors: Option<u32>, keep_records: bool) -> Result<Arc<Trace>> {
        let options = arguments.trace.options(processors, keep_records)?;
        let key = format!("{} {options:?}", arguments.trace.trace.display());
        // Locked while it reads, so that several threads do not read the same trace.
        let mut traces = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(trace) = traces.get(&key) {
            return Ok(trace.clone());
        }
        let trace = Arc::new(arguments.trace.read(&options)?);
        if traces.len() >= MOST_TRACES {
            traces.clear();
        }
        traces.insert(key, trace.clone());
        Ok(trace)
    }
}

/// The options of one run.
#[derive(Parser)]
#[command(name = "simulate", no_binary_name = true, disable_help_flag = true)]
pub(crate) struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

impl Line {
    pub(crate) fn parse(words: &[String]) -> Result<Line> {
        let line = Line::try_parse_from(words.iter().chain([&"--quiet".to_owned()]))
            .map_err(|error| option_error("simulate", &error))?;
        let of = &line.arguments;
        ensure!(of.compare.is_none(), "use scheduler = [\"fcfs\", \"easy\"] instead of compare");
        ensure!(of.trace.loads().len() < 2, "use load = [1, 1.2] for several factors");
        let files = [&of.jobs_out, &of.reservations_out, &of.svg, &of.gantt];
        if of.json || files.iter().any(|file| file.is_some()) {
            bail!("options that write output are not for a sweep; jobs = true writes one row a job");
        }
        ensure!(of.trace.trace.as_os_str() != "-", "a sweep reads its trace from a file");
        Ok(line)
    }

    pub(crate) fn run(&self, traces: &Traces, with_jobs: bool) -> Result<Outcome> {
        let load = self.arguments.trace.loads().first().copied();
        run_one(&self.arguments, traces, load, None, with_jobs)
    }
}

fn run_one(
    arguments: &Arguments,
    traces: &Traces,
    load: Option<f64>,
    policy: Option<Policy>,
    with_jobs: bool,
) -> Result<Outcome> {
    let twin = arguments.twin()?;
    let (processors, keep_records) = arguments.reading(twin.as_ref());
    let mut trace = Trace::clone(&*traces.get(arguments, processors, keep_records)?);
    arguments.trace.adapt(&mut trace, load, true)?;
    let policy = policy.or_else(|| chosen(arguments, twin.as_ref()).first().copied()).unwrap_or(Policy::EASY);
    let inputs = Inputs::new(arguments, twin, trace)?;
    let runs = simulate(arguments, &inputs, &[policy])?;
    let run = runs.first().context("no scheduler")?;
    let results = SchedulerResults::of(run, &inputs.trace, inputs.requests.as_deref());
    let jobs = with_jobs.then(|| {
        let mut lists = JobLists::default();
        for numbers in results::job_numbers(&inputs.trace, run) {
            lists.iter_mut().zip(numbers).for_each(|(list, number)| list.push(number));
        }
        Box::new(lists)
    });
    Ok(Outcome { row: row(&results), jobs })
}

/// All columns in every row, so that files of one sweep have one schema.
fn row(results: &SchedulerResults) -> Row {
    let mut row = vec![
        Cell::int("jobs", results.jobs),
        Cell::float("mean_wait", results.mean_wait),
        Cell::int("median_wait", results.median_wait),
        Cell::int("p95_wait", results.p95_wait),
        Cell::int("max_wait", results.max_wait),
        Cell::float("mean_response", results.mean_response),
        Cell::float("mean_bounded_slowdown", results.mean_bounded_slowdown),
        Cell::int("makespan", results.makespan),
        Cell::float("utilisation", results.utilisation),
    ];
    row.extend(match &results.reservations {
        Some(reservations) => [
            Cell::int("requested", reservations.requested),
            Cell::int("granted", reservations.granted),
            Cell::float("reserved", reservations.reserved),
            Cell::int("jobs_killed", reservations.jobs_killed),
        ],
        None => [
            Cell::none("requested", Kind::Int),
            Cell::none("granted", Kind::Int),
            Cell::none("reserved", Kind::Float),
            Cell::none("jobs_killed", Kind::Int),
        ],
    });
    row
}

/// `simulate --load` with several factors: a sweep over them and the schedulers, printed as one table.
pub(super) fn several_loads(arguments: &Arguments) -> Result<()> {
    let files = [&arguments.jobs_out, &arguments.reservations_out, &arguments.svg, &arguments.gantt];
    ensure!(
        files.iter().all(|file| file.is_none()),
        "files are written for one --load only; use one factor, or bookahead sweep with jobs = true"
    );
    let twin = arguments.twin()?;
    let policies = chosen(arguments, twin.as_ref());
    let texts = policies.iter().map(|policy| Value::Text(policy.to_string())).collect();
    let loads = arguments.trace.loads().iter().map(|load| Value::Float(*load)).collect();
    let parameters = [Parameter::new("load", loads), Parameter::new("scheduler", texts)];
    let runs: Vec<usize> = (0..size(&parameters)).collect();
    let (traces, progress) = (Traces::default(), Progress::new(runs.len() as u64, "runs", arguments.quiet));
    let run = |run: &usize| {
        let policy = policies.get(run % policies.len().max(1)).copied();
        let load = setting(&parameters, *run).first().and_then(|(_, load)| load.number());
        run_one(arguments, &traces, load, policy, false)
    };
    let outcomes = run_all(&runs, threads(arguments.threads), run, || progress.add(1));
    // The bar must be cleared before anything is printed.
    drop(progress);
    let mut rows: Vec<Row> = Vec::new();
    for (run, outcome) in runs.iter().zip(outcomes) {
        let setting = setting(&parameters, *run).into_iter();
        let mut row: Row =
            setting.map(|(parameter, value)| Cell::new(parameter.column.clone(), value.clone())).collect();
        row.extend(outcome?.row);
        row.retain(|cell| cell.value.is_some());
        rows.push(row);
    }
    if arguments.json {
        return Ok(print_json(&rows.iter().map(object).collect::<Vec<_>>())?);
    }
    print_rows(&rows)
}

fn print_rows(rows: &[Row]) -> Result<()> {
    let Some(first) = rows.first() else { return Ok(()) };
    let head = first.iter().map(|cell| cell.name.replace('_', " ")).collect();
    let mut table = Table::figures(head);
    for row in rows {
        let mut cells = row.iter().map(shown);
        table.named_row(&cells.next().unwrap_or_default(), cells);
    }
    write!(std::io::stdout().lock(), "{table}")?;
    Ok(())
}

/// A result as people read it.
fn shown(cell: &Cell) -> String {
    let Some(value) = &cell.value else { return String::new() };
    match (&*cell.name, value) {
        ("load" | "scheduler", value) => value.to_string(),
        ("utilisation" | "reserved", Value::Float(share)) => percent(*share),
        ("mean_bounded_slowdown", Value::Float(number)) => format!("{number:.2}"),
        (name, value) if name.ends_with("wait") || name.ends_with("response") || name == "makespan" => {
            length(value.number().unwrap_or_default())
        }
        (_, Value::Int(number)) => u64::try_from(*number).map_or_else(|_| number.to_string(), count),
        (_, value) => value.to_string(),
    }
}
