//! The way to a party: calls go in by it and answers come out when they are durable. It can be cloned and shared, never
//! waits for room, and says so where there is none.

use super::watch::Watch;
use super::{Knock, Shared};
use crate::clock::Clock;
use crate::party::{Input, Reply, Sight};
use bookahead_protocol::{Moment, Name};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;

/// The way to a party.
#[derive(Clone)]
pub struct Door {
    pub(super) inbox: SyncSender<Knock>,
    pub(super) shared: Arc<Shared>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Closed {
    /// Too many wait already.
    #[error("too many calls wait already; ask again in a moment")]
    Full,
    /// The party has ended, or could not write down what it decided.
    #[error("it is shutting down, or could not write down what it decided; ask again when it is back")]
    Gone,
    /// It took too long. What was asked may still be done: repeat the call with the same key to learn.
    #[error("no answer in time; what was asked may still be done: repeat it with the same key to learn")]
    Late,
}

impl Door {
    /// Whose door it is.
    pub fn name(&self) -> &Name {
        &self.shared.name
    }

    /// The time behind it.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Those who watch.
    pub fn watch(&self) -> &Watch {
        &self.shared.watch
    }

    /// How long the head has worked since the start.
    pub fn busy(&self) -> Duration {
        Duration::from_micros(self.shared.busy.load(Ordering::Relaxed))
    }

    /// The number of the last event that is durable.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Whether there is still somebody behind it.
    pub fn is_open(&self) -> bool {
        !matches!(self.inbox.try_send(Knock::Wake), Err(TrySendError::Disconnected(_)))
    }

    /// Hands something in and waits for the answer, for so long.
    pub async fn ask<T>(
        &self,
        patience: Duration,
        input: impl FnOnce(Reply<T>) -> Input,
    ) -> Result<T, Closed> {
        let (reply, answer) = oneshot::channel();
        self.knock(Knock::Input(Box::new(input(reply))))?;
        wait(answer, patience).await
    }

    /// Hands something in that is not answered, as soon as there is room.
    pub(crate) async fn tell(&self, input: Input) {
        let mut knock = Knock::Input(Box::new(input));
        // Where the party has ended nobody needs to hear it.
        while let Err(TrySendError::Full(again)) = self.inbox.try_send(knock) {
            knock = again;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Looks at the party, once all that it shows is durable.
    pub async fn look<T: Send + 'static>(
        &self,
        patience: Duration,
        look: impl FnOnce(&mut dyn Sight, Moment) -> T + Send + 'static,
    ) -> Result<T, Closed> {
        let (reply, answer) = oneshot::channel();
        self.knock(Knock::Look(Box::new(move |sight, now| {
            let seen = look(sight, now);
            Box::new(move || drop(reply.send(seen)))
        })))?;
        wait(answer, patience).await
    }

    /// Lets the party end: what came in before is still answered.
    pub fn close(&self) {
        // Where it has ended already there is nothing to close.
        let _ = self.inbox.send(Knock::Close);
    }

    fn knock(&self, knock: Knock) -> Result<(), Closed> {
        self.inbox.try_send(knock).map_err(|error| match error {
            TrySendError::Full(_) => Closed::Full,
            TrySendError::Disconnected(_) => Closed::Gone,
        })
    }
}

async fn wait<T>(answer: oneshot::Receiver<T>, patience: Duration) -> Result<T, Closed> {
    match tokio::time::timeout(patience, answer).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(_)) => Err(Closed::Gone),
        Err(_) => Err(Closed::Late),
    }
}
