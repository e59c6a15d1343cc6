//! The state of [`super::Batch`], behind one lock that is never held while a command runs. It decides by this state and never
//! runs a command; its methods are spread over the files of this folder.

use super::Settings;
use super::following::Chore;
use super::pieces::Pieces;
use super::register::Register;
use super::sight::{Looked, Sight};
use super::system::{Picture, Place, Traits};
use super::terms;
use super::view::Scene;
use crate::error::LrmsError;
use bookahead_party::{JobChange, Look};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, Moment, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is known.
pub(super) struct State {
    pub(super) settings: Arc<Settings>,
    pub(super) traits: Traits,
    pub(super) now: Moment,
    pub(super) sight: Sight,
    pub(super) pieces: Pieces,
    pub(super) jobs: Register,
    /// Jobs whose submission was not answered, each with the number of the last look that had begun then.
    pub(super) unsure_jobs: BTreeMap<JobId, u64>,
    /// Jobs that are being submitted. Looks ignore them, so that a half-known job is not taken for a double.
    pub(super) submitting: BTreeSet<JobId>,
    /// What became of jobs and was not told yet.
    pub(super) untold: Vec<JobChange>,
    /// What is to be done about jobs, by the last look.
    pub(super) chores: Vec<Chore>,
}

impl State {
    pub(super) fn new(settings: Arc<Settings>, traits: Traits) -> State {
        State {
            settings,
            traits,
            now: Moment(i64::MIN),
            sight: Sight::default(),
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

    /// Time never goes back.
    pub(super) fn reach(&mut self, now: Moment) -> Moment {
        self.now = self.now.max(now);
        self.now
    }

    pub(super) fn terms_now(&self) -> terms::Now {
        terms::Now { time: self.now.second(), step: self.traits.smallest_step.max(Seconds(1)) }
    }

    /// Takes over what a look shows.
    pub(super) fn end_look(&mut self, seen: Result<Picture, LrmsError>) -> Looked {
        let is_first = !self.sight.is_there();
        let looked = self.sight.end(seen);
        if looked.outcome.is_ok() {
            let now = self.terms_now();
            self.pieces.learn(&self.sight.picture, looked.number, &self.settings, now);
            self.follow(looked.number, is_first);
        }
        looked
    }

    /// Whether reservations can be made by the last look: it is young, and the outcome of every command since is known.
    pub(super) fn can_choose(&self) -> bool {
        self.sight.is_young(self.now, self.settings.look_again_after) && self.pieces.is_sure()
    }

    pub(super) fn scenes(&self) -> impl Iterator<Item = Scene<'_>> {
        let (picture, now) = (&self.sight.picture, self.now.second());
        self.settings.places.iter().map(move |(place, capacity)| Scene::new(picture, place, *capacity, now))
    }

    /// All that the last look shows, with what we did since.
    pub(super) fn look(&self) -> Look {
        let seen = self.scenes().map(|scene| (scene.place.resource.clone(), scene.seen(&self.pieces).into()));
        Look {
            resources: seen.collect(),
            jobs: self.jobs.statuses(),
            tagged: self.pieces.tagged(),
            clocks: self.sight.clocks(),
        }
    }
}
