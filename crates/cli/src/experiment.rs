//! `bookahead experiment`: reproduces the experiments of the source papers and compares the results.

use crate::output::{Progress, print_json, save, say, threads};
use crate::table::{Column, Table};
use anyhow::{Context, Result};
use bookahead_experiments::claim::totals;
use bookahead_experiments::report::report_html;
use bookahead_experiments::{Page, Scale, Section, co_reservation, cosy, gridsim, migol, what_if};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Experiment to run
    #[arg(value_enum)]
    name: Name,

    /// Run a smaller version, as a smoke test
    #[arg(long)]
    quick: bool,

    /// Number of independent runs; two or more give 95% confidence intervals
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    seeds: u16,

    /// Number of threads; does not change the results [default: one per core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,

    /// Show no progress on standard error
    #[arg(long, short)]
    quiet: bool,

    /// Date in the report [default: today, UTC]
    #[arg(long, value_name = "DATE")]
    date: Option<Date>,

    /// Print each claim of the paper, our result, and how far they agree, as JSON
    #[arg(long)]
    json: bool,

    /// Folder for the report, with tables as CSV and figures as SVG
    #[arg(long, value_name = "FOLDER", default_value = "report")]
    out: PathBuf,

    /// Folder with logs of the Parallel Workloads Archive; what-if uses SDSC Blue Horizon if it is there. Otherwise
    /// it draws a similar workload, and judges no claim on it
    #[arg(long, value_name = "FOLDER", default_value = "../shared/traces")]
    traces: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Name {
    /// What-if rating compared with load rating, on 36 workloads (Röblitz and Rzadca 2006)
    WhatIf,
    /// Shortest notice time for reservations (COSY, Cao and Zimmermann 2004)
    Cosy,
    /// Reservations on five resources of a grid (GridSim, Sulistio and Buyya 2004)
    Gridsim,
    /// Co-reservation of several machines, with and without probing (Schneider, Gehr, Linnert and Röblitz)
    CoReservation,
    /// Estimates of the earliest start, and the job broker (Migol)
    Migol,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let threads = threads(arguments.threads);
    let scale = Scale { quick: arguments.quick, first_seed: 1, seeds: usize::from(arguments.seeds), threads };
    // Created at the first report, because only the experiment knows its number of runs.
    let bar: OnceLock<Progress> = OnceLock::new();
    let progress = |_done: usize, total: usize| {
        bar.get_or_init(|| Progress::new(total as u64, "runs", arguments.quiet)).add(1);
    };
    let mut page = match arguments.name {
        Name::WhatIf => {
            let workload = what_if::Workload::find(&arguments.traces)?;
            say!("workload: {}", workload.name);
            what_if::run(&workload, &scale, &progress)
        }
        Name::Cosy => cosy::run(&scale, &progress),
        Name::Gridsim => gridsim::run(&scale, &progress),
        Name::CoReservation => co_reservation::run(&scale, &progress),
        Name::Migol => migol::run(&scale, &progress),
    };
    // The bar must be cleared before anything is printed.
    drop(bar);
    page.sections.insert(0, Section::Text(arguments.origin(page.id)));
    let report = write(&arguments.out, &page)?;
    if arguments.json {
        print_json(&page.claims().collect::<Vec<_>>())?;
    } else {
        print(&page)?;
    }
    if scale.seeds == 1 {
        say!(
            "one seed has no intervals, so that an order is reproduced in its direction only; use --seeds 5"
        );
    }
    say!("report: {}", report.display());
    Ok(())
}

impl Arguments {
    /// How the page was made. Threads and folders are left out, because they do not change the results.
    fn origin(&self, id: &str) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let seeds = if self.seeds == 1 { "seed 1".to_owned() } else { format!("seeds 1 to {}", self.seeds) };
        let date = self.date.unwrap_or_else(|| Timestamp::now().to_zoned(TimeZone::UTC).date());
        format!(
            "Made with bookahead experiment {id}{quick} --seeds {} ({seeds}), Bookahead {}, on {date}.",
            self.seeds,
            env!("CARGO_PKG_VERSION")
        )
    }
}

fn print(page: &Page) -> Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{}\n", page.title)?;
    let mut claims = Table::new(["claim", "paper", "ours", "verdict"].map(Column::left));
    for claim in page.claims() {
        let verdict = claim.verdict.name().to_owned();
        claims.named_row(claim.id, [claim.paper.to_owned(), claim.ours.clone(), verdict]);
    }
    writeln!(out, "{claims}\n{}\n", totals(page.claims()))?;
    for section in &page.sections {
        if let Section::Table(table) = section {
            let mut shown = Table::figures(table.head.clone());
            for row in &table.rows {
                if let Some((first, rest)) = row.split_first() {
                    shown.named_row(first, rest.iter().cloned());
                }
            }
            writeln!(out, "{}\n{shown}", table.caption)?;
        }
    }
    Ok(())
}

/// Writes the tables, figures and report section of this experiment, then rebuilds the report from all sections in
/// `folder`, including those of earlier runs.
fn write(folder: &Path, page: &Page) -> Result<PathBuf> {
    let own = folder.join(page.id);
    create(&own)?;
    for section in &page.sections {
        match section {
            Section::Table(table) => save(&own.join(&table.file), &table.to_csv())?,
            Section::Figure { file, svg, .. } => save(&own.join(file), svg)?,
            _ => {}
        }
    }
    save(&own.join("part.html"), &page.to_html())?;
    save(&own.join("title.txt"), &page.title)?;
    // Sections of other experiments may be missing. The order is fixed, whichever experiment ran last.
    let mut parts = Vec::new();
    for name in ["what-if", "cosy", "gridsim", "co-reservation", "migol"] {
        let part = |file: &str| fs::read_to_string(folder.join(name).join(file)).ok();
        if let (Some(title), Some(html)) = (part("title.txt"), part("part.html")) {
            parts.push((name.to_owned(), title, html));
        }
    }
    let report = folder.join("index.html");
    save(&report, &report_html(&parts))?;
    Ok(report)
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}; check its parent folder", folder.display()))
}
