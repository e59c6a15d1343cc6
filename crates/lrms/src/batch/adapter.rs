//! [`Batch`]: carries out orders with any batch system that is driven by commands. This file has its state, the looks,
//! and their limits; the orders themselves are in `backing` (reservations), `submitting` and `following` (jobs).

use super::accounts::Accounts;
use super::looks::{Looked, Looks};
use super::pieces::{Now, Pieces};
use super::register::Register;
use super::settings::Settings;
use super::system::{BatchSystem, Picture, Place, Traits, Unreadable};
use super::tag::{self, Tag};
use crate::error::LrmsError;
use bookahead_party::{JobChange, Look, Sharing};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, Millis, Moment, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A batch system that executes orders.
pub struct Batch {
    pub(super) system: Box<dyn BatchSystem>,
    pub(super) settings: Arc<Settings>,
    state: Mutex<State>,
    /// Signals the end of a look.
    looked: Condvar,
}

impl Batch {
    /// Validates the settings. Runs no command.
    pub fn new(system: Box<dyn BatchSystem>, settings: Settings) -> Result<Batch, LrmsError> {
        settings.accounts.check()?;
        settings.projects.check()?;
        let traits = system.traits();
        let longest = traits.longest_name;
        if longest < tag::SHORTEST {
            return Err(LrmsError::Misconfigured(format!(
                "names of at most {longest} characters are too short to identify reservations; at least {} are needed",
                tag::SHORTEST
            )));
        }
        for (at, (place, _)) in settings.places.iter().enumerate() {
            if settings.places[..at].iter().any(|(other, _)| other.resource == place.resource) {
                return Err(LrmsError::SameName { resource: place.resource.clone() });
            }
        }
        let settings = Arc::new(settings);
        let state = Mutex::new(State::new(settings.clone(), traits));
        Ok(Batch { system, settings, state, looked: Condvar::new() })
    }

    /// Whether a waiting job can be moved into a reservation.
    pub fn binds_jobs(&self) -> bool {
        self.state().traits.moves_jobs
    }

    /// Whether a job that is over can go back to the queue, and a running one can get a signal.
    pub fn requeues_jobs(&self) -> bool {
        self.state().traits.requeues_jobs
    }

    /// Whether jobs of several users can use one reservation. If all jobs run as one account, they can anyway.
    pub fn sharing(&self) -> Sharing {
        match self.settings.accounts {
            Accounts::Service(_) => Sharing::Always,
            Accounts::Owners { .. } => self.state().traits.sharing,
        }
    }

    /// Whether a reservation can attract jobs of its owner, and only those. If all jobs run as one account, it would
    /// attract those of everyone.
    pub fn attracts(&self) -> bool {
        matches!(self.settings.accounts, Accounts::Owners { .. }) && self.state().traits.attracts
    }

    /// Takes a look that begins after this call, and returns its result.
    pub fn look(&self, now: Moment) -> Result<Look, LrmsError> {
        self.look_anew(now)?;
        Ok(self.seen())
    }

    /// Changes of jobs since the last call, in order of time.
    pub fn changes(&self) -> Vec<JobChange> {
        let mut changes = std::mem::take(&mut self.state().untold);
        // The sort is stable: changes of one job in the same second keep their order.
        changes.sort_by_key(|change| change.at);
        changes
    }

    /// Jobs submitted or found since the last call, each with its native id.
    pub fn names(&self) -> Vec<(JobId, String)> {
        std::mem::take(&mut self.state().jobs.unnamed)
    }

    /// The last look, with our own changes since.
    pub fn seen(&self) -> Look {
        self.state().look()
    }

    /// Number of the last look begun. Only looks with higher numbers show later changes.
    pub(crate) fn looks_begun(&self) -> u64 {
        self.state().looks.begun
    }

    pub(super) fn look_anew(&self, now: Moment) -> Result<(), LrmsError> {
        self.look_after(now, self.looks_begun()).outcome
    }

    /// Takes a look, or waits for the one in progress.
    pub(super) fn look_again(&self, now: Moment) -> Result<(), LrmsError> {
        let ended = self.state().looks.numbers().1;
        self.look_after(now, ended).outcome
    }

    /// When to look again to keep the last look recent enough for choosing nodes.
    pub(crate) fn next_refresh(&self) -> Option<Moment> {
        // Half the age: the next look must end before the last one gets too old.
        let half = Millis(self.settings.look_again_after.0 / 2);
        self.state().looks.tried.map(|tried| tried + half)
    }

    /// Waits for a look with a number above `begun`; takes it if no other thread does.
    pub(crate) fn look_after(&self, now: Moment, begun: u64) -> Looked {
        let asked = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(looked) = state.looks.ended_after(begun) {
                return looked;
            }
            if !state.looks.is_under_way() {
                break;
            }
            state = self.looked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        // The wait may have been long, and `now` is the time of the call.
        let now = state.reach(now + since(asked));
        state.looks.begin(now);
        // The command may take seconds, and orders must not wait for the lock meanwhile.
        drop(state);
        let began = Instant::now();
        let seen = self.system.look();
        let looked = self.state().end_look(seen, since(began));
        self.looked.notify_all();
        looked
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn since(instant: Instant) -> Millis {
    Millis(i64::try_from(instant.elapsed().as_millis()).unwrap_or(i64::MAX))
}

/// A command that follows from a look.
#[derive(Debug)]
pub(super) enum Chore {
    /// Cancels a job and then reports `then`.
    End { id: JobId, native: String, then: Vec<JobChange> },
    /// Cancels a job at the end of its reservation. Its end is not reported yet: the job may ignore the signal for
    /// some time.
    Expire { id: JobId, native: String },
    /// Queries the fate of a job that is no longer shown.
    Ask { id: JobId, native: String },
}

/// What is known of the batch system and of our jobs in it, behind the lock of [`Batch`].
pub(super) struct State {
    pub(super) settings: Arc<Settings>,
    pub(super) traits: Traits,
    pub(super) now: Moment,
    pub(super) looks: Looks,
    pub(super) pieces: Pieces,
    pub(super) jobs: Register,
    /// Jobs whose submission was not answered, each with the number of the last look begun then.
    pub(super) unsure_jobs: BTreeMap<JobId, u64>,
    /// Jobs whose submission is in progress. Looks ignore them: a job without a known native id would look like a
    /// duplicate.
    pub(super) submitting: BTreeSet<JobId>,
    /// Changes of jobs that are not reported yet.
    pub(super) untold: Vec<JobChange>,
    /// Commands that follow from the last look.
    pub(super) chores: Vec<Chore>,
}

impl State {
    fn new(settings: Arc<Settings>, traits: Traits) -> State {
        State {
            settings,
            traits,
            now: Moment(i64::MIN),
            looks: Looks::default(),
            pieces: Pieces::default(),
            jobs: Register::default(),
            unsure_jobs: BTreeMap::new(),
            submitting: BTreeSet::new(),
            untold: Vec::new(),
            chores: Vec::new(),
        }
    }

    pub(super) fn place(&self, resource: &Name) -> Result<&(Place, Capacity), LrmsError> {
        let unknown = || LrmsError::UnknownResource { resource: resource.clone() };
        self.settings.places.iter().find(|(place, _)| place.resource == *resource).ok_or_else(unknown)
    }

    /// Time never goes back, even if callers on several threads pass their times out of order.
    pub(super) fn reach(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    pub(super) fn terms_now(&self) -> Now {
        Now { time: self.now.second(), step: self.traits.smallest_step.max(Seconds(1)) }
    }

    fn end_look(&mut self, seen: Result<Picture, LrmsError>, took: Millis) -> Looked {
        let is_first = !self.looks.is_there();
        let looked = self.looks.end(seen.and_then(|picture| self.all_ours(picture)), took);
        // A failed look leaves the last picture as it is.
        if looked.outcome.is_ok() {
            let now = self.terms_now();
            self.pieces.learn(&self.looks.picture, looked.number, &self.settings, now);
            self.follow(looked.number, is_first);
        }
        looked
    }

    /// Fails if a reservation of this site cannot be parsed and was not seen before: it would be taken for deleted.
    fn all_ours(&self, picture: Picture) -> Result<Picture, LrmsError> {
        let is_lost = |one: &&Unreadable| match one {
            Unreadable::Reservation { handle, name } => {
                !self.looks.knows(handle) && Tag::read(name, &self.settings.site).is_some()
            }
            _ => false,
        };
        match picture.unreadable.iter().find(is_lost) {
            None => Ok(picture),
            Some(lost) => Err(LrmsError::Unreadable {
                command: "the query of reservations".into(),
                why: format!("{lost} belongs to this site, and its state or times are invalid"),
            }),
        }
    }

    /// Whether nodes can be chosen by the last look: it is recent, and the outcome of every command since is known.
    pub(super) fn can_choose(&self) -> bool {
        self.looks.is_young(self.now, self.settings.look_again_after) && self.pieces.is_sure()
    }
}
