//! Runs a party in a simulated grid like the daemon's threads: an input goes in, its events are written, and only then
//! the rest of the output leaves. While one group of events is being written, further inputs are decided on top of it.
//! A crash loses all that is not on disk; the party then restarts from a snapshot and the later events.

use super::log::{CrashPoint, Tally};
use super::network::About;
use super::work::Clock;
use bookahead_party::broker::Broker;
use bookahead_party::site::{Site, SiteFlaw};
use bookahead_party::{BatchOrder, CallId, Input, JournalTime, Output, Party, PeerCall, Reply};
use bookahead_protocol::flaw::Flaw as Core;
use bookahead_protocol::{JobId, Millis, Moment, Problem, ReservationId, Why};
use std::collections::BTreeMap;

/// The simulated disk of a party.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// Time until a group of events is durable; further inputs are decided meanwhile.
    pub takes: Millis,
    /// Number of events between two snapshots; 0 for none.
    pub snapshot_every: usize,
}

impl Disk {
    /// Durable immediately, without snapshots.
    pub(crate) const INSTANT: Disk = Disk { takes: Millis(0), snapshot_every: 0 };
}

/// A journalled event, for the log and the witness.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) word: &'static str,
    pub(super) id: Option<ReservationId>,
}

/// Output that is released when its events are durable.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    pub(super) written: Vec<Written>,
    pub(super) replies: Vec<(CallId, Reply)>,
    pub(super) calls: Vec<PeerCall>,
    pub(super) batch: Vec<BatchOrder>,
}

/// The caller of a call in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    /// Place of the calling party; None if no party waits.
    pub(super) from: Option<usize>,
    pub(super) about: About,
    pub(super) since: Moment,
}

/// A party with its simulated disk, which survives crashes.
pub struct Host<P: Party> {
    party: P,
    /// The party before any event; every restart begins with it.
    blank: P,
    disk: Disk,
    /// All durable events.
    journal: Vec<P::Event>,
    /// The party at the snapshot, and the number of events that it covers.
    snapshot: Option<(Box<P>, usize)>,
    writing: Option<Output<P::Event>>,
    decided: Output<P::Event>,
    next_call: u64,
    pub(super) calls: BTreeMap<CallId, Asker>,
    /// Reason with which the party asked to be stopped.
    pub(super) stopped: Option<String>,
    /// Counts of its log lines, by event name.
    pub(super) remarks: Tally,
    /// Number of crashes so far; identifies the present life.
    pub(super) life: u32,
    /// How a defective party reads its journal.
    pub(super) misread: Option<Misread<P>>,
    /// The deliberate defect, applied again after each restart.
    alter: Option<Alter<P>>,
    /// Measures the decisions.
    clock: Option<Clock>,
    /// Nanoseconds and events of the decisions since they were last taken.
    spent: (u64, u64),
    /// Number of events decided so far, lost ones included.
    events: u64,
    /// The life in which it was last recovered from the disk.
    recovered_in: u32,
    /// Time of the last input.
    stepped: Moment,
    /// Time of the newest event on the disk.
    newest: Option<Moment>,
}

type Misread<P> = fn(&<P as Party>::Event) -> <P as Party>::Event;

type Alter<P> = Box<dyn Fn(&mut P)>;

/// The part of a host that does not depend on the type of its party.
pub(super) trait Driven {
    /// Passes an input to the party. Returns the orders that an in-process batch system must carry out before the
    /// write.
    fn step(&mut self, now: Moment, input: Input) -> Vec<BatchOrder>;
    /// Recovers the party from the disk after a crash, and returns what the journal says about the time. None if it is
    /// empty.
    fn recovered(&mut self) -> Option<JournalTime>;
    /// Tells the party whether its clock is in doubt.
    fn doubt_clock(&mut self, in_doubt: bool);
    /// The clock of the party leaps by this much: calls in progress have not waited longer for that.
    fn time_leaps(&mut self, by: Millis);
    /// Starts the party; after a crash it is first recovered from the disk.
    fn start(&mut self, now: Moment) -> Vec<BatchOrder>;
    /// Begins to write the decided events and returns how long that takes. None if there are none, or if another group
    /// is being written.
    fn begin_write(&mut self) -> Option<Millis>;
    /// Ends the write and returns its output, or the part that leaves before a crash. `unsafe_send` is the defect of
    /// sending output whose events were lost.
    fn end_write(&mut self, crash: Option<CrashPoint>, unsafe_send: bool) -> Leaving;
    /// Loses everything that is not durable.
    fn crash(&mut self);
    fn wake_at(&self) -> Option<Moment>;
    /// Registers a call in progress.
    fn call(&mut self, asker: Asker) -> CallId;
    /// Removes a call in progress and returns its caller.
    fn asker(&mut self, call: CallId) -> Option<Asker>;
    /// Answers a call with the present view of a job, once all earlier decisions are durable.
    fn show_job(&mut self, call: CallId, id: JobId);
    fn life(&self) -> u32;
    /// [`Party::deadline`].
    fn deadline(&self) -> Option<Moment>;
    /// Measures all further decisions.
    fn measure(&mut self, clock: Option<Clock>);
    /// Nanoseconds and events of the decisions since the last call.
    fn take_spent(&mut self) -> (u64, u64);
}

impl<P: Party> Host<P> {
    /// A host with an empty disk.
    pub fn new(party: P, disk: Disk) -> Host<P> {
        Host {
            blank: party.clone(),
            party,
            disk,
            journal: Vec::new(),
            snapshot: None,
            writing: None,
            decided: Output::default(),
            next_call: 0,
            calls: BTreeMap::new(),
            stopped: None,
            remarks: Tally::default(),
            life: 0,
            misread: None,
            alter: None,
            clock: None,
            spent: (0, 0),
            events: 0,
            recovered_in: 0,
            stepped: Moment(0),
            newest: None,
        }
    }

    /// The party in its present state.
    pub fn party(&self) -> &P {
        &self.party
    }

    /// All durable events, from the first on.
    pub fn journal(&self) -> &[P::Event] {
        &self.journal
    }

    /// Adds a defect to the party, now and after each restart.
    pub(super) fn alter(&mut self, change: impl Fn(&mut P) + 'static) {
        change(&mut self.blank);
        change(&mut self.party);
        self.alter = Some(Box::new(change));
    }

    pub(super) fn lose_disk(&mut self) {
        (self.journal, self.snapshot, self.newest) = (Vec::new(), None, None);
    }

    /// The party that results from replaying all events.
    pub(super) fn replayed(&self) -> P {
        let mut party = self.blank.clone();
        self.journal.iter().for_each(|event| party.apply(event));
        party
    }

    /// Whether no decision is waiting to be written.
    pub(super) fn is_durable(&self) -> bool {
        self.writing.is_none() && self.decided.is_empty()
    }

    /// The present life, and the number of events decided in all lives.
    pub(super) fn decided(&self) -> (u32, u64) {
        (self.life, self.events)
    }

    fn absorb(&mut self, output: Output<P::Event>) -> Vec<BatchOrder> {
        let Output { events, replies, calls, batch, batch_now, remarks, stop, .. } = output;
        self.events += events.len() as u64;
        self.spent.1 += events.len() as u64;
        self.decided.events.extend(events);
        self.decided.replies.extend(replies);
        self.decided.calls.extend(calls);
        self.decided.batch.extend(batch);
        self.stopped = self.stopped.take().or(stop);
        remarks.iter().for_each(|remark| self.remarks.count(remark.event));
        batch_now
    }

    /// Recovers the party, unless it has not crashed or is recovered already.
    fn recover_once(&mut self) {
        if self.recovered_in < self.life {
            self.recovered_in = self.life;
            self.recover();
        }
    }

    /// Rebuilds the party from the snapshot and the later events.
    fn recover(&mut self) {
        self.party = self.blank.clone();
        let mut from = 0;
        if let Some((snapshot, stands_for)) = &self.snapshot {
            match self.party.restore(snapshot.state()) {
                Ok(()) => from = *stands_for,
                Err(why) => self.stopped = Some(why),
            }
            // Restoring replaces the state, and the defect with it.
            self.alter.iter().for_each(|alter| alter(&mut self.party));
        }
        for event in &self.journal[from..] {
            match self.misread {
                Some(misread) => self.party.apply(&misread(event)),
                None => self.party.apply(event),
            }
        }
    }

    fn take_snapshot(&mut self) {
        let stands_for = self.snapshot.as_ref().map_or(0, |(_, stands_for)| *stands_for);
        // Decided events are in the party and not yet in the journal: a snapshot with them would make a restart apply
        // them twice.
        let due = self.disk.snapshot_every > 0
            && self.journal.len() - stands_for >= self.disk.snapshot_every
            && self.decided.events.is_empty();
        if due {
            self.snapshot = Some((Box::new(self.party.clone()), self.journal.len()));
        }
    }
}

impl<P: Party> Driven for Host<P>
where
    P::Event: Worded,
{
    fn step(&mut self, now: Moment, input: Input) -> Vec<BatchOrder> {
        self.stepped = now;
        let before = self.clock.map(|clock| (clock.now)());
        let output = self.party.step(now, input);
        if let Some((clock, before)) = self.clock.zip(before) {
            let took = (clock.now)().saturating_sub(before);
            self.spent.0 += took.saturating_sub(clock.reading);
        }
        self.absorb(output)
    }

    fn recovered(&mut self) -> Option<JournalTime> {
        self.recover_once();
        self.newest.map(|newest| JournalTime { newest, due: self.party.next_change() })
    }

    fn doubt_clock(&mut self, in_doubt: bool) {
        self.party.doubt_clock(in_doubt);
    }

    fn time_leaps(&mut self, by: Millis) {
        self.calls.values_mut().for_each(|asker| asker.since = asker.since + by);
    }

    fn start(&mut self, now: Moment) -> Vec<BatchOrder> {
        self.stepped = now;
        self.recover_once();
        match self.party.start(now) {
            Ok(output) => self.absorb(output),
            Err(why) => {
                self.stopped = Some(why);
                Vec::new()
            }
        }
    }

    fn begin_write(&mut self) -> Option<Millis> {
        if self.writing.is_some() || self.decided.is_empty() {
            return None;
        }
        self.writing = Some(std::mem::take(&mut self.decided));
        Some(self.disk.takes)
    }

    fn end_write(&mut self, crash: Option<CrashPoint>, unsafe_send: bool) -> Leaving {
        let Some(Output { events, replies, calls, batch, .. }) = self.writing.take() else {
            return Leaving::default();
        };
        let mut leaving = Leaving { written: Vec::new(), replies, calls, batch };
        if crash == Some(CrashPoint::BeforeWriting) {
            return if unsafe_send { leaving } else { Leaving::default() };
        }
        let written = events.iter().map(Worded::written).collect();
        if !events.is_empty() {
            self.newest = self.newest.max(Some(self.stepped));
        }
        self.journal.extend(events);
        self.take_snapshot();
        match crash {
            Some(CrashPoint::AfterWriting) => leaving = Leaving::default(),
            // The order alternates between lives, so that both are tested.
            Some(CrashPoint::WhileSending) => leaving.halve(self.life.is_multiple_of(2)),
            _ => {}
        }
        Leaving { written, ..leaving }
    }

    fn crash(&mut self) {
        self.life += 1;
        (self.writing, self.decided) = (None, Output::default());
        self.calls.clear();
    }

    fn wake_at(&self) -> Option<Moment> {
        self.party.wake_at()
    }

    fn call(&mut self, asker: Asker) -> CallId {
        self.next_call += 1;
        self.calls.insert(CallId(self.next_call), asker);
        CallId(self.next_call)
    }

    fn asker(&mut self, call: CallId) -> Option<Asker> {
        self.calls.remove(&call)
    }

    fn show_job(&mut self, call: CallId, id: JobId) {
        let may_have = self.party.may_have_job(id);
        let unknown = || Problem::new(if may_have { Why::NoBatchSystem } else { Why::UnknownJob(id) });
        let shown = self.party.job(id).map(Box::new).ok_or_else(unknown);
        self.decided.replies.push((call, Reply::Job(shown)));
    }

    fn life(&self) -> u32 {
        self.life
    }

    fn deadline(&self) -> Option<Moment> {
        self.party.deadline()
    }

    fn measure(&mut self, clock: Option<Clock>) {
        (self.clock, self.spent) = (clock, (0, 0));
    }

    fn take_spent(&mut self) -> (u64, u64) {
        std::mem::take(&mut self.spent)
    }
}

/// An event with a short name for people.
pub(super) trait Worded {
    fn written(&self) -> Written;
}

impl Leaving {
    /// Keeps half of the output: orders and calls first, or replies first.
    fn halve(&mut self, answers_last: bool) {
        let Leaving { replies, calls, batch, .. } = self;
        let half = (replies.len() + calls.len() + batch.len()) / 2;
        if answers_last {
            batch.truncate(half);
            calls.truncate(half - batch.len());
            replies.truncate(half - batch.len() - calls.len());
        } else {
            replies.truncate(half);
            calls.truncate(half - replies.len());
            batch.truncate(half - replies.len() - calls.len());
        }
    }
}

/// A deliberate defect of a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// In the protocol.
    Core(Core),
    /// In a site.
    Site(SiteFlaw),
    /// Outputs leave before their events are durable.
    AnswerBeforeWriting,
    /// A restarted site has lost the deadlines of its holds.
    ForgetDeadlines,
    /// A site treats a repeated reservation as a new one.
    RepeatsAreNew,
    /// A clock that is wrong at a start is followed.
    TrustClocks,
}

impl Flaw {
    pub(super) fn set_in_site(self, site: &mut Site) {
        match self {
            Flaw::Core(flaw) => site.break_book_by(flaw),
            Flaw::Site(flaw) => site.break_by(flaw),
            _ => {}
        }
    }

    pub(super) fn set_in_broker(self, broker: &mut Broker) {
        if let Flaw::Core(flaw) = self {
            broker.break_by(flaw);
        }
    }
}
