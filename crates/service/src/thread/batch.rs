//! Receivers of a party's orders to its batch system: none, the built-in scheduler inside the party thread, or a
//! worker on threads of its own.

use super::Message;
use bookahead_lrms::Builtin;
use bookahead_party::{BatchOrder, BatchReport, OrderId};
use bookahead_protocol::{Moment, ReservationId};
use std::collections::BTreeMap;
use std::sync::mpsc::Sender;

/// Takes durable orders without waiting for their execution.
pub type OrderSink = Box<dyn Fn(Vec<BatchOrder>) + Send>;

/// The batch system of a party.
pub enum BatchSide {
    /// None, as in a broker.
    None,
    /// The built-in scheduler, owned by the party thread: calls to it do not block, and its state ends with the
    /// process.
    Inline(Box<Builtin>),
    /// A worker, which reports with [`super::PartyHandle::tell`].
    Worker(OrderSink),
}

/// The part that the party thread owns.
pub(super) struct Inline {
    scheduler: Option<Box<Builtin>>,
    /// Number of groups with orders that are not durable yet.
    on_their_way: usize,
    /// Latest immediate order for each reservation while others are not durable yet. Older orders for the same
    /// reservation are obsolete.
    newest: BTreeMap<ReservationId, OrderId>,
}

impl BatchSide {
    /// Splits it into the part of the party thread and the sink for durable orders.
    pub(super) fn split(self, inbox: &Sender<Message>) -> (Inline, OrderSink) {
        let (scheduler, orders): (_, OrderSink) = match self {
            BatchSide::None => (None, Box::new(|_| {})),
            BatchSide::Worker(orders) => (None, orders),
            BatchSide::Inline(scheduler) => {
                let inbox = inbox.clone();
                // If the party thread has ended, so has the scheduler.
                (Some(scheduler), Box::new(move |orders| drop(inbox.send(Message::Orders(orders)))))
            }
        };
        (Inline { scheduler, on_their_way: 0, newest: BTreeMap::new() }, orders)
    }
}

impl Inline {
    /// Time of the next event of the scheduler.
    pub(super) fn next_event(&self) -> Option<Moment> {
        self.scheduler.as_ref().and_then(|scheduler| scheduler.next_event())
    }

    /// Reports of everything that happened until now.
    pub(super) fn advance(&mut self, now: Moment) -> Vec<BatchReport> {
        self.scheduler.as_mut().map_or_else(Vec::new, |scheduler| scheduler.advance(now))
    }

    /// Whether all orders are carried out.
    pub(super) fn is_quiet(&self) -> bool {
        self.on_their_way == 0
    }

    /// Counts orders that wait for the journal. They come back when they are durable.
    pub(super) fn note_leaving(&mut self, orders: &[BatchOrder]) {
        self.on_their_way += usize::from(self.scheduler.is_some() && !orders.is_empty());
    }

    /// Carries out orders that need not be durable first, and returns other reports that they cause. Returns the
    /// orders as an error if there is no scheduler.
    pub(super) fn carry_out_now(
        &mut self,
        now: Moment,
        orders: Vec<BatchOrder>,
    ) -> Result<Vec<BatchReport>, Vec<BatchOrder>> {
        let Some(scheduler) = &mut self.scheduler else { return Err(orders) };
        let mut reports = Vec::new();
        for order in orders {
            let number = order.order();
            if let BatchOrder::Keep { backing, .. } = &order
                && self.on_their_way > 0
            {
                self.newest.insert(backing.id, number);
            }
            // The party knows the outcome of its own immediate order, so only the other reports are passed on.
            let told = scheduler.carry_out(now, order).into_iter();
            reports.extend(
                told.filter(|report| !matches!(report, BatchReport::Kept { order, .. } if *order == number)),
            );
        }
        Ok(reports)
    }

    /// Carries out durable orders.
    pub(super) fn carry_out(&mut self, now: Moment, orders: Vec<BatchOrder>) -> Vec<BatchReport> {
        let Some(scheduler) = &mut self.scheduler else { return Vec::new() };
        let mut reports = Vec::new();
        for order in orders {
            match &order {
                BatchOrder::Keep { order, backing }
                    if self.newest.get(&backing.id).is_some_and(|newest| newest > order) =>
                {
                    // A newer immediate order has replaced this one. Carrying it out now would undo the newer one.
                    reports.push(BatchReport::Kept { order: *order, id: backing.id, outcome: Ok(()) });
                }
                _ => reports.extend(scheduler.carry_out(now, order)),
            }
        }
        self.on_their_way = self.on_their_way.saturating_sub(1);
        if self.on_their_way == 0 {
            self.newest.clear();
        }
        reports
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_lrms::Hosted;
    use bookahead_party::{Backing, Job, Work};
    use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
    use bookahead_protocol::JobId;
    use std::sync::Arc;
    use std::sync::mpsc::channel;

    const NOW: Moment = Moment(10_000);
    const ID: ReservationId = ReservationId(7);

    fn keep(order: u64, capacity: u32) -> BatchOrder {
        let span = Span { interval: Interval::new(Time(10), Time(1_000)), capacity: Capacity(capacity) };
        let spans = if capacity == 0 { Vec::new() } else { vec![span] };
        let backing = Backing {
            resource: "cluster".into(),
            id: ID,
            owner: "ada".into(),
            terms: Arc::default(),
            tres: Default::default(),
            spans,
            replaces: false,
        };
        BatchOrder::Keep { order: OrderId(order), backing }
    }

    /// Whether capacity is kept for the reservation: a job in it is accepted.
    fn is_kept(inline: &mut Inline, number: u64) -> bool {
        let job = Job {
            rerun: Default::default(),
            id: JobId(u128::from(number)),
            user: "ada".into(),
            resource: "cluster".into(),
            capacity: Capacity(1),
            limit: Seconds(60),
            reservation: Some(ID),
            work: Work::Pretended { run: Seconds(60) },
            claims: false,
            held: false,
            description: Default::default(),
        };
        let orders = vec![BatchOrder::Submit { order: OrderId(number), job: Box::new(job) }];
        let reports = inline.carry_out(NOW, orders);
        reports.iter().any(|report| matches!(report, BatchReport::Job { outcome: Ok(()), .. }))
    }

    #[test]
    fn room_that_was_taken_at_once_is_not_given_back_by_an_older_order() {
        let hosted = Hosted::new("cluster".into(), Capacity(8));
        let scheduler = Builtin::new(vec![hosted], NOW, None).unwrap();
        let (mut inline, _) = BatchSide::Inline(Box::new(scheduler)).split(&channel().0);
        assert_eq!(inline.carry_out_now(NOW, vec![keep(1, 4)]), Ok(Vec::new()), "nothing is reported");
        inline.note_leaving(&[keep(2, 0)]);
        assert_eq!(inline.carry_out_now(NOW, vec![keep(3, 2)]), Ok(Vec::new()));
        let told = BatchReport::Kept { order: OrderId(2), id: ID, outcome: Ok(()) };
        assert_eq!(inline.carry_out(NOW, vec![keep(2, 0)]), [told]);
        assert!(inline.is_quiet() && is_kept(&mut inline, 10));
        inline.note_leaving(&[keep(4, 0)]);
        inline.carry_out(NOW, vec![keep(4, 0)]);
        assert!(!is_kept(&mut inline, 11), "a newer one gives it back");
    }
}
