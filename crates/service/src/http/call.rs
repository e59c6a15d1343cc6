//! Calls from a request to the party and back. A change runs in a task of its own: a client that disconnects does
//! not stop it, and its key stays in use until there is an answer. Queries read a copy of the party.

use super::Shared;
use super::answer::Refusal;
use super::request::CallKey;
use super::requester::Requester;
use crate::thread::{NoReply, ReadKind};
use bookahead_party::Queries;
use bookahead_protocol::{Answer, Call, Caller, Envelope, Key, Millis, Moment};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};
use tracing::Instrument;

/// Shortest time between requests for a poll of the batch system, because polls cost it time.
const NUDGE_EVERY: Duration = Duration::from_secs(1);

impl Shared {
    /// One reservation, as far as the caller may see it.
    pub(super) async fn show(&self, requester: &Requester, call: Call) -> Result<Answer, Refusal> {
        let caller = requester.looking_caller();
        match self.read(|queries, now| queries.ask(now, &caller, &call)) {
            Some(answer) => {
                self.metrics.answered_call(call.word(), &answer);
                Ok(answer)
            }
            // A site before the first poll of its batch system: the call waits for it in the party.
            None => self.ask_party(requester, caller, call).await,
        }
    }

    /// Offers, and the age of the site's snapshot of its batch system, if it has one.
    pub(super) async fn probe(
        &self,
        requester: &Requester,
        call: Call,
    ) -> Result<(Answer, Option<Millis>), Refusal> {
        let (caller, asked) = (requester.caller(), call.clone());
        let probe = move |queries: &mut dyn Queries, now| {
            (queries.ask(now, &caller, &asked), queries.batch_health(now).map(|health| health.look_age))
        };
        let (answer, look_age) = self.read_long(probe).await?;
        if let Some(look_age) = look_age {
            self.nudge(look_age);
        }
        let answer = match answer {
            Some(answer) => {
                self.metrics.answered_call(call.word(), &answer);
                answer
            }
            // Also a broker, which has to ask its peers.
            None => self.ask_party(requester, requester.caller(), call).await?,
        };
        Ok((answer, look_age.flatten()))
    }

    /// Requests a poll of the batch system if the last one is too old. Does not wait for it.
    fn nudge(&self, look_age: Option<Millis>) {
        let Some(every) = self.look_every else { return };
        if look_age.is_some_and(|age| age <= every) {
            return;
        }
        let mut nudged = self.nudged.lock().unwrap_or_else(PoisonError::into_inner);
        if nudged.is_none_or(|at| at.elapsed() >= NUDGE_EVERY) {
            *nudged = Some(Instant::now());
            self.party.tell(bookahead_party::Input::WantLook);
        }
    }

    /// Sends a query to the party that a copy cannot answer.
    async fn ask_party(&self, requester: &Requester, caller: Caller, call: Call) -> Result<Answer, Refusal> {
        // Random, because the party stores answers by key: a query must never get the answer to an older one.
        let key = CallKey::new()?.key;
        let answer = self.answer(requester, Envelope { key, caller, call }).await;
        answer.map_err(|why| self.unanswered(why))
    }

    pub(super) async fn command(
        self: &Arc<Self>,
        requester: &Requester,
        key: Key,
        call: Call,
    ) -> Result<Answer, Refusal> {
        self.command_of(requester, requester.caller(), key, call).await
    }

    /// Executes a call for another user than the requester: a guest answers an invitation in the name of the owner.
    pub(super) async fn command_of(
        self: &Arc<Self>,
        requester: &Requester,
        caller: Caller,
        key: Key,
        call: Call,
    ) -> Result<Answer, Refusal> {
        if let Some(id) = call.id() {
            requester.is_about(&id);
        }
        let envelope = Envelope { key, caller, call };
        let (shared, asks) = (self.clone(), requester.clone());
        let answer = self.finish(requester, key, async move {
            let answer = shared.answer(&asks, envelope).await;
            let outcome = answer.as_ref().map_or("unanswered", Answer::word);
            asks.line().inspect(|line| line.note_outcome(outcome));
            answer
        });
        answer.await?.map_err(|why| self.unanswered(why))
    }

    /// Runs `work` to its end even if the client disconnects. Meanwhile no other call can use the key.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        requester: &Requester,
        key: Key,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = self.begin(key)?;
        let line = requester.line().cloned();
        let task = async move {
            // Dropped here and not with the request, so that key and audit line live as long as the work.
            let done = work.await;
            drop((turn, line));
            done
        };
        let done = tokio::spawn(task.in_current_span()).await;
        done.map_err(|_| Refusal::internal("the call ended unexpectedly; this is a defect"))
    }

    async fn answer(&self, requester: &Requester, envelope: Envelope) -> Result<Answer, NoReply> {
        let word = envelope.call.word();
        let answer = self.party.call(self.limits.patience.duration(), envelope, requester.origin()).await;
        match &answer {
            Ok(answer) => self.metrics.answered_call(word, answer),
            Err(_) => self.metrics.count_call(word, "unanswered"),
        }
        answer
    }

    /// Reads a copy of the party, for queries of a few milliseconds.
    pub(super) fn read<T>(&self, reader: impl FnOnce(&mut dyn Queries, Moment) -> T) -> T {
        self.party.read(ReadKind::Short, reader)
    }

    /// Reads a copy of the party, for queries that may take longer.
    pub(super) async fn read_long<T: Send + 'static>(
        &self,
        reader: impl FnOnce(&mut dyn Queries, Moment) -> T + Send + 'static,
    ) -> Result<T, Refusal> {
        let seen = self.party.read_long(self.limits.patience.duration(), reader).await;
        seen.map_err(|why| self.unanswered(why))
    }

    pub(super) fn unanswered(&self, why: NoReply) -> Refusal {
        if why == NoReply::Full {
            self.metrics.turned_away("inbox");
        }
        why.into()
    }
}
