//! The right to act for a party, for a limited time. A journal in PostgreSQL gives it to one process after the other;
//! a journal in a file gives it for ever, because the file is locked. The database's clock decides when another
//! process may take over. The holder counts from before it asked for the renewal, on a clock that also runs while the
//! process or the machine sleeps, so its own deadline is never later than that of the database.

use crate::time_of_day;
use bookahead_protocol::{Millis, Moment};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Renewals in the time after which no command may start any more: two may fail.
const RENEWALS: u32 = 3;

/// The lease of a party. Clones share it.
#[derive(Debug, Clone)]
pub struct Lease(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    terms: LeaseTerms,
    /// Host and number of this process, and a random number, because process numbers are used again.
    holder: String,
    /// URL of this process for clients of a stand-by.
    address: String,
    /// Milliseconds of [`now`]; 0 if it is not held, `u64::MAX` if it does not end.
    deadline: AtomicU64,
    epoch: AtomicU64,
    /// The clock of the database when the lease was taken.
    database: Mutex<Option<DatabaseTime>>,
}

/// A reading of the clock of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseTime {
    /// What it showed.
    pub(crate) time: Moment,
    /// Time since the boot of this machine then.
    pub(crate) boot: Millis,
    /// Whether it is on another machine.
    pub(crate) is_elsewhere: bool,
}

/// How long a lease lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    /// How long a party works without a renewal.
    pub length: Duration,
    /// Longest timeout of a batch command or a call to a peer. None starts with less time left. Another process waits
    /// this time after the end of the lease.
    pub longest_effect: Duration,
}

impl Default for LeaseTerms {
    fn default() -> LeaseTerms {
        LeaseTerms { length: Duration::from_secs(10), longest_effect: Duration::ZERO }
    }
}

impl LeaseTerms {
    /// Time from a renewal to the end. Includes the longest effect, so that one can start until `length` has passed.
    pub(crate) fn total(&self) -> Duration {
        self.length + self.longest_effect
    }

    pub(crate) fn renew_every(&self) -> Duration {
        self.length / RENEWALS
    }
}

impl Default for Lease {
    fn default() -> Lease {
        Lease::new(LeaseTerms::default(), "")
    }
}

impl Lease {
    /// A lease that is not held yet. `address` is the URL of this process.
    pub fn new(terms: LeaseTerms, address: &str) -> Lease {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let drawn = RandomState::new().build_hasher().finish();
        let holder = format!("{host}, process {}, {drawn:016x}", std::process::id());
        let (deadline, epoch) = (AtomicU64::new(0), AtomicU64::new(0));
        let database = Mutex::default();
        Lease(Arc::new(Shared { terms, holder, address: address.to_owned(), deadline, epoch, database }))
    }

    /// A lease without end, of a journal that only this process can open.
    pub fn for_ever() -> Lease {
        let lease = Lease::default();
        lease.0.deadline.store(u64::MAX, Ordering::Release);
        lease
    }

    /// Number of the process that holds it: each one that takes over has a higher number. 0 for a lease without end.
    pub fn epoch(&self) -> u64 {
        self.0.epoch.load(Ordering::Acquire)
    }

    /// Whether it has not ended. A process whose lease has ended must answer nothing.
    pub fn is_held(&self) -> bool {
        !self.left().is_zero()
    }

    /// Time until its end; zero if it is not held.
    pub fn left(&self) -> Duration {
        match self.0.deadline.load(Ordering::Acquire) {
            u64::MAX => Duration::MAX,
            deadline => Duration::from_millis(deadline.saturating_sub(now())),
        }
    }

    /// Whether a command or call with this timeout ends before the lease does.
    pub fn allows(&self, timeout: Duration) -> bool {
        self.left() > timeout
    }

    /// Longest timeout of a command or call of its holder.
    pub fn longest_effect(&self) -> Duration {
        self.0.terms.longest_effect
    }

    pub(crate) fn terms(&self) -> LeaseTerms {
        self.0.terms
    }

    pub(crate) fn holder(&self) -> &str {
        &self.0.holder
    }

    pub(crate) fn address(&self) -> &str {
        &self.0.address
    }

    /// `asked` is [`now`] before the request was sent.
    pub(crate) fn taken(&self, epoch: u64, asked: u64) {
        self.0.epoch.store(epoch, Ordering::Release);
        self.renewed(asked);
    }

    pub(crate) fn renewed(&self, asked: u64) {
        let length = u64::try_from(self.0.terms.total().as_millis()).unwrap_or(u64::MAX / 2);
        self.0.deadline.store(asked.saturating_add(length), Ordering::Release);
    }

    /// The clock of the database when the lease was taken.
    pub(crate) fn database_time(&self) -> Option<DatabaseTime> {
        *self.0.database.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note_database_time(&self, time: DatabaseTime) {
        *self.0.database.lock().unwrap_or_else(PoisonError::into_inner) = Some(time);
    }

    /// Ends it at once.
    pub(crate) fn end(&self) {
        self.0.deadline.store(0, Ordering::Release);
    }
}

/// Milliseconds since the machine was started, including the time that it slept.
pub(crate) fn now() -> u64 {
    u64::try_from(time_of_day::since_boot().0).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_counts_from_before_its_renewal_and_includes_the_longest_effect() {
        let terms = LeaseTerms { length: Duration::from_secs(10), longest_effect: Duration::from_secs(30) };
        let lease = Lease::new(terms, "");
        assert!(!lease.is_held() && !lease.allows(Duration::ZERO));
        lease.taken(7, now().saturating_sub(9_000));
        assert_eq!(lease.epoch(), 7);
        assert!(lease.allows(terms.longest_effect), "one second is left to start it");
        lease.renewed(now().saturating_sub(10_000));
        assert!(lease.is_held() && !lease.allows(terms.longest_effect));
        lease.renewed(now().saturating_sub(40_000));
        assert!(!lease.is_held());
    }

    #[test]
    fn a_journal_in_a_file_is_held_for_ever() {
        assert!(Lease::for_ever().allows(Duration::from_secs(86_400)));
    }
}
