//! The rows of the usage history one by one, in pages: first all jobs, then all parts of reservations, each by id. A log
//! of what a service did is made from them, through the API or from the file of a service that does not run.

use super::row::{JobRow, PartRow, PartState};
use super::store::{FORMAT, Reader, read_job, read_part};
use super::{FILE, NoUsage};
use bookahead_api as api;
use bookahead_api::Timestamp;
use bookahead_plan::{Interval, Span, Time};
use bookahead_protocol::{JobId, Name, ReservationId};
use rusqlite::params;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Which rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordsQuestion {
    /// Jobs submitted in it, and reservations that touch it.
    pub window: Interval,
    /// Only of this user.
    pub owner: Option<Name>,
    /// Only on this resource.
    pub resource: Option<Name>,
    /// The last row of the previous page.
    pub after: Option<Cursor>,
    /// Most rows of a page; at least 1.
    pub limit: usize,
}

/// A place among the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cursor {
    /// After this job.
    Job(JobId),
    /// After all jobs.
    Reservations,
    /// After this part on this resource.
    Part(ReservationId, u32, String),
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cursor::Job(id) => write!(f, "{id}"),
            Cursor::Reservations => write!(f, "reservations"),
            Cursor::Part(id, part, resource) => write!(f, "{id}/{part}/{resource}"),
        }
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Cursor, ()> {
        if text == "reservations" {
            return Ok(Cursor::Reservations);
        }
        let mut fields = text.splitn(3, '/');
        match (fields.next(), fields.next(), fields.next()) {
            (Some(id), None, None) => id.parse().map(Cursor::Job).map_err(|_| ()),
            (Some(id), Some(part), Some(resource)) => {
                let (id, part) = (id.parse().map_err(|_| ())?, part.parse().map_err(|_| ())?);
                Ok(Cursor::Part(id, part, resource.to_owned()))
            }
            _ => Err(()),
        }
    }
}

/// A page of the history in the state folder of a service, which need not run.
pub fn in_state_folder(state: &Path, question: &RecordsQuestion) -> Result<api::UsageRecords, NoUsage> {
    page(&state.join(FILE), question)
}

pub(super) fn page(path: &Path, question: &RecordsQuestion) -> Result<api::UsageRecords, NoUsage> {
    let reader = Reader::open(path)?;
    let format: i64 = reader.connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if format != FORMAT {
        return Err(NoUsage::Unusable);
    }
    let complete_since = reader.covered()?.and_then(|covered| covered.since).map(Timestamp::nearest);
    let mut page =
        api::UsageRecords { jobs: Vec::new(), reservations: Vec::new(), next: None, complete_since };
    if matches!(question.after, None | Some(Cursor::Job(_))) {
        let rows = jobs(&reader, question)?;
        let last = rows.last().filter(|_| rows.len() == question.limit).map(|row| Cursor::Job(row.id));
        page.next = Some(last.unwrap_or(Cursor::Reservations).to_string());
        page.jobs = rows.iter().map(job).collect();
    } else {
        let rows = parts(&reader, question)?;
        let last = rows.last().filter(|_| rows.len() == question.limit);
        page.next = last.map(|row| Cursor::Part(row.id, row.part, row.resource.to_string()).to_string());
        page.reservations = rows.iter().filter(|row| is_shown(row)).map(reservation).collect();
    }
    Ok(page)
}

fn jobs(reader: &Reader, question: &RecordsQuestion) -> rusqlite::Result<Vec<JobRow>> {
    let after = match &question.after {
        Some(Cursor::Job(id)) => id.to_string(),
        _ => String::new(),
    };
    let mut query = reader.connection.prepare(
        "SELECT * FROM jobs WHERE job > ?1 AND submitted >= ?2 AND submitted < ?3 \
         AND (?4 IS NULL OR owner = ?4) AND (?5 IS NULL OR resource = ?5) ORDER BY job LIMIT ?6",
    )?;
    let RecordsQuestion { window, owner, resource, limit, .. } = question;
    let (owner, resource) = (owner.as_ref().map(Name::as_str), resource.as_ref().map(Name::as_str));
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let rows =
        query.query_map(params![after, window.begin.0, window.end.0, owner, resource, limit], read_job)?;
    rows.collect()
}

fn parts(reader: &Reader, question: &RecordsQuestion) -> rusqlite::Result<Vec<PartRow>> {
    let (id, part, at) = match &question.after {
        Some(Cursor::Part(id, part, resource)) => (id.to_string(), *part, resource.as_str()),
        _ => (String::new(), 0, ""),
    };
    let mut query = reader.connection.prepare(
        "SELECT * FROM parts WHERE (reservation, part, resource) > (?1, ?2, ?3) AND last > ?4 AND first < ?5 \
         AND (?6 IS NULL OR owner = ?6) AND (?7 IS NULL OR resource = ?7) \
         ORDER BY reservation, part, resource LIMIT ?8",
    )?;
    let RecordsQuestion { window, owner, resource, limit, .. } = question;
    let (owner, resource) = (owner.as_ref().map(Name::as_str), resource.as_ref().map(Name::as_str));
    let limit = i64::try_from(*limit).unwrap_or(i64::MAX);
    let all = params![id, part, at, window.begin.0, window.end.0, owner, resource, limit];
    query.query_map(all, read_part)?.collect()
}

/// A part that a broker moved elsewhere has a successor.
fn is_shown(row: &PartRow) -> bool {
    row.state != PartState::Replaced
}

fn known(name: &Name) -> Option<String> {
    Some(name.to_string()).filter(|name| !name.is_empty())
}

fn job(row: &JobRow) -> api::UsageJob {
    let time = |time: Option<Time>| time.map(Timestamp::nearest);
    api::UsageJob {
        id: row.id,
        resource: row.resource.to_string(),
        owner: row.owner.to_string(),
        project: known(&row.project),
        reservation: row.reservation,
        state: row.state.clone(),
        capacity: row.capacity.0,
        submitted: Timestamp::nearest(row.submitted),
        started: time(row.started),
        ended: time(row.ended),
        limit_seconds: row.latest.zip(row.started).map(|(latest, started)| (latest - started).0),
    }
}

fn reservation(row: &PartRow) -> api::UsageReservation {
    let time = |time: Option<Time>| time.map(Timestamp::nearest);
    let span = |span: &Span| api::UsageSpan {
        begin: Timestamp::nearest(span.interval.begin),
        end: Timestamp::nearest(span.interval.end),
        capacity: span.capacity.0,
    };
    api::UsageReservation {
        id: row.id,
        part: row.part,
        resource: row.resource.to_string(),
        owner: row.owner.to_string(),
        project: known(&row.project),
        state: row.state.word().to_owned(),
        spans: row.booked.iter().map(span).collect(),
        accepted: time(row.accepted),
        ended: time(row.ended),
        earliest_start: time(row.window.map(|window| window.begin)),
        latest_end: time(row.window.map(|window| window.end)),
    }
}
