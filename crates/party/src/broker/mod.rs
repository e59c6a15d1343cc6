//! A broker: the negotiation of bookings ([`Head`]), the jobs submitted to it (`jobs`), and the register of
//! its peers (`register`). It dispatches inputs to them, and turns their effects into replies, calls to peers
//! and notices.
//!
//! Unanswered calls to peers are repeated by the component that made them. A broker never calls itself:
//! resources that are reached through it are not offered to it, and its own address cannot register as a
//! peer.

mod event;
mod jobs;
mod queries;

pub use event::{BrokerEvent, BrokerState, JobEvent, JobRules, PartThere};

use crate::queries::Subject;
use crate::register::{Changes, Heartbeat, Register};
use crate::step::{
    CallId, Input, Level, NewRules, Notice, Origin, Output, Party, PeerCall, PeerRequest, Remark, Reply,
};
use bookahead_protocol::broker::{Booking, Broker as Head, Effects, Event, Outcome, Rules};
use bookahead_protocol::ledger::Because;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Call, Envelope, JobId, Key, Moment, Name, State};
use jobs::{Around, Jobs, Seen, Submission};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most calls to peers whose origin is remembered, for repetitions. Forgetting one costs at most one extra
/// trip round a broker cycle.
const MOST_ORIGINS: usize = 10_000;

/// Most waiting repetitions of one call. Older ones have stopped waiting long ago.
const MOST_WAITING: usize = 16;

/// A broker as a party.
#[derive(Debug, Clone)]
pub struct Broker {
    rules: Rules,
    head: Head,
    jobs: Jobs,
    register: Arc<Register>,
    register_changes: u64,
    /// Recent changes of its reservations, for brokers above.
    changes: Arc<Changes>,
    about: Heartbeat,
    /// The sender's name for all calls to the head. Replies are matched by key.
    caller: Name,
    // The fields below are lost in a crash.
    waiting: BTreeMap<Key, Waiting>,
    /// Origins of the calls that calls to peers follow from.
    origins: BTreeMap<Key, Origin>,
    /// Whether the clock is in doubt, so that nothing new is promised.
    clock_in_doubt: bool,
}

/// Calls that wait for the same answer.
#[derive(Debug, Clone)]
struct Waiting {
    call: Call,
    calls: Vec<CallId>,
}

/// Published data of a broker that is not in its events: its register, and the last reports of sites about
/// jobs.
#[derive(Debug, Clone)]
pub struct BrokerFacts {
    register: Arc<Register>,
    changes: Arc<Changes>,
    seen: Arc<Seen>,
}

type Step = crate::step::Step<BrokerEvent>;

impl Broker {
    /// A broker without bookings and peers. `about` is its heartbeat; the resources are those of its peers.
    /// `identity` must be unique among brokers. Peers that are not `named` can register only if it is `open`.
    pub fn new(
        rules: Rules,
        job_rules: JobRules,
        about: Heartbeat,
        identity: Name,
        named: BTreeSet<Name>,
        open: bool,
    ) -> Broker {
        Broker {
            head: Head::new(rules.clone()),
            rules,
            jobs: Jobs::new(job_rules),
            register: Arc::new(Register::new(identity, named, open)),
            register_changes: 0,
            changes: Arc::default(),
            about,
            caller: Name::from("caller"),
            waiting: BTreeMap::new(),
            origins: BTreeMap::new(),
            clock_in_doubt: false,
        }
    }

    /// The negotiation, for checks.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Breaks the negotiation or the races of copies on purpose, so that tests can prove they would notice.
    pub fn break_by(&mut self, flaw: bookahead_protocol::flaw::Flaw) {
        self.head.break_by(flaw);
        self.jobs.flaw = Some(flaw);
    }

    fn call(&mut self, call: CallId, envelope: &Envelope, origin: &Origin, step: &mut Step) {
        let key = envelope.key;
        // A key must not be used for two reservations. Queries have no effect, so their keys do not matter.
        let known = self.head.answered_about(key).filter(|_| !envelope.call.only_asks());
        let under_way = self.waiting.get(&key);
        if known.is_some_and(|known| Some(known) != envelope.call.id())
            || under_way.is_some_and(|waiting| waiting.call != envelope.call)
        {
            return step.out.answer(call, Problem::new(Why::KeyTaken(key)));
        }
        if self.clock_in_doubt && self.promises(envelope) {
            return step.out.answer(call, Problem::new(Why::ClockInDoubt));
        }
        // The waiting call is stored first: the head may answer within the same step.
        let new = || Waiting { call: envelope.call.clone(), calls: Vec::new() };
        let calls = &mut self.waiting.entry(key).or_insert_with(new).calls;
        if calls.len() == MOST_WAITING {
            calls.remove(0);
        }
        calls.push(call);
        let effects = self.head.handle(step.now, &self.caller, envelope);
        self.carry_out(effects, origin, step);
    }

    /// Whether a call requests a promise that does not exist yet, or asks for one.
    fn promises(&self, envelope: &Envelope) -> bool {
        match &envelope.call {
            Call::Probe { .. } => true,
            Call::Reserve { id, .. } => self.head.booking(*id).is_none(),
            Call::Hold { .. } | Call::Extend { .. } | Call::Change { .. } | Call::PrepareChange { .. } => {
                self.head.answered_about(envelope.key).is_none()
            }
            _ => false,
        }
    }

    /// Scales durations that were measured on a machine to the slowest resource that suits the part: the parts of a
    /// request are placed together, so each has one duration, and none may be too short.
    fn set_durations(&self, envelope: &mut Envelope) {
        let parts = envelope.call.request_mut().map(|request| &mut request.parts).into_iter().flatten();
        for part in parts.filter(|part| part.measured_on.is_some()) {
            if let Some(duration) = self.register.longest(part) {
                *part = part.lasting(duration);
            }
        }
    }

    fn carry_out(&mut self, effects: Effects, origin: &Origin, step: &mut Step) {
        for event in effects.events {
            self.note_change(&event);
            if let Some(notice) = self.notice(step.now, &event) {
                step.out.notices.push((step.out.events.len(), notice));
            }
            step.out.events.push(BrokerEvent::Booking(event));
        }
        for outgoing in effects.send {
            let origin = self.origin_of(outgoing.envelope.key, origin);
            let request = PeerRequest::Call(Box::new(outgoing.envelope));
            step.out.calls.push(PeerCall { to: outgoing.to, request, origin });
        }
        for reply in effects.replies {
            for call in self.waiting.remove(&reply.key).into_iter().flat_map(|waiting| waiting.calls) {
                step.out.answer(call, reply.answer.clone());
            }
        }
    }

    /// The origin of a call to a peer. A repetition has none of its own, so the stored one is used.
    fn origin_of(&mut self, key: Key, origin: &Origin) -> Origin {
        if origin.via.is_empty() {
            return self.origins.get(&key).unwrap_or(origin).clone();
        }
        // All at once: keeping an order is not worth it, because a lost origin does little harm.
        if self.origins.len() >= MOST_ORIGINS {
            self.origins.clear();
        }
        self.origins.insert(key, origin.clone());
        origin.clone()
    }

    fn carry_out_for_jobs(&mut self, effects: jobs::Effects, step: &mut Step) {
        let mut notices = effects.notices.into_iter().peekable();
        for (number, event) in effects.events.into_iter().enumerate() {
            while let Some((_, notice)) = notices.next_if(|(at, _)| *at <= number) {
                step.out.notices.push((step.out.events.len(), notice));
            }
            let handed = matches!(event, JobEvent::Handed { .. }).then(|| event.id());
            step.out.events.push(BrokerEvent::Job(event));
            handed.into_iter().for_each(|job| self.attach(job, step));
        }
        step.out.notices.extend(notices.map(|(_, notice)| (step.out.events.len(), notice)));
        step.out.calls.extend(effects.calls);
        step.out.remarks.extend(effects.remarks);
    }

    /// A peer has accepted a job for a reservation: the reservation shows it from now on.
    fn attach(&mut self, job: JobId, step: &mut Step) {
        let Some((id, part)) = self.jobs.part_of(job) else { return };
        if self.head.booking(id).is_none_or(|booking| booking.state.is_over()) {
            return;
        }
        let event = Event::Attached { id, part, job };
        self.head.apply(&event);
        let effects = Effects { events: vec![event], ..Effects::default() };
        self.carry_out(effects, &Origin::default(), step);
    }

    /// Acts on a job, and answers with its state afterwards.
    fn about_job(
        &mut self,
        (call, id): (CallId, JobId),
        step: &mut Step,
        act: impl FnOnce(&mut Jobs, Around<'_>, &mut jobs::Effects) -> Result<(), Problem>,
    ) {
        let mut effects = jobs::Effects::new(step.now);
        let done = act(&mut self.jobs, Around { head: &self.head, register: &self.register }, &mut effects);
        self.carry_out_for_jobs(effects, step);
        let unknown = || Problem::new(Why::UnknownJob(id));
        step.out.answer_job(call, done.and_then(|()| self.jobs.job(id).ok_or_else(unknown)));
    }

    /// Records a change of a reservation, for brokers above.
    fn note_change(&mut self, event: &Event) {
        if let Event::PartSeen { id, .. }
        | Event::Replaced { id, .. }
        | Event::Changed { id, .. }
        | Event::Closed { id, .. }
        | Event::Ended { id, .. } = event
        {
            Arc::make_mut(&mut self.changes).note(*id);
            self.register_changes += 1;
        }
    }

    fn notice(&self, at: Moment, event: &Event) -> Option<Notice> {
        let id = event.id()?;
        let booking = self.head.booking(id);
        let kind = told_as(event, booking.map(|booking| booking.state))?;
        Some(Notice {
            owner: booking.map(Booking::owner),
            shared_with: booking.map(|booking| booking.guests().shared_with.clone()).unwrap_or_default(),
            consents: booking.map(|booking| booking.guests().consents.clone()).unwrap_or_default(),
            state: booking.map(|booking| booking.state),
            version: booking.map(|booking| booking.version),
            because: because(event),
            webhook: booking
                .and_then(|booking| booking.asked.as_ref())
                .and_then(|asked| asked.request.webhook.clone()),
            ..Notice::about(at, kind, id)
        })
    }

    fn heard(
        &mut self,
        heartbeat: Heartbeat,
        round_trip: Option<u64>,
        step: &mut Step,
    ) -> Result<(), Problem> {
        if heartbeat.url.trim_end_matches('/') == self.about.url.trim_end_matches('/') {
            let why = format!(
                "{} is the address of this broker itself; a broker cannot be its own peer",
                heartbeat.url
            );
            return Err(Problem::new(Why::NotAdmittedAsPeer(why)));
        }
        let name = heartbeat.name.clone();
        let before = self.register.get(&name).and_then(|known| known.said.changes.clone());
        let changes = heartbeat.changes.clone();
        let is_back = Arc::make_mut(&mut self.register).heard(step.now, heartbeat, round_trip)?;
        self.register_changes += 1;
        self.introduce(&name);
        if let Some(changes) = changes.filter(|changes| before.as_ref() != Some(changes)) {
            let changed = changes.since(before.as_deref());
            let effects = self.head.look_after(step.now, &name, changed.as_deref());
            self.carry_out(effects, &Origin::default(), step);
        }
        if is_back {
            let message = format!("{name} is up");
            step.remark(Remark::new(Level::Info, "peer_up", message).at(name));
        }
        Ok(())
    }

    /// Registers a peer that is up with the head.
    fn introduce(&mut self, peer: &Name) {
        if let Some(known) = self.register.get(peer).filter(|known| known.up) {
            let resources = known.said.resources.iter().map(|offered| offered.resource.clone());
            self.head.register(peer.clone(), resources.collect(), known.said.hold_takes);
        }
    }

    fn silent(&mut self, peer: Name, step: &mut Step) {
        self.head.unregister(&peer);
        if Arc::make_mut(&mut self.register).silent(&peer) {
            self.register_changes += 1;
            let message = format!("{peer} does not answer; it gets no new requests");
            step.remark(Remark::new(Level::Warn, "peer_silent", message).at(peer));
        }
    }

    fn pass_time(&mut self, step: &mut Step) {
        let effects = self.head.tick(step.now);
        self.carry_out(effects, &Origin::default(), step);
        let mut effects = jobs::Effects::new(step.now);
        self.jobs.tick(Around { head: &self.head, register: &self.register }, &mut effects);
        self.carry_out_for_jobs(effects, step);
    }
}

impl Party for Broker {
    type Event = BrokerEvent;
    type State = BrokerState;
    type Facts = BrokerFacts;

    const KIND: &'static str = "broker";
    const SCHEMA: u32 = 2;

    fn restore(&mut self, state: BrokerState) -> Result<(), String> {
        self.head = Head::restore(self.rules.clone(), state.bookings);
        let peers: Vec<Name> = self.register.up().map(|known| known.said.name.clone()).collect();
        peers.iter().for_each(|peer| self.introduce(peer));
        self.jobs.restore(&state.jobs);
        Ok(())
    }

    fn apply(&mut self, event: &BrokerEvent) {
        match event {
            BrokerEvent::Booking(event) => self.head.apply(event),
            BrokerEvent::Job(event) => self.jobs.apply(event),
        }
    }

    fn notice_of(&self, now: Moment, event: &BrokerEvent) -> Option<Notice> {
        match event {
            BrokerEvent::Booking(event) => self.notice(event.at().unwrap_or(now), event),
            BrokerEvent::Job(_) => None,
        }
    }

    fn subject(event: &BrokerEvent) -> Option<Subject> {
        match event {
            BrokerEvent::Booking(event) => {
                let committed = matches!(event, Event::Committed { .. });
                event.id().map(|id| Subject::Reservation { id, committed })
            }
            BrokerEvent::Job(event) => Some(Subject::Job(event.id())),
        }
    }

    fn start(&mut self, now: Moment) -> Result<Output<BrokerEvent>, String> {
        let mut step = Step::new(now);
        self.changes = Arc::new(Changes::new(now));
        let effects = self.head.resume(now);
        let life = effects.events.iter().find_map(|event| match event {
            Event::Woke { life } => Some(*life),
            _ => None,
        });
        // A maker of its own, so that ids for jobs never equal ids for bookings.
        self.jobs.live_as(self.rules.maker.rotate_left(32) ^ 0x6a6f_6273, life.unwrap_or(0));
        self.carry_out(effects, &Origin::default(), &mut step);
        let mut effects = jobs::Effects::new(now);
        self.jobs.resume(&mut effects);
        self.carry_out_for_jobs(effects, &mut step);
        Ok(step.out)
    }

    fn step(&mut self, now: Moment, input: Input) -> Output<BrokerEvent> {
        let mut step = Step::new(now);
        match input {
            Input::Call { call, mut envelope, origin } => {
                self.set_durations(&mut envelope);
                self.call(call, &envelope, &origin, &mut step);
            }
            Input::Answered { from, key, answer, origin } => {
                self.origins.remove(&key);
                let mut effects = jobs::Effects::new(now);
                // The key tells whether the call was made for a job or by the negotiation.
                if self.jobs.on_answer(&from, key, &answer, &mut effects) {
                    self.carry_out_for_jobs(effects, &mut step);
                } else {
                    let effects = self.head.on_answer(now, &from, key, &answer);
                    self.carry_out(effects, &origin, &mut step);
                }
            }
            Input::Submit { call, caller, key, id, job, origin } => {
                let submission = Submission { caller, key, id, job, via: origin.via };
                self.about_job((call, id), &mut step, |jobs, around, effects| {
                    jobs.submit(submission, around, effects)
                });
            }
            Input::CancelJob { call, caller, id } => {
                let cancel =
                    |jobs: &mut Jobs, _: Around<'_>, effects: &mut _| jobs.cancel(&caller, id, effects);
                self.about_job((call, id), &mut step, cancel);
            }
            Input::Go { call, caller, id } => {
                let go = |jobs: &mut Jobs, _: Around<'_>, effects: &mut _| jobs.go(&caller, id, effects);
                self.about_job((call, id), &mut step, go);
            }
            Input::JobAnswered { from, id, asked, answer } => {
                let mut effects = jobs::Effects::new(now);
                self.jobs.on_report(&from, (id, asked), answer, &mut effects);
                self.carry_out_for_jobs(effects, &mut step);
            }
            Input::Heard { call, heartbeat, round_trip } => {
                let name = heartbeat.name.clone();
                let heard = self.heard(*heartbeat, round_trip, &mut step);
                match (call, heard) {
                    (Some(call), heard) => step.out.replies.push((call, Reply::Registered(heard))),
                    (None, Err(problem)) => {
                        let why = problem.why.to_string();
                        step.remark(Remark::new(Level::Warn, "peer_refused", why).at(name));
                    }
                    (None, Ok(())) => {}
                }
            }
            Input::Silent { peer } => self.silent(peer, &mut step),
            Input::Time => self.pass_time(&mut step),
            Input::Rules(NewRules::Broker(rules)) => {
                self.rules = Rules { maker: self.rules.maker, retention: self.rules.retention, ..*rules };
                self.head.set_rules(&self.rules);
            }
            // A broker has no batch system.
            Input::Batch(_) | Input::WantLook | Input::Rules(NewRules::Site(_)) => {}
        }
        step.out
    }

    fn wake_at(&self) -> Option<Moment> {
        [self.head.next_timer(), self.jobs.next_timer()].into_iter().flatten().min()
    }

    fn deadline(&self) -> Option<Moment> {
        [self.head.next_deadline(), self.jobs.next_timer()].into_iter().flatten().min()
    }

    fn next_change(&self) -> Option<Moment> {
        self.head.next_change()
    }

    fn doubt_clock(&mut self, in_doubt: bool) {
        self.clock_in_doubt = in_doubt;
    }

    fn state(&self) -> BrokerState {
        BrokerState { bookings: self.head.snapshot(), jobs: self.jobs.history() }
    }

    fn read_copy(&self) -> Broker {
        Broker {
            rules: self.rules.clone(),
            head: self.head.read_copy(),
            jobs: self.jobs.read_copy(),
            register: self.register.clone(),
            register_changes: self.register_changes,
            changes: self.changes.clone(),
            about: self.about.clone(),
            caller: self.caller.clone(),
            waiting: BTreeMap::new(),
            origins: BTreeMap::new(),
            clock_in_doubt: self.clock_in_doubt,
        }
    }

    fn is_shown(event: &BrokerEvent) -> bool {
        !matches!(event, BrokerEvent::Booking(Event::Answered { .. }))
    }

    fn facts(&self) -> (u64, BrokerFacts) {
        let (seen_changes, seen) = self.jobs.seen();
        (
            self.register_changes + seen_changes,
            BrokerFacts { register: self.register.clone(), changes: self.changes.clone(), seen },
        )
    }

    fn set_facts(&mut self, facts: BrokerFacts) {
        self.register = facts.register;
        self.changes = facts.changes;
        self.jobs.seen = facts.seen;
    }
}

/// The event name that a site uses for the same change, so that watchers need not distinguish sites from
/// brokers. None for internal events.
fn told_as(event: &Event, state: Option<State>) -> Option<&'static str> {
    Some(match event {
        Event::Held { .. } => "held",
        Event::Committed { .. } | Event::Attached { .. } => "committed",
        Event::Changed { .. } => "change-settled",
        Event::Changing { .. } => "change-requested",
        Event::ChangePrepared { .. } | Event::ChangeGivenUp { .. } | Event::RequestChanged { .. } => {
            event.word()
        }
        Event::PartSeen { .. } | Event::Replaced { .. } | Event::NotHealed { tries: 1, .. } => event.word(),
        Event::Began { .. } => "begun",
        Event::Ended { .. } => "completed",
        Event::Closed { .. } if state == Some(State::Terminated) => "terminated",
        Event::Closed { .. } => event.word(),
        Event::Forgot { .. } => "forgotten",
        Event::Woke { .. }
        | Event::CancelledBefore { .. }
        | Event::Trying { .. }
        | Event::GaveUp { .. }
        | Event::Replacing { .. }
        | Event::NotReplaced { .. }
        | Event::NotHealed { .. }
        | Event::Decided { .. }
        | Event::ChangeDecided { .. }
        | Event::ChangeSettled { .. }
        | Event::Answered { .. }
        | Event::Settled { .. } => return None,
    })
}

/// The reason of an event as a stable word.
fn because(event: &Event) -> Option<&'static str> {
    match event {
        Event::PartSeen { loss: Some((why, _)), .. } => Some(why.word()),
        Event::NotHealed { problem, .. } | Event::Closed { outcome: Outcome::Refused(problem), .. } => {
            Some(problem.why.code())
        }
        Event::Closed { outcome: Outcome::Cancelled, .. } => Some(Because::Owner.word()),
        Event::Closed { outcome: Outcome::Revoked, .. } => Some(Because::Operator.word()),
        _ => None,
    }
}
