//! Pictures of a simulation: utilisation and backlog over time, all schedulers in one; and a Gantt chart of one.

use super::Run;
use crate::trace::{clock, unit_name};
use anyhow::{Result, ensure};
use bookahead_figure::{Bar, BarKind, Chart, Gantt, Panel, Series, Style};
use bookahead_plan::metrics::{Completed, backlog_over_time, utilisation_over_time};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use bookahead_sim::Fate;
use bookahead_workload::requests::Request;
use bookahead_workload::trace::Trace;

/// A drawing has about this many points, one for every other pixel.
const POINTS: i64 = 400;
/// No drawing shows more, and the memory for it must not depend on a slip of the user.
const MOST_POINTS: i64 = 1_000_000;
/// Stretches of time that people think in.
const STEPS: [i64; 12] =
    [60, 300, 900, 1_800, 3_600, 7_200, 14_400, 21_600, 43_200, 86_400, 7 * 86_400, 28 * 86_400];

pub(crate) fn over_time(name: &str, trace: &Trace, runs: &[Run], step: Option<Seconds>) -> Result<String> {
    let begin = runs.iter().map(|run| run.extent().begin).min().unwrap_or_default();
    let end = runs.iter().map(|run| run.extent().end).max().unwrap_or_default();
    let window = Interval::new(begin, end);
    let step = step.unwrap_or_else(|| fitting_step(window));
    ensure!(
        step > Seconds::ZERO && window.length().0 / step.0 <= MOST_POINTS,
        "{} s cannot be drawn in steps of {step} s; give a longer --step, or none",
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
    points.extend(last.map(|value| (window.end, value)));
    points
}

pub(crate) fn gantt(name: &str, trace: &Trace, requests: &[Request], run: &Run, range: Interval) -> String {
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
        let (start, label) = ((*start)?, request.number.to_string());
        Some(bar(start, start + request.duration, request.processors, label, BarKind::Reservation))
    });
    let bars: Vec<Bar> = jobs.chain(reservations).collect();
    let unit = unit_name(trace).to_owned();
    let title = format!("{name}, {}", run.policy);
    Gantt { clock: clock(trace), range: Some(range), unit, ..Gantt::new(title, trace.machine, bars) }.to_svg()
}
