//! Best-effort jobs: copies wait at the best sites, the first whose turn comes runs, and the others are cancelled. What is decided
//! about them is decided by [`Race`]; here its questions become calls, and reports of sites its input.

use super::record::{Course, Record};
use super::sites::ranked;
use super::{Around, Effects, JobEvent, Jobs};
use crate::step::{JobCall, Level, Remark};
use bookahead_plan::placement::Reason;
use bookahead_protocol::jobs::race::{
    self, Entry, Gone, Incoming, Order, Outcome, Pace, SiteReport, copy_of,
};
use bookahead_protocol::jobs::{JobAnswer, JobRequest, JobWord, Mode, Order as Best, Race, Ranked};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{JobId, Millis, Moment, Name};

/// This many jobs are looked at as often as is configured; of more, each is looked at less often in proportion, so that peers are
/// asked a few hundred times a second at most.
const AT_FULL_PACE: i64 = 100;

/// A site is not called silent before it was asked this often: a single lost message says nothing.
const LOOKS_BEFORE_SILENCE: i64 = 20;

impl Jobs {
    /// Begins to flood a job.
    pub(super) fn flood(&mut self, id: JobId, around: Around<'_>, effects: &mut Effects) {
        let Some(record) = self.all.get(&id) else { return };
        let job = &record.job;
        let at_once = job.copies.and_then(|copies| usize::try_from(copies).ok()).unwrap_or(Best::THREE);
        let (_, ranked) = ranked(job, around, &self.rules);
        let (entries, nowhere) = entries(effects.now, id, job, ranked);
        let order = Order { entries, at_once, claims: job.claims };
        if order.entries.is_empty() {
            self.end(id, JobWord::CouldNotStart, Some(nowhere.to_string()), effects);
        }
        self.race(id, effects, |race, now, pace| race.start(now, order, pace));
    }

    /// A site tells how a copy is.
    pub(super) fn copy_reported(
        &mut self,
        from: &Name,
        (id, copy, asked): (JobId, JobId, JobCall),
        answer: JobAnswer,
        effects: &mut Effects,
    ) {
        let Some(report) = SiteReport::of(&answer) else { return };
        // What is told late of an earlier copy says nothing of the job.
        let is_shown = self.all.get_mut(&id).filter(|record| record.over.is_none()).and_then(Record::race);
        let is_shown = is_shown
            .is_some_and(|race| race.places().any(|(entry, there)| entry.site == *from && there == copy));
        if let Ok(view) = answer
            && is_shown
        {
            self.note_seen(id, from, view);
        }
        let answer = Incoming { from: from.clone(), copy, asked, report };
        self.race(id, effects, |race, now, pace| race.on_answer(now, answer, pace));
    }

    /// Goes on after a restart.
    pub(super) fn resume_race(&mut self, id: JobId, effects: &mut Effects) {
        let unwanted = self.all.get(&id).is_some_and(|record| record.unwanted || record.over.is_some());
        self.race(id, effects, |race, now, pace| {
            let mut effects = if unwanted { race.withdraw(now, pace) } else { race::Effects::default() };
            let resumed = race.resume(now, pace);
            effects.events.extend(resumed.events);
            // Whatever is to be asked is asked again.
            race::Effects { send: resumed.send, ..effects }
        });
    }

    /// Has a race do something, and takes over what it decided.
    pub(super) fn race(
        &mut self,
        id: JobId,
        effects: &mut Effects,
        act: impl FnOnce(&mut Race, Moment, &Pace) -> race::Effects,
    ) {
        let pace = self.pace();
        let Some(race) = self.all.get_mut(&id).and_then(Record::race) else { return };
        #[cfg(feature = "flaws")]
        self.flaw.into_iter().for_each(|flaw| race.break_by(flaw));
        let raced = act(race, effects.now, &pace);
        // Written before the rest: should that be lost in a crash, the copies are dropped all the same.
        if let Some(outcome) = raced.outcome {
            self.race_over(id, &outcome, effects);
        }
        for event in raced.events {
            if let race::Event::Gone { site, how: Gone::Dropped { ran } } = &event
                && ran.0 > 0
            {
                let why = format!("a copy ran {} s at a site that does not wait for a go", ran.0);
                let remark = Remark::new(Level::Warn, "copy_ran_without_go", why);
                effects.remarks.push(remark.of_job(id).at(site.clone()));
            }
            if let race::Event::Sent(site) = &event {
                self.forget_seen_at(id, site);
            }
            // The race has taken it over already.
            let event = JobEvent::Race { id, event };
            self.take_note(&event);
            effects.events.push(event);
        }
        if let Some(record) = self.all.get(&id) {
            effects.calls.extend(raced.send.iter().filter_map(|out| record.copy_call(out)));
        }
    }

    /// How copies are looked after at the moment.
    pub(super) fn pace(&self) -> Pace {
        let usual = self.rules.flood;
        let look_every = Millis(usual.look_every.0.saturating_mul(1 + self.racing.max(0) / AT_FULL_PACE));
        // A copy whose turn has come holds room until it is looked at.
        let look_every = look_every.min(usual.silence).max(usual.look_every);
        let silence = usual.silence.max(Millis(look_every.0.saturating_mul(LOOKS_BEFORE_SILENCE)));
        Pace { look_every, silence, ..usual }
    }

    /// The job is over, and this is how it is told.
    fn race_over(&mut self, id: JobId, outcome: &Outcome, effects: &mut Effects) {
        let Some(record) = self.all.get(&id).filter(|record| record.over.is_none()) else { return };
        match outcome {
            Outcome::Ended { site, .. } => {
                let view = Box::new(record.unfinished(&self.seen));
                let ran = matches!(SiteReport::of(&Ok(view.clone())), Some(SiteReport::Ran { .. }));
                if ran {
                    self.note(JobEvent::Over { job: view, at: effects.now.second() }, effects);
                } else {
                    let why = format!("{site} knows nothing of it any more");
                    self.end(id, JobWord::Lost, Some(why), effects);
                }
            }
            Outcome::Withdrawn => self.end(id, JobWord::Cancelled, None, effects),
            Outcome::NowhereLeft => {
                let why = why_nowhere(record);
                self.end(id, JobWord::CouldNotStart, Some(why), effects);
            }
        }
    }
}

impl Record {
    /// What is sent to a site about its copy. A copy at a broker is flooded on by that, to one site of its own.
    fn copy_call(&self, out: &race::Outgoing) -> Option<crate::step::PeerCall> {
        let Course::Flooded(race) = &self.course else { return None };
        let job = match out.ask {
            JobCall::Look | JobCall::Go | JobCall::Drop => None,
            JobCall::Submit => {
                let (entry, _) = race.places().find(|(_, copy)| *copy == out.copy)?;
                Some(JobRequest {
                    resource: Some(entry.resource.clone()),
                    limit: entry.limit,
                    mode: Some(Mode::Flood),
                    copies: Some(1),
                    reference_mhz: None,
                    input_bytes: None,
                    claims: true,
                    ..(*self.job).clone()
                })
            }
        };
        Some(self.call(out.to.clone(), out.copy, out.ask, job))
    }
}

/// Where copies could go, the best first, and why there is nowhere if that is so.
fn entries(now: Moment, id: JobId, job: &JobRequest, mut ranked: Vec<Ranked>) -> (Vec<Entry>, Why) {
    let nowhere = match ranked.is_empty() {
        true => Why::NoSuchResource { part: 0, kind: job.kind.clone() },
        false => Why::NoSlot(Reason::NoWindow),
    };
    ranked.retain(|ranked| {
        let end = ranked.delay.ready(now) + ranked.delay.duration();
        job.latest_end.is_none_or(|latest| end <= latest)
    });
    let entry = |(place, ranked): (usize, Ranked)| Entry {
        copy: copy_of(id, place),
        limit: ranked.delay.duration(),
        start_by: job.latest_end.map(|latest| latest - ranked.delay.duration()),
        site: ranked.site,
        resource: ranked.resource,
    };
    (ranked.into_iter().enumerate().map(entry).collect(), nowhere)
}

/// Why no site is left.
fn why_nowhere(record: &Record) -> String {
    let Course::Flooded(race) = &record.course else { return String::new() };
    if race.is_late() {
        return "no copy of it started early enough to end in time".to_owned();
    }
    let said = race.gone().iter().map(|(site, how)| match how {
        Gone::Refused(why) => format!("{site} does not take it ({why})"),
        Gone::NeverRan { why, .. } => format!("at {site} it was over before it ran ({why})"),
        Gone::Lost | Gone::Dropped { .. } => format!("{site} knows nothing of it any more"),
    });
    let said = said.collect::<Vec<_>>().join("; ");
    format!("no site is left that would run it: {said}")
}
