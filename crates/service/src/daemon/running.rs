//! A party at work, and how it comes to its end: by [`Running::stop`], or by itself where it cannot write its journal.

use super::DaemonError;
use crate::http::Stopper;
use crate::security::Gate;
use crate::thread::{PartyError, PartyHandle, PartyThread};
use bookahead_api::Role;
use bookahead_protocol::Name;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};

/// A party at work. It must be stopped; whoever only drops it leaves its threads to the end of the process.
pub struct Running {
    role: Role,
    address: SocketAddr,
    url: String,
    party: PartyHandle,
    gate: Arc<Gate>,
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
        role: Role,
        address: SocketAddr,
        url: String,
        gate: Arc<Gate>,
        stopper: Stopper,
        serving: JoinHandle<()>,
        tasks: JoinSet<()>,
    ) -> Running {
        let party = thread.handle().clone();
        let (tell, ended) = oneshot::channel();
        // A thread and no task: nobody should have to wait for it who only wants to end.
        std::thread::spawn(move || drop(tell.send(thread.wait())));
        Running { role, address, url, party, gate, stopper, serving, tasks, ended: Some(ended) }
    }

    /// What it is called.
    pub fn name(&self) -> &Name {
        self.party.name()
    }

    /// What it is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Where it listens, with the port that it got.
    pub fn address(&self) -> SocketAddr {
        self.address
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
        self.gate.reload();
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
