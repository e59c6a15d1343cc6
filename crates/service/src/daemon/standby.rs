//! Waits until this process may be active for its party. A journal in a file makes it active at once; with one in
//! PostgreSQL it stands by while another process holds the lease: it listens, refuses calls, and says who is active.

use super::DaemonError;
use super::front::Front;
use crate::clock::Clock;
use crate::config::Common;
use crate::http::{Epochs, standby};
use crate::journal::{Active, CallerEpochs, Claim, JournalError, Kind, Lease, Options, Store};
use crate::security::UserLists;
use crate::thread::PartyError;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::spawn_blocking;

/// Attempts to take over in the length of a lease.
const ATTEMPTS: u32 = 10;

/// Bounds of the pause between two attempts: often enough to add little to the time of a take-over, seldom enough to be
/// no load for the database.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// File in the state folder with the last acknowledged record of a journal in PostgreSQL.
const MARK: &str = "journal.mark";

/// The journal of a party, and the right to write it.
pub(super) struct Seat {
    pub(super) store: Store,
    pub(super) lease: Lease,
}

impl Common<'_> {
    /// `longest_effect` is the longest timeout of a batch command or a call to a peer.
    pub(super) fn seat(&self, base: &Path, url: &str, longest_effect: Duration) -> Result<Seat, DaemonError> {
        let store = self.store(base)?;
        let lease = match &store {
            Store::File(_) => Lease::for_ever(),
            Store::Postgres(_) => Lease::new(self.lease_terms(longest_effect), url),
        };
        Ok(Seat { store, lease })
    }
}

impl Seat {
    /// Waits until this process may open the journal. Serves the routes of a stand-by meanwhile.
    pub(super) async fn take(
        &self,
        kind: Kind,
        front: &mut Front,
        clock: Clock,
        state: &Path,
    ) -> Result<Options, DaemonError> {
        let lease = self.lease.clone();
        let Store::Postgres(database) = &self.store else {
            return Ok(Options { lease, ..Options::default() });
        };
        let mark = state.join(MARK);
        let pause = (lease.terms().length / ATTEMPTS).clamp(PAUSES[0], PAUSES[1]);
        let mut standing = Standing::Starting;
        loop {
            let (database, kind, asking) = (database.clone(), kind.clone(), lease.clone());
            let local = mark.clone();
            let asked = spawn_blocking(move || Claim::take(&database, &kind, &asking, Some(&local))).await;
            let seen = match asked.map_err(|_| DaemonError::Task)? {
                Ok(Ok(claim)) => {
                    let (event, epoch, party) = ("active", lease.epoch(), &front.about.name);
                    tracing::info!(event, %party, epoch, "this process is active");
                    return Ok(Options { lease, claim: Some(claim), mark: Some(mark), ..Options::default() });
                }
                Ok(Err(active)) => Standing::Behind(active),
                // A database that restarts is no reason to give up. At the start it may be a mistake in its URL.
                Err(JournalError::Storage { why, .. }) if standing != Standing::Starting => {
                    Standing::Cut(why)
                }
                Err(why) => return Err(PartyError::from(why).into()),
            };
            if seen != standing {
                seen.log(&front.about.name);
                front.serve(standby::router(&front.about(), clock, seen.active()));
                standing = seen;
            }
            tokio::time::sleep(pause).await;
        }
    }
}

impl Seat {
    /// The processes of callers, which outlive a restart with the journal.
    pub(super) async fn epochs(
        &self,
        what: &'static str,
        owner: &str,
        state: &Path,
    ) -> Result<Arc<Epochs>, DaemonError> {
        let epochs = match &self.store {
            Store::File(_) => {
                let failed = |cause| DaemonError::State { path: state.to_owned(), cause };
                Epochs::in_folder(state).map_err(failed)?
            }
            Store::Postgres(database) => {
                let place = CallerEpochs { database: database.clone(), what, owner: owner.to_owned() };
                let read = spawn_blocking(move || Epochs::in_database(place)).await;
                read.map_err(|_| DaemonError::Task)?.map_err(PartyError::from)?
            }
        };
        Ok(Arc::new(epochs))
    }
}

impl Seat {
    /// Sign-outs of users and addresses of their calendars, which outlive a restart with the journal.
    pub(super) async fn user_lists(
        &self,
        what: &'static str,
        owner: &str,
        state: &Path,
    ) -> Result<UserLists, DaemonError> {
        let (store, lease) = (self.store.clone(), self.lease.clone());
        let (owner, folder) = (owner.to_owned(), state.to_owned());
        let open = move || UserLists::open((what, &owner), &folder, (&store, &lease));
        let opened = spawn_blocking(open).await.map_err(|_| DaemonError::Task)?;
        opened.map_err(|cause| DaemonError::State { path: state.to_owned(), cause })
    }
}

/// What a stand-by knows.
#[derive(PartialEq, Eq)]
enum Standing {
    Starting,
    Behind(Active),
    Cut(String),
}

impl Standing {
    fn active(&self) -> Option<&Active> {
        if let Standing::Behind(active) = self { Some(active) } else { None }
    }

    fn log(&self, party: &bookahead_protocol::Name) {
        match self {
            Standing::Starting => {}
            Standing::Behind(Active { holder, .. }) => {
                tracing::info!(event = "standing_by", %party, holder, "standing by; another process is active");
            }
            Standing::Cut(why) => {
                tracing::warn!(event = "database_away", %party, "standing by; the database does not answer: {why}");
            }
        }
    }
}
