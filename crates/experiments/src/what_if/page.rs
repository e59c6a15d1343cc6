//! The page of the report: the paper's figures and tables with ours, and what goes beyond.

use super::claims::claims;
use super::contender::Contender;
use super::published::TABLE_1;
use super::results::{Batch, Results, added_hours, of};
use super::workload::Workload;
use super::{WIDE_WINDOW, WIDEST};
use crate::{Page, Section, Table};
use bookahead_figure::{Chart, Clock, Heatmap, Panel, Series, Style};
use bookahead_plan::Time;
use bookahead_workload::trace::Estimates;

pub(super) fn page(workload: &Workload, cut: usize, results: &Results) -> Page {
    let mut sections = vec![
        Section::Text(format!(
            "Workload: {}. One job of each block of ten becomes a request for as long as it really ran; \
             EASY backfilling on {} nodes; slots: 20 at most, a quarter of an hour apart at least, and where the request \
             would start as a job; makespan and mean completion time count the same, measured from the moment of the \
             probe over waiting jobs.",
            workload.name, workload.machine
        )),
        Section::Claims(claims(results, cut, workload)),
        Section::Heading("Share of requests granted (Fig. 3)".to_owned()),
    ];
    for contender in Contender::PAPER {
        sections.push(surface(results, contender));
    }
    sections.push(Section::Table(success_table(results)));
    sections.push(Section::Heading("Delayed jobs (Table 1, Fig. 4)".to_owned()));
    sections.push(Section::Table(delay_table(results)));
    for contender in Contender::PAPER {
        sections.push(cumulated(results, contender, workload));
    }
    sections.push(Section::Heading("Beyond the paper".to_owned()));
    sections.push(Section::Table(contender_table(results)));
    sections.push(Section::Table(estimate_table(results)));
    Page { id: "what-if", title: "What-if against load".to_owned(), sections }
}

fn at(ahead: i64, window: i64) -> impl Fn(&Batch) -> bool + Copy {
    move |batch| batch.setting.book_ahead == ahead && batch.setting.window == window
}

fn both<'a>(
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
    Section::Figure {
        file: format!("fig3-{}.svg", contender.name()),
        caption: format!("Success rate of the {} method", contender.name()),
        svg: heatmap.to_svg(),
    }
}

fn hours(results: &Results) -> (Vec<i64>, Vec<i64>) {
    (results.hours(|setting| setting.book_ahead), results.hours(|setting| setting.window))
}

fn success_table(results: &Results) -> Table {
    let (ahead, windows) = hours(results);
    let mut rows = Vec::new();
    for &ahead in &ahead {
        for &window in &windows {
            let cell = |contender: Contender| {
                results.mean(both(of(contender), at(ahead, window)), |finding| finding.success).show(1)
            };
            rows.push(
                [vec![ahead.to_string(), window.to_string()], Contender::ALL.map(cell).to_vec()].concat(),
            );
        }
    }
    let names = Contender::ALL.map(|contender| contender.name().to_owned());
    let head = ["book-ahead h", "window h"].map(str::to_owned);
    Table {
        file: "success.csv".to_owned(),
        caption: "Requests granted, in percent".to_owned(),
        head: head.into_iter().chain(names).collect(),
        rows,
    }
}

fn delay_table(results: &Results) -> Table {
    let (ahead, _) = hours(results);
    let mut rows = Vec::new();
    for &ahead in &ahead {
        for (name, published) in &TABLE_1 {
            if let Some(row) = published.iter().find(|row| row.book_ahead == ahead) {
                let cells = [row.jobs, row.original, row.affected].map(|number| number.to_string());
                rows.push([vec![ahead.to_string(), format!("{name} (paper)")], cells.to_vec()].concat());
            }
        }
        for contender in Contender::ALL {
            let here = both(of(contender), at(ahead, WIDE_WINDOW));
            let cells = [
                results.mean(&here, |finding| finding.delayed as f64).show(0),
                results.mean(&here, |finding| finding.original_wait).show(0),
                results.mean(&here, |finding| finding.affected_wait).show(0),
            ];
            rows.push([vec![ahead.to_string(), contender.name().to_owned()], cells.to_vec()].concat());
        }
    }
    let head = ["book-ahead h", "placement", "delayed jobs", "original wait s", "affected wait s"];
    Table {
        file: "table1.csv".to_owned(),
        caption: "Waits of delayed jobs at a window of 30 hours".to_owned(),
        head: head.map(str::to_owned).to_vec(),
        rows,
    }
}

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
    let chart = Chart { clock, ..Chart::new(format!("Delays, {}", contender.name()), vec![panel]) };
    Section::Figure {
        file: format!("fig4-{}.svg", contender.name()),
        caption: format!(
            "Added waiting time under the {} method, cumulated at the start of each job; seed 1",
            contender.name()
        ),
        svg: chart.to_svg(),
    }
}

/// The figures of a set of runs, as cells.
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

fn contender_table(results: &Results) -> Table {
    let mut rows: Vec<Vec<String>> = Contender::ALL
        .iter()
        .map(|&contender| [vec![contender.name().to_owned()], summary(results, of(contender))].concat())
        .collect();
    for contender in Contender::PAPER {
        let limited = move |batch: &Batch| batch.limited && batch.setting.contender == contender;
        let name = format!("{}, jobs of {WIDEST} at most (window 30 h only)", contender.name());
        let mut cells = summary(results, limited);
        cells[1] = "-".to_owned();
        rows.push([vec![name], cells].concat());
    }
    table("contenders.csv", "All placements, means over the workloads", "placement", rows)
}

fn estimate_table(results: &Results) -> Table {
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
            rows.push([vec![name], summary(results, matching)].concat());
        }
    }
    table("estimates.csv", "How good estimates change it", "placement and estimates", rows)
}

fn table(file: &str, caption: &str, first: &str, rows: Vec<Vec<String>>) -> Table {
    let head = std::iter::once(first).chain(SUMMARY_HEAD).map(str::to_owned).collect();
    Table { file: file.to_owned(), caption: caption.to_owned(), head, rows }
}
