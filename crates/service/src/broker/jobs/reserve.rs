//! Jobs that are to run in a reservation: the broker asks the best three sites, keeps the reservation in which the job is done
//! first, hands the job over to that site, and looks after it until it is over. Where the owner has named a reservation only
//! the latter is left to do, and the reservation is never given back.

use super::words::{Effects, Errand, Event, What};
use super::{Jobs, Peer};
use bookahead_api as api;
use bookahead_plan::Seconds;
use bookahead_protocol::jobs::choice::{self, Order, Outcome};
use bookahead_protocol::problem::Problem;
use bookahead_protocol::{Answer, Call, Caller, Envelope, JobId, Key, Moment, Name};

impl Jobs {
    /// Begins to look for a reservation.
    pub(super) fn reserve(
        &mut self,
        now: Moment,
        id: JobId,
        peers: impl Iterator<Item = Peer>,
        effects: &mut Effects,
    ) {
        let Some(kept) = self.all.get(&id) else { return };
        let order = self.order(now, &kept.caller, id, &kept.asked, peers);
        let Some(kept) = self.all.get_mut(&id) else { return };
        let chosen = kept.choice.start(now, order, &mut self.identities);
        self.chosen(now, id, chosen, effects);
    }

    fn order(
        &self,
        now: Moment,
        caller: &Caller,
        job: JobId,
        asked: &api::SubmitJob,
        peers: impl Iterator<Item = Peer>,
    ) -> Order {
        let rules = &self.rules;
        let (task, ranked) = super::ranked(asked, peers);
        let usual = now.second() + rules.usual_window + Seconds(asked.limit_seconds);
        Order {
            caller: caller.clone(),
            job,
            ranked,
            task,
            latest_end: asked.latest_end.map_or(usual, api::Timestamp::time),
            notice: rules.notice,
            at_a_time: Order::THREE,
            hold_for: rules.hold_for,
            answer_within: rules.answer_within,
            patience: rules.patience,
        }
    }

    /// Takes over what a choice decided.
    pub(super) fn chosen(&mut self, now: Moment, id: JobId, chosen: choice::Effects, effects: &mut Effects) {
        let Some(kept) = self.all.get_mut(&id) else { return };
        for event in chosen.events {
            // The choice has taken it over already; what is left is to remember it.
            kept.history.push(Event::Choice { id, event: event.clone() });
            effects.events.push(Event::Choice { id, event });
        }
        let via = kept.via.clone();
        let errand =
            |out: choice::Outgoing| Errand { to: out.to, what: What::Call(out.envelope), via: via.clone() };
        effects.errands.extend(chosen.send.into_iter().map(errand));
        match chosen.outcome {
            Some(Outcome::Failed(why)) => {
                let problem = Problem::new(why);
                self.end(now, id, api::JobState::CouldNotStart, Some(problem.why.to_string()), effects);
            }
            Some(Outcome::Booked { .. }) => self.attend(now, id, effects),
            None => {}
        }
    }

    /// A peer answers a call about a reservation. Whether it was one of ours.
    pub(in crate::broker) fn on_answer(
        &mut self,
        now: Moment,
        from: &Name,
        key: Key,
        answer: &Answer,
    ) -> Option<Effects> {
        let mut effects = Effects::default();
        let live: Vec<JobId> = self.unsettled_choices().collect();
        for id in live {
            let Some(kept) = self.all.get_mut(&id) else { continue };
            let chosen = kept.choice.on_answer(now, from, key, answer);
            self.chosen(now, id, chosen, &mut effects);
        }
        let nothing = effects.events.is_empty() && effects.errands.is_empty();
        (!nothing).then_some(effects)
    }

    /// The site tells how the job is.
    pub(super) fn reserved_job_answered(
        &mut self,
        now: Moment,
        from: &Name,
        id: JobId,
        answer: Result<Box<api::Job>, api::Problem>,
    ) -> Effects {
        let mut effects = Effects::default();
        let Some(kept) = self.all.get_mut(&id).filter(|kept| kept.over.is_none()) else { return effects };
        if kept.place().is_none_or(|(site, _)| site != *from) {
            return effects;
        }
        kept.heard = now;
        let handed = kept.handed;
        match answer {
            Ok(job) if job.state.is_over() => {
                let job = Box::new(kept.as_here(from, *job));
                self.note_handed(id, handed, &mut effects);
                self.note(Event::Over { job, at: now.second() }, &mut effects);
                self.give_back(id, &mut effects);
            }
            Ok(job) => {
                self.note_handed(id, handed, &mut effects);
                let next = now + self.rules.look_every;
                if let Some(kept) = self.all.get_mut(&id) {
                    kept.seen.insert(from.clone(), job);
                    kept.next = next;
                }
            }
            Err(problem) if problem.is_final() => {
                // What the site had, and does not tell of any more, may have run.
                let state = if handed { api::JobState::Lost } else { api::JobState::CouldNotStart };
                self.end(now, id, state, Some(problem.detail), &mut effects);
                self.give_back(id, &mut effects);
            }
            Err(_) => {}
        }
        effects
    }

    fn note_handed(&mut self, id: JobId, before: bool, effects: &mut Effects) {
        if !before {
            self.note(Event::Handed { id }, effects);
        }
    }

    /// Time has passed.
    pub(super) fn tick_choices(&mut self, now: Moment, effects: &mut Effects) {
        let unsettled: Vec<JobId> = self.unsettled_choices().collect();
        for id in unsettled {
            let Some(kept) = self.all.get_mut(&id) else { continue };
            if kept.choice.next_timer().is_some_and(|due| due <= now) {
                let chosen = kept.choice.tick(now);
                self.chosen(now, id, chosen, effects);
            }
        }
        let reserved = self.live().filter(|(_, kept)| !kept.is_flooded() && kept.next <= now);
        let due: Vec<JobId> = reserved.map(|(id, _)| id).collect();
        due.into_iter().for_each(|id| self.attend(now, id, effects));
    }

    /// When [`Jobs::tick_choices`] has something to do.
    pub(super) fn next_choice(&self) -> Option<Moment> {
        let choices = self.all.values().filter_map(|kept| kept.choice.next_timer());
        let looks = self.live().filter(|(_, kept)| kept.place().is_some()).map(|(_, kept)| kept.next);
        choices.chain(looks).min()
    }

    /// Goes on after a restart.
    pub(super) fn resume_choice(&mut self, now: Moment, id: JobId, effects: &mut Effects) {
        let Some(kept) = self.all.get_mut(&id) else { return };
        kept.heard = now;
        let chosen = kept.choice.resume(now);
        self.chosen(now, id, chosen, effects);
        if self.all.get(&id).is_some_and(|kept| kept.over.is_none()) {
            self.attend(now, id, effects);
        }
    }

    /// Whether nobody will tell any more what became of a job: it must be over, and its site, silent ever since, would have
    /// forgotten it.
    fn is_forgotten(&self, now: Moment, id: JobId) -> bool {
        let kept = self.all.get(&id);
        let last = kept.and_then(|kept| Some(kept.when()?.end.max(kept.heard.second())));
        last.is_some_and(|last| last + self.rules.retention < now.second())
    }

    /// Does what is next for a job that has a place: hands it over, asks how it is, or has it ended.
    pub(super) fn attend(&mut self, now: Moment, id: JobId, effects: &mut Effects) {
        if self.is_forgotten(now, id) {
            let why = "its reservation is long over, and its site has not said what became of it";
            return self.end(now, id, api::JobState::Lost, Some(why.to_owned()), effects);
        }
        let next = now + self.rules.look_every;
        let Some(kept) = self.all.get_mut(&id) else { return };
        kept.next = next;
        let Some((to, reservation)) = kept.place() else { return };
        let (caller, via) = (kept.caller.clone(), kept.via.clone());
        let what = match (kept.unwanted, kept.handed) {
            (true, _) => What::Drop(caller, id),
            (false, true) => What::Look(caller, id),
            (false, false) => {
                let asked = api::SubmitJob {
                    id: Some(id),
                    reservation: Some(reservation),
                    // In a reservation that the broker found there is one part only.
                    resource: kept.part.as_ref().map(|part| part.resource.clone()),
                    requirements: Vec::new(),
                    mode: None,
                    latest_end: None,
                    reference_mhz: None,
                    input_bytes: None,
                    ..*kept.asked.clone()
                };
                What::Submit(caller, Box::new(asked))
            }
        };
        effects.errands.push(Errand { to, what, via });
    }

    /// What is left of its reservation is of no use, unless that is its owner's.
    fn give_back(&self, id: JobId, effects: &mut Effects) {
        let Some(kept) = self.all.get(&id).filter(|kept| kept.part.is_none()) else { return };
        let Some((to, reservation)) = kept.place() else { return };
        let call = Call::Cancel { id: reservation };
        let envelope = Envelope { key: Key(reservation.0).derived(1), caller: kept.caller.clone(), call };
        effects.errands.push(Errand { to, what: What::Call(envelope), via: kept.via.clone() });
    }

    /// Those whose choice has something to do.
    fn unsettled_choices(&self) -> impl Iterator<Item = JobId> {
        let reserved = self.all.iter().filter(|(_, kept)| !kept.is_flooded() && kept.part.is_none());
        reserved.filter(|(_, kept)| !kept.choice.is_over()).map(|(id, _)| *id)
    }
}
