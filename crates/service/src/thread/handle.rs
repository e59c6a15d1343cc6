//! Handle of a party: accepts calls, and delivers replies when they are durable. Queries are answered by copies. It
//! can be cloned and shared, and never waits for room in the inbox: a full inbox is an error.

use super::copies::{PartyReader, ReadKind, lock};
use super::watch::Watch;
use super::{Message, OnReleased, Shared};
use crate::clock::Clock;
use crate::history::History;
use crate::journal::Lease;
use bookahead_party::{CallId, Heartbeat, Input, Origin, Queries, Reply};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::problem::Problem;
use bookahead_protocol::{Answer, Envelope, Moment, Name};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;

/// Calls that may wait in the inbox: about a second's worth. Further ones are refused.
const INBOX: usize = 4_096;

/// A party thread without a sign of life for this long is stuck; it gives five in this time.
const STUCK_AFTER: Duration = Duration::from_secs(5);

/// A journal that takes this long to write a group is stuck. Compaction of a large journal blocks writes for
/// seconds.
const JOURNAL_STUCK_AFTER: Duration = Duration::from_secs(30);

/// Handle of a party.
#[derive(Clone)]
pub struct PartyHandle {
    pub(super) inbox: Sender<Message>,
    pub(super) shared: Arc<Shared>,
    pub(super) reader: PartyReader,
}

/// Why there is no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NoReply {
    /// Too many calls are waiting.
    #[error("too many calls are waiting; try again in a moment")]
    Full,
    /// The party has ended, or could not write its journal.
    #[error("the service is shutting down, or could not write its journal; try again later")]
    Gone,
    /// Timeout. The call may still take effect.
    #[error(
        "no answer in time; the call may still take effect: repeat it with the same key to get its outcome"
    )]
    Late,
}

/// Whether a party makes progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// Its threads are working.
    Alive,
    /// Its thread or its journal has made no progress for too long.
    Stuck,
    /// It has ended.
    Ended,
}

impl PartyHandle {
    /// Name of the party.
    pub fn name(&self) -> &Name {
        &self.shared.name
    }

    /// Clock of the party.
    pub fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// The lease of the party. Without it nothing may be answered.
    pub fn lease(&self) -> &Lease {
        &self.shared.lease
    }

    /// Usage history. `None` if none is kept.
    pub fn history(&self) -> Option<&Arc<History>> {
        self.shared.history.as_ref()
    }

    /// Stream of notices.
    pub fn watch(&self) -> &Watch {
        &self.shared.watch
    }

    /// Busy time of the party thread since the start.
    pub fn busy(&self) -> Duration {
        Duration::from_micros(self.shared.busy.load(Ordering::Relaxed))
    }

    /// Number of the last durable event.
    pub fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    /// Whether the party makes progress. Never blocks.
    pub fn liveness(&self) -> Liveness {
        let shared = &self.shared;
        if shared.ended.load(Ordering::Acquire) {
            Liveness::Ended
        } else if shared.beat.age() > STUCK_AFTER || shared.writing.age() > JOURNAL_STUCK_AFTER {
            Liveness::Stuck
        } else {
            Liveness::Alive
        }
    }

    /// Makes a call and waits for its reply, at most `patience` long.
    pub async fn ask(
        &self,
        patience: Duration,
        input: impl FnOnce(CallId) -> Input,
    ) -> Result<Reply, NoReply> {
        if self.shared.closing.load(Ordering::Acquire) {
            return Err(NoReply::Gone);
        }
        // Registered before the call is sent: the reply may arrive at once.
        let waiting = self.shared.replies.expect();
        self.enqueue(input(waiting.call))?;
        waiting.reply(patience).await
    }

    /// [`PartyHandle::ask`] for a call about a reservation.
    pub async fn call(
        &self,
        patience: Duration,
        envelope: Envelope,
        origin: Origin,
    ) -> Result<Answer, NoReply> {
        match self.ask(patience, |call| Input::Call { call, envelope, origin }).await? {
            Reply::Answer(answer) => Ok(answer),
            other => Err(defect(&other)),
        }
    }

    /// [`PartyHandle::ask`] for a call about a job.
    pub(crate) async fn job_call(
        &self,
        patience: Duration,
        input: impl FnOnce(CallId) -> Input,
    ) -> Result<Result<Box<JobView>, Problem>, NoReply> {
        match self.ask(patience, input).await? {
            Reply::Job(outcome) => Ok(outcome),
            other => Err(defect(&other)),
        }
    }

    /// [`PartyHandle::ask`] for the heartbeat of a peer; with the round-trip time, if the peer was queried.
    pub async fn register(
        &self,
        patience: Duration,
        heartbeat: Heartbeat,
        round_trip: Option<u64>,
    ) -> Result<Result<(), Problem>, NoReply> {
        let heartbeat = Box::new(heartbeat);
        match self.ask(patience, |call| Input::Heard { call: Some(call), heartbeat, round_trip }).await? {
            Reply::Registered(outcome) => Ok(outcome),
            other => Err(defect(&other)),
        }
    }

    /// Sends an input without a reply, such as a report of the batch system. Accepted regardless of the queue
    /// length; the senders bound their number.
    pub fn tell(&self, input: Input) {
        // If the party has ended, the input does not matter.
        let _ = self.inbox.send(Message::Input(Box::new(input)));
    }

    /// Sends the answer of a peer. `on_released` is called when all calls that the party decided on before it saw
    /// the answer have left. Until then it may still repeat the answered call.
    pub(crate) fn tell_answer(&self, answer: Input, on_released: OnReleased) {
        // If the party has ended, the answer does not matter.
        let _ = self.inbox.send(Message::Answer(Box::new(answer), on_released));
    }

    /// Reads a copy of the party. Blocks while all copies of that kind are in use, and while the reader runs.
    pub fn read<T>(&self, kind: ReadKind, reader: impl FnOnce(&mut dyn Queries, Moment) -> T) -> T {
        self.reader.read(kind, reader)
    }

    /// The same for a long read, on a blocking thread; waits at most `patience` long.
    pub(crate) async fn read_long<T: Send + 'static>(
        &self,
        patience: Duration,
        reader: impl FnOnce(&mut dyn Queries, Moment) -> T + Send + 'static,
    ) -> Result<T, NoReply> {
        let handle = self.clone();
        let reading = async move {
            // The permit is acquired before a thread: waiting reads must not occupy the blocking threads.
            let turn = handle.shared.long_reads.clone().acquire_owned().await.map_err(|_| NoReply::Gone)?;
            let read = move || {
                let seen = handle.read(ReadKind::Long, reader);
                drop(turn);
                seen
            };
            tokio::task::spawn_blocking(read).await.map_err(|_| NoReply::Gone)
        };
        tokio::time::timeout(patience, reading).await.unwrap_or(Err(NoReply::Late))
    }

    /// Lets the party end: earlier calls are still answered, and no more are accepted.
    pub fn close(&self) {
        self.shared.closing.store(true, Ordering::Release);
        // If it has ended already, there is nothing to close.
        let _ = self.inbox.send(Message::Close);
    }

    fn enqueue(&self, input: Input) -> Result<(), NoReply> {
        let queued = &self.shared.queued;
        // Added first and taken back: two callers must not both take the last place.
        if queued.fetch_add(1, Ordering::AcqRel) >= INBOX {
            queued.fetch_sub(1, Ordering::AcqRel);
            return Err(NoReply::Full);
        }
        self.inbox.send(Message::Call(Box::new(input))).map_err(|_| NoReply::Gone)
    }
}

fn defect(reply: &Reply) -> NoReply {
    tracing::error!(
        event = "wrong_reply",
        "call answered with a wrong kind of reply; this is a defect: {reply:?}"
    );
    NoReply::Gone
}

#[derive(Default)]
pub(super) struct Replies {
    last: AtomicU64,
    waiting: Arc<Mutex<BTreeMap<CallId, oneshot::Sender<Reply>>>>,
}

/// A waiting caller. Its reply is discarded once it stops waiting.
struct Waiting {
    call: CallId,
    receiver: oneshot::Receiver<Reply>,
    all: Arc<Mutex<BTreeMap<CallId, oneshot::Sender<Reply>>>>,
}

impl Replies {
    fn expect(&self) -> Waiting {
        let call = CallId(self.last.fetch_add(1, Ordering::Relaxed) + 1);
        let (sender, receiver) = oneshot::channel();
        lock(&self.waiting).insert(call, sender);
        Waiting { call, receiver, all: self.waiting.clone() }
    }

    /// Sends a reply, if its caller still waits.
    pub(super) fn send(&self, call: CallId, reply: Reply) {
        let sender = lock(&self.waiting).remove(&call);
        if let Some(sender) = sender {
            let _ = sender.send(reply);
        }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        lock(&self.waiting).is_empty()
    }

    pub(super) fn end(&self) {
        lock(&self.waiting).clear();
    }
}

impl Waiting {
    async fn reply(mut self, patience: Duration) -> Result<Reply, NoReply> {
        match tokio::time::timeout(patience, &mut self.receiver).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(NoReply::Gone),
            Err(_) => Err(NoReply::Late),
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.all).remove(&self.call);
    }
}
