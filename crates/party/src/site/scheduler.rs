//! Tells a built-in scheduler what to keep free: at once what is taken, and what is released when the change is
//! durable, so that no job starts on capacity that the journal still promises.

use super::{Site, Step};
use crate::batch::{Backing, BatchOrder};
use bookahead_plan::Span;
use bookahead_protocol::ledger::{self, Change};
use bookahead_protocol::{Name, ReservationId};
use std::collections::BTreeMap;

impl Site {
    /// Tells a built-in scheduler: capacity is taken now, and released when the change is durable.
    pub(super) fn tell_scheduler(&mut self, change: Change, step: &mut Step) {
        let Change { resource, id, gave_back, took } = change;
        // The change starts with the next second. The current one is kept as it was, with its jobs.
        let takes = |entry: &ledger::Entry| entry.takes();
        let took = if took.is_empty() { took } else { self.ledger.entry(id).map(takes).unwrap_or_default() };
        // An earlier change may not be durable yet: until then, keep also what that one gave back.
        let before = self.unsettled.get(&id).map_or(gave_back, |(_, spans)| spans.clone());
        let both = ledger::both(&before, &took);
        if !took.is_empty() {
            let order = self.orders.number();
            let backing = self.backing(&resource, id, both.clone());
            step.out.batch_now.push(BatchOrder::Keep { order, backing });
        }
        // Nothing is released otherwise, and the order above is final.
        if both != took {
            let order = self.orders.number();
            self.unsettled.insert(id, (order, both));
            let backing = self.backing(&resource, id, took);
            step.out.batch.push(BatchOrder::Keep { order, backing });
        }
    }

    pub(super) fn backing(&self, resource: &Name, id: ReservationId, spans: Vec<Span>) -> Backing {
        let entry = self.ledger.entry(id);
        // A reservation that the ledger does not have is only released, which needs no owner and no terms.
        let owner = entry.map_or_else(|| "".into(), |entry| entry.owner.clone());
        let terms = entry.map(|entry| entry.terms().clone()).unwrap_or_default();
        let tres = entry.map(ledger::Entry::kept_tres).unwrap_or_default();
        Backing { resource: resource.clone(), id, owner, terms, spans, tres, replaces: false }
    }

    /// After a restart: tells a built-in scheduler everything to keep free.
    pub(super) fn tell_scheduler_all(&mut self, step: &mut Step) {
        let names = self.rules.resources.iter().map(|offered| offered.resource.name.clone());
        for resource in names.collect::<Vec<_>>() {
            let mut reserved: BTreeMap<ReservationId, Vec<Span>> = BTreeMap::new();
            for (id, span) in self.ledger.reserved(&resource) {
                reserved.entry(id).or_default().push(span);
            }
            for (id, spans) in reserved {
                // At once: the scheduler starts empty, and a job could start on promised capacity before.
                let (order, backing) = (self.orders.number(), self.backing(&resource, id, spans));
                step.out.batch_now.push(BatchOrder::Keep { order, backing });
            }
        }
    }
}
