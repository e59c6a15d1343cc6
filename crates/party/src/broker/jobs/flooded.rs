//! Best-effort jobs: copies wait at the best sites, the first whose turn comes runs, and the others are
//! cancelled. [`Race`] makes the decisions; here its messages become calls, and reports of sites its input.

use super::record::{Course, Record};
use super::sites::ranked;
use super::{Around, Effects, JobEvent, Jobs};
use crate::step::{JobCall, Level, Remark};
use bookahead_plan::placement::Reason;
use bookahead_protocol::jobs::race::{
    self, Entry, Gone, Incoming, Order, Outcome, Pace, SiteReport, copy_of,
};
use bookahead_protocol::jobs::{
    JobAnswer, JobRequest, JobWord, LostAttempt, Mode, Order as Best, Race, Ranked, Rerun,
};
use bookahead_protocol::problem::Why;
use bookahead_protocol::{JobId, Millis, Moment, Name};

/// Number of jobs that are queried at the configured interval. With more, the interval grows in proportion,
/// so peers get at most a few hundred queries per second.
const AT_FULL_PACE: i64 = 100;

/// Number of queries before a site counts as silent: a single lost message means nothing.
const LOOKS_BEFORE_SILENCE: i64 = 20;

impl Jobs {
    /// Starts to flood a job.
    pub(super) fn flood(&mut self, id: JobId, around: Around<'_>, effects: &mut Effects) {
        let Some(record) = self.all.get(&id) else { return };
        let job = &record.job;
        let at_once = job.copies.and_then(|copies| usize::try_from(copies).ok()).unwrap_or(Best::THREE);
        let (_, ranked) = ranked(job, around, &self.rules);
        let (entries, nowhere) = entries(effects.now, id, job, ranked);
        let order = Order { entries, at_once, claims: job.claims, retries: job.rerun.retry.unwrap_or(0) };
        if order.entries.is_empty() {
            self.end(id, JobWord::CouldNotStart, Some(nowhere.to_string()), effects);
        }
        self.race(id, effects, |race, now, pace| race.start(now, order, pace));
    }

    /// Handles a site's report about a copy.
    pub(super) fn copy_reported(
        &mut self,
        from: &Name,
        (id, copy, asked): (JobId, JobId, JobCall),
        answer: JobAnswer,
        effects: &mut Effects,
    ) {
        let Some(report) = SiteReport::of(&answer) else { return };
        // A late report about an earlier copy says nothing about the job.
        let is_shown = self.all.get_mut(&id).filter(|record| record.over.is_none()).and_then(Record::race);
        let is_shown = is_shown
            .is_some_and(|race| race.places().any(|(entry, there)| entry.site == *from && there == copy));
        if let Ok(view) = answer
            && is_shown
        {
            self.note_seen(id, from, view, effects);
        }
        let answer = Incoming { from: from.clone(), copy, asked, report };
        self.race(id, effects, |race, now, pace| race.on_answer(now, answer, pace));
    }

    /// Continues after a restart.
    pub(super) fn resume_race(&mut self, id: JobId, effects: &mut Effects) {
        let unwanted = self.all.get(&id).is_some_and(|record| record.unwanted || record.over.is_some());
        self.race(id, effects, |race, now, pace| {
            let mut effects = if unwanted { race.withdraw(now, pace) } else { race::Effects::default() };
            let resumed = race.resume(now, pace);
            effects.events.extend(resumed.events);
            // `resume` sends all pending messages, including those of `withdraw`.
            race::Effects { send: resumed.send, ..effects }
        });
    }

    /// Lets a race act, and applies its effects.
    pub(super) fn race(
        &mut self,
        id: JobId,
        effects: &mut Effects,
        act: impl FnOnce(&mut Race, Moment, &Pace) -> race::Effects,
    ) {
        let pace = self.pace();
        let Some(race) = self.all.get_mut(&id).and_then(Record::race) else { return };
        self.flaw.into_iter().for_each(|flaw| race.break_by(flaw));
        let raced = act(race, effects.now, &pace);
        // Recorded before the events of the race: if a crash loses those, the copies are dropped all the
        // same.
        if let Some(outcome) = raced.outcome {
            self.race_over(id, &outcome, effects);
        }
        for event in raced.events {
            if let race::Event::Gone { site, how: Gone::Dropped { ran } } = &event
                && ran.0 > 0
            {
                let why = format!("a copy ran {} s without a go; the site does not wait for one", ran.0);
                let remark = Remark::new(Level::Warn, "copy_ran_without_go", why);
                effects.remarks.push(remark.of_job(id).at(site.clone()));
            }
            if let race::Event::Sent(site) = &event {
                self.forget_seen_at(id, site);
            }
            let lost = lost_attempt(&event, effects.now);
            // The race has already applied it.
            let event = JobEvent::Race { id, event };
            self.take_note(&event);
            effects.events.push(event);
            if let Some(attempt) = lost {
                self.note_retry(id, attempt, effects);
            }
        }
        if let Some(record) = self.all.get(&id) {
            effects.calls.extend(raced.send.iter().filter_map(|out| record.copy_call(out)));
        }
    }

    /// Current intervals and timeouts for copies.
    pub(super) fn pace(&self) -> Pace {
        let usual = self.rules.flood;
        let look_every = Millis(usual.look_every.0.saturating_mul(1 + self.racing.max(0) / AT_FULL_PACE));
        // Not longer than the silence timeout: a claiming copy holds capacity until it is queried.
        let look_every = look_every.min(usual.silence).max(usual.look_every);
        let silence = usual.silence.max(Millis(look_every.0.saturating_mul(LOOKS_BEFORE_SILENCE)));
        Pace { look_every, silence, ..usual }
    }

    /// Records the result of a race.
    fn race_over(&mut self, id: JobId, outcome: &Outcome, effects: &mut Effects) {
        let Some(record) = self.all.get(&id).filter(|record| record.over.is_none()) else { return };
        match outcome {
            Outcome::Ended { site, .. } => {
                let view = Box::new(record.unfinished(&self.seen));
                let ran = matches!(SiteReport::of(&Ok(view.clone())), Some(SiteReport::Ran { .. }));
                if ran {
                    self.note(JobEvent::Over { job: view, at: effects.now.second() }, effects);
                } else {
                    let why = format!("{site} no longer knows it");
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
    /// The call for a message about a copy. A copy at a broker is flooded there in turn, to one of its sites.
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
                    rerun: Rerun { retry: None, ..self.job.rerun },
                    ..(*self.job).clone()
                })
            }
        };
        Some(self.call(out.to.clone(), out.copy, out.ask, job))
    }
}

/// The attempt that an event gives up, if another may follow.
fn lost_attempt(event: &race::Event, now: Moment) -> Option<LostAttempt> {
    match event {
        race::Event::Gone { site, how: Gone::LostAfterGo(why) } => {
            Some(LostAttempt { site: site.clone(), why: why.clone(), at: now.second() })
        }
        _ => None,
    }
}

/// Places for copies, best first; and the reason if there are none.
fn entries(now: Moment, id: JobId, job: &JobRequest, mut ranked: Vec<Ranked>) -> (Vec<Entry>, Why) {
    let nowhere = match ranked.is_empty() {
        true => Why::no_such_resource(0, 1, job.kind.clone(), None),
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
        return "no copy started early enough to end in time".to_owned();
    }
    let said = race.gone().iter().map(|(site, how)| match how {
        Gone::Refused(why) => format!("{site} refused it ({why})"),
        Gone::NeverRan { why, .. } => format!("it ended at {site} before it ran ({why})"),
        Gone::LostAfterGo(why) => format!("it ran at {site} and was lost ({why})"),
        Gone::Lost | Gone::Dropped { .. } => format!("{site} no longer knows it"),
    });
    let said = said.collect::<Vec<_>>().join("; ");
    format!("no site is left to run it: {said}")
}
