//! What is to be seen on one resource, from a picture of the whole batch system: jobs outside of reservations, what
//! others reserved, what failed, and what is really kept for us ([`super::kept`]).
//!
//! Only nodes that can be used count: what takes the others takes nothing that there is. No sum is larger than the
//! capacity of the resource, whatever the picture says.

use super::kept;
use super::pieces::Pieces;
use super::system::{FactState, Handle, JobFact, Node, Picture, Place, Reserved, Unit};
use bookahead_party::Seen;
use bookahead_plan::{Capacity, Running, Seconds, Time, Waiting};
use bookahead_protocol::ledger::View;
use std::collections::BTreeMap;

/// What has no end ends after ten years.
const FAR: Seconds = Seconds(10 * 365 * 86_400);

/// One resource in a picture.
pub(super) struct Scene<'a> {
    pub(super) picture: &'a Picture,
    pub(super) place: &'a Place,
    pub(super) capacity: Capacity,
    pub(super) now: Time,
    /// Its nodes that can be used.
    pub(super) nodes: BTreeMap<&'a str, &'a Node>,
    /// All reservations that are not over.
    pub(super) reservations: BTreeMap<&'a Handle, &'a Reserved>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(picture: &'a Picture, place: &'a Place, capacity: Capacity, now: Time) -> Scene<'a> {
        let here = |node: &&Node| node.usable && node.resources.contains(&place.resource);
        let nodes = picture.nodes.iter().filter(here).map(|node| (node.name.as_str(), node));
        let live = picture.reservations.iter().filter(|reserved| reserved.interval.end > now);
        let reservations = live.map(|reserved| (&reserved.handle, reserved));
        Scene { picture, place, capacity, now, nodes: nodes.collect(), reservations: reservations.collect() }
    }

    /// All that is to be seen.
    pub(super) fn seen(&self, pieces: &Pieces) -> Seen {
        let (backings, in_use) = (kept::backings(self, pieces), kept::in_use(self, pieces));
        Seen { view: self.view(pieces), lost: self.lost(), backings, in_use }
    }

    /// Jobs, and what others reserved.
    pub(super) fn view(&self, pieces: &Pieces) -> View {
        let foreign = kept::foreign(self, pieces);
        View { running: self.running(), waiting: self.waiting(), foreign }
    }

    fn lost(&self) -> Capacity {
        let usable = match self.place.unit {
            Unit::Cores => self.nodes.values().fold(0_u32, |sum, node| sum.saturating_add(node.cores)),
            Unit::Nodes => count(self.nodes.len()),
        };
        Capacity(self.capacity.0.saturating_sub(usable))
    }

    /// Jobs that run outside of reservations. Where more run than the capacity, those that end first are left out.
    fn running(&self) -> Vec<Running> {
        let jobs = self.picture.jobs.iter().filter(|job| job.state == FactState::Running);
        let mut running: Vec<Running> = match self.place.unit {
            Unit::Cores => jobs.filter_map(|job| self.running_on_cores(job)).collect(),
            Unit::Nodes => self.running_on_nodes(jobs),
        };
        running.sort_by_key(|job| std::cmp::Reverse(job.expected_end));
        let mut left = self.capacity.0;
        for job in &mut running {
            job.capacity = Capacity(job.capacity.0.min(left));
            left -= job.capacity.0;
        }
        running.retain(|job| job.capacity > Capacity::ZERO);
        running
    }

    fn running_on_cores(&self, job: &JobFact) -> Option<Running> {
        let cores = match self.nodes_taken(job) {
            Some(taken) => taken.fold(0, |sum: u32, (node, cores)| sum.saturating_add(cores.min(node.cores))),
            None => job.cores,
        };
        (cores > 0).then(|| Running { expected_end: self.end(job), capacity: Capacity(cores) })
    }

    /// Each node is taken once, until the last of its jobs ends.
    fn running_on_nodes<'b>(&self, jobs: impl Iterator<Item = &'b JobFact>) -> Vec<Running> {
        let mut until: BTreeMap<&str, Time> = BTreeMap::new();
        let mut running = Vec::new();
        for job in jobs {
            let end = self.end(job);
            match self.nodes_taken(job) {
                Some(taken) => taken.for_each(|(node, _)| {
                    let latest = until.entry(node.name.as_str()).or_insert(end);
                    *latest = (*latest).max(end);
                }),
                None => running.push(Running { expected_end: end, capacity: Capacity(job.nodes.max(1)) }),
            }
        }
        let nodes = until.into_values().map(|expected_end| Running { expected_end, capacity: Capacity(1) });
        running.extend(nodes);
        running
    }

    /// The nodes here that a running job takes and no reservation has for it; None where it runs here and it is not told on
    /// which nodes.
    fn nodes_taken<'b>(&'b self, job: &'b JobFact) -> Option<impl Iterator<Item = (&'b Node, u32)>> {
        let inside: Vec<&Reserved> = job
            .reservations
            .iter()
            .filter_map(|handle| self.reservations.get(handle).copied())
            .filter(|reserved| reserved.interval.begin <= self.latest_now())
            .collect();
        let untold = job.placed.is_empty();
        if untold && inside.is_empty() && job.resources.contains(&self.place.resource) {
            return None;
        }
        let outside = move |node: &str| !inside.iter().any(|reserved| reserved.cores.contains_key(node));
        let taken = job.placed.iter().filter(move |(node, cores)| **cores > 0 && outside(node));
        Some(taken.filter_map(|(node, cores)| Some((*self.nodes.get(node.as_str())?, *cores))))
    }

    /// Now, by the clock that is ahead.
    fn latest_now(&self) -> Time {
        self.picture.clock.unwrap_or(self.now).max(self.now)
    }

    fn end(&self, job: &JobFact) -> Time {
        let started = job.started.unwrap_or(self.now);
        let end = job.limit.map_or(Time::MAX, |limit| started + limit);
        end.clamp(self.now + Seconds(1), self.now + FAR)
    }

    /// Jobs that wait outside of reservations, in the order of the batch system.
    fn waiting(&self) -> Vec<Waiting> {
        let here = |job: &&JobFact| job.resources.contains(&self.place.resource);
        let waiting = self.picture.jobs.iter().filter(|job| job.state == FactState::Waiting).filter(here);
        let outside = waiting.filter(|job| job.reservations.is_empty());
        let asked = (0_i32..).zip(outside).map(|(rank, job)| Waiting {
            submit: job.submitted,
            estimate: job.limit.unwrap_or(FAR).clamp(Seconds(1), FAR),
            capacity: Capacity(self.place.unit.amount(job).clamp(1, self.capacity.0.max(1))),
            priority: -rank,
        });
        asked.collect()
    }
}

/// As a number of nodes.
pub(super) fn count(nodes: usize) -> u32 {
    u32::try_from(nodes).unwrap_or(u32::MAX)
}
