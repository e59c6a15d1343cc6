//! One negotiation from start to end: three parts that take the whole capacity of three sites are held together, held
//! longer, committed, changed together, and cancelled, by a client that repeats each call with the same key until it
//! has an answer. Whatever happens to the processes, the invariants of the witness hold, every repeated call gets the
//! same answer, and in the end all capacity is free again.

use super::asking::{Asker, HOLD, book, hold, is_same, new_id, now, part, together};
use super::grid::{CAPACITY, Grid, Shape, knows};
use super::witness::Witness;
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{Answer, Call, Envelope, Request, ReservationId, State};
use bookahead_tests::polling::until_async;
use std::cell::Cell;

/// The progress of a booking, as the client knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requested, but not answered.
    Between,
    /// Held.
    Held,
    /// Committed.
    Committed,
    /// Refused or cancelled.
    Over,
}

/// The result of a negotiation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Held, committed and cancelled.
    Committed,
    /// Refused, with the code of the problem.
    Refused(&'static str),
}

/// How much later all parts start after the change: the new terms overlap with the old ones.
const LATER: Seconds = Seconds(1_800);

pub(crate) struct Negotiation {
    asker: Asker,
    witness: Witness,
    /// The resources that the broker offers when all sites are up.
    offered: [&'static str; 3],
    id: ReservationId,
    request: Request,
    /// The number of changes of phase, and the phase.
    phase: Cell<(u32, Phase)>,
}

impl Negotiation {
    /// With a grid of three that is ready.
    pub(crate) fn new(grid: &Grid, shape: Shape) -> Negotiation {
        let begin = now() + Seconds(3_600);
        Negotiation {
            asker: grid.asker("grid"),
            witness: Witness::new(grid, shape),
            offered: shape.offered(),
            id: new_id(),
            request: together(vec![part(CAPACITY, begin, 3_600); 3]),
            phase: Cell::new((0, Phase::Between)),
        }
    }

    /// The whole negotiation, observed by the witness.
    pub(crate) async fn run(&self) -> Outcome {
        knows(&self.asker, &self.offered).await;
        tokio::select! {
            () = self.witness.watch(self.id, || self.phase.get()) => unreachable!("a witness never ends"),
            outcome = self.negotiate() => outcome,
        }
    }

    /// The progress so far.
    pub(crate) fn phase(&self) -> Phase {
        self.phase.get().1
    }

    fn enter(&self, phase: Phase) {
        self.phase.set((self.phase.get().0 + 1, phase));
    }

    /// Waits until nothing is left of it, and of all later requests.
    pub(crate) async fn nothing_is_left(&self) {
        self.witness.settled(self.id, false).await;
    }

    async fn negotiate(&self) -> Outcome {
        let mut calls = Vec::new();
        let reserve = self.asker.envelope(hold(self.id, self.request.clone()));
        let held = self.asker.insist(&reserve).await;
        if let Answer::Problem(problem) = &held {
            self.refused(&reserve, &held).await;
            return Outcome::Refused(problem.why.code());
        }
        self.took_place(&held, State::Held, Phase::Held);
        calls.push((reserve, held));
        // A hold that has not expired can be committed, whichever process crashes.
        let id = self.id;
        calls.push(self.change(Call::Hold { id, hold_for: HOLD }, State::Held, Phase::Held).await);
        calls.push(
            self.change(Call::Commit { id, jobs: Vec::new() }, State::Committed, Phase::Committed).await,
        );
        // Forwarded to one site, where it changes nothing: all capacity is kept.
        let from = self.request.parts[1].wanted.earliest_start;
        let release = Call::Release { id, part: Some(1), from, keep: Capacity(CAPACITY), end_jobs: false };
        calls.push(self.change(release, State::Committed, Phase::Committed).await);
        self.witness.settled(id, true).await;
        self.repeat(&calls).await;
        self.witness.settled(id, true).await;
        calls.push(self.change_terms().await);
        self.witness.settled(id, true).await;
        calls.push(self.change(Call::Cancel { id }, State::Cancelled, Phase::Over).await);
        self.witness.settled(id, false).await;
        self.repeat(&calls).await;
        self.all_is_free().await;
        Outcome::Committed
    }

    /// Moves all parts to a later start that overlaps with the old terms: they change together. A site that was killed
    /// may be silent for too long; then all parts keep their old terms, and the change is tried again.
    async fn change_terms(&self) -> (Envelope, Answer) {
        let mut request = self.request.clone();
        for part in &mut request.parts {
            part.wanted.earliest_start = part.wanted.earliest_start + LATER;
            part.wanted.latest_end = part.wanted.latest_end + LATER;
        }
        let begin = request.parts[0].wanted.earliest_start;
        let call = Call::Change { id: self.id, version: None, request };
        let envelope = self.asker.envelope(call);
        self.enter(Phase::Between);
        let changed = until_async(async || match self.asker.insist(&envelope).await {
            Answer::Problem(problem) if !problem.why.is_final() => Err(problem.why.to_string()),
            answer => Ok(answer),
        });
        let changed = changed.await;
        self.took_place(&changed, State::Committed, Phase::Committed);
        self.witness.begins(begin).await;
        (envelope, changed)
    }

    async fn refused(&self, reserve: &Envelope, refusal: &Answer) {
        self.enter(Phase::Over);
        self.witness.settled(self.id, false).await;
        self.repeat(&[(reserve.clone(), refusal.clone())]).await;
        self.all_is_free().await;
    }

    /// Makes a change that must succeed, and enters the next phase.
    async fn change(&self, call: Call, state: State, next: Phase) -> (Envelope, Answer) {
        let envelope = self.asker.envelope(call);
        self.enter(Phase::Between);
        let answer = self.asker.insist(&envelope).await;
        self.took_place(&answer, state, next);
        (envelope, answer)
    }

    fn took_place(&self, answer: &Answer, state: State, next: Phase) {
        let Answer::Reservation(shown) = answer else { panic!("it should be {state}: {answer:?}") };
        let parts = (shown.slots.len(), self.request.parts.len());
        assert!(shown.id == self.id && shown.state == state && parts.0 == parts.1, "{shown:?}");
        self.enter(next);
    }

    /// The same calls get the same answers.
    async fn repeat(&self, calls: &[(Envelope, Answer)]) {
        for (envelope, answer) in calls {
            let again = self.asker.insist(envelope).await;
            assert!(is_same(answer, &again), "{} got {answer:?}, and then {again:?}", envelope.call.word());
        }
    }

    /// Another client can book all of it now.
    async fn all_is_free(&self) {
        knows(&self.asker, &self.offered).await;
        let rival = until_async(async || {
            let id = new_id();
            match self.asker.ask(book(id, self.request.clone())).await {
                Answer::Reservation(booked) if booked.state == State::Committed => Ok(id),
                other => Err(format!("{other:?}")),
            }
        });
        let rival = rival.await;
        self.witness.settled(rival, true).await;
        assert!(matches!(self.asker.ask(Call::Cancel { id: rival }).await, Answer::Reservation(_)));
        self.witness.settled(rival, false).await;
    }
}
