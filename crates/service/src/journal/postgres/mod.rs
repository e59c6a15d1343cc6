//! A journal in PostgreSQL. One row for each party has the tail of its journal and the lease of the process that is
//! active. Every write is one statement that also checks and renews the lease, so a process whose lease has ended can
//! write nothing, and a statement is atomic without a transaction that would need a session.
//!
//! - [`database`]: address, credentials, TLS, one connection
//! - [`Held`]: the lease, and writing under it
//! - [`reading`]: reading a journal that another process may hold
//!
//! If a connection is lost, it is unknown whether the last statement took effect. The row tells: its tail is the old
//! one or the new one. It relies on the database for durability, and never on the clock of this machine for the lease.

mod database;
mod reading;
mod tables;

pub use database::Database;
pub(crate) use reading::Reader;
pub(crate) use tables::{CallerEpochs, Document, fill};
pub use tables::{SharedFile, remove_shared_file, shared_file};

use super::error::{Damage, JournalError};
use super::format::{Chain, Meta};
use super::lease::{self, DatabaseTime, Lease};
use super::mark::Mark;
use super::replay::Tail;
use super::verify::{RawSnapshot, SeeRecord, SeeSnapshot, Source};
use super::writer::{Line, Storage, compactable};
use super::{KEPT_SNAPSHOTS, Kind};
use crate::time_of_day::since_boot;
use bookahead_protocol::Moment;
use database::{Failure, Session, Value};
use reading::{record_page, snapshot_rows};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

/// First pause before a failed statement is repeated. Doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Longest such pause: a database that restarts should be found again soon.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);
/// Timeout of a statement of a process that holds nothing yet.
const PATIENCE: Duration = Duration::from_secs(10);
/// Shortest timeout of a statement.
const LEAST_TIMEOUT: Duration = Duration::from_millis(50);

/// The journal of a party, with its lease.
pub(crate) struct Held {
    session: Session,
    id: i64,
    holder: String,
    epoch: i64,
    fresh: bool,
    lease: Lease,
    /// [`lease::now`] of the last renewal.
    renewed: u64,
    meta: Meta,
    mark: Option<Mark>,
    path: PathBuf,
}

/// Outcome of an attempt to take the lease.
pub(crate) enum Taken {
    Held(Box<Held>),
    /// Another process is active.
    ByOther(Active),
}

/// The process that is active for a party.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Active {
    /// Host and number of the process.
    pub holder: String,
    /// Its URL, if it has one.
    pub address: Option<String>,
}

/// Takes the lease of a party, and creates what is missing in the database. Before it changes anything, it refuses a
/// database that does not have the record in `mark`.
pub(crate) fn take(
    database: &Database,
    kind: &Kind,
    lease: &Lease,
    mark: Option<&Path>,
    unsafe_settings: bool,
) -> Result<Taken, JournalError> {
    let mut session = Session::new(database, unsafe_settings)?;
    let path = database.shown().to_owned();
    let failed = |failure: Failure| failure.into_error(&path, "opening it");
    let mark = mark.map(|path| Mark::open(path.to_owned())).transpose()?;
    let mut mark = mark.map(|mark| marked(&mut session, kind, mark)).transpose()?;
    tables::prepare(&mut session)?;
    let id = tables::party(&mut session, kind)?;
    let holder = lease.holder().to_owned();
    let terms = lease.terms();
    // The text of the holder makes repeating safe: a lost answer to a successful attempt leaves our own name.
    // At least the time in milliseconds: peers remember the epoch, and it must also grow if the journal is moved to another
    // database, restored from a backup, or lost.
    let take = "UPDATE bookahead.party SET holder = $2, address = $3, grace_ms = $5, \
                epoch = greatest(epoch + 1, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint), \
                lease_until = clock_timestamp() + $4 * interval '1 millisecond' \
                FROM (SELECT lease_until = '-infinity' AS fresh FROM bookahead.party WHERE id = $1) AS before \
                WHERE id = $1 AND (holder IS NULL OR holder = $2 \
                OR lease_until + grace_ms * interval '1 millisecond' <= clock_timestamp()) \
                RETURNING epoch, base, base_chain, tail, tail_chain, before.fresh, \
                floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    let (length, grace) = (millis(terms.total()), millis(terms.longest_effect));
    let values: [Value<'_>; 5] = [
        (&id, Type::INT8),
        (&holder, Type::TEXT),
        (&lease.address(), Type::TEXT),
        (&length, Type::INT8),
        (&grace, Type::INT8),
    ];
    let asked = lease::now();
    let rows = session.query(PATIENCE, take, &values).map_err(failed)?;
    let answered = since_boot();
    let Some(row) = rows.first() else {
        let query = "SELECT holder, address FROM bookahead.party WHERE id = $1";
        let rows = session.query(PATIENCE, query, &[(&id, Type::INT8)]).map_err(failed)?;
        let active = rows.first().map(|row| Active {
            holder: row.try_get::<_, Option<String>>(0).ok().flatten().unwrap_or_default(),
            address: row.try_get::<_, Option<String>>(1).ok().flatten().filter(|url| !url.is_empty()),
        });
        return Ok(Taken::ByOther(active.unwrap_or_default()));
    };
    let number = |at: usize| row.try_get::<_, i64>(at).map_err(|why| failed(why.into()));
    let epoch = number(0)?;
    let mut meta = Meta {
        what: kind.what.clone(),
        owner: kind.owner.clone(),
        base: number(1)?.cast_unsigned(),
        base_chain: Chain(number(2)?.cast_unsigned()),
        tail: number(3)?.cast_unsigned(),
        tail_chain: Chain(number(4)?.cast_unsigned()),
    };
    meta.trust_genesis();
    let fresh = row.try_get::<_, bool>(5).map_err(|why| failed(why.into()))? && meta.tail == 0;
    let time =
        DatabaseTime { time: Moment(number(6)?), boot: answered, is_elsewhere: database.is_elsewhere() };
    lease.note_database_time(time);
    lease.taken(epoch.cast_unsigned(), asked);
    mark.iter_mut().for_each(|mark| mark.set(meta.last()));
    let lease = lease.clone();
    Ok(Taken::Held(Box::new(Held {
        session,
        id,
        holder,
        epoch,
        fresh,
        lease,
        renewed: asked,
        meta,
        mark,
        path,
    })))
}

/// Refuses a database that does not have the marked record: an emptied, older or other one. Otherwise moves the mark to
/// the last record, so that a stand-by knows it too.
fn marked(session: &mut Session, kind: &Kind, mut mark: Mark) -> Result<Mark, JournalError> {
    let path = session.path().to_owned();
    let failed = |failure: Failure| failure.into_error(&path, "reading it");
    let mut rows = Vec::new();
    if tables::exist(session).map_err(failed)? {
        let query = "SELECT tail, tail_chain, base, base_chain, \
                     (SELECT checksum FROM bookahead.record WHERE party = id AND sequence = $3) \
                     FROM bookahead.party WHERE what = $1 AND owner = $2";
        let sequence = mark.sequence().cast_signed();
        let values: [Value<'_>; 3] =
            [(&kind.what, Type::TEXT), (&kind.owner, Type::TEXT), (&sequence, Type::INT8)];
        rows = session.query(PATIENCE, query, &values).map_err(failed)?;
    }
    let Some(row) = rows.first() else {
        mark.check(&path, None)?;
        return Ok(mark);
    };
    let number = |at: usize| row.try_get::<_, i64>(at).map_err(|why| failed(why.into()));
    let tail = |at: usize| -> Result<Tail, JournalError> {
        Ok(Tail { sequence: number(at)?.cast_unsigned(), chain: Chain(number(at + 1)?.cast_unsigned()) })
    };
    let (last, base) = (tail(0)?, tail(2)?);
    mark.check(&path, Some(last.sequence))?;
    let stored = row.try_get::<_, Option<i64>>(4).map_err(|why| failed(why.into()))?;
    // A record that was compacted cannot be compared.
    let found = [last, base].into_iter().find(|tail| tail.sequence == mark.sequence()).map(|tail| tail.chain);
    mark.check_chain(&path, found.or(stored.map(|chain| Chain(chain.cast_unsigned()))))?;
    if last.sequence > mark.sequence() {
        mark.set(last);
    }
    Ok(mark)
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// Condition and effect of every write: the lease is ours and has not ended, and is renewed.
/// $1 is the party, $2 the epoch, $3 the length of the lease.
macro_rules! held {
    ($set:literal, $where:literal) => {
        concat!(
            "WITH held AS (UPDATE bookahead.party SET ",
            $set,
            "lease_until = clock_timestamp() + $3 * interval '1 millisecond' \
             WHERE id = $1 AND epoch = $2 AND lease_until > clock_timestamp()",
            $where,
            " RETURNING id)"
        )
    };
}

const APPEND: &str = concat!(
    held!("tail = $6, tail_chain = $7, ", " AND tail = $4 AND tail_chain = $5"),
    ", written AS (INSERT INTO bookahead.record SELECT held.id, $4 + line.n, $8, $9, line.event, line.checksum \
     FROM held, unnest($10, $11) WITH ORDINALITY AS line(event, checksum, n)) SELECT id FROM held"
);

const RENEW: &str = concat!(held!("", ""), " SELECT id FROM held");

const SNAPSHOT: &str = concat!(
    held!("", ""),
    ", written AS (INSERT INTO bookahead.snapshot SELECT held.id, $4, $5, $6, $7, $8, $9 FROM held \
     ON CONFLICT (party, up_to) DO UPDATE SET schema = $5, written_at = $6, chain = $7, state = $8, checksum = $9), \
     dropped AS (DELETE FROM bookahead.snapshot USING held WHERE party = held.id AND up_to <> $4 AND up_to NOT IN \
     (SELECT up_to FROM bookahead.snapshot WHERE party = $1 AND up_to <> $4 ORDER BY up_to DESC LIMIT $10)) \
     SELECT id FROM held"
);

const COMPACT: &str = concat!(
    held!("base = $4, base_chain = $5, ", ""),
    ", records AS (DELETE FROM bookahead.record USING held WHERE party = held.id AND sequence <= $4), \
     snapshots AS (DELETE FROM bookahead.snapshot USING held WHERE party = held.id AND up_to < $4) \
     SELECT id FROM held"
);

/// Gives the lease back. Another process may take it at once, because nothing is under way any more.
const RELEASE: &str = "UPDATE bookahead.party SET holder = NULL, address = NULL, lease_until = clock_timestamp() \
                       WHERE id = $1 AND epoch = $2";

const ROW: &str = "SELECT epoch, holder, tail, tail_chain, lease_until > clock_timestamp() \
                   FROM bookahead.party WHERE id = $1";

/// What the row of the party shows.
struct Shown {
    epoch: i64,
    holder: Option<String>,
    tail: Tail,
    is_current: bool,
}

impl Held {
    pub(crate) fn meta(&self) -> &Meta {
        &self.meta
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Whether no process held the lease before, and nothing was copied into it.
    pub(crate) fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Runs a write until its outcome is known. `ends` are the tails before and after it; the second one shows that an
    /// attempt without an answer was successful. A write that moves no tail can be repeated.
    fn write(
        &mut self,
        doing: &'static str,
        (from, to): (Tail, Tail),
        statement: &str,
        values: &[Value<'_>],
    ) -> Result<(), JournalError> {
        let (id, epoch, length) = (self.id, self.epoch, millis(self.lease.terms().total()));
        let mut all: Vec<Value<'_>> = vec![(&id, Type::INT8), (&epoch, Type::INT8), (&length, Type::INT8)];
        all.extend(values.iter().map(|(value, kind)| (*value, kind.clone())));
        let (mut pause, mut why) = (FIRST_PAUSE, String::new());
        loop {
            let asked = lease::now();
            let outcome = match self.timeout() {
                Some(timeout) => self.session.query(timeout, statement, &all),
                None => return Err(self.not_renewed(&why)),
            };
            match outcome {
                Ok(rows) if !rows.is_empty() => {
                    self.note_renewal(asked);
                    return Ok(());
                }
                Ok(_) => {}
                Err(Failure::Away(reason)) => why = reason,
                Err(refused) => return Err(refused.into_error(&self.path, doing)),
            }
            match self.look() {
                Ok(shown) if self.is_written(&shown, from, to)? => return Ok(()),
                Ok(_) => {}
                Err(Failure::Away(reason)) => why = reason,
                Err(refused) => return Err(refused.into_error(&self.path, doing)),
            }
            std::thread::sleep(pause.min(self.lease.left()));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether an attempt without an answer was successful. Fails if the write cannot be repeated.
    fn is_written(&self, shown: &Shown, from: Tail, to: Tail) -> Result<bool, JournalError> {
        if shown.epoch != self.epoch || shown.holder.as_deref() != Some(&self.holder) {
            let by = shown.holder.as_deref().unwrap_or("another process");
            return Err(self.lost(&format!("{by} took over")));
        }
        if shown.tail == to && from != to {
            return Ok(true);
        }
        if shown.tail != from {
            let damage = Damage::Unreadable("another process wrote to it while it was open".to_owned());
            return Err(JournalError::Damaged { path: self.path.clone(), damage, more: 0 });
        }
        if !shown.is_current {
            return Err(self.lost("it has ended by the clock of the database"));
        }
        Ok(false)
    }

    fn look(&mut self) -> Result<Shown, Failure> {
        let within = self.timeout().unwrap_or(LEAST_TIMEOUT);
        let rows = self.session.query(within, ROW, &[(&self.id, Type::INT8)])?;
        let gone = || Failure::Refused { why: "its row was deleted".to_owned(), full: false, exists: false };
        let row = rows.first().ok_or_else(gone)?;
        let chain = Chain(row.try_get::<_, i64>(3)?.cast_unsigned());
        Ok(Shown {
            epoch: row.try_get(0)?,
            holder: row.try_get(1)?,
            tail: Tail { sequence: row.try_get::<_, i64>(2)?.cast_unsigned(), chain },
            is_current: row.try_get(4)?,
        })
    }

    /// Timeout of the next attempt: half of the time that is left, so that there is time for another one. `None` if
    /// the lease has ended.
    fn timeout(&self) -> Option<Duration> {
        let left = self.lease.left();
        (!left.is_zero()).then(|| (left / 2).max(LEAST_TIMEOUT))
    }

    fn note_renewal(&mut self, asked: u64) {
        self.renewed = asked;
        self.lease.renewed(asked);
    }

    fn not_renewed(&self, why: &str) -> JournalError {
        let why = if why.is_empty() { "this process was stopped or slow for that long" } else { why };
        self.lost(&format!("it could not be renewed in time ({why})"))
    }

    fn lost(&self, why: &str) -> JournalError {
        self.lease.end();
        JournalError::LeaseLost { path: self.path.clone(), why: why.to_owned() }
    }

    fn query(&mut self, statement: &str, values: &[Value<'_>]) -> Result<Vec<Row>, JournalError> {
        let (mut pause, mut why) = (FIRST_PAUSE, String::new());
        while let Some(timeout) = self.timeout() {
            match self.session.query(timeout, statement, values) {
                Ok(rows) => return Ok(rows),
                Err(Failure::Away(reason)) => why = reason,
                Err(refused) => return Err(refused.into_error(&self.path, "reading it")),
            }
            std::thread::sleep(pause.min(self.lease.left()));
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        Err(self.not_renewed(&why))
    }

    /// Renews the lease if that is due. Long reads call it between pages.
    fn keep(&mut self) -> Result<(), JournalError> {
        if self.renew_in().is_some_and(|due| due.is_zero()) {
            return self.renew(self.meta.last());
        }
        Ok(())
    }

    /// Gives the lease back without an error: if that fails, it ends by itself.
    pub(crate) fn release(&mut self) {
        let within = self.timeout().unwrap_or(LEAST_TIMEOUT);
        self.lease.end();
        let values: [Value<'_>; 2] = [(&self.id, Type::INT8), (&self.epoch, Type::INT8)];
        if let Err(why) = self.session.query(within, RELEASE, &values) {
            let why = why.why();
            tracing::warn!(
                event = "lease_not_released",
                "the lease was not given back, and ends by itself: {why}"
            );
        }
    }
}

impl Storage for Held {
    fn append(&mut self, (from, to): (Tail, Tail), lines: &[Line<'_>]) -> Result<(), JournalError> {
        let Some(first) = lines.first() else { return Ok(()) };
        let events: Vec<&str> = lines.iter().map(|line| line.event).collect();
        let checksums: Vec<i64> = lines.iter().map(|line| line.checksum.0.cast_signed()).collect();
        let ends = [from, to].map(|tail| (tail.sequence.cast_signed(), tail.chain.0.cast_signed()));
        let schema = i64::from(first.schema);
        let values: [Value<'_>; 8] = [
            (&ends[0].0, Type::INT8),
            (&ends[0].1, Type::INT8),
            (&ends[1].0, Type::INT8),
            (&ends[1].1, Type::INT8),
            (&schema, Type::INT8),
            (&first.written_at, Type::INT8),
            (&events, Type::TEXT_ARRAY),
            (&checksums, Type::INT8_ARRAY),
        ];
        self.write("writing events", (from, to), APPEND, &values)?;
        (self.meta.tail, self.meta.tail_chain) = (to.sequence, to.chain);
        Ok(())
    }

    fn acknowledged(&mut self, tail: Tail) {
        self.mark.iter_mut().for_each(|mark| mark.set(tail));
    }

    fn snapshot(&mut self, raw: &RawSnapshot<'_>) -> Result<(), JournalError> {
        let up_to = raw.up_to.cast_signed();
        let (schema, kept) = (i64::from(raw.schema), i64::from(KEPT_SNAPSHOTS) - 1);
        let (chain, checksum) = (raw.chain.0.cast_signed(), raw.checksum.cast_signed());
        let values: [Value<'_>; 7] = [
            (&up_to, Type::INT8),
            (&schema, Type::INT8),
            (&raw.written_at, Type::INT8),
            (&chain, Type::INT8),
            (&raw.state, Type::TEXT),
            (&checksum, Type::INT8),
            (&kept, Type::INT8),
        ];
        let tail = self.meta.last();
        self.write("writing a snapshot", (tail, tail), SNAPSHOT, &values)
    }

    fn base(&mut self) -> Result<Tail, JournalError> {
        Ok(Tail { sequence: self.meta.base, chain: self.meta.base_chain })
    }

    fn chain_at(&mut self, sequence: u64) -> Result<Option<Chain>, JournalError> {
        let query = "SELECT checksum FROM bookahead.record WHERE party = $1 AND sequence = $2";
        let (id, sequence) = (self.id, sequence.cast_signed());
        let rows = self.query(query, &[(&id, Type::INT8), (&sequence, Type::INT8)])?;
        let chain = rows.first().and_then(|row| row.try_get::<_, i64>(0).ok());
        Ok(chain.map(|chain| Chain(chain.cast_unsigned())))
    }

    fn compact(&mut self) -> Result<u64, JournalError> {
        let meta = self.meta.clone();
        let Some((up_to, chain)) = compactable(self, &meta)? else { return Ok(0) };
        let ends = (up_to.cast_signed(), chain.0.cast_signed());
        let values: [Value<'_>; 2] = [(&ends.0, Type::INT8), (&ends.1, Type::INT8)];
        let tail = self.meta.last();
        self.write("compacting", (tail, tail), COMPACT, &values)?;
        (self.meta.base, self.meta.base_chain) = (up_to, chain);
        Ok(up_to - meta.base)
    }

    fn renew_in(&self) -> Option<Duration> {
        let passed = Duration::from_millis(lease::now().saturating_sub(self.renewed));
        Some(self.lease.terms().renew_every().saturating_sub(passed))
    }

    fn renew(&mut self, tail: Tail) -> Result<(), JournalError> {
        self.write("renewing the lease", (tail, tail), RENEW, &[])
    }

    fn finish(mut self) -> Result<(), JournalError> {
        self.release();
        Ok(())
    }
}

impl Source for Held {
    fn path(&self) -> &Path {
        &self.path
    }

    fn each_snapshot(&mut self, see: SeeSnapshot<'_>) -> Result<(), JournalError> {
        let id = self.id;
        let rows = self.query(reading::SNAPSHOTS, &[(&id, Type::INT8)])?;
        snapshot_rows(&rows, see);
        Ok(())
    }

    fn each_record(&mut self, see: SeeRecord<'_>) -> Result<(), JournalError> {
        let (id, mut after) = (self.id, 0_i64);
        loop {
            self.keep()?;
            let rows = self.query(reading::RECORDS, &[(&id, Type::INT8), (&after, Type::INT8)])?;
            let Some(last) = record_page(&rows, see) else { return Ok(()) };
            after = last;
        }
    }
}
