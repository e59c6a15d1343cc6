//! Why a party could not start or go on: what, and what to do about it.

use crate::config::Wrong;
use crate::journal::JournalError;
use crate::security::SecurityError;
use crate::thread::PartyError;
use bookahead_client::ClientError;
use bookahead_lrms::LrmsError;
use bookahead_protocol::ledger::RulesError;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use thiserror::Error;

/// Why a party could not start or go on.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The configuration makes no sense.
    #[error("{}: {}", .0.field(), .0)]
    Wrong(#[from] Wrong),
    /// The resources make no sense together.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// Keys, certificates, or where it may listen.
    #[error(transparent)]
    Security(#[from] SecurityError),
    /// Others cannot be called as it is configured.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It cannot listen there.
    #[error("cannot listen on {address}: {cause}; {}", listening_hint(cause))]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        cause: io::Error,
    },
    /// The folder of its state.
    #[error("cannot use {} for its state: {cause}; check the folder and its permissions, or give another state", path.display())]
    State {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The system gives no random numbers.
    #[error("the system gives no random numbers, which the number of a broker is made from")]
    NoRandomness,
    /// The batch system.
    #[error(transparent)]
    Lrms(#[from] LrmsError),
    /// The journal, or what is in it.
    #[error(transparent)]
    Party(#[from] PartyError),
    /// A defect.
    #[error("a task ended unexpectedly; this is a defect")]
    Task,
}

fn listening_hint(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::AddrInUse => "end whoever listens there, or give another port in listen",
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
