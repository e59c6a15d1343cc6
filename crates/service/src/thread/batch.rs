//! What a party's orders to its batch system go to: nothing, the built-in scheduler inside the party thread, or a worker on
//! threads of its own.

use super::Message;
use bookahead_lrms::Builtin;
use bookahead_party::{BatchOrder, BatchReport};
use bookahead_protocol::Moment;
use std::sync::mpsc::Sender;

/// Takes orders that are durable, without waiting for them.
pub type OrderSink = Box<dyn Fn(Vec<BatchOrder>) + Send>;

/// The batch system of a party.
pub enum BatchSide {
    /// None, as brokers have it.
    None,
    /// The built-in scheduler, which the party thread owns: nothing waits for it, and it forgets with this process.
    Inline(Box<Builtin>),
    /// Orders go to a worker, which reports by [`super::PartyHandle::tell`].
    Worker(OrderSink),
}

/// The part of it that the party thread owns.
pub(super) struct Inline(Option<Box<Builtin>>);

impl BatchSide {
    /// What stays in the party thread, and where durable orders go.
    pub(super) fn split(self, inbox: &Sender<Message>) -> (Inline, OrderSink) {
        match self {
            BatchSide::None => (Inline(None), Box::new(|_| {})),
            BatchSide::Worker(orders) => (Inline(None), orders),
            BatchSide::Inline(scheduler) => {
                let inbox = inbox.clone();
                // Where the party thread has ended, so has the scheduler.
                (Inline(Some(scheduler)), Box::new(move |orders| drop(inbox.send(Message::Orders(orders)))))
            }
        }
    }
}

impl Inline {
    /// Whether there is one.
    pub(super) fn is_some(&self) -> bool {
        self.0.is_some()
    }

    /// When time changes something in it.
    pub(super) fn next_event(&self) -> Option<Moment> {
        self.0.as_ref().and_then(|scheduler| scheduler.next_event())
    }

    /// What time has brought.
    pub(super) fn advance(&mut self, now: Moment) -> Vec<BatchReport> {
        self.0.as_mut().map_or_else(Vec::new, |scheduler| scheduler.advance(now))
    }

    /// What comes of an order.
    pub(super) fn carry_out(&mut self, now: Moment, order: BatchOrder) -> Vec<BatchReport> {
        self.0.as_mut().map_or_else(Vec::new, |scheduler| scheduler.carry_out(now, order))
    }
}
