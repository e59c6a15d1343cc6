//! File format of a journal: a SQLite database with three tables, identified by an application id and a format
//! version. Older formats are migrated in one transaction; newer ones are refused. Only this module knows the
//! tables.
//! Records are chained by CRC-64: a record that was changed, removed or moved does not match. This detects damage,
//! not tampering.

use super::error::{Damage, JournalError};
use super::lock::beside;
use super::replay::Tail;
use super::{Durability, Kind, Options};
use crc::{CRC_64_XZ, Crc, Digest, Table};
use rusqlite::{Connection, OpenFlags, Transaction, TransactionBehavior};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The format version that is written.
pub(crate) const FORMAT: u32 = 1;

/// "BkAh": distinguishes a journal from other SQLite databases.
const APPLICATION: i32 = i32::from_be_bytes(*b"BkAh");

/// How long a write waits for another process, such as an operator's `sqlite3`, before it fails.
const PATIENCE: Duration = Duration::from_secs(5);

const TABLES: &str = include_str!("tables.sql");

/// Migration from the previous format.
pub(crate) struct Migration {
    to: u32,
    step: fn(&Transaction<'_>) -> rusqlite::Result<()>,
}

/// All migrations, in order. There is only one format so far.
const MIGRATIONS: &[Migration] = &[];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Meta {
    pub(crate) what: String,
    pub(crate) owner: String,
    pub(crate) base: u64,
    pub(crate) base_chain: Chain,
    pub(crate) tail: u64,
    pub(crate) tail_chain: Chain,
}

/// Creates an empty journal. The file gets its name only when it is complete and synced, so an empty or partial
/// file of that name is always damage.
pub(crate) fn create(path: &Path, kind: &Kind) -> Result<(), JournalError> {
    let wal = beside(path, "-wal");
    // A log without its database means that the database was deleted. A new one must not adopt the old log.
    if fs::metadata(&wal).is_ok_and(|log| log.len() > 0) {
        let why = format!("the journal itself is gone, but {} is there", wal.display());
        return Err(JournalError::Damaged {
            path: path.to_owned(),
            damage: Damage::Unreadable(why),
            more: 0,
        });
    }
    let unfinished = beside(path, ".new");
    let io = |error: &std::io::Error| JournalError::io(path, "making it", error);
    // Left over from a start that was interrupted.
    for ending in [".new", ".new-journal"] {
        match fs::remove_file(beside(path, ending)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(&error)),
            _ => {}
        }
    }
    // Created before SQLite opens it, because SQLite would use the umask.
    make_private(&unfinished).map_err(|error| io(&error))?;
    fill(&unfinished, kind).map_err(|error| JournalError::sqlite(path, "making it", &error))?;
    fs::rename(&unfinished, path).and_then(|()| sync_folder(path)).map_err(|error| io(&error))
}

/// Creates an empty file that only its owner can read. SQLite gives the `-wal` and `-shm` files the same
/// permissions.
fn make_private(path: &Path) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}

fn fill(path: &Path, kind: &Kind) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    let filling = connection.transaction()?;
    filling.pragma_update(None, "application_id", APPLICATION)?;
    filling.pragma_update(None, "user_version", FORMAT)?;
    filling.execute_batch(TABLES)?;
    let chain = Chain::genesis(&kind.what, &kind.owner).0.cast_signed();
    filling.execute(
        "INSERT INTO meta VALUES (1, ?1, ?2, 0, ?3, 0, ?3)",
        (kind.what.as_str(), kind.owner.as_str(), chain),
    )?;
    filling.commit()?;
    connection.close().map_err(|(_, error)| error)
}

/// Device and inode of a file. `None` if there is no file, or on systems without inodes.
#[cfg(unix)]
pub(crate) fn file_id(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

#[cfg(not(unix))]
pub(crate) fn file_id(_: &Path) -> Option<(u64, u64)> {
    None
}

/// Makes a new directory entry durable.
#[cfg(unix)]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    fs::File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(not(unix))]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

/// Opens a journal for writing.
pub(crate) fn open_to_write(path: &Path, options: &Options) -> Result<Connection, JournalError> {
    refuse_empty(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = || {
        let connection = Connection::open_with_flags(path, flags)?;
        careful(&connection)?;
        // Before anything is changed: switching another program's database to WAL would modify it.
        check_magic(&connection)?;
        connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
        let synchronous = if options.durability == Durability::None { "OFF" } else { "FULL" };
        connection.pragma_update(None, "synchronous", synchronous)?;
        if let Some(most) = options.most_pages {
            connection.pragma_update_and_check(None, "max_page_count", most, |_| Ok(()))?;
        }
        Ok(connection)
    };
    let mut connection = open().map_err(|error| opening(path, &error))?;
    migrate(path, &mut connection, FORMAT, MIGRATIONS)?;
    Ok(connection)
}

/// Opens a journal for reading, even while another process writes to it, or on a read-only disk. Does not change
/// the journal, but SQLite may leave its `-wal` and `-shm` files.
pub(crate) fn open_to_read(path: &Path) -> Result<Connection, JournalError> {
    if !path.exists() {
        return Err(JournalError::Missing { path: path.to_owned() });
    }
    refuse_empty(path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let open = |path: &Path, flags| {
        let connection = Connection::open_with_flags(path, flags)?;
        careful(&connection)?;
        check_magic(&connection)?;
        Ok(connection)
    };
    let opened = open(path, flags).or_else(|error| {
        // `immutable` ignores the write-ahead log. If there is one, its records would be missing without notice.
        if !wants_to_write(&error) || has_log(path) {
            return Err(error);
        }
        open(&immutable(path), flags | OpenFlags::SQLITE_OPEN_URI)
    });
    opened.map_err(|error| match wants_to_write(&error) && has_log(path) {
        true => JournalError::Unmerged { path: path.to_owned() },
        false => opening(path, &error),
    })
}

/// Whether SQLite failed because it could not create its `-wal` and `-shm` files. With `immutable` it does not need
/// them.
fn wants_to_write(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
}

/// Whether the write-ahead log may have records that are not in the database yet.
fn has_log(path: &Path) -> bool {
    fs::metadata(beside(path, "-wal")).is_ok_and(|log| log.len() > 0)
}

/// SQLite URI of a journal that is not written to.
fn immutable(path: &Path) -> PathBuf {
    let mut address = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' => {
                address.push(char::from(*byte));
            }
            byte => address.push_str(&format!("%{byte:02x}")),
        }
    }
    PathBuf::from(address + "?immutable=1")
}

/// SQLite accepts an empty file as an empty database. Here it is a journal whose contents were lost.
fn refuse_empty(path: &Path) -> Result<(), JournalError> {
    let empty = fs::metadata(path).is_ok_and(|file| file.len() == 0);
    if empty {
        let why = "it is empty".to_owned();
        return Err(JournalError::NotAJournal { path: path.to_owned(), why });
    }
    Ok(())
}

fn careful(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(PATIENCE)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    // The file may come from elsewhere: its schema must not run functions.
    connection.pragma_update(None, "trusted_schema", false)
}

/// Returns `QueryReturnedNoRows` for a database of another program; `opening` turns that into an error message.
fn check_magic(connection: &Connection) -> rusqlite::Result<()> {
    let found: i32 = connection.pragma_query_value(None, "application_id", |row| row.get(0))?;
    if found == APPLICATION { Ok(()) } else { Err(rusqlite::Error::QueryReturnedNoRows) }
}

fn opening(path: &Path, error: &rusqlite::Error) -> JournalError {
    match error {
        rusqlite::Error::QueryReturnedNoRows => {
            let why = "it is a SQLite database of another program".to_owned();
            JournalError::NotAJournal { path: path.to_owned(), why }
        }
        error => JournalError::reading(path, error),
    }
}

/// The format version, if it is supported.
pub(crate) fn format_of(path: &Path, connection: &Connection, known: u32) -> Result<u32, JournalError> {
    let found: i64 = connection
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(|error| JournalError::reading(path, &error))?;
    match u32::try_from(found) {
        Ok(found) if (1..=known).contains(&found) => Ok(found),
        Ok(found) if found > known => {
            Err(JournalError::Newer { path: path.to_owned(), what: "a format of version", found, known })
        }
        _ => {
            let damage = Damage::Unreadable(format!("unknown format version {found}"));
            Err(JournalError::Damaged { path: path.to_owned(), damage, more: 0 })
        }
    }
}

/// Migrates to the format `known` in one transaction.
fn migrate(
    path: &Path,
    connection: &mut Connection,
    known: u32,
    steps: &[Migration],
) -> Result<(), JournalError> {
    let found = format_of(path, connection, known)?;
    if found == known {
        return Ok(());
    }
    let mut go = || {
        // Takes the write lock first, so that it cannot fail halfway for a lock.
        let moving = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for migration in steps.iter().filter(|migration| migration.to > found) {
            (migration.step)(&moving)?;
        }
        moving.pragma_update(None, "user_version", known)?;
        moving.commit()
    };
    go().map_err(|error| JournalError::sqlite(path, "migrating it", &error))
}

pub(crate) fn meta(path: &Path, connection: &Connection) -> Result<Meta, JournalError> {
    let query = "SELECT what, owner, base, base_chain, tail, tail_chain FROM meta";
    let chain = |number: i64| Chain(number.cast_unsigned());
    let number = |row: &rusqlite::Row<'_>, at: usize| {
        let number: i64 = row.get(at)?;
        u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(at, number))
    };
    let read = connection.query_row(query, (), |row| {
        Ok(Meta {
            what: row.get(0)?,
            owner: row.get(1)?,
            base: number(row, 2)?,
            base_chain: chain(row.get(3)?),
            tail: number(row, 4)?,
            tail_chain: chain(row.get(5)?),
        })
    });
    let mut meta = read.map_err(|error| JournalError::reading(path, &error))?;
    meta.trust_genesis();
    Ok(meta)
}

impl Meta {
    /// Recomputes the first checksum instead of trusting it, so that a changed kind or owner does not match the first
    /// record.
    pub(crate) fn trust_genesis(&mut self) {
        if self.base == 0 {
            self.base_chain = Chain::genesis(&self.what, &self.owner);
        }
    }

    pub(crate) fn last(&self) -> Tail {
        Tail { sequence: self.tail, chain: self.tail_chain }
    }
}

/// CRC-64/XZ, 16 bytes at a time: byte by byte it took a fifth of the time of the writer thread.
static SUM: Crc<u64, Table<16>> = Crc::<u64, Table<16>>::new(&CRC_64_XZ);

/// Checksum of a record and, through the chain, of all records before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Chain(pub(crate) u64);

impl Chain {
    /// Checksum before the first record. It includes kind and owner, so that records of one journal do not fit into
    /// another.
    pub(crate) fn genesis(what: &str, owner: &str) -> Chain {
        Chain(Sum::new().number(what.len() as u64).bytes(what.as_bytes()).bytes(owner.as_bytes()).done())
    }

    pub(crate) fn then(self, sequence: u64, schema: u32, written_at: i64, event: &[u8]) -> Chain {
        let sum = Sum::new().number(self.0).number(sequence).number(schema.into());
        Chain(sum.number(written_at.cast_unsigned()).bytes(event).done())
    }
}

/// Checksum of a snapshot. It includes the chain up to its record.
pub(crate) fn of_snapshot(up_to: u64, schema: u32, written_at: i64, chain: Chain, state: &[u8]) -> u64 {
    let sum = Sum::new().number(up_to).number(schema.into()).number(written_at.cast_unsigned());
    sum.number(chain.0).bytes(state).done()
}

struct Sum(Digest<'static, u64, Table<16>>);

impl Sum {
    fn new() -> Sum {
        Sum(SUM.digest())
    }

    fn bytes(mut self, bytes: &[u8]) -> Sum {
        self.0.update(bytes);
        self
    }

    fn number(self, number: u64) -> Sum {
        self.bytes(&number.to_le_bytes())
    }

    fn done(self) -> u64 {
        self.0.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(step: &'static str) -> impl Fn(&Transaction<'_>) -> rusqlite::Result<()> {
        move |moving| moving.execute("INSERT INTO notes VALUES (?1)", [step]).map(drop)
    }

    const STEPS: &[Migration] = &[
        Migration { to: 2, step: |moving| note("two")(moving) },
        Migration { to: 3, step: |moving| note("three")(moving) },
        Migration { to: 4, step: |moving| moving.execute_batch("nonsense") },
    ];

    fn database(format: u32) -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("CREATE TABLE notes (step TEXT)").unwrap();
        connection.pragma_update(None, "user_version", format).unwrap();
        connection
    }

    fn notes(connection: &Connection) -> (u32, Vec<String>) {
        let mut query = connection.prepare("SELECT step FROM notes ORDER BY rowid").unwrap();
        let steps = query.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        (connection.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap(), steps)
    }

    #[test]
    fn an_older_format_goes_through_every_later_step_in_order() {
        for (from, steps) in [(1, vec!["two", "three"]), (2, vec!["three"]), (3, vec![])] {
            let mut connection = database(from);
            migrate(Path::new("x"), &mut connection, 3, &STEPS[..2]).unwrap();
            assert_eq!(notes(&connection), (3, steps.into_iter().map(String::from).collect()));
        }
    }

    #[test]
    fn a_migration_that_fails_leaves_everything_as_it_was() {
        let mut connection = database(1);
        migrate(Path::new("x"), &mut connection, 4, STEPS).unwrap_err();
        assert_eq!(notes(&connection), (1, vec![]));
    }

    #[test]
    fn there_is_a_step_to_every_format_but_the_first() {
        let formats = [1].into_iter().chain(MIGRATIONS.iter().map(|migration| migration.to));
        assert!(formats.eq(1..=FORMAT));
    }
}

#[cfg(test)]
mod checksum_tests {
    use super::*;

    #[test]
    fn the_sum_is_the_one_of_the_standard() {
        assert_eq!(Sum::new().bytes(b"123456789").done(), 0x995d_c9bb_df19_39fa);
    }

    #[test]
    fn everything_in_a_record_counts() {
        let chain = Chain::genesis("ledger", "north").then(1, 1, 5, b"{}");
        let others = [
            Chain::genesis("ledger", "south").then(1, 1, 5, b"{}"),
            Chain::genesis("broker", "north").then(1, 1, 5, b"{}"),
            Chain::genesis("ledger", "north").then(2, 1, 5, b"{}"),
            Chain::genesis("ledger", "north").then(1, 2, 5, b"{}"),
            Chain::genesis("ledger", "north").then(1, 1, 6, b"{}"),
            Chain::genesis("ledger", "north").then(1, 1, 5, b"[]"),
        ];
        assert!(others.iter().all(|other| *other != chain));
    }
}
