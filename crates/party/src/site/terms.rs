//! Terms of a reservation that do not show in its spans: the users that share it, and the amounts of GPUs, memory,
//! licences and other things beside its capacity. The batch system gets an order when they change.

use super::{Site, Step};
use crate::batch::BatchOrder;
use bookahead_protocol::ledger::{Entry, shortfall};
use bookahead_protocol::{ReservationId, Tres};

impl Site {
    /// Whether the batch system has it with other users or other amounts beside the capacity, as far as it is known.
    /// After a restart a reservation that is or was shared, or has such amounts, is ordered once more.
    pub(super) fn is_kept_otherwise(&self, id: ReservationId) -> bool {
        let Some(entry) = self.ledger.entry(id) else { return false };
        let keep = self.orders.keeps.get(&id);
        let shared_otherwise = match keep.and_then(|keep| keep.shared_with.as_ref()) {
            Some(known) => *known != entry.current_request().let_in(),
            None => !entry.current_request().shared_with.is_empty() || !entry.request.shared_with.is_empty(),
        };
        shared_otherwise || self.tres_kept(id) != entry.kept_tres()
    }

    /// The amounts beside the capacity that the batch system is known to keep.
    fn tres_kept(&self, id: ReservationId) -> Tres {
        self.orders.keeps.get(&id).and_then(|keep| keep.tres.clone()).unwrap_or_default()
    }

    /// The amounts beside the capacity that it should keep.
    pub(super) fn tres_wanted(&self, id: ReservationId) -> Tres {
        self.ledger.entry(id).map(Entry::kept_tres).unwrap_or_default()
    }

    /// After a change of requests: users and amounts beside the capacity may change without the promised spans, and a
    /// pending release changes what the batch system should keep.
    pub(super) fn order_changed(&mut self, ids: Vec<ReservationId>, step: &mut Step) {
        if self.asks() {
            ids.into_iter().for_each(|id| self.order_keep(id, step));
        }
    }

    /// Raises the orders of this step, from index `first` on, to the promised spans: a loss may have ended a pending
    /// release after its order was computed. A smaller order would give up nodes that are away.
    pub(super) fn keep_no_less(&mut self, first: usize, step: &mut Step) {
        for order in &mut step.out.batch[first..] {
            let BatchOrder::Keep { order, backing } = order else { continue };
            let wanted = self.wanted(backing.id);
            if shortfall(&wanted, &backing.spans, step.now.second()) == 0 {
                continue;
            }
            let keep = self.orders.keeps.get_mut(&backing.id).and_then(|keep| keep.ordered.as_mut());
            if let Some(ordered) = keep.filter(|ordered| ordered.order == *order) {
                ordered.spans.clone_from(&wanted);
                backing.spans = wanted;
            }
        }
    }
}
