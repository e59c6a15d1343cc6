//! What the batch system was ordered to keep free, and what it is known to keep. For each reservation at most one order is
//! under way; when its report comes, what the book wants then is compared with what is kept. Knows nothing of the book.

use crate::batch::OrderId;
use bookahead_plan::{Capacity, Span};
use bookahead_protocol::{JobId, Millis, Moment, Name, ReservationId};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of one reservation in the batch system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Keep {
    pub(super) resource: Option<Name>,
    /// What is kept for it; None where that is not known and has to be looked at.
    pub(super) kept: Option<Vec<Span>>,
    pub(super) ordered: Option<Ordered>,
    /// The batch system refused what the book wants; it is not asked again before the next look.
    pub(super) stuck: bool,
    /// The newest order when its last report came: a look that was ordered before shows an older state.
    pub(super) reported: u64,
    /// How much less than it should be is kept of it, since the batch system refused the rest.
    pub(super) short: u32,
    /// Since when some of its nodes are away.
    pub(super) away_since: Option<Moment>,
    /// How much of it is on nodes that are away, as the book knows.
    pub(super) away_told: Capacity,
}

/// An order that is under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) order: OrderId,
    pub(super) spans: Vec<Span>,
    /// Whether it is to be kept on other nodes, since some of its nodes are away.
    pub(super) replaces: bool,
}

/// All orders.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    last: u64,
    /// Orders that are under way: since when.
    under_way: BTreeMap<OrderId, Moment>,
    pub(super) keeps: BTreeMap<ReservationId, Keep>,
    /// Reservations whose orders give something back that others may wait for.
    giving: BTreeSet<ReservationId>,
    /// Reservations that wait until overlapping room is given back.
    pub(super) postponed: BTreeSet<ReservationId>,
    /// Jobs with an order that is under way.
    jobs: BTreeMap<JobId, OrderId>,
    /// The newest order when the last report about a job came.
    jobs_reported: BTreeMap<JobId, u64>,
    /// The look that is under way.
    pub(super) look: Option<OrderId>,
}

impl Orders {
    /// The number of the next order.
    pub(super) fn number(&mut self) -> OrderId {
        self.last += 1;
        OrderId(self.last)
    }

    /// The number of the next order, which will be reported.
    pub(super) fn next(&mut self, now: Moment) -> OrderId {
        let order = self.number();
        self.under_way.insert(order, now);
        order
    }

    /// An order was reported: how long it took.
    pub(super) fn ended(&mut self, now: Moment, order: OrderId) -> Option<Millis> {
        self.under_way.remove(&order).map(|since| now - since)
    }

    /// The number of the next order, which is about a job.
    pub(super) fn next_for_job(&mut self, now: Moment, id: JobId) -> OrderId {
        let order = self.next(now);
        self.jobs.insert(id, order);
        order
    }

    /// Notes an order to keep spans.
    pub(super) fn ordered(&mut self, id: ReservationId, ordered: Ordered) {
        let keep = self.keeps.entry(id).or_default();
        let gives = keep.kept.as_ref().is_some_and(|kept| gives_back(kept, &ordered.spans));
        keep.ordered = Some(ordered);
        if gives {
            self.giving.insert(id);
        }
    }

    /// Takes the order that a report is about; None where that is not the one under way.
    pub(super) fn reported(&mut self, id: ReservationId, order: OrderId) -> Option<Ordered> {
        let keep = self.keeps.get_mut(&id)?;
        let ordered = keep.ordered.take_if(|ordered| ordered.order == order)?;
        keep.reported = self.last;
        self.giving.remove(&id);
        Some(ordered)
    }

    /// Whether somebody else's room on the resource, overlapping these spans, is just being given back.
    pub(super) fn is_freed(&self, id: ReservationId, resource: &Name, spans: &[Span]) -> bool {
        let others = self.giving.iter().filter(|other| **other != id);
        let mut keeps = others.filter_map(|other| self.keeps.get(other));
        keeps.any(|keep| {
            let kept = keep.kept.iter().flatten();
            keep.resource.as_ref() == Some(resource) && kept.into_iter().any(|one| overlaps(one, spans))
        })
    }

    /// Whether a look that was ordered as this number shows a reservation as it is.
    pub(super) fn is_shown_by(&self, id: ReservationId, look: OrderId) -> bool {
        let keep = self.keeps.get(&id);
        keep.is_none_or(|keep| keep.ordered.is_none() && keep.reported < look.0)
    }

    /// Whether a look that was ordered as this number shows a job as it is.
    pub(super) fn is_job_shown_by(&self, id: JobId, look: OrderId) -> bool {
        !self.jobs.contains_key(&id) && self.jobs_reported.get(&id).is_none_or(|last| *last < look.0)
    }

    /// A report about a job has come.
    pub(super) fn job_reported(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.jobs_reported.insert(id, self.last);
    }

    /// What is known of jobs and of reservations that are gone, and that this look has told of, is forgotten.
    pub(super) fn forget_shown(&mut self, look: OrderId) {
        self.jobs_reported.retain(|_, last| *last >= look.0);
        self.keeps.retain(|_, keep| {
            keep.ordered.is_some()
                || keep.reported >= look.0
                || keep.kept.as_ref().is_none_or(|kept| !kept.is_empty())
        });
    }

    /// When the order was given that is under way for longest.
    pub(super) fn oldest(&self) -> Option<Moment> {
        self.under_way.values().next().copied()
    }
}

/// Whether less is kept at some time by the new spans than by the old.
fn gives_back(old: &[Span], new: &[Span]) -> bool {
    let kept = |spans: &[Span], at| bookahead_protocol::ledger::taken(spans, at);
    let edges = old.iter().chain(new).flat_map(|span| [span.interval.begin, span.interval.end]);
    edges.into_iter().any(|at| kept(new, at) < kept(old, at))
}

fn overlaps(one: &Span, spans: &[Span]) -> bool {
    let meets =
        |other: &Span| one.interval.begin < other.interval.end && other.interval.begin < one.interval.end;
    spans.iter().any(meets)
}
