//! The table of `sacct --parsable2`: any set of columns, in any order. Needed are `JobID`, a submit time, `Start` and
//! `End`; other columns are used where they are there. Steps are skipped; tasks of an array are jobs.

use super::value::{duration, of_list};
use super::{Accounted, Import, Problem, Skipped, Unit};

/// Columns that are used, by their names in lower case.
const KNOWN: [&str; 21] = [
    "jobid",
    "jobidraw",
    "submit",
    "eligible",
    "start",
    "end",
    "timelimit",
    "timelimitraw",
    "ncpus",
    "alloccpus",
    "reqcpus",
    "allocnodes",
    "nnodes",
    "reqnodes",
    "alloctres",
    "reqtres",
    "state",
    "user",
    "account",
    "partition",
    "qos",
];

/// Words for an unknown value.
const UNKNOWN: [&str; 4] = ["", "Unknown", "None", "None assigned"];

/// States of jobs that wait or run.
const LIVE: [&str; 9] = [
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETING",
    "CONFIGURING",
    "REQUEUED",
    "RESIZING",
    "STOPPED",
    "REQUEUE_HOLD",
];

/// The columns of a table.
#[derive(Debug)]
pub struct Table {
    /// In lower case.
    columns: Vec<String>,
}

impl Table {
    /// A table with these columns, of which some have other names than `sacct` gives them. None if it has no known
    /// column; the inner error is a column that is missing.
    pub(super) fn of_columns(
        names: &[&str],
        renamed: &[(String, String)],
    ) -> Option<Result<Table, &'static str>> {
        let name = |name: &&str| {
            let other = renamed.iter().find(|(_, theirs)| theirs.eq_ignore_ascii_case(name.trim()));
            other.map_or(name.trim(), |(known, _)| known.as_str()).to_ascii_lowercase()
        };
        let mut columns: Vec<String> = names.iter().map(name).collect();
        // `sacct --parsable`, without the 2, ends each line with a separator.
        if columns.last().is_some_and(String::is_empty) {
            columns.pop();
        }
        if !columns.iter().any(|name| KNOWN.contains(&name.as_str())) {
            return None;
        }
        let has = |name: &str| columns.iter().any(|column| column == name);
        let needed = [("jobid", "JobID"), ("submit", "Submit"), ("start", "Start"), ("end", "End")];
        let alternatives = |name: &str| match name {
            "jobid" => has("jobid") || has("jobidraw"),
            "submit" => has("submit") || has("eligible"),
            name => has(name),
        };
        let missing = needed.into_iter().find(|(name, _)| !alternatives(name));
        Some(missing.map_or(Ok(Table { columns }), |(_, shown)| Err(shown)))
    }
}

/// The values of one line.
struct Row<'a> {
    columns: &'a [String],
    values: Vec<&'a str>,
}

impl<'a> Row<'a> {
    /// The value of a column; None if there is no such column or the value is unknown.
    fn get(&self, column: &str) -> Option<&'a str> {
        let at = self.columns.iter().position(|name| name == column)?;
        self.values.get(at).map(|value| value.trim()).filter(|value| !UNKNOWN.contains(value))
    }

    fn time(&self, column: &str, into: &Import<'_>) -> Result<Option<i64>, Problem> {
        let Some(text) = self.get(column) else { return Ok(None) };
        (into.time)(text).map(Some).ok_or_else(|| Problem::bad_value(column, text))
    }

    fn number(&self, column: &str) -> Result<Option<i64>, Problem> {
        let Some(text) = self.get(column) else { return Ok(None) };
        text.parse().map(Some).map_err(|_| Problem::bad_value(column, text))
    }

    /// The limit in seconds. A job without a limit, or with that of its partition, has none that is known.
    fn limit(&self) -> Result<Option<i64>, Problem> {
        let no_limit = |text: &&str| !["UNLIMITED", "Partition_Limit", "INVALID"].contains(text);
        if let Some(minutes) = self.get("timelimitraw").filter(no_limit) {
            let bad = || Problem::bad_value("TimelimitRaw", minutes);
            let minutes: i64 = minutes.parse().map_err(|_| bad())?;
            return minutes.checked_mul(60).map(Some).ok_or_else(bad);
        }
        let Some(text) = self.get("timelimit").filter(no_limit) else { return Ok(None) };
        duration(text).map(Some).ok_or_else(|| Problem::bad_value("Timelimit", text))
    }

    /// Allocated and requested size.
    fn sizes(&self, unit: Unit) -> Result<[Option<i64>; 2], Problem> {
        let (columns, key) = match unit {
            Unit::Processors => ([["alloccpus", "ncpus"], ["reqcpus", "reqcpus"]], "cpu"),
            Unit::Nodes => ([["allocnodes", "nnodes"], ["reqnodes", "nnodes"]], "node"),
        };
        let mut sizes = [None; 2];
        for ((size, names), tres) in sizes.iter_mut().zip(columns).zip(["alloctres", "reqtres"]) {
            *size = match self.number(names[0])? {
                Some(number) => Some(number),
                None => self.number(names[1])?,
            };
            if size.is_none()
                && let Some(text) = self.get(tres).and_then(|list| of_list(list, key))
            {
                *size = Some(text.parse().map_err(|_| Problem::bad_value(tres, text))?);
            }
        }
        Ok(sizes)
    }
}

impl Table {
    pub(super) fn line(&self, line: &str, into: &mut Import<'_>) -> Result<(), Problem> {
        let mut values: Vec<&str> = line.split('|').collect();
        if values.len() == self.columns.len() + 1 && values.last() == Some(&"") {
            values.pop();
        }
        self.row(values, into)
    }

    pub(super) fn row(&self, values: Vec<&str>, into: &mut Import<'_>) -> Result<(), Problem> {
        let expected = self.columns.len();
        if values.len() != expected {
            return Err(Problem::WrongCount { found: values.len(), expected });
        }
        // Outputs of several calls in one file.
        if values.iter().zip(&self.columns).all(|(value, column)| value.trim().eq_ignore_ascii_case(column)) {
            into.report.skip(Skipped::Header);
            return Ok(());
        }
        let row = Row { columns: &self.columns, values };
        let id = row.get("jobid").or(row.get("jobidraw")).ok_or(Problem::NotARecord)?;
        if id.contains('.') {
            into.report.skip(Skipped::Step);
            return Ok(());
        }
        let state = row.get("state").and_then(|state| state.split([' ', '+']).next()).unwrap_or_default();
        if LIVE.contains(&state) || row.get("end").is_none() {
            into.report.skip(Skipped::NotEnded);
            return Ok(());
        }
        let [allocated, requested] = row.sizes(into.options.unit)?;
        let eligible = row.time("eligible", into)?;
        into.add(&Accounted {
            // The raw id of a task of an array is a number of its own.
            number: row.get("jobidraw").unwrap_or(id).parse().ok(),
            submit: row.time("submit", into)?.or(eligible),
            eligible,
            start: row.time("start", into)?,
            end: row.time("end", into)?,
            limit: row.limit()?,
            // A job that never started has allocated none.
            allocated: allocated.filter(|size| *size > 0),
            requested,
            status: status(state),
            user: row.get("user").unwrap_or_default(),
            group: row.get("account").unwrap_or_default(),
            queue: row.get("qos").unwrap_or_default(),
            // A job may name several partitions until it starts.
            partition: row.get("partition").and_then(|names| names.split(',').next()).unwrap_or_default(),
            application: row.get("jobname").unwrap_or_default(),
        })
    }
}

/// `CANCELLED by 1000` has been cut at the blank.
fn status(state: &str) -> Option<i64> {
    match state {
        "" => None,
        "COMPLETED" => Some(1),
        "CANCELLED" | "REVOKED" => Some(5),
        _ => Some(0),
    }
}
