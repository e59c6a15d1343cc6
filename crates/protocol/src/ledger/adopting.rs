//! Taking over what is kept free on the machines and is in no book: how a book that was lost is made anew.

use super::Ledger;
use super::event::{Ticked, What};
use crate::clock::Moment;
use crate::ids::{Name, ReservationId};
use crate::request::{Part, Request};
use bookahead_plan::{Span, placement};
use std::collections::BTreeSet;

impl Ledger {
    /// Whether nothing was ever promised by it.
    pub fn is_unused(&self) -> bool {
        self.accepted == 0
    }

    /// Takes over a reservation that is kept free already, as committed. It is not placed anew: it is where it is. Nothing
    /// happens where the id is known, there is no such resource, or it is over.
    pub fn adopt(
        &mut self,
        now: Moment,
        id: ReservationId,
        owner: &Name,
        resource: &Name,
        spans: &[Span],
    ) -> Ticked {
        let mut course = self.tick(now);
        let now = self.latest;
        let Some(at) = self.at(resource) else { return course };
        let left = spans.iter().filter(|span| span.interval.end > now.second() && span.area() > 0);
        let left: Vec<Span> = left.copied().collect();
        let (Some(first), Some(last)) = (left.first(), left.last()) else { return course };
        let known = self.entries.contains_key(&id) || self.denied.contains_key(&id);
        if known {
            return course;
        }
        let offered = &self.rules.resources[at].resource;
        let wanted = placement::Request {
            earliest_start: first.interval.begin,
            latest_end: last.interval.end,
            duration: last.interval.end - first.interval.begin,
            capacity: first.capacity,
        };
        let (kind, resource) = (offered.kind.clone(), Some(resource.clone()));
        let request = Request::single(Part { wanted, kind, requirements: Vec::new(), resource });
        let (owner, resource, span) = (owner.clone(), offered.name.clone(), *first);
        self.record(now, What::Held { id, owner, request, resource, span, deadline: now }, &mut course);
        self.record(now, What::Committed { id, jobs: Vec::new(), late: None }, &mut course);
        if left.len() > 1 {
            self.record(now, What::Released { id, spans: left }, &mut course);
        }
        self.hit(at, &BTreeSet::new(), &mut course);
        self.mend(self.latest, at, &mut course);
        course
    }
}
