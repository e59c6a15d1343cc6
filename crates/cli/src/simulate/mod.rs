//! `bookahead simulate`: runs the jobs of a trace through one or several schedulers, and writes tables, per-job files
//! and charts: utilisation and backlog over time of all schedulers, and a Gantt chart of each.

use crate::output::{Progress, named_for, save_and_tell, say, threads};
use crate::placement::{NoticeArguments, PlacementArguments, REQUESTS};
use crate::times::{Instant, length};
use crate::trace::{TraceArguments, clock, file_not_stdout, instant, unit_name};
use crate::workload::{SelectionArguments, select_from};
use anyhow::{Context, Result, bail, ensure};
use bookahead_figure::{Bar, BarKind, Chart, Gantt, Panel, Series, Style};
use bookahead_plan::metrics::{Completed, Summary, backlog_over_time, utilisation_over_time};
use bookahead_plan::placement::Rules;
use bookahead_plan::policy::UnknownPolicy;
use bookahead_plan::{Capacity, Interval, Policy, Seconds, Span, Time};
use bookahead_sim::{EarliestFit, Fate, Job, Outcome, Rated, Site, WithNotice, side_by_side};
use bookahead_workload::requests::{self, Request};
use bookahead_workload::trace::Trace;
use clap::{ArgGroup, Args};
use std::path::PathBuf;

mod priorities;
mod results;
pub(crate) mod swept;
mod twin;

use twin::{Limited, Twin};

#[derive(Args)]
#[command(group(ArgGroup::new(REQUESTS).args(["reservations", "block", "book_ahead", "window", "seed"]).multiple(true)))]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// Replay the configuration of a site: capacity, policy, placement and default limits of one of its resources
    #[arg(long, value_name = "FILE", conflicts_with_all = ["processors", "unit", "method", "makespan_weight", "slots",
        "gap", "max_delayed", "max_delay"])]
    site: Option<PathBuf>,

    /// Resource of the site [default: the only one]
    #[arg(long, value_name = "NAME", requires = "site")]
    resource: Option<String>,

    /// Announces TRACE, as in: simulate --site site.toml --log log.swf
    #[arg(long, hide = true)]
    log: bool,

    /// Scheduler: fcfs, easy, conservative, or easy[promises=K] to protect the first K waiting jobs. Any of them takes
    /// an order of the queue: easy[order=sjf], or lxf, wfp3, unicef, fairshare, or multifactor with weights:
    /// easy[order=multifactor,age=1,size=1,fairshare=1] [default: easy, or that of --site]
    #[arg(long, short, value_name = "SCHEDULER")]
    scheduler: Option<Policy>,

    /// Compare several schedulers; without a list: fcfs,easy,conservative
    #[arg(long, value_name = "LIST", num_args = 0..=1, value_parser = policies,
        default_missing_value = "fcfs,easy,conservative", conflicts_with = "scheduler")]
    compare: Option<Policies>,

    /// Priorities of jobs by user, group or queue of the trace, as TOML: `[queues]` with lines such as `1 = 100`;
    /// a higher number goes first
    #[arg(long, value_name = "FILE")]
    priorities: Option<PathBuf>,

    /// Reservation requests, in the CSV format of `bookahead workload reservations`; each is placed at its submit time
    #[arg(long, value_name = "FILE", conflicts_with = "selection")]
    reservations: Option<PathBuf>,

    /// Number of threads; does not change the results [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Show no progress on standard error
    #[arg(long, short)]
    quiet: bool,

    // Last of those without a heading: the next ones would get it too.
    #[command(flatten, next_help_heading = "Requests from the trace")]
    selection: SelectionArguments,

    #[command(flatten)]
    placement: PlacementArguments,

    #[command(flatten)]
    notice: NoticeArguments,

    /// Print the results as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Write the times of each job, as CSV, or as SWF if FILE ends in .swf or .swf.gz. With --compare the file name
    /// gets the name of the scheduler
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    jobs_out: Option<PathBuf>,

    /// Write the outcome of each reservation request, as CSV; start and end are empty if it was refused. With
    /// --compare the file name gets the name of the scheduler
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), requires = REQUESTS,
        help_heading = "Output")]
    reservations_out: Option<PathBuf>,

    /// Write a chart of utilisation and backlog over time, as SVG
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    svg: Option<PathBuf>,

    /// Time step of the chart (15m, 2h) [default: chosen to suit the trace]
    #[arg(long, value_name = "LENGTH", value_parser = length, requires = "svg", help_heading = "Output")]
    step: Option<Seconds>,

    /// Write a Gantt chart, as SVG. With --compare the file name gets the name of the scheduler
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    gantt: Option<PathBuf>,

    /// Start of the Gantt chart [default: the first job]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "gantt",
        help_heading = "Output"
    )]
    gantt_from: Option<Instant>,

    /// End of the Gantt chart [default: the last job, or one day after the start if there are many jobs]
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        requires = "gantt",
        help_heading = "Output"
    )]
    gantt_to: Option<Instant>,
}

/// Several schedulers.
#[derive(Clone)]
struct Policies(Vec<Policy>);

/// A list separated by commas. Commas within brackets belong to a scheduler.
fn policies(text: &str) -> Result<Policies, String> {
    let mut inside = false;
    let names = text.split(|character| {
        inside = (inside || character == '[') && character != ']';
        character == ',' && !inside
    });
    let policies = names.map(|name| name.parse().map_err(|why: UnknownPolicy| why.to_string()));
    policies.collect::<Result<_, _>>().map(Policies)
}

/// The outcome of one scheduler.
pub(crate) struct Run {
    policy: Policy,
    outcome: Outcome,
    /// The jobs that ran, in the order of the trace.
    completed: Vec<Completed>,
    reservations: Vec<Span>,
    summary: Summary,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    // Before the simulation, which may take minutes.
    for path in [&arguments.jobs_out, &arguments.reservations_out].into_iter().flatten() {
        if path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("parquet")) {
            bail!(
                "{}: Parquet is not supported; use a name that ends in .csv, .swf or .swf.gz",
                path.display()
            );
        }
    }
    if arguments.trace.loads().len() > 1 {
        return swept::several_loads(arguments);
    }
    let twin = arguments.twin()?;
    let policies = chosen(arguments, twin.as_ref());
    if let (Some(twin), Some(file)) = (&twin, arguments.site.as_deref()) {
        twin.say(file, &policies);
    }
    let (processors, keep_records) = arguments.reading(twin.as_ref());
    let trace = arguments.trace.load_for(processors, keep_records)?;
    let inputs = Inputs::new(arguments, twin, trace)?;
    let runs = simulate(arguments, &inputs, &policies)?;
    let Inputs { twin, trace, requests, .. } = &inputs;
    let given = requests.as_deref();
    write_files(arguments, trace, given.unwrap_or_default(), &runs)?;
    let name = arguments.trace.name();
    if arguments.json {
        results::print_json(&name, trace, given, &runs, twin.as_ref().map(Twin::told))
    } else {
        results::print_table(&name, trace, given, &runs)
    }
}

/// All that a simulation works on.
struct Inputs {
    twin: Option<Twin>,
    trace: Trace,
    jobs: Vec<Job>,
    /// None only if none were asked for: for an empty file the results still have their rows.
    requests: Option<Vec<Request>>,
}

impl Inputs {
    /// `trace` has the load and the estimates of the run.
    fn new(arguments: &Arguments, twin: Option<Twin>, mut trace: Trace) -> Result<Inputs> {
        if let Some(twin) = &twin {
            twin.select(&mut trace)?;
        }
        let requests = match (&arguments.reservations, arguments.selection.selection()) {
            (Some(path), _) => Some(in_order(requests::load(path)?)),
            (None, Some(selection)) => Some(select_from(&mut trace, &selection)?),
            (None, None) => None,
        };
        let mut jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
        if let Some(path) = &arguments.priorities {
            priorities::read(path)?.apply(&trace.records, &mut jobs);
        }
        Ok(Inputs { twin, trace, jobs, requests })
    }
}

impl Arguments {
    fn twin(&self) -> Result<Option<Twin>> {
        self.site.as_deref().map(|path| Twin::read(path, self.resource.as_deref())).transpose()
    }

    /// The size of the machine, if it is not that of the trace, and whether the records of the jobs are needed.
    fn reading(&self, twin: Option<&Twin>) -> (Option<u32>, bool) {
        let swf_wanted = self.jobs_out.as_deref().is_some_and(results::is_swf);
        // Groups and queues are in the records only.
        let needed = swf_wanted || self.priorities.is_some() || twin.is_some();
        (twin.map_or(self.trace.processors, |twin| Some(twin.capacity)), needed)
    }
}

/// The policies to simulate.
fn chosen(arguments: &Arguments, twin: Option<&Twin>) -> Vec<Policy> {
    if let Some(Policies(all)) = &arguments.compare {
        return all.clone();
    }
    vec![arguments.scheduler.unwrap_or(twin.map_or(Policy::EASY, |twin| twin.rules.policy))]
}

/// The simulator requires requests in the order of submission, and a file may have any order.
fn in_order(mut requests: Vec<Request>) -> Vec<Request> {
    requests.sort_by_key(|request| request.submit);
    requests
}

fn simulate(arguments: &Arguments, inputs: &Inputs, policies: &[Policy]) -> Result<Vec<Run>> {
    let Inputs { twin, trace, jobs, requests } = inputs;
    let (twin, requests) = (twin.as_ref(), requests.as_deref().unwrap_or_default());
    let overrun = arguments.trace.overrun;
    let sites: Vec<Site> =
        policies.iter().map(|&policy| Site { policy, capacity: trace.machine, overrun }).collect();
    let threads = threads(arguments.threads);
    let progress = Progress::new((jobs.len() * sites.len()) as u64, "jobs", arguments.quiet);
    let observe = |ended| progress.add(ended as u64);
    let notice = arguments.notice.rule()?;
    let outcomes = if arguments.placement.is_given() || twin.is_some() {
        let preference = arguments.placement.preference();
        // The scheduler is replaced for each site below; everything else is the same for all of them.
        let rules = match twin {
            Some(twin) => twin.rules,
            None => arguments.placement.rules(Policy::EASY)?,
        };
        let limits = twin.map(|twin| twin.limits).unwrap_or_default();
        let rated = |site: &Site| {
            let placement = Rated::new(Rules { policy: site.policy, ..rules }, preference);
            WithNotice::new(notice, Limited { limits, placement })
        };
        side_by_side(&sites, jobs, requests, rated, threads, observe)
    } else {
        side_by_side(&sites, jobs, requests, |_| WithNotice::new(notice, EarliestFit), threads, observe)
    };
    // The bar must be cleared before anything is printed.
    drop(progress);
    let run = |(&policy, outcome)| Run::new(policy, outcome, trace, jobs, requests);
    Ok(policies.iter().zip(outcomes).map(run).collect())
}

/// The reservation of a request, up to its release.
fn reserved(request: &Request, start: Time) -> Span {
    let end = start + request.duration;
    let end = request.released.map_or(end, |released| released.clamp(start, end));
    Span { interval: Interval::new(start, end), capacity: request.processors }
}

impl Run {
    fn new(policy: Policy, outcome: Outcome, trace: &Trace, jobs: &[Job], requests: &[Request]) -> Run {
        let ran = |(job, fate): (&Job, &Fate)| match fate {
            Fate::Ran(ran) => Some(job.completed(*ran)),
            Fate::TooWide => None,
        };
        let completed: Vec<Completed> = jobs.iter().zip(&outcome.jobs).filter_map(ran).collect();
        let granted = requests.iter().zip(&outcome.requests);
        let reservations =
            granted.filter_map(|(request, start)| Some(reserved(request, (*start)?))).collect();
        let summary = Summary::of(&completed, trace.machine);
        Run { policy, outcome, completed, reservations, summary }
    }

    /// From the first submission to the last end of a job or a reservation.
    fn extent(&self) -> Interval {
        let begin = self.completed.iter().map(|job| job.submit).min().unwrap_or_default();
        let ends = self.completed.iter().map(|job| job.end);
        let end =
            ends.chain(self.reservations.iter().map(|span| span.interval.end)).max().unwrap_or_default();
        Interval::new(begin, end)
    }
}

fn write_files(arguments: &Arguments, trace: &Trace, requests: &[Request], runs: &[Run]) -> Result<()> {
    let several = runs.len() > 1;
    for run in runs {
        let named = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| {
                if several { named_for(path, &in_file_names(run.policy)) } else { path.to_owned() }
            })
        };
        if let Some(path) = named(&arguments.jobs_out) {
            results::write_jobs(&path, trace, run)?;
            say!("wrote {}", path.display());
        }
        if let Some(path) = named(&arguments.reservations_out) {
            results::write_reservations(&path, requests, &run.outcome.requests)?;
            say!("wrote {}", path.display());
        }
        if let Some(path) = named(&arguments.gantt) {
            let range = gantt_range(arguments, trace, run).with_context(|| arguments.trace.name())?;
            save_and_tell(&path, &gantt(&arguments.trace.name(), trace, requests, run, range))?;
            if let Some(note) = part_of_gantt(trace, run, range) {
                say!("  {note}; choose another part with --gantt-from and --gantt-to");
            }
        }
    }
    if let Some(path) = &arguments.svg {
        save_and_tell(path, &over_time(&arguments.trace.name(), trace, runs, arguments.step)?)?;
    }
    Ok(())
}

/// The scheduler without characters that are awkward in file names: `easy-4`, `easy-sjf`.
fn in_file_names(policy: Policy) -> String {
    policy
        .to_string()
        .replace("promises=", "")
        .replace("order=", "")
        .replace(['[', ',', '='], "-")
        .replace(']', "")
}

fn gantt_range(arguments: &Arguments, trace: &Trace, run: &Run) -> Result<Interval> {
    let unix_start = trace.header.unix_start_time();
    let extent = run.extent();
    let given = |time: Option<Instant>| time.map(|time| time.in_trace(unix_start)).transpose();
    let begin = given(arguments.gantt_from)?.unwrap_or(extent.begin);
    // A chart draws at most MAX_BARS bars, so that the whole of a long trace would show only a part of it.
    let many = run.completed.len() > bookahead_figure::MAX_BARS;
    let usual_end: Time = if many { begin + Seconds(86_400) } else { extent.end };
    let end = given(arguments.gantt_to)?.unwrap_or(usual_end);
    anyhow::ensure!(
        begin < end,
        "the end of the Gantt chart ({end}) is not after its start ({begin}); check --gantt-from and --gantt-to"
    );
    Ok(Interval::new(begin, end))
}

/// What a Gantt chart of a part of the trace shows.
fn part_of_gantt(trace: &Trace, run: &Run, range: Interval) -> Option<String> {
    let whole = run.extent();
    let shown = |time: Time| instant(trace, time);
    (range.begin > whole.begin || range.end < whole.end).then(|| {
        format!(
            "it shows {} to {} of {} to {}",
            shown(range.begin),
            shown(range.end),
            shown(whole.begin),
            shown(whole.end)
        )
    })
}

/// Points of a chart: about one for every other pixel.
const POINTS: i64 = 400;
/// More than any chart can show. Bounds the memory if the user gives a tiny --step by mistake.
const MOST_POINTS: i64 = 1_000_000;
/// Time steps, in seconds, that are easy to read on an axis: 1 min to 4 weeks.
const STEPS: [i64; 12] =
    [60, 300, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 7 * 86_400, 28 * 86_400];

fn over_time(name: &str, trace: &Trace, runs: &[Run], step: Option<Seconds>) -> Result<String> {
    let begin = runs.iter().map(|run| run.extent().begin).min().unwrap_or_default();
    let end = runs.iter().map(|run| run.extent().end).max().unwrap_or_default();
    let window = Interval::new(begin, end);
    let step = step.unwrap_or_else(|| fitting_step(window));
    ensure!(
        step > Seconds::ZERO && window.length().0 / step.0 <= MOST_POINTS,
        "cannot draw {} s in steps of {step} s; use a longer --step, or none",
        window.length()
    );
    let style = if runs.len() == 1 { Style::Area } else { Style::Step };
    let series = |values: &dyn Fn(&Run) -> Vec<f64>| -> Vec<Series> {
        let points = |run: &Run| over(window, step, values(run));
        runs.iter().map(|run| Series::new(run.policy.to_string(), style, points(run))).collect()
    };
    let busy = series(&|run| {
        let spans = run.completed.iter().map(Completed::span).chain(run.reservations.iter().copied());
        let shares = utilisation_over_time(spans, trace.machine, window, step);
        shares.into_iter().map(|share| share * 100.0).collect()
    });
    let backlog = series(&|run| {
        let seconds = backlog_over_time(&run.completed, trace.machine, window, step);
        seconds.into_iter().map(|seconds| seconds / 3_600.0).collect()
    });
    let panels = vec![
        Panel { maximum: Some(100.0), ..Panel::new("Utilisation", "% of the machine", busy) },
        Panel::new("Backlog", "hours of the whole machine", backlog),
    ];
    Ok(Chart { clock: clock(trace), range: Some(window), ..Chart::new(name, panels) }.to_svg())
}

fn fitting_step(window: Interval) -> Seconds {
    let wanted = window.length().0 / POINTS;
    Seconds(STEPS.into_iter().find(|&step| step >= wanted).unwrap_or(wanted))
}

fn over(window: Interval, step: Seconds, values: Vec<f64>) -> Vec<(Time, f64)> {
    let last = values.last().copied();
    let begins = std::iter::successors(Some(window.begin), |&begin| Some(begin + step));
    let mut points: Vec<(Time, f64)> = begins.zip(values).collect();
    // The last value holds to the end of the window, which is not a multiple of the step.
    points.extend(last.map(|value| (window.end, value)));
    points
}

fn gantt(name: &str, trace: &Trace, requests: &[Request], run: &Run, range: Interval) -> String {
    let bar = |begin: Time, end: Time, capacity: Capacity, label: String, kind| Bar {
        interval: Interval::new(begin, end),
        capacity,
        label,
        kind,
    };
    let jobs = trace.jobs.iter().zip(&run.outcome.jobs).filter_map(|(job, fate)| match fate {
        Fate::Ran(ran) => Some(bar(ran.start, ran.end, job.processors, job.number.to_string(), BarKind::Job)),
        Fate::TooWide => None,
    });
    let reservations = requests.iter().zip(&run.outcome.requests).filter_map(|(request, start)| {
        let Span { interval, capacity } = reserved(request, (*start)?);
        let label = request.number.to_string();
        (!interval.is_empty())
            .then(|| bar(interval.begin, interval.end, capacity, label, BarKind::Reservation))
    });
    let bars: Vec<Bar> = jobs.chain(reservations).collect();
    let unit = unit_name(trace).to_owned();
    let part = if part_of_gantt(trace, run, range).is_some() {
        format!(" ({} to {})", instant(trace, range.begin), instant(trace, range.end))
    } else {
        String::new()
    };
    let title = format!("{name}, {}{part}", run.policy);
    Gantt { clock: clock(trace), range: Some(range), unit, ..Gantt::new(title, trace.machine, bars) }.to_svg()
}
