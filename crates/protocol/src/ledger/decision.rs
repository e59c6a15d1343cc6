//! What a decision about a call depends on: its moment and caller, and the jobs and foreign reservations on the
//! resources. And its result: events and a reply.

use super::entry::What;
use super::spans;
use crate::clock::Moment;
use crate::ids::{Name, ReservationId};
use crate::message::{Answer, Caller};
use crate::problem::Problem;
use bookahead_plan::{Interval, Running, Span, Waiting};
use std::collections::BTreeMap;

pub(super) type Decided = Result<Decision, Problem>;

/// A call's moment and caller, and the jobs and foreign reservations on the resources.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) now: Moment,
    pub(super) caller: &'a Caller,
    pub(super) views: &'a Views,
}

/// Events to apply, and the reply.
pub(super) struct Decision {
    pub(super) events: Vec<What>,
    pub(super) reply: Reply,
    /// The reservation that the caller must wait for.
    pub(super) waits: Option<ReservationId>,
}

pub(super) enum Reply {
    /// The reservation after the events are applied.
    View(ReservationId),
    Answer(Box<Answer>),
}

impl Decision {
    pub(super) fn say(answer: impl Into<Answer>) -> Decision {
        Decision::say_after(Vec::new(), answer)
    }

    pub(super) fn say_after(events: Vec<What>, answer: impl Into<Answer>) -> Decision {
        Decision { events, reply: Reply::Answer(Box::new(answer.into())), waits: None }
    }

    pub(super) fn show(id: ReservationId) -> Decision {
        Decision::show_after(id, Vec::new())
    }

    pub(super) fn show_after(id: ReservationId, events: Vec<What>) -> Decision {
        Decision { events, reply: Reply::View(id), waits: None }
    }

    /// The caller must wait for the batch system's answer about this reservation.
    pub(super) fn wait_after(id: ReservationId, events: Vec<What>) -> Decision {
        Decision { waits: Some(id), ..Decision::show_after(id, events) }
    }
}

/// Jobs and foreign reservations by resource. A resource without an entry has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Views(pub BTreeMap<Name, View>);

/// Jobs and foreign reservations on one resource.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct View {
    /// Running jobs outside reservations.
    pub running: Vec<Running>,
    /// Waiting jobs; those with equal submit times in submission order.
    pub waiting: Vec<Waiting>,
    /// Reservations that are not in this ledger, and only those: its own would count twice.
    pub foreign: Vec<Span>,
    /// Amounts of things beside the capacity that are not free and not promised by this ledger: used by jobs,
    /// reserved by others, or on nodes that are away. Overlapping spans add up.
    pub tres: BTreeMap<Name, Vec<Span>>,
    /// The named part of `foreign`. Several may overlap, and then take less together than their sum.
    pub maintenance: Vec<Maintenance>,
    /// Whether the priorities of waiting jobs are numbers of the site's priority classes. A batch system has
    /// numbers of its own, which compare only with each other.
    pub by_class: bool,
}

/// A maintenance window of one resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Maintenance {
    /// Its name, for everyone to see.
    pub name: Name,
    /// Time and capacity.
    pub span: Span,
}

const NOTHING: &View = &View {
    running: Vec::new(),
    waiting: Vec::new(),
    foreign: Vec::new(),
    tres: BTreeMap::new(),
    maintenance: Vec::new(),
    by_class: false,
};

impl View {
    /// The maintenance that takes place within an interval, at least in part.
    pub fn maintenance_in(&self, within: Interval) -> impl Iterator<Item = &Maintenance> {
        let meets = move |one: &&Maintenance| {
            one.span.interval.begin < within.end && within.begin < one.span.interval.end
        };
        self.maintenance.iter().filter(meets)
    }

    /// The part of `foreign` within an interval that is not maintenance.
    pub fn foreign_beside_maintenance(&self, within: Interval) -> Vec<Span> {
        let maintenance: Vec<Span> = self.maintenance_in(within).map(|one| one.span).collect();
        spans::above(&spans::clipped(&self.foreign, within), &maintenance)
    }
}

impl Views {
    /// One resource with a view; all others are empty.
    pub fn of(resource: Name, view: View) -> Views {
        Views(BTreeMap::from([(resource, view)]))
    }

    /// The view of a resource, empty if unknown.
    pub fn on(&self, resource: &Name) -> &View {
        self.0.get(resource).unwrap_or(NOTHING)
    }
}
