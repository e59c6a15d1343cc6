//! The way of a request to the party and back. What changes something is a task of its own: a client that leaves does not stop
//! what the party has begun, and its key stays taken until there is an answer. What only reads is asked of a copy.

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

/// The party is asked at most this often to look at its batch system: looks cost the batch system time.
const NUDGE_EVERY: Duration = Duration::from_secs(1);

impl Shared {
    /// One reservation as the caller may see it.
    pub(super) async fn show(&self, requester: &Requester, call: Call) -> Result<Answer, Refusal> {
        let caller = requester.looking_caller();
        match self.read(|queries, now| queries.ask(now, &caller, &call)) {
            Some(answer) => {
                self.metrics.answered_call(call.word(), &answer);
                Ok(answer)
            }
            None => self.ask_party(requester, caller, call).await,
        }
    }

    /// What could be had, and how old the site's look at its batch system is, where it has one.
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
            None => self.ask_party(requester, requester.caller(), call).await?,
        };
        Ok((answer, look_age.flatten()))
    }

    /// Has the party look at its batch system, where its last look is too old. Nobody waits for that.
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

    /// Asks the party something that changes nothing and that a copy cannot tell.
    async fn ask_party(&self, requester: &Requester, caller: Caller, call: Call) -> Result<Answer, Refusal> {
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
        if let Some(id) = call.id() {
            requester.is_about(&id);
        }
        let envelope = Envelope { key, caller: requester.caller(), call };
        let (shared, asks) = (self.clone(), requester.clone());
        let answer = self.finish(requester, key, async move {
            let answer = shared.answer(&asks, envelope).await;
            let outcome = answer.as_ref().map_or("unanswered", Answer::word);
            asks.line().inspect(|line| line.note_outcome(outcome));
            answer
        });
        answer.await?.map_err(|why| self.unanswered(why))
    }

    /// Lets something come to its end whether its client stays or not, and nobody begin the same meanwhile.
    pub(super) async fn finish<T: Send + 'static>(
        &self,
        requester: &Requester,
        key: Key,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let turn = self.begin(key)?;
        let line = requester.line().cloned();
        let task = async move {
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

    /// Reads a copy of the party: something short, of a few milliseconds.
    pub(super) fn read<T>(&self, reader: impl FnOnce(&mut dyn Queries, Moment) -> T) -> T {
        self.party.read(ReadKind::Short, reader)
    }

    /// Reads a copy of the party: something that may take longer.
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
