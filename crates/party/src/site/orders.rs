//! Orders to the batch system, and the spans that it is known to keep. At most one order per reservation is
//! in progress; when its report comes, the promised spans are compared with the kept ones. Does not use the
//! ledger.

use crate::batch::OrderId;
use bookahead_plan::{Capacity, Span};
use bookahead_protocol::{JobId, Millis, Moment, Name, ReservationId, Tres};
use std::collections::{BTreeMap, BTreeSet};

/// A reservation in the batch system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Keep {
    pub(super) resource: Option<Name>,
    /// The spans kept. None if unknown, until the next look.
    pub(super) kept: Option<Vec<Span>>,
    /// The other users that may use it. None if unknown, such as after a restart.
    pub(super) shared_with: Option<BTreeSet<Name>>,
    /// The amounts beside the capacity. None if unknown, such as after a restart.
    pub(super) tres: Option<Tres>,
    pub(super) ordered: Option<Ordered>,
    /// Whether the batch system refused the last order. It is not repeated before the next look.
    pub(super) stuck: bool,
    /// The newest order when its last report came. A look ordered before shows an older state.
    pub(super) reported: u64,
    /// Capacity that the batch system refused to keep.
    pub(super) short: u32,
    /// Since when some of its nodes are away.
    pub(super) away_since: Option<Moment>,
    /// Capacity on nodes that are away, as reported to the ledger.
    pub(super) away_told: Capacity,
}

/// An order in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) order: OrderId,
    pub(super) spans: Vec<Span>,
    pub(super) shared_with: BTreeSet<Name>,
    pub(super) tres: Tres,
    /// Whether to move it to other nodes, because some of its nodes are away.
    pub(super) replaces: bool,
}

/// All orders of a site.
#[derive(Debug, Clone, Default)]
pub(super) struct Orders {
    last: u64,
    /// Orders in progress, and when they were given.
    under_way: BTreeMap<OrderId, Moment>,
    pub(super) keeps: BTreeMap<ReservationId, Keep>,
    /// Reservations whose orders release capacity that others may wait for.
    giving: BTreeSet<ReservationId>,
    /// Reservations that wait until overlapping capacity is released.
    pub(super) postponed: BTreeSet<ReservationId>,
    /// Jobs with an order in progress.
    jobs: BTreeMap<JobId, OrderId>,
    /// The newest order when the last report about a job came.
    jobs_reported: BTreeMap<JobId, u64>,
    /// The look in progress.
    pub(super) look: Option<OrderId>,
}

impl Orders {
    /// The next number, for an order without a report.
    pub(super) fn number(&mut self) -> OrderId {
        self.last += 1;
        OrderId(self.last)
    }

    /// The next number, for an order with a report.
    pub(super) fn next(&mut self, now: Moment) -> OrderId {
        let order = self.number();
        self.under_way.insert(order, now);
        order
    }

    /// Ends an order; returns how long it took.
    pub(super) fn ended(&mut self, now: Moment, order: OrderId) -> Option<Millis> {
        self.under_way.remove(&order).map(|since| now - since)
    }

    /// The next number, for an order about a job.
    pub(super) fn next_for_job(&mut self, now: Moment, id: JobId) -> OrderId {
        let order = self.next(now);
        self.jobs.insert(id, order);
        order
    }

    /// Records an order to keep spans.
    pub(super) fn ordered(&mut self, id: ReservationId, ordered: Ordered) {
        let keep = self.keeps.entry(id).or_default();
        let gives = keep.kept.as_ref().is_some_and(|kept| gives_back(kept, &ordered.spans));
        keep.ordered = Some(ordered);
        if gives {
            self.giving.insert(id);
        }
    }

    /// Ends the order that a report is about. None if another one is in progress.
    pub(super) fn reported(&mut self, id: ReservationId, order: OrderId) -> Option<Ordered> {
        let keep = self.keeps.get_mut(&id)?;
        let ordered = keep.ordered.take_if(|ordered| ordered.order == order)?;
        // A look ordered up to now may have read the state before this order took effect.
        keep.reported = self.last;
        self.giving.remove(&id);
        Some(ordered)
    }

    /// Whether another reservation is just releasing capacity that overlaps these spans. An order for them
    /// would be refused if it overtook the release.
    pub(super) fn is_freed(&self, id: ReservationId, resource: &Name, spans: &[Span]) -> bool {
        let others = self.giving.iter().filter(|other| **other != id);
        let mut keeps = others.filter_map(|other| self.keeps.get(other));
        keeps.any(|keep| {
            let kept = keep.kept.iter().flatten();
            keep.resource.as_ref() == Some(resource) && kept.into_iter().any(|one| overlaps(one, spans))
        })
    }

    /// Whether a look with this number shows the current state of a reservation.
    pub(super) fn is_shown_by(&self, id: ReservationId, look: OrderId) -> bool {
        let keep = self.keeps.get(&id);
        keep.is_none_or(|keep| keep.ordered.is_none() && keep.reported < look.0)
    }

    /// Whether a look with this number shows the current state of a job.
    pub(super) fn is_job_shown_by(&self, id: JobId, look: OrderId) -> bool {
        !self.jobs.contains_key(&id) && self.jobs_reported.get(&id).is_none_or(|last| *last < look.0)
    }

    pub(super) fn job_reported(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.jobs_reported.insert(id, self.last);
    }

    /// Drops state about jobs and deleted reservations that this look has confirmed.
    pub(super) fn forget_shown(&mut self, look: OrderId) {
        // Newer state must stay, because this look does not show it.
        self.jobs_reported.retain(|_, last| *last >= look.0);
        self.keeps.retain(|_, keep| {
            keep.ordered.is_some()
                || keep.reported >= look.0
                || keep.kept.as_ref().is_none_or(|kept| !kept.is_empty())
        });
    }

    /// When the oldest order in progress was given.
    pub(super) fn oldest(&self) -> Option<Moment> {
        // Numbers grow with time, so the first entry is the oldest.
        self.under_way.values().next().copied()
    }
}

/// Whether the new spans keep less than the old ones at any instant.
fn gives_back(old: &[Span], new: &[Span]) -> bool {
    let kept = |spans: &[Span], at| bookahead_protocol::ledger::taken(spans, at);
    // Amounts change only at these edges, so no other instant needs a check.
    let edges = old.iter().chain(new).flat_map(|span| [span.interval.begin, span.interval.end]);
    edges.into_iter().any(|at| kept(new, at) < kept(old, at))
}

fn overlaps(one: &Span, spans: &[Span]) -> bool {
    let meets =
        |other: &Span| one.interval.begin < other.interval.end && other.interval.begin < one.interval.end;
    spans.iter().any(meets)
}
