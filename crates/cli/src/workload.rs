//! `bookahead workload`: inspects, generates, imports and converts traces, and turns jobs into reservation requests.

mod import;
mod parquet;

use crate::output::{count, length, percent, plural, print_json, say};
use crate::table::Table;
use crate::times;
use crate::trace::{TraceArguments, file_not_stdout, header, instant, machine, unit_name};
use anyhow::{Result, bail};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_workload::Job;
use bookahead_workload::models::{
    Calibrated, Cirne, Lublin, LublinParameters, Poisson, RequestModel, Setting, Tables,
    header as model_header, records,
};
use bookahead_workload::requests::{self, Request, Selection, select};
use bookahead_workload::stats::{Distribution, Statistics};
use bookahead_workload::swf::{self, Record};
use bookahead_workload::trace::{CleaningReport, Trace};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::path::PathBuf;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Show statistics of a trace: number, size, run time and estimates of its jobs
    Info(Box<InfoArguments>),
    /// Generate a trace from a workload model; the same seed gives the same jobs on every machine
    Generate(Box<GenerateArguments>),
    /// Turn accounting records (sacct, PBS, Parquet) into a trace in SWF
    Import(Box<import::Arguments>),
    /// Clean a trace, select jobs, scale the load, and write it as SWF, plain or gzip
    Convert(Box<ConvertArguments>),
    /// Turn one job of each block (of ten, by default) into a reservation request
    Reservations(Box<ReservationsArguments>),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Info(arguments) => info(arguments),
        Command::Generate(arguments) => generate(arguments),
        Command::Import(arguments) => import::run(arguments),
        Command::Convert(arguments) => convert(arguments),
        Command::Reservations(arguments) => reservations(arguments),
    }
}

#[derive(Args)]
pub(crate) struct InfoArguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// Print everything as JSON, including the header directives
    #[arg(long)]
    json: bool,
}

fn info(arguments: &InfoArguments) -> Result<()> {
    let trace = arguments.trace.load(false)?;
    let Some(statistics) = Statistics::of_jobs(&trace.jobs, trace.machine) else {
        anyhow::bail!("{}: the trace has no jobs", arguments.trace.name());
    };
    if arguments.json {
        print_json(&Shown::of(&trace, &statistics))?;
    } else {
        write!(stdout(), "{}", tables(&trace, &statistics))?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Shown<'a> {
    header: BTreeMap<String, Vec<String>>,
    cleaning: &'a CleaningReport,
    unit: u32,
    statistics: &'a Statistics,
}

impl Shown<'_> {
    fn of<'a>(trace: &'a Trace, statistics: &'a Statistics) -> Shown<'a> {
        let mut header: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (key, value) in trace.header.directives() {
            header.entry(key.into_owned()).or_default().push(value.into_owned());
        }
        Shown { header, cleaning: &trace.report, unit: trace.unit, statistics }
    }
}

fn tables(trace: &Trace, statistics: &Statistics) -> String {
    let mut facts = Table::figures(vec!["trace".to_owned(), String::new()]);
    for key in ["Computer", "Installation", "Acknowledge"] {
        if let Some(value) = trace.header.get(key) {
            facts.named_row(key, [value.trim().to_owned()]);
        }
    }
    facts.named_row("machine", [machine(trace)]);
    facts.named_row("jobs", [count(statistics.jobs as u64)]);
    facts.named_row("first submission", [instant(trace, Time(statistics.first_submit))]);
    facts.named_row("last submission", [instant(trace, Time(statistics.last_submit))]);
    facts.named_row("span", [length(statistics.span as f64)]);
    let load = statistics.offered_load.map_or("all at one instant".to_owned(), percent);
    facts.named_row("offered load", [load]);
    facts.named_row("serial jobs", [percent(statistics.serial_share)]);
    facts.named_row("sizes of a power of two", [percent(statistics.power_of_two_share)]);
    facts.named_row("run over request, mean", [percent(statistics.accuracy)]);

    let mut jobs = Table::figures(["jobs", "mean", "median", "95% at most"].map(str::to_owned).to_vec());
    let times = |d: &Distribution| [length(d.mean), length(d.median as f64), length(d.p95 as f64)];
    jobs.named_row("run time", times(&statistics.run));
    jobs.named_row("requested time", times(&statistics.request));
    jobs.named_row("between submissions", times(&statistics.gap));
    let sizes = &statistics.processors;
    let size = [format!("{:.1}", sizes.mean), count(sizes.median as u64), count(sizes.p95 as u64)];
    jobs.named_row(unit_name(trace), size);
    format!("{facts}\n{jobs}")
}

#[derive(Args)]
pub(crate) struct GenerateArguments {
    /// Workload model
    #[arg(long, short, value_enum, default_value_t = Model::Lublin)]
    model: Model,

    /// Number of jobs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 1000)]
    jobs: usize,

    /// Size of the machine in processors; not for blue-horizon, which has 144 nodes [default: 256]
    #[arg(long, short, value_name = "N")]
    processors: Option<u32>,

    /// Random seed; the same seed gives the same jobs
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    seed: u64,

    /// Offered load as a share of the machine, such as 0.7 [default: as the model yields]
    #[arg(long, value_name = "SHARE")]
    load: Option<f64>,

    /// Requested times: exact, factor:F (F times the run time), or popular (overestimated and rounded, as users
    /// do); not for cirne and blue-horizon, which have their own
    #[arg(long, value_name = "MODEL")]
    requests: Option<RequestModel>,

    /// Mean time between submissions (poisson, cirne) [default: 5m for poisson, 10m for cirne]
    #[arg(long, value_name = "LENGTH", value_parser = times::length)]
    gap: Option<Seconds>,

    /// Shortest and longest run time, drawn uniformly (poisson)
    #[arg(long, value_names = ["SHORTEST", "LONGEST"], num_args = 2, value_parser = times::length)]
    run: Option<Vec<Seconds>>,

    /// Smallest and largest size, drawn uniformly (poisson)
    #[arg(long, value_names = ["SMALLEST", "LARGEST"], num_args = 2)]
    size: Option<Vec<u32>>,

    /// Output file, in SWF; gzip if the name ends in .gz; - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    /// Poisson arrivals, uniform sizes and run times
    Poisson,
    /// Lublin and Feitelson 2003: daily cycle, sizes near powers of two, run times that depend on size
    Lublin,
    /// As lublin, with the parameters published for batch jobs only
    LublinBatch,
    /// In the style of Cirne and Berman 2001: models requested times and their accuracy
    Cirne,
    /// As the first 2,000 jobs of SDSC Blue Horizon, in nodes: drawn from tables of their sizes, times and arrivals
    BlueHorizon,
}

/// Processors of the machine if none are given.
const PROCESSORS: u32 = 256;

fn generate(arguments: &GenerateArguments) -> Result<()> {
    let processors = match arguments.model {
        Model::BlueHorizon => Tables::blue_horizon().machine,
        _ => arguments.processors.unwrap_or(PROCESSORS),
    };
    let setting = Setting {
        jobs: arguments.jobs,
        processors: Capacity(processors),
        load: arguments.load,
        seed: arguments.seed,
    };
    let jobs = drawn(arguments, setting)?;
    let name = arguments.model.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    swf::write_file(&arguments.output, &model_header(&name, &setting), &records(&jobs))?;
    if arguments.output.as_os_str() != "-" {
        say!("wrote {}", arguments.output.display());
    }
    Ok(())
}

fn drawn(arguments: &GenerateArguments, setting: Setting) -> Result<Vec<Job>> {
    refuse_foreign_options(arguments)?;
    let gap = arguments.gap.map(|gap| gap.0 as f64);
    let lublin = |parameters| {
        let requests = arguments.requests.unwrap_or(Lublin::default().requests);
        Lublin { setting, parameters, requests }.generate()
    };
    Ok(match arguments.model {
        Model::Lublin => lublin(LublinParameters::ALL)?,
        Model::LublinBatch => lublin(LublinParameters::BATCH)?,
        Model::Cirne => {
            let usual = Cirne::default();
            Cirne { setting, mean_gap: gap.unwrap_or(usual.mean_gap), ..usual }.generate()?
        }
        Model::BlueHorizon => {
            let Setting { jobs, load, seed, .. } = setting;
            Calibrated { tables: Tables::blue_horizon(), jobs, load, seed }.generate()?
        }
        Model::Poisson => {
            let usual = Poisson::default();
            // The default range of sizes must fit a small machine too.
            let largest = usual.processors.1.min(setting.processors.0);
            Poisson {
                setting,
                mean_gap: gap.unwrap_or(usual.mean_gap),
                // Cannot panic: clap requires exactly two values for --size and --run.
                processors: arguments.size.as_deref().map_or((usual.processors.0, largest), |s| (s[0], s[1])),
                run: arguments.run.as_deref().map_or(usual.run, |run| (run[0].0, run[1].0)),
                requests: arguments.requests.unwrap_or(usual.requests),
            }
            .generate()?
        }
    })
}

/// Fails if an option was given that the chosen model would silently ignore.
fn refuse_foreign_options(arguments: &GenerateArguments) -> Result<()> {
    let machine = &[Model::Poisson, Model::Lublin, Model::LublinBatch, Model::Cirne];
    let given = [
        ("--processors", arguments.processors.is_some(), &machine[..]),
        ("--gap", arguments.gap.is_some(), &[Model::Poisson, Model::Cirne]),
        ("--run", arguments.run.is_some(), &[Model::Poisson]),
        ("--size", arguments.size.is_some(), &[Model::Poisson]),
        ("--requests", arguments.requests.is_some(), &[Model::Poisson, Model::Lublin, Model::LublinBatch]),
    ];
    for (option, is_given, models) in given {
        if is_given && !models.contains(&arguments.model) {
            bail!("{option} does not apply to this model; remove it or choose another --model");
        }
    }
    Ok(())
}

#[derive(Args)]
pub(crate) struct ConvertArguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// Output file, in SWF; gzip if the name ends in .gz; - for standard output
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,
}

fn convert(arguments: &ConvertArguments) -> Result<()> {
    let trace = arguments.trace.load(true)?;
    write_trace(&arguments.output, &trace)?;
    if arguments.output.as_os_str() != "-" {
        say!("wrote {}", arguments.output.display());
    }
    Ok(())
}

/// Writes the jobs with all fields of their records, as they are after cleaning, selection and scaling.
fn write_trace(path: &std::path::Path, trace: &Trace) -> Result<()> {
    let records: Vec<Record> =
        trace.jobs.iter().zip(&trace.records).map(|(job, record)| as_cleaned(trace, job, record)).collect();
    Ok(swf::write_file(path, &header(trace), &records)?)
}

fn as_cleaned(trace: &Trace, job: &Job, record: &Record) -> Record {
    Record {
        submit: job.submit.0,
        run: job.run.0,
        requested_time: job.request.0,
        requested_processors: i64::from(job.processors.0) * i64::from(trace.unit),
        ..*record
    }
}

#[derive(Args)]
pub(crate) struct ReservationsArguments {
    #[command(flatten)]
    trace: TraceArguments,

    #[command(flatten)]
    selection: SelectionArguments,

    /// Output file for the requests, in CSV; gzip if the name ends in .gz; - for standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Write the remaining jobs to this file, in SWF
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout())]
    jobs_out: Option<PathBuf>,
}

/// How jobs are chosen that become reservation requests.
#[derive(Args)]
#[group(id = "selection")]
pub(crate) struct SelectionArguments {
    /// Block size: one job of every N becomes a request [default: 10]
    #[arg(long, value_name = "N")]
    block: Option<usize>,

    /// Time from a request to its earliest start (2h, 90m) [default: 1h]
    #[arg(long, value_name = "LENGTH", value_parser = times::length)]
    book_ahead: Option<Seconds>,

    /// How much later than that a reservation may start [default: 0]
    #[arg(long, value_name = "LENGTH", value_parser = times::length)]
    window: Option<Seconds>,

    /// Random seed for the choice in each block [default: 1]
    #[arg(long, value_name = "SEED")]
    seed: Option<u64>,
}

impl SelectionArguments {
    /// None if no option was given.
    pub(crate) fn selection(&self) -> Option<Selection> {
        let SelectionArguments { block, book_ahead, window, seed } = *self;
        let given = block.is_some() || book_ahead.is_some() || window.is_some() || seed.is_some();
        let usual = Selection::default();
        given.then(|| Selection {
            block: block.unwrap_or(usual.block),
            book_ahead: book_ahead.unwrap_or(usual.book_ahead),
            window: window.unwrap_or(usual.window),
            seed: seed.unwrap_or(usual.seed),
        })
    }
}

/// Turns jobs into requests. Their records are removed with them.
pub(crate) fn select_from(trace: &mut Trace, selection: &Selection) -> Result<Vec<Request>> {
    let all = if trace.records.is_empty() { Vec::new() } else { trace.jobs.clone() };
    let requests = select(&mut trace.jobs, selection)?;
    // Records have no key that links them to jobs. Both are in trace order, so one pass over both finds the
    // records of the remaining jobs.
    let (mut all, mut stay) = (all.iter(), trace.jobs.iter().peekable());
    trace.records.retain(|_| all.next().is_some_and(|job| stay.next_if(|next| *next == job).is_some()));
    Ok(requests)
}

fn reservations(arguments: &ReservationsArguments) -> Result<()> {
    let mut trace = arguments.trace.load(arguments.jobs_out.is_some())?;
    let jobs = plural(trace.jobs.len() as u64, "job");
    let requests = select_from(&mut trace, &arguments.selection.selection().unwrap_or_default())?;
    requests::write_file(&arguments.output, &requests)?;
    say!("{} of {jobs} became requests", count(requests.len() as u64));
    if let Some(path) = &arguments.jobs_out {
        write_trace(path, &trace)?;
        say!("wrote {}", path.display());
    }
    Ok(())
}
