//! The usage history: which reservations and jobs there were, and how much they took. It outlives the state of the
//! party, which forgets ended reservations after `retention`. Also what happened to each reservation, as long as the
//! party knows it.
//!
//! - [`row`]: rows, and how they follow from what the party shows
//! - [`store`]: the file; [`sums`]: sums over rows; [`records`]: the rows themselves, for logs
//!
//! The release thread tells which reservations and jobs have durable events. A thread of the history then reads a
//! copy of the party and writes their rows. So answers never wait for it, and only durable facts are written. Rows
//! are found by id and written again whenever something changes.
//!
//! After a crash the file may be behind the journal. The events that it lacks are found in the journal; if a
//! snapshot has replaced them, all remembered reservations and jobs are read again. Only if the file was not written
//! for longer than `retention` can something be missing. That is logged, and answers tell from when on the history
//! is complete. A history that cannot be written does not stop the service.

pub mod records;
mod row;
mod store;
pub(crate) mod sums;

#[cfg(test)]
mod tests;

use crate::thread::copies::{PartyReader, ReadKind};
use crate::thread::watch::Numbered;
use bookahead_api as api;
use bookahead_lrms::batch::accounts::Projects;
use bookahead_party::{Filter, Queries, Role, Subject, Viewer};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::broker::name_here;
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::{JobId, Moment, Name, ReservationId};
use records::RecordsQuestion;
use row::JobRow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::{Covered, Reader, SeenReservation, Sightings, Store};
use sums::{Question, Tally, TooMuch};
use tokio::sync::Semaphore;

/// Name of the file in the state folder.
pub const FILE: &str = "history.sqlite";

/// Reservations and jobs that are read and written together: the read takes a millisecond or two.
const AT_ONCE: usize = 256;

/// Waiting ids beyond which all remembered reservations are read again instead. Only reached if the file cannot be
/// written.
const MOST_WAITING: usize = 100_000;

/// How often old rows are deleted, and running jobs are looked at: a broker has no event when a job starts.
const TIDY_EVERY: Duration = Duration::from_secs(60);

/// How long events are collected, so that many share one transaction.
const GATHER: Duration = Duration::from_millis(20);

/// How often a broker's list of resources is read at most, for those whose kind is not known.
const KINDS_EVERY: Duration = Duration::from_secs(1);

/// Pause after a failed write.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// How long a query waits for the rows of earlier events.
const PATIENCE: Duration = Duration::from_secs(2);

/// Concurrent queries. Each may read the whole file.
const QUERIES: usize = 2;

/// The usage history of a party.
pub struct History {
    party: Name,
    path: PathBuf,
    keep: Seconds,
    retention: Seconds,
    projects: Projects,
    waiting: Mutex<Waiting>,
    /// Signals new ids, written rows, and the end.
    changed: Condvar,
    queries: Arc<Semaphore>,
}

#[derive(Default)]
struct Waiting {
    /// Reservations to write, and whether an event committed them.
    reservations: BTreeMap<ReservationId, bool>,
    jobs: BTreeSet<JobId>,
    /// What happened to reservations.
    happened: Vec<Numbered>,
    /// Whether some of it was dropped, because the file is written more slowly than things happen.
    gap: bool,
    /// Whether all remembered reservations and jobs must be read.
    everything: bool,
    /// The last durable event.
    noted: u64,
    /// The last event whose effects are written.
    written: u64,
    closed: bool,
    /// Whether the last write failed.
    failed: bool,
    /// Whether the file can be used.
    usable: bool,
    /// The open file, until [`History::keep_up`] takes it.
    store: Option<Store>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum NoUsage {
    /// The answer would be too large.
    #[error(transparent)]
    TooMuch(#[from] TooMuch),
    /// It is of another version, or could not be opened.
    #[error("the usage history cannot be used; the log of the service says why")]
    Unusable,
    /// Reading failed.
    #[error("cannot read the usage history: {0}")]
    File(#[from] rusqlite::Error),
}

/// Sums over a window.
pub(crate) struct Usage {
    pub(crate) tally: Tally,
    /// They are complete only from then on. None if they are complete.
    pub(crate) complete_since: Option<Time>,
}

/// Ids taken from the queue.
struct Batch {
    reservations: Vec<(ReservationId, bool)>,
    jobs: Vec<JobId>,
    happened: Vec<Numbered>,
    gap: bool,
    /// Set if nothing is left: the last event that is covered then.
    up_to: Option<u64>,
}

impl History {
    /// The history in a state folder. Rows are kept for `keep` after their end; the party forgets ended
    /// reservations after `retention`. Rows have the project of their owner.
    pub fn new(party: Name, state: &Path, keep: Seconds, retention: Seconds, projects: Projects) -> History {
        History {
            party,
            path: state.join(FILE),
            keep,
            retention,
            projects,
            waiting: Mutex::default(),
            changed: Condvar::new(),
            queries: Arc::new(Semaphore::new(QUERIES)),
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the file. `last` is the last event of the journal, and events up to `snapshot` are gone. Returns the
    /// last event that needs no more processing.
    pub(crate) fn open(&self, snapshot: u64, last: u64, now: Time) -> u64 {
        match self.try_open(snapshot, last, now) {
            Ok(seen) => seen,
            Err(why) => {
                let (event, path) = ("history_failed", self.path.display());
                tracing::error!(event, party = %self.party, "cannot use the usage history {path}: {why}; usage is not recorded");
                // No event is to be processed for a file that cannot be used.
                u64::MAX
            }
        }
    }

    fn try_open(&self, snapshot: u64, last: u64, now: Time) -> rusqlite::Result<u64> {
        let mut store = Store::open(&self.path)?;
        let covered = match store.covered()? {
            None => {
                let since = (last > 0).then_some(now);
                Covered { seen: 0, seen_at: now, since }
            }
            Some(covered) if covered.seen < last && covered.seen_at + self.retention < now => {
                let event = "history_gap";
                tracing::warn!(event, party = %self.party, "usage was not recorded for longer than retention; some of it is missing");
                Covered { since: Some(now), ..covered }
            }
            // The journal is shorter than the file says, so it is another journal.
            Some(covered) => Covered { seen: covered.seen.min(last), ..covered },
        };
        store.set_covered(covered)?;
        if covered.seen < snapshot {
            store.note_gap()?;
        }
        // What is live in the file may have changed or be gone, if the journal was replaced.
        let (reservations, jobs) = store.live()?;
        let mut waiting = self.waiting();
        waiting.reservations.extend(reservations.into_iter().map(|id| (id, false)));
        waiting.jobs.extend(jobs);
        waiting.everything = covered.seen < snapshot;
        (waiting.noted, waiting.written) = (covered.seen, covered.seen);
        (waiting.store, waiting.usable) = (Some(store), true);
        Ok(covered.seen)
    }

    /// Takes the subjects and notices of durable events up to `last`.
    pub(crate) fn note<'a>(
        &self,
        last: u64,
        subjects: impl Iterator<Item = Subject>,
        notices: impl Iterator<Item = &'a Numbered>,
    ) {
        let mut waiting = self.waiting();
        if !waiting.usable {
            return;
        }
        for numbered in notices.filter(|numbered| numbered.notice.id.is_some()) {
            if waiting.happened.len() < MOST_WAITING {
                waiting.happened.push(numbered.clone());
            } else {
                waiting.gap = true;
            }
        }
        for subject in subjects {
            match subject {
                Subject::Reservation { id, committed } => {
                    *waiting.reservations.entry(id).or_default() |= committed;
                }
                Subject::Job(id) => {
                    waiting.jobs.insert(id);
                }
            }
        }
        // Otherwise the queue is about to be written, and may hold all that the party remembers.
        let queued = waiting.reservations.len() + waiting.jobs.len() + waiting.happened.len();
        if waiting.failed && queued > MOST_WAITING {
            (waiting.reservations, waiting.jobs, waiting.happened) = Default::default();
            (waiting.everything, waiting.gap) = (true, true);
        }
        if last > waiting.noted {
            waiting.noted = last;
            self.changed.notify_all();
        }
    }

    /// Writes rows until [`History::close`], and then those that wait.
    pub(crate) fn keep_up(&self, party: &PartyReader) {
        let Some(mut store) = self.waiting().store.take() else { return };
        let is_broker = party.read(ReadKind::Short, |queries, _| queries.role() == Role::Broker);
        let mut failed = false;
        let mut tidied: Option<Instant> = None;
        let mut kinds = Kinds::default();
        while let Some(batch) = self.next(failed) {
            let seen =
                party.read(ReadKind::Short, |queries, now| self.sightings(&mut kinds, queries, now, &batch));
            let happened: Vec<api::Event> =
                batch.happened.iter().filter_map(|numbered| numbered.event().ok()).collect();
            let mut written = store.write(&seen, &happened, batch.up_to);
            // After the write: the rows that it makes lack what was dropped since.
            if written.is_ok() && batch.gap && store.note_gap().is_err() {
                self.waiting().gap = true;
            }
            if written.is_ok() && tidied.is_none_or(|at| at.elapsed() >= TIDY_EVERY) {
                tidied = Some(Instant::now());
                written = self.tidy(&mut store, seen.now, is_broker);
            }
            if self.waiting().everything {
                self.enqueue_everything(party);
            }
            self.done(batch, written, &mut failed);
        }
    }

    /// Waits for ids to write. None when closed and nothing is left, or the last write before the end failed.
    fn next(&self, failed: bool) -> Option<Batch> {
        let mut waiting = self.waiting();
        if failed && !waiting.closed {
            let pause = |waiting: &mut Waiting| !waiting.closed;
            let waited = self.changed.wait_timeout_while(waiting, RETRY_AFTER, pause);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let idle = |waiting: &mut Waiting| {
            waiting.reservations.is_empty()
                && waiting.jobs.is_empty()
                && waiting.happened.is_empty()
                && !waiting.everything
                && waiting.noted == waiting.written
        };
        let waited =
            self.changed.wait_timeout_while(waiting, TIDY_EVERY, |waiting| !waiting.closed && idle(waiting));
        let mut waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        if !waiting.closed {
            // Sleeps without the lock, which the release thread needs: answers must not wait for the history.
            drop(waiting);
            std::thread::sleep(GATHER);
            waiting = self.waiting();
        }
        if waiting.closed && (failed || idle(&mut waiting)) {
            return None;
        }
        let mut batch = Batch {
            reservations: Vec::new(),
            jobs: Vec::new(),
            happened: std::mem::take(&mut waiting.happened),
            gap: std::mem::take(&mut waiting.gap),
            up_to: None,
        };
        while batch.reservations.len() < AT_ONCE
            && let Some(first) = waiting.reservations.pop_first()
        {
            batch.reservations.push(first);
        }
        while batch.jobs.len() < AT_ONCE
            && let Some(first) = waiting.jobs.pop_first()
        {
            batch.jobs.push(first);
        }
        let all = waiting.reservations.is_empty() && waiting.jobs.is_empty() && !waiting.everything;
        batch.up_to = all.then_some(waiting.noted);
        Some(batch)
    }

    /// Records the result of a write. What could not be written waits for the next attempt.
    fn done(&self, batch: Batch, written: rusqlite::Result<()>, failed: &mut bool) {
        let mut waiting = self.waiting();
        match written {
            Ok(()) => {
                waiting.written = batch.up_to.unwrap_or(waiting.written);
                (*failed, waiting.failed) = (false, false);
            }
            Err(why) => {
                if !*failed {
                    let event = "history_failed";
                    tracing::error!(event, party = %self.party, "cannot write the usage history, retrying: {why}");
                }
                for (id, committed) in batch.reservations {
                    *waiting.reservations.entry(id).or_default() |= committed;
                }
                waiting.jobs.extend(batch.jobs);
                waiting.happened.splice(0..0, batch.happened);
                waiting.gap |= batch.gap;
                (*failed, waiting.failed) = (true, true);
            }
        }
        self.changed.notify_all();
    }

    /// Deletes old rows, and has a broker look at its jobs again.
    fn tidy(&self, store: &mut Store, now: Time, is_broker: bool) -> rusqlite::Result<()> {
        while store.delete_before(now - self.keep, now - self.retention)? {}
        if is_broker {
            self.waiting().jobs.extend(store.live()?.1);
        }
        Ok(())
    }

    /// Queues all remembered reservations and jobs.
    fn enqueue_everything(&self, party: &PartyReader) {
        // First: if the queue is given up meanwhile, everything must be read once more.
        self.waiting().everything = false;
        let mut after = None;
        loop {
            let filter = Filter { after, limit: AT_ONCE, ..Filter::default() };
            let page = party.read(ReadKind::Short, |queries, now| queries.list(now, &filter));
            let mut waiting = self.waiting();
            for reservation in page.reservations {
                waiting.reservations.entry(reservation.id).or_default();
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        let viewer = Viewer::new(self.party.clone(), true);
        let jobs = party.read(ReadKind::Long, |queries, _| queries.jobs(&viewer));
        let mut waiting = self.waiting();
        waiting.jobs.extend(jobs.iter().map(|job| job.id));
    }

    /// Ends [`History::keep_up`].
    pub(crate) fn close(&self) {
        self.waiting().closed = true;
        self.changed.notify_all();
    }

    /// Waits until the rows cover an event, for a short time only.
    fn settle(&self, up_to: u64) {
        let behind = |waiting: &mut Waiting| waiting.written < up_to && !waiting.closed;
        let waited = self.changed.wait_timeout_while(self.waiting(), PATIENCE, behind);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds up rows, including those of all events up to `up_to`. Reads the file; call it on a blocking thread.
    pub(crate) fn usage(&self, question: Question, up_to: u64) -> Result<Usage, NoUsage> {
        if !self.waiting().usable {
            return Err(NoUsage::Unusable);
        }
        self.settle(up_to);
        let (window, owner, now) = (question.window, question.owner.clone(), question.now);
        let mut tally = Tally::new(question)?;
        let reader = Reader::open(&self.path)?;
        let since = reader.covered()?.and_then(|covered| covered.since);
        reader.parts(window, owner.as_ref(), |row| {
            tally.add_part(row);
            tally.is_too_large().is_ok()
        })?;
        reader.jobs(window, owner.as_ref(), |row| {
            tally.add_job(row);
            tally.is_too_large().is_ok()
        })?;
        tally.is_too_large()?;
        // Older rows were deleted, if there were any.
        let complete_since = since.into_iter().chain([now - self.keep]).max();
        Ok(Usage { tally, complete_since: complete_since.filter(|since| *since > window.begin) })
    }

    /// A page of rows, including those of all events up to `up_to`. Reads the file; call it on a blocking thread.
    pub(crate) fn records(
        &self,
        question: &RecordsQuestion,
        up_to: u64,
    ) -> Result<api::UsageRecords, NoUsage> {
        if !self.waiting().usable {
            return Err(NoUsage::Unusable);
        }
        self.settle(up_to);
        let mut page = records::page(&self.path, question)?;
        let since = Reader::open(&self.path)?.covered()?.and_then(|covered| covered.since);
        page.complete_since = since.map(api::Timestamp::nearest).or(page.complete_since);
        Ok(page)
    }

    /// What happened to a reservation up to the event `up_to`, oldest first, and whether that is all. Reads the file; call
    /// it on a blocking thread.
    pub(crate) fn happened(&self, id: ReservationId, up_to: u64) -> Result<(Vec<api::Event>, bool), NoUsage> {
        if !self.waiting().usable {
            return Err(NoUsage::Unusable);
        }
        self.settle(up_to);
        Ok(Reader::open(&self.path)?.happened(id)?)
    }

    /// Permits for queries.
    pub(crate) fn queries(&self) -> Arc<Semaphore> {
        self.queries.clone()
    }

    /// What the party shows of these reservations and jobs.
    fn sightings(
        &self,
        kinds: &mut Kinds,
        queries: &mut dyn Queries,
        now: Moment,
        batch: &Batch,
    ) -> Sightings {
        let queries: &dyn Queries = queries;
        let is_broker = queries.role() == Role::Broker;
        let seen = |(id, committed): &(ReservationId, bool)| {
            let parts = queries.booked(*id);
            let project = self.project(parts.first().map(|part| &part.owner));
            let parts = parts.into_iter().map(|part| (kinds.of(queries, &part.resource), part)).collect();
            SeenReservation { id: *id, committed: *committed, project, parts }
        };
        let reservations = batch.reservations.iter().map(seen).collect();
        let mut row = |job: JobView| {
            let resource = job.resource.clone().unwrap_or_else(|| Name::from(""));
            // In a job, a broker names the resource as its site does.
            let site = job.site.as_ref().filter(|_| is_broker);
            let resource = site.map(|site| name_here(site, &resource)).unwrap_or(resource);
            let kind = kinds.of(queries, &resource);
            JobRow::of(&job, self.project(Some(&job.owner)), resource, kind)
        };
        let jobs = batch.jobs.iter().map(|id| (*id, queries.job(*id).map(&mut row)));
        Sightings { now: now.second(), reservations, jobs: jobs.collect() }
    }

    /// The project of an owner; empty if there is none.
    fn project(&self, owner: Option<&Name>) -> Name {
        let Projects { usual, map } = &self.projects;
        let project = owner.and_then(|owner| map.get(owner)).or(usual.as_ref());
        Name::from(project.map_or("", String::as_str))
    }
}

/// Kinds of resources.
#[derive(Default)]
struct Kinds {
    known: BTreeMap<Name, Name>,
    read: Option<Instant>,
}

impl Kinds {
    /// The kind of a resource; empty if it is not known at present.
    fn of(&mut self, queries: &dyn Queries, resource: &Name) -> Name {
        let due = self.read.is_none_or(|read| read.elapsed() >= KINDS_EVERY);
        if due && !self.known.contains_key(resource) {
            self.read = Some(Instant::now());
            self.known.extend(queries.resources().into_iter().map(|found| (found.name, found.kind)));
        }
        self.known.get(resource).cloned().unwrap_or_else(|| Name::from(""))
    }
}
