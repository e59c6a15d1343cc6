//! `bookahead usage`: booked and used capacity by user, project, site, resource or month.

use super::place::Place;
use super::session::{Session, by_clock};
use crate::output::{say, stdout};
use crate::table::{Column, NOTHING, Table};
use anyhow::Result;
use bookahead_api::when::When;
use bookahead_api::{Usage, UsageQuery, UsageRow};
use clap::Args;
use std::collections::BTreeSet;
use std::io::{self, Write as _};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Columns to group by, separated by commas: user, project, site, resource, month
    #[arg(long, value_name = "COLUMNS", default_value = "user")]
    by: String,

    /// Begin of the interval [default: the beginning of this month]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<When>,

    /// End of the interval [default: the end of the month in which it begins]
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    until: Option<When>,

    /// Only your own
    #[arg(long, conflicts_with = "owner")]
    mine: bool,

    /// Only that of this user
    #[arg(long, value_name = "NAME")]
    owner: Option<String>,

    #[command(flatten)]
    place: Place,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    by_clock(&arguments.place, |session| show(arguments, session))
}

fn show(arguments: &Arguments, session: &Session) -> Result<()> {
    let read = |when: &Option<When>| when.as_ref().map(|when| session.read(when)).transpose();
    let owner = if arguments.mine { Some(session.user()) } else { arguments.owner.as_deref() };
    let query = UsageQuery {
        by: Some(arguments.by.clone()),
        from: read(&arguments.from)?,
        until: read(&arguments.until)?,
        owner: owner.map(Into::into),
        // Without it, hours around midnight could count for the month before or after that of the user.
        zone: session.dates().named_zone(),
    };
    let usage = session.ask("adding up", session.timed_client().usage(&query))?;
    session.print(&usage, || print(&usage, session))?;
    if let Some(since) = usage.complete_since {
        say!("note: the history is complete only from {} on", session.dates().wall(since));
    }
    Ok(())
}

fn print(usage: &Usage, session: &Session) -> io::Result<()> {
    let dates = session.dates();
    writeln!(stdout(), "{} to {}", dates.wall(usage.from), dates.wall(usage.until))?;
    if usage.rows.is_empty() {
        say!("no usage");
        return Ok(());
    }
    table(usage).print()
}

fn table(usage: &Usage) -> Table {
    let kinds: BTreeSet<&str> = usage.rows.iter().map(|row| row.kind.as_str()).collect();
    let counts = [
        Column::right("reservations"),
        Column::right("cancelled").drop(2),
        Column::right("expired").drop(0),
        Column::right("lost").drop(1),
        Column::right("booked unit-hours"),
        Column::right("kept unit-hours"),
        Column::right("jobs").drop(3),
        Column::right("job unit-hours"),
    ];
    let grouped = usage.by.iter().map(|by| Column::left(by.as_str()));
    let mut table = Table::new(grouped.chain([Column::left("kind")]).chain(counts));
    let rows = usage.rows.iter().map(|row| (row, false));
    for (row, is_total) in rows.chain(usage.totals.iter().map(|row| (row, true))) {
        let mut cells: Vec<String> = usage.by.iter().map(|by| value(row, by).to_owned()).collect();
        if let Some(first) = cells.first_mut().filter(|_| is_total) {
            *first = "total".to_owned();
        }
        cells.push(if kinds.len() > 1 { row.kind.clone() } else { String::new() });
        cells.extend(numbers(row));
        table.row(cells);
    }
    table
}

fn value<'a>(row: &'a UsageRow, by: &str) -> &'a str {
    let value = match by {
        "user" => &row.user,
        "project" => &row.project,
        "site" => &row.site,
        "resource" => &row.resource,
        "month" => &row.month,
        // A column of a newer server.
        _ => &None,
    };
    value.as_deref().unwrap_or_default()
}

fn numbers(row: &UsageRow) -> [String; 8] {
    // A column in which nothing is counted is left out.
    let count = |count: u64| if count == 0 { NOTHING.to_owned() } else { count.to_string() };
    let hours = |hours: f64| format!("{hours:.2}");
    [
        row.reservations.to_string(),
        count(row.cancelled),
        count(row.expired),
        count(row.lost),
        hours(row.booked_unit_hours),
        hours(row.kept_unit_hours),
        count(row.jobs),
        if row.jobs == 0 { NOTHING.to_owned() } else { hours(row.job_unit_hours) },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_api::Timestamp;
    use bookahead_plan::Time;

    fn row(user: Option<&str>, kind: &str, hours: f64) -> UsageRow {
        UsageRow {
            user: user.map(Into::into),
            kind: kind.to_owned(),
            reservations: 2,
            booked_unit_hours: hours,
            kept_unit_hours: hours / 2.0,
            ..UsageRow::default()
        }
    }

    fn usage(rows: Vec<UsageRow>, totals: Vec<UsageRow>) -> Usage {
        let at = |second| Timestamp::nearest(Time(second));
        let by = vec!["user".to_owned()];
        let zone = "UTC".to_owned();
        Usage { from: at(0), until: at(86_400), by, zone, complete_since: None, rows, totals }
    }

    #[test]
    fn the_last_lines_are_totals_and_empty_columns_are_left_out() {
        let one = usage(vec![row(Some("ada"), "processors", 32.5)], vec![row(None, "processors", 32.5)]);
        let text = table(&one).render(Some(80), false);
        let last = text.lines().last().unwrap_or_default();
        assert!(last.starts_with("total") && last.contains("32.50") && last.contains("16.25"), "{text}");
        for left_out in ["kind", "processors", "cancelled", "lost", "jobs"] {
            assert!(!text.contains(left_out), "{text}");
        }
        let mut with_jobs = row(Some("ada"), "processors", 1.0);
        (with_jobs.jobs, with_jobs.job_unit_hours, with_jobs.cancelled) = (3, 0.5, 1);
        let rows = vec![with_jobs, row(Some("ada"), "seats", 2.0)];
        let totals = vec![row(None, "processors", 1.0), row(None, "seats", 2.0)];
        let text = table(&usage(rows, totals)).render(Some(100), false);
        for shown in ["kind", "seats", "cancelled", "jobs", "0.50"] {
            assert!(text.contains(shown), "{text}");
        }
        assert_eq!(text.lines().filter(|line| line.starts_with("total")).count(), 2, "{text}");
    }
}
