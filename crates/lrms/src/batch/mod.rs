//! Batch systems that are driven by their commands.
//!
//! - [`system`]: what each of them is asked and told
//! - [`Batch`]: what follows from the answers, once for all of them; [`crate::worker`] carries out orders by it
//! - [`tag`]: the names by which it finds again what it made
//! - [`accounts`]: as whom things are done
//! - [`projects`]: on whose behalf
//!
//! What is kept and which jobs there are is always read from the batch system itself; nothing is stored here. Between
//! two looks it remembers what it did. Where a command was not answered it looks before it does anything more.
//!
//! # Several at once
//! Several threads may call at once, but only one at a time for each reservation and each job. One look serves all callers
//! that asked for one before it began. The state is behind one lock, which is never held while a command runs.
//!
//! It relies on the dialect to undo a grant that falls short. It never does anything where nothing has to change.
//!
//! # Bounds
//! So many jobs may wait or run, and of those that are over so many are remembered, as with the built-in scheduler.

pub mod accounts;
mod backing;
mod became;
mod examine;
mod finding;
mod following;
mod hollow;
mod kept;
mod pieces;
mod plan;
pub mod projects;
mod register;
mod room;
mod sight;
mod state;
mod submitting;
pub mod system;
pub mod tag;
mod terms;
mod view;

pub use accounts::Accounts;
pub use finding::{Finding, Grade};
pub use projects::Projects;
pub use system::{
    BatchSystem, FactState, Handle, JobFact, NO_GO, Node, Picture, Place, Reserved, Share, Submission,
    Traits, Unit, Wanted,
};
pub use tag::Tag;

use crate::GO_WITHIN;
use crate::builtin::{MOST_JOBS, REMEMBERED};
use crate::error::LrmsError;
use bookahead_party::{JobChange, Look};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{Millis, Moment, Name};
pub(crate) use sight::Looked;
use state::State;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// A look is good for choosing where to reserve until it is this old. What has changed since costs a refusal at worst,
/// after which it is looked again; a site looks more often than that anyway.
const LOOK_AGAIN_AFTER: Millis = Millis::seconds(30);

/// How a batch system is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// What the site is called: several may use one cluster.
    pub site: Name,
    /// Its resources, with what it offers of each. No node belongs to two of them.
    pub places: Vec<(Place, Capacity)>,
    /// As whom things are done.
    pub accounts: Accounts,
    /// On whose behalf, where the batch system keeps account of that.
    pub projects: Projects,
    /// Reservations are made by a look until it is this old.
    pub look_again_after: Millis,
    /// While there are jobs of ours it is looked so often what became of them.
    pub follow_every: Millis,
    /// So many jobs of ours may wait or run.
    pub most_jobs: usize,
    /// Of those that are over so many are remembered.
    pub remembered: usize,
    /// A job that claims waits this long for its go.
    pub go_within: Seconds,
}

impl Settings {
    /// With a look every second while there are jobs, and without projects.
    pub fn new(site: Name, places: Vec<(Place, Capacity)>, accounts: Accounts) -> Settings {
        Settings {
            site,
            places,
            accounts,
            projects: Projects::default(),
            look_again_after: LOOK_AGAIN_AFTER,
            follow_every: Millis::seconds(1),
            most_jobs: MOST_JOBS,
            remembered: REMEMBERED,
            go_within: GO_WITHIN,
        }
    }
}

/// A batch system, as orders are carried out by it.
pub struct Batch {
    system: Box<dyn BatchSystem>,
    settings: Arc<Settings>,
    state: Mutex<State>,
    /// A look has ended.
    looked: Condvar,
}

impl Batch {
    /// One that has not looked yet.
    pub fn new(system: Box<dyn BatchSystem>, settings: Settings) -> Result<Batch, LrmsError> {
        settings.accounts.check()?;
        settings.projects.check()?;
        let traits = system.traits();
        let longest = traits.longest_name;
        if longest < tag::SHORTEST {
            return Err(LrmsError::Misconfigured(format!(
                "names of at most {longest} characters are too short to find things by; {} are needed",
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

    /// What is there: a look that begins after this was called.
    pub fn look(&self, now: Moment) -> Result<Look, LrmsError> {
        self.look_anew(now)?;
        Ok(self.seen())
    }

    /// What became of jobs since this was last asked, in the order in which it happened.
    pub fn changes(&self) -> Vec<JobChange> {
        let mut changes = std::mem::take(&mut self.state().untold);
        changes.sort_by_key(|change| change.at);
        changes
    }

    /// What the last look showed, with what was done since.
    pub fn seen(&self) -> Look {
        self.state().look()
    }

    /// The number of the last look that has begun. Only looks with higher numbers show what is done from now on.
    pub(crate) fn looks_begun(&self) -> u64 {
        self.state().sight.begun
    }

    fn look_anew(&self, now: Moment) -> Result<(), LrmsError> {
        self.look_after(now, self.looks_begun()).outcome
    }

    /// Looks, or waits for the look that is under way.
    fn look_again(&self, now: Moment) -> Result<(), LrmsError> {
        let ended = self.state().sight.looks().1;
        self.look_after(now, ended).outcome
    }

    /// When to look again so that the last look does not get too old for making reservations.
    pub(crate) fn next_refresh(&self) -> Option<Moment> {
        let half = Millis(self.settings.look_again_after.0 / 2);
        self.state().sight.tried.map(|tried| tried + half)
    }

    /// Waits for a look with a higher number than `begun`, and takes it if no other thread does.
    pub(crate) fn look_after(&self, now: Moment, begun: u64) -> Looked {
        let asked = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(looked) = state.sight.ended_after(begun) {
                return looked;
            }
            if !state.sight.is_under_way() {
                break;
            }
            state = self.looked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let waited = Millis(i64::try_from(asked.elapsed().as_millis()).unwrap_or(i64::MAX));
        let now = state.reach(now + waited);
        state.sight.begin(now);
        drop(state);
        let seen = self.system.look();
        let looked = self.state().end_look(seen);
        self.looked.notify_all();
        looked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
