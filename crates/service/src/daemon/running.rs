//! A running service and its end: by [`Running::stop`], or by itself if it cannot write its journal. Also errors at
//! the start.

use super::reload::Reload;
use crate::config::Wrong;
use crate::http::Stopper;
use crate::http::listener::Listen;
use crate::journal::{Database, JournalError};
use crate::security::SecurityError;
use crate::thread::{PartyError, PartyHandle, PartyThread};
use bookahead_api as api;
use bookahead_client::ClientError;
use bookahead_lrms::LrmsError;
use bookahead_protocol::Name;
use bookahead_protocol::ledger::RulesError;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// A running service. Must be stopped; dropping it leaves its threads running until the process ends.
pub struct Running {
    role: api::Role,
    addresses: Vec<Listen>,
    url: String,
    party: PartyHandle,
    pub(super) reload: Reload,
    stopper: Stopper,
    serving: JoinHandle<()>,
    /// Further tasks; aborted at the stop.
    tasks: JoinSet<()>,
    /// Result of its thread. `None` once it was received.
    ended: Option<oneshot::Receiver<Result<(), PartyError>>>,
}

impl Running {
    #[allow(clippy::too_many_arguments, reason = "they are its fields")]
    pub(super) fn new(
        thread: PartyThread,
        role: api::Role,
        addresses: Vec<Listen>,
        url: String,
        reload: Reload,
        stopper: Stopper,
        serving: JoinHandle<()>,
        tasks: JoinSet<()>,
    ) -> Running {
        let party = thread.handle().clone();
        let (tell, ended) = oneshot::channel();
        // A thread and not a blocking task: the runtime would wait for it at shutdown.
        std::thread::spawn(move || drop(tell.send(thread.wait())));
        Running { role, addresses, url, party, reload, stopper, serving, tasks, ended: Some(ended) }
    }

    /// Name of the site or broker.
    pub fn name(&self) -> &Name {
        self.party.name()
    }

    /// Whether it is a site or a broker.
    pub fn role(&self) -> api::Role {
        self.role
    }

    /// Where it listens, with the actual ports.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// URL for other services.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Handle of the party.
    pub fn handle(&self) -> &PartyHandle {
        &self.party
    }

    /// Waits until the service ends by itself because of a failure, and returns the cause. It answers no calls
    /// then, and must be stopped.
    pub async fn failed(&mut self) -> DaemonError {
        let Some(ended) = &mut self.ended else { return std::future::pending().await };
        let how = ended.await;
        self.ended = None;
        match how {
            Ok(Err(why)) => why.into(),
            Ok(Ok(())) | Err(_) => DaemonError::Task,
        }
    }

    /// Stops the service: accepts nothing new, answers requests in progress, writes all decisions, and closes the
    /// journal.
    pub async fn stop(mut self) -> Result<(), DaemonError> {
        // First, so that no broker gets a heartbeat of a service that no longer accepts calls.
        self.tasks.shutdown().await;
        self.stopper.stop();
        let served = self.serving.await;
        let Some(ended) = self.ended else { return Ok(()) };
        // After the requests in progress have their answers: a closed party would refuse them.
        self.party.close();
        let how = ended.await.map_err(|_| DaemonError::Task)?;
        served.map_err(|_| DaemonError::Task)?;
        Ok(how?)
    }
}

/// Why a service could not start or continue.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum DaemonError {
    #[error("{}: {}", .0.field(), .0)]
    Wrong(#[from] Wrong),
    #[error(transparent)]
    Rules(#[from] RulesError),
    #[error(transparent)]
    Security(#[from] SecurityError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("cannot listen on {at}: {cause}; {}", listening_hint(at, cause))]
    Listen { at: Listen, cause: io::Error },
    #[error("{0}")]
    JobAccount(String),
    #[error("cannot use {} as state folder: {cause}; check the folder and its permissions, or set another state", path.display())]
    State { path: PathBuf, cause: io::Error },
    #[error("cannot create the identity of a broker: the system provides no random numbers")]
    NoRandomness,
    #[error(
        "{} is missing; copy it from the state folder of another process of this service, with mode 600",
        path.display()
    )]
    KeyMissing { path: PathBuf },
    #[error(
        "{} is not the key of the other processes of this service; copy it from the state folder of the active one. If the \
         key was replaced on purpose on all machines, first run in the database: \
         DELETE FROM bookahead.file WHERE owner = '{owner}' AND name = '{name}'",
        path.display()
    )]
    OtherKey { path: PathBuf, owner: String, name: String },
    #[error(transparent)]
    Lrms(#[from] LrmsError),
    #[error(transparent)]
    Party(#[from] PartyError),
    #[error("cannot change while the service runs: {0}; restart the service, or undo this change and reload")]
    Fixed(String),
    #[error("cannot compare the configurations: {0}; write all paths in UTF-8")]
    Unwritable(String),
    #[error("a task ended unexpectedly; this is a defect")]
    Task,
}

fn listening_hint(at: &Listen, cause: &io::Error) -> &'static str {
    let is_socket = at.tcp().is_none();
    match cause.kind() {
        io::ErrorKind::AddrInUse if is_socket => {
            "another service uses it; stop that one, or set another path in listen"
        }
        io::ErrorKind::AddrInUse => "stop the program that listens there, or set another port in listen",
        io::ErrorKind::InvalidInput if is_socket => {
            "paths of Unix sockets have at most 107 bytes; set a shorter one in listen"
        }
        _ if is_socket => "check the folder and its permissions, or set another path in listen",
        io::ErrorKind::PermissionDenied => "ports below 1024 need root; set another port in listen",
        _ => "set an address of this machine in listen",
    }
}

fn is_database(path: &Path) -> bool {
    path.to_str().is_some_and(Database::is_url)
}

impl DaemonError {
    /// Further advice, if the message has none.
    pub fn hint(&self) -> Option<&'static str> {
        let DaemonError::Party(PartyError::Journal(why)) = self else { return None };
        match why {
            JournalError::Storage { path, .. } => Some(match (is_database(path), why.is_full_disk()) {
                (false, true) => "free space on the disk and start again; acknowledged calls are safe",
                (false, false) => "check the disk and start again; acknowledged calls are safe",
                (true, true) => {
                    "free space on the disk of the database server and start again; acknowledged calls are safe"
                }
                (true, false) => {
                    "check the database server, the network to it, and the URL in state, and start again; \
                     acknowledged calls are safe"
                }
            }),
            JournalError::Poisoned { .. } => Some("acknowledged calls are safe"),
            JournalError::LeaseLost { .. } => Some(
                "acknowledged calls are safe; another process takes over, and started again, this one stands by",
            ),
            JournalError::Damaged { .. } => Some("to list all damage: bookahead journal check FILE"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_a_database_do_not_advise_to_check_the_disk_here() {
        let hint = |path: &str, full| {
            let (path, doing, why) = (path.into(), "writing", "no".to_owned());
            let failed = JournalError::Storage { path, doing, why, full };
            DaemonError::from(PartyError::from(failed)).hint().unwrap()
        };
        for full in [true, false] {
            let text = hint("postgres://north@db.example.org/bookahead", full);
            assert!(text.contains("database server"), "{text}");
            assert!(hint("/var/lib/bookahead/journal.db", full).contains("disk and start again"));
        }
        assert!(!hint("postgresql://north@db.example.org/bookahead", false).contains("disk"));
    }
}
