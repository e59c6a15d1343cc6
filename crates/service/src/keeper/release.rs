//! The thread that lets things out: in the order in which they were decided, each as soon as its events are durable and
//! never before.

use super::crash::{self, Point};
use super::watch::Numbered;
use super::{Knock, Shared};
use crate::journal::Ticket;
use crate::party::{Deed, Notice};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender};
use std::sync::{Arc, PoisonError};

/// What belongs to one append.
pub(super) struct Batch {
    pub(super) ticket: Ticket,
    pub(super) deeds: Vec<Deed>,
    pub(super) notices: Vec<(usize, Notice)>,
    pub(super) call_back: bool,
    /// Whether there were events: only then is there something that a crash could part.
    pub(super) wrote: bool,
}

pub(super) struct Releaser {
    pub(super) batches: Receiver<Batch>,
    pub(super) shared: Arc<Shared>,
    pub(super) inbox: SyncSender<Knock>,
}

impl Releaser {
    pub(super) fn run(self) {
        while let Ok(batch) = self.batches.recv() {
            if !self.release(batch) {
                return;
            }
        }
    }

    /// Whether the journal still works.
    fn release(&self, batch: Batch) -> bool {
        let sequences = match batch.ticket.wait() {
            Ok(sequences) => sequences,
            Err(why) => {
                tracing::error!(party = %self.shared.name, "cannot write the journal: {why}");
                *self.shared.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
                self.wake();
                return false;
            }
        };
        if batch.wrote {
            self.shared.durable.fetch_max(sequences.end.saturating_sub(1), Ordering::AcqRel);
            crash::pass(Point::Written);
        }
        let deeds = batch.deeds.len();
        for (at, deed) in batch.deeds.into_iter().enumerate() {
            deed();
            if batch.wrote && at + 1 < deeds {
                crash::pass(Point::Sending);
            }
        }
        if batch.wrote {
            crash::pass(Point::Sent);
        }
        // What is no event has the number of the event before it: with that of one to come, who goes on from there misses it.
        let last = sequences.end.saturating_sub(1);
        for (at, notice) in batch.notices {
            let sequence = (sequences.start + at as u64).min(last);
            self.shared.watch.tell(Numbered { sequence, notice });
        }
        if batch.call_back {
            self.shared.written.fetch_add(1, Ordering::AcqRel);
            self.wake();
        }
        true
    }

    /// Where the inbox is full its owner is awake anyway.
    fn wake(&self) {
        let _ = self.inbox.try_send(Knock::Wake);
    }
}
