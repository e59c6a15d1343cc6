//! A broker of a simulated grid: the negotiation of the protocol as a party.

use super::flaw::Flaw;
use super::host::{Worded, Written};
use bookahead_party::queries::{BatchHealth, ResourceSchedule};
use bookahead_party::{
    CallId, Filter, Input, Known, Origin, Output, Party, PeerCall, PeerRequest, Queries, Reply, Role, Viewer,
};
use bookahead_plan::Interval;
use bookahead_protocol::broker::{Broker as Head, Effects, Event, Rules, Snapshot};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::{
    Answer, Call, Caller, JobId, Moment, Name, Reservation, ReservationId, Resource, State,
};
use std::collections::BTreeMap;

/// A broker.
#[derive(Clone)]
pub struct Negotiator {
    rules: Rules,
    peers: Vec<(Name, Vec<Resource>)>,
    head: Head,
}

impl Negotiator {
    /// One that knows these peers and what they offer.
    pub fn new(rules: Rules, peers: Vec<(Name, Vec<Resource>)>) -> Negotiator {
        let mut broker = Negotiator { head: Head::new(rules.clone()), rules, peers };
        broker.register();
        broker
    }

    fn register(&mut self) {
        for (peer, resources) in &self.peers {
            self.head.register(peer.clone(), resources.clone());
        }
    }

    /// What it knows and does.
    pub fn head(&self) -> &Head {
        &self.head
    }

    #[cfg(feature = "flaws")]
    pub(super) fn break_by(&mut self, flaw: Flaw) {
        if let Flaw::Core(flaw) = flaw {
            self.head.break_by(flaw);
        }
    }

    #[cfg(not(feature = "flaws"))]
    pub(super) fn break_by(&mut self, _: Flaw) {}
}

fn output(effects: Effects) -> Output<Event> {
    let calls = effects.send.into_iter().map(|call| PeerCall {
        to: call.to,
        request: PeerRequest::Call(Box::new(call.envelope)),
        origin: Origin::default(),
    });
    let replies = effects.replies.into_iter().filter_map(|reply| {
        let call = reply.to.as_str().parse().ok()?;
        Some((CallId(call), Reply::Answer(reply.answer)))
    });
    let (calls, replies) = (calls.collect(), replies.collect());
    Output { events: effects.events, calls, replies, ..Output::default() }
}

impl Party for Negotiator {
    type Event = Event;
    type State = Snapshot;
    type Facts = ();

    const KIND: &'static str = "broker";
    const SCHEMA: u32 = 1;

    fn restore(&mut self, state: Snapshot) -> Result<(), String> {
        self.head = Head::restore(self.rules.clone(), state);
        self.register();
        Ok(())
    }

    fn apply(&mut self, event: &Event) {
        self.head.apply(event);
    }

    fn start(&mut self, now: Moment) -> Result<Output<Event>, String> {
        Ok(output(self.head.resume(now)))
    }

    fn step(&mut self, now: Moment, input: Input) -> Output<Event> {
        output(match input {
            Input::Call { call, envelope, .. } => {
                self.head.handle(now, &call.0.to_string().into(), &envelope)
            }
            Input::Answered { from, key, answer, .. } => self.head.on_answer(now, &from, key, &answer),
            _ => self.head.tick(now),
        })
    }

    fn wake_at(&self) -> Option<Moment> {
        self.head.next_timer()
    }

    fn state(&self) -> Snapshot {
        self.head.snapshot()
    }

    fn read_copy(&self) -> Negotiator {
        self.clone()
    }

    fn is_shown(_: &Event) -> bool {
        true
    }

    fn facts(&self) -> (u64, ()) {
        (0, ())
    }

    fn set_facts(&mut self, (): ()) {}
}

impl Queries for Negotiator {
    fn role(&self) -> Role {
        Role::Broker
    }

    fn resources(&self) -> Vec<Resource> {
        self.head.resources()
    }

    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        self.head.booking(id).map(|booking| booking.view(now))
    }

    fn list(&self, _: Moment, _: &Filter) -> (Vec<Reservation>, bool) {
        (Vec::new(), false)
    }

    fn schedule(&self, _: Moment, _: &Viewer, _: Interval, _: Option<&Name>) -> Vec<ResourceSchedule> {
        Vec::new()
    }

    fn sites(&self, _: Moment) -> Vec<Known> {
        Vec::new()
    }

    fn job(&self, _: JobId) -> Option<JobView> {
        None
    }

    fn jobs(&self, _: &Viewer) -> Vec<JobView> {
        Vec::new()
    }

    fn counts(&self) -> BTreeMap<State, usize> {
        BTreeMap::new()
    }

    fn ask(&mut self, _: Moment, _: &Caller, _: &Call) -> Option<Answer> {
        None
    }

    fn batch_health(&self, _: Moment) -> Option<BatchHealth> {
        None
    }
}

impl Worded for Event {
    fn written(&self) -> Written {
        Written { word: self.word(), id: self.id() }
    }
}
