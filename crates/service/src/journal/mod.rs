//! The journal of a head: events on disk before an answer leaves. One SQLite file, which an operator can look into with
//! `sqlite3`; every record is chained to the one before it by a checksum. It relies on the file system to keep what
//! was synced. It never acknowledges what is not on disk, never skips what is damaged, and knows nothing of what events mean.
//!
//! ```
//! # use bookahead_service::journal::{Journal, Kind};
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("north.journal");
//! let (journal, replay) = Journal::open(&path, &Kind::new("ledger", "north", 1))?;
//! let mut sum: u64 = replay.events.iter().map(|record| record.event).sum();
//! let ticket = journal.append(&[20_u64, 22])?;
//! ticket.wait()?; // now, and not before, the answer may leave
//! sum += 42;
//! journal.close()?;
//! # assert_eq!(sum, 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - *Grouped*: while one transaction is on its way to the disk, appends gather for the next. One sync serves
//!   them all.
//! - *Bounded*: so many events may wait ([`MOST_WAITING`]); then [`Journal::append`] blocks.
//! - *Poisoned*: after a failed write every ticket and every later append fails. Open the journal anew to learn what is
//!   there.
//! - *Read while written*: [`check`] and [`export`] read a journal that another process has open.
//!
//! What cannot be known from the file alone: that its *last* transactions are gone, together with the write-ahead log
//! that held them. That is what a crash before the sync leaves, too. A log that is broken in the middle is found.

mod check;
mod error;
mod format;
mod lock;
mod mark;
mod queue;
mod replay;
mod verify;
mod writer;

pub use check::{Report, check, export};
pub use error::{Damage, JournalError};
pub use queue::{MOST_IN_A_TRANSACTION, MOST_WAITING, Ticket};
pub use replay::{Record, Replay, Snapshot};

use lock::Lock;
use mark::Mark;
use queue::{Order, Queue, outcome};
use replay::Tail;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use writer::Writer;

/// So many snapshots are kept: the newest, and one to fall back on until the next compaction.
pub const KEPT_SNAPSHOTS: u32 = 2;

/// What is in a journal, and whose it is.
#[derive(Debug, Clone)]
pub struct Kind {
    /// The kind of head: `ledger`, `broker`.
    pub what: String,
    /// Whose: the name of the site or broker.
    pub owner: String,
    /// The version of the form of its events, which is written beside each. Raised whenever older events could not be
    /// read as newer ones.
    pub schema: u32,
    /// Makes an event of an older version one of this version; None where they can be read as they are.
    pub upgrade: Option<fn(u32, Value) -> Value>,
}

impl Kind {
    /// A kind whose older events, if any, can be read as they are.
    pub fn new(what: impl Into<String>, owner: impl Into<String>, schema: u32) -> Kind {
        Kind { what: what.into(), owner: owner.into(), schema, upgrade: None }
    }
}

/// When an append counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// When it is synced, together with others that wait. The one to use.
    #[default]
    Grouped,
    /// When it is synced, each by itself: for comparison.
    EachAppend,
    /// When it was handed to the system, which may lose it when the machine stops: for comparison, and for tests.
    None,
}

/// How a journal is opened.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// When an append counts as durable.
    pub durability: Durability,
    /// The file may have so many pages of 4096 bytes; beyond that it behaves as on a full disk.
    pub most_pages: Option<u32>,
}

/// An open journal of events of one type. Appending is for many threads; the journal is for one process.
pub struct Journal<E> {
    queue: Arc<Queue>,
    writer: Option<JoinHandle<Result<(), JournalError>>>,
    _lock: Lock,
    _events: PhantomData<fn(&E)>,
}

impl<E: Serialize + DeserializeOwned> Journal<E> {
    /// Opens the journal, or makes it where there is none, and reads and verifies everything in it.
    pub fn open(path: &Path, kind: &Kind) -> Result<(Journal<E>, Replay<E>), JournalError> {
        Journal::open_with(path, kind, &Options::default())
    }

    /// The same, with options.
    pub fn open_with(
        path: &Path,
        kind: &Kind,
        options: &Options,
    ) -> Result<(Journal<E>, Replay<E>), JournalError> {
        // The lock of a file is found under one name, whatever link leads there.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let lock = Lock::take(&path)?;
        let (mark, marked) = Mark::open(&path)?;
        let fresh = !path.exists();
        if fresh {
            mark.check(&path, marked, None)?;
            format::create(&path, kind)?;
        }
        verify::look_for_damage(&path)?;
        let connection = format::open_to_write(&path, options)?;
        let meta = format::meta(&path, &connection)?;
        if (&meta.what, &meta.owner) != (&kind.what, &kind.owner) {
            let found = format!("the {} of {}", meta.what, meta.owner);
            let wanted = format!("the {} of {}", kind.what, kind.owner);
            return Err(JournalError::WrongKind { path, found, wanted });
        }
        mark.check(&path, marked, Some(meta.tail))?;
        let replay = replay::replay(&path, &connection, &meta, kind)?;
        let tail = Tail { sequence: meta.tail, chain: meta.tail_chain };
        let queue = Arc::new(Queue::new(tail.sequence + 1));
        let (schema, durability) = (kind.schema, options.durability);
        let file = format::file_id(&path);
        let (at, orders) = (path.clone(), queue.clone());
        let writer = Writer { path: at, file, mark, connection, queue: orders, schema, durability, tail };
        let started = std::thread::Builder::new().name("journal".to_owned()).spawn(|| writer.run());
        let writer = started.map_err(|error| JournalError::io(&path, "starting its writer", &error))?;
        let journal = Journal { queue, writer: Some(writer), _lock: lock, _events: PhantomData };
        Ok((journal, Replay { fresh, ..replay }))
    }

    /// Hands over events that belong together: after a crash all of them are there or none. Appends are written in the
    /// order in which they were handed over. Blocks only where [`MOST_WAITING`] events wait already. Without events, the
    /// ticket says when all that was appended before is on disk.
    pub fn append(&self, events: &[E]) -> Result<Ticket, JournalError> {
        self.queue.append(written(events)?)
    }

    /// Keeps a state that stands for all events up to one. Blocks until it is on disk, behind what was appended before.
    pub fn snapshot<S: Serialize + ?Sized>(&self, up_to: u64, state: &S) -> Result<(), JournalError> {
        let what = || format!("the state up to record {up_to}");
        let state = serde_json::to_string(state);
        let state = state.map_err(|error| JournalError::Json { what: what(), why: error.to_string() })?;
        let (done, outcome) = outcome();
        self.queue.order(Order::Snapshot { up_to, state, done })?;
        outcome.wait()
    }

    /// Drops the events that the newest snapshot stands for, and gives their room back; says how many they were. It reads
    /// and verifies the whole journal first, and drops nothing from one that is damaged. Meanwhile appends wait.
    pub fn compact(&self) -> Result<u64, JournalError> {
        let (done, outcome) = outcome();
        self.queue.order(Order::Compact { done })?;
        outcome.wait()
    }
}

impl<E> Journal<E> {
    /// Writes what waits, and closes the file. Fails where a write failed at any time.
    pub fn close(mut self) -> Result<(), JournalError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), JournalError> {
        self.queue.close();
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let poisoned = || self.queue.poisoned().unwrap_or_else(|| "the writer has ended".to_owned());
        writer.join().unwrap_or_else(|_| Err(JournalError::Poisoned { why: poisoned() }))
    }
}

impl<E> Drop for Journal<E> {
    /// Writes what waits. Whoever wants to know whether that succeeded has tickets, or closes.
    fn drop(&mut self) {
        let _ = self.end();
    }
}

fn written<E: Serialize>(events: &[E]) -> Result<Vec<String>, JournalError> {
    let write = |event: &E| serde_json::to_string(event);
    events
        .iter()
        .map(write)
        .collect::<Result<_, _>>()
        .map_err(|error| JournalError::Json { what: "an event".to_owned(), why: error.to_string() })
}
