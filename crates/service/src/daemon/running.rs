//! A party at work, and how it comes to its end: by [`Running::stop`], or by itself where it cannot write its journal; why
//! one could not start, and what to do about it; and shortening the journal of one that does not run.

use super::JOURNAL;
use super::broker::broker_value;
use super::front::nothing_said;
use crate::config::{BrokerConfig, SiteConfig, Wrong};
use crate::http::Stopper;
use crate::http::listener::Listen;
use crate::journal::JournalError;
use crate::security::{Authenticator, SecurityError};
use crate::thread::{PartyError, PartyHandle, PartyOptions, PartyThread};
use bookahead_api as api;
use bookahead_client::ClientError;
use bookahead_lrms::LrmsError;
use bookahead_party::Role;
use bookahead_party::site::{Site, SiteOptions};
use bookahead_protocol::Name;
use bookahead_protocol::ledger::RulesError;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// A party at work. It must be stopped; whoever only drops it leaves its threads to the end of the process.
pub struct Running {
    role: api::Role,
    addresses: Vec<Listen>,
    url: String,
    party: PartyHandle,
    authenticator: Arc<Authenticator>,
    stopper: Stopper,
    serving: JoinHandle<()>,
    /// What else it does; ended with it.
    tasks: JoinSet<()>,
    /// How its thread ended. Gone once that is known.
    ended: Option<oneshot::Receiver<Result<(), PartyError>>>,
}

impl Running {
    #[allow(clippy::too_many_arguments, reason = "they are its fields")]
    pub(super) fn new(
        thread: PartyThread,
        role: api::Role,
        addresses: Vec<Listen>,
        url: String,
        authenticator: Arc<Authenticator>,
        stopper: Stopper,
        serving: JoinHandle<()>,
        tasks: JoinSet<()>,
    ) -> Running {
        let party = thread.handle().clone();
        let (tell, ended) = oneshot::channel();
        // A thread and no task: nobody should have to wait for it who only wants to end.
        std::thread::spawn(move || drop(tell.send(thread.wait())));
        Running { role, addresses, url, party, authenticator, stopper, serving, tasks, ended: Some(ended) }
    }

    /// What it is called.
    pub fn name(&self) -> &Name {
        self.party.name()
    }

    /// What it is.
    pub fn role(&self) -> api::Role {
        self.role
    }

    /// Where it listens, with the ports that it got.
    pub fn addresses(&self) -> &[Listen] {
        &self.addresses
    }

    /// Where others reach it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The way to the party.
    pub fn handle(&self) -> &PartyHandle {
        &self.party
    }

    /// Reads the keys of tokens anew.
    pub fn reload(&self) {
        self.authenticator.reload();
    }

    /// Waits until it ends by itself, which it does only where it cannot go on, and says why. Then it answers nobody any
    /// more, and is to be stopped.
    pub async fn failed(&mut self) -> DaemonError {
        let Some(ended) = &mut self.ended else { return std::future::pending().await };
        let how = ended.await;
        self.ended = None;
        match how {
            Ok(Err(why)) => why.into(),
            Ok(Ok(())) | Err(_) => DaemonError::Task,
        }
    }

    /// Ends it: nothing new is accepted, requests under way get their answers, what was decided is written, and the journal
    /// is closed.
    pub async fn stop(mut self) -> Result<(), DaemonError> {
        self.tasks.shutdown().await;
        self.stopper.stop();
        let served = self.serving.await;
        let Some(ended) = self.ended else { return Ok(()) };
        self.party.close();
        let how = ended.await.map_err(|_| DaemonError::Task)?;
        served.map_err(|_| DaemonError::Task)?;
        Ok(how?)
    }
}

/// Why a party could not start or go on.
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
    #[error("cannot use {} for its state: {cause}; check the folder and its permissions, or give another state", path.display())]
    State { path: PathBuf, cause: io::Error },
    #[error("the system gives no random numbers, which the number of a broker is made from")]
    NoRandomness,
    #[error(transparent)]
    Lrms(#[from] LrmsError),
    #[error(transparent)]
    Party(#[from] PartyError),
    #[error("a task ended unexpectedly; this is a defect")]
    Task,
}

fn listening_hint(at: &Listen, cause: &io::Error) -> &'static str {
    let is_socket = at.tcp().is_none();
    match cause.kind() {
        io::ErrorKind::AddrInUse if is_socket => {
            "another service runs there; end it, or give another path in listen"
        }
        io::ErrorKind::AddrInUse => "end whoever listens there, or give another port in listen",
        io::ErrorKind::InvalidInput if is_socket => {
            "paths of sockets have at most 107 bytes; give a shorter one in listen"
        }
        _ if is_socket => "check the folder and its permissions, or give another path in listen",
        io::ErrorKind::PermissionDenied => "ports below 1024 are for the superuser; give another in listen",
        _ => "give an address of this machine in listen",
    }
}

impl DaemonError {
    /// What can be done about it, where the error does not say.
    pub fn hint(&self) -> Option<&'static str> {
        let DaemonError::Party(PartyError::Journal(why)) = self else { return None };
        match why {
            JournalError::Storage { .. } if why.is_full_disk() => {
                Some("make room on the disk and start again; what was answered is safe")
            }
            JournalError::Storage { .. } | JournalError::Poisoned { .. } => {
                Some("look after the disk and start again; what was answered is safe")
            }
            JournalError::Damaged { .. } => Some("the check is: bookahead journal check FILE"),
            _ => None,
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The journal.
    pub journal: PathBuf,
    /// A snapshot stands for all records up to this one.
    pub up_to: u64,
    /// So many records were dropped.
    pub dropped: u64,
}

/// Shortens the journal of a site. Fails where the site runs.
pub fn compact_site(config: &SiteConfig, base: &Path) -> Result<Compacted, DaemonError> {
    config.check()?;
    let journal = existing(config.state(base).join(JOURNAL))?;
    let about = nothing_said(&config.name, Role::Site);
    let site = Site::new(config.rules()?, about, SiteOptions::default())?;
    let options = PartyOptions {
        outbox: config.notify.outbox(&config.name, base, &config.state(base))?,
        ..PartyOptions::new(config.name.as_str().into(), journal.clone(), config.clock.clock())
    };
    let (up_to, dropped) = options.compact(site)?;
    Ok(Compacted { journal, up_to, dropped })
}

/// Shortens the journal of a broker. Fails where the broker runs.
pub fn compact_broker(config: &BrokerConfig, base: &Path) -> Result<Compacted, DaemonError> {
    config.check()?;
    let journal = existing(config.state(base).join(JOURNAL))?;
    let about = nothing_said(&config.name, Role::Broker);
    // The number makes identities, and none is made here.
    let broker = broker_value(config, about, 0, "".into());
    let options = PartyOptions {
        outbox: config.notify.outbox(&config.name, base, &config.state(base))?,
        ..PartyOptions::new(config.name.as_str().into(), journal.clone(), config.clock.clock())
    };
    let (up_to, dropped) = options.compact(broker)?;
    Ok(Compacted { journal, up_to, dropped })
}

/// A journal that is there: opening one makes it.
fn existing(path: PathBuf) -> Result<PathBuf, DaemonError> {
    if path.exists() {
        return Ok(path);
    }
    Err(PartyError::from(JournalError::Missing { path }).into())
}
