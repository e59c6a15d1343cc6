//! What becomes of the jobs of this site. A batch system works by itself and tells nobody, so it is asked from time to time,
//! while there are jobs to ask for. They are known by their names, so that also those are found which were
//! submitted before a restart, or by a command that was not answered.
//!
//! A job that waits for a reservation which is no more would wait for ever, and is ended; so is one that runs on when its
//! reservation is over, since batch systems take their time for that, and a second one of the same name. When a job that ran is
//! over is told as the batch system tells it: one that ignores a signal lives for some seconds more. What cannot
//! be done now is tried again after the next look.

use super::register::Entry;
use super::system::{FactState, JobFact, NO_GO};
use super::tag::read_job;
use super::{Batch, State};
use crate::error::LrmsError;
use bookahead_party::{Ended, JobChange, JobState};
use bookahead_plan::Time;
use bookahead_protocol::{JobId, Moment, ReservationId};
use std::collections::BTreeMap;

/// After each look, at most this many jobs that are no longer shown are asked for: each costs a command or two, and the next
/// look must not wait long for them.
const MOST_QUESTIONS: usize = 50;

/// Said of a job that was cancelled in the second in which it started, and not by us. Slurm says that of jobs whose prolog
/// fails, and no more.
const ENDED_AT_ONCE: &str = "the batch system cancelled it in the second in which it started: it could not be launched \
     (see why its nodes are drained: sinfo -R, pbsnodes), or somebody cancelled it there";

/// A command that a look gives cause for.
#[derive(Debug)]
pub(super) enum Chore {
    /// Ends a job; then this is to be told.
    End { id: JobId, native: String, then: Vec<JobChange> },
    /// Ends a job with its reservation. When it is over is seen: it may ignore the signal for as long as it is given.
    Expire { id: JobId, native: String },
    /// Asks what became of a job that is not shown any more.
    Ask { id: JobId, native: String },
}

impl Batch {
    /// When it is to be looked again what became of jobs; None while there are none.
    pub fn next_look(&self) -> Option<Moment> {
        let state = self.state();
        let busy = state.jobs.live() > 0 || !state.unsure_jobs.is_empty() || !state.chores.is_empty();
        let last = state.looks.tried;
        let due = last.map_or(state.now, |last| last + state.settings.follow_every);
        let early = state.settings.end_jobs_early;
        let ends = state.jobs.next_end(last.unwrap_or(state.now).second(), early);
        let due = ends.map_or(due, |end| due.min(Moment::of(end)));
        (busy || !state.looks.is_there()).then_some(due.max(state.now))
    }

    /// Does what the last look gave cause for, one thing at least and until it is `enough`: ends jobs that should be gone, and
    /// asks for those that are not shown any more. The first failure is told; what was not done is found again by the next look.
    pub fn follow(&self, now: Moment, enough: impl Fn() -> bool) -> Result<(), LrmsError> {
        let chores = {
            let mut state = self.state();
            state.reach(now);
            std::mem::take(&mut state.chores)
        };
        let mut failure = Ok(());
        for chore in chores {
            let done = match chore {
                Chore::End { id, native, then } => self.end(id, &native, then),
                Chore::Expire { id, native } => self.expire(id, &native),
                Chore::Ask { id, native } => self.ask(id, &native),
            };
            failure = failure.and(done);
            if enough() {
                break;
            }
        }
        let mut state = self.state();
        let remembered = state.settings.remembered;
        state.jobs.forget_old(remembered);
        failure
    }

    fn end(&self, id: JobId, native: &str, then: Vec<JobChange>) -> Result<(), LrmsError> {
        if !then.is_empty() && !self.state().is_live(id) {
            return Ok(());
        }
        self.system.cancel(native)?;
        let mut state = self.state();
        then.into_iter().for_each(|change| state.tell(change));
        Ok(())
    }

    fn expire(&self, id: JobId, native: &str) -> Result<(), LrmsError> {
        self.system.cancel(native)?;
        if let Some(entry) = self.state().jobs.get_mut(id) {
            entry.ending = true;
        }
        Ok(())
    }

    fn ask(&self, id: JobId, native: &str) -> Result<(), LrmsError> {
        if !self.state().is_live(id) {
            return Ok(());
        }
        let fact = self.system.outcome(native)?;
        let mut state = self.state();
        match fact {
            Some(mut fact) => {
                // Only a look shows that it has got its go.
                let awaits_go = state.jobs.get(id).is_some_and(|entry| entry.awaits_go);
                fact.awaits_go |= awaits_go && fact.state == FactState::Running;
                state.take(id, &fact);
            }
            None => {
                let ending = state.jobs.get(id).is_some_and(|entry| entry.ending);
                state.tell_over(id, if ending { Ended::ReservationOver } else { Ended::Lost });
            }
        }
        Ok(())
    }
}

impl State {
    fn is_live(&self, id: JobId) -> bool {
        self.jobs.get(id).is_some_and(|entry| !entry.state.is_over())
    }

    /// Takes over what the look of a number shows of jobs.
    pub(super) fn follow(&mut self, number: u64, is_first: bool) {
        self.chores.clear();
        let shown = self.shown();
        self.find(&shown, is_first);
        for (id, facts) in &shown {
            // What we did since the look began is newer.
            if self.jobs.get(*id).is_some_and(|entry| entry.stamp < number) {
                self.end_doubles(*id, facts);
                self.take(*id, &facts[0]);
            }
        }
        let vanished = self.jobs.live_entries().filter(|entry| !shown.contains_key(&entry.id));
        let vanished = vanished.filter(|entry| entry.stamp < number).take(MOST_QUESTIONS);
        let asks = vanished.map(|entry| Chore::Ask { id: entry.id, native: entry.native.clone() });
        self.chores.extend(asks.collect::<Vec<_>>());
        self.unsure_jobs.retain(|_, begun| *begun >= number);
        let remembered = self.settings.remembered;
        self.jobs.forget_old(remembered);
    }

    /// The jobs with names of ours, the one that counts first where there are several of a name.
    fn shown(&self) -> BTreeMap<JobId, Vec<JobFact>> {
        let mut shown: BTreeMap<JobId, Vec<JobFact>> = BTreeMap::new();
        for fact in &self.looks.picture.jobs {
            let id = read_job(&fact.name, &self.settings.site);
            if let Some(id) = id.filter(|id| !self.submitting.contains(id)) {
                shown.entry(id).or_default().push(fact.clone());
            }
        }
        for (id, facts) in &mut shown {
            let known = self.jobs.get(*id).map(|entry| entry.native.clone());
            facts.sort_by_key(|fact| {
                let rank = (known.as_ref() != Some(&fact.native), fact.state.is_over());
                (rank, fact.state != FactState::Running, fact.submitted, fact.native.clone())
            });
        }
        shown
    }

    /// Notes jobs that nobody knew. Of those that are over only the first look counts: later they were forgotten.
    fn find(&mut self, shown: &BTreeMap<JobId, Vec<JobFact>>, is_first: bool) {
        let live = |facts: &[JobFact]| facts.iter().any(|fact| !fact.state.is_over());
        let unknown = shown.iter().filter(|(id, _)| self.jobs.get(**id).is_none());
        let mut unknown: Vec<(JobId, JobFact)> = unknown
            .filter(|(id, facts)| is_first || live(facts) || self.unsure_jobs.contains_key(id))
            .map(|(id, facts)| (*id, facts[0].clone()))
            .collect();
        unknown.sort_by_key(|(id, fact)| (fact.submitted, *id));
        for (id, fact) in unknown {
            let reservation = fact.reservations.iter().find_map(|handle| self.pieces.owner_of(handle));
            self.jobs.add(Entry::found(id, &fact, reservation));
        }
    }

    /// Ends what is there more than once, or is over for us and waits there still.
    fn end_doubles(&mut self, id: JobId, facts: &[JobFact]) {
        let over = self.jobs.get(id).is_some_and(|entry| entry.state.is_over());
        let first = facts.iter().take(1).filter(|fact| over && is_to_be_ended(fact));
        let doubles = facts.iter().skip(1).filter(|fact| !fact.state.is_over());
        let end = |fact: &JobFact| Chore::End { id, native: fact.native.clone(), then: Vec::new() };
        self.chores.extend(first.chain(doubles).map(end));
    }

    /// Takes over what is shown of a job; one that should be gone is to be ended first.
    fn take(&mut self, id: JobId, fact: &JobFact) {
        self.note_prospects(id, fact);
        let now = self.now.second();
        let Some(entry) = self.jobs.get(id).filter(|entry| !entry.state.is_over()) else { return };
        let orphaned = matches!(fact.state, FactState::Held { orphaned: true, .. });
        let unheard = entry.unheard && !fact.state.is_over();
        let outlives = fact.state == FactState::Running && self.outlives_its_reservation(entry);
        let became = if unheard {
            (JobState::Killed(Ended::Cancelled), now)
        } else {
            let backed = entry.reservation.is_some_and(|reservation| self.is_backed(reservation));
            state_of(entry, fact, backed, now)
        };
        let changes = changes(entry, fact, became);
        if outlives && !unheard && !entry.ending {
            self.chores.push(Chore::Expire { id, native: fact.native.clone() });
        }
        if orphaned || unheard {
            self.chores.push(Chore::End { id, native: fact.native.clone(), then: changes });
        } else {
            changes.into_iter().for_each(|change| self.tell(change));
        }
    }

    /// Notes when a job may start, when its reservation ends, and whether it has got its go.
    fn note_prospects(&mut self, id: JobId, fact: &JobFact) {
        let now = self.terms_now();
        let Some(entry) = self.jobs.get(id) else { return };
        let reservation = entry.reservation;
        let until = reservation.and_then(|reservation| self.pieces.end(reservation)).or(entry.until);
        let pieces = self.pieces.each().filter(|(of, _)| Some(*of) == reservation);
        let begins = pieces.flat_map(|(_, pieces)| pieces).map(|piece| piece.span.interval);
        let begin = begins.filter(|interval| !now.is_over(*interval)).map(|interval| interval.begin).min();
        let expected = fact.expected_start.or(begin.map(|begin| begin.max(now.time)));
        if let Some(entry) = self.jobs.get_mut(id) {
            (entry.until, entry.expected_start) = (until, expected);
            entry.native.clone_from(&fact.native);
            entry.awaits_go &= fact.state != FactState::Running || fact.awaits_go;
        }
    }

    /// Whether a job's reservation is over, or nearly so and another begins then whose jobs would have to wait for its end.
    fn outlives_its_reservation(&self, entry: &Entry) -> bool {
        let (now, early) = (self.now.second(), self.settings.end_jobs_early);
        let Some(until) = entry.until.filter(|_| entry.reservation.is_some()) else { return false };
        let others = self.looks.picture.reservations.iter().map(|reserved| reserved.interval.begin);
        let is_followed = || others.into_iter().any(|begin| until <= begin && begin < until + early);
        until <= now || (until - early <= now && is_followed())
    }

    fn is_backed(&self, reservation: ReservationId) -> bool {
        self.pieces.end(reservation).is_some_and(|end| end > self.now.second())
    }

    /// Notes what became of a job, to be told if it is new.
    fn tell(&mut self, change: JobChange) {
        if self.jobs.note(change.id, &change.state, change.at) {
            self.untold.push(change);
        }
    }

    /// It is over, since now.
    pub(super) fn tell_over(&mut self, id: JobId, why: Ended) {
        self.tell(JobChange { id, state: JobState::Killed(why), at: self.now.second() });
    }
}

/// Whether a job that is over for us is still to be ended there; one that runs may just be ending.
fn is_to_be_ended(fact: &JobFact) -> bool {
    matches!(fact.state, FactState::Waiting | FactState::Held { .. })
}

/// How it stands with a job now, and since when. `backed` says whether its reservation is still there.
fn state_of(entry: &Entry, fact: &JobFact, backed: bool, now: Time) -> (JobState, Time) {
    let ended = fact.ended.unwrap_or(now);
    let inside = entry.reservation.is_some();
    match &fact.state {
        FactState::Held { orphaned: true, .. } => (JobState::Killed(Ended::ReservationOver), now),
        FactState::Waiting | FactState::Held { .. } => (JobState::Waiting, now),
        FactState::Running if fact.awaits_go => (JobState::Claiming, fact.started.unwrap_or(now)),
        FactState::Running if entry.state == JobState::Claiming => (JobState::Running, now),
        FactState::Running => (JobState::Running, fact.started.unwrap_or(now)),
        // Codes from 128 on are those of signals.
        FactState::Cancelled | FactState::OutOfTime | FactState::Done { exit: 128.. } if entry.ending => {
            (JobState::Killed(Ended::ReservationOver), ended)
        }
        FactState::Done { exit: NO_GO } if got_no_go(entry, fact) => (JobState::Killed(Ended::NoGo), ended),
        FactState::Done { exit } => (JobState::Done { exit: *exit }, ended),
        FactState::Cancelled if inside && !backed => (JobState::Killed(Ended::ReservationOver), ended),
        FactState::Cancelled if fact.started.is_some() && fact.started == fact.ended => {
            (JobState::Killed(Ended::CouldNotStart(ENDED_AT_ONCE.into())), ended)
        }
        FactState::Cancelled => (JobState::Killed(Ended::Cancelled), ended),
        FactState::OutOfTime => (JobState::Killed(out_of_time(entry, fact)), ended),
        FactState::NotLaunched { why } => (JobState::Killed(Ended::CouldNotStart(why.clone())), ended),
        FactState::Failed { why } if fact.started.is_none() => {
            (JobState::Killed(Ended::CouldNotStart(why.clone())), ended)
        }
        FactState::Failed { why } => (JobState::Killed(Ended::Failed(why.clone())), ended),
    }
}

/// Whether nothing says that it has ever run.
fn got_no_go(entry: &Entry, fact: &JobFact) -> bool {
    entry.awaits_go || fact.awaits_go
}

/// Whether its own time was up or that of its reservation: what came first.
fn out_of_time(entry: &Entry, fact: &JobFact) -> Ended {
    let started = fact.started.or(entry.started);
    let own = started.zip(entry.limit.or(fact.limit)).map(|(started, limit)| started + limit);
    let over = match (own, entry.until) {
        (Some(own), Some(until)) => until < own,
        (None, Some(_)) => true,
        // Of one that was found it may not be known that it was inside a reservation; it did not have its time.
        (Some(own), None) => entry.job.is_none() && fact.ended.is_some_and(|ended| ended < own),
        (None, None) => false,
    };
    if over { Ended::ReservationOver } else { Ended::Limit }
}

/// What is to be told where a job stands so: that it started is told before that it is over.
fn changes(entry: &Entry, fact: &JobFact, (state, at): (JobState, Time)) -> Vec<JobChange> {
    let id = entry.id;
    let since = match entry.state {
        JobState::Waiting => fact.started,
        JobState::Claiming => Some(at),
        _ => None,
    };
    let never = matches!(state, JobState::Killed(Ended::NoGo | Ended::CouldNotStart(_)));
    let began = since.filter(|_| state.is_over() && !fact.awaits_go && !never);
    let began = began.map(|started| JobChange { id, state: JobState::Running, at: started.min(at) });
    began.into_iter().chain([JobChange { id, state, at }]).collect()
}
