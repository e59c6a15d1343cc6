//! Generated grids as runs of a sweep, in this process: options in, a row of figures out.

use super::{Figures, Level, Options, figures_of};
use crate::sweep::table::{Cell, Row};
use crate::sweep::task::option_error;
use crate::sweep::values::Kind;
use anyhow::{Context, Result};
use bookahead_sim::grid::scale::Scale;
use clap::Parser;

/// The options of one run.
#[derive(Parser)]
#[command(name = "simulate-grid", no_binary_name = true, disable_help_flag = true)]
pub(crate) struct Line {
    #[command(flatten)]
    options: Options,

    #[arg(long, default_value_t = 0)]
    seed: u64,
}

impl Line {
    /// Parses the options and checks their values.
    pub(crate) fn parse(words: &[String]) -> Result<Line> {
        let line = Line::try_parse_from(words).map_err(|error| option_error("simulate-grid", &error))?;
        line.scale()?;
        Ok(line)
    }

    fn scale(&self) -> Result<Scale> {
        let sites = self.options.sites.context(
            "sites is missing; add it to [parameters] for a generated grid, or set input to a description",
        )?;
        self.options.scale(sites, self.seed)
    }

    pub(crate) fn run(&self) -> Result<Row> {
        let scale = self.scale()?;
        let outcome = scale.run().context("the generated sites")?;
        Ok(row(&figures_of(&scale, &outcome, &self.options)))
    }
}

/// The figures of a run, without those of the simulation itself: a row depends on the options only, unless the cost is
/// measured.
fn row(figures: &Figures) -> Row {
    let optional = |name: &'static str, value: Option<f64>| {
        value.map_or(Cell::none(name, Kind::Float), |value| Cell::float(name, value))
    };
    let levels = &figures.levels;
    let (first, sites) = (levels.first(), levels.last());
    // Between the first broker and the sites; none without a hierarchy.
    let lower = levels.get(1..levels.len().saturating_sub(1)).unwrap_or_default();
    let lower = lower.iter().map(|level| level.busiest).reduce(f64::max);
    let per_request = |total: f64| total / figures.requests.max(1) as f64;
    let (inputs, milliseconds) = first.map(work).unzip();
    vec![
        Cell::int("requests", figures.requests),
        Cell::int("booked", figures.booked),
        Cell::int("refused", figures.refused),
        Cell::int("unanswered", figures.unanswered),
        Cell::float("tries_per_request", figures.tries_per_request),
        Cell::float("messages_per_request", figures.messages_per_request),
        optional("median_answer", figures.took.p50),
        optional("p90_answer", figures.took.p90),
        optional("p99_answer", figures.took.p99),
        optional("longest_answer", figures.took.longest),
        optional("first_busy", first.map(|level| level.busiest)),
        optional("lower_busiest", lower),
        optional("sites_busiest", sites.map(|level| level.busiest)),
        optional("first_inputs_per_request", inputs.map(per_request)),
        optional("first_ms_per_request", milliseconds.map(per_request)),
        Cell {
            value: first.map(|level| crate::sweep::values::Value::Int(level.longest_queue as i64)),
            ..Cell::none("first_longest_queue", Kind::Int)
        },
        optional("settled_at", figures.settled_at),
        Cell::int("violations", figures.violations.len()),
    ]
}

/// Inputs of a level and their milliseconds. Heartbeats are left out: their number depends on the sites and the time,
/// not on the requests.
fn work(level: &Level) -> (f64, f64) {
    let kinds = level.kinds.iter().filter(|(name, _)| **name != "heartbeat").map(|(_, kind)| kind);
    kinds.fold((0.0, 0.0), |(inputs, milliseconds), kind| {
        let number = kind.inputs as f64;
        (inputs + number, milliseconds + number * kind.microseconds / 1e3)
    })
}
