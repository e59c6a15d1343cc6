//! What becomes of the jobs of this site. A batch system works by itself and tells nobody, so it is asked from time to time,
//! while there are jobs to ask for. They are known by their names, so that also those are found which were
//! submitted before a restart, or by a command that was not answered.
//!
//! A job that waits for a reservation which is no more would wait for ever, and is ended; so is one that runs on when its
//! reservation is over, since batch systems take their time for that, and a second one of the same name. What cannot
//! be done now is tried again the next time.

use super::Batch;
use super::became;
use super::register::Entry;
use super::system::{FactState, JobFact};
use super::tag::read_job;
use crate::error::LrmsError;
use crate::job::{JobChange, JobState, Why};
use bookahead_plan::Time;
use bookahead_protocol::{JobId, Moment, ReservationId};
use std::collections::BTreeMap;

/// Of so many jobs that are not shown any more it is asked at a time what became of them; of the others the next time.
const MOST_QUESTIONS: usize = 50;

/// What a round of asking has brought.
#[derive(Default)]
struct Round {
    changes: Vec<JobChange>,
    /// The first thing that could not be done.
    failure: Option<LrmsError>,
}

impl Batch {
    /// Looks what became of jobs, if it is time to.
    pub(super) fn follow_in_time(&mut self) -> Result<(), LrmsError> {
        match self.next_look() {
            Some(due) if due <= self.now => self.follow(),
            _ => Ok(()),
        }
    }

    /// When it is to be looked again what became of jobs.
    pub(super) fn next_look(&self) -> Option<Moment> {
        let busy = self.jobs.live() > 0 || !self.unsure_jobs.is_empty() || self.surprised || !self.met;
        let due = self.followed.map_or(self.now, |last| last + self.settings.follow_every);
        let ends = self.jobs.next_end(self.followed.map_or(self.now.second(), Moment::second));
        let due = ends.map_or(due, |end| due.min(Moment::of(end)));
        busy.then_some(due.max(self.now))
    }

    /// Makes sure that jobs are known that were submitted before a restart.
    pub(super) fn meet(&mut self) -> Result<(), LrmsError> {
        if self.met { Ok(()) } else { self.follow() }
    }

    /// Looks what became of jobs.
    pub(super) fn follow(&mut self) -> Result<(), LrmsError> {
        self.followed = Some(self.now);
        self.fresh(self.now)?;
        let mut round = Round::default();
        let shown = self.shown();
        self.find(&shown);
        for (id, facts) in &shown {
            self.end_doubles(*id, facts, &mut round);
            self.take(*id, &facts[0], &mut round);
        }
        self.ask_for_vanished(&shown, &mut round);
        (self.met, self.surprised) = (true, false);
        self.unsure_jobs.clear();
        round.changes.sort_by_key(|change| change.at);
        round.changes.into_iter().for_each(|change| self.tell(change));
        self.jobs.forget_old(self.settings.remembered);
        round.failure.map_or(Ok(()), Err)
    }

    /// The jobs with names of ours, the one that counts first where there are several of a name.
    fn shown(&self) -> BTreeMap<JobId, Vec<JobFact>> {
        let mut shown: BTreeMap<JobId, Vec<JobFact>> = BTreeMap::new();
        for fact in &self.sight.picture().jobs {
            if let Some(id) = read_job(&fact.name, &self.settings.site) {
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

    /// Whether a look shows a job of ours that waits or runs although nobody knows of it.
    pub(super) fn shows_unknown_jobs(&self) -> bool {
        let live = self.sight.picture().jobs.iter().filter(|fact| !fact.state.is_over());
        let mut ours = live.filter_map(|fact| Some((read_job(&fact.name, &self.settings.site)?, fact)));
        ours.any(|(id, fact)| match self.jobs.get(id) {
            None => true,
            Some(entry) => entry.state.is_over() && is_to_be_ended(fact),
        })
    }

    /// Notes jobs that nobody knew. Of those that are over only the first look counts: later they were forgotten.
    fn find(&mut self, shown: &BTreeMap<JobId, Vec<JobFact>>) {
        let live = |facts: &[JobFact]| facts.iter().any(|fact| !fact.state.is_over());
        let unknown = shown.iter().filter(|(id, _)| self.jobs.get(**id).is_none());
        let mut unknown: Vec<(JobId, JobFact)> = unknown
            .filter(|(id, facts)| !self.met || live(facts) || self.unsure_jobs.contains(id))
            .map(|(id, facts)| (*id, facts[0].clone()))
            .collect();
        unknown.sort_by_key(|(id, fact)| (fact.submitted, *id));
        for (id, fact) in unknown {
            let reservation = fact.reservations.iter().find_map(|handle| self.pieces.owner_of(handle));
            self.jobs.add(Entry::found(id, &fact, reservation));
        }
    }

    /// Ends what is there more than once, or is over for us and waits there still.
    fn end_doubles(&mut self, id: JobId, facts: &[JobFact], round: &mut Round) {
        let over = self.jobs.get(id).is_some_and(|entry| entry.state.is_over());
        let first = facts.iter().take(1).filter(|fact| over && is_to_be_ended(fact));
        let doubles = facts.iter().skip(1).filter(|fact| !fact.state.is_over());
        let natives: Vec<String> = first.chain(doubles).map(|fact| fact.native.clone()).collect();
        for native in natives {
            self.end(&native, round);
        }
    }

    /// Takes over what is shown of a job.
    fn take(&mut self, id: JobId, fact: &JobFact, round: &mut Round) {
        self.note_prospects(id, fact);
        let Some(entry) = self.jobs.get(id).filter(|entry| !entry.state.is_over()) else { return };
        let orphaned = matches!(fact.state, FactState::Held { orphaned: true, .. });
        let unheard = entry.unheard && !fact.state.is_over();
        let outlives = fact.state == FactState::Running && entry.outlives_its_reservation(self.now.second());
        if (orphaned || unheard || outlives) && !self.end(&fact.native, round) {
            return;
        }
        let Some(entry) = self.jobs.get(id) else { return };
        let became = if unheard {
            (JobState::Killed(Why::Cancelled), self.now.second())
        } else if outlives {
            (JobState::Killed(Why::ReservationOver), self.now.second())
        } else {
            let backed = entry.reservation.is_some_and(|reservation| self.is_backed(reservation));
            became::now(entry, fact, backed, self.now.second())
        };
        round.changes.extend(became::changes(entry, fact, became));
    }

    /// Notes when a job may start, and when its reservation ends.
    fn note_prospects(&mut self, id: JobId, fact: &JobFact) {
        let now = self.terms_now(self.now);
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
        }
    }

    fn is_backed(&self, reservation: ReservationId) -> bool {
        self.pieces.end(reservation).is_some_and(|end| end > self.now.second())
    }

    /// Asks what became of jobs that are not shown any more.
    fn ask_for_vanished(&mut self, shown: &BTreeMap<JobId, Vec<JobFact>>, round: &mut Round) {
        let vanished = self.jobs.live_ids().into_iter().filter(|id| !shown.contains_key(id));
        for id in vanished.take(MOST_QUESTIONS).collect::<Vec<_>>() {
            let Some(native) = self.jobs.get(id).map(|entry| entry.native.clone()) else { continue };
            match self.system.outcome(&native) {
                Ok(Some(fact)) => self.take(id, &fact, round),
                Ok(None) => {
                    let (state, at) = (JobState::Killed(Why::Lost), self.now.second());
                    round.changes.push(JobChange { id, state, at });
                }
                Err(why) => {
                    round.failure.get_or_insert(why);
                    return;
                }
            }
        }
    }

    /// Ends a job; answers whether the batch system has heard it.
    fn end(&mut self, native: &str, round: &mut Round) -> bool {
        let ended = self.system.cancel(native);
        self.sight.outdate();
        match ended {
            Ok(()) => true,
            Err(why) => {
                round.failure.get_or_insert(why);
                false
            }
        }
    }

    /// Notes what became of a job, to be told if it is new.
    pub(super) fn tell(&mut self, change: JobChange) {
        if self.jobs.note(change.id, &change.state, change.at) {
            self.untold.push(change);
        }
    }

    /// It is over, by our own doing.
    pub(super) fn tell_over(&mut self, id: JobId, why: Why, at: Time) {
        self.tell(JobChange { id, state: JobState::Killed(why), at });
    }
}

/// Whether a job that is over for us is still to be ended there; one that runs may just be ending.
fn is_to_be_ended(fact: &JobFact) -> bool {
    matches!(fact.state, FactState::Waiting | FactState::Held { .. })
}
