//! A broker: its head, the peers it asks, and those who wait for its answers. It decides nothing; what the head wants sent is
//! sent once the head's events are durable ([`courier`]), and what peers answer comes back as input.

mod courier;
mod jobs;
mod register;
mod sight;

pub use courier::{Courier, Link};
pub use jobs::{Event as JobEvent, PartThere, Rules as JobRules};
use register::without_circles;
pub use register::{Attention, Peer, Register, attend};

use crate::party::{Done, Input, Notice, Origin, Party, Reply, Sight};
use bookahead_api as api;
use bookahead_protocol::broker::{self, Effects, Rules};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Envelope, JobId, Key, Moment, Name, ReservationId};
use jobs::Jobs;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a broker writes down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Something happened to a booking.
    Booking(broker::Event),
    /// Something happened to a job.
    Job(JobEvent),
}

/// What stands for all events of a broker up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    bookings: broker::Snapshot,
    /// All that happened to the jobs that are remembered.
    jobs: Vec<JobEvent>,
}

/// A broker.
pub struct Broker {
    rules: Rules,
    head: broker::Broker,
    courier: Courier,
    register: Register,
    jobs: Jobs,
    about: api::Site,
    /// Those who wait for an answer.
    waiting: BTreeMap<Key, Reply<Answer>>,
    /// Which booking the keys of calls stand for, so that a key never stands for two. Follows from the bookings.
    keys: BTreeMap<Key, ReservationId>,
    /// The head knows those who call by a name; answers are told apart by their keys.
    caller: Name,
    /// How the calls came here that calls to peers are made because of, for when those are repeated. Of no use after a crash.
    origins: BTreeMap<Key, Origin>,
}

/// So many calls to peers are remembered with how they came about; who forgets has a call go round a circle once more at worst.
const MOST_ORIGINS: usize = 10_000;

impl Broker {
    /// One that has booked nothing.
    pub fn new(
        rules: Rules,
        job_rules: JobRules,
        about: api::Site,
        register: Register,
        courier: Courier,
    ) -> Broker {
        let mut broker = Broker {
            head: broker::Broker::new(rules.clone()),
            rules,
            courier,
            register,
            jobs: Jobs::new(job_rules),
            about,
            waiting: BTreeMap::new(),
            keys: BTreeMap::new(),
            caller: Name::from("caller"),
            origins: BTreeMap::new(),
        };
        broker.introduce_peers();
        broker
    }

    /// The head gets to know the peers that are up.
    fn introduce_peers(&mut self) {
        for (peer, resources) in self.register.up() {
            self.head.register(peer.clone(), resources.to_vec());
        }
    }

    fn call(
        &mut self,
        now: Moment,
        envelope: &Envelope,
        origin: &Origin,
        reply: Reply<Answer>,
        done: &mut Done<Event>,
    ) {
        let changes = !envelope.call.only_asks();
        let known = self.keys.get(&envelope.key).filter(|_| changes);
        if known.is_some_and(|known| Some(*known) != envelope.call.id()) {
            return done.answer(reply, Problem::new(Why::KeyTaken(envelope.key)).into());
        }
        self.forget_the_gone();
        self.waiting.insert(envelope.key, reply);
        let effects = self.head.handle(now, &self.caller, envelope);
        self.carry_out(effects, origin, done);
    }

    /// Those who have stopped waiting need no answer.
    fn forget_the_gone(&mut self) {
        const MANY: usize = 1_024;
        if self.waiting.len() >= MANY {
            self.waiting.retain(|_, reply| !reply.is_closed());
        }
    }

    fn carry_out(&mut self, effects: Effects, origin: &Origin, done: &mut Done<Event>) {
        for event in effects.events {
            self.note_keys(&event);
            if let Some(notice) = self.notice(&event) {
                done.notices.push((done.events.len(), notice));
            }
            done.events.push(Event::Booking(event));
        }
        for outgoing in effects.send {
            let (courier, origin) = (self.courier.clone(), self.origin_of(outgoing.envelope.key, origin));
            done.deeds.push(Box::new(move || courier.send(outgoing, origin)));
        }
        for answered in effects.replies {
            if let Some(reply) = self.waiting.remove(&answered.key) {
                done.answer(reply, answered.answer);
            }
        }
    }

    /// How the call came here that a call to a peer is made because of, also where it is only repeated.
    fn origin_of(&mut self, key: Key, origin: &Origin) -> Origin {
        if origin.via.is_empty() {
            return self.origins.get(&key).unwrap_or(origin).clone();
        }
        if self.origins.len() >= MOST_ORIGINS {
            self.origins.clear();
        }
        self.origins.insert(key, origin.clone());
        origin.clone()
    }

    fn carry_out_for_jobs(&mut self, effects: jobs::Effects, done: &mut Done<Event>) {
        for event in effects.events {
            let handed = if let JobEvent::Handed { id } = event { Some(id) } else { None };
            done.events.push(Event::Job(event));
            handed.into_iter().for_each(|job| self.attach(job, done));
        }
        for errand in effects.errands {
            let courier = self.courier.clone();
            done.deeds.push(Box::new(move || courier.run(errand)));
        }
    }

    /// A peer has a job that its owner wants in a reservation: the reservation is shown with it from now on.
    fn attach(&mut self, job: JobId, done: &mut Done<Event>) {
        let Some((id, part)) = self.jobs.part_of(job) else { return };
        if self.head.booking(id).is_none_or(|booking| booking.state.is_over()) {
            return;
        }
        let event = broker::Event::Attached { id, part, job };
        self.head.apply(&event);
        self.carry_out(Effects { events: vec![event], ..Effects::default() }, &Origin::default(), done);
    }

    fn answer_about_job(
        &mut self,
        id: JobId,
        outcome: Result<jobs::Effects, api::Problem>,
        reply: Reply<Result<api::Job, api::Problem>>,
        done: &mut Done<Event>,
    ) {
        let answer = outcome.and_then(|effects| {
            self.carry_out_for_jobs(effects, done);
            self.jobs.job(id).ok_or_else(|| jobs::unknown(id))
        });
        done.answer(reply, answer);
    }

    /// The number in front of the identities that are made for jobs, which are not the head's.
    fn maker_for_jobs(&self) -> u64 {
        self.rules.maker.rotate_left(32) ^ 0x6a6f_6273
    }

    fn note_keys(&mut self, event: &broker::Event) {
        match event {
            broker::Event::Answered { id, answered } => {
                self.keys.insert(answered.key, *id);
            }
            broker::Event::Forgot { id } => self.keys.retain(|_, booking| booking != id),
            _ => {}
        }
    }

    fn notice(&self, event: &broker::Event) -> Option<Notice> {
        let kind = told_as(event)?;
        let id = event.id()?;
        let booking = self.head.booking(id);
        Some(Notice {
            at: self.courier.now(),
            kind,
            id: Some(id),
            owner: booking.map(broker::Booking::owner),
            state: booking.map(|booking| booking.state),
            version: booking.map(|booking| booking.version),
            missing: None,
        })
    }

    fn heard(
        &mut self,
        now: Moment,
        heartbeat: api::Heartbeat,
        round_trip: Option<u64>,
    ) -> Result<(), api::Problem> {
        if heartbeat.url.trim_end_matches('/') == self.about.url.trim_end_matches('/') {
            let why =
                format!("{} is the address of this broker itself; it is no peer of its own", heartbeat.url);
            return Err(api::Problem::new(api::Code::Circle, why));
        }
        let heartbeat = without_circles(heartbeat, self.courier.identity());
        let peer = self.register.heard(now, heartbeat, round_trip)?;
        self.head.register(peer.name.clone(), peer.resources.clone());
        self.courier.meet(&peer.name, &peer.url);
        Ok(())
    }
}

impl Party for Broker {
    type Event = Event;
    type State = State;

    const KIND: &'static str = "broker";
    const SCHEMA: u32 = 1;

    fn restore(&mut self, state: State) -> Result<(), String> {
        self.head = broker::Broker::restore(self.rules.clone(), state.bookings);
        self.introduce_peers();
        let keys =
            self.head.bookings().flat_map(|booking| booking.answered_keys().map(|key| (key, booking.id)));
        self.keys = keys.collect();
        state.jobs.iter().for_each(|event| self.jobs.apply(event));
        Ok(())
    }

    fn replay(&mut self, event: &Event) {
        match event {
            Event::Booking(event) => {
                self.head.apply(event);
                self.note_keys(event);
            }
            Event::Job(event) => self.jobs.apply(event),
        }
    }

    fn wake(&mut self, now: Moment, done: &mut Done<Event>) -> Result<(), String> {
        let effects = self.head.resume(now);
        let life = effects.events.iter().find_map(|event| match event {
            broker::Event::Woke { life } => Some(*life),
            _ => None,
        });
        self.jobs.live_as(self.maker_for_jobs(), life.unwrap_or(0));
        self.carry_out(effects, &Origin::default(), done);
        let effects = self.jobs.resume(now);
        self.carry_out_for_jobs(effects, done);
        Ok(())
    }

    fn take(&mut self, now: Moment, input: Input, done: &mut Done<Event>) {
        match input {
            Input::Call { envelope, origin, reply } => self.call(now, &envelope, &origin, reply, done),
            Input::Answered { from, key, answer, origin } => {
                self.origins.remove(&key);
                if let Some(effects) = self.jobs.on_answer(now, &from, key, &answer) {
                    return self.carry_out_for_jobs(effects, done);
                }
                let effects = self.head.on_answer(now, &from, key, &answer);
                self.carry_out(effects, &origin, done);
            }
            Input::Heard { heartbeat, round_trip, reply } => {
                let heard = self.heard(now, heartbeat, round_trip);
                done.answer(reply, heard);
            }
            Input::Silent { peer } => {
                self.register.silent(&peer);
                self.head.unregister(&peer);
            }
            Input::Submit { caller, key, id, job, origin, reply } => {
                let peers: Vec<Peer> = self.register.all().filter(|peer| peer.up).cloned().collect();
                let reservation = job.reservation.and_then(|id| self.head.booking(id));
                let from = (&caller, &*origin.via);
                let taken = self.jobs.submit(now, from, (key, id), *job, reservation, peers.into_iter());
                self.answer_about_job(id, taken, reply, done);
            }
            Input::CancelJob { caller, id, reply } => {
                let cancelled = self.jobs.cancel(now, &caller, id);
                self.answer_about_job(id, cancelled, reply, done);
            }
            Input::JobAnswered { from, id, asked, answer } => {
                let effects = self.jobs.on_job(now, &from, (id, asked), answer);
                self.carry_out_for_jobs(effects, done);
            }
        }
    }

    fn tick(&mut self, now: Moment, done: &mut Done<Event>) {
        let effects = self.head.tick(now);
        self.carry_out(effects, &Origin::default(), done);
        let effects = self.jobs.tick(now);
        self.carry_out_for_jobs(effects, done);
    }

    fn next_timer(&self) -> Option<Moment> {
        [self.head.next_timer(), self.jobs.next_timer()].into_iter().flatten().min()
    }

    fn written(&mut self, _: Moment, _: &mut Done<Event>) {}

    fn state(&self) -> State {
        State { bookings: self.head.snapshot(), jobs: self.jobs.history() }
    }

    fn sight(&mut self) -> &mut dyn Sight {
        self
    }
}

/// The word by which a site tells the same, so that those who watch cannot tell a broker from a site. What is the broker's own
/// affair is not told.
fn told_as(event: &broker::Event) -> Option<&'static str> {
    use broker::Event;
    Some(match event {
        Event::Held { .. } => "accepted",
        Event::Committed { .. } | Event::Attached { .. } => "committed",
        Event::Changed { .. } => "change-settled",
        Event::Began { .. } => "begun",
        Event::Ended { .. } => "completed",
        Event::Closed { .. } => event.word(),
        Event::Forgot { .. } => "forgotten",
        Event::Woke { .. }
        | Event::Trying { .. }
        | Event::GaveUp { .. }
        | Event::Decided { .. }
        | Event::Answered { .. }
        | Event::Settled { .. } => return None,
    })
}
