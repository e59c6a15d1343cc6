//! Batch systems that are driven by their commands.
//!
//! - [`system`]: what each of them is asked and told
//! - [`Batch`]: what follows from the answers, once for all of them, so that a site can drive any as [`Lrms`]
//! - [`tag`]: the names by which it finds again what it made
//! - [`accounts`]: as whom things are done
//! - [`projects`]: on whose behalf
//!
//! What is kept and which jobs there are is always read from the batch system itself; nothing is stored here. Between
//! two looks it remembers what it did. Where a command was not answered it looks before it does anything more.
//!
//! It relies on the dialect to undo a grant that falls short. It never does anything where nothing has to change.
//!
//! # Bounds
//! So many jobs may wait or run, and of those that are over so many are remembered, as with the built-in scheduler.

pub mod accounts;
mod backing;
mod became;
mod examine;
mod following;
mod hollow;
mod kept;
mod pieces;
mod plan;
pub mod projects;
mod register;
mod room;
mod sight;
mod submitting;
pub mod system;
pub mod tag;
mod terms;
mod view;

pub use accounts::Accounts;
pub use projects::Projects;
pub use system::{
    BatchSystem, FactState, Finding, Grade, Handle, JobFact, Node, Picture, Place, Reserved, Submission,
    Traits, Unit, Wanted,
};
pub use tag::Tag;

use crate::adapter::{Backing, Capabilities, Clocks, Lrms, Snapshot, Tagged};
use crate::builtin::{MOST_JOBS, REMEMBERED};
use crate::error::LrmsError;
use crate::job::{Job, JobChange, JobStatus};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::ledger::Views;
use bookahead_protocol::{JobId, Millis, Moment, Name};
use pieces::Pieces;
use register::Register;
use sight::Sight;
use std::collections::BTreeSet;
use view::Scene;

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
    /// A look is used again until it is this old, if nothing was done since.
    pub look_again_after: Millis,
    /// While there are jobs of ours it is looked so often what became of them.
    pub follow_every: Millis,
    /// So many jobs of ours may wait or run.
    pub most_jobs: usize,
    /// Of those that are over so many are remembered.
    pub remembered: usize,
}

impl Settings {
    /// With a look every second, and without projects.
    pub fn new(site: Name, places: Vec<(Place, Capacity)>, accounts: Accounts) -> Settings {
        Settings {
            site,
            places,
            accounts,
            projects: Projects::default(),
            look_again_after: Millis::seconds(1),
            follow_every: Millis::seconds(1),
            most_jobs: MOST_JOBS,
            remembered: REMEMBERED,
        }
    }
}

/// A batch system, as a site drives it.
pub struct Batch {
    system: Box<dyn BatchSystem>,
    settings: Settings,
    now: Moment,
    sight: Sight,
    pieces: Pieces,
    jobs: Register,
    /// Jobs of which it is not known whether they were submitted.
    unsure_jobs: BTreeSet<JobId>,
    /// What became of jobs and was not told yet.
    untold: Vec<JobChange>,
    /// When it was last looked what became of jobs.
    followed: Option<Moment>,
    /// Whether the jobs are known that were there before.
    met: bool,
    /// The last look showed a job of ours that nobody knows.
    surprised: bool,
}

impl Batch {
    /// One that has not looked yet.
    pub fn new(system: Box<dyn BatchSystem>, settings: Settings) -> Result<Batch, LrmsError> {
        settings.accounts.check()?;
        settings.projects.check()?;
        let longest = system.traits().longest_name;
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
        Ok(Batch {
            system,
            settings,
            now: Moment(i64::MIN),
            sight: Sight::default(),
            pieces: Pieces::default(),
            jobs: Register::default(),
            unsure_jobs: BTreeSet::new(),
            untold: Vec::new(),
            followed: None,
            met: false,
            surprised: false,
        })
    }

    fn place(&self, resource: &Name) -> Result<&(Place, Capacity), LrmsError> {
        let unknown = || LrmsError::UnknownResource { resource: resource.clone() };
        self.settings.places.iter().find(|(place, _)| place.resource == *resource).ok_or_else(unknown)
    }

    /// Looks, unless the last look still counts.
    fn fresh(&mut self, now: Moment) -> Result<(), LrmsError> {
        if self.sight.is_fresh(now, self.settings.look_again_after) { Ok(()) } else { self.look(now) }
    }

    fn look(&mut self, now: Moment) -> Result<(), LrmsError> {
        let picture = self.system.look()?;
        let terms_now = self.terms_now(now);
        self.pieces.learn(&picture, &self.settings.site, &self.settings.places, terms_now);
        self.sight.see(now, picture);
        self.surprised = self.shows_unknown_jobs();
        Ok(())
    }

    fn terms_now(&self, now: Moment) -> terms::Now {
        let step = self.system.traits().capabilities.smallest_step.max(Seconds(1));
        terms::Now { time: now.second(), step }
    }

    /// Time never goes back.
    fn reach(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    fn scenes(&self) -> impl Iterator<Item = Scene<'_>> {
        let (picture, now) = (self.sight.picture(), self.now.second());
        self.settings.places.iter().map(move |(place, capacity)| Scene::new(picture, place, *capacity, now))
    }
}

impl Lrms for Batch {
    fn capabilities(&self) -> Capabilities {
        self.system.traits().capabilities
    }

    fn advance(&mut self, now: Moment) -> Result<Vec<JobChange>, LrmsError> {
        self.reach(now);
        let followed = self.follow_in_time();
        // What is known already is told in any case.
        if self.untold.is_empty() {
            followed?;
        }
        Ok(std::mem::take(&mut self.untold))
    }

    fn next_event(&self) -> Option<Moment> {
        if self.untold.is_empty() { self.next_look() } else { Some(self.now) }
    }

    fn snapshot(&mut self, now: Moment) -> Result<Snapshot, LrmsError> {
        let now = self.reach(now);
        self.fresh(now)?;
        let seen = self.scenes().map(|scene| (scene.place.resource.clone(), scene.seen(&self.pieces)));
        Ok(Snapshot { resources: seen.collect() })
    }

    fn views(&mut self, now: Moment) -> Result<Views, LrmsError> {
        let now = self.reach(now);
        self.fresh(now)?;
        let views = self.scenes().map(|scene| (scene.place.resource.clone(), scene.view(&self.pieces)));
        Ok(Views(views.collect()))
    }

    fn back(&mut self, now: Moment, backing: &Backing) -> Result<(), LrmsError> {
        let now = self.reach(now);
        self.keep_free(now, backing)
    }

    fn submit(&mut self, now: Moment, job: &Job) -> Result<(), LrmsError> {
        self.reach(now);
        self.hand_in(job)
    }

    fn cancel(&mut self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        self.reach(now);
        self.take_out(id)
    }

    fn jobs(&self) -> Vec<JobStatus> {
        self.jobs.statuses()
    }

    fn tagged(&mut self, now: Moment) -> Result<Vec<Tagged>, LrmsError> {
        let now = self.reach(now);
        self.fresh(now)?;
        Ok(self.pieces.tagged())
    }

    fn clock(&self) -> Option<Clocks> {
        self.sight.clocks()
    }

    fn examine(&mut self, now: Moment) -> Vec<Finding> {
        let now = self.reach(now);
        self.findings(now)
    }
}
