//! Batch systems that are driven by commands.
//!
//! - [`system`]: the interface that each dialect implements
//! - [`Batch`]: the logic above it, shared by all dialects; [`crate::worker`] executes orders with it
//! - [`tag`]: names by which our reservations and jobs are recognised
//! - [`accounts`]: mapping of owners to accounts and projects of the cluster
//!
//! The batch system is the only record of reservations and jobs; nothing is stored here. Between two looks (one look
//! reads nodes, reservations and jobs) our own changes are remembered. After a command without an answer, a look
//! comes before anything else.
//!
//! # Several at once
//! Several threads may call in parallel, but only one for each reservation and each job. One look serves all callers
//! that requested one before it began. The state is behind one lock, which is never held while a command runs.
//!
//! A dialect must undo a grant that falls short. Nothing is changed in the batch system unless the wanted state
//! differs.
//!
//! # Bounds
//! Limits on unfinished jobs and on remembered finished jobs are those of the built-in scheduler.

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
use bookahead_party::{JobChange, Look, Sharing};
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

/// Oldest look by which to choose nodes for a reservation. Changes since then cost at worst one refusal, followed by
/// a new look. A site looks more often anyway.
const LOOK_AGAIN_AFTER: Millis = Millis::seconds(30);

/// Settings of a batch system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Name of the site. It is part of all names in the batch system, as several sites may share a cluster.
    pub site: Name,
    /// Resources with the offered capacity of each. They must not share nodes.
    pub places: Vec<(Place, Capacity)>,
    /// Accounts that own reservations and run jobs.
    pub accounts: Accounts,
    /// Projects to charge, for batch systems with accounting.
    pub projects: Projects,
    /// Oldest look by which to choose nodes.
    pub look_again_after: Millis,
    /// Interval between looks while there are jobs.
    pub follow_every: Millis,
    /// Limit of jobs that wait or run.
    pub most_jobs: usize,
    /// Limit of remembered finished jobs.
    pub remembered: usize,
    /// How long a claiming job may wait for its go-ahead. The job's own wrapper waits half as long again.
    pub go_within: Seconds,
    /// How long before the end of its reservation to end a job, if another reservation begins then.
    pub end_jobs_early: Seconds,
}

impl Settings {
    /// Defaults: a look every second while there are jobs, and no projects.
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

/// A batch system that executes orders.
pub struct Batch {
    system: Box<dyn BatchSystem>,
    settings: Arc<Settings>,
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

    /// Whether jobs of several users can use one reservation. If all jobs run as one account, they can anyway.
    pub fn sharing(&self) -> Sharing {
        match self.settings.accounts {
            Accounts::Service(_) => Sharing::Always,
            Accounts::Owners { .. } => self.state().traits.sharing,
        }
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

    fn look_anew(&self, now: Moment) -> Result<(), LrmsError> {
        self.look_after(now, self.looks_begun()).outcome
    }

    /// Takes a look, or waits for the one in progress.
    fn look_again(&self, now: Moment) -> Result<(), LrmsError> {
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
    /// Jobs whose submission was not answered, each with the number of the last look begun then.
    unsure_jobs: BTreeMap<JobId, u64>,
    /// Jobs whose submission is in progress. Looks ignore them: a job without a known native id would look like a
    /// duplicate.
    submitting: BTreeSet<JobId>,
    /// Changes of jobs that are not reported yet.
    untold: Vec<JobChange>,
    /// Commands that follow from the last look.
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

    /// Time never goes back, even if callers on several threads pass their times out of order.
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
    fn can_choose(&self) -> bool {
        self.looks.is_young(self.now, self.settings.look_again_after) && self.pieces.is_sure()
    }

    fn views(&self) -> impl Iterator<Item = ResourceView<'_>> {
        self.settings.places.iter().map(|(place, capacity)| ResourceView::new(self, place, *capacity))
    }

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
