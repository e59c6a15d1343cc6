//! Read-only queries. Readers query copies of a party, so they never wait for a batch system or a long
//! computation.

pub use crate::register::BatchState;
use crate::register::{Known, Role};
use crate::schedule::{ResourceSchedule, ScheduleWindow, WhatIf};
use bookahead_plan::{Capacity, Interval, Span, Time};
use bookahead_protocol::deadline::HoldCounts;
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::ledger::Maintenance;
use bookahead_protocol::{
    Answer, Call, Caller, Guests, JobId, Millis, Moment, Name, Reservation, ReservationId, Resource, State,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Read-only queries of a party.
pub trait Queries {
    /// Site or broker.
    fn role(&self) -> Role;
    /// The resources that it offers.
    fn resources(&self) -> Vec<Resource>;
    /// A remembered reservation.
    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation>;
    /// A page of reservations by begin, and those of equal begin by id.
    fn list(&self, now: Moment, filter: &Filter) -> Page;
    /// The schedules of its resources within a window, for drawing.
    fn schedule(
        &self,
        now: Moment,
        viewer: &Viewer,
        window: &ScheduleWindow,
        resource: Option<&Name>,
    ) -> Vec<ResourceSchedule>;
    /// What one more reservation would do to the waiting jobs of a resource. None if it has no such resource of its
    /// own.
    fn what_if(&self, _: Moment, _: &Name, _: Span) -> Option<WhatIf> {
        None
    }
    /// Maintenance of its own resources within an interval, by resource and begin.
    fn maintenance(&self, _within: Interval) -> Vec<(Name, Maintenance)> {
        Vec::new()
    }
    /// The party itself, then its peers.
    fn sites(&self, now: Moment) -> Vec<Known>;
    /// A job submitted to it.
    fn job(&self, id: JobId) -> Option<JobView>;
    /// Whether a job that it does not know may still wait or run in its batch system.
    fn may_have_job(&self, _: JobId) -> bool {
        false
    }
    /// Jobs submitted to it, newest last.
    fn jobs(&self, viewer: &Viewer) -> Vec<JobView>;
    /// Of a broker: the peer that has a job, and its id there. None while it has no place.
    fn job_place(&self, _id: JobId) -> Option<(Name, JobId)> {
        None
    }
    /// The parts of a reservation with what they take, for the usage history. Empty if it is not remembered.
    fn booked(&self, _id: ReservationId) -> Vec<BookedPart> {
        Vec::new()
    }
    /// Number of reservations by state.
    fn counts(&self) -> BTreeMap<State, usize>;
    /// Figures of its own resources and holds, for metrics.
    fn figures(&self, _now: Moment) -> Figures {
        Figures::default()
    }
    /// Answers a call that changes nothing. None if only the party itself can answer it.
    fn ask(&mut self, now: Moment, caller: &Caller, call: &Call) -> Option<Answer>;
    /// Health of its batch system. None if it has none, or a built-in one.
    fn batch_health(&self, _now: Moment) -> Option<BatchHealth> {
        None
    }
}

/// Figures for metrics.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// Its own resources, in the order of the configuration. A broker has none.
    pub resources: Vec<ResourceFigures>,
    /// Holds by outcome since the start. None for a broker.
    pub holds: Option<HoldCounts>,
    /// Peers of a broker, by name, and whether they can be called.
    pub peers: Vec<(Name, bool)>,
}

/// How much of a resource is taken now, by what, and what waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceFigures {
    /// Name of the resource.
    pub resource: Name,
    /// Configured capacity.
    pub capacity: u64,
    /// Capacity that has failed.
    pub lost: u64,
    /// Taken by reservations, holds included.
    pub booked: u64,
    /// Taken by running jobs outside reservations.
    pub used: u64,
    /// Taken by reservations of the batch system that this site did not make.
    pub foreign: u64,
    /// Capacity that is left.
    pub free: u64,
    /// Running jobs outside reservations.
    pub running_jobs: usize,
    /// Waiting jobs.
    pub waiting_jobs: usize,
    /// Capacity that the waiting jobs request together.
    pub waiting_capacity: u64,
}

/// What one part of a reservation takes of its resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BookedPart {
    /// Index of the part.
    pub part: usize,
    /// Owner of the reservation.
    pub owner: Name,
    /// The resource, under the name that this party uses.
    pub resource: Name,
    /// State of the reservation.
    pub state: State,
    /// The promised capacity by the current terms.
    pub spans: Vec<Span>,
    /// Whether `spans` also tell what it had in the past. A broker knows only the current capacity.
    pub with_past: bool,
    /// Capacity missing now.
    pub missing: Capacity,
    /// When it was accepted. None if the party does not know it.
    pub accepted: Option<Moment>,
    /// Window of the request by which it has its terms. None if the party does not know it.
    pub window: Option<Interval>,
    /// When the part ended.
    pub ended: Option<Moment>,
    /// Whether it ended because its site lost it.
    pub lost: bool,
}

/// The subject of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// A reservation.
    Reservation {
        /// Its id.
        id: ReservationId,
        /// Whether the event committed it.
        committed: bool,
    },
    /// A job.
    Job(JobId),
}

/// Health of a batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHealth {
    /// Its state.
    pub state: BatchState,
    /// Start of that state, if it is not [`BatchState::Ok`].
    pub since: Option<Moment>,
    /// Age of the last successful look.
    pub look_age: Option<Millis>,
}

/// Selection of reservations. All conditions must hold.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only ids that begin with this text, `rsv_` included.
    pub id: Option<String>,
    /// Only of this owner.
    pub owner: Option<Name>,
    /// Only those that this user owns or that are shared with it.
    pub user: Option<Name>,
    /// Users whose invitations to `user` are left out.
    pub blocked: Arc<BTreeSet<Name>>,
    /// Only those whose name contains this text, ignoring case.
    pub name: Option<String>,
    /// Only those with all of these labels.
    pub labels: BTreeMap<String, String>,
    /// Only in these states. Empty for all.
    pub states: BTreeSet<State>,
    /// Only on this resource, or at this site.
    pub resource: Option<Name>,
    /// Only those that end after this.
    pub from: Option<Time>,
    /// Only those that start before this.
    pub until: Option<Time>,
    /// Only those after this position. For paging.
    pub after: Option<Position>,
    /// Most reservations to return.
    pub limit: usize,
}

/// Place of a reservation in a list: its begin and its id. One without slots comes last.
pub type Position = (Time, ReservationId);

/// A page of reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// By [`Position`].
    pub reservations: Vec<Reservation>,
    /// Position of the last one, if there are more.
    pub next: Option<Position>,
    /// Number of matching reservations on all pages.
    pub total: usize,
}

/// The user behind a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// The user.
    pub user: Name,
    /// Whether the user may see reservations and jobs of others.
    pub sees_all: bool,
    /// Users whose invitations are not shown to this user.
    pub blocked: Arc<BTreeSet<Name>>,
}

impl Viewer {
    /// A user who has blocked nobody.
    pub fn new(user: impl Into<Name>, sees_all: bool) -> Viewer {
        Viewer { user: user.into(), sees_all, blocked: Arc::default() }
    }

    /// Whether the user may see a reservation of `owner` with these guests.
    pub fn sees_shared(&self, owner: &Name, guests: Guests<'_>) -> bool {
        self.sees(owner) || guests.contains(&self.user) && !self.ignores(owner, guests)
    }

    /// Whether it is an invitation from a user that this one has blocked.
    fn ignores(&self, owner: &Name, guests: Guests<'_>) -> bool {
        self.blocked.contains(owner) && guests.is_invited(&self.user)
    }

    /// Whether the user may see reservations and jobs of `owner`.
    pub fn sees(&self, owner: &Name) -> bool {
        self.sees_all || self.user == *owner
    }
}

impl Filter {
    /// The page after [`Filter::after`].
    pub fn page(&self, all: impl Iterator<Item = Reservation>) -> Page {
        let mut first: BTreeMap<Position, Reservation> = BTreeMap::new();
        let (mut total, mut more) = (0, false);
        for reservation in all.filter(|reservation| self.wants(reservation)) {
            // Counted before the position, so that all pages tell the same total.
            total += 1;
            let position = position(&reservation);
            // By position, not by number: a reservation that comes or goes between two pages shifts no other.
            if self.after.is_some_and(|after| position <= after) {
                continue;
            }
            first.insert(position, reservation);
            // Only one page is kept in memory, for any number of reservations.
            if first.len() > self.limit {
                first.pop_last();
                more = true;
            }
        }
        let next = first.last_key_value().map(|(position, _)| *position).filter(|_| more);
        Page { reservations: first.into_values().collect(), next, total }
    }

    /// Whether a reservation of this owner with these guests may match. Cheaper than [`Filter::wants`].
    pub(crate) fn may_want(&self, owner: &Name, guests: Guests<'_>) -> bool {
        let is_shown =
            |user: &Name| guests.contains(user) && !(self.blocked.contains(owner) && guests.is_invited(user));
        self.owner.as_ref().is_none_or(|wanted| wanted == owner)
            && self.user.as_ref().is_none_or(|user| user == owner || is_shown(user))
    }

    /// Whether a reservation matches.
    pub fn wants(&self, reservation: &Reservation) -> bool {
        let begin = reservation.slots.iter().map(|slot| slot.interval.begin).min();
        let end = reservation.slots.iter().map(|slot| slot.interval.end).max();
        self.may_want(&reservation.owner, reservation.guests())
            && self.name.as_ref().is_none_or(|name| reservation.description.is_named_like(name))
            && reservation.description.has_labels(&self.labels)
            && self.id.as_ref().is_none_or(|prefix| reservation.id.to_string().starts_with(prefix))
            && (self.states.is_empty() || self.states.contains(&reservation.state))
            && self.resource.as_ref().is_none_or(|wanted| {
                reservation.slots.iter().any(|slot| slot.resource == *wanted || slot.site == *wanted)
            })
            && self.from.is_none_or(|from| end.is_some_and(|end| end > from))
            && self.until.is_none_or(|until| begin.is_some_and(|begin| begin < until))
    }
}

fn position(reservation: &Reservation) -> Position {
    let begin = reservation.slots.iter().map(|slot| slot.interval.begin).min();
    (begin.unwrap_or(Time::MAX), reservation.id)
}
