//! Figures beyond the granted shares: the workload over time, delayed jobs beside the paper's table, and the
//! distribution of the delays.

use super::WIDE_WINDOW;
use super::page::{TABLE_1, at, both, hours};
use super::results::{Results, of};
use super::run::{BOOK_AHEAD, Contender, Finding, alone};
use super::workload::Workload;
use crate::Section;
use crate::report::point;
use bookahead_figure::{Chart, Clock, LineSeries, Lines, Multiples, Panel, Series, Style};
use bookahead_plan::metrics::{Completed, backlog_over_time, utilisation_over_time};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_sim::{Fate, Job};

/// The paper shows its Figure 2 from this moment on, because only five jobs are submitted before it.
const SHOWN_FROM: Time = Time(370_000);
const STEP: Seconds = Seconds(900);

/// Figure 2: utilisation and backlog of the jobs without reservations.
pub(super) fn over_time(workload: &Workload) -> Section {
    let jobs: Vec<Job> = workload.jobs.iter().map(Job::from).collect();
    let ran = alone(workload, &jobs);
    let ran: Vec<Completed> = jobs
        .iter()
        .zip(&ran.jobs)
        .filter_map(|(job, fate)| match fate {
            Fate::Ran(ran) => Some(job.completed(*ran)),
            Fate::TooWide => None,
        })
        .collect();
    let end = ran.iter().map(|job| job.end).max().unwrap_or(SHOWN_FROM);
    let window = Interval::new(SHOWN_FROM, end.max(SHOWN_FROM + STEP));
    let panel = |title: &str, unit: &str, maximum, values: Vec<f64>, factor: f64| {
        let points =
            (0..).zip(values).map(|(step, value)| (SHOWN_FROM + Seconds(step * STEP.0), value * factor));
        let series = vec![Series::new(title, Style::Area, points.collect())];
        Panel { maximum, ..Panel::new(title, unit, series) }
    };
    let spans = ran.iter().map(Completed::span);
    let used = utilisation_over_time(spans, workload.machine, window, STEP);
    let backlog = backlog_over_time(&ran, workload.machine, window, STEP);
    let panels = vec![
        panel("Utilisation", "% of nodes", Some(100.0), used, 100.0),
        panel("Backlog", "hours", None, backlog, 1.0 / 3_600.0),
    ];
    let chart = Chart { clock: Clock::Since(Time(0)), ..Chart::new("The jobs without reservations", panels) };
    let caption = "Utilisation and backlog (remaining estimated work per node) over the simulated time, from 370,000 s on as \
                   in the paper";
    Section::figure("fig2.svg", caption, chart.to_svg())
}

/// File, label, place in the paper's table, and our value.
type Column = (&'static str, &'static str, usize, fn(&Finding) -> f64);

/// Two columns of Table 1 as curves, with the paper's points.
pub(super) fn delays(results: &Results) -> [Section; 2] {
    let columns: [Column; 2] = [
        ("table1-jobs.svg", "delayed jobs", 0, |finding| finding.delayed as f64),
        ("table1-waits.svg", "mean wait of the delayed jobs, s", 2, |finding| finding.affected_wait),
    ];
    columns.map(|(file, what, column, value)| {
        let (aheads, _) = hours(results);
        let ours = Contender::PAPER.map(|contender| {
            let here = |&ahead: &i64| {
                point(ahead as f64, results.mean(both(of(contender), at(ahead, WIDE_WINDOW)), value))
            };
            LineSeries::new(contender.name(), aheads.iter().map(here).collect())
        });
        // In the table of the paper the two methods follow a third one, in the order of ours.
        let published = TABLE_1[1..].iter().zip(Contender::PAPER).map(|((_, rows), contender)| {
            let points =
                BOOK_AHEAD.iter().zip(rows).map(|(&hours, row)| (hours as f64, f64::from(row[column])));
            LineSeries::published(contender.name(), points)
        });
        let series = ours.into_iter().chain(published).collect();
        let lines = Lines::new("Table 1 at a window of 30 hours", "book-ahead time (hours)", what, series);
        let caption = format!("Table 1: {what}; hollow markers are the paper's values");
        Section::figure(file, caption, lines.to_svg())
    })
}

/// The distribution of the added waits, one panel for each book-ahead time.
pub(super) fn distributions(results: &Results) -> Section {
    let (aheads, _) = hours(results);
    let panel = |&ahead: &i64| {
        let series = Contender::PAPER.into_iter().filter_map(|contender| {
            let finding = results.first(both(of(contender), at(ahead, WIDE_WINDOW)))?;
            let added: Vec<f64> = finding.added.iter().map(|(_, added)| added.0 as f64 / 3_600.0).collect();
            Some(LineSeries::distribution(contender.name(), &added))
        });
        (format!("{ahead} h ahead"), series.collect())
    };
    let common = Lines::new("Added wait of delayed jobs", "hours at most", "% of delayed jobs", Vec::new());
    let multiples = Multiples::new(common, 3, aheads.iter().map(panel).collect());
    let caption = "Distribution of the added waits at a window of 30 hours; seed 1";
    Section::figure("added-waits.svg", caption, multiples.to_svg())
}
