//! Batch systems that are driven by their commands.
//!
//! - [`system`]: what each of them is asked and told
//! - [`Batch`]: what follows from the answers, once for all of them; [`crate::worker`] carries out orders by it
//! - [`tag`]: the names by which it finds again what it made
//! - [`accounts`]: as whom things are done, and on whose behalf
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
mod examine;
mod following;
mod looks;
mod pieces;
mod plan;
mod register;
mod submitting;
pub mod system;
pub mod tag;
mod view;

use crate::GO_WITHIN;
use crate::builtin::{MOST_JOBS, REMEMBERED};
use crate::error::LrmsError;
pub use accounts::{Accounts, Projects};
use bookahead_party::{JobChange, Look};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, Millis, Moment, Name};
pub use examine::{Finding, Grade};
use following::Chore;
pub(crate) use looks::Looked;
use looks::Looks;
use pieces::Pieces;
use register::Register;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
pub use system::{
    BatchSystem, FactState, Handle, JobFact, JobSystem, NO_GO, Node, Picture, Place, ReservationSystem,
    Reserved, Share, Submission, Traits, Unit, Unreadable, Wanted,
};
pub(crate) use system::{add_cores, count, total};
pub use tag::Tag;
use view::ResourceView;

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
    /// So long a job that claims may get its go. The job itself waits half as long again.
    pub go_within: Seconds,
    /// Jobs are ended this long before their reservation ends, where another begins then.
    pub end_jobs_early: Seconds,
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
            end_jobs_early: Seconds::ZERO,
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

    /// Whether a job that waits can be given a reservation.
    pub fn binds_jobs(&self) -> bool {
        self.state().traits.moves_jobs
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

    /// Jobs that were submitted or found since this was last asked, each with what it is called there.
    pub fn names(&self) -> Vec<(JobId, String)> {
        std::mem::take(&mut self.state().jobs.unnamed)
    }

    /// What the last look showed, with what was done since.
    pub fn seen(&self) -> Look {
        self.state().look()
    }

    /// The number of the last look that has begun. Only looks with higher numbers show what is done from now on.
    pub(crate) fn looks_begun(&self) -> u64 {
        self.state().looks.begun
    }

    fn look_anew(&self, now: Moment) -> Result<(), LrmsError> {
        self.look_after(now, self.looks_begun()).outcome
    }

    /// Looks, or waits for the look that is under way.
    fn look_again(&self, now: Moment) -> Result<(), LrmsError> {
        let ended = self.state().looks.numbers().1;
        self.look_after(now, ended).outcome
    }

    /// When to look again so that the last look does not get too old for making reservations.
    pub(crate) fn next_refresh(&self) -> Option<Moment> {
        let half = Millis(self.settings.look_again_after.0 / 2);
        self.state().looks.tried.map(|tried| tried + half)
    }

    /// Waits for a look with a higher number than `begun`, and takes it if no other thread does.
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
        let now = state.reach(now + since(asked));
        state.looks.begin(now);
        drop(state);
        let began = Instant::now();
        let seen = self.system.look();
        let looked = self.state().end_look(seen, since(began));
        self.looked.notify_all();
        looked
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn since(instant: Instant) -> Millis {
    Millis(i64::try_from(instant.elapsed().as_millis()).unwrap_or(i64::MAX))
}

struct State {
    settings: Arc<Settings>,
    traits: Traits,
    now: Moment,
    looks: Looks,
    pieces: Pieces,
    jobs: Register,
    /// Jobs whose submission was not answered, each with the number of the last look that had begun then.
    unsure_jobs: BTreeMap<JobId, u64>,
    /// Jobs that are being submitted. Looks ignore them, so that a half-known job is not taken for a double.
    submitting: BTreeSet<JobId>,
    /// What became of jobs and was not told yet.
    untold: Vec<JobChange>,
    /// What is to be done about jobs, by the last look.
    chores: Vec<Chore>,
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

    fn place(&self, resource: &Name) -> Result<&(Place, Capacity), LrmsError> {
        let unknown = || LrmsError::UnknownResource { resource: resource.clone() };
        self.settings.places.iter().find(|(place, _)| place.resource == *resource).ok_or_else(unknown)
    }

    /// Time never goes back.
    fn reach(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    fn terms_now(&self) -> plan::Now {
        plan::Now { time: self.now.second(), step: self.traits.smallest_step.max(Seconds(1)) }
    }

    fn end_look(&mut self, seen: Result<Picture, LrmsError>, took: Millis) -> Looked {
        let is_first = !self.looks.is_there();
        let looked = self.looks.end(seen.and_then(|picture| self.all_ours(picture)), took);
        if looked.outcome.is_ok() {
            let now = self.terms_now();
            self.pieces.learn(&self.looks.picture, looked.number, &self.settings, now);
            self.follow(looked.number, is_first);
        }
        looked
    }

    /// Fails where a reservation of this site cannot be read that was not seen before: it would be taken for one that is gone.
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
                command: "a look at the reservations".into(),
                why: format!("{lost} is ours, and its state or times make no sense"),
            }),
        }
    }

    /// Whether reservations can be made by the last look: it is young, and the outcome of every command since is known.
    fn can_choose(&self) -> bool {
        self.looks.is_young(self.now, self.settings.look_again_after) && self.pieces.is_sure()
    }

    fn views(&self) -> impl Iterator<Item = ResourceView<'_>> {
        self.settings.places.iter().map(|(place, capacity)| ResourceView::new(self, place, *capacity))
    }

    /// All that the last look shows, with what we did since.
    fn look(&self) -> Look {
        let seen = self.views().map(|view| (view.place.resource.clone(), view.seen().into()));
        Look {
            resources: seen.collect(),
            jobs: self.jobs.statuses(),
            tagged: self.pieces.tagged(),
            clocks: self.looks.clocks(),
            unreadable: self.looks.picture.unreadable.iter().map(ToString::to_string).collect(),
        }
    }
}
