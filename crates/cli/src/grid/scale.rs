//! `bookahead simulate-grid --sites N`: a generated grid under load, in which decisions take time. Parses the options,
//! runs the grid of `bookahead_sim::grid::scale`, and prints its figures.

pub(crate) mod swept;

use crate::output::{count, length, percent, plural, print_json, stdout};
use crate::table::{Column, Table};
use anyhow::{Context, Result, ensure};
use bookahead_api::Length;
use bookahead_protocol::Millis;
use bookahead_protocol::broker::Rules;
use bookahead_sim::grid::scale::{Outcome, Scale};
use bookahead_sim::grid::{Clock, Cost, Load, PerInput, Spent};
use clap::Args;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::Write;
use std::str::FromStr;
use std::time::Instant;

/// Most sites: as many as a broker accepts as peers.
const MOST_SITES: usize = 10_000;
/// Most requests of a run. Each takes a few kilobytes until the end.
const MOST_REQUESTS: f64 = 1e6;
/// Most parts of a request: enough for any co-reservation of equal parts.
const MOST_PARTS: usize = 16;

#[derive(Args)]
#[group(id = "generated")]
pub(crate) struct Options {
    /// Generate a grid of this many equal sites instead of reading one; see docs/explanation/scale.md
    #[arg(long, value_name = "N", help_heading = "Generated grid")]
    pub(crate) sites: Option<usize>,

    /// Brokers on each level below the first: 32, or 10,100 for two levels, or 0 for none [default: 0]
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        requires = "sites",
        help_heading = "Generated grid"
    )]
    brokers: Vec<usize>,

    /// Mean number of requests an hour, which arrive at random
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1000.0,
        requires = "sites",
        help_heading = "Generated grid"
    )]
    requests_per_hour: f64,

    /// How long requests arrive
    #[arg(
        long,
        value_name = "LENGTH",
        default_value = "10m",
        requires = "sites",
        help_heading = "Generated grid"
    )]
    duration: Length,

    /// Longest time from a request to its earliest start; 0s for starts at once
    #[arg(
        long,
        value_name = "LENGTH",
        default_value = "4h",
        requires = "sites",
        help_heading = "Generated grid"
    )]
    ahead: Length,

    /// Parts of a request, which start together
    #[arg(long, value_name = "N", default_value_t = 1, requires = "sites", help_heading = "Generated grid")]
    parts: usize,

    /// Peers that a broker probes first, chosen at random [default: all]
    #[arg(long, value_name = "N", requires = "sites", help_heading = "Generated grid")]
    probe_first: Option<usize>,

    /// Slots that a broker requests from each peer for each resource
    #[arg(long, value_name = "N", default_value_t = 20, requires = "sites", help_heading = "Generated grid")]
    slots: u32,

    /// Mean delay of a message; single ones take half to one and a half times as long
    #[arg(
        long,
        value_name = "LENGTH",
        default_value = "10ms",
        requires = "sites",
        help_heading = "Generated grid"
    )]
    latency: Length,

    /// Time that an input occupies a party: 20us, broker=20us,site=10us, or measured (the processor time of each
    /// decision on this machine) [default: none]
    #[arg(long, value_name = "COST", requires = "sites", help_heading = "Generated grid")]
    cost_per_input: Option<CostPerInput>,

    /// Time that each event that an input writes occupies a party in addition, such as 30us
    #[arg(long, value_name = "TIME", requires = "cost_per_input", help_heading = "Generated grid")]
    cost_per_event: Option<Fine>,
}

/// A length of time in nanoseconds, written as `20us`, `500ns` or `1.5ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fine(u64);

impl FromStr for Fine {
    type Err = String;

    fn from_str(text: &str) -> Result<Fine, String> {
        let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6)];
        let parsed = units.iter().find_map(|(unit, nanos)| {
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            // An hour is more than any input takes.
            (0.0..3.6e12).contains(&(number * nanos)).then(|| Fine((number * nanos).round() as u64))
        });
        parsed.ok_or_else(|| format!("'{text}' is not a short time; write for example 20us, 500ns or 1.5ms"))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CostPerInput {
    Measured,
    Given { broker: Fine, site: Fine },
}

impl FromStr for CostPerInput {
    type Err = String;

    fn from_str(text: &str) -> Result<CostPerInput, String> {
        if text == "measured" {
            return Ok(CostPerInput::Measured);
        }
        if !text.contains('=') {
            let both = text.parse()?;
            return Ok(CostPerInput::Given { broker: both, site: both });
        }
        let (mut broker, mut site) = (Fine(0), Fine(0));
        for pair in text.split(',') {
            match pair.split_once('=') {
                Some(("broker", time)) => broker = time.parse()?,
                Some(("site", time)) => site = time.parse()?,
                _ => return Err(format!("'{pair}' is neither broker=TIME nor site=TIME")),
            }
        }
        Ok(CostPerInput::Given { broker, site })
    }
}

/// Processor time of this thread in nanoseconds. Not the time of day: another program must not seem to be our work.
fn processor_time() -> u64 {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |time| {
        let (seconds, nanos) = (time.tv_sec().unsigned_abs(), time.tv_nsec().unsigned_abs());
        seconds * 1_000_000_000 + nanos
    })
}

/// The clock, with the shortest time between two readings of it.
fn clock() -> Clock {
    let pause = |_| {
        let before = processor_time();
        processor_time().saturating_sub(before)
    };
    Clock { now: processor_time, reading: (0..1_000).map(pause).min().unwrap_or(0) }
}

impl Options {
    fn scale(&self, sites: usize, seed: u64) -> Result<Scale> {
        ensure!((1..=MOST_SITES).contains(&sites), "--sites must be between 1 and {MOST_SITES}");
        let brokers: &[usize] = if self.brokers == [0] { &[] } else { &self.brokers };
        let mut above = 1;
        for number in brokers {
            ensure!(
                (above..=sites).contains(number),
                "--brokers: a level has at least as many brokers as the level above, and at most as many as sites"
            );
            above = *number;
        }
        ensure!((1..=MOST_PARTS).contains(&self.parts), "--parts must be between 1 and {MOST_PARTS}");
        ensure!(self.requests_per_hour > 0.0, "--requests-per-hour must be more than 0");
        let expected = self.requests_per_hour * self.duration.0.0 as f64 / 3.6e6;
        ensure!(
            expected <= MOST_REQUESTS,
            "these are about {expected:.0} requests, more than {MOST_REQUESTS:.0}; use fewer, or a shorter duration"
        );
        ensure!(
            self.probe_first != Some(0) && self.slots > 0,
            "--probe-first and --slots must be at least 1"
        );
        let latency = self.latency.0.0;
        let input = self.cost_per_input.map(|cost| match cost {
            CostPerInput::Measured => PerInput::Measured(clock()),
            CostPerInput::Given { broker, site } => PerInput::Given { broker: broker.0, site: site.0 },
        });
        let event = self.cost_per_event.map_or(0, |cost| cost.0);
        Ok(Scale {
            sites,
            brokers: brokers.to_vec(),
            requests_per_hour: self.requests_per_hour,
            duration: self.duration.0,
            ahead: self.ahead.0,
            parts: self.parts,
            rules: Rules { probe_first: self.probe_first, slots: self.slots, ..Rules::default() },
            latency: (Millis(latency / 2), Millis(latency + latency / 2)),
            cost: input.map(|input| Cost { input, event }),
            seed,
        })
    }
}

/// Figures of a run. Times are in seconds unless the name says otherwise.
#[derive(Serialize)]
struct Figures {
    sites: usize,
    brokers: Vec<usize>,
    requests_per_hour: f64,
    duration: f64,
    seed: u64,
    ahead: f64,
    parts: usize,
    probe_first: Option<usize>,
    latency: f64,
    requests: usize,
    booked: usize,
    refused: usize,
    unanswered: usize,
    /// Candidates that the first broker tried to hold, per request.
    tries_per_request: f64,
    messages_per_request: f64,
    took: Took,
    /// From the first broker down, then the sites. Empty if decisions take no time.
    levels: Vec<Level>,
    settled_at: Option<f64>,
    violations: Vec<super::results::Seen>,
    /// The only figures that differ between runs with given costs. None in a sweep, whose runs share a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    simulation: Option<Simulation>,
}

/// From a request to its answer, over the answered requests.
#[derive(Serialize)]
struct Took {
    p50: Option<f64>,
    p90: Option<f64>,
    p99: Option<f64>,
    longest: Option<f64>,
}

#[derive(Serialize)]
struct Level {
    level: String,
    parties: usize,
    /// Share of the time in which the busiest party of the level was occupied.
    busiest: f64,
    /// Mean of the same share over all parties of the level.
    mean: f64,
    inputs: u64,
    longest_queue: usize,
    kinds: BTreeMap<&'static str, Kind>,
}

#[derive(Serialize)]
struct Kind {
    inputs: u64,
    microseconds: f64,
}

#[derive(Serialize)]
struct Simulation {
    wall_time: f64,
    processor_time: f64,
    /// Largest resident memory in MiB; None where the system does not tell.
    memory: Option<u64>,
}

pub(crate) fn run(options: &Options, sites: usize, seed: u64, json: bool) -> Result<()> {
    let scale = options.scale(sites, seed)?;
    let (began, processor) = (Instant::now(), processor_time());
    let outcome = scale.run().context("the generated sites")?;
    let simulation = Simulation {
        wall_time: began.elapsed().as_secs_f64(),
        processor_time: (processor_time() - processor) as f64 / 1e9,
        memory: memory(),
    };
    let figures = Figures { simulation: Some(simulation), ..figures_of(&scale, &outcome, options) };
    if json {
        print_json(&figures)?;
    } else {
        print(&figures)?;
    }
    super::check(&outcome.violations)
}

/// Largest resident memory of this process so far, in MiB.
fn memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? / 1_024)
}

fn figures_of(scale: &Scale, outcome: &Outcome, options: &Options) -> Figures {
    let seconds = |millis: Millis| millis.0 as f64 / 1e3;
    let per_request = |number: u64| number as f64 / outcome.requests.max(1) as f64;
    let took = |share| outcome.took_at(share).map(seconds);
    let duration = seconds(scale.duration);
    let depth = outcome.brokers.len();
    let brokers = outcome.brokers.iter().enumerate().map(|(at, loads)| {
        let name = if depth == 1 { "broker".to_owned() } else { format!("brokers, level {}", at + 1) };
        level(name, loads, duration)
    });
    let levels = brokers.chain([level("sites".to_owned(), &outcome.sites, duration)]);
    Figures {
        sites: scale.sites,
        brokers: scale.brokers.clone(),
        requests_per_hour: scale.requests_per_hour,
        duration,
        seed: scale.seed,
        ahead: seconds(scale.ahead),
        parts: scale.parts,
        probe_first: scale.rules.probe_first,
        latency: seconds(options.latency.0),
        requests: outcome.requests,
        booked: outcome.booked,
        refused: outcome.refused,
        unanswered: outcome.requests - outcome.took.len(),
        tries_per_request: per_request(outcome.attempts),
        messages_per_request: per_request(outcome.messages),
        took: Took { p50: took(0.5), p90: took(0.9), p99: took(0.99), longest: took(1.0) },
        levels: levels.filter(|_| scale.cost.is_some()).collect(),
        settled_at: outcome.settled_at.map(|at| at.0 as f64 / 1e3),
        violations: outcome.violations.iter().map(super::results::Seen::of).collect(),
        simulation: None,
    }
}

fn level(level: String, loads: &[Load], duration: f64) -> Level {
    let share = |load: &Load| load.busy as f64 / 1e9 / duration;
    let mut sums: BTreeMap<&'static str, Spent> = BTreeMap::new();
    for (kind, spent) in loads.iter().flat_map(|load| &load.kinds) {
        let sum = sums.entry(kind).or_default();
        (sum.inputs, sum.nanos) = (sum.inputs + spent.inputs, sum.nanos + spent.nanos);
    }
    let kind = |spent: Spent| Kind {
        inputs: spent.inputs,
        microseconds: spent.nanos as f64 / 1e3 / spent.inputs.max(1) as f64,
    };
    Level {
        level,
        parties: loads.len(),
        busiest: loads.iter().map(share).fold(0.0, f64::max),
        mean: loads.iter().map(share).sum::<f64>() / loads.len().max(1) as f64,
        inputs: loads.iter().map(Load::inputs).sum(),
        longest_queue: loads.iter().map(|load| load.longest_queue).max().unwrap_or(0),
        kinds: sums.into_iter().map(|(name, spent)| (name, kind(spent))).collect(),
    }
}

fn print(figures: &Figures) -> std::io::Result<()> {
    let mut out = stdout();
    let brokers: usize = 1 + figures.brokers.iter().sum::<usize>();
    let (sites, brokers) = (plural(figures.sites as u64, "site"), plural(brokers as u64, "broker"));
    let rate = count(figures.requests_per_hour as u64);
    let lasted = length(figures.duration);
    writeln!(out, "{sites}, {brokers}; {rate} requests an hour for {lasted}, seed {}\n", figures.seed)?;
    let Figures { requests, booked, refused, unanswered, took, .. } = figures;
    writeln!(out, "{}", plural(*requests as u64, "request"))?;
    let number = |number: &usize| count(*number as u64);
    writeln!(
        out,
        "booked {}, refused {}, unanswered {}",
        number(booked),
        number(refused),
        number(unanswered)
    )?;
    if let Took { p50: Some(p50), p90: Some(p90), p99: Some(p99), longest: Some(longest) } = took {
        writeln!(
            out,
            "answered after p50 {p50:.3} s, p90 {p90:.3} s, p99 {p99:.3} s, longest {longest:.3} s"
        )?;
    }
    let (messages, tries) = (figures.messages_per_request, figures.tries_per_request);
    writeln!(out, "{messages:.1} messages and {tries:.2} tries a request\n")?;
    if !figures.levels.is_empty() {
        writeln!(out, "{}", levels(&figures.levels))?;
        writeln!(out, "{}", kinds(&figures.levels))?;
    }
    if let Some(Simulation { wall_time, processor_time, memory }) = &figures.simulation {
        let memory = memory.map_or_else(String::new, |memory| format!(", {memory} MiB"));
        writeln!(
            out,
            "the simulation took {wall_time:.1} s, {processor_time:.1} s of processor time{memory}"
        )?;
    }
    if figures.violations.is_empty() {
        writeln!(out, "the invariants hold: {}", super::tables::INVARIANTS)?;
    }
    Ok(())
}

fn levels(levels: &[Level]) -> Table {
    let mut table = Table::new([
        Column::left("level"),
        Column::right("parties"),
        Column::right("busiest"),
        Column::right("mean"),
        Column::right("inputs"),
        Column::right("longest queue"),
    ]);
    for level in levels {
        table.row([
            level.level.clone(),
            count(level.parties as u64),
            percent(level.busiest),
            percent(level.mean),
            count(level.inputs),
            count(level.longest_queue as u64),
        ]);
    }
    table
}

fn kinds(levels: &[Level]) -> Table {
    let mut table = Table::new([
        Column::left("level"),
        Column::left("input"),
        Column::right("number"),
        Column::right("µs"),
    ]);
    for level in levels {
        for (name, kind) in &level.kinds {
            let number = count(kind.inputs);
            table.row([level.level.clone(), (*name).to_owned(), number, format!("{:.1}", kind.microseconds)]);
        }
    }
    table
}
