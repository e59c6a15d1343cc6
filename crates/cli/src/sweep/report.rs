//! `bookahead sweep report`: the results of a sweep as one page, with curves, heat maps and a table, and each of them
//! as a file. Means are over the seeds; intervals are 95% confidence intervals.

use super::description::Command;
use super::grid::Parameter;
use super::store::{Store, parquet_files};
use super::table;
use super::values::Value;
use crate::output::{count, plural, save, say};
use crate::times::length;
use anyhow::{Context, Result, ensure};
use bookahead_experiments::{Estimate, Page, Section, Table};
use bookahead_figure::{
    BarSeries, BarValue, Bars, Heatmap, LinePoint, LineSeries, Lines, MAX_COLUMNS, MAX_ROWS,
};
use clap::Args;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder of the sweep
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Results to show, by the names of their columns [default: the most important ones of the command]
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    metric: Vec<String>,

    /// Parameter of the x axis [default: the one with most values]
    #[arg(long, value_name = "PARAMETER")]
    x: Option<String>,

    /// Folder for the page, the figures as SVG and the table as CSV [default: report in the folder of the sweep]
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

/// Most lines of a chart: a reader cannot tell more apart.
const MOST_LINES: usize = 7;
/// Ratio of the highest to the lowest value from which an axis is logarithmic.
const WIDE: f64 = 30.0;
/// Most heat maps of one result.
const MOST_MAPS: usize = 6;
/// Most rows of the table on the page; the results have all.
const MOST_TABLE_ROWS: usize = 500;
/// Most results that are shown by default.
const MOST_METRICS: usize = 4;

/// The runs of a sweep with their results.
struct Results {
    store: Store,
    /// Numbers of each column by run; NaN if there is none.
    columns: BTreeMap<String, Vec<f64>>,
    done: usize,
}

/// Most runs of a report. Their results are in memory; queries on the files can do more.
const MOST_SHOWN_RUNS: usize = 1_000_000;

/// A parameter of the charts.
struct Axis<'a> {
    parameter: &'a Parameter,
    /// Its place among the parameters of the sweep.
    at: usize,
    /// Values as numbers, if all are numbers or lengths of time (in hours).
    numbers: Option<Vec<f64>>,
    label: String,
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let results = Results::read(&arguments.folder)?;
    let metrics = results.metrics(&arguments.metric)?;
    let axes = results.axes(arguments.x.as_deref())?;
    let folder = arguments.out.clone().unwrap_or_else(|| arguments.folder.join("report"));
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let page = results.page(&metrics, &axes);
    if let [x, rest @ ..] = &axes[..] {
        for metric in &metrics {
            let table = results.values_of_curves(metric, x, &few(rest, MOST_LINES));
            save(&folder.join(&table.file), &table.to_csv())?;
        }
    }
    for section in &page.sections {
        match section {
            Section::Table(table) => save(&folder.join(&table.file), &table.to_csv())?,
            Section::Figure { file, svg, .. } => save(&folder.join(file), svg)?,
            _ => {}
        }
    }
    let path = folder.join("index.html");
    save(&path, &page.to_file())?;
    say!("report: {}", path.display());
    Ok(())
}

impl Results {
    fn read(folder: &std::path::Path) -> Result<Results> {
        let store = Store::open(folder)?;
        let runs = store.sweep.runs();
        ensure!(
            runs <= MOST_SHOWN_RUNS,
            "a report has at most {MOST_SHOWN_RUNS} runs; query the files instead"
        );
        let numbers: HashMap<String, usize> = (0..runs).map(|run| (store.key_text(run), run)).collect();
        let (mut columns, mut done) = (BTreeMap::new(), 0);
        for file in parquet_files(&store.root.join("runs"))? {
            for row in table::read(&file, None)? {
                let key = row.iter().find(|cell| cell.name == "key").and_then(|cell| cell.value.as_ref());
                // Rows of earlier descriptions, inputs and versions stay in the folder; they are not shown.
                let Some(run) = key.and_then(|key| numbers.get(&key.to_string())) else { continue };
                done += 1;
                for cell in row {
                    let Some(number) = cell.value.and_then(|value| value.number()) else { continue };
                    let empty = || vec![f64::NAN; runs];
                    columns.entry(cell.name.into_owned()).or_insert_with(empty)[*run] = number;
                }
            }
        }
        ensure!(done > 0, "{} has no results of this sweep", folder.display());
        Ok(Results { store, columns, done })
    }

    fn number(&self, run: usize, metric: &str) -> Option<f64> {
        self.columns.get(metric)?.get(run).copied().filter(|number| number.is_finite())
    }

    /// Columns with numbers that are no parameters.
    fn numeric_columns(&self) -> BTreeSet<&str> {
        let parameters = &self.store.sweep.parameters;
        let is_parameter = |name: &str| parameters.iter().any(|parameter| parameter.column == name);
        self.columns.keys().map(String::as_str).filter(|name| !is_parameter(name)).collect()
    }

    fn metrics(&self, wanted: &[String]) -> Result<Vec<String>> {
        let known = self.numeric_columns();
        let names = || known.iter().copied().collect::<Vec<_>>().join(", ");
        for name in wanted {
            ensure!(known.contains(&**name), "unknown result '{name}'; use {}", names());
        }
        if !wanted.is_empty() {
            return Ok(wanted.to_vec());
        }
        let usual: &[&str] = match self.store.sweep.command {
            Command::Simulate => &["mean_wait", "mean_bounded_slowdown", "utilisation", "granted"],
            // The first three of grids with a description, the next four of generated ones.
            Command::SimulateGrid => &[
                "granted",
                "mean_answer",
                "used_by_reservations",
                "p99_answer",
                "first_busy",
                "messages_per_request",
                "booked",
                "violations",
            ],
            Command::Experiment => &["success", "makespan_change", "delayed", "added_wait"],
        };
        let mut chosen: Vec<String> =
            usual.iter().filter(|name| known.contains(**name)).map(|name| (*name).to_owned()).collect();
        if chosen.is_empty() {
            chosen.extend(known.iter().take(MOST_METRICS).map(|name| (*name).to_owned()));
        }
        Ok(chosen)
    }

    /// Parameters with several values, except the seed: the x axis first, then those with most values.
    fn axes(&self, x: Option<&str>) -> Result<Vec<Axis<'_>>> {
        let parameters = self.store.sweep.parameters.iter().enumerate();
        let varied =
            parameters.filter(|(_, parameter)| parameter.values.len() > 1 && parameter.column != "seed");
        let mut axes: Vec<Axis<'_>> = varied.map(|(at, parameter)| Axis::new(at, parameter)).collect();
        // Stable, so that equal ones stay in the order of the description. Numbers go first: they make a curve.
        axes.sort_by_key(|axis| std::cmp::Reverse((axis.numbers.is_some(), axis.parameter.values.len())));
        if let Some(x) = x {
            let column = x.replace('-', "_");
            let place = axes.iter().position(|axis| axis.parameter.column == column);
            let place = place.with_context(|| format!("{x} is not a parameter with several values"))?;
            let first = axes.remove(place);
            axes.insert(0, first);
        }
        Ok(axes)
    }

    /// The place of the value of an axis that a run has.
    fn place(&self, run: usize, axis: &Axis<'_>) -> usize {
        let setting = self.store.sweep.setting(run);
        let value = setting.get(axis.at).map(|(_, value)| *value);
        axis.parameter.values.iter().position(|other| Some(other) == value).unwrap_or(0)
    }

    /// Estimates of a result for each combination of places on these axes. For each seed the mean over all other
    /// parameters is one value, since these runs are not independent.
    fn estimates(&self, metric: &str, axes: &[&Axis<'_>]) -> BTreeMap<Vec<usize>, Estimate> {
        let seed = self.store.sweep.parameters.iter().position(|parameter| parameter.column == "seed");
        let mut groups: BTreeMap<Vec<usize>, BTreeMap<String, (f64, usize)>> = BTreeMap::new();
        for run in 0..self.store.sweep.runs() {
            let Some(number) = self.number(run, metric) else { continue };
            let places = axes.iter().map(|axis| self.place(run, axis)).collect();
            let setting = self.store.sweep.setting(run);
            let seed =
                seed.and_then(|at| setting.get(at)).map(|(_, seed)| seed.to_string()).unwrap_or_default();
            let sum = groups.entry(places).or_default().entry(seed).or_insert((0.0, 0));
            *sum = (sum.0 + number, sum.1 + 1);
        }
        let estimate = |seeds: BTreeMap<String, (f64, usize)>| {
            Estimate::of(&seeds.values().map(|(sum, runs)| sum / *runs as f64).collect::<Vec<_>>())
        };
        groups.into_iter().map(|(places, seeds)| (places, estimate(seeds))).collect()
    }

    fn page(&self, metrics: &[String], axes: &[Axis<'_>]) -> Page {
        let sweep = &self.store.sweep;
        let mut sections = vec![Section::Text(self.summary())];
        for metric in metrics {
            sections.push(Section::Heading(words(metric)));
            if let [x, rest @ ..] = axes {
                sections.push(self.curves(metric, x, rest));
            }
            if let [columns, rows, rest @ ..] = axes {
                sections.extend(self.heat_maps(metric, columns, rows, rest));
            }
        }
        sections.push(Section::Heading("Table".to_owned()));
        sections.push(Section::Table(self.table(metrics, axes)));
        let name = sweep.input.rsplit('/').next().unwrap_or_default();
        let title = format!("Sweep: {} {name}", sweep.command.name()).trim_end().to_owned();
        Page { id: "sweep", title, sections }
    }

    fn summary(&self) -> String {
        let sweep = &self.store.sweep;
        let parameters: Vec<String> = sweep.parameters.iter().map(described).collect();
        format!(
            "{} of {} done. Parameters: {}. Made with Bookahead {}.",
            count(self.done as u64),
            plural(sweep.runs() as u64, "run"),
            parameters.join("; "),
            self.store.plan.version
        )
    }

    /// A curve for each combination of the other parameters, as far as these are few; means over those that are left.
    /// Bars, if the values on the x axis are no numbers.
    fn curves(&self, metric: &str, x: &Axis<'_>, rest: &[Axis<'_>]) -> Section {
        let by = few(rest, MOST_LINES);
        let axes: Vec<&Axis<'_>> = std::iter::once(x).chain(by.iter().copied()).collect();
        let lines = self.lines(metric, x, &by);
        let title = format!("{} by {}", words(metric), x.parameter.name);
        let svg = if let Some(numbers) = &x.numbers {
            let series = lines.into_iter().map(|(name, estimates)| {
                let points = numbers.iter().zip(estimates).filter_map(|(x, estimate)| {
                    let estimate = estimate?;
                    Some(LinePoint { x: *x, y: estimate.mean, margin: estimate.margin })
                });
                LineSeries::new(name, points.collect())
            });
            let series: Vec<LineSeries> = series.collect();
            let values = series.iter().flat_map(|series| &series.points).map(|point| point.y);
            // Shares are compared by their difference.
            let y_log = unit(metric) != "share" && is_wide(values);
            let lines = Lines::new(title, x.label.clone(), with_unit(metric), series);
            Lines { x_log: is_wide(numbers.iter().copied()), y_log, ..lines }.to_svg()
        } else {
            let series = lines.into_iter().map(|(name, estimates)| {
                let bar = |estimate: Estimate| BarValue { value: estimate.mean, margin: estimate.margin };
                BarSeries::new(name, estimates.into_iter().map(|estimate| estimate.map(bar)).collect())
            });
            Bars::new(title, with_unit(metric), x.names(), series.collect()).to_svg()
        };
        Section::Figure {
            file: format!("{metric}-curves.svg"),
            caption: self.caption(&axes, " with its 95% confidence interval"),
            svg,
        }
    }

    /// The name of each curve, and its value at each value of `x`.
    fn lines(&self, metric: &str, x: &Axis<'_>, by: &[&Axis<'_>]) -> Vec<(String, Vec<Option<Estimate>>)> {
        let axes: Vec<&Axis<'_>> = std::iter::once(x).chain(by.iter().copied()).collect();
        let estimates = self.estimates(metric, &axes);
        let line = |places: Vec<usize>| {
            let name = if by.is_empty() { words(metric) } else { named(by, &places) };
            let at = |place: usize| {
                let places: Vec<usize> = std::iter::once(place).chain(places.iter().copied()).collect();
                estimates.get(&places).copied()
            };
            (name, (0..x.parameter.values.len()).map(at).collect())
        };
        combinations(by).into_iter().map(line).collect()
    }

    /// The values of the curves of a result: a row for each value of `x`, a column for each curve.
    fn values_of_curves(&self, metric: &str, x: &Axis<'_>, by: &[&Axis<'_>]) -> Table {
        let lines = self.lines(metric, x, by);
        let row = |(place, name): (usize, String)| {
            let shown = |(_, estimates): &(String, Vec<Option<Estimate>>)| {
                estimates[place].as_ref().map_or_else(String::new, shown)
            };
            std::iter::once(name).chain(lines.iter().map(shown)).collect()
        };
        Table {
            file: format!("{metric}-curves.csv"),
            caption: with_unit(metric),
            head: std::iter::once(&x.parameter.name)
                .chain(lines.iter().map(|(name, _)| name))
                .cloned()
                .collect(),
            rows: x.names().into_iter().enumerate().map(row).collect(),
        }
    }

    fn heat_maps(
        &self,
        metric: &str,
        columns: &Axis<'_>,
        rows: &Axis<'_>,
        rest: &[Axis<'_>],
    ) -> Vec<Section> {
        let (wide, high) = (columns.parameter.values.len(), rows.parameter.values.len());
        if wide > MAX_COLUMNS || high > MAX_ROWS {
            return Vec::new();
        }
        let by = few(rest, MOST_MAPS);
        let axes: Vec<&Axis<'_>> = [columns, rows].into_iter().chain(by.iter().copied()).collect();
        let estimates = self.estimates(metric, &axes);
        // One scale for all maps of a result, so that they can be compared.
        let means = || estimates.values().map(|estimate| estimate.mean);
        let range = (means().fold(f64::INFINITY, f64::min), means().fold(f64::NEG_INFINITY, f64::max));
        let caption = self.caption(&axes, "");
        let map = |(at, others): (usize, Vec<usize>)| {
            let cell = |row: usize, column: usize| {
                let places: Vec<usize> = [column, row].into_iter().chain(others.iter().copied()).collect();
                Some(estimates.get(&places)?.mean)
            };
            let cells = (0..high).map(|row| (0..wide).map(|column| cell(row, column)).collect()).collect();
            let title = match by.is_empty() {
                true => words(metric),
                false => format!("{}, {}", words(metric), named(&by, &others)),
            };
            let map = Heatmap {
                x_label: columns.parameter.name.clone(),
                y_label: rows.parameter.name.clone(),
                cells,
                unit: unit(metric).to_owned(),
                range: Some(range),
                ..Heatmap::new(title, columns.names(), rows.names())
            };
            let number = if by.is_empty() { String::new() } else { format!("-{at}") };
            let file = format!("{metric}-map{number}.svg");
            Section::Figure { file, caption: caption.clone(), svg: map.to_svg() }
        };
        combinations(&by).into_iter().enumerate().map(map).collect()
    }

    /// What a value of a figure is the mean of.
    fn caption(&self, axes: &[&Axis<'_>], interval: &str) -> String {
        let parameters = self.store.sweep.parameters.iter().enumerate();
        let others = parameters
            .filter(|(at, parameter)| parameter.values.len() > 1 && axes.iter().all(|axis| axis.at != *at));
        let (seeds, others): (Vec<_>, Vec<_>) = others.partition(|(_, parameter)| parameter.column == "seed");
        let mut parts = Vec::new();
        if let Some((_, seed)) = seeds.first() {
            let seeds = plural(seed.values.len() as u64, "seed");
            parts.push(format!("Mean over {seeds}{interval}"));
        }
        if !others.is_empty() {
            let names: Vec<&str> = others.iter().map(|(_, parameter)| &*parameter.name).collect();
            parts.push(format!("mean over all values of {}", names.join(", ")));
        }
        if parts.is_empty() { "One run for each value.".to_owned() } else { format!("{}.", parts.join("; ")) }
    }

    fn table(&self, metrics: &[String], axes: &[Axis<'_>]) -> Table {
        // In the order of the description.
        let mut axes: Vec<&Axis<'_>> = axes.iter().collect();
        axes.sort_by_key(|axis| axis.at);
        let columns: Vec<BTreeMap<Vec<usize>, Estimate>> =
            metrics.iter().map(|metric| self.estimates(metric, &axes)).collect();
        let all: BTreeSet<&Vec<usize>> = columns.iter().flat_map(BTreeMap::keys).collect();
        let row = |places: &&Vec<usize>| {
            let names =
                axes.iter().zip(places.iter()).map(|(axis, at)| axis.parameter.values[*at].to_string());
            let cells = columns.iter().map(|column| column.get(*places).map_or("–".to_owned(), shown));
            names.chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = all.iter().take(MOST_TABLE_ROWS).map(row).collect();
        let left_out = all.len().saturating_sub(MOST_TABLE_ROWS);
        let more = if left_out == 0 {
            String::new()
        } else {
            format!("; {} more rows are not shown", count(left_out as u64))
        };
        let head = axes.iter().map(|axis| axis.parameter.name.clone());
        Table {
            file: "table.csv".to_owned(),
            caption: format!("Results, with 95% confidence intervals over the seeds{more}"),
            head: head.chain(metrics.iter().map(|metric| with_unit(metric))).collect(),
            rows,
        }
    }
}

impl<'a> Axis<'a> {
    fn new(at: usize, parameter: &'a Parameter) -> Axis<'a> {
        let numbers: Option<Vec<f64>> = parameter.values.iter().map(Value::number).collect();
        let hours = || -> Option<Vec<f64>> {
            let hours = |value: &Value| Some(length(&value.to_string()).ok()?.0 as f64 / 3_600.0);
            parameter.values.iter().map(hours).collect()
        };
        let label = match &numbers {
            None if hours().is_some() => format!("{}, hours", parameter.name),
            _ => parameter.name.clone(),
        };
        Axis { parameter, at, numbers: numbers.or_else(hours), label }
    }

    fn names(&self) -> Vec<String> {
        self.parameter.values.iter().map(ToString::to_string).collect()
    }

    /// `load 1.2`, or the value itself if it is a word.
    fn named(&self, place: usize) -> String {
        let value = self.parameter.values.get(place).map(ToString::to_string).unwrap_or_default();
        if self.numbers.is_some() { format!("{} {value}", self.parameter.name) } else { value }
    }
}

/// Other parameters with at most `most` combinations, from those with fewest values, in the order of the description.
fn few<'a, 'b>(rest: &'b [Axis<'a>], most: usize) -> Vec<&'b Axis<'a>> {
    let mut combinations = 1;
    let fits = |axis: &&Axis<'_>| {
        let more = combinations * axis.parameter.values.len();
        if more <= most {
            combinations = more;
        }
        more <= most
    };
    let mut chosen: Vec<&Axis<'_>> = rest.iter().rev().filter(fits).collect();
    chosen.sort_by_key(|axis| axis.at);
    chosen
}

/// Places of all combinations of the values of these axes; the last changes fastest.
fn combinations(axes: &[&Axis<'_>]) -> Vec<Vec<usize>> {
    axes.iter().fold(vec![Vec::new()], |combinations, axis| {
        let places = 0..axis.parameter.values.len();
        let longer = |places: Vec<usize>, place| places.into_iter().chain([place]).collect();
        combinations
            .iter()
            .flat_map(|before| places.clone().map(|place| longer(before.clone(), place)))
            .collect()
    })
}

/// `easy, load 1.2`: the values of a combination.
fn named(axes: &[&Axis<'_>], places: &[usize]) -> String {
    let names: Vec<String> = axes.iter().zip(places).map(|(axis, place)| axis.named(*place)).collect();
    names.join(", ")
}

/// Whether positive numbers differ so much that a linear axis would show most of them at one point.
fn is_wide(numbers: impl Iterator<Item = f64>) -> bool {
    let (low, high) = numbers.fold((f64::INFINITY, 0.0_f64), |(low, high), n| (low.min(n), high.max(n)));
    low > 0.0 && high / low >= WIDE
}

/// `0.85 ± 0.36`, or `12 ± 0` if all seeds gave the same.
fn shown(estimate: &Estimate) -> String {
    if estimate.margin.is_some_and(|margin| margin > 0.0) {
        return estimate.show(4);
    }
    let mean = match estimate.mean {
        0.0 => "0".to_owned(),
        _ => Estimate { margin: None, ..*estimate }.show(4),
    };
    if estimate.margin.is_some() { format!("{mean} ± 0") } else { mean }
}

/// `load 1, 1.2, 1.4`, or the ends of many values.
fn described(parameter: &Parameter) -> String {
    let texts: Vec<String> = parameter.values.iter().map(ToString::to_string).collect();
    match &texts[..] {
        [first, .., last] if texts.len() > 8 => {
            format!("{} {first} to {last} ({} values)", parameter.name, texts.len())
        }
        _ => format!("{} {}", parameter.name, texts.join(", ")),
    }
}

fn words(metric: &str) -> String {
    if let Some(which) = metric.strip_suffix("_answer") {
        return format!("Time to the answer, {which}");
    }
    let text = metric.replace('_', " ");
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}

/// The unit of a column, as far as it is known.
fn unit(metric: &str) -> &'static str {
    match metric {
        "utilisation"
        | "reserved"
        | "used_by_jobs"
        | "used_by_reservations"
        | "first_busy"
        | "lower_busiest"
        | "sites_busiest" => "share",
        "first_ms_per_request" => "ms",
        "success" | "success_under_high_load" | "makespan_change" => "%",
        "makespan" | "mean_response" | "makespan_added" => "s",
        name if name.ends_with("_wait") || name.ends_with("_answer") => "s",
        _ => "",
    }
}

fn with_unit(metric: &str) -> String {
    let unit = unit(metric);
    if unit.is_empty() { words(metric) } else { format!("{}, {unit}", words(metric)) }
}
