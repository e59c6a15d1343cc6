//! Waiting for the journal's writer. A sender that is dropped without an outcome counts as a failed write, so that nothing
//! waits for ever. Waiting blocks the thread; async code waits for what a releasing thread sends on.

use super::error::JournalError;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Says when what was appended is on disk. Dropping it gives up the knowledge, not the events.
#[derive(Debug)]
#[must_use = "nothing may be acknowledged before the ticket says that it is on disk"]
pub struct Ticket {
    pub(crate) sequences: Range<u64>,
    pub(crate) outcome: Outcome<()>,
}

impl Ticket {
    /// The numbers that the events have, if they get onto the disk.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// Blocks until the events, and everything appended before them, are on disk; gives their numbers. After an error it
    /// is unknown whether they are there: they must not be acknowledged, and opening the journal anew tells.
    pub fn wait(self) -> Result<Range<u64>, JournalError> {
        self.outcome.wait()?;
        Ok(self.sequences)
    }
}

/// Tells the outcome of one order to the writer.
pub(crate) type Done<T> = SyncSender<Result<T, JournalError>>;

/// A sender and the side that waits for it. Sending never blocks.
pub(crate) fn outcome<T>() -> (Done<T>, Outcome<T>) {
    let (done, outcome) = sync_channel(1);
    (done, Outcome(outcome))
}

/// What came of an order, when it is known.
#[derive(Debug)]
pub(crate) struct Outcome<T>(Receiver<Result<T, JournalError>>);

impl<T> Outcome<T> {
    /// Blocks until it is known.
    pub(crate) fn wait(self) -> Result<T, JournalError> {
        let ended = || JournalError::Poisoned { why: "the writer has ended".to_owned() };
        self.0.recv().unwrap_or_else(|_| Err(ended()))
    }
}
