//! The journal of a site or broker: events are on disk before an answer leaves. One SQLite file, readable with
//! `sqlite3`, or a PostgreSQL database, which several machines can reach; every record is chained to its predecessor by
//! a checksum. It relies on the file system or the database to keep synced data. It never acknowledges an event before
//! it is on disk, never skips damage, and does not interpret events.
//!
//! - *Grouped*: appends that arrive while a transaction is being synced form the next one. One sync serves them
//!   all.
//! - *Bounded*: when [`MOST_WAITING`] events wait, [`Journal::append`] blocks.
//! - *Poisoned*: after a failed write every ticket and every later append fails. Reopen the journal to learn what
//!   is on disk.
//! - *Concurrent readers*: [`check`] and [`export`] read a journal that another process has open.
//!
//! The file alone does not show that its *last* transactions are missing together with their write-ahead log: a
//! crash before the sync looks the same. The mark next to it does (`mark.rs`). A log that is broken in the middle
//! is detected.

mod check;
mod copy;
mod error;
mod format;
mod lease;
mod lock;
mod mark;
mod postgres;
mod queue;
mod replay;
mod sqlite;
mod store;
mod verify;
mod writer;

pub use check::{Report, check, export};
pub use copy::{Copied, copy};
pub use error::{Damage, JournalError};
pub(crate) use lease::DatabaseTime;
pub use lease::{Lease, LeaseTerms};
pub use postgres::{Active, Database, SharedFile, remove_shared_file, shared_file};
pub(crate) use postgres::{CallerEpochs, Document};
pub use queue::{MOST_WAITING, Ticket};
pub use replay::{Opening, Record, Replay, Restore};
pub use store::{Claim, Store};
pub use verify::Snapshot;

use format::Meta;
use queue::{Batch, Order, Queue, outcome};
use replay::Collected;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use sqlite::Sqlite;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use verify::Source;
use writer::{Storage, Writer};

/// Snapshots to keep: the newest, and one to fall back on until the next compaction.
pub const KEPT_SNAPSHOTS: u32 = 2;

/// Kind and owner of a journal.
#[derive(Debug, Clone)]
pub struct Kind {
    /// Kind of journal: `ledger` or `broker`.
    pub what: String,
    /// Name of the site or broker.
    pub owner: String,
    /// Version of the event types, stored with each event. To be raised when older events cannot be parsed as newer
    /// ones.
    pub schema: u32,
    /// Converts an event of an older version. `None` if older events can be parsed as they are.
    pub upgrade: Option<fn(u32, Value) -> Value>,
}

impl Kind {
    /// A kind without conversion of older events.
    pub fn new(what: impl Into<String>, owner: impl Into<String>, schema: u32) -> Kind {
        Kind { what: what.into(), owner: owner.into(), schema, upgrade: None }
    }
}

/// When an append counts as durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// After a sync that is shared with other appends. Use this one.
    #[default]
    Grouped,
    /// After a sync of its own, for benchmarks.
    EachAppend,
    /// After it was handed to the operating system, which may lose it in a power failure. For benchmarks and tests.
    None,
}

/// Options for opening a journal.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// When an append counts as durable.
    pub durability: Durability,
    /// Largest size of the file, in pages of 4096 bytes; a larger one behaves like a full disk. For tests.
    pub most_pages: Option<u32>,
    /// Journal in PostgreSQL: the lease to take.
    pub lease: Lease,
    /// Journal in PostgreSQL: local file with the last acknowledged record, which the database must have.
    pub mark: Option<PathBuf>,
    /// Journal in PostgreSQL: a lease that was taken already.
    pub claim: Option<Claim>,
}

/// An open journal of events of one type. Threads can share it, processes cannot.
pub struct Journal<E> {
    queue: Arc<Queue>,
    writer: Option<JoinHandle<Result<(), JournalError>>>,
    lease: Lease,
    _events: PhantomData<fn(&E)>,
}

impl<E: Serialize + DeserializeOwned> Journal<E> {
    /// Opens or creates the journal, and reads and verifies everything in it.
    pub fn open(store: impl Into<Store>, kind: &Kind) -> Result<(Journal<E>, Replay<E>), JournalError> {
        Journal::open_with(store, kind, &Options::default())
    }

    /// Like [`Journal::open`], with options. Fails if another process has it open.
    pub fn open_with(
        store: impl Into<Store>,
        kind: &Kind,
        options: &Options,
    ) -> Result<(Journal<E>, Replay<E>), JournalError> {
        let mut all = Collected { snapshot: None, events: Vec::new() };
        let (journal, Opening { fresh, set_aside }) = Journal::open_into(store, kind, options, &mut all)?;
        let Collected { snapshot, events } = all;
        Ok((journal, Replay { fresh, snapshot, events, set_aside }))
    }

    /// Like [`Journal::open_with`], but passes the contents on while it reads them.
    pub fn open_into(
        store: impl Into<Store>,
        kind: &Kind,
        options: &Options,
        restore: &mut dyn Restore<E>,
    ) -> Result<(Journal<E>, Opening), JournalError> {
        match store.into() {
            Store::File(path) => {
                let (mut storage, meta, fresh) = Sqlite::open(&path, kind, options)?;
                let set_aside = replay::replay(&mut storage, &meta, kind, restore)?;
                let journal = Journal::begin(storage, &meta, kind, options, Lease::for_ever())?;
                Ok((journal, Opening { fresh, set_aside }))
            }
            Store::Postgres(database) => {
                let held = options.claim.as_ref().and_then(Claim::used);
                let mut held = match held {
                    Some(held) => held,
                    None => store::take(&database, kind, options)?,
                };
                let (meta, lease) = (held.meta().clone(), held.lease().clone());
                let fresh = held.is_fresh();
                match replay::replay(&mut *held, &meta, kind, restore) {
                    Ok(set_aside) => {
                        let journal = Journal::begin(*held, &meta, kind, options, lease)?;
                        Ok((journal, Opening { fresh, set_aside }))
                    }
                    Err(error) => {
                        held.release();
                        Err(error)
                    }
                }
            }
        }
    }

    fn begin(
        storage: impl Storage + Source + Send + 'static,
        meta: &Meta,
        kind: &Kind,
        options: &Options,
        lease: Lease,
    ) -> Result<Journal<E>, JournalError> {
        let path = storage.path().to_owned();
        let queue = Arc::new(Queue::new(meta.tail + 1));
        let (schema, durability, tail) = (kind.schema, options.durability, meta.last());
        let writer = Writer { storage, queue: queue.clone(), schema, durability, tail };
        let started = std::thread::Builder::new().name("journal".to_owned()).spawn(|| writer.run());
        let writer = started.map_err(|error| JournalError::io(&path, "starting its writer", &error))?;
        Ok(Journal { queue, writer: Some(writer), lease, _events: PhantomData })
    }

    /// Appends events atomically: after a crash all of them are there or none. Appends are written in call order.
    /// Blocks only while [`MOST_WAITING`] events wait. Without events, the ticket completes when all earlier
    /// appends are on disk.
    pub fn append(&self, events: &[E]) -> Result<Ticket, JournalError> {
        self.queue.append(Batch::of(events)?)
    }

    /// Stores a state that replaces all events up to one. Blocks until it and all earlier appends are on disk.
    pub fn snapshot<S: Serialize + ?Sized>(&self, up_to: u64, state: &S) -> Result<(), JournalError> {
        let what = || format!("the state up to record {up_to}");
        let state = serde_json::to_string(state);
        let state = state.map_err(|error| JournalError::Json { what: what(), why: error.to_string() })?;
        let (done, outcome) = outcome();
        self.queue.order(Order::Snapshot { up_to, state, done })?;
        outcome.wait()
    }

    /// Drops the events that the newest snapshot replaces, frees their space, and returns their number. Verifies
    /// the whole journal first, and drops nothing from a damaged one. Appends wait meanwhile.
    pub fn compact(&self) -> Result<u64, JournalError> {
        let (done, outcome) = outcome();
        self.queue.order(Order::Compact { done })?;
        outcome.wait()
    }
}

impl<E> Journal<E> {
    /// The lease under which it is open.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Why it accepts no more writes. `None` if it does.
    pub(crate) fn failed(&self) -> Option<JournalError> {
        self.queue.poisoned().map(|why| JournalError::Poisoned { why })
    }

    /// Writes all waiting events and closes the file. Fails if any write failed before.
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
    /// Writes all waiting events. To learn whether that succeeded, wait for the tickets or call [`Journal::close`].
    fn drop(&mut self) {
        let _ = self.end();
    }
}
