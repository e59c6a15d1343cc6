//! The page of the experiment: the figures and tables of the paper with our results, and extensions.

use super::claims::CLAIMS;
use super::results::{Batch, Results, added_hours, of};
use super::run::{BOOK_AHEAD, Contender};
use super::workload::Workload;
use super::{WIDE_WINDOW, WIDEST, figures, pattern};
use crate::claim::judge;
use crate::report::row;
use crate::{Page, Section};
use bookahead_figure::{Chart, Clock, Heatmap, Panel, Series, Style};
use bookahead_plan::Time;
use bookahead_workload::trace::Estimates;

pub(super) fn page(workload: &Workload, results: &Results) -> Page {
    let mut sections = vec![Section::text(set_up(workload)), Section::text(BASES)];
    sections.push(Section::Claims(judge(&CLAIMS, results)));
    sections.push(Section::heading("The workload over time (Fig. 2)"));
    sections.push(figures::over_time(workload));
    sections.push(Section::heading("Share of requests granted (Fig. 3)"));
    sections.extend(Contender::PAPER.map(|contender| surface(results, contender)));
    sections.push(success_table(results));
    sections.push(Section::heading("Delayed jobs (Table 1, Fig. 4)"));
    sections.push(delay_table(results));
    sections.extend(figures::delays(results));
    sections.extend(Contender::PAPER.map(|contender| cumulated(results, contender, workload)));
    sections.push(figures::distributions(results));
    sections.push(Section::heading("The blocking pattern (Fig. 5)"));
    sections.push(match pattern::find(workload, &hours(results).0) {
        Some(found) => Section::figure("fig5.svg", found.caption(), found.gantt(workload).to_svg()),
        None => Section::text("No job behind a wide one was delayed in these runs."),
    });
    sections.push(Section::heading("Beyond the paper"));
    sections.push(contender_table(results));
    sections.push(estimate_table(results));
    Page { id: "what-if", title: "What-if compared with load".to_owned(), sections }
}

/// Why no claim is judged without the log.
pub(super) const DRAWN: &str = "drawn workload: the claim is about the log of SDSC Blue Horizon, which the Parallel \
    Workloads Archive has (SDSC-BLUE-2000-4.2-cln.swf.gz); give its folder with --traces";

const BASES: &str = "Delays and the makespan are relative to a simulation of the same jobs without the requests. The makespan is \
    counted from the first submission to the last end of a job or a reservation; its change is in percent of the makespan \
    without requests. The paper does not state its base: its 8% are about 60,000 s, that is of 750,000 s, which is \
    nearer to the makespan without the first 4.5 days with their five jobs than to the whole 12.5 days.";

fn set_up(workload: &Workload) -> String {
    format!(
        "Workload: {}. One job of each block of ten becomes a request with its real run time as duration; \
         EASY backfilling on {} nodes; at most 20 slots, at least 15 minutes apart, and the start that the request \
         would have as a job; makespan and mean completion time of waiting jobs, measured from the moment of the \
         probe, have equal weight.",
        workload.name, workload.machine
    )
}

pub(super) fn at(ahead: i64, window: i64) -> impl Fn(&Batch) -> bool + Copy {
    move |batch| batch.setting.book_ahead == ahead && batch.setting.window == window
}

pub(super) fn both<'a>(
    a: impl Fn(&Batch) -> bool + 'a,
    b: impl Fn(&Batch) -> bool + 'a,
) -> impl Fn(&Batch) -> bool + 'a {
    move |batch| a(batch) && b(batch)
}

fn surface(results: &Results, contender: Contender) -> Section {
    let (ahead, windows) = hours(results);
    let cell = |&window: &i64, &ahead: &i64| {
        Some(results.mean(both(of(contender), at(ahead, window)), |finding| finding.success).mean)
    };
    let heatmap = Heatmap {
        title: format!("Requests granted, {}", contender.name()),
        x_label: "book-ahead time (hours)".to_owned(),
        y_label: "start window (hours)".to_owned(),
        columns: ahead.iter().map(i64::to_string).collect(),
        rows: windows.iter().map(i64::to_string).collect(),
        cells: windows.iter().map(|window| ahead.iter().map(|ahead| cell(window, ahead)).collect()).collect(),
        unit: "%".to_owned(),
        range: Some((0.0, 100.0)),
    };
    let name = contender.name();
    let caption = format!("Success rate of the {name} method");
    Section::figure(format!("fig3-{name}.svg"), caption, heatmap.to_svg())
}

pub(super) fn hours(results: &Results) -> (Vec<i64>, Vec<i64>) {
    (results.hours(|setting| setting.book_ahead), results.hours(|setting| setting.window))
}

fn success_table(results: &Results) -> Section {
    let (ahead, windows) = hours(results);
    let mut rows = Vec::new();
    for &ahead in &ahead {
        for &window in &windows {
            let cell = |contender: Contender| {
                results.mean(both(of(contender), at(ahead, window)), |finding| finding.success).show(1)
            };
            rows.push(row(
                ahead.to_string(),
                [window.to_string()].into_iter().chain(Contender::ALL.map(cell)),
            ));
        }
    }
    let head = ["book-ahead h", "window h"].into_iter().chain(Contender::ALL.map(Contender::name));
    Section::table("success.csv", "Requests granted, in percent", head, rows)
}

fn delay_table(results: &Results) -> Section {
    let (ahead, _) = hours(results);
    let mut rows = Vec::new();
    for &ahead in &ahead {
        for (name, published) in &TABLE_1 {
            if let Some((_, numbers)) = BOOK_AHEAD.iter().zip(published).find(|(hours, _)| **hours == ahead) {
                let cells = numbers.iter().map(u32::to_string);
                rows.push(row(ahead.to_string(), [format!("{name} (paper)")].into_iter().chain(cells)));
            }
        }
        for contender in Contender::ALL {
            let here = both(of(contender), at(ahead, WIDE_WINDOW));
            rows.push(vec![
                ahead.to_string(),
                contender.name().to_owned(),
                results.mean(&here, |finding| finding.delayed as f64).show(0),
                results.mean(&here, |finding| finding.original_wait).show(0),
                results.mean(&here, |finding| finding.affected_wait).show(0),
            ]);
        }
    }
    let head = ["book-ahead h", "placement", "delayed jobs", "original wait s", "affected wait s"];
    Section::table("table1.csv", "Waits of delayed jobs at a window of 30 hours", head, rows)
}

/// Table 1 of the paper (T. Röblitz, K. Rzadca, Euro-Par 2006) as printed there, by experiment and by the hours of
/// [`BOOK_AHEAD`]: the jobs delayed, and their mean wait in seconds without and with reservations.
pub(super) const TABLE_1: [(&str, [[u32; 3]; BOOK_AHEAD.len()]); 3] = [
    (
        "load-Maui",
        [
            [186, 3191, 9296],
            [276, 2225, 6442],
            [408, 1525, 7514],
            [356, 1939, 8436],
            [383, 1901, 8957],
            [422, 1872, 17051],
        ],
    ),
    (
        "load-Mica",
        [
            [284, 2532, 7853],
            [341, 2138, 11572],
            [372, 1782, 11167],
            [357, 1984, 11036],
            [390, 2244, 15405],
            [411, 1638, 12832],
        ],
    ),
    (
        "what-if-Mica",
        [
            [172, 4155, 8112],
            [280, 3594, 8744],
            [319, 3491, 9193],
            [429, 2426, 11081],
            [393, 1926, 16649],
            [407, 1646, 13011],
        ],
    ),
];

fn cumulated(results: &Results, contender: Contender, workload: &Workload) -> Section {
    let (ahead, _) = hours(results);
    let series = ahead.iter().filter_map(|&ahead| {
        let finding = results.first(both(of(contender), at(ahead, WIDE_WINDOW)))?;
        let mut sum = 0.0;
        let mut points = vec![(workload.begin(), 0.0)];
        for (start, added) in &finding.added {
            sum += added.0 as f64 / 3_600.0;
            points.push((*start, sum));
        }
        Some(Series::new(format!("{ahead} h ahead"), Style::Step, points))
    });
    let panel = Panel::new("Added waiting time, cumulated", "hours", series.collect());
    let clock = Clock::Since(Time(0));
    let name = contender.name();
    let chart = Chart { clock, ..Chart::new(format!("Delays, {name}"), vec![panel]) };
    let caption =
        format!("Added waiting time under the {name} method, cumulated at the start of each job; seed 1");
    Section::figure(format!("fig4-{name}.svg"), caption, chart.to_svg())
}

/// The table cells for a set of runs, in the order of [`SUMMARY_HEAD`].
fn summary(results: &Results, matching: impl Fn(&Batch) -> bool + Copy) -> Vec<String> {
    let short = |batch: &Batch| matching(batch) && batch.setting.book_ahead <= 2 && batch.setting.window <= 2;
    let wide = |batch: &Batch| matching(batch) && batch.setting.window == WIDE_WINDOW;
    vec![
        results.mean(matching, |finding| finding.success).show(1),
        results.mean(short, |finding| finding.success).show(1),
        results.mean(matching, |finding| finding.success_under_high_load).show(1),
        results.mean(wide, |finding| finding.delayed as f64).show(0),
        results.mean(wide, added_hours).show(0),
        results.mean(matching, |finding| finding.makespan_change).show(1),
    ]
}

const SUMMARY_HEAD: [&str; 6] = [
    "granted %",
    "both at most 2 h %",
    "high load %",
    "delayed jobs (30 h)",
    "added hours (30 h)",
    "makespan %",
];

fn contender_table(results: &Results) -> Section {
    let line = |contender: Contender| row(contender.name(), summary(results, of(contender)));
    let mut rows = Contender::ALL.map(line).to_vec();
    for contender in Contender::PAPER {
        let limited = move |batch: &Batch| batch.limited && batch.setting.contender == contender;
        let name = format!("{}, jobs of {WIDEST} at most (window 30 h only)", contender.name());
        let mut cells = summary(results, limited);
        // No limited run has a window of two hours at most, and the mean over no run would be shown as 0.
        cells[1] = "-".to_owned();
        rows.push(row(name, cells));
    }
    table("contenders.csv", "All placements, means over the workloads", "placement", rows)
}

fn estimate_table(results: &Results) -> Section {
    let qualities = [
        ("requested", Estimates::Requested),
        ("twice the run time", Estimates::Factor(2.0)),
        ("exact", Estimates::Actual),
    ];
    let mut rows = Vec::new();
    for contender in Contender::PAPER {
        for (name, estimates) in qualities {
            let matching = move |batch: &Batch| {
                !batch.limited && batch.setting.contender == contender && batch.setting.estimates == estimates
            };
            let name = format!("{}, {name}", contender.name());
            rows.push(row(name, summary(results, matching)));
        }
    }
    table("estimates.csv", "Effect of the quality of estimates", "placement and estimates", rows)
}

fn table(file: &str, caption: &str, first: &str, rows: Vec<Vec<String>>) -> Section {
    Section::table(file, caption, std::iter::once(first).chain(SUMMARY_HEAD), rows)
}
