//! The file of the usage history, `history.sqlite` in the state folder. Rows are written again whenever they
//! change, so that writing twice does no harm. The number of the last journal event that the rows cover is written
//! in the same transaction.

use super::row::{Edit, JobRow, PartRow, PartState, Sighting, extent, gone, seen_again};
use bookahead_api as api;
use bookahead_party::BookedPart;
use bookahead_plan::{Capacity, Interval, Span, Time};
use bookahead_protocol::{JobId, Name, ReservationId};
use rusqlite::types::Type;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, Transaction, params};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const TABLES: &str = include_str!("tables.sql");

/// Version of the tables.
pub(super) const FORMAT: i64 = 3;

/// Where the table begins that version 1 did not have.
const SINCE_TWO: &str = "CREATE TABLE happened";

/// The columns that versions 1 and 2 did not have.
const SINCE_THREE: &str = "ALTER TABLE parts ADD COLUMN accepted INTEGER; \
    ALTER TABLE parts ADD COLUMN ended INTEGER; \
    ALTER TABLE parts ADD COLUMN earliest INTEGER; \
    ALTER TABLE parts ADD COLUMN latest INTEGER;";

/// With these a reservation begins: at a broker, at a site, and if it is refused.
const FIRST_EVENTS: [&str; 3] = ["requested", "held", "refused"];

/// Longest text of what happened to one reservation, in bytes: some 250 events. Older ones are dropped.
const MOST_HAPPENED: usize = 64 * 1024;

/// Rows deleted in one transaction: a few milliseconds.
const DELETED_AT_ONCE: u32 = 500;

/// How long to wait for a reader.
const PATIENCE: Duration = Duration::from_secs(5);

/// The open file.
pub(super) struct Store {
    connection: Connection,
}

/// What the file covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Covered {
    /// The last journal event whose effects are in the rows.
    pub(super) seen: u64,
    /// When that was written.
    pub(super) seen_at: Time,
    /// The rows are complete from then on. None if they are complete from the start of the service.
    pub(super) since: Option<Time>,
}

/// What a party shows of reservations and jobs that changed.
#[derive(Debug, Default)]
pub(super) struct Sightings {
    pub(super) now: Time,
    pub(super) reservations: Vec<SeenReservation>,
    pub(super) jobs: Vec<(JobId, Option<JobRow>)>,
}

/// A reservation with the kinds of the resources of its parts.
#[derive(Debug)]
pub(super) struct SeenReservation {
    pub(super) id: ReservationId,
    /// Whether an event committed it since the last sighting.
    pub(super) committed: bool,
    /// Project of its owner; empty if there is none.
    pub(super) project: Name,
    pub(super) parts: Vec<(Name, BookedPart)>,
}

impl Store {
    /// Opens or creates the file.
    pub(super) fn open(path: &Path) -> rusqlite::Result<Store> {
        // Before SQLite opens it: the -wal and -shm files get the same mode.
        make_private(path);
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(PATIENCE)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        // The journal is synced, this file need not be: lost transactions are written again at the next start.
        connection.pragma_update(None, "synchronous", "NORMAL")?;
        let format: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        match format {
            FORMAT => {}
            0 => {
                let filling = connection.transaction()?;
                filling.execute_batch(TABLES)?;
                filling.pragma_update(None, "user_version", FORMAT)?;
                filling.commit()?;
            }
            1 | 2 => {
                let filling = connection.transaction()?;
                let new = TABLES.find(SINCE_TWO).filter(|_| format == 1).map_or("", |at| &TABLES[at..]);
                filling.execute_batch(new)?;
                filling.execute_batch(SINCE_THREE)?;
                filling.pragma_update(None, "user_version", FORMAT)?;
                filling.commit()?;
            }
            // The tables of a newer release stay unchanged. The service runs on without a history.
            newer => return Err(rusqlite::Error::IntegralValueOutOfRange(0, newer)),
        }
        Ok(Store { connection })
    }

    /// What the file covers. None if it is new.
    pub(super) fn covered(&self) -> rusqlite::Result<Option<Covered>> {
        covered(&self.connection)
    }

    pub(super) fn set_covered(&mut self, covered: Covered) -> rusqlite::Result<()> {
        let writing = self.connection.transaction()?;
        write_covered(&writing, covered)?;
        writing.commit()
    }

    /// Reservations and jobs that have not ended.
    pub(super) fn live(&self) -> rusqlite::Result<(Vec<ReservationId>, Vec<JobId>)> {
        let ids = |query: &str| -> rusqlite::Result<Vec<String>> {
            self.connection.prepare(query)?.query_map((), |row| row.get(0))?.collect()
        };
        let reservations = ids("SELECT DISTINCT reservation FROM parts WHERE over = 0")?;
        let jobs = ids("SELECT job FROM jobs WHERE over = 0")?;
        let reservations = reservations.iter().filter_map(|id| id.parse().ok()).collect();
        Ok((reservations, jobs.iter().filter_map(|id| id.parse().ok()).collect()))
    }

    /// Some events are in no row: no list of what happened so far is complete.
    pub(super) fn note_gap(&mut self) -> rusqlite::Result<()> {
        self.connection.execute("UPDATE happened SET complete = 0", ()).map(drop)
    }

    /// Writes what was seen, what happened, and up to which event, in one transaction.
    pub(super) fn write(
        &mut self,
        seen: &Sightings,
        happened: &[api::Event],
        up_to: Option<u64>,
    ) -> rusqlite::Result<()> {
        let writing = self.connection.transaction()?;
        write_happened(&writing, happened)?;
        for reservation in &seen.reservations {
            write_reservation(&writing, reservation, seen.now)?;
        }
        for (id, job) in &seen.jobs {
            match job {
                Some(job) => write_job(&writing, job)?,
                None => forget_job(&writing, *id, seen.now)?,
            }
        }
        if let (Some(up_to), Some(covered)) = (up_to, covered(&writing)?) {
            write_covered(&writing, Covered { seen: up_to, seen_at: seen.now, ..covered })?;
        }
        writing.commit()
    }

    /// Deletes some rows that ended before `oldest`, and what happened to reservations that the party has forgotten,
    /// which it does when nothing happened to them since `forgotten`. Returns whether there may be more.
    pub(super) fn delete_before(&mut self, oldest: Time, forgotten: Time) -> rusqlite::Result<bool> {
        // A subquery, because SQLite is usually built without LIMIT for DELETE. Rows that are not over stay:
        // they will be written again, and may have a past that the party no longer knows.
        let parts = self.connection.execute(
            "DELETE FROM parts WHERE rowid IN (SELECT rowid FROM parts WHERE last < ?1 AND over = 1 LIMIT ?2)",
            (oldest.0, DELETED_AT_ONCE),
        )?;
        let jobs = self.connection.execute(
            "DELETE FROM jobs WHERE rowid IN (SELECT rowid FROM jobs WHERE over = 1 \
             AND coalesce(ended, latest, submitted) < ?1 LIMIT ?2)",
            (oldest.0, DELETED_AT_ONCE),
        )?;
        let happened = self.connection.execute(
            "DELETE FROM happened WHERE reservation IN (SELECT reservation FROM happened WHERE last < ?1 \
             AND reservation NOT IN (SELECT reservation FROM parts WHERE over = 0) LIMIT ?2)",
            (forgotten.0, DELETED_AT_ONCE),
        )?;
        Ok(parts.max(jobs).max(happened) >= DELETED_AT_ONCE as usize)
    }
}

/// Creates the file so that only the service can read it. SQLite reports if that fails.
fn make_private(path: &Path) {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// The file for readers, while the service writes to it.
pub(super) struct Reader {
    pub(super) connection: Connection,
}

impl Reader {
    pub(super) fn open(path: &Path) -> rusqlite::Result<Reader> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(PATIENCE)?;
        Ok(Reader { connection })
    }

    pub(super) fn covered(&self) -> rusqlite::Result<Option<Covered>> {
        covered(&self.connection)
    }

    /// What happened to a reservation, oldest first, and whether that is all.
    pub(super) fn happened(&self, id: ReservationId) -> rusqlite::Result<(Vec<api::Event>, bool)> {
        let mut query = self.connection.prepare(HAPPENED)?;
        let row = query
            .query_row([id.to_string()], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))
            .optional()?;
        let Some((events, complete)) = row else { return Ok((Vec::new(), false)) };
        let events = events.lines().map(|line| serde_json::from_str(line).map_err(|_| unreadable(line)));
        Ok((events.collect::<Result<_, _>>()?, complete))
    }

    /// Visits the parts that touch a window, by reservation, until `visit` returns false.
    pub(super) fn parts(
        &self,
        window: Interval,
        owner: Option<&Name>,
        mut visit: impl FnMut(&PartRow) -> bool,
    ) -> rusqlite::Result<()> {
        // By reservation: the sums count a reservation once only if its parts come one after the other.
        let mut query = self.connection.prepare(
            "SELECT * FROM parts WHERE last > ?1 AND first < ?2 AND (?3 IS NULL OR owner = ?3) \
             ORDER BY reservation, part",
        )?;
        let mut rows = query.query((window.begin.0, window.end.0, owner.map(Name::as_str)))?;
        while let Some(row) = rows.next()? {
            if !visit(&read_part(row)?) {
                break;
            }
        }
        Ok(())
    }

    /// Visits the jobs that ran within a window, until `visit` returns false.
    pub(super) fn jobs(
        &self,
        window: Interval,
        owner: Option<&Name>,
        mut visit: impl FnMut(&JobRow) -> bool,
    ) -> rusqlite::Result<()> {
        let mut query = self.connection.prepare(
            "SELECT * FROM jobs WHERE started < ?2 AND (ended IS NULL OR ended >= ?1) \
             AND (?3 IS NULL OR owner = ?3)",
        )?;
        let mut rows = query.query((window.begin.0, window.end.0, owner.map(Name::as_str)))?;
        while let Some(row) = rows.next()? {
            if !visit(&read_job(row)?) {
                break;
            }
        }
        Ok(())
    }
}

const HAPPENED: &str = "SELECT events, complete FROM happened WHERE reservation = ?1";

fn write_happened(writing: &Transaction<'_>, events: &[api::Event]) -> rusqlite::Result<()> {
    let mut by_reservation: BTreeMap<ReservationId, Vec<&api::Event>> = BTreeMap::new();
    for event in events {
        if let Some(id) = event.reservation {
            by_reservation.entry(id).or_default().push(event);
        }
    }
    let mut read = writing.prepare(HAPPENED)?;
    let mut write = writing.prepare("INSERT OR REPLACE INTO happened VALUES (?1, ?2, ?3, ?4)")?;
    for (id, events) in by_reservation {
        let (id, mut last) = (id.to_string(), Time::MIN);
        let known = read.query_row([&id], |row| Ok((row.get(0)?, row.get(1)?))).optional()?;
        let begins = events.first().is_some_and(|event| FIRST_EVENTS.contains(&event.kind.as_str()));
        let (mut text, mut complete): (String, bool) = known.unwrap_or((String::new(), begins));
        for event in events {
            if !text.is_empty() {
                text.push('\n');
            }
            // Serialization of these types cannot fail, and compact JSON has no line breaks.
            text += &serde_json::to_string(event).unwrap_or_default();
            last = last.max(event.at.moment().second());
        }
        if text.len() > MOST_HAPPENED {
            let cut = text.len() - MOST_HAPPENED;
            let cut = text.bytes().skip(cut).position(|byte| byte == b'\n').map_or(0, |line| cut + line + 1);
            (text, complete) = (text.split_off(cut), false);
        }
        write.execute((id, last.0, complete, text))?;
    }
    Ok(())
}

fn covered(connection: &Connection) -> rusqlite::Result<Option<Covered>> {
    let mut query = connection.prepare("SELECT value FROM meta WHERE name = ?1")?;
    let mut value = |name: &str| query.query_row([name], |row| row.get::<_, i64>(0)).optional();
    let (Some(seen), Some(seen_at)) = (value("seen")?, value("seen_at")?) else { return Ok(None) };
    let since = value("since")?.map(Time);
    Ok(Some(Covered { seen: seen.cast_unsigned(), seen_at: Time(seen_at), since }))
}

fn write_covered(writing: &Transaction<'_>, covered: Covered) -> rusqlite::Result<()> {
    let Covered { seen, seen_at, since } = covered;
    let mut insert = writing.prepare("INSERT OR REPLACE INTO meta VALUES (?1, ?2)")?;
    // SQLite has no unsigned integers.
    insert.execute(("seen", seen.cast_signed()))?;
    insert.execute(("seen_at", seen_at.0))?;
    match since {
        Some(since) => insert.execute(("since", since.0))?,
        None => writing.execute("DELETE FROM meta WHERE name = 'since'", ())?,
    };
    Ok(())
}

fn write_reservation(writing: &Transaction<'_>, seen: &SeenReservation, now: Time) -> rusqlite::Result<()> {
    let id = seen.id.to_string();
    let mut query = writing.prepare("SELECT * FROM parts WHERE reservation = ?1")?;
    let old: Vec<PartRow> = query.query_map([&id], read_part)?.collect::<Result<_, _>>()?;
    let same = |row: &PartRow, part: &BookedPart| {
        usize::try_from(row.part) == Ok(part.part) && row.resource == part.resource
    };
    for (kind, part) in &seen.parts {
        let old = old.iter().find(|row| same(row, part));
        let (committed, project) = (seen.committed, &seen.project);
        let sighting = Sighting { id: seen.id, kind, project, committed, now };
        let edit = seen_again(old, sighting, part);
        carry_out(writing, &id, (part.part as u64, &part.resource), edit)?;
    }
    for row in old.iter().filter(|row| !seen.parts.iter().any(|(_, part)| same(row, part))) {
        let edit = gone(row, !seen.parts.is_empty(), now);
        carry_out(writing, &id, (row.part.into(), &row.resource), edit)?;
    }
    Ok(())
}

fn carry_out(
    writing: &Transaction<'_>,
    id: &str,
    (part, resource): (u64, &Name),
    edit: Edit,
) -> rusqlite::Result<()> {
    match edit {
        Edit::Nothing => {}
        Edit::Delete => {
            let delete = "DELETE FROM parts WHERE reservation = ?1 AND part = ?2 AND resource = ?3";
            writing.prepare(delete)?.execute((id, part.cast_signed(), resource.as_str()))?;
        }
        Edit::Write(row) => {
            let Interval { begin, end } = extent(&row.booked, &row.kept);
            let insert = "INSERT OR REPLACE INTO parts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, \
                ?15, ?16, ?17, ?18)";
            writing.prepare(insert)?.execute(params![
                id,
                row.part,
                row.resource.as_str(),
                row.kind.as_str(),
                row.owner.as_str(),
                row.project.as_str(),
                row.state.word(),
                row.committed,
                row.pieced,
                row.over,
                spans_text(&row.booked),
                spans_text(&row.kept),
                begin.0,
                end.0,
                row.accepted.map(|time| time.0),
                row.ended.map(|time| time.0),
                row.window.map(|window| window.begin.0),
                row.window.map(|window| window.end.0),
            ])?;
        }
    }
    Ok(())
}

fn write_job(writing: &Transaction<'_>, job: &JobRow) -> rusqlite::Result<()> {
    // If the kind is not known at present, the known one stays. The project is that of the submission,
    // because the projects of owners may change.
    let insert = "INSERT OR REPLACE INTO jobs VALUES (?1, ?2, \
         CASE ?3 WHEN '' THEN coalesce((SELECT kind FROM jobs WHERE job = ?1), '') ELSE ?3 END, ?4, \
         coalesce((SELECT project FROM jobs WHERE job = ?1), ?5), ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)";
    let time = |time: Option<Time>| time.map(|time| time.0);
    writing.prepare(insert)?.execute((
        job.id.to_string(),
        job.resource.as_str(),
        job.kind.as_str(),
        job.owner.as_str(),
        job.project.as_str(),
        job.reservation.map(|id| id.to_string()),
        job.state.as_str(),
        job.over,
        job.capacity.0,
        job.submitted.0,
        time(job.started),
        time(job.ended),
        time(job.latest),
    ))?;
    Ok(())
}

/// The party no longer knows the job: if it ran, its end is unknown.
fn forget_job(writing: &Transaction<'_>, id: JobId, now: Time) -> rusqlite::Result<()> {
    let id = id.to_string();
    // A job that never started has used nothing.
    writing.execute("DELETE FROM jobs WHERE job = ?1 AND over = 0 AND started IS NULL", [&id])?;
    // A job cannot have run beyond its limit. `min` of SQLite is NULL if an argument is NULL, hence the third
    // choice.
    let lost = "UPDATE jobs SET over = 1, state = 'lost', ended = coalesce(ended, min(?2, latest), ?2) \
        WHERE job = ?1 AND over = 0";
    writing.execute(lost, (&id, now.0))?;
    Ok(())
}

pub(super) fn read_part(row: &Row<'_>) -> rusqlite::Result<PartRow> {
    let time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(Time));
    let window = time("earliest")?.zip(time("latest")?);
    let word: String = row.get("state")?;
    let state = PartState::ALL.into_iter().find(|state| state.word() == word);
    Ok(PartRow {
        id: id(row, "reservation")?,
        part: row.get("part")?,
        resource: name(row, "resource")?,
        kind: name(row, "kind")?,
        owner: name(row, "owner")?,
        project: name(row, "project")?,
        state: state.ok_or_else(|| unreadable(&word))?,
        committed: row.get("committed")?,
        pieced: row.get("pieced")?,
        over: row.get("over")?,
        booked: spans(&row.get::<_, String>("booked")?)?,
        kept: spans(&row.get::<_, String>("kept")?)?,
        accepted: time("accepted")?,
        ended: time("ended")?,
        window: window.map(|(begin, end)| Interval::new(begin, end.max(begin))),
    })
}

pub(super) fn read_job(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    let time = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(Time));
    let reservation: Option<String> = row.get("reservation")?;
    Ok(JobRow {
        id: id(row, "job")?,
        resource: name(row, "resource")?,
        kind: name(row, "kind")?,
        owner: name(row, "owner")?,
        project: name(row, "project")?,
        reservation: reservation.and_then(|id| id.parse().ok()),
        state: row.get("state")?,
        over: row.get("over")?,
        capacity: Capacity(row.get("capacity")?),
        submitted: Time(row.get("submitted")?),
        started: time("started")?,
        ended: time("ended")?,
        latest: time("latest")?,
    })
}

fn id<T: std::str::FromStr>(row: &Row<'_>, column: &str) -> rusqlite::Result<T> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| unreadable(&text))
}

fn name(row: &Row<'_>, column: &str) -> rusqlite::Result<Name> {
    Ok(Name::from(row.get::<_, String>(column)?))
}

fn unreadable(text: &str) -> rusqlite::Error {
    let why = format!("cannot read {text:?}");
    rusqlite::Error::FromSqlConversionFailure(0, Type::Text, why.into())
}

fn spans_text(spans: &[Span]) -> String {
    let all: Vec<(i64, i64, u32)> =
        spans.iter().map(|span| (span.interval.begin.0, span.interval.end.0, span.capacity.0)).collect();
    // Serialization of numbers cannot fail.
    serde_json::to_string(&all).unwrap_or_default()
}

fn spans(text: &str) -> rusqlite::Result<Vec<Span>> {
    let all: Vec<(i64, i64, u32)> = serde_json::from_str(text).map_err(|_| unreadable(text))?;
    let span = |(begin, end, capacity)| Span {
        interval: Interval::new(Time(begin), Time(end)),
        capacity: Capacity(capacity),
    };
    Ok(all.into_iter().map(span).collect())
}
