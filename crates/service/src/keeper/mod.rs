//! The keeper of a party: one thread that owns its head, and one that lets out what it decided.
//!
//! The first takes what comes in, one after the other, hands it to the party with the time, and appends the events to the
//! journal. The second waits until they are durable, in the same order, and only then does what goes with them: answers,
//! calls to peers, notices. While one group of events is on its way to the disk the first thread goes on, so that many
//! commands share one sync. Whoever only looks waits as well: nobody is shown what a crash could take back.
//!
//! Where the journal fails, nothing more is answered and the party ends; started anew, it has what is on disk.

mod crash;
mod door;
mod release;
mod watch;

pub use crash::Point;
pub use door::{Closed, Door};
pub use watch::{Numbered, Watch, Watching};

use crate::clock::Clock;
use crate::journal::{Journal, JournalError, Kind, Options, Replay};
use crate::party::{Deed, Done, Input, Party, Sight};
use bookahead_protocol::{Moment, Name};
use release::{Batch, Releaser};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thiserror::Error;

/// So many inputs may wait.
const INBOX: usize = 4_096;

/// A snapshot is taken after so many events.
const EVENTS_BETWEEN_SNAPSHOTS: u64 = 50_000;

/// Looks at a party, and says what is to be done with what was seen once it is durable.
type Look = Box<dyn FnOnce(&mut dyn Sight, Moment) -> Deed + Send>;

enum Knock {
    Input(Box<Input>),
    Look(Look),
    /// Something became durable that the party wants to hear of, or the journal failed.
    Wake,
    Close,
}

/// What the threads and the doors of a party share.
pub(crate) struct Shared {
    name: Name,
    clock: Clock,
    watch: Watch,
    /// The number of the last durable event.
    durable: AtomicU64,
    /// How many microseconds the head has worked.
    busy: AtomicU64,
    /// How many times the party is to be told that all is written.
    written: AtomicU32,
    /// Why the journal failed.
    failed: Mutex<Option<JournalError>>,
}

/// How a party is kept.
#[derive(Debug, Clone)]
pub struct Keeping {
    /// Its name, which is also the owner of the journal.
    pub name: Name,
    /// The journal.
    pub journal: PathBuf,
    /// How the journal is opened.
    pub options: Options,
    /// The time it lives in.
    pub clock: Clock,
    /// A snapshot is taken, and what it stands for dropped, after so many events; 0 for the usual number.
    pub events_between_snapshots: u64,
}

/// Why a party could not start or go on.
#[derive(Debug, Error)]
pub enum KeeperError {
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// What is in the journal does not fit the configuration.
    #[error("the journal of {name} does not fit its configuration: {why}")]
    Unfit {
        /// Whose.
        name: Name,
        /// Why.
        why: String,
    },
    /// The system.
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    /// A defect.
    #[error("the thread of {0} ended unexpectedly; this is a defect")]
    Panicked(Name),
}

/// A party at work.
pub struct Keeper {
    door: Door,
    thread: JoinHandle<Result<(), KeeperError>>,
}

impl Keeping {
    /// With the usual options.
    pub fn new(name: Name, journal: PathBuf, clock: Clock) -> Keeping {
        Keeping { name, journal, options: Options::default(), clock, events_between_snapshots: 0 }
    }

    /// Opens the journal, lets the party take over what is in it, and sets it to work. `make` gets the door, for those
    /// parties that hand something to themselves.
    pub fn start<P: Party>(self, make: impl FnOnce(&Door) -> P) -> Result<Keeper, KeeperError> {
        let kind = Kind::new(P::KIND, self.name.to_string(), P::SCHEMA);
        let (journal, replay) = Journal::open_with(&self.journal, &kind, &self.options)?;
        let last = last_sequence(&replay);
        let (inbox, knocks) = sync_channel(INBOX);
        let shared = Arc::new(Shared::new(self.name.clone(), self.clock, last));
        let door = Door { inbox: inbox.clone(), shared: shared.clone() };
        let mut party = make(&door);
        take_over(&mut party, &self.name, replay)?;
        let journal = Arc::new(journal);
        let (release, batches) = sync_channel(INBOX);
        let releaser = Releaser { batches, shared: shared.clone(), inbox };
        let releasing = std::thread::Builder::new().name("release".into()).spawn(|| releaser.run())?;
        let every = if self.events_between_snapshots == 0 {
            EVENTS_BETWEEN_SNAPSHOTS
        } else {
            self.events_between_snapshots
        };
        let mut head = Head {
            party,
            journal,
            knocks,
            release,
            shared,
            every,
            last,
            last_snapshot: last,
            snapshots: None,
        };
        head.wake()?;
        let thread = std::thread::Builder::new().name(format!("keeper {}", self.name));
        let thread = thread.spawn(move || head.keep(releasing))?;
        Ok(Keeper { door, thread })
    }

    /// Lets the party fold what is in the journal and puts a snapshot in its place, without waking the party. Says up to
    /// which record, and how many were dropped. `make` gets a door that leads nowhere.
    pub fn compact<P: Party>(self, make: impl FnOnce(&Door) -> P) -> Result<(u64, u64), KeeperError> {
        let kind = Kind::new(P::KIND, self.name.to_string(), P::SCHEMA);
        let (journal, replay) = Journal::<P::Event>::open_with(&self.journal, &kind, &self.options)?;
        let last = last_sequence(&replay);
        let (inbox, _) = sync_channel(1);
        let mut party =
            make(&Door { inbox, shared: Arc::new(Shared::new(self.name.clone(), self.clock, last)) });
        take_over(&mut party, &self.name, replay)?;
        journal.snapshot(last, &party.state())?;
        let dropped = journal.compact()?;
        journal.close()?;
        Ok((last, dropped))
    }
}

fn last_sequence<E>(replay: &Replay<E>) -> u64 {
    let event = replay.events.last().map(|record| record.sequence);
    event.or(replay.snapshot.as_ref().map(|snapshot| snapshot.up_to)).unwrap_or(0)
}

fn take_over<P: Party>(party: &mut P, name: &Name, replay: Replay<P::Event>) -> Result<(), KeeperError> {
    let unfit = |why| KeeperError::Unfit { name: name.clone(), why };
    if let Some(snapshot) = replay.snapshot {
        party.restore(snapshot.state()?).map_err(unfit)?;
    }
    for damage in &replay.set_aside {
        tracing::warn!(party = %name, "the journal had damage that does no harm: {damage}");
    }
    tracing::info!(party = %name, events = replay.events.len(), "takes over from the journal");
    replay.events.iter().for_each(|record| party.replay(&record.event));
    Ok(())
}

impl Keeper {
    /// The way to the party.
    pub fn door(&self) -> &Door {
        &self.door
    }

    /// Whether it is still at work.
    pub fn is_at_work(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Ends it: what came in before is still answered and written.
    pub fn close(self) -> Result<(), KeeperError> {
        self.door.close();
        self.wait()
    }

    /// Waits until it has ended, by [`Door::close`] or since it could not go on.
    pub fn wait(self) -> Result<(), KeeperError> {
        let name = self.door.name().clone();
        self.thread.join().unwrap_or(Err(KeeperError::Panicked(name)))
    }
}

/// The thread that owns the party.
struct Head<P: Party> {
    party: P,
    journal: Arc<Journal<P::Event>>,
    knocks: Receiver<Knock>,
    release: SyncSender<Batch>,
    shared: Arc<Shared>,
    every: u64,
    /// The number of the last event appended.
    last: u64,
    last_snapshot: u64,
    /// A snapshot under way.
    snapshots: Option<JoinHandle<()>>,
}

impl<P: Party> Head<P> {
    fn wake(&mut self) -> Result<(), KeeperError> {
        let mut done = Done::default();
        let woken = self.party.wake(self.shared.clock.now(), &mut done);
        woken.map_err(|why| KeeperError::Unfit { name: self.shared.name.clone(), why })?;
        self.settle(done)
    }

    fn keep(mut self, releasing: JoinHandle<()>) -> Result<(), KeeperError> {
        let kept = self.work();
        let Head { journal, release, snapshots, shared, .. } = self;
        // Without more batches the releaser comes to its end; then nobody has the journal but us.
        drop(release);
        let _ = releasing.join();
        let _ = snapshots.map(JoinHandle::join);
        let closed = Arc::into_inner(journal).map_or(Ok(()), Journal::close);
        kept?;
        closed?;
        tracing::info!(party = %shared.name, "ended");
        Ok(())
    }

    fn work(&mut self) -> Result<(), KeeperError> {
        loop {
            let clock = self.shared.clock;
            let patience =
                self.party.next_timer().map_or(Duration::from_secs(60), |at| clock.sleep_until(at));
            let knock = match self.knocks.recv_timeout(patience) {
                Ok(knock) => Some(knock),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if let Some(why) = self.shared.take_failure() {
                return Err(why.into());
            }
            let began = Instant::now();
            let now = clock.now();
            self.catch_up(now)?;
            let mut done = Done::default();
            match knock {
                Some(Knock::Input(input)) => self.party.take(now, *input, &mut done),
                Some(Knock::Look(look)) => done.deeds.push(look(self.party.sight(), now)),
                Some(Knock::Close) => return Ok(()),
                Some(Knock::Wake) | None => {}
            }
            self.settle(done)?;
            self.take_snapshot();
            let worked = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.shared.busy.fetch_add(worked, Ordering::Relaxed);
        }
    }

    /// Does what time and durability have made due.
    fn catch_up(&mut self, now: Moment) -> Result<(), KeeperError> {
        let mut done = Done::default();
        for _ in 0..self.shared.written.swap(0, Ordering::AcqRel) {
            self.party.written(now, &mut done);
        }
        if self.party.next_timer().is_some_and(|due| due <= now) {
            self.party.tick(now, &mut done);
        }
        if done.is_nothing() { Ok(()) } else { self.settle(done) }
    }

    /// Has written what came of something, and lets the rest happen when it is.
    fn settle(&mut self, done: Done<P::Event>) -> Result<(), KeeperError> {
        if !done.events.is_empty() {
            crash::pass(Point::Decided);
        }
        let ticket = self.journal.append(&done.events)?;
        self.last += done.events.len() as u64;
        let wrote = !done.events.is_empty();
        let Done { deeds, notices, call_back, .. } = done;
        let batch = Batch { ticket, deeds, notices, call_back, wrote };
        // The releaser ends before us only where the journal failed, which it has noted.
        if self.release.send(batch).is_err()
            && let Some(why) = self.shared.take_failure()
        {
            return Err(why.into());
        }
        Ok(())
    }

    /// Takes a snapshot where it is time, and lets another thread write it.
    fn take_snapshot(&mut self) {
        let busy = self.snapshots.as_ref().is_some_and(|thread| !thread.is_finished());
        if self.last - self.last_snapshot < self.every || busy {
            return;
        }
        let (up_to, state, journal) = (self.last, self.party.state(), self.journal.clone());
        let name = self.shared.name.clone();
        self.last_snapshot = up_to;
        let write = move || {
            let began = Instant::now();
            match journal.snapshot(up_to, &state).and_then(|()| journal.compact()) {
                Ok(dropped) => {
                    tracing::info!(party = %name, up_to, dropped, took = ?began.elapsed(), "compacted the journal");
                }
                Err(why) => tracing::error!(party = %name, "cannot compact the journal: {why}"),
            }
        };
        match std::thread::Builder::new().name("snapshot".into()).spawn(write) {
            Ok(thread) => self.snapshots = Some(thread),
            Err(why) => tracing::error!("cannot start a thread for a snapshot: {why}"),
        }
    }
}

impl Shared {
    /// Of a party whose journal ends with this event.
    fn new(name: Name, clock: Clock, last: u64) -> Shared {
        Shared {
            name,
            clock,
            watch: Watch::new(last),
            durable: AtomicU64::new(last),
            busy: AtomicU64::new(0),
            written: AtomicU32::new(0),
            failed: Mutex::new(None),
        }
    }

    fn take_failure(&self) -> Option<JournalError> {
        self.failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
    }
}
