//! What runs a party in a simulated grid, as the daemon's threads do: an input goes in, what comes of it is written down, and
//! only then the rest of it leaves. While one group of events is on its way to the disk more may be decided on top of it. A
//! crash loses all that is not on disk; then the party starts anew from a snapshot and the events after it.

use super::log::Tally;
use super::network::About;
use bookahead_party::broker::Broker;
use bookahead_party::site::{Site, SiteFlaw};
use bookahead_party::{BatchOrder, CallId, Input, Output, Party, PeerCall, Reply};
use bookahead_protocol::flaw::Flaw as Core;
use bookahead_protocol::{JobId, Millis, Moment, ReservationId};
use std::collections::BTreeMap;

/// Where in the middle of an input a party crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// Between two inputs.
    Idle,
    /// Before anything is written down: as if the input had never come.
    BeforeWriting,
    /// When everything is written down and nothing has left.
    AfterWriting,
    /// In the middle of sending: half of what leaves has left.
    WhileSending,
}

impl CrashPoint {
    /// Every one.
    pub const ALL: [CrashPoint; 4] =
        [CrashPoint::Idle, CrashPoint::BeforeWriting, CrashPoint::AfterWriting, CrashPoint::WhileSending];
}

/// How a party writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Disk {
    /// A group of events is durable after this time; more is decided meanwhile.
    pub takes: Millis,
    /// A snapshot is taken after this many events; never where it is zero.
    pub snapshot_every: usize,
}

impl Disk {
    /// Everything is durable at once, and all events are kept.
    pub const INSTANT: Disk = Disk { takes: Millis(0), snapshot_every: 0 };
}

/// An event in a journal, for those who look from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) word: &'static str,
    pub(super) id: Option<ReservationId>,
}

/// What leaves once it is durable.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    pub(super) written: Vec<Written>,
    pub(super) replies: Vec<(CallId, Reply)>,
    pub(super) calls: Vec<PeerCall>,
    pub(super) batch: Vec<BatchOrder>,
}

/// Who waits for the reply to a call, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    /// The place of the party; None where nobody waits.
    pub(super) from: Option<usize>,
    pub(super) about: About,
    pub(super) since: Moment,
}

/// A party, and what outlives it.
pub struct Host<P: Party> {
    party: P,
    /// As it is before it has taken over anything.
    blank: P,
    disk: Disk,
    /// All that is durable.
    journal: Vec<P::Event>,
    /// The party as it was, and how many events that stands for.
    snapshot: Option<(Box<P>, usize)>,
    writing: Option<Output<P::Event>>,
    decided: Output<P::Event>,
    next_call: u64,
    pub(super) calls: BTreeMap<CallId, Asker>,
    /// Why the party wants to be ended.
    pub(super) stopped: Option<String>,
    /// What it noted for its operator, counted.
    pub(super) remarks: Tally,
    /// How many times it has crashed.
    pub(super) life: u32,
    /// What a flawed party reads in its journal.
    pub(super) misread: Option<Misread<P>>,
    /// How the party is broken on purpose, in every life.
    alter: Option<Alter<P>>,
}

/// Reads an event as a flawed party does.
type Misread<P> = fn(&<P as Party>::Event) -> <P as Party>::Event;

/// Breaks a party on purpose.
type Alter<P> = Box<dyn Fn(&mut P)>;

/// What is the same for hosts of all parties.
pub(super) trait Driven {
    /// Gives an input to the party; answers what is to be ordered at once.
    fn step(&mut self, now: Moment, input: Input) -> Vec<BatchOrder>;
    /// Begins a life, after everything was replayed.
    fn start(&mut self, now: Moment) -> Vec<BatchOrder>;
    /// What was decided is on its way to the disk; after how long it is there. None where there is nothing, or another group
    /// is on its way.
    fn begin_write(&mut self) -> Option<Millis>;
    /// What was on its way is durable, and leaves; or a crash comes in between. `unsafe_send` lets it leave all the same.
    fn end_write(&mut self, crash: Option<CrashPoint>, unsafe_send: bool) -> Leaving;
    /// All is lost that is not durable.
    fn crash(&mut self);
    /// When it wants to be woken.
    fn wake_at(&self) -> Option<Moment>;
    /// Notes a call.
    fn call(&mut self, asker: Asker) -> CallId;
    /// Who waits for a reply.
    fn asker(&mut self, call: CallId) -> Option<Asker>;
    /// Answers a call with what can be seen of a job, once all that was decided before is durable.
    fn show_job(&mut self, call: CallId, id: JobId);
    /// Which life it is.
    fn life(&self) -> u32;
}

impl<P: Party> Host<P> {
    /// One with an empty disk.
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
        }
    }

    /// The party.
    pub fn party(&self) -> &P {
        &self.party
    }

    /// All that is written down.
    pub fn journal(&self) -> &[P::Event] {
        &self.journal
    }

    /// Changes the party as it is and as it will be after each restart: to break it on purpose.
    pub(super) fn alter(&mut self, change: impl Fn(&mut P) + 'static) {
        change(&mut self.blank);
        change(&mut self.party);
        self.alter = Some(Box::new(change));
    }

    /// All that was written down is lost.
    pub(super) fn lose_disk(&mut self) {
        (self.journal, self.snapshot) = (Vec::new(), None);
    }

    /// What comes of all events from the first on.
    pub(super) fn replayed(&self) -> P {
        let mut party = self.blank.clone();
        self.journal.iter().for_each(|event| party.apply(event));
        party
    }

    /// Whether nothing is on its way to the disk.
    pub(super) fn is_durable(&self) -> bool {
        self.writing.is_none() && self.decided.is_empty()
    }

    fn absorb(&mut self, output: Output<P::Event>) -> Vec<BatchOrder> {
        let Output { events, replies, calls, batch, batch_now, remarks, stop, .. } = output;
        self.decided.events.extend(events);
        self.decided.replies.extend(replies);
        self.decided.calls.extend(calls);
        self.decided.batch.extend(batch);
        self.stopped = self.stopped.take().or(stop);
        remarks.iter().for_each(|remark| self.remarks.count(remark.event));
        batch_now
    }

    /// Takes over what is on disk.
    fn recover(&mut self) {
        self.party = self.blank.clone();
        let mut from = 0;
        if let Some((snapshot, stands_for)) = &self.snapshot {
            match self.party.restore(snapshot.state()) {
                Ok(()) => from = *stands_for,
                Err(why) => self.stopped = Some(why),
            }
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
        let output = self.party.step(now, input);
        self.absorb(output)
    }

    fn start(&mut self, now: Moment) -> Vec<BatchOrder> {
        if self.life > 0 {
            self.recover();
        }
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
        self.journal.extend(events);
        self.take_snapshot();
        match crash {
            Some(CrashPoint::AfterWriting) => leaving = Leaving::default(),
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
        let unknown = || bookahead_protocol::Problem::new(bookahead_protocol::Why::UnknownJob(id));
        let shown = self.party.job(id).map(Box::new).ok_or_else(unknown);
        self.decided.replies.push((call, Reply::Job(shown)));
    }

    fn life(&self) -> u32 {
        self.life
    }
}

/// An event that has a word for people.
pub(super) trait Worded {
    /// What it is, and about which reservation.
    fn written(&self) -> Written;
}

impl Leaving {
    /// Half of it leaves: what is ordered and asked first, or what is answered first.
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

/// A way to break a grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// In the deciding code.
    Core(Core),
    /// In sites.
    Site(SiteFlaw),
    /// What drives a party lets its outputs leave before its events are durable.
    AnswerBeforeWriting,
    /// A site that restarts has forgotten until when it holds.
    ForgetDeadlines,
    /// A site takes a repeated reservation for a new one.
    RepeatsAreNew,
}

impl Flaw {
    #[cfg(feature = "flaws")]
    pub(super) fn set_in_site(self, site: &mut Site) {
        match self {
            Flaw::Core(flaw) => site.break_book_by(flaw),
            Flaw::Site(flaw) => site.break_by(flaw),
            _ => {}
        }
    }

    #[cfg(not(feature = "flaws"))]
    pub(super) fn set_in_site(self, _: &mut Site) {}

    #[cfg(feature = "flaws")]
    pub(super) fn set_in_broker(self, broker: &mut Broker) {
        if let Flaw::Core(flaw) = self {
            broker.break_by(flaw);
        }
    }

    #[cfg(not(feature = "flaws"))]
    pub(super) fn set_in_broker(self, _: &mut Broker) {}
}
