//! Best-effort jobs: copies wait at the best sites, the first that starts runs the job, and the others are cancelled. What is
//! decided about them is decided by [`Race`](bookahead_protocol::jobs::Race); here its questions become errands, and answers
//! of sites its input.

use super::kept::Kept;
use super::told::told;
use super::words::{Effects, Errand, Event, What};
use super::{Jobs, Peer};
use bookahead_api as api;
use bookahead_plan::placement::Reason;
use bookahead_protocol::jobs::choice::Order;
use bookahead_protocol::jobs::race::{self, Ask, Entry, Gone, Outcome, Pace, copy_of};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{JobId, Millis, Moment, Name};

/// So many jobs are looked at as often as is configured; of more, each is looked at less often in proportion.
const AT_FULL_PACE: i64 = 100;

/// A site is not called silent before it was asked so often.
const LOOKS_BEFORE_SILENCE: i64 = 20;

impl Jobs {
    /// Begins to flood a job.
    pub(super) fn flood(
        &mut self,
        now: Moment,
        id: JobId,
        peers: impl Iterator<Item = Peer>,
        effects: &mut Effects,
    ) {
        let pace = self.pace();
        let Some(kept) = self.all.get_mut(&id) else { return };
        let at_once = kept.asked.copies.and_then(|copies| usize::try_from(copies).ok());
        let (entries, nowhere) = entries(now, id, &kept.asked, peers);
        let raced = kept.race.start(now, entries, at_once.unwrap_or(Order::THREE), &pace);
        if raced.outcome.is_some() {
            self.end(now, id, api::JobState::CouldNotStart, Some(nowhere.to_string()), effects);
        }
        self.raced(now, id, raced, effects);
    }

    /// The job that a copy belongs to.
    pub(super) fn job_of(&self, copy: JobId) -> Option<JobId> {
        self.copies.get(&copy).copied()
    }

    /// A site tells how a copy is.
    pub(super) fn copy_answered(
        &mut self,
        now: Moment,
        from: &Name,
        (id, copy, asked): (JobId, JobId, Ask),
        answer: Result<Box<api::Job>, api::Problem>,
    ) -> Effects {
        let mut effects = Effects::default();
        let pace = self.pace();
        let Some(kept) = self.all.get_mut(&id) else { return effects };
        let Some(told) = told(&answer) else { return effects };
        if let Ok(copy) = answer {
            kept.seen.insert(from.clone(), copy);
        }
        let raced = kept.race.on_answer(now, from, (copy, asked), told, &pace);
        self.raced(now, id, raced, &mut effects);
        effects
    }

    /// Its owner no longer wants it.
    pub(super) fn withdraw(&mut self, now: Moment, id: JobId, effects: &mut Effects) {
        let pace = self.pace();
        let Some(kept) = self.all.get_mut(&id) else { return };
        let raced = kept.race.withdraw(now, &pace);
        self.raced(now, id, raced, effects);
    }

    /// Time has passed.
    pub(super) fn tick_races(&mut self, now: Moment, effects: &mut Effects) {
        let pace = self.pace();
        let due = self.agenda.iter().take_while(|(due, _)| *due <= now);
        let due: Vec<JobId> = due.map(|(_, id)| *id).collect();
        for id in due {
            let Some(kept) = self.all.get_mut(&id) else { continue };
            let raced = kept.race.tick(now, &pace);
            self.raced(now, id, raced, effects);
        }
    }

    /// Goes on after a restart.
    pub(super) fn resume_race(&mut self, now: Moment, id: JobId, effects: &mut Effects) {
        let pace = self.pace();
        let Some(kept) = self.all.get_mut(&id) else { return };
        let raced = kept.race.resume(now, &pace);
        let unwanted = kept.unwanted;
        self.raced(now, id, raced, effects);
        if unwanted {
            self.withdraw(now, id, effects);
        }
    }

    /// Takes over what a race decided.
    fn raced(&mut self, now: Moment, id: JobId, raced: race::Effects, effects: &mut Effects) {
        if let Some(outcome) = &raced.outcome {
            self.race_over(now, id, outcome, effects);
        }
        let Some(kept) = self.all.get_mut(&id) else { return };
        for event in raced.events {
            // The race has taken it over already; what is left is to remember it.
            kept.history.push(Event::Flood { id, event: event.clone() });
            effects.events.push(Event::Flood { id, event });
        }
        effects.errands.extend(raced.send.iter().filter_map(|out| errand(kept, out)));
        self.note_copies(id);
        self.rearm(id);
    }

    /// From now on the copies of a job are known as its own.
    pub(super) fn note_copies(&mut self, id: JobId) {
        if let Some(kept) = self.all.get(&id) {
            self.copies.extend(kept.race.entries().map(|entry| (entry.copy, id)));
        }
    }

    /// Notes when a race wants to be looked at next.
    fn rearm(&mut self, id: JobId) {
        let pace = self.pace();
        let Some(kept) = self.all.get_mut(&id) else { return };
        self.agenda.remove(&(kept.next, id));
        if let Some(due) = kept.race.next_timer(&pace) {
            kept.next = due;
            self.agenda.insert((due, id));
        }
    }

    /// How copies are looked after at the moment.
    fn pace(&self) -> Pace {
        let usual = self.rules.flood;
        let races = i64::try_from(self.agenda.len()).unwrap_or(i64::MAX);
        let look_every = Millis(usual.look_every.0.saturating_mul(1 + races / AT_FULL_PACE));
        let silence = usual.silence.max(Millis(look_every.0.saturating_mul(LOOKS_BEFORE_SILENCE)));
        Pace { look_every, silence, ..usual }
    }

    /// The job is over, and this is how it is told.
    fn race_over(&mut self, now: Moment, id: JobId, outcome: &Outcome, effects: &mut Effects) {
        let Some(kept) = self.all.get(&id) else { return };
        match outcome {
            Outcome::Ended { site, .. } => match kept.seen.get(site).filter(|seen| seen.state.is_over()) {
                Some(_) => {
                    let job = Box::new(kept.flooded(id));
                    self.note_over(now, job, effects);
                }
                None => {
                    let why = format!("{site} knows nothing of it any more");
                    self.end(now, id, api::JobState::Lost, Some(why), effects);
                }
            },
            Outcome::Withdrawn => self.end(now, id, api::JobState::Cancelled, None, effects),
            Outcome::NowhereLeft => {
                let why = why_nowhere(kept);
                self.end(now, id, api::JobState::CouldNotStart, Some(why), effects);
            }
        }
    }
}

/// Where copies could go, the best first, and why there is nowhere if that is so.
fn entries(
    now: Moment,
    id: JobId,
    asked: &api::SubmitJob,
    peers: impl Iterator<Item = Peer>,
) -> (Vec<Entry>, Why) {
    let (_, mut ranked) = super::ranked(asked, peers);
    let nowhere = match ranked.is_empty() {
        true => Why::NoSuchResource { part: 0, kind: asked.kind.clone() },
        false => Why::NoSlot(Reason::NoWindow),
    };
    let latest_end = asked.latest_end.map(api::Timestamp::time);
    ranked.retain(|ranked| {
        let end = ranked.delay.ready(now, Millis::ZERO) + ranked.delay.duration();
        latest_end.is_none_or(|latest| end <= latest)
    });
    let entry = |(place, ranked): (usize, bookahead_protocol::jobs::Ranked)| Entry {
        copy: copy_of(id, place),
        limit: ranked.delay.duration(),
        start_by: latest_end.map(|latest| latest - ranked.delay.duration()),
        site: ranked.site,
        resource: ranked.resource,
    };
    (ranked.into_iter().enumerate().map(entry).collect(), nowhere)
}

/// What is sent to a site about its copy. A copy at a broker is flooded on by that, to one site of its own.
fn errand(kept: &Kept, out: &race::Outgoing) -> Option<Errand> {
    let caller = kept.caller.clone();
    let what = match out.ask {
        Ask::Look => What::Look(caller, out.copy),
        Ask::Drop => What::Drop(caller, out.copy),
        Ask::Submit => {
            let entry = kept.race.entries().find(|entry| entry.copy == out.copy)?;
            let asked = api::SubmitJob {
                id: Some(out.copy),
                resource: Some(entry.resource.clone()),
                limit_seconds: entry.limit.0,
                mode: Some(api::Mode::Flood),
                copies: Some(1),
                reference_mhz: None,
                input_bytes: None,
                ..*kept.asked.clone()
            };
            What::Submit(caller, Box::new(asked))
        }
    };
    Some(Errand { to: out.to.clone(), what, via: kept.via.clone() })
}

/// Why no site is left.
fn why_nowhere(kept: &Kept) -> String {
    if kept.race.is_late() {
        return "no copy of it started early enough to end in time".to_owned();
    }
    let said = kept.race.gone().iter().map(|(site, how)| match how {
        Gone::Refused(why) => format!("{site} does not take it ({why})"),
        Gone::Ended(why) => format!("at {site} it was ended before it ran ({why})"),
        Gone::Lost | Gone::Dropped { .. } => format!("{site} knows nothing of it any more"),
    });
    let said = said.collect::<Vec<_>>().join("; ");
    format!("no site is left that would run it: {said}")
}
