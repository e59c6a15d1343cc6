//! Copies of a party for readers. Each durable group of events is appended once to a shared log. A reader takes a
//! free copy, applies the changes that the copy lacks, and reads. So a reader waits neither for the party nor for a
//! reader of the other kind, the state is copied only at the start, and the writer only pays for appending.
//!
//! Relies on the release thread to append a group before its replies leave: a reader that comes after a reply sees
//! its effects.

use crate::clock::Clock;
use bookahead_party::{Party, Queries};
use bookahead_protocol::Moment;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Concurrent long reads, each on its own copy. Two, so that one long probe does not delay the next; each copy
/// takes as much memory as the party.
pub(super) const LONG_READS: usize = 2;

/// One more copy for short reads.
const COPIES: usize = LONG_READS + 1;

/// How often idle copies are updated at least, so that the next reader has little to apply.
const CATCH_UP_EVERY: Duration = Duration::from_secs(1);

/// Number of waiting groups after which idle copies are updated: a few megabytes at most, and some milliseconds to
/// apply.
const CATCH_UP_AFTER: usize = 1_024;

/// Expected duration of a read, which selects its copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadKind {
    /// A few milliseconds at most, such as one reservation or one page.
    Short,
    /// A search or a scan of the whole ledger. Waits for other long reads, never delays short ones.
    Long,
}

/// The part of a group of events that readers see.
pub(super) struct Change<P: Party> {
    pub(super) events: Vec<P::Event>,
    /// Set if they changed.
    pub(super) facts: Option<P::Facts>,
}

/// Copies of a party, independent of its type.
pub(crate) trait ReadCopies: Send + Sync {
    /// An up-to-date copy for the time of the read. Blocks while all copies of its kind are in use.
    fn take(&self, kind: ReadKind) -> Box<dyn UpToDate + '_>;
}

pub(crate) trait UpToDate {
    fn queries(&mut self) -> &mut dyn Queries;
}

/// Reads the copies of a party, at the time of its clock.
#[derive(Clone)]
pub(crate) struct PartyReader {
    pub(super) copies: Arc<dyn ReadCopies>,
    pub(super) clock: Clock,
}

impl PartyReader {
    /// Blocks while all copies of that kind are in use, and while the reader runs.
    pub(crate) fn read<T>(&self, kind: ReadKind, reader: impl FnOnce(&mut dyn Queries, Moment) -> T) -> T {
        let mut copy = self.copies.take(kind);
        reader(copy.queries(), self.clock.now())
    }
}

pub(super) struct Copies<P: Party> {
    log: Mutex<Log<P>>,
    /// Signals that the log has grown or was closed.
    grown: Condvar,
    short: Pool<P>,
    long: Pool<P>,
}

/// Changes that some copy lacks.
struct Log<P: Party> {
    /// Number of the first change in the log.
    first: u64,
    changes: VecDeque<Arc<Change<P>>>,
    /// For each copy: number of the first change that it lacks.
    next: [u64; COPIES],
    closed: bool,
}

/// Copies for one kind of reads.
struct Pool<P: Party> {
    copies: Vec<Mutex<Copy<P>>>,
    /// Indexes of the copies not in use.
    free: Mutex<Vec<usize>>,
    returned: Condvar,
}

struct Copy<P: Party> {
    /// Index in [`Log::next`].
    number: usize,
    party: P,
}

/// A copy in use; returned when dropped.
struct Taken<'a, P: Party> {
    pool: &'a Pool<P>,
    place: usize,
    copy: MutexGuard<'a, Copy<P>>,
}

impl<P: Party> Copies<P> {
    pub(super) fn new(party: &P) -> Copies<P> {
        let copy = |number| Mutex::new(Copy { number, party: party.read_copy() });
        let pool = |numbers: Range<usize>| Pool {
            free: Mutex::new((0..numbers.len()).collect()),
            copies: numbers.map(copy).collect(),
            returned: Condvar::new(),
        };
        let log = Log { first: 0, changes: VecDeque::new(), next: [0; COPIES], closed: false };
        Copies { log: Mutex::new(log), grown: Condvar::new(), short: pool(0..1), long: pool(1..COPIES) }
    }

    /// Makes a durable group visible to later readers.
    pub(super) fn append(&self, change: Change<P>) {
        if change.events.is_empty() && change.facts.is_none() {
            return;
        }
        let mut log = lock(&self.log);
        log.changes.push_back(Arc::new(change));
        if log.changes.len().is_multiple_of(CATCH_UP_AFTER) {
            self.grown.notify_one();
        }
    }

    /// Ends [`Copies::keep_up`]. Readers are still served.
    pub(super) fn close(&self) {
        lock(&self.log).closed = true;
        self.grown.notify_one();
    }

    /// Updates idle copies periodically until closed.
    pub(super) fn keep_up(&self) {
        loop {
            let log = lock(&self.log);
            let waited = self.grown.wait_timeout(log, CATCH_UP_EVERY).unwrap_or_else(PoisonError::into_inner);
            if waited.0.closed {
                return;
            }
            drop(waited);
            for pool in [&self.short, &self.long] {
                for place in 0..pool.copies.len() {
                    pool.take_idle(place).into_iter().for_each(|mut taken| self.bring_up_to_date(&mut taken));
                }
            }
        }
    }

    fn bring_up_to_date(&self, Taken { copy, .. }: &mut Taken<'_, P>) {
        // The log is locked only to fetch the changes: applying them must not delay the release thread.
        let pending = lock(&self.log).take_pending(copy.number);
        for change in &pending {
            change.events.iter().for_each(|event| copy.party.apply(event));
        }
        // Only the newest facts matter.
        if let Some(facts) = pending.iter().rev().find_map(|change| change.facts.clone()) {
            copy.party.set_facts(facts);
        }
    }
}

impl<P: Party> ReadCopies for Copies<P> {
    fn take(&self, kind: ReadKind) -> Box<dyn UpToDate + '_> {
        let pool = match kind {
            ReadKind::Short => &self.short,
            ReadKind::Long => &self.long,
        };
        let mut taken = pool.take();
        self.bring_up_to_date(&mut taken);
        Box::new(taken)
    }
}

impl<P: Party> UpToDate for Taken<'_, P> {
    fn queries(&mut self) -> &mut dyn Queries {
        &mut self.copy.party
    }
}

impl<P: Party> Log<P> {
    /// Changes that a copy lacks; its holder must apply them first. Drops changes that all copies have.
    fn take_pending(&mut self, copy: usize) -> Vec<Arc<Change<P>>> {
        let index = |number: u64, first: u64| usize::try_from(number - first).unwrap_or(usize::MAX);
        let from = index(self.next[copy], self.first);
        let pending: Vec<_> = self.changes.range(from..).cloned().collect();
        self.next[copy] = self.first + self.changes.len() as u64;
        let oldest = self.next.iter().copied().min().unwrap_or(self.first);
        // Everything dropped here is also in `pending`, because only the slowest copy moves the oldest number. So
        // it is freed after the lock is released.
        drop(self.changes.drain(..index(oldest, self.first)));
        self.first = oldest;
        pending
    }
}

impl<P: Party> Pool<P> {
    fn take(&self) -> Taken<'_, P> {
        let mut free = lock(&self.free);
        loop {
            // The copy used last has the least to apply.
            if let Some(place) = free.pop() {
                drop(free);
                return self.taken(place);
            }
            free = self.returned.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// A specific copy, if it is not in use.
    fn take_idle(&self, place: usize) -> Option<Taken<'_, P>> {
        let mut free = lock(&self.free);
        let at = free.iter().position(|one| *one == place)?;
        free.remove(at);
        drop(free);
        Some(self.taken(place))
    }

    fn taken(&self, place: usize) -> Taken<'_, P> {
        Taken { pool: self, place, copy: lock(&self.copies[place]) }
    }
}

impl<P: Party> Drop for Taken<'_, P> {
    fn drop(&mut self) {
        lock(&self.pool.free).push(self.place);
        self.pool.returned.notify_one();
    }
}

/// Locks even after a thread panicked with the lock: the data is consistent between any two statements.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Toy, ToyEvent};
    use super::*;

    fn books(copies: &Copies<Toy>) -> Vec<Toy> {
        let pools = [&copies.short, &copies.long];
        let all = pools
            .into_iter()
            .flat_map(|pool| (0..pool.copies.len()).filter_map(|place| pool.take_idle(place)));
        let mut all: Vec<Taken<'_, Toy>> = all.collect();
        all.iter_mut().for_each(|taken| copies.bring_up_to_date(taken));
        all.iter().map(|taken| taken.copy.party.clone()).collect()
    }

    fn change(id: u128) -> Change<Toy> {
        let facts = id.is_multiple_of(3).then_some(id as u64);
        Change { events: vec![ToyEvent::Noted(id), ToyEvent::Noted(id + 1)], facts }
    }

    #[test]
    fn copies_equal_the_party_in_whatever_order_they_are_read() {
        let copies = Copies::new(&Toy::default());
        let mut party = Toy::default();
        // Every pattern of reads between six changes.
        for pattern in 0..64_u128 {
            for at in 0..6 {
                let id = 100 * pattern + 2 * at;
                let Change { events, facts } = change(id);
                events.iter().for_each(|event| party.apply(event));
                facts.into_iter().for_each(|facts| party.set_facts(facts));
                copies.append(change(id));
                if pattern >> at & 1 == 1 {
                    let kind = if at % 2 == 0 { ReadKind::Short } else { ReadKind::Long };
                    let size = copies.take(kind).queries().counts();
                    assert_eq!(size, bookahead_party::Queries::counts(&party), "pattern {pattern}");
                }
            }
        }
        for copy in books(&copies) {
            assert_eq!((&copy.book, copy.looks), (&party.book, party.looks));
        }
    }

    #[test]
    fn the_log_keeps_what_some_copy_lacks_and_no_more() {
        let copies = Copies::new(&Toy::default());
        let in_use = copies.take(ReadKind::Long);
        (0..10).for_each(|id| copies.append(change(id)));
        books(&copies);
        assert_eq!(lock(&copies.log).changes.len(), 10, "one copy is in use");
        drop(in_use);
        books(&copies);
        assert_eq!(lock(&copies.log).changes.len(), 0);
        copies.append(Change { events: Vec::new(), facts: None });
        assert_eq!(lock(&copies.log).changes.len(), 0, "nothing to show");
    }

    #[test]
    fn idle_copies_are_brought_up_to_date_without_readers() {
        let copies = Arc::new(Copies::new(&Toy::default()));
        let keeping_up = std::thread::spawn({
            let copies = copies.clone();
            move || copies.keep_up()
        });
        (0..CATCH_UP_AFTER as u128).for_each(|id| copies.append(change(id)));
        while !lock(&copies.log).changes.is_empty() {
            std::thread::yield_now();
        }
        copies.close();
        keeping_up.join().unwrap();
    }
}
