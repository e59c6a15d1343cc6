//! The thread that releases outputs, in the order of decisions, each as soon as its events are durable and never
//! before. Readers see the events first; then replies, calls and orders leave.

use super::batch::OrderSink;
use super::copies::{Change, Copies, lock};
use super::crash::Point;
use super::watch::Numbered;
use super::{Message, OnReleased, PeerSink, Shared, crash};
use crate::history::History;
use crate::journal::Ticket;
use crate::notify::Outbox;
use bookahead_party::{BatchOrder, CallId, Level, Notice, Party, PeerCall, Remark, Reply, Subject};
use bookahead_protocol::Name;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, Sender};

/// Everything that belongs to one append.
pub(super) struct Group<P: Party> {
    pub(super) ticket: Ticket,
    pub(super) shown: Change<P>,
    pub(super) replies: Vec<(CallId, Reply)>,
    pub(super) calls: Vec<PeerCall>,
    pub(super) orders: Vec<BatchOrder>,
    pub(super) notices: Vec<(usize, Notice)>,
    pub(super) remarks: Vec<Remark>,
    /// Whether there were events. Only then can a crash separate them from their outputs.
    pub(super) wrote: bool,
    /// Callbacks of the answers that led to this group.
    pub(super) on_released: Vec<OnReleased>,
}

pub(super) struct Releaser<P: Party> {
    pub(super) groups: Receiver<Group<P>>,
    pub(super) shared: Arc<Shared>,
    pub(super) copies: Arc<Copies<P>>,
    pub(super) inbox: Sender<Message>,
    pub(super) peers: PeerSink,
    pub(super) orders: OrderSink,
    pub(super) outbox: Option<Arc<Outbox>>,
    pub(super) history: Option<Arc<History>>,
}

impl<P: Party> Releaser<P> {
    /// Runs until there are no more groups, or the journal fails. Returns the order sink, because dropping a worker
    /// may take as long as its commands.
    pub(super) fn run(self) -> OrderSink {
        while let Ok(group) = self.groups.recv() {
            if !self.release(group) {
                break;
            }
        }
        self.orders
    }

    /// Returns whether the journal still works.
    fn release(&self, group: Group<P>) -> bool {
        let Group { ticket, shown, replies, calls, orders, notices, remarks, wrote, on_released } = group;
        // Lets `liveness` notice a journal that hangs.
        self.shared.writing.set();
        let written = ticket.wait();
        self.shared.writing.unset();
        let sequences = match written {
            Ok(sequences) => sequences,
            Err(why) => {
                tracing::error!(event = "journal_failed", party = %self.shared.name, "cannot write the journal: {why}");
                *lock(&self.shared.failed) = Some(why);
                let _ = self.inbox.send(Message::Failed);
                return false;
            }
        };
        if wrote {
            crash::pass(Point::Written);
        }
        let subjects: Vec<Subject> = match &self.history {
            Some(_) => shown.events.iter().filter_map(P::subject).collect(),
            None => Vec::new(),
        };
        // Before the number is published: a watcher that resumes after that number must have seen the event.
        self.copies.append(shown);
        // A notice without an event gets the number of the event before it. With that of a later event, a watcher
        // that resumes there would miss the event.
        let last = sequences.end.saturating_sub(1);
        let numbered = notices.into_iter().map(|(at, notice)| {
            let sequence = (sequences.start + at as u64).min(last);
            Numbered { sequence, notice }
        });
        let mut numbered: Vec<Numbered> = numbered.collect();
        if let Some(outbox) = &self.outbox {
            outbox.note(last, numbered.iter().map(|numbered| (numbered.sequence, &numbered.notice)));
        }
        if let Some(history) = &self.history {
            history.note(last, subjects.into_iter(), numbered.iter());
        }
        self.shared.durable.fetch_max(last, Ordering::AcqRel);
        self.send(replies, calls, orders, wrote);
        on_released.into_iter().for_each(|released| released());
        for mut numbered in numbered.drain(..) {
            // Watchers do not need the URL, which may contain a secret.
            numbered.notice.webhook = None;
            self.shared.watch.tell(numbered);
        }
        remarks.into_iter().for_each(|remark| log(&self.shared.name, &remark));
        true
    }

    fn send(
        &self,
        replies: Vec<(CallId, Reply)>,
        calls: Vec<PeerCall>,
        orders: Vec<BatchOrder>,
        wrote: bool,
    ) {
        let mut left = replies.len() + calls.len() + usize::from(!orders.is_empty());
        let mut sent = || {
            left -= 1;
            if wrote && left > 0 {
                crash::pass(Point::Sending);
            }
        };
        for (call, reply) in replies {
            self.shared.replies.send(call, reply);
            sent();
        }
        for call in calls {
            (self.peers)(call);
            sent();
        }
        if !orders.is_empty() {
            (self.orders)(orders);
            sent();
        }
        if wrote {
            crash::pass(Point::Sent);
        }
    }
}

/// Writes a log line for the operator.
fn log(party: &Name, remark: &Remark) {
    let Remark { level, event, message, reservation, job, name } = remark;
    let reservation = reservation.as_ref().map(tracing::field::display);
    let job = job.as_ref().map(tracing::field::display);
    let name = name.as_ref().map(tracing::field::display);
    match level {
        Level::Info => tracing::info!(event, %party, reservation, job, name, "{message}"),
        Level::Warn => tracing::warn!(event, %party, reservation, job, name, "{message}"),
        Level::Error => tracing::error!(event, %party, reservation, job, name, "{message}"),
    }
}
