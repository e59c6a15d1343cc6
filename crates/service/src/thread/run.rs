//! The loop of the party thread: messages and time go into the party; its output goes to the journal and then to
//! the release thread. With the inline scheduler, its reports are stepped into the party within the same group.

use super::batch::{Inline, OrderSink};
use super::copies::{Change, Copies, lock};
use super::crash::Point;
use super::release::Group;
use super::{BYTES_BETWEEN_SNAPSHOTS, Message, OnReleased, PartyError, Shared, crash, spawn};
use crate::journal::{Journal, JournalError};
use crate::notify::Outbox;
use bookahead_party::{BatchReport, Input, Output, Party};
use bookahead_protocol::Moment;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest pause, so that a stuck thread is noticed soon.
const BEAT: Duration = Duration::from_secs(1);

/// While messages wait, long computations get one part in this many of the time. Otherwise every message would wait
/// for one slice of computation per message before it.
const COMPUTING_SHARE: u32 = 5;

/// How long to wait at the end for calls that depend on others. HTTP has waited for its requests before.
const GRACE: Duration = Duration::from_secs(1);

pub(super) struct Run<P: Party> {
    pub(super) party: P,
    pub(super) inline: Inline,
    pub(super) journal: Arc<Journal<P::Event>>,
    pub(super) messages: Receiver<Message>,
    pub(super) release: SyncSender<Group<P>>,
    pub(super) shared: Arc<Shared>,
    pub(super) copies: Arc<Copies<P>>,
    /// Events between two snapshots.
    pub(super) every: u64,
    /// Number of the last appended event.
    pub(super) last: u64,
    /// Number of the last event that a snapshot covers, including one of an earlier process.
    pub(super) last_snapshot: u64,
    /// Size of the events since then, or since the start.
    pub(super) bytes: u64,
    pub(super) snapshot: Option<JoinHandle<()>>,
    /// Number of the facts that readers saw last.
    pub(super) last_facts: u64,
    /// Whether the party knows that the clock is in doubt.
    pub(super) in_doubt: bool,
    /// Calls accepted and not answered.
    pub(super) unanswered: usize,
    /// Deadline after which it ends even with unanswered calls.
    pub(super) close_by: Option<Instant>,
    /// From then on long computations have their turn even if messages wait.
    pub(super) compute_at: Instant,
    pub(super) outbox: Option<Arc<Outbox>>,
    /// Callbacks for the next group.
    pub(super) on_released: Vec<OnReleased>,
}

/// Marks the thread as ended, also after a panic.
struct Ended(Arc<Shared>);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.ended.store(true, Ordering::Release);
        self.0.replies.end();
    }
}

impl<P: Party> Run<P> {
    /// Runs until the party is closed or fails, and closes the journal. Starts with the output of its start.
    pub(super) fn run(
        mut self,
        (now, started): (Moment, Output<P::Event>),
        releasing: JoinHandle<OrderSink>,
        keeping_up: JoinHandle<()>,
        recording: Option<JoinHandle<()>>,
    ) -> Result<(), PartyError> {
        let ended = Ended(self.shared.clone());
        let worked = self.settle(now, started).and_then(|()| self.work());
        let Run { journal, release, snapshot, shared, copies, messages, outbox, .. } = self;
        // Without more groups the release thread ends. Then only this thread has the journal.
        drop(release);
        let mut orders = Some(releasing.join());
        let _ = snapshot.map(JoinHandle::join);
        // Notices not written now are found in the journal at the next start.
        let _ = outbox.map(|outbox| outbox.save());
        // Rows not written now are written at the next start.
        shared.history.iter().for_each(|history| history.close());
        let _ = recording.map(JoinHandle::join);
        copies.close();
        let _ = keeping_up.join();
        // A lease that is given back lets another process start at once. Commands must have ended before.
        if shared.lease.epoch() > 0 {
            orders = None;
        }
        let closed = Arc::into_inner(journal).map_or(Ok(()), Journal::close);
        // After the inbox is dropped nothing can be sent to it, so no later call waits.
        drop(messages);
        drop(ended);
        // Last: dropping a worker waits for its running commands, and callers should not wait for that.
        drop(orders);
        // The cause, of which the other errors are consequences.
        if let Err(why @ JournalError::LeaseLost { .. }) = closed {
            return Err(why.into());
        }
        if let Some(why) = lock(&shared.failed).take() {
            return Err(why.into());
        }
        worked?;
        closed?;
        tracing::info!(event = "party_ended", party = %shared.name, "ended");
        Ok(())
    }

    fn work(&mut self) -> Result<(), PartyError> {
        while !self.is_done() {
            self.shared.beat.set();
            self.watch_clock();
            // The lease may end while there is nothing to write.
            if let Some(why) = self.journal.failed() {
                return Err(why.into());
            }
            let message = match self.messages.recv_timeout(self.pause()) {
                Ok(message) => Some(message),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            let began = Instant::now();
            let now = self.shared.clock.now();
            let may_compute = message.is_none() || self.compute_at <= began;
            // Before the message: the party must not decide on outdated state.
            let mut output = self.catch_up(now, may_compute);
            match message {
                None => {}
                Some(Message::Call(input)) => {
                    self.shared.queued.fetch_sub(1, Ordering::AcqRel);
                    self.unanswered += 1;
                    self.step(now, *input, &mut output);
                }
                Some(Message::Input(input)) => self.step(now, *input, &mut output),
                Some(Message::Answer(input, on_released)) => {
                    self.step(now, *input, &mut output);
                    self.on_released.push(on_released);
                }
                Some(Message::Orders(orders)) => {
                    let reports = self.inline.carry_out(now, orders);
                    self.take_reports(now, reports, &mut output);
                    self.advance(now, &mut output);
                }
                Some(Message::Failed) => return Ok(()),
                Some(Message::Close) => self.close_by = Some(Instant::now() + GRACE),
            }
            self.settle(now, output)?;
            self.take_snapshot();
            let worked = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
            self.shared.busy.fetch_add(worked, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Tells the party when the doubt about the clock begins or ends.
    fn watch_clock(&mut self) {
        let in_doubt = self.shared.clock.state().is_in_doubt();
        if in_doubt != self.in_doubt {
            self.in_doubt = in_doubt;
            self.party.doubt_clock(in_doubt);
        }
    }

    /// Whether it was closed, and nothing is in progress or the deadline has passed.
    fn is_done(&self) -> bool {
        let quiet = self.unanswered == 0 && self.inline.is_quiet();
        self.close_by.is_some_and(|by| quiet || Instant::now() >= by)
    }

    /// How long to wait for a message.
    fn pause(&self) -> Duration {
        let due = [self.party.wake_at(), self.inline.next_event()].into_iter().flatten().min();
        let pause = due.map_or(BEAT, |due| self.shared.clock.sleep_until(due).min(BEAT));
        self.close_by.map_or(pause, |by| pause.min(by.saturating_duration_since(Instant::now())))
    }

    /// Lets the party process everything that is due, so that it decides on current state. Continues a long
    /// computation, if allowed.
    fn catch_up(&mut self, now: Moment, may_compute: bool) -> Output<P::Event> {
        let mut output = Output::default();
        self.advance(now, &mut output);
        // `deadline` leaves out long computations, `wake_at` includes them.
        let due = if may_compute { self.party.wake_at() } else { self.party.deadline() };
        if due.is_some_and(|due| due <= now) {
            let began = Instant::now();
            self.step(now, Input::Time, &mut output);
            self.compute_at = Instant::now() + began.elapsed() * (COMPUTING_SHARE - 1);
        }
        output
    }

    fn advance(&mut self, now: Moment, output: &mut Output<P::Event>) {
        let reports = self.inline.advance(now);
        self.take_reports(now, reports, output);
    }

    fn take_reports(&mut self, now: Moment, reports: Vec<BatchReport>, output: &mut Output<P::Event>) {
        reports.into_iter().for_each(|report| self.step(now, Input::Batch(report), output));
    }

    /// Steps the party and adds its output.
    fn step(&mut self, now: Moment, input: Input, output: &mut Output<P::Event>) {
        let stepped = self.party.step(now, input);
        absorb(output, stepped);
    }

    /// Lets the inline scheduler carry out immediate orders until the party has no more.
    fn carry_out_now(&mut self, now: Moment, output: &mut Output<P::Event>) {
        while !output.batch_now.is_empty() {
            match self.inline.carry_out_now(now, std::mem::take(&mut output.batch_now)) {
                Ok(reports) => {
                    self.take_reports(now, reports, output);
                    self.advance(now, output);
                }
                // Without a scheduler they wait for durability like all others, but come first.
                Err(orders) => {
                    output.batch.splice(..0, orders);
                }
            }
        }
    }

    /// Appends an output to the journal and queues it for release. Immediate orders are carried out first.
    fn settle(&mut self, now: Moment, mut output: Output<P::Event>) -> Result<(), PartyError> {
        self.carry_out_now(now, &mut output);
        let (facts_number, facts) = self.party.facts();
        let new_facts = (facts_number != self.last_facts).then_some(facts);
        let on_released = std::mem::take(&mut self.on_released);
        if output.is_empty() && new_facts.is_none() && on_released.is_empty() {
            return Ok(());
        }
        self.last_facts = facts_number;
        let wrote = !output.events.is_empty();
        if wrote {
            crash::pass(Point::Decided);
        }
        let ticket = self.journal.append(&output.events)?;
        self.bytes += ticket.bytes();
        self.last += output.events.len() as u64;
        let Output { mut events, replies, calls, batch: orders, notices, remarks, stop, .. } = output;
        self.unanswered = self.unanswered.saturating_sub(replies.len());
        self.inline.note_leaving(&orders);
        events.retain(P::is_shown);
        let shown = Change { events, facts: new_facts };
        let group = Group { ticket, shown, replies, calls, orders, notices, remarks, wrote, on_released };
        // The release thread ends first only if the journal failed, which it has reported.
        let _ = self.release.send(group);
        match stop {
            Some(why) => Err(PartyError::Unfit { name: self.shared.name.clone(), why }),
            None => Ok(()),
        }
    }

    /// Takes a snapshot if it is due, and lets another thread write it.
    fn take_snapshot(&mut self) {
        let busy = self.snapshot.as_ref().is_some_and(|thread| !thread.is_finished());
        let few = self.last - self.last_snapshot < self.every && self.bytes < BYTES_BETWEEN_SNAPSHOTS;
        if few || busy {
            return;
        }
        let (up_to, state, journal) = (self.last, self.party.state(), self.journal.clone());
        let (name, outbox) = (self.shared.name.clone(), self.outbox.clone());
        (self.last_snapshot, self.bytes) = (up_to, 0);
        let write = move || {
            let began = Instant::now();
            // Compaction removes events. The outbox must not need them after a restart.
            if let Some(Err(why)) = outbox.map(|outbox| outbox.settle(up_to)) {
                let event = "journal_compaction_failed";
                tracing::error!(event, party = %name, "cannot write the file of waiting notices: {why}");
                return;
            }
            match journal.snapshot(up_to, &state).and_then(|()| journal.compact()) {
                Ok(dropped) => {
                    let (event, took) = ("journal_compacted", began.elapsed());
                    tracing::info!(event, party = %name, up_to, dropped, ?took, "compacted the journal");
                }
                Err(why) => {
                    let event = "journal_compaction_failed";
                    tracing::error!(event, party = %name, "cannot compact the journal: {why}");
                }
            }
        };
        match spawn("snapshot", write) {
            Ok(thread) => self.snapshot = Some(thread),
            Err(why) => {
                tracing::error!(event = "thread_failed", "cannot start a thread for a snapshot: {why}");
            }
        }
    }
}

/// Merges two outputs, as if both came from one input.
fn absorb<E>(all: &mut Output<E>, more: Output<E>) {
    // Mostly one input leads to all output.
    if all.is_empty() {
        *all = more;
        return;
    }
    let Output { events, replies, calls, batch, batch_now, notices, remarks, stop } = more;
    let before = all.events.len();
    all.events.extend(events);
    all.replies.extend(replies);
    all.calls.extend(calls);
    all.batch.extend(batch);
    all.batch_now.extend(batch_now);
    all.notices.extend(notices.into_iter().map(|(at, notice)| (before + at, notice)));
    all.remarks.extend(remarks);
    all.stop = all.stop.take().or(stop);
}
