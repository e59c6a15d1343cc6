//! Drives a party with two threads. The party thread owns the party, takes messages one after the other, steps the
//! party, and appends its events to the journal. The release thread waits until they are durable, in the same
//! order, and then releases the rest: replies, calls to peers, orders to the batch system, notices, and log lines.
//! While one group of events is being synced the party thread continues, so that many calls share one sync.
//!
//! Queries are answered by copies of the party ([`copies`]) and wait for neither thread. If the journal fails,
//! nothing more is answered and the party ends; after a restart it has the state on disk. Decides nothing itself.

mod batch;
pub(crate) mod copies;
mod crash;
mod handle;
mod release;
mod restoring;
mod run;
pub(crate) mod watch;

#[cfg(test)]
mod tests;

pub use batch::{BatchSide, OrderSink};
pub use copies::ReadKind;
pub use crash::Point;
pub use handle::{Liveness, NoReply, PartyHandle};
pub use watch::{Numbered, Recent, Watch, Watching};

use crate::clock::Clock;
use crate::history::History;
use crate::journal::{Journal, JournalError, Kind, Lease, Opening, Options, Store};
use crate::notify::Outbox;
use bookahead_party::{BatchOrder, Input, JournalTime, Party, PeerCall};
use bookahead_protocol::Name;
use copies::{Copies, PartyReader};
use handle::Replies;
use release::Releaser;
use restoring::{Opened, Restoring};
use run::Run;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::Semaphore;

/// Events between two snapshots: replaying them takes a second or two.
const EVENTS_BETWEEN_SNAPSHOTS: u64 = 50_000;

/// Size of the events after which a snapshot is due sooner: reading them takes a second or two. Usually 50,000 events have a
/// tenth of that.
const BYTES_BETWEEN_SNAPSHOTS: u64 = 256 << 20;

/// Groups that may wait for the disk. If the journal is slow, it blocks the party thread earlier.
const GROUPS: usize = 4_096;

/// Takes calls to peers without waiting for their answers.
pub type PeerSink = Box<dyn Fn(PeerCall) + Send>;

/// Called when everything that was decided up to an answer has left.
pub type OnReleased = Box<dyn FnOnce() + Send>;

enum Message {
    /// An input with a reply.
    Call(Box<Input>),
    /// An input without a reply.
    Input(Box<Input>),
    /// Answer of a peer.
    Answer(Box<Input>, OnReleased),
    /// Durable orders for the inline scheduler.
    Orders(Vec<BatchOrder>),
    /// The journal has failed.
    Failed,
    /// No more calls arrive.
    Close,
}

/// Receivers of the outputs of a party.
pub struct Outlets {
    /// Calls to peers.
    pub peers: PeerSink,
    /// Orders to the batch system.
    pub batch: BatchSide,
}

impl Outlets {
    /// For a party without peers.
    pub fn only(batch: BatchSide) -> Outlets {
        Outlets { peers: Box::new(|_| {}), batch }
    }
}

/// How a party is run.
#[derive(Clone)]
pub struct PartyOptions {
    /// Name of the party, and owner of the journal.
    pub name: Name,
    /// Where the journal is stored.
    pub journal: Store,
    /// Options of the journal.
    pub options: Options,
    /// Clock of the party.
    pub clock: Clock,
    /// Events between two snapshots with compaction; 0 for the default.
    pub events_between_snapshots: u64,
    /// Notices for owners.
    pub outbox: Option<Arc<Outbox>>,
    /// Usage history.
    pub history: Option<Arc<History>>,
}

/// Why a party could not start or continue.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum PartyError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The file of notices.
    #[error("cannot use the file of notices: {0}")]
    Outbox(std::io::Error),
    /// The party refuses its journal, its configuration or the state of its batch system.
    #[error("{name} cannot run: {why}")]
    Unfit { name: Name, why: String },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// A defect.
    #[error("the thread of {0} ended unexpectedly; this is a defect")]
    Panicked(Name),
}

/// A running party.
pub struct PartyThread {
    handle: PartyHandle,
    thread: JoinHandle<Result<(), PartyError>>,
}

impl PartyOptions {
    /// Default options.
    pub fn new(name: Name, journal: impl Into<Store>, clock: Clock) -> PartyOptions {
        PartyOptions {
            name,
            journal: journal.into(),
            options: Options::default(),
            clock,
            events_between_snapshots: 0,
            outbox: None,
            history: None,
        }
    }

    /// Opens the journal, restores the state of the party, and starts it. `connect` gets the handle, for peers and
    /// batch systems that report with it.
    pub fn start<P: Party>(
        self,
        party: P,
        connect: impl FnOnce(&PartyHandle) -> Outlets,
    ) -> Result<PartyThread, PartyError> {
        self.open(party)?.start(connect)
    }

    /// Opens the journal, restores the state of the party, and compares the clock with the journal.
    pub fn open<P: Party>(self, party: P) -> Result<OpenParty<P>, PartyError> {
        let opened = self.restore(party)?;
        let due = opened.party.next_change();
        let journal = opened.newest.map(|newest| JournalTime { newest, due });
        self.clock.start(journal, opened.journal.lease().database_time());
        Ok(OpenParty { options: self, opened })
    }

    /// Restores the state of the party and replaces the journal by a snapshot, without starting the party. Returns
    /// the last record and the number of dropped ones.
    pub fn compact<P: Party>(self, party: P) -> Result<(u64, u64), PartyError> {
        let Opened { party, journal, last, .. } = self.restore(party)?;
        // The snapshot removes events that owners may not have been notified of yet.
        if let Some(outbox) = &self.outbox {
            outbox.settle(last).map_err(PartyError::Outbox)?;
        }
        journal.snapshot(last, &party.state())?;
        let dropped = journal.compact()?;
        journal.close()?;
        Ok((last, dropped))
    }

    fn unfit(&self, why: String) -> PartyError {
        PartyError::Unfit { name: self.name.clone(), why }
    }

    fn restore<P: Party>(&self, party: P) -> Result<Opened<P>, PartyError> {
        let kind = Kind::new(P::KIND, self.name.to_string(), P::SCHEMA);
        let mut restoring = Restoring::new(self, party);
        let opened = Journal::open_into(&self.journal, &kind, &self.options, &mut restoring);
        let (journal, Opening { set_aside, .. }) = opened?;
        for damage in &set_aside {
            let event = "journal_damage";
            tracing::warn!(event, party = %self.name, "ignoring harmless damage of the journal: {damage}");
        }
        let event = "journal_replayed";
        let events = restoring.events;
        tracing::info!(event, party = %self.name, events, "restored the state from the journal");
        restoring.opened(journal)
    }
}

/// A party restored from its journal, before its start.
pub struct OpenParty<P: Party> {
    options: PartyOptions,
    opened: Opened<P>,
}

impl<P: Party> OpenParty<P> {
    /// Starts the party. `connect` gets the handle, for peers and batch systems that report with it.
    pub fn start(self, connect: impl FnOnce(&PartyHandle) -> Outlets) -> Result<PartyThread, PartyError> {
        let OpenParty { options, opened } = self;
        let Opened { mut party, journal, last, last_snapshot, recent, .. } = opened;
        let (inbox, messages) = channel();
        let in_doubt = options.clock.state().is_in_doubt();
        party.doubt_clock(in_doubt);
        // Before the start: its consequences become visible when they are durable.
        let copies = Arc::new(Copies::new(&party));
        let last_facts = party.facts().0;
        let now = options.clock.now();
        let started = party.start(now).map_err(|why| options.unfit(why))?;
        let lease = journal.lease().clone();
        let shared = Arc::new(Shared::new(
            (options.name.clone(), options.clock),
            (last, recent),
            options.history.clone(),
            lease,
        ));
        let reader = PartyReader { copies: copies.clone(), clock: options.clock };
        let handle = PartyHandle { inbox: inbox.clone(), shared: shared.clone(), reader: reader.clone() };
        let Outlets { peers, batch } = connect(&handle);
        let (inline, orders) = batch.split(&inbox);
        let (release, groups) = sync_channel(GROUPS);
        let releaser = Releaser {
            groups,
            shared: shared.clone(),
            copies: copies.clone(),
            inbox,
            peers,
            orders,
            outbox: options.outbox.clone(),
            history: options.history.clone(),
        };
        let releasing = spawn("release", move || releaser.run())?;
        let keeping_up = spawn("read copies", {
            let copies = copies.clone();
            move || copies.keep_up()
        })?;
        let recording =
            options.history.clone().map(|history| spawn("history", move || history.keep_up(&reader)));
        let recording = recording.transpose()?;
        let run = Run {
            last_facts,
            in_doubt,
            party,
            inline,
            journal: Arc::new(journal),
            messages,
            release,
            shared,
            copies,
            every: Some(options.events_between_snapshots)
                .filter(|every| *every > 0)
                .unwrap_or(EVENTS_BETWEEN_SNAPSHOTS),
            last,
            last_snapshot,
            bytes: 0,
            snapshot: None,
            unanswered: 0,
            close_by: None,
            compute_at: Instant::now(),
            outbox: options.outbox.clone(),
            on_released: Vec::new(),
        };
        let work = move || run.run((now, started), releasing, keeping_up, recording);
        let thread = spawn(&format!("party {}", options.name), work)?;
        Ok(PartyThread { handle, thread })
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<JoinHandle<T>> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work)
}

impl PartyThread {
    /// Handle of the party.
    pub fn handle(&self) -> &PartyHandle {
        &self.handle
    }

    /// Ends the party: earlier calls are still answered, and all decisions are written.
    pub fn close(self) -> Result<(), PartyError> {
        self.handle.close();
        self.wait()
    }

    /// Waits for the end, by [`PartyHandle::close`] or because of a failure.
    pub fn wait(self) -> Result<(), PartyError> {
        let name = self.handle.name().clone();
        self.thread.join().unwrap_or(Err(PartyError::Panicked(name)))
    }
}

/// State shared by the threads and handles of a party.
pub(crate) struct Shared {
    name: Name,
    clock: Clock,
    watch: Watch,
    replies: Replies,
    queued: AtomicUsize,
    /// Permits for long reads, one for each of their copies.
    long_reads: Arc<Semaphore>,
    /// Number of the last durable event.
    durable: AtomicU64,
    /// Busy time of the party thread in microseconds.
    busy: AtomicU64,
    /// Time when the party thread was last between two messages.
    beat: Mark,
    /// Time since when the release thread waits for the journal.
    writing: Mark,
    closing: AtomicBool,
    ended: AtomicBool,
    history: Option<Arc<History>>,
    failed: Mutex<Option<JournalError>>,
    lease: Lease,
}

impl Shared {
    /// `last` is the last event of the journal.
    fn new(
        (name, clock): (Name, Clock),
        (last, recent): (u64, Recent),
        history: Option<Arc<History>>,
        lease: Lease,
    ) -> Shared {
        Shared {
            name,
            clock,
            watch: Watch::new(recent),
            replies: Replies::default(),
            queued: AtomicUsize::new(0),
            long_reads: Arc::new(Semaphore::new(copies::LONG_READS)),
            durable: AtomicU64::new(last),
            busy: AtomicU64::new(0),
            beat: Mark::new(),
            writing: Mark::new(),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            history,
            failed: Mutex::new(None),
            lease,
        }
    }
}

/// A time that one thread sets and others read.
struct Mark {
    origin: Instant,
    /// Milliseconds after the origin plus one; 0 if not set.
    at: AtomicU64,
}

impl Mark {
    fn new() -> Mark {
        Mark { origin: Instant::now(), at: AtomicU64::new(0) }
    }

    fn passed(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn set(&self) {
        self.at.store(self.passed() + 1, Ordering::Release);
    }

    fn unset(&self) {
        self.at.store(0, Ordering::Release);
    }

    /// Time since it was set; zero if not set.
    fn age(&self) -> Duration {
        let at = self.at.load(Ordering::Acquire);
        let age = if at == 0 { 0 } else { (self.passed() + 1).saturating_sub(at) };
        Duration::from_millis(age)
    }
}
