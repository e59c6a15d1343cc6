//! A broker as a value: calls, answers and the time in; calls, answers and events out. It books parts at
//! several peers, all or nothing, and answers the same calls as they do, so a broker can be a peer of
//! another.
//!
//! A booking goes through these steps: *survey* (probe every peer that could serve a part, in parallel and
//! bounded) → *search* for the best candidate, in slices → *try* to hold it. If all parts are held, the owner
//! may inspect and decide, or the booking is committed at once. Parts are held all at once or one after the
//! other ([`Rules::holding`]). If a part is refused or its peer does not answer, the other holds are released
//! and the next candidate is tried; after another survey if a competitor was faster. → *decide* to commit →
//! all parts are committed, or one is lost and all are released.
//!
//! Everything that must survive a crash is an [`Event`]: the caller stores all events of an [`Effects`]
//! before it sends anything else from it. After a restart it replays them through [`Broker::apply`] and calls
//! [`Broker::resume`]: unfinished attempts are given up and released, holds stay held, decisions are finished
//! or undone. A [`Snapshot`] replaces all events before it.
//!
//! A peer is trusted only with its own resources: it may answer little, late, twice or never.

mod booking;
mod calls;
mod change;
mod changing;
mod ended;
mod event;
mod healing;
mod reception;
mod searching;
mod snapshot;
mod survey;
mod trying;
mod watching;

pub use crate::message::Outgoing;
pub use booking::{Booking, Child, name_here};
pub use ended::Bounds;
pub use event::{Answered, Asked, Changing, Event, Outcome, Pick, Stage};
pub use searching::SLICE;
pub use snapshot::Snapshot;

use crate::candidates::Budget;
use crate::clock::{Millis, Moment};
use crate::deadline::Scheme;
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
use ended::Remembered;
use healing::Times;
use reception::ForwardedCall;
use searching::{Pending, Try};
use serde::{Deserialize, Serialize};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use survey::Survey;
use watching::{WATCH_EVERY, Watched};

/// Default bound on the work of one search: 0.2 to 0.5 seconds, and at most about 100 MB, because kept
/// candidates count as work too. Four parts with 2,000 slots each usually need less than a twentieth of it.
const MOST_WORK: u64 = 100_000_000;

/// Settings of a broker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rules {
    /// Secret seed of all identities that this broker makes. No two brokers may share it.
    pub maker: u128,
    /// Most probes of one survey in flight at once.
    pub probes_at_once: usize,
    /// Number of peers that are probed first for each part, chosen at random for each survey; more only if these
    /// offer no candidate. None probes all suitable peers.
    pub probe_first: Option<usize>,
    /// Timeout of a survey for a site. A broker gets this much more for each level of brokers between it and
    /// its sites.
    pub survey_time: Millis,
    /// Number of slots for each part after which a survey stops early. None waits for all peers.
    pub enough_slots: Option<usize>,
    /// Most slots requested from each peer for each resource.
    pub slots: u32,
    /// Timeout of a hold, after which a peer counts as having refused. A peer that reports its own hold time
    /// gets [`Broker::hold_time`] instead.
    pub hold_time: Millis,
    /// Whether the parts of a candidate are held all at once or one after the other.
    pub holding: Scheme,
    /// Most candidates tried for one request.
    pub attempts: u32,
    /// What to exclude after a refusal.
    pub after_refusal: LeftOut,
    /// How long to repeat surveys after a refusal.
    pub retry_time: Millis,
    /// Longest hold that an owner gets.
    pub longest_hold: Millis,
    /// Most bookings and surveys in progress at once; also the most forwarded calls. Beyond it, calls are
    /// answered with `busy`.
    pub under_way: usize,
    /// Interval between checks of all booked parts at their peers. None disables them.
    pub watch_every: Option<Millis>,
    /// How long a part must be lost before a replacement is searched, so that a short outage moves nothing.
    pub heal_after: Millis,
    /// How long finished bookings are remembered.
    pub retention: Seconds,
    /// Bounds on what is remembered.
    pub bounds: Bounds,
    /// Bound on the work of one search.
    pub search: Budget,
    /// Timeout of a search for a candidate or for all offers of a probe, waiting for other searches included.
    pub search_time: Millis,
}

/// What to exclude from further candidates after a refusal. A peer that does not answer is always excluded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// Nothing if a competitor was faster: peers are surveyed again. The slot if there was another reason.
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
            probe_first: None,
            survey_time: Millis::seconds(5),
            enough_slots: None,
            slots: 20,
            hold_time: Millis::seconds(10),
            holding: Scheme::Parallel,
            attempts: 20,
            after_refusal: LeftOut::Slot,
            retry_time: Millis::seconds(10),
            longest_hold: Millis::seconds(900),
            under_way: 10_000,
            watch_every: Some(WATCH_EVERY),
            heal_after: Millis::seconds(60),
            retention: Seconds(86_400),
            bounds: Bounds::default(),
            search: Budget { work: MOST_WORK },
            search_time: Millis::seconds(5),
        }
    }
}

/// An answer to an incoming call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Reply {
    /// The calling party.
    pub to: Name,
    /// The key of its call.
    pub key: Key,
    /// The answer.
    pub answer: Answer,
}

/// The result of an input. Store the events first, then send the rest.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Effects {
    /// For the journal.
    pub events: Vec<Event>,
    /// Calls to peers.
    pub send: Vec<Outgoing>,
    /// Answers to callers.
    pub replies: Vec<Reply>,
}

/// The moment of an input, and its effects so far.
struct Step {
    now: Moment,
    effects: Effects,
}

/// An incoming call and its sender.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Client {
    name: Name,
    key: Key,
    call: Call,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Peer {
    resources: Vec<Resource>,
    /// The peer's own report of how long a hold takes it recently.
    hold_takes: Option<Millis>,
    /// Number of brokers on the longest path through it to a site; 0 for a site.
    brokers: u32,
}

/// Most slots requested from a peer, and returned for a request with one part: 20 for each of 50 resources,
/// an answer of about 300 kB.
const MOST_SLOTS: u32 = 1_000;

impl Peer {
    fn new(resources: Vec<Resource>, hold_takes: Option<Millis>) -> Peer {
        // A broker prefixes resource names with the names of its peers, so slashes count levels.
        let brokers = |resource: &Resource| resource.name.as_str().matches('/').count();
        let brokers = resources.iter().map(brokers).max().unwrap_or(0);
        Peer { hold_takes, brokers: u32::try_from(brokers).unwrap_or(u32::MAX), resources }
    }

    /// Number of slots to request: [`Rules::slots`] for each suitable resource. With a fixed number, a broker
    /// would have to drop most slots of its sites.
    fn slots_for(&self, part: &Part, rules: &Rules) -> u32 {
        let suitable = self.resources.iter().filter(|resource| resource.suits(part)).count().max(1);
        let slots = u32::try_from(suitable).unwrap_or(u32::MAX).saturating_mul(rules.slots);
        slots.min(MOST_SLOTS.max(rules.slots))
    }

    /// Timeout of a survey. A broker waits for its own peers first; without extra time, one silent site would
    /// make all sites below that broker look silent.
    fn survey_time(&self, rules: &Rules) -> Millis {
        Millis(rules.survey_time.0.saturating_mul(i64::from(self.brokers) + 1))
    }
}

/// All bookings of a broker and everything in progress. The fields from `identities` on are lost in a crash.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Broker {
    rules: Rules,
    peers: BTreeMap<Name, Peer>,
    /// The fold of the events.
    bookings: BTreeMap<ReservationId, Booking>,
    /// When time alone changes a booking.
    agenda: BTreeSet<(Moment, ReservationId)>,
    /// When to search replacements for lost parts.
    heals: BTreeSet<(Moment, ReservationId)>,
    /// When a user cancelled an id that was not reserved yet.
    cancelled_before: PerUser<(ReservationId, Name), Moment>,
    /// What is remembered of the bookings.
    remembered: Remembered,
    life: Option<u32>,
    /// The parts of standing bookings.
    watched: Watched,
    // The fields below are lost in a crash.
    identities: Identities,
    calls: Calls,
    surveys: BTreeMap<u64, Survey>,
    next_survey: u64,
    /// Bookings in their first survey.
    opening: BTreeMap<ReservationId, Asked>,
    /// Surveys by booking.
    booking_surveys: BTreeMap<ReservationId, u64>,
    /// Bookings with a candidate found.
    tries: BTreeMap<ReservationId, Try>,
    /// When to survey again, by booking.
    retries: BTreeSet<(Moment, ReservationId)>,
    /// Searches in progress, the next to advance first.
    pending: VecDeque<Pending>,
    /// Callers that wait for the result of a booking.
    clients: BTreeMap<ReservationId, Vec<Client>>,
    forwarded: BTreeMap<Key, ForwardedCall>,
    /// Bookings whose lost parts are being replaced, and at which times.
    healing: BTreeMap<ReservationId, Times>,
    /// Changes of bookings in progress.
    changes: BTreeMap<ReservationId, UnderWay>,
    /// Leftovers that their peers do not have: the release is confirmed, the hold was refused, or it was
    /// never requested.
    given_back: BTreeSet<ReservationId>,
    broken: Broken,
}

impl Broker {
    /// A broker without peers and bookings. Replay its journal, then call [`Broker::resume`].
    pub fn new(rules: Rules) -> Broker {
        let identities = Identities::new(rules.maker, 0);
        Broker { rules, identities, ..Broker::default() }
    }

    /// Breaks the broker on purpose, so that tests can prove they would notice.
    pub fn break_by(&mut self, flaw: Flaw) {
        self.broken = Broken::by(flaw);
    }

    /// Replaces the settings, except for the seed of identities, the retention time and the bounds, from which state is
    /// derived.
    /// Negotiations in progress continue with the new settings.
    pub fn set_rules(&mut self, rules: &Rules) {
        let Rules { maker, retention, bounds, .. } = self.rules;
        self.rules = Rules { maker, retention, bounds, ..rules.clone() };
        let heal_after = self.rules.heal_after;
        let due = |booking: &Booking| booking.heal_at(heal_after).map(|due| (due, booking.id));
        self.heals = self.bookings.values().filter_map(due).collect();
    }

    /// Adds or updates a peer: its resources, and how long a hold takes it if it reports that.
    pub fn register(&mut self, peer: Name, resources: Vec<Resource>, hold_takes: Option<Millis>) {
        self.peers.insert(peer, Peer::new(resources, hold_takes));
    }

    /// Sends no new requests to a peer. Bookings and calls in progress with it are finished.
    pub fn unregister(&mut self, peer: &Name) {
        self.peers.remove(peer);
    }

    /// The resources that the broker offers: those of all peers, prefixed with the peer's name.
    pub fn resources(&self) -> Vec<Resource> {
        let all = self.peers.iter();
        let all = all.flat_map(|(name, peer)| peer.resources.iter().map(move |one| (name, one)));
        all.map(|(peer, one)| Resource { name: name_here(peer, &one.name), ..one.clone() }).collect()
    }

    /// Timeout of a hold at a peer; after it the peer counts as having refused.
    pub fn hold_time(&self, peer: &Name) -> Millis {
        self.told_hold_time(peer).unwrap_or(self.rules.hold_time)
    }

    /// The timeout for a peer that reports its own hold time. None if it does not.
    ///
    /// No fixed timeout fits all peers: the built-in scheduler holds within milliseconds; a batch system
    /// driven by commands takes seconds, and more while it is busy. A short timeout gives up holds that were
    /// about to be granted; a long one makes the owner wait for a dead peer. Therefore: three times the
    /// reported time, because it varies, plus four round trips, because messages get lost, plus a fifth of
    /// the configured timeout (2 s of the default 10 s) for disks and the peer's own checks. At most twelve
    /// times the configured timeout (2 minutes), because the owner waits for the answer. Relative to the
    /// configured timeout, so that an accelerated clock scales it too.
    pub fn told_hold_time(&self, peer: &Name) -> Option<Millis> {
        let takes = self.peers.get(peer)?.hold_takes?.0.max(0);
        let usual = self.rules.hold_time.0.max(0);
        let trips = self.calls.round_trip(peer).map_or(0, |trip| trip.0.saturating_mul(4));
        let time = takes.saturating_mul(3).saturating_add(trips).saturating_add(usual / 5);
        Some(Millis(time.min(usual.saturating_mul(12))))
    }

    /// Timeout of the holds of a candidate at these peers, by the strategy of the broker.
    fn candidate_hold_time<'a>(&self, peers: impl Iterator<Item = &'a Name>) -> Millis {
        match self.rules.holding {
            Scheme::Parallel => self.longest_hold_time(peers),
            Scheme::Sequential => {
                let times = peers.map(|peer| self.hold_time(peer).0);
                Millis(times.fold(0, i64::saturating_add))
            }
        }
    }

    fn longest_hold_time<'a>(&self, peers: impl Iterator<Item = &'a Name>) -> Millis {
        peers.map(|peer| self.hold_time(peer)).max().unwrap_or(self.rules.hold_time)
    }

    /// All remembered bookings, by ascending id.
    pub fn bookings(&self) -> impl Iterator<Item = &Booking> {
        self.bookings.values()
    }

    /// A booking in any state, as long as it is remembered.
    pub fn booking(&self, id: ReservationId) -> Option<&Booking> {
        self.bookings.get(&id)
    }

    /// All remembered bookings by ascending id, starting after `after`. For paging.
    pub fn bookings_after(&self, after: Option<ReservationId>) -> impl Iterator<Item = &Booking> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.bookings.range((from, Bound::Unbounded)).map(|(_, booking)| booking)
    }

    /// Whether nothing is in progress: no survey, search or call, and every booking is held, standing or
    /// over.
    pub fn is_settled(&self) -> bool {
        self.opening.is_empty()
            && self.pending.is_empty()
            && self.calls.next().is_none()
            && self.bookings().all(Booking::is_settled)
    }

    /// When [`Broker::tick`] has work to do. In the past while a search is in progress.
    pub fn next_timer(&self) -> Option<Moment> {
        let search = self.pending.front().map(|pending| pending.due);
        [search, self.next_deadline()].into_iter().flatten().min()
    }

    /// [`Broker::next_timer`] without searches, which can wait while there is other work.
    pub fn next_deadline(&self) -> Option<Moment> {
        let agenda = self.agenda.first().map(|(at, _)| *at);
        let retry = self.retries.first().map(|(at, _)| *at);
        [agenda, retry, self.next_heal(), self.next_watch(), self.calls.next()].into_iter().flatten().min()
    }

    /// Earliest moment at which a booking begins, ends or expires.
    pub fn next_change(&self) -> Option<Moment> {
        let live = |(_, id): &&(Moment, ReservationId)| {
            self.bookings.get(id).is_some_and(|booking| !booking.state.is_over())
        };
        self.agenda.iter().find(live).map(|(at, _)| *at)
    }

    /// Applies an event, live or on replay.
    pub fn apply(&mut self, event: &Event) {
        if let Event::Woke { life } = event {
            self.life = Some(*life);
            self.identities = Identities::new(self.rules.maker, *life);
        }
        if let Event::CancelledBefore { id, user, at } = event {
            self.remember_cancelled(*id, user, *at);
        }
        let Some(id) = event.id() else { return };
        if matches!(event, Event::Forgot { .. }) {
            return self.drop_booking(id);
        }
        // The agenda is keyed by due time, so the old entries must be removed before the event changes the
        // booking.
        self.unschedule(id);
        let booking = match (event, self.bookings.entry(id)) {
            (_, Entry::Occupied(known)) => known.into_mut(),
            (Event::Trying { asked, .. } | Event::Closed { asked, .. }, Entry::Vacant(new)) => {
                new.insert(Booking::new(id, asked.clone()))
            }
            // In journals of earlier versions, which remembered more.
            (_, Entry::Vacant(_)) => return,
        };
        let replaced = match event {
            Event::Answered { .. } => booking.answer_to_drop(),
            _ => None,
        };
        booking.apply(event);
        self.watched.note(booking);
        if let Some(at) = booking.next_change(self.rules.retention) {
            self.agenda.insert((at, id));
        }
        if let Some(at) = booking.heal_at(self.rules.heal_after) {
            self.heals.insert((at, id));
        }
        replaced.into_iter().for_each(|key| self.forget_key(key, id));
        self.count_booking(id, event);
    }

    /// Removes a booking from the agenda.
    fn unschedule(&mut self, id: ReservationId) {
        let Some(booking) = self.bookings.get(&id) else { return };
        if let Some(at) = booking.next_change(self.rules.retention) {
            self.agenda.remove(&(at, id));
        }
        if let Some(at) = booking.heal_at(self.rules.heal_after) {
            self.heals.remove(&(at, id));
        }
    }

    /// Starts the broker after the journal was replayed, even if the journal is empty.
    pub fn resume(&mut self, now: Moment) -> Effects {
        let mut step = Step::new(now);
        let life = self.life.map_or(0, |life| life + 1);
        self.note(Event::Woke { life }, &mut step);
        let ids: Vec<ReservationId> = self.bookings.keys().copied().collect();
        for id in ids {
            let Some(booking) = self.bookings.get(&id) else { continue };
            if booking.state == State::Requested {
                // Its caller is gone, and nothing was promised.
                self.close(id, Outcome::Refused(Problem::new(Why::Interrupted)), &mut step);
            } else if booking.is_being_committed() && !self.broken.is(Flaw::ForgetDecisions) {
                self.send_commits(id, &mut step);
            } else if !booking.replacing.is_empty() {
                // A replacement is promised only when it is committed.
                self.note(Event::NotReplaced { id }, &mut step);
            }
            self.resume_change(id, &mut step);
            self.give_back(id, &mut step);
        }
        self.pass_time(&mut step);
        step.effects
    }

    /// Handles an answer from a peer. An answer that is not expected is ignored.
    pub fn on_answer(&mut self, now: Moment, from: &Name, key: Key, answer: &Answer) -> Effects {
        let mut step = Step::new(now);
        let others = self.pending.len();
        if let Some(ended) = self.calls.answered(now, from, key) {
            self.ended(&ended, Some(answer), &mut step);
        }
        self.advance_searches(others, &mut step);
        step.effects
    }

    /// Handles the passing of time: repeats unanswered calls, gives up those past their timeout, does what is
    /// due, and continues searches with at most [`SLICE`] of work.
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

    /// Dispatches a call that ended, with an answer or without.
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

    /// Applies the effects of time on bookings: holds expire, reservations start and end, old ones are
    /// forgotten.
    fn pass_time(&mut self, step: &mut Step) {
        // Each arm must remove or move the agenda entry, or the loop would not end.
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

    /// Applies an event and adds it to the effects.
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
