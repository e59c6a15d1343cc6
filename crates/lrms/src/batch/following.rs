//! Follows the jobs of this site. A batch system sends no notifications, so it is polled while there are jobs. Jobs
//! are recognised by their names. This also finds jobs from before a restart, and those whose submission was not
//! answered.
//!
//! A job whose reservation is gone would wait forever, so it is cancelled. So is a job that outlives its reservation,
//! as batch systems are slow to end it, and a second job with the same name. The end of a job is reported as the
//! batch system reports it: a job that ignores a signal lives some seconds longer. Failed actions are retried after
//! the next look.

use super::adapter::{Batch, Chore, State};
use super::register::Entry;
use super::system::{FactState, JobFact, NO_GO};
use super::tag::read_job;
use crate::error::LrmsError;
use bookahead_party::{Ended, JobChange, JobState};
use bookahead_plan::Time;
use bookahead_protocol::{JobId, Moment, ReservationId};
use std::collections::BTreeMap;

/// Limit of queries for vanished jobs after each look: each costs a command or two, and the next look must not wait
/// long for them.
const MOST_QUESTIONS: usize = 50;

/// Reported for a job that was cancelled within a second of its start, and not by us. Slurm shows no more than
/// that for jobs whose prolog fails.
const ENDED_AT_ONCE: &str = "the batch system cancelled it within a second of its start: it could not be launched \
     (see why its nodes are drained: sinfo -R, pbsnodes), or another user cancelled it there";

impl Batch {
    /// When to look at the jobs again; None while there are none.
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

    /// Runs the commands that follow from the last look, at least one, until `enough` returns true. Returns the first
    /// error; the next look finds what remains.
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
        // A report is pending only for a job that we believe alive. If it ended meanwhile, there is nothing to
        // cancel.
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
                // The accounting does not show whether the job got its go-ahead; only a look does.
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

    /// Applies the jobs of look `number` to the register.
    pub(super) fn follow(&mut self, number: u64, is_first: bool) {
        self.chores.clear();
        let shown = self.shown();
        self.find(&shown, is_first);
        for (id, facts) in &shown {
            // Our own actions since the look began are newer.
            if self.jobs.get(*id).is_some_and(|entry| entry.stamp < number) {
                self.revive(*id, &facts[0]);
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

    /// Jobs with names of this site. If several have the same name, the authoritative one is first.
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
            // The native id that we know wins, then jobs that are alive, running ones first. One on hold is last: if
            // another was released, it was submitted by a process that had lost its journal.
            facts.sort_by_key(|fact| {
                let held = matches!(fact.state, FactState::Held { .. });
                let rank = (known.as_ref() != Some(&fact.native), held, fact.state.is_over());
                (rank, fact.state != FactState::Running, fact.submitted, fact.native.clone())
            });
        }
        shown
    }

    /// Registers unknown jobs. Finished ones only at the first look: later they are jobs that were forgotten on
    /// purpose.
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

    /// A job that was over is in the queue again: by our order whose answer was lost, or by the batch system.
    fn revive(&mut self, id: JobId, fact: &JobFact) {
        let over = self.jobs.get(id).filter(|entry| entry.state.is_over());
        if over.is_some_and(|entry| entry.restarts < fact.restarts && !fact.state.is_over()) {
            self.jobs.requeued(id, fact.restarts, 0);
        }
    }

    /// Cancels duplicates, and a waiting job that has already ended for us.
    fn end_doubles(&mut self, id: JobId, facts: &[JobFact]) {
        let over = self.jobs.get(id).is_some_and(|entry| entry.state.is_over());
        let first = facts.iter().take(1).filter(|fact| over && is_to_be_ended(fact));
        let doubles = facts.iter().skip(1).filter(|fact| !fact.state.is_over());
        let end = |fact: &JobFact| Chore::End { id, native: fact.native.clone(), then: Vec::new() };
        self.chores.extend(first.chain(doubles).map(end));
    }

    /// Applies the state of a job. A job that must go is cancelled before its end is reported.
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

    /// Notes when a job may start, when its reservation ends, and whether it got its go-ahead.
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
            // A fact from the accounting does not tell.
            entry.restarts = entry.restarts.max(fact.restarts);
            // One way only: a job that got its go-ahead never waits for it again.
            entry.awaits_go &= fact.state != FactState::Running || fact.awaits_go;
        }
    }

    /// Whether a job's reservation is over; or nearly so, if another reservation begins then and its jobs would have
    /// to wait.
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

    /// Records a change of a job, and queues a report if it is new.
    fn tell(&mut self, change: JobChange) {
        if self.jobs.note(change.id, &change.state, change.at) {
            self.untold.push(change);
        }
    }

    /// Records that a job is over as of now.
    pub(super) fn tell_over(&mut self, id: JobId, why: Ended) {
        self.tell(JobChange { id, state: JobState::Killed(why), at: self.now.second() });
    }
}

/// Whether to cancel a job that is over for us. A running one may just be ending.
fn is_to_be_ended(fact: &JobFact) -> bool {
    matches!(fact.state, FactState::Waiting | FactState::Held { .. })
}

/// The state of a job and since when. `backed`: whether its reservation still exists.
fn state_of(entry: &Entry, fact: &JobFact, backed: bool, now: Time) -> (JobState, Time) {
    let ended = fact.ended.unwrap_or(now);
    let inside = entry.reservation.is_some();
    match &fact.state {
        FactState::Held { orphaned: true, .. } => (JobState::Killed(Ended::ReservationOver), now),
        FactState::Waiting | FactState::Held { .. } => (JobState::Waiting, now),
        FactState::Running if fact.awaits_go => (JobState::Claiming, fact.started.unwrap_or(now)),
        // The job started earlier, but until now it only waited for its go-ahead.
        FactState::Running if entry.state == JobState::Claiming => (JobState::Running, now),
        FactState::Running => (JobState::Running, fact.started.unwrap_or(now)),
        // Shells report a signal as exit code 128 plus its number.
        FactState::Cancelled | FactState::OutOfTime | FactState::Done { exit: 128.. } if entry.ending => {
            (JobState::Killed(Ended::ReservationOver), ended)
        }
        FactState::Done { exit: NO_GO } if got_no_go(entry, fact) => (JobState::Killed(Ended::NoGo), ended),
        FactState::Done { exit } => (JobState::Done { exit: *exit }, ended),
        FactState::Cancelled if inside && !backed => (JobState::Killed(Ended::ReservationOver), ended),
        FactState::Cancelled if ended_at_once(fact) => {
            (JobState::Killed(Ended::CouldNotStart(ENDED_AT_ONCE.into())), ended)
        }
        FactState::Cancelled => (JobState::Killed(Ended::Cancelled), ended),
        FactState::OutOfTime => (JobState::Killed(out_of_time(entry, fact)), ended),
        FactState::NotLaunched { why } => (JobState::Killed(Ended::CouldNotStart(why.clone())), ended),
        FactState::NodeFailed { why } if fact.started.is_some() => {
            (JobState::Killed(Ended::NodeFailed(why.clone())), ended)
        }
        FactState::Failed { why } | FactState::NodeFailed { why } if fact.started.is_none() => {
            (JobState::Killed(Ended::CouldNotStart(why.clone())), ended)
        }
        FactState::Failed { why } | FactState::NodeFailed { why } => {
            (JobState::Killed(Ended::Failed(why.clone())), ended)
        }
    }
}

/// Whether a job ended within a second of its start. Batch systems count whole seconds, so the two may differ by one.
fn ended_at_once(fact: &JobFact) -> bool {
    fact.started.zip(fact.ended).is_some_and(|(started, ended)| (ended - started).0 <= 1)
}

fn got_no_go(entry: &Entry, fact: &JobFact) -> bool {
    entry.awaits_go || fact.awaits_go
}

/// Whether the job's own time limit or the end of its reservation came first.
fn out_of_time(entry: &Entry, fact: &JobFact) -> Ended {
    let started = fact.started.or(entry.started);
    let own = started.zip(entry.limit.or(fact.limit)).map(|(started, limit)| started + limit);
    let over = match (own, entry.until) {
        (Some(own), Some(until)) => until < own,
        (None, Some(_)) => true,
        // A job found after a restart may have been in a reservation without our knowing; if it ended before its
        // limit, it was.
        (Some(own), None) => entry.job.is_none() && fact.ended.is_some_and(|ended| ended < own),
        (None, None) => false,
    };
    if over { Ended::ReservationOver } else { Ended::Limit }
}

/// The reports for a new state. The start of a job is reported before its end.
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
