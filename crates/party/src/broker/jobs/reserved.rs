//! Jobs that run in a reservation: the broker asks the best three sites, keeps the reservation with the
//! earliest finish, submits the job to that site, and queries it until it is over. If the owner named a
//! reservation, only the last two steps remain, and the reservation is never released.

use super::record::{Course, Record};
use super::sites::ranked;
use super::{Around, Effects, JobEvent, Jobs};
use crate::step::{JobCall, PeerCall, PeerRequest};
use bookahead_protocol::jobs::choice::{self, Order, Outcome};
use bookahead_protocol::jobs::{JobAnswer, JobRequest, JobView, JobWord, LostAttempt, Rerun};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Envelope, JobId, Key, Millis, Moment, Name};

impl Jobs {
    /// Starts the search for a reservation.
    pub(super) fn reserve(&mut self, id: JobId, around: Around<'_>, effects: &mut Effects) {
        let Some(record) = self.all.get(&id) else { return };
        let order = self.order(effects.now, record, around);
        let Some(choice) = self.all.get_mut(&id).and_then(Record::choice) else { return };
        let chosen = choice.start(effects.now, order, &mut self.identities);
        self.chosen(id, chosen, effects);
    }

    fn order(&self, now: Moment, record: &Record, around: Around<'_>) -> Order {
        let (task, mut ranked) = ranked(&record.job, around, &self.rules);
        // Not again at a site that lost it, if there is another.
        let lost = |site: &Name| record.attempts.iter().any(|attempt| attempt.site == *site);
        if ranked.iter().any(|ranked| !lost(&ranked.site)) {
            ranked.retain(|ranked| !lost(&ranked.site));
        }
        let usual = now.second() + self.rules.usual_window + record.job.limit;
        // Long enough for all to answer and for the commit to arrive at the best.
        let longest = ranked.iter().map(|ranked| ranked.hold_time).max().unwrap_or(Millis::ZERO);
        Order {
            caller: record.caller.clone(),
            job: record.id,
            ranked,
            task,
            latest_end: record.job.latest_end.unwrap_or(usual),
            at_a_time: Order::THREE,
            hold_for: longest + longest + longest,
            patience: self.rules.patience,
        }
    }

    /// Applies the effects of a choice.
    fn chosen(&mut self, id: JobId, chosen: choice::Effects, effects: &mut Effects) {
        // Recorded before the events of the choice: if a crash loses those, everything at sites is released
        // all the same.
        if let Some(Outcome::Failed(why)) = &chosen.outcome {
            self.end(id, JobWord::CouldNotStart, Some(why.to_string()), effects);
        }
        for event in chosen.events {
            // The choice has already applied it.
            let event = JobEvent::Choice { id, event };
            self.take_note(&event);
            effects.events.push(event);
        }
        if let Some(record) = self.all.get(&id) {
            let call = |out: choice::Outgoing| record.reservation_call(out.to, out.envelope);
            effects.calls.extend(chosen.send.into_iter().map(call));
        }
        if let Some(Outcome::Booked { .. }) = chosen.outcome {
            self.visit(id, effects);
        }
    }

    /// Handles a peer's answer about a reservation. Returns whether it belongs to a job.
    pub(in crate::broker) fn on_answer(
        &mut self,
        from: &Name,
        key: Key,
        answer: &Answer,
        effects: &mut Effects,
    ) -> bool {
        let Some(&id) = self.calls.get(&key) else { return false };
        if let Some(choice) = self.all.get_mut(&id).and_then(Record::choice) {
            let chosen = choice.on_answer(effects.now, from, key, answer);
            self.chosen(id, chosen, effects);
            self.rearm(id);
        }
        true
    }

    /// Handles a site's report about a job.
    pub(super) fn reserved_one_reported(
        &mut self,
        from: &Name,
        (id, there): (JobId, JobId),
        answer: JobAnswer,
        effects: &mut Effects,
    ) {
        let next = effects.now + self.rules.look_every;
        let Some(record) = self.all.get_mut(&id) else { return };
        if there != record.there() {
            // An earlier attempt that counted as lost. If it still exists, it must not run beside the present one.
            if answer.is_ok_and(|view| !view.state.is_over()) {
                effects.calls.push(record.call(from.clone(), there, JobCall::Drop, None));
            }
            return;
        }
        if record.over.is_some() || record.place().is_none_or(|(site, ..)| site != *from) {
            return;
        }
        let may_retry = record.may_retry();
        let Some(visits) = record.visits() else { return };
        visits.heard = effects.now;
        let handed = visits.handed;
        let unknown = matches!(&answer, Err(Problem { why: Why::UnknownJob(_), .. }));
        let since = unknown.then(|| visits.unknown.unwrap_or(effects.now));
        visits.unknown = since;
        // A late answer from before the submission may say so, too.
        let doubt_ends = since.unwrap_or(effects.now) + self.rules.flood.doubt;
        let doubtful = unknown && effects.now < doubt_ends;
        // The submission may be in flight and arrive after the query, so `unknown` is not believed yet.
        let under_way = !handed && effects.now < visits.sent + self.rules.flood.doubt;
        match answer {
            Ok(view) => {
                if !handed {
                    self.note(JobEvent::Handed { id }, effects);
                }
                let Some(record) = self.all.get_mut(&id) else { return };
                if may_retry && let Some(why) = lost_there(&view) {
                    return self.retry(id, from, why, effects);
                }
                if view.state.is_over() {
                    let job = Box::new(record.as_here(from, *view));
                    self.note(JobEvent::Over { job, at: effects.now.second() }, effects);
                    return self.give_back(id, effects);
                }
                record.visits().into_iter().for_each(|visits| visits.next = next);
                self.note_seen(id, from, view, effects);
            }
            Err(Problem { why: Why::UnknownJob(_), .. }) if under_way => {}
            Err(_) if unknown && handed && may_retry => {
                if !doubtful {
                    return self.retry(id, from, "the site no longer knows it".to_owned(), effects);
                }
                // At the end of the doubt, however long the pauses between queries have become.
                let visits = self.all.get_mut(&id).and_then(Record::visits);
                visits.into_iter().for_each(|visits| visits.next = doubt_ends);
            }
            Err(problem) if problem.why.is_final() => {
                // If the site had the job and no longer knows it, it may have run.
                let state = if handed { JobWord::Lost } else { JobWord::CouldNotStart };
                self.end(id, state, Some(problem.why.to_string()), effects);
                self.give_back(id, effects);
            }
            Err(_) => {}
        }
    }

    /// A site lost the job: submits it again, if possible elsewhere.
    pub(super) fn retry(&mut self, id: JobId, site: &Name, why: String, effects: &mut Effects) {
        self.give_back(id, effects);
        let attempt = LostAttempt { site: site.clone(), why, at: effects.now.second() };
        self.note_retry(id, attempt, effects);
    }

    /// Begins the search for a new place, once a peer is known.
    fn place_again(&mut self, id: JobId, around: Around<'_>, effects: &mut Effects) {
        if around.register.up().next().is_some() {
            return self.reserve(id, around, effects);
        }
        let next = effects.now + self.rules.look_every;
        let visits = self.all.get_mut(&id).and_then(Record::visits);
        visits.into_iter().for_each(|visits| visits.next = next);
    }

    pub(super) fn tick_reserved(&mut self, id: JobId, around: Around<'_>, effects: &mut Effects) {
        let Some(record) = self.all.get_mut(&id) else { return };
        if record.is_to_be_placed_again() {
            return self.place_again(id, around, effects);
        }
        if let Some(choice) = record.choice()
            && choice.next_timer().is_some_and(|due| due <= effects.now)
        {
            let chosen = choice.tick(effects.now);
            self.chosen(id, chosen, effects);
        }
        let Some(record) = self.all.get_mut(&id).filter(|record| record.over.is_none()) else { return };
        if record.visits().is_some_and(|visits| visits.next <= effects.now) {
            self.visit(id, effects);
        }
    }

    /// Continues after a restart.
    pub(super) fn resume_reserved(&mut self, id: JobId, effects: &mut Effects) {
        let Some(record) = self.all.get_mut(&id) else { return };
        record
            .visits()
            .into_iter()
            .for_each(|visits| (visits.heard, visits.sent) = (effects.now, effects.now));
        if let Some(choice) = record.choice() {
            let chosen = choice.resume(effects.now);
            self.chosen(id, chosen, effects);
        }
        if self.all.get(&id).is_some_and(|record| record.over.is_none()) {
            self.visit(id, effects);
        }
    }

    /// Sends the next message for a job with a place: submission, query or cancel.
    pub(super) fn visit(&mut self, id: JobId, effects: &mut Effects) {
        let (next, retention) = (effects.now + self.rules.look_every, self.rules.retention);
        let Some(record) = self.all.get_mut(&id) else { return };
        let (when, unwanted) = (record.place().map(|(.., when)| when), record.unwanted);
        let Some(visits) = record.visits() else { return };
        let last = when.map(|when| when.end.max(visits.heard.second()));
        // The job must be over by now, and its site, silent ever since, has forgotten it.
        if last.is_some_and(|last| last + retention < effects.now.second()) {
            let why = "its reservation ended long ago, and its site has not reported how it ended";
            return self.end(id, JobWord::Lost, Some(why.to_owned()), effects);
        }
        visits.next = next;
        let handed = visits.handed;
        if !handed && !unwanted {
            visits.sent = effects.now;
        }
        effects.calls.extend(record.visit_call(handed));
    }

    /// Releases the rest of a reservation that the broker made for the job.
    fn give_back(&self, id: JobId, effects: &mut Effects) {
        let Some(record) = self.all.get(&id) else { return };
        if let (Course::Reserved(..), Some((to, reservation, _))) = (&record.course, record.place()) {
            let call = Call::Cancel { id: reservation };
            let key = Key(reservation.0).derived(1);
            let envelope = Envelope { key, caller: record.caller.clone(), call };
            effects.calls.push(record.reservation_call(to, envelope));
        }
    }
}

impl Record {
    fn reservation_call(&self, to: Name, envelope: Envelope) -> PeerCall {
        PeerCall { to, request: PeerRequest::Call(Box::new(envelope)), origin: self.origin() }
    }

    /// The next message to the site of the reservation.
    fn visit_call(&self, handed: bool) -> Option<PeerCall> {
        let (to, reservation, _) = self.place()?;
        let (ask, job) = match (self.unwanted, handed) {
            (true, _) => (JobCall::Drop, None),
            (false, true) => (JobCall::Look, None),
            (false, false) => {
                let job = JobRequest {
                    reservation: Some(reservation),
                    // A reservation that the broker found has only one part, so no resource is needed.
                    resource: self.part().map(|part| part.resource.clone()),
                    requirements: Vec::new(),
                    mode: None,
                    latest_end: None,
                    reference_mhz: None,
                    input_bytes: None,
                    rerun: Rerun { retry: None, ..self.job.rerun },
                    ..(*self.job).clone()
                };
                (JobCall::Submit, Some(job))
            }
        };
        Some(self.call(to, self.there(), ask, job))
    }
}

/// Why a job was lost with its site, if the site says so.
fn lost_there(view: &JobView) -> Option<String> {
    let said = || view.detail.clone().filter(|detail| !detail.is_empty());
    match view.state {
        JobWord::Lost => Some(said().unwrap_or_else(|| "the site lost it".to_owned())),
        state if state.is_over() && view.runs.node_failed => {
            Some(said().unwrap_or_else(|| "a node of the site failed".to_owned()))
        }
        _ => None,
    }
}
