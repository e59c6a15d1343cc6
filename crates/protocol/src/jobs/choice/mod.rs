//! The best of three reservations for a job: holds at the best ranked sites; the one that finishes first is
//! committed, the others are cancelled. If none of three can hold it, the next three of the ranking are
//! asked.
//!
//! Ids and keys are made and journalled before they are sent, so everything that a site may hold is known
//! after a crash. If nothing was chosen, all is cancelled; otherwise the choice is committed. Cancels are
//! repeated until they are answered; the commit is repeated until its slot is over.
//!
//! It relies on [`super::rank`] for the order, and on sites to recognise repeated calls by their key. At most
//! one reservation is ever committed. Time is an argument.

mod words;

pub use crate::message::Outgoing;
pub use words::{Effects, Event, Identity, Order, Outcome};

use super::Repeated;
use crate::clock::{Millis, Moment};
use crate::ids::{Identities, Key, Name, ReservationId};
use crate::level::{Committing, Permission};
use crate::life_cycle::State;
use crate::message::{Answer, Reservation, Slot};
use crate::problem::Why;
use bookahead_plan::Time;
use bookahead_plan::placement::Reason;
use words::{Entry, Stand, call};

/// The placement of one job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Choice {
    /// From the owner's call: only that permits commits.
    permission: Permission<Committing>,
    order: Option<Box<Order>>,
    /// In the order of the ranking.
    all: Vec<Entry>,
    chosen: Option<ReservationId>,
    outcome: Option<Outcome>,
    /// Deadline for the sites that are being asked.
    until: Option<Moment>,
    /// Whether a chosen hold was lost.
    lost: bool,
    /// The refusals so far. Forgotten in a crash.
    refused: Vec<Why>,
}

/// The moment of an input, and its effects so far.
struct Step {
    now: Moment,
    effects: Effects,
}

impl Choice {
    /// Without an order. The permission comes from the job's submission.
    pub fn new(permission: Permission<Committing>) -> Choice {
        Choice {
            permission,
            order: None,
            all: Vec::new(),
            chosen: None,
            outcome: None,
            until: None,
            lost: false,
            refused: Vec::new(),
        }
    }

    /// Starts with an order. Does nothing if called before.
    pub fn start(&mut self, now: Moment, mut order: Order, identities: &mut Identities) -> Effects {
        let mut step = Step { now, effects: Effects::default() };
        if self.order.is_some() {
            return step.effects;
        }
        let suitable = order.ranked.len();
        let latest_end = order.latest_end;
        order.ranked.retain(|ranked| ranked.ready(now) + ranked.delay.duration() <= latest_end);
        let too_late = order.ranked.is_empty() && suitable > 0;
        let identities = order.ranked.iter().map(|_| Identity::make(identities)).collect();
        self.note(Event::Begun { order: Box::new(order), identities }, &mut step);
        if too_late {
            self.decide(Outcome::Failed(Why::NoSlot(Reason::NoWindow)), &mut step);
        } else {
            self.ask_next(&mut step);
        }
        step.effects
    }

    /// Handles a site's answer to the call with this key. Outdated answers are ignored.
    pub fn on_answer(&mut self, now: Moment, from: &Name, key: Key, answer: &Answer) -> Effects {
        let mut step = Step { now, effects: Effects::default() };
        let Some(at) = self.place_of(from, key) else { return step.effects };
        let Entry { known_as, stand, .. } = self.all[at];
        match stand {
            Stand::Asked(ready) if key == known_as.reserve => {
                self.reserve_answered(at, ready, answer, &mut step);
            }
            Stand::Committing(start) if key == known_as.commit => {
                self.commit_answered(at, start, answer, &mut step);
            }
            Stand::Cancelling if key == known_as.cancel && !is_busy(answer) => {
                self.note(Event::Settled(known_as.id), &mut step);
            }
            _ => {}
        }
        self.go_on(&mut step);
        step.effects
    }

    /// Handles the passing of time: repeats unanswered calls, and chooses when the deadline has passed.
    pub fn tick(&mut self, now: Moment) -> Effects {
        let mut step = Step { now, effects: Effects::default() };
        self.give_up_what_is_over(&mut step);
        self.go_on(&mut step);
        let Some(order) = self.order.as_deref() else { return step.effects };
        for (entry, ranked) in self.all.iter_mut().zip(&order.ranked) {
            if entry.stand.is_open() && entry.repeated.is_due(&order.patience, now) {
                step.effects.send.extend(call(order, ranked, self.permission, entry));
            }
        }
        step.effects
    }

    /// When [`Choice::tick`] has work to do.
    pub fn next_timer(&self) -> Option<Moment> {
        let open = self.all.iter().filter(|entry| entry.stand.is_open());
        open.map(|entry| entry.repeated.at).chain(self.until).min()
    }

    /// Whether it has an order.
    pub fn has_begun(&self) -> bool {
        self.order.is_some()
    }

    /// Whether nothing more is to be done or expected.
    pub fn is_over(&self) -> bool {
        self.outcome.is_some() && !self.all.iter().any(|entry| entry.stand.is_open())
    }

    /// The result, once there is one.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// Sites asked so far, and the ids of the reservations there.
    pub fn asked(&self) -> impl Iterator<Item = (&Name, ReservationId)> {
        let ranked = self.order.iter().flat_map(|order| &order.ranked);
        let asked = ranked.zip(&self.all).filter(|(_, entry)| entry.stand != Stand::Unasked);
        asked.map(|(ranked, entry)| (&ranked.site, entry.known_as.id))
    }

    /// The keys of all its calls, sent or not.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        self.all.iter().flat_map(|entry| entry.known_as.keys())
    }

    /// Applies an event from the journal. After all of them, call [`Choice::resume`].
    pub fn apply(&mut self, event: &Event) {
        match event {
            Event::Begun { order, identities } => {
                self.order = Some(order.clone());
                self.all = identities.iter().map(Entry::new).collect();
            }
            Event::Asking(first) => {
                let unasked = |entry: &&mut Entry| entry.stand == Stand::Unasked;
                // The earliest start is set by the sender. After a restart it is not needed: all but the
                // chosen one are cancelled.
                let stand = Stand::Asked(Time::MAX);
                self.all.iter_mut().take(*first).filter(unasked).for_each(|entry| entry.stand = stand);
            }
            Event::Settled(id) => self.set(*id, Stand::Settled),
            Event::Chosen { id, start } => {
                self.chosen = Some(*id);
                self.set(*id, Stand::Committing(*start));
            }
            Event::Lost(id) => {
                (self.chosen, self.lost) = (None, true);
                self.set(*id, Stand::Cancelling);
            }
            Event::Decided(outcome) => {
                self.outcome = Some(outcome.clone());
                self.chosen.into_iter().for_each(|id| self.set(id, Stand::Settled));
            }
        }
    }

    /// Continues after a restart, when all events are applied: commits the chosen hold, or cancels
    /// everything.
    pub fn resume(&mut self, now: Moment) -> Effects {
        let mut step = Step { now, effects: Effects::default() };
        self.until = None;
        if self.order.is_none() {
            return step.effects;
        }
        if self.outcome.is_none() && self.chosen.is_none() {
            self.decide(Outcome::Failed(Why::Interrupted), &mut step);
        }
        self.cancel_others(&mut step);
        let committing = |entry: &Entry| matches!(entry.stand, Stand::Committing(_));
        if let Some(at) = self.all.iter().position(committing) {
            self.send(at, &mut step);
        }
        step.effects
    }

    fn place_of(&self, from: &Name, key: Key) -> Option<usize> {
        let ranked = &self.order.as_deref()?.ranked;
        let mut all = self.all.iter().zip(ranked);
        all.position(|(entry, ranked)| ranked.site == *from && entry.known_as.keys().contains(&key))
    }

    fn note(&mut self, event: Event, step: &mut Step) {
        self.apply(&event);
        step.effects.events.push(event);
    }

    fn decide(&mut self, outcome: Outcome, step: &mut Step) {
        self.note(Event::Decided(outcome.clone()), step);
        step.effects.outcome = Some(outcome);
    }

    fn set(&mut self, id: ReservationId, stand: Stand) {
        self.all.iter_mut().filter(|entry| entry.known_as.id == id).for_each(|entry| entry.stand = stand);
    }

    /// Asks the next sites of the ranking, or ends without a result.
    fn ask_next(&mut self, step: &mut Step) {
        let Some(order) = self.order.as_deref() else { return };
        let Some(first) = self.all.iter().position(|entry| entry.stand == Stand::Unasked) else {
            self.until = None;
            let why = self.why_nowhere();
            return self.decide(Outcome::Failed(why), step);
        };
        let last = first.saturating_add(order.at_a_time.max(1)).min(self.all.len());
        let asked = &order.ranked[first..last];
        self.until = asked.iter().map(|ranked| step.now + ranked.hold_time).max();
        let ready: Vec<Time> = asked.iter().map(|ranked| ranked.ready(step.now)).collect();
        self.note(Event::Asking(last), step);
        for (at, ready) in (first..last).zip(ready) {
            self.all[at].stand = Stand::Asked(ready);
            self.send(at, step);
        }
    }

    /// Why no site is left to ask.
    fn why_nowhere(&self) -> Why {
        let Some(order) = self.order.as_deref() else { return Why::Silence };
        if order.ranked.is_empty() {
            return Why::no_such_resource(0, 1, order.task.kind.clone(), None);
        }
        if self.lost {
            return Why::PartLost;
        }
        let refused = self.all.iter().filter(|entry| entry.stand == Stand::Settled).count();
        if refused == 0 {
            return Why::Silence;
        }
        let is_full = |why: &Why| why.is_full() || why.is_passing();
        // Where no site is merely full, the reason of the best one helps more.
        if let Some(first) = self.refused.first().filter(|_| !self.refused.iter().any(is_full)) {
            return first.clone();
        }
        Why::NoCandidate { tried: u32::try_from(self.all.len()).unwrap_or(u32::MAX), all: true }
    }

    fn reserve_answered(&mut self, at: usize, ready: Time, answer: &Answer, step: &mut Step) {
        let id = self.all[at].known_as.id;
        match answer {
            Answer::Reservation(held) => match self.promised(at, ready, held) {
                Some(start) => self.held(step.now, at, start, held.held_for),
                // Not what was requested, so it is released.
                None => {
                    self.all[at].stand = Stand::Cancelling;
                    self.send(at, step);
                }
            },
            // A busy site may answer a repetition before the deadline.
            answer if is_busy(answer) => {}
            Answer::Problem(problem) => {
                self.refused.push(problem.why.clone());
                self.note(Event::Settled(id), step);
            }
            Answer::Offers(_) => self.note(Event::Settled(id), step),
        }
    }

    fn held(&mut self, now: Moment, at: usize, start: Time, held_for: Option<Millis>) {
        self.all[at].stand = Stand::Held(start);
        if let Some(held_for) = held_for {
            // Half of the shortest hold is reserved for the commit to arrive.
            let half = now + Millis(held_for.0 / 2);
            self.until = self.until.map(|until| until.min(half));
        }
    }

    /// The start of a hold, if it is what was requested.
    fn promised(&self, at: usize, ready: Time, held: &Reservation) -> Option<Time> {
        let order = self.order.as_deref()?;
        let [Slot { interval, capacity, .. }] = held.slots[..] else { return None };
        let fits = ready <= interval.begin
            && interval.end <= order.latest_end
            && order.ranked.get(at)?.delay.duration() <= interval.length()
            && order.task.cores <= capacity;
        let ours = held.id == self.all[at].known_as.id && held.state == State::Held;
        (ours && fits).then_some(interval.begin)
    }

    fn commit_answered(&mut self, at: usize, start: Time, answer: &Answer, step: &mut Step) {
        if is_busy(answer) {
            return;
        }
        let id = self.all[at].known_as.id;
        let kept = match answer {
            Answer::Reservation(reservation) => reservation.id == id && reservation.state.is_standing(),
            Answer::Problem(_) | Answer::Offers(_) => false,
        };
        if !kept {
            self.note(Event::Lost(id), step);
            return self.send(at, step);
        }
        let Some(ranked) = self.order.as_deref().and_then(|order| order.ranked.get(at)) else { return };
        let (site, finish) = (ranked.site.clone(), ranked.delay.finish(Moment::of(start)));
        self.decide(Outcome::Booked { site, id, start, finish }, step);
    }

    /// Chooses when all have answered or the deadline has passed. Asks further sites if there is nothing to
    /// choose.
    fn go_on(&mut self, step: &mut Step) {
        if self.outcome.is_some() || self.chosen.is_some() || self.order.is_none() {
            return;
        }
        let waiting = self.all.iter().any(|entry| matches!(entry.stand, Stand::Asked(_)));
        if waiting && self.until.is_some_and(|until| step.now < until) {
            return;
        }
        let Some((id, start, at)) = self.best() else {
            self.cancel_others(step);
            return self.ask_next(step);
        };
        self.until = None;
        self.note(Event::Chosen { id, start }, step);
        self.send(at, step);
        self.cancel_others(step);
    }

    /// The hold with the earliest finish; of equal ones the better ranked.
    fn best(&self) -> Option<(ReservationId, Time, usize)> {
        let ranked = &self.order.as_deref()?.ranked;
        let all = self.all.iter().zip(ranked).enumerate();
        let held = all.filter_map(|(at, (entry, ranked))| match entry.stand {
            Stand::Held(start) => {
                Some((ranked.delay.finish(Moment::of(start)), at, entry.known_as.id, start))
            }
            _ => None,
        });
        held.min().map(|(_, at, id, start)| (id, start, at))
    }

    /// Cancels everything that may be held and was not chosen.
    fn cancel_others(&mut self, step: &mut Step) {
        for at in 0..self.all.len() {
            let under_way = self.all[at].stand == Stand::Cancelling && self.all[at].repeated.at < Moment::MAX;
            let held = matches!(self.all[at].stand, Stand::Asked(_) | Stand::Held(_) | Stand::Cancelling);
            if held && !under_way {
                self.all[at].stand = Stand::Cancelling;
                self.send(at, step);
            }
        }
    }

    /// Sends the pending call to a site and starts its repetition timer.
    fn send(&mut self, at: usize, step: &mut Step) {
        let Some(order) = self.order.as_deref() else { return };
        let (Some(entry), Some(ranked)) = (self.all.get_mut(at), order.ranked.get(at)) else { return };
        entry.repeated = Repeated::new(&order.patience, step.now);
        step.effects.send.extend(call(order, ranked, self.permission, entry));
    }

    /// Gives up a commit that was never answered when its slot is over.
    fn give_up_what_is_over(&mut self, step: &mut Step) {
        let Some(order) = self.order.as_deref() else { return };
        let over = self.all.iter().zip(&order.ranked).any(|(entry, ranked)| match entry.stand {
            Stand::Committing(start) => step.now >= Moment::of(start + ranked.delay.duration()),
            _ => false,
        });
        if over {
            self.decide(Outcome::Failed(Why::Silence), step);
        }
    }
}

fn is_busy(answer: &Answer) -> bool {
    matches!(answer, Answer::Problem(problem) if problem.why.is_passing())
}
