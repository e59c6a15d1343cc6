//! The head of a broker: calls, answers and the time in; calls, answers and events out. It books parts at several peers
//! all together or not at all, and answers the same calls as they do, so that a broker can be a peer of another.
//!
//! The course of a booking: *survey* (probe every peer that could serve a part, in parallel and bounded) → *search* for
//! the best candidate, in slices → *try* to hold it → all held: the owner may look and decide, or it is committed at
//! once; one refused or silent: the others are given back, and the next candidate is tried, after another survey where
//! somebody else was quicker → *decide* to commit → all committed, or one part is lost and all are given back.
//!
//! What must not be lost is an [`Event`]: the surroundings write all events of an [`Effects`] down before anything of it
//! is sent. After a restart they replay them through [`Broker::apply`] and call [`Broker::resume`]: what was only tried
//! is abandoned and given back, what was held stays held, what was decided is finished or undone. A [`Snapshot`] stands
//! for all events before it.
//!
//! A peer is trusted with nothing but its own resources: it may answer little, late, twice or never.

mod booking;
mod calls;
mod change;
mod changing;
mod event;
mod healing;
mod reception;
mod survey;
mod trying;
mod watching;

pub use crate::message::Outgoing;
pub use booking::{Booking, Child, name_here};
pub use change::{Changing, Stage};
pub use event::{Answered, Asked, Event, Outcome, Pick, Snapshot};
pub use survey::SLICE;

use crate::candidates::Budget;
use crate::clock::{Millis, Moment};
use crate::flaw::{Broken, Flaw};
use crate::ids::{Identities, Key, Name, ReservationId};
use crate::life_cycle::State;
use crate::message::{Answer, Call};
use crate::per_user::PerUser;
use crate::problem::{Problem, Why};
use crate::request::{Part, Resource};
use bookahead_plan::Seconds;
use calls::{About, Calls};
use changing::UnderWay;
use healing::Times;
use reception::ForwardedCall;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use survey::{Pending, Survey};
use trying::Try;
use watching::{WATCH_EVERY, Watched};

/// How much work a search may take by default: 0.2 to 0.5 seconds, and about 100 megabytes at most, since what a search keeps
/// is counted as work too. Four parts with 2,000 slots each usually take less than a twentieth of it.
const MOST_WORK: u64 = 100_000_000;

/// How a broker works.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    /// The secret that all identities are made from; no two brokers have the same.
    pub maker: u128,
    /// At most so many probes of one survey are under way at once.
    pub probes_at_once: usize,
    /// Peers that have not answered a survey after this time are left out; brokers after as much more for each level of
    /// brokers from there to the sites.
    pub survey_time: Millis,
    /// So many slots for each part are enough to stop a survey early; None waits for everybody.
    pub enough_slots: Option<usize>,
    /// Asks each peer for at most so many slots on each resource.
    pub slots: u32,
    /// A peer that has not answered a hold after this time counts as having refused, unless it tells how long a hold takes
    /// it ([`Broker::hold_time`]).
    pub hold_time: Millis,
    /// At most so many candidates are tried for one request.
    pub attempts: u32,
    /// What is left out after a refusal.
    pub after_refusal: LeftOut,
    /// After a refusal peers are asked again for this long at most.
    pub retry_time: Millis,
    /// The longest hold that an owner gets.
    pub longest_hold: Millis,
    /// At most so many bookings and surveys, and so many calls that are passed on, are under way at once.
    pub under_way: usize,
    /// How often peers are asked about all parts of what is booked; None where nobody looks after them.
    pub watch_every: Option<Millis>,
    /// A replacement for a part is looked for when it has been lost for so long: what is back before that moves nothing.
    pub heal_after: Millis,
    /// How long what is over stays known.
    pub retention: Seconds,
    /// How much work a search may take.
    pub search: Budget,
    /// A search for a candidate, or for all offers of a probe, is stopped after this time. It takes turns with others.
    pub search_time: Millis,
}

/// What is left out of further candidates after a refusal. Who is silent is left out altogether.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// Nothing where somebody else was quicker: peers are asked again. The slot where there was another reason.
    #[default]
    Slot,
    /// The resource, as the co-reservation paper does.
    Resource,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules {
            maker: 0,
            probes_at_once: 64,
            survey_time: Millis::seconds(5),
            enough_slots: None,
            slots: 20,
            hold_time: Millis::seconds(10),
            attempts: 20,
            after_refusal: LeftOut::Slot,
            retry_time: Millis::seconds(10),
            longest_hold: Millis::seconds(900),
            under_way: 10_000,
            watch_every: Some(WATCH_EVERY),
            heal_after: Millis::seconds(60),
            retention: Seconds(86_400),
            search: Budget { work: MOST_WORK },
            search_time: Millis::seconds(5),
        }
    }
}

/// An answer to a call that was made to us.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reply {
    /// To whom.
    pub to: Name,
    /// Of which call.
    pub key: Key,
    /// What.
    pub answer: Answer,
}

/// What is to be done: first the events are written down, then the rest is sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effects {
    /// To be journalled.
    pub events: Vec<Event>,
    /// Calls to peers.
    pub send: Vec<Outgoing>,
    /// Answers to those who called.
    pub replies: Vec<Reply>,
}

/// The moment of an input, and what has come of it so far.
struct Step {
    now: Moment,
    effects: Effects,
}

/// Who called, and what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Client {
    name: Name,
    key: Key,
    call: Call,
}

/// What is known of a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Peer {
    resources: Vec<Resource>,
    /// How long a hold takes it of late, where it tells.
    hold_takes: Option<Millis>,
    /// So many brokers are there on the longest path through it to a site; 0 for a site.
    brokers: u32,
}

/// The most slots that a broker asks a peer for, and tells for a request of one part: twenty of each of fifty resources, in an
/// answer of about 300 kB.
const MOST_SLOTS: u32 = 1_000;

impl Peer {
    fn new(resources: Vec<Resource>, hold_takes: Option<Millis>) -> Peer {
        // A broker puts the names of its peers in front.
        let brokers = |resource: &Resource| resource.name.as_str().matches('/').count();
        let brokers = resources.iter().map(brokers).max().unwrap_or(0);
        Peer { hold_takes, brokers: u32::try_from(brokers).unwrap_or(u32::MAX), resources }
    }

    /// How many slots it is asked for: as many of each resource that suits the part. A broker that is asked for no more than
    /// a site would have to leave out most of what its sites told.
    fn slots_for(&self, part: &Part, rules: &Rules) -> u32 {
        let suitable = self.resources.iter().filter(|resource| resource.suits(part)).count().max(1);
        let slots = u32::try_from(suitable).unwrap_or(u32::MAX).saturating_mul(rules.slots);
        slots.min(MOST_SLOTS.max(rules.slots))
    }

    /// When it is left out of a survey. A broker waits for its own peers first: one site that is silent must not make all the
    /// others below that broker silent too.
    fn survey_time(&self, rules: &Rules) -> Millis {
        Millis(rules.survey_time.0.saturating_mul(i64::from(self.brokers) + 1))
    }
}

/// The most refused bookings that are remembered for one user; each takes a few kilobytes.
const MOST_REFUSED: usize = 256;

/// The most ids of one user that were cancelled before they were asked for.
const MOST_CANCELLED_BEFORE: usize = 1_024;

/// A broker.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Broker {
    rules: Rules,
    /// Those who can be asked.
    peers: BTreeMap<Name, Peer>,
    /// The fold of the events.
    bookings: BTreeMap<ReservationId, Booking>,
    /// When time alone changes a booking.
    agenda: BTreeSet<(Moment, ReservationId)>,
    /// When replacements for lost parts are looked for.
    heals: BTreeSet<(Moment, ReservationId)>,
    /// Who cancelled what before it was asked for, and when.
    cancelled_before: PerUser<(ReservationId, Name), Moment>,
    /// Bookings that were refused or cancelled before they were held, and are not forgotten.
    refused: PerUser<ReservationId, ()>,
    life: Option<u32>,
    /// The parts of what is booked.
    watched: Watched,
    // What follows is lost with a crash.
    identities: Identities,
    calls: Calls,
    surveys: BTreeMap<u64, Survey>,
    next_survey: u64,
    /// Bookings whose first survey is under way.
    opening: BTreeMap<ReservationId, Asked>,
    /// The surveys for bookings.
    booking_surveys: BTreeMap<ReservationId, u64>,
    /// Bookings of which a candidate was found.
    tries: BTreeMap<ReservationId, Try>,
    /// When peers are asked again for which of them.
    retries: BTreeSet<(Moment, ReservationId)>,
    /// Searches under way, the next to be advanced first.
    pending: VecDeque<Pending>,
    /// Who waits for the answer of a booking.
    clients: BTreeMap<ReservationId, Vec<Client>>,
    forwarded: BTreeMap<Key, ForwardedCall>,
    /// Bookings for which replacements are looked for, held or committed, and at which times.
    healing: BTreeMap<ReservationId, Times>,
    /// Changes of bookings that are under way.
    changes: BTreeMap<ReservationId, UnderWay>,
    /// Leftovers whose peers know that they are given back.
    given_back: BTreeSet<ReservationId>,
    broken: Broken,
}

impl Broker {
    /// One that knows nobody and has booked nothing. Replay its journal, then call [`Broker::resume`].
    pub fn new(rules: Rules) -> Broker {
        let identities = Identities::new(rules.maker, 0);
        Broker { rules, identities, ..Broker::default() }
    }

    /// Breaks it on purpose.
    #[cfg(feature = "flaws")]
    pub fn break_by(&mut self, flaw: Flaw) {
        self.broken = Broken::by(flaw);
    }

    /// Gets to know a peer, or what it offers now, and how long a hold takes it, where it tells.
    pub fn register(&mut self, peer: Name, resources: Vec<Resource>, hold_takes: Option<Millis>) {
        self.peers.insert(peer, Peer::new(resources, hold_takes));
    }

    /// Asks a peer nothing new. What is under way with it is brought to its end.
    pub fn unregister(&mut self, peer: &Name) {
        self.peers.remove(peer);
    }

    /// What it offers itself: all that its peers do, by names that begin with theirs.
    pub fn resources(&self) -> Vec<Resource> {
        let all = self.peers.iter();
        let all = all.flat_map(|(name, peer)| peer.resources.iter().map(move |one| (name, one)));
        all.map(|(peer, one)| Resource { name: name_here(peer, &one.name), ..one.clone() }).collect()
    }

    /// How long a peer may take to answer a hold before it counts as having refused.
    pub fn hold_time(&self, peer: &Name) -> Millis {
        self.told_hold_time(peer).unwrap_or(self.rules.hold_time)
    }

    /// The same, of a peer that tells how long a hold takes it.
    ///
    /// A fixed time fits no grid: a scheduler of our own holds within milliseconds, a batch system that is driven by commands
    /// takes seconds, and more while it is busy. Too short a time gives up holds that were about to be granted; too long a
    /// time has everybody wait for a peer that died. Hence three times what the peer tells, since it varies, and four round
    /// trips, since messages are lost. The configured time is a measure for the rest, so that both follow the speed of the
    /// clock: a fifth of it is added, which at the usual 10 s is 2 s for disks and for a peer's own checks, and twelve times
    /// of it (2 minutes) is the most, since an owner waits for the answer.
    pub fn told_hold_time(&self, peer: &Name) -> Option<Millis> {
        let takes = self.peers.get(peer)?.hold_takes?.0.max(0);
        let usual = self.rules.hold_time.0.max(0);
        let trips = self.calls.round_trip(peer).map_or(0, |trip| trip.0.saturating_mul(4));
        let time = takes.saturating_mul(3).saturating_add(trips).saturating_add(usual / 5);
        Some(Millis(time.min(usual.saturating_mul(12))))
    }

    /// The longest that any of some peers may take to answer a hold.
    fn longest_hold_time<'a>(&self, peers: impl Iterator<Item = &'a Name>) -> Millis {
        peers.map(|peer| self.hold_time(peer)).max().unwrap_or(self.rules.hold_time)
    }

    /// All bookings that it knows.
    pub fn bookings(&self) -> impl Iterator<Item = &Booking> {
        self.bookings.values()
    }

    /// A booking.
    pub fn booking(&self, id: ReservationId) -> Option<&Booking> {
        self.bookings.get(&id)
    }

    /// All bookings in the order of their ids, after one of them or from the first.
    pub fn bookings_after(&self, after: Option<ReservationId>) -> impl Iterator<Item = &Booking> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.bookings.range((from, Bound::Unbounded)).map(|(_, booking)| booking)
    }

    /// Whether nothing is under way: no survey, no search, no call, no booking that is neither held, nor standing, nor
    /// over.
    pub fn is_settled(&self) -> bool {
        self.opening.is_empty()
            && self.pending.is_empty()
            && self.calls.next().is_none()
            && self.bookings().all(Booking::is_settled)
    }

    /// When [`Broker::tick`] has something to do. While a search is under way that is a moment in the past.
    pub fn next_timer(&self) -> Option<Moment> {
        let search = self.pending.front().map(|pending| pending.due);
        [search, self.next_deadline()].into_iter().flatten().min()
    }

    /// The same without searches: they can be put off while there is something else to do.
    pub fn next_deadline(&self) -> Option<Moment> {
        let agenda = self.agenda.first().map(|(at, _)| *at);
        let retry = self.retries.first().map(|(at, _)| *at);
        [agenda, retry, self.next_heal(), self.next_watch(), self.calls.next()].into_iter().flatten().min()
    }

    /// The fold: takes over what happened.
    pub fn apply(&mut self, event: &Event) {
        if let Event::Woke { life } = event {
            self.life = Some(*life);
            self.identities = Identities::new(self.rules.maker, *life);
        }
        if let Event::CancelledBefore { id, user, at } = event {
            self.remember_cancelled(*id, user, *at);
        }
        let Some(id) = event.id() else { return };
        if let Some(at) = self.bookings.get(&id).and_then(|booking| booking.next_change(self.rules.retention))
        {
            self.agenda.remove(&(at, id));
        }
        let heal_after = self.rules.heal_after;
        if let Some(at) = self.bookings.get(&id).and_then(|booking| booking.heal_at(heal_after)) {
            self.heals.remove(&(at, id));
        }
        if matches!(event, Event::Forgot { .. }) {
            self.bookings.remove(&id);
            self.refused.forget(&id);
            return;
        }
        let asked = match event {
            Event::Trying { asked, .. } | Event::Closed { asked, .. } => asked.clone(),
            _ => None,
        };
        let booking = self.bookings.entry(id).or_insert_with(|| Booking::new(id, asked));
        booking.apply(event);
        self.watched.note(booking);
        if let Some(at) = booking.next_change(self.rules.retention) {
            self.agenda.insert((at, id));
        }
        if let Some(at) = booking.heal_at(heal_after) {
            self.heals.insert((at, id));
        }
        if matches!(event, Event::Closed { .. })
            && let Some(booking) = self.bookings.get(&id).cloned()
        {
            self.note_refused(&booking);
        }
    }

    /// What is older than the time for which anything is remembered makes way.
    fn remember_cancelled(&mut self, id: ReservationId, user: &Name, at: Moment) {
        let retention = Millis::seconds(self.rules.retention.0);
        while let Some((since, key)) = self.cancelled_before.oldest()
            && since + retention < at
        {
            let key = key.clone();
            self.cancelled_before.forget(&key);
        }
        self.cancelled_before.remember((at, user), &(id, user.clone()), at, 1, MOST_CANCELLED_BEFORE);
    }

    fn note_refused(&mut self, booking: &Booking) {
        if let (State::Rejected, Some(at)) = (booking.state, booking.ended) {
            self.refused.remember((at, &booking.owner()), &booking.id, (), 1, usize::MAX);
        }
    }

    /// The oldest that was refused to somebody who was refused too many to remember.
    fn refused_too_many(&self, user: &Name) -> Option<ReservationId> {
        let (refused, mut ids) = self.refused.of_user(user);
        let settled = |id: &&ReservationId| self.bookings.get(id).is_some_and(Booking::is_settled);
        (refused > MOST_REFUSED).then(|| ids.find(settled).copied()).flatten()
    }

    /// Begins a life: after the journal was replayed, also the first time.
    pub fn resume(&mut self, now: Moment) -> Effects {
        let mut step = Step::new(now);
        let life = self.life.map_or(0, |life| life + 1);
        self.note(Event::Woke { life }, &mut step);
        let ids: Vec<ReservationId> = self.bookings.keys().copied().collect();
        for id in ids {
            let Some(booking) = self.bookings.get(&id) else { continue };
            if booking.state == State::Requested {
                self.close(id, Outcome::Refused(Problem::new(Why::Interrupted)), &mut step);
            } else if booking.is_being_committed() && !self.broken.is(Flaw::ForgetDecisions) {
                self.send_commits(id, &mut step);
            } else if !booking.replacing.is_empty() {
                // It was never promised.
                self.note(Event::NotReplaced { id }, &mut step);
            }
            self.resume_change(id, &mut step);
            self.give_back(id, &mut step);
        }
        self.pass_time(&mut step);
        step.effects
    }

    /// A peer answers.
    pub fn on_answer(&mut self, now: Moment, from: &Name, key: Key, answer: &Answer) -> Effects {
        let mut step = Step::new(now);
        let others = self.pending.len();
        if let Some(ended) = self.calls.answered(now, from, key) {
            self.ended(&ended, Some(answer), &mut step);
        }
        self.advance_searches(others, &mut step);
        step.effects
    }

    /// Time has passed: repeats what was not answered, gives up what was not answered for too long, does what was due, and
    /// goes on with the searches that are under way, at most [`SLICE`] of work.
    pub fn tick(&mut self, now: Moment) -> Effects {
        let mut step = Step::new(now);
        while let Some(due) = self.calls.next_due(now) {
            match due {
                Ok(repeated) => step.effects.send.push(repeated),
                Err(ended) => self.ended(&ended, None, &mut step),
            }
        }
        self.pass_time(&mut step);
        self.retry(&mut step);
        self.watch(&mut step);
        self.heal(&mut step);
        self.advance_searches(0, &mut step);
        step.effects
    }

    /// A call came to its end, with an answer or without.
    fn ended(&mut self, ended: &calls::Pending, answer: Option<&Answer>, step: &mut Step) {
        match ended.about {
            About::Probe { survey, part } => self.surveyed(survey, part, ended.to(), answer, step),
            About::Hold { id, part } => self.hold_ended(id, part, ended, answer, step),
            About::Commit { id, part } => self.commit_ended(id, part, answer, step),
            About::Show { id, part } => self.shown(id, part, answer, step),
            About::Cancel { id, child } => self.cancel_ended(id, child, answer, step),
            About::Forwarded { key, part } => self.forward_ended(key, part, ended.sent, answer, step),
            About::Prepare { id, part } => self.prepare_ended((id, part), ended, answer, step),
            About::Finish { id, part } => self.finish_ended((id, part), answer, step),
            About::ChangeAgain { id, part } => self.change_again_ended((id, part), answer, step),
        }
    }

    /// Time alone changes bookings: holds expire, reservations begin and end, what is long over is forgotten.
    fn pass_time(&mut self, step: &mut Step) {
        while let Some(&(at, id)) = self.agenda.first().filter(|(at, _)| *at <= step.now) {
            let booking = self.bookings.get(&id);
            let some_left = booking.is_some_and(|booking| booking.ends().is_some());
            match booking.map(|booking| booking.state) {
                None => {
                    self.agenda.remove(&(at, id));
                }
                Some(_) if booking.is_some_and(|booking| booking.prepared_until().is_some()) => {
                    self.give_up_change(id, Problem::new(Why::NotPrepared), step);
                }
                Some(State::Held) => self.close(id, Outcome::Expired, step),
                Some(State::Committed | State::Active) if !some_left => self.close(id, Outcome::Lost, step),
                Some(State::Committed) => self.note(Event::Began { id }, step),
                Some(State::Active) => self.note(Event::Ended { id, at: step.now }, step),
                Some(_) => self.note(Event::Forgot { id }, step),
            }
        }
    }

    /// Writes an event down and takes it over.
    fn note(&mut self, event: Event, step: &mut Step) {
        self.apply(&event);
        step.effects.events.push(event);
    }
}

impl Step {
    fn new(now: Moment) -> Step {
        Step { now, effects: Effects::default() }
    }

    fn reply(&mut self, client: Client, answer: Answer) {
        self.effects.replies.push(Reply { to: client.name, key: client.key, answer });
    }

    fn refuse(&mut self, client: Client, why: impl Into<Why>) {
        self.reply(client, Problem::new(why).into());
    }
}
