//! Waiting for an outcome: a promise on the side of the writer, a ticket on the side of whoever waits, blocking or as a
//! future, without a runtime. A promise that is dropped is broken, so nobody waits for ever.

use super::error::JournalError;
use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Says when what was appended is on disk. It may be waited for with [`Ticket::wait`] or, in async code, with `.await`; who
/// drops it gives up the knowing, not the events.
#[derive(Debug)]
#[must_use = "nothing may be acknowledged before the ticket says that it is on disk"]
pub struct Ticket {
    pub(crate) sequences: Range<u64>,
    pub(crate) waiting: Waiting<()>,
}

impl Ticket {
    /// The numbers that the events have, if they get onto the disk.
    pub fn sequences(&self) -> Range<u64> {
        self.sequences.clone()
    }

    /// Blocks until the events, and everything appended before them, are on disk; gives their numbers. After an error it
    /// is unknown whether they are there: they must not be acknowledged, and opening the journal anew tells.
    pub fn wait(self) -> Result<Range<u64>, JournalError> {
        self.waiting.wait()?;
        Ok(self.sequences)
    }
}

impl Future for Ticket {
    type Output = Result<Range<u64>, JournalError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let outcome = self.waiting.poll(context);
        outcome.map(|outcome| outcome.map(|()| self.sequences.clone()))
    }
}

/// One promise, and who waits for it.
pub(crate) fn promise<T>() -> (Promise<T>, Waiting<T>) {
    let slot =
        Arc::new(Slot { state: Mutex::new(State { outcome: None, waker: None }), told: Condvar::new() });
    (Promise(Some(slot.clone())), Waiting(slot))
}

#[derive(Debug)]
struct Slot<T> {
    state: Mutex<State<T>>,
    told: Condvar,
}

#[derive(Debug)]
struct State<T> {
    outcome: Option<Result<T, JournalError>>,
    waker: Option<Waker>,
}

impl<T> Slot<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// To be kept by the writer.
#[derive(Debug)]
pub(crate) struct Promise<T>(Option<Arc<Slot<T>>>);

impl<T> Promise<T> {
    /// Tells the outcome.
    pub(crate) fn keep(mut self, outcome: Result<T, JournalError>) {
        self.tell(outcome);
    }

    fn tell(&mut self, outcome: Result<T, JournalError>) {
        let Some(slot) = self.0.take() else { return };
        let mut state = slot.state();
        state.outcome = Some(outcome);
        let waker = state.waker.take();
        drop(state);
        slot.told.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        self.tell(Err(JournalError::Poisoned { why: "the writer has ended".to_owned() }));
    }
}

/// For one who waits.
#[derive(Debug)]
pub(crate) struct Waiting<T>(Arc<Slot<T>>);

impl<T> Waiting<T> {
    /// Blocks until it is told.
    pub(crate) fn wait(self) -> Result<T, JournalError> {
        let mut state = self.0.state();
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            state = self.0.told.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn poll(&self, context: &Context<'_>) -> Poll<Result<T, JournalError>> {
        let mut state = self.0.state();
        match state.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}
