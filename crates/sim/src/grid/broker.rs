//! A simulated broker: its head, and the journal that outlives it.

use super::message::Message;
use super::party::{Done, Flaw};
use bookahead_protocol::broker::{Broker as Head, Effects, Event, Rules};
use bookahead_protocol::{Answer, Envelope, Key, Moment, Name, Resource};

/// A broker.
pub struct Broker {
    rules: Rules,
    peers: Vec<(Name, Vec<Resource>)>,
    head: Head,
    journal: Vec<Event>,
    flaw: Option<Flaw>,
}

impl Broker {
    /// One that knows these peers and what they offer.
    pub fn new(rules: Rules, peers: Vec<(Name, Vec<Resource>)>) -> Broker {
        let mut broker =
            Broker { head: Head::new(rules.clone()), rules, peers, journal: Vec::new(), flaw: None };
        broker.head = broker.start();
        broker
    }

    fn start(&self) -> Head {
        let mut head = Head::new(self.rules.clone());
        for (peer, resources) in &self.peers {
            head.register(peer.clone(), resources.clone(), None);
        }
        if let Some(flaw) = self.flaw {
            flaw.set_in_broker(&mut head);
        }
        head
    }

    /// What it knows and does.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// All that is written down.
    pub fn journal(&self) -> &[Event] {
        &self.journal
    }

    pub(super) fn break_by(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        flaw.set_in_broker(&mut self.head);
    }

    pub(super) fn call(&mut self, now: Moment, from: &Name, envelope: &Envelope) -> Done<Event> {
        self.head.handle(now, from, envelope).into()
    }

    pub(super) fn answer(&mut self, now: Moment, from: &Name, key: Key, answer: &Answer) -> Done<Event> {
        self.head.on_answer(now, from, key, answer).into()
    }

    pub(super) fn tick(&mut self, now: Moment) -> Done<Event> {
        self.head.tick(now).into()
    }

    pub(super) fn next_timer(&self) -> Option<Moment> {
        self.head.next_timer()
    }

    pub(super) fn write(&mut self, events: Vec<Event>) {
        self.journal.extend(events);
    }

    /// Starts anew from the journal.
    pub(super) fn restart(&mut self, now: Moment) -> Done<Event> {
        self.head = self.start();
        for event in &self.journal {
            self.head.apply(event);
        }
        self.head.resume(now).into()
    }
}

impl From<Effects> for Done<Event> {
    fn from(effects: Effects) -> Done<Event> {
        let calls = effects.send.into_iter().map(|call| (call.to, Message::Call(call.envelope)));
        let answers = effects.replies.into_iter();
        let answers =
            answers.map(|reply| (reply.to, Message::Answer { key: reply.key, answer: reply.answer }));
        Done { events: effects.events, send: calls.chain(answers).collect() }
    }
}
