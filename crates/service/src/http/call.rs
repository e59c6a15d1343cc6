//! The way of a request to the party and back. What changes something is a task of its own: a client that leaves does
//! not stop what the head has begun, and its key stays taken until there is an answer.

use super::Shared;
use super::asking::Asking;
use super::key::CallKey;
use super::problem::Refusal;
use crate::keeper::Closed;
use crate::party::{Input, Sight};
use bookahead_protocol::{Answer, Call, Caller, Envelope, Key, Moment};
use std::sync::Arc;
use tracing::Instrument;

impl Shared {
    /// Asks the head something that changes nothing.
    pub(super) async fn ask(&self, asking: &Asking, caller: Caller, call: Call) -> Result<Answer, Refusal> {
        let key = CallKey::new()?.key;
        let answer = self.answer(asking, Envelope { key, caller, call }).await;
        answer.map_err(|closed| self.closed(closed))
    }

    /// Has the head change something.
    pub(super) async fn command(
        self: &Arc<Self>,
        asking: &Asking,
        key: Key,
        call: Call,
    ) -> Result<Answer, Refusal> {
        if let Some(id) = call.id() {
            asking.is_about(&id);
        }
        let envelope = Envelope { key, caller: asking.caller(), call };
        let (shared, asks) = (self.clone(), asking.clone());
        let answer = self.finish(asking, key, async move {
            let answer = shared.answer(&asks, envelope).await;
            let outcome = answer.as_ref().map_or("unanswered", Answer::word);
            asks.line().inspect(|line| line.note_outcome(outcome));
            answer
        });
        answer.await?.map_err(|closed| self.closed(closed))
    }

    /// Lets something come to its end whether its client stays or not, and nobody begin the same meanwhile.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        asking: &Asking,
        key: Key,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = self.begin(key)?;
        let line = asking.line().cloned();
        let task = async move {
            let done = work.await;
            drop((turn, line));
            done
        };
        let done = tokio::spawn(task.in_current_span()).await;
        done.map_err(|_| Refusal::internal("the call ended unexpectedly; this is a defect"))
    }

    async fn answer(&self, asking: &Asking, envelope: Envelope) -> Result<Answer, Closed> {
        let (word, origin) = (envelope.call.word(), asking.origin());
        let call = |reply| Input::Call { envelope, origin, reply };
        let answer = self.door.ask(self.limits.patience, call).await;
        self.metrics.called(word, &answer);
        answer
    }

    /// Looks at the party.
    pub(super) async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&mut dyn Sight, Moment) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let seen = self.door.look(self.limits.patience, look).await;
        seen.map_err(|closed| self.closed(closed))
    }

    /// Why there is no answer.
    pub(super) fn closed(&self, closed: Closed) -> Refusal {
        if closed == Closed::Full {
            self.metrics.turned_away("inbox");
        }
        closed.into()
    }
}
