//! The results of a grid simulation as text: tables of requests and resources, counts of injected faults and of reached
//! states, for one run or summed over many, and the verdict.

use super::results::{Asked, Counts, Results, Used};
use crate::output::{count, length, percent, plural};
use crate::table::{Column, Table};
use std::io::{self, Write, stdout};

pub(crate) fn print(results: &Results) -> io::Result<()> {
    let mut out = stdout().lock();
    let lasted = length(results.duration);
    writeln!(out, "{}: {lasted}, seed {}\n", results.description, results.seed)?;
    writeln!(out, "{}", requests(&results.requests))?;
    let mut reasons = results.requests.iter().filter(|asked| asked.reason.is_some()).peekable();
    let some = reasons.peek().is_some();
    for asked in reasons {
        let reason = asked.reason.as_deref().unwrap_or_default();
        writeln!(out, "{} at {}: {reason}", asked.client, clock(asked.at))?;
    }
    if some {
        writeln!(out)?;
    }
    writeln!(out, "{}", resources(&results.resources))?;
    writeln!(out, "{}", in_one_line(&results.injected))?;
    match results.settled_at {
        Some(at) => writeln!(out, "all settled by {}", clock(at))?,
        None => writeln!(out, "not settled an hour after the end")?,
    }
    if results.violations.is_empty() {
        writeln!(out, "the invariants hold: {INVARIANTS}")?;
    }
    Ok(())
}

fn requests(all: &[Asked]) -> Table {
    let mut table = Table::new([
        Column::left("client"),
        Column::right("asked"),
        Column::left("outcome"),
        Column::right("took").drop(2),
        Column::right("tried").drop(1),
        Column::left("part"),
        Column::left("where"),
        Column::right("from"),
        Column::right("until"),
    ]);
    for asked in all {
        let none = || String::from("–");
        let mut first = [
            asked.client.clone(),
            clock(asked.at),
            asked.outcome.to_owned(),
            asked.took.map_or_else(none, |took| format!("{took:.3} s")),
            asked.attempts.map_or_else(none, |attempts| attempts.to_string()),
        ];
        for part in &asked.parts {
            // The first row takes the cells of the request; empty ones are left for its other parts.
            let begins = std::mem::take(&mut first);
            let what = format!("{} {}", part.capacity, part.kind);
            let place = part.placed.as_ref().map_or_else(
                || [none(), none(), none()],
                |placed| {
                    let place = format!("{}/{}", placed.site, placed.resource);
                    [place, clock(placed.begin as f64), clock(placed.end as f64)]
                },
            );
            let [client, rest @ ..] = begins;
            table.named_row(&client, rest.into_iter().chain([what]).chain(place));
        }
    }
    table
}

fn resources(all: &[Used]) -> Table {
    let mut table = Table::new([
        Column::left("resource"),
        Column::right("capacity"),
        Column::right("by jobs"),
        Column::right("by reservations"),
        Column::right("jobs started").drop(1),
        Column::right("mean wait"),
        Column::left("reservations"),
    ]);
    for used in all {
        let none = || String::from("–");
        let states = used.reservations.iter().map(|(state, number)| format!("{number} {state}"));
        let states: Vec<String> = states.collect();
        let jobs = used.jobs.as_ref();
        let cells = [
            format!("{} {}", used.capacity, used.kind),
            // A share of 0% would mean that there are local jobs and none ran.
            jobs.map_or_else(none, |_| percent(used.used_by_jobs)),
            percent(used.used_by_reservations),
            jobs.map_or_else(none, |jobs| count(jobs.started as u64)),
            jobs.and_then(|jobs| jobs.mean_wait).map_or_else(none, length),
            if states.is_empty() { none() } else { states.join(", ") },
        ];
        table.named_row(&format!("{}/{}", used.site, used.resource), cells);
    }
    table
}

pub(crate) fn broken(number: usize) -> String {
    format!("{} of the protocol invariants", plural(number as u64, "violation"))
}

/// Seconds since the start, as `1:23:45`.
pub(crate) fn clock(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    format!("{}:{:02}:{:02}", whole / 3_600, whole / 60 % 60, whole % 60)
}

/// The counts that are not zero, in one line.
pub(crate) fn in_one_line(counts: &Counts) -> String {
    let some = counts.rows().into_iter().filter(|(_, number)| *number > 0);
    let some: Vec<String> = some.map(|(what, number)| format!("{what} {}", count(number))).collect();
    some.join(", ")
}

/// The rules that the witness of a simulation checks.
pub(crate) const INVARIANTS: &str = "capacity, all or nothing, kept promises, once, nothing orphaned";
