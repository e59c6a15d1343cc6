//! A party of a simulated grid: a site, a broker or a client, up or down. Whatever it does with a message it first
//! writes down, then says; a crash can come before, between or in the middle of that.

use super::broker::Broker;
use super::client::Client;
use super::message::Message;
use super::site::Site;
use bookahead_protocol::ledger::{self, Ledger};
use bookahead_protocol::{Moment, Name, broker};

/// What came of an input: to be written down, then to be sent.
#[derive(Debug)]
pub(super) struct Done<E> {
    pub(super) events: Vec<E>,
    pub(super) send: Vec<(Name, Message)>,
}

impl<E> Default for Done<E> {
    fn default() -> Done<E> {
        Done { events: Vec::new(), send: Vec::new() }
    }
}

/// Where in the middle of an input a party crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CrashPoint {
    /// Between two inputs.
    Idle,
    /// Before anything is written down: as if the input had never come.
    BeforeWriting,
    /// When everything is written down and nothing is said.
    AfterWriting,
    /// In the middle of saying it: half of the messages leave.
    WhileSending,
}

impl CrashPoint {
    /// Every one.
    pub const ALL: [CrashPoint; 4] =
        [CrashPoint::Idle, CrashPoint::BeforeWriting, CrashPoint::AfterWriting, CrashPoint::WhileSending];
}

/// A way to break the protocol on purpose; see [`bookahead_protocol::flaw`]. Only tests can set one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flaw {
    /// In the deciding code.
    Core(bookahead_protocol::flaw::Flaw),
    /// What is said leaves before it is written down.
    AnswerBeforeWriting,
    /// A site that restarts has forgotten until when it holds.
    ForgetDeadlines,
    /// A site takes a repeated reservation for a new one.
    RepeatsAreNew,
}

impl Flaw {
    #[cfg(feature = "flaws")]
    pub(super) fn set_in_ledger(self, ledger: &mut Ledger) {
        if let Flaw::Core(flaw) = self {
            ledger.break_by(flaw);
        }
    }

    #[cfg(not(feature = "flaws"))]
    pub(super) fn set_in_ledger(self, _: &mut Ledger) {}

    #[cfg(feature = "flaws")]
    pub(super) fn set_in_broker(self, broker: &mut broker::Broker) {
        if let Flaw::Core(flaw) = self {
            broker.break_by(flaw);
        }
    }

    #[cfg(not(feature = "flaws"))]
    pub(super) fn set_in_broker(self, _: &mut broker::Broker) {}

    /// What a site reads in its journal.
    pub(super) fn replayed(flaw: Option<Flaw>, event: &ledger::Event) -> ledger::Event {
        let mut event = event.clone();
        if flaw == Some(Flaw::ForgetDeadlines)
            && let ledger::What::Held { deadline, .. } = &mut event.what
        {
            *deadline = Moment::MAX;
        }
        event
    }
}

/// What a party is.
pub enum Role {
    /// It owns resources.
    Site(Box<Site>),
    /// It books at others.
    Broker(Box<Broker>),
    /// It wants something.
    Client(Box<Client>),
}

/// A party.
pub struct Party {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub role: Role,
    pub(super) up: bool,
    /// It crashes with the next input, there.
    pub(super) armed: Option<CrashPoint>,
    /// When it is to be woken, as far as that is arranged.
    pub(super) wakes: Option<Moment>,
    pub(super) flaw: Option<Flaw>,
}

/// What reaches a party.
pub(super) enum Input<'a> {
    /// A message.
    Message { from: &'a Name, message: &'a Message },
    /// The time it wanted to be woken.
    Time,
    /// Part of a resource has failed, or is back.
    Failure,
    /// It starts again.
    Start,
}

/// What came of it: the words of what was written down, and what is to be sent.
#[derive(Default)]
pub(super) struct Output {
    pub(super) written: Vec<Written>,
    pub(super) send: Vec<(Name, Message)>,
    pub(super) crashed: Option<CrashPoint>,
}

/// An event in somebody's journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) word: &'static str,
    pub(super) id: Option<bookahead_protocol::ReservationId>,
}

impl Party {
    /// One that is up.
    pub fn new(name: Name, role: Role) -> Party {
        Party { name, role, up: true, armed: None, wakes: None, flaw: None }
    }

    pub(super) fn break_by(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        match &mut self.role {
            Role::Site(site) => site.break_by(flaw),
            Role::Broker(broker) => broker.break_by(flaw),
            Role::Client(_) => {}
        }
    }

    /// Whether it runs.
    pub fn is_up(&self) -> bool {
        self.up
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        match &self.role {
            Role::Site(site) => site.next_timer(),
            Role::Broker(broker) => broker.next_timer(),
            Role::Client(client) => client.next_timer(),
        }
    }

    /// Takes an input: decides, writes down, says. A crash that is due comes somewhere in it.
    pub(super) fn take(&mut self, now: Moment, input: &Input<'_>) -> Output {
        let (written, send) = match &mut self.role {
            Role::Client(client) => {
                let send = match input {
                    Input::Message { message: Message::Answer { key, answer }, .. } => {
                        client.answer(now, *key, answer);
                        Vec::new()
                    }
                    Input::Time => client.tick(now),
                    _ => Vec::new(),
                };
                return Output { send, ..Output::default() };
            }
            Role::Site(site) => {
                let done = match input {
                    Input::Message { from, message: Message::Call(envelope) } => {
                        site.call(now, from, envelope)
                    }
                    Input::Failure => site.notice(now),
                    Input::Start => site.restart(now),
                    Input::Message { .. } | Input::Time => site.tick(now),
                };
                let written = done.events.iter().map(|event| Written::of_site(&event.what)).collect();
                if self.armed != Some(CrashPoint::BeforeWriting) {
                    site.write(done.events);
                }
                (written, done.send)
            }
            Role::Broker(broker) => {
                let done = match input {
                    Input::Message { from, message: Message::Call(envelope) } => {
                        broker.call(now, from, envelope)
                    }
                    Input::Message { from, message: Message::Answer { key, answer } } => {
                        broker.answer(now, from, *key, answer)
                    }
                    Input::Start => broker.restart(now),
                    Input::Time | Input::Failure => broker.tick(now),
                };
                let written = done.events.iter().map(Written::of_broker).collect();
                if self.armed != Some(CrashPoint::BeforeWriting) {
                    broker.write(done.events);
                }
                (written, done.send)
            }
        };
        self.say(written, send)
    }

    fn say(&mut self, mut written: Vec<Written>, mut send: Vec<(Name, Message)>) -> Output {
        let crashed = self.armed.take();
        match crashed {
            None | Some(CrashPoint::Idle) => {}
            Some(CrashPoint::BeforeWriting) => {
                written.clear();
                if self.flaw != Some(Flaw::AnswerBeforeWriting) {
                    send.clear();
                }
            }
            Some(CrashPoint::AfterWriting) => send.clear(),
            Some(CrashPoint::WhileSending) => send.truncate(send.len() / 2),
        }
        if crashed.is_some() {
            self.up = false;
        }
        Output { written, send, crashed }
    }
}

impl Written {
    fn of_site(what: &ledger::What) -> Written {
        Written { word: what.word(), id: what.id() }
    }

    fn of_broker(event: &broker::Event) -> Written {
        Written { word: event.word(), id: event.id() }
    }
}
