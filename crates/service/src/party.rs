//! What a site and a broker have in common: something comes in, events and deeds come out, and the deeds wait until the
//! events are durable. [`Party`] is what the keeper drives ([`crate::keeper`]); [`Sight`] is what can be looked at without
//! changing anything. There are two implementations, [`crate::site`] and [`crate::broker`], and one set of routes.

use bookahead_api as api;
use bookahead_plan::{Capacity, Time};
use bookahead_protocol::jobs::race::Ask;
use bookahead_protocol::{
    Answer, Envelope, JobId, Key, Moment, Name, Reservation, ReservationId, Resource, State,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::oneshot;

/// The trace that a call belongs to (W3C `traceparent`).
pub type Trace = Option<Arc<str>>;

/// The brokers that a call came through, by their identities, the first first.
pub type Via = Arc<[Name]>;

/// How a call came here: whatever is sent because of it carries that on.
#[derive(Debug, Clone, Default)]
pub struct Origin {
    /// The trace it belongs to.
    pub trace: Trace,
    /// The brokers it came through.
    pub via: Via,
}

/// Where an answer goes.
pub type Reply<T> = oneshot::Sender<T>;

/// What can come in.
#[derive(Debug)]
pub enum Input {
    /// Somebody calls.
    Call {
        /// What, and who.
        envelope: Envelope,
        /// How it came here.
        origin: Origin,
        /// Where the answer goes.
        reply: Reply<Answer>,
    },
    /// A peer answers a call that was made to it.
    Answered {
        /// Which peer.
        from: Name,
        /// Which call.
        key: Key,
        /// What.
        answer: Answer,
        /// How the call came here that it was made because of.
        origin: Origin,
    },
    /// A peer says that it is there, and what it offers; or was found to.
    Heard {
        /// What it says.
        heartbeat: api::Heartbeat,
        /// How long it took to ask, in milliseconds, where it was asked.
        round_trip: Option<u64>,
        /// Where the answer goes.
        reply: Reply<Result<(), api::Problem>>,
    },
    /// A peer has not been heard of for too long.
    Silent {
        /// Which.
        peer: Name,
    },
    /// Somebody has a job to run.
    Submit {
        /// Whose.
        caller: bookahead_protocol::Caller,
        /// The key of the call.
        key: Key,
        /// Its id.
        id: JobId,
        /// What.
        job: Box<api::SubmitJob>,
        /// How it came here.
        origin: Origin,
        /// Where the answer goes.
        reply: Reply<Result<api::Job, api::Problem>>,
    },
    /// A peer tells how a job is that was given to it.
    JobAnswered {
        /// Which peer.
        from: Name,
        /// Which job.
        id: JobId,
        /// What was asked.
        asked: Ask,
        /// How it is, or why it is not there.
        answer: Result<Box<api::Job>, api::Problem>,
    },
    /// Somebody no longer wants a job.
    CancelJob {
        /// Who.
        caller: bookahead_protocol::Caller,
        /// Which.
        id: JobId,
        /// Where the answer goes.
        reply: Reply<Result<api::Job, api::Problem>>,
    },
}

/// Something to be done once the events that go with it are durable.
pub type Deed = Box<dyn FnOnce() + Send>;

/// What came of an input.
pub struct Done<E> {
    /// To be written down, in order.
    pub events: Vec<E>,
    /// To be done when they are.
    pub deeds: Vec<Deed>,
    /// To be told to those who watch, with the place among the events.
    pub notices: Vec<(usize, Notice)>,
    /// Whether the party wants to hear ([`Party::written`]) when they are.
    pub call_back: bool,
}

/// What those who watch are told.
#[derive(Debug, Clone)]
pub struct Notice {
    /// When it happened.
    pub at: Moment,
    /// What, in a word.
    pub kind: &'static str,
    /// To which reservation.
    pub id: Option<ReservationId>,
    /// Whose it is.
    pub owner: Option<Name>,
    /// Its state afterwards.
    pub state: Option<State>,
    /// Its version afterwards.
    pub version: Option<u32>,
    /// Where some of it is missing now.
    pub missing: Option<Missing>,
}

/// Something is missing of a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// How much; zero where it is whole again.
    pub capacity: Capacity,
    /// Begins within the window of its request at which it could be had whole, if its owner changed it.
    pub could_begin: Vec<Time>,
}

/// A site or a broker, as its keeper drives it.
pub trait Party: Sight + Send + 'static {
    /// What it writes down.
    type Event: Serialize + DeserializeOwned + Send + Sync + 'static;
    /// What stands for all events up to one.
    type State: Serialize + DeserializeOwned + Send + 'static;

    /// What kind of journal it keeps.
    const KIND: &'static str;
    /// The version of its events and states.
    const SCHEMA: u32;

    /// Begins from a state. Says why it cannot.
    fn restore(&mut self, state: Self::State) -> Result<(), String>;
    /// Takes over what happened before a restart.
    fn replay(&mut self, event: &Self::Event);
    /// Begins its life, after everything was replayed.
    fn wake(&mut self, now: Moment, done: &mut Done<Self::Event>) -> Result<(), String>;
    /// Takes what comes in.
    fn take(&mut self, now: Moment, input: Input, done: &mut Done<Self::Event>);
    /// Time has passed.
    fn tick(&mut self, now: Moment, done: &mut Done<Self::Event>);
    /// When it wants a tick.
    fn next_timer(&self) -> Option<Moment>;
    /// Everything that it had done until some [`Done::call_back`] is durable: called as many times as it asked.
    fn written(&mut self, now: Moment, done: &mut Done<Self::Event>);
    /// What stands for all its events so far.
    fn state(&self) -> Self::State;
    /// As a thing to look at.
    fn sight(&mut self) -> &mut dyn Sight;
}

/// Which reservations are wanted.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this owner only.
    pub owner: Option<Name>,
    /// In one of these states only; in any where there is none.
    pub states: BTreeSet<State>,
    /// On this resource only.
    pub resource: Option<Name>,
    /// That end after this.
    pub from: Option<bookahead_plan::Time>,
    /// That begin before this.
    pub until: Option<bookahead_plan::Time>,
    /// After this one, in order of their ids.
    pub after: Option<ReservationId>,
    /// At most so many.
    pub limit: usize,
}

/// Who looks, and how much he may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer {
    /// Who.
    pub user: Name,
    /// Whether he may see what belongs to others.
    pub sees_all: bool,
}

/// What can be seen of a party without changing anything.
pub trait Sight {
    /// What it is.
    fn role(&self) -> api::Role;
    /// What it offers.
    fn resources(&self) -> Vec<Resource>;
    /// A reservation.
    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation>;
    /// Reservations in order of their ids, and whether there are more.
    fn list(&self, now: Moment, filter: &Filter) -> (Vec<Reservation>, bool);
    /// What is to be drawn of its schedules. It may have to look at its batch system for that.
    fn schedule(
        &mut self,
        now: Moment,
        viewer: &Viewer,
        window: bookahead_plan::Interval,
        resource: Option<&Name>,
    ) -> api::Schedule;
    /// Itself, and then whom it knows.
    fn sites(&mut self, now: Moment) -> Vec<api::Site>;
    /// Jobs that were given to it, the newest last.
    fn jobs(&self, viewer: &Viewer) -> Vec<api::Job>;
    /// How many reservations are in each state.
    fn counts(&self) -> BTreeMap<State, usize>;
}

impl Notice {
    /// Of a reservation, and no more is to be said.
    pub fn about(at: Moment, kind: &'static str, id: ReservationId) -> Notice {
        Notice { at, kind, id: Some(id), owner: None, state: None, version: None, missing: None }
    }
}

impl<E> Default for Done<E> {
    fn default() -> Done<E> {
        Done { events: Vec::new(), deeds: Vec::new(), notices: Vec::new(), call_back: false }
    }
}

impl<E> Done<E> {
    /// Answers, once all is durable.
    pub fn answer<T: Send + 'static>(&mut self, reply: Reply<T>, answer: T) {
        // Whoever asked may have gone.
        self.deeds.push(Box::new(move || drop(reply.send(answer))));
    }

    /// Whether nothing came of it.
    pub fn is_nothing(&self) -> bool {
        self.events.is_empty() && self.deeds.is_empty() && self.notices.is_empty() && !self.call_back
    }
}

impl Viewer {
    /// Whether he may see what belongs to `owner`.
    pub fn sees(&self, owner: &Name) -> bool {
        self.sees_all || self.user == *owner
    }
}

impl Filter {
    /// As many of those that are wanted as go on a page, and whether there are more.
    pub fn page(&self, all: impl Iterator<Item = Reservation>) -> (Vec<Reservation>, bool) {
        let mut page: Vec<Reservation> = Vec::new();
        for reservation in all.filter(|reservation| self.wants(reservation)) {
            if page.len() == self.limit {
                return (page, true);
            }
            page.push(reservation);
        }
        (page, false)
    }

    /// Whether a reservation is wanted.
    pub fn wants(&self, reservation: &Reservation) -> bool {
        let begin = reservation.slots.iter().map(|slot| slot.interval.begin).min();
        let end = reservation.slots.iter().map(|slot| slot.interval.end).max();
        self.owner.as_ref().is_none_or(|owner| *owner == reservation.owner)
            && (self.states.is_empty() || self.states.contains(&reservation.state))
            && self.resource.as_ref().is_none_or(|wanted| {
                reservation.slots.iter().any(|slot| slot.resource == *wanted || slot.site == *wanted)
            })
            && self.from.is_none_or(|from| end.is_some_and(|end| end > from))
            && self.until.is_none_or(|until| begin.is_some_and(|begin| begin < until))
    }
}
