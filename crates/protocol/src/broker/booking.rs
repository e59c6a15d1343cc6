//! One booking of a broker: its request and its progress. It changes only by events. Everything else about it
//! (waiting callers, calls in flight) is lost in a crash without harm.

use super::event::{Answered, Asked, Changing, Event, Outcome, Pick};
use crate::clock::Moment;
use crate::ids::{ChangeId, JobId, Key, Name, ReservationId};
use crate::life_cycle::{Because, Move, State};
use crate::message::{Answer, Call, Condition, Loss, Lost, Replacement, Reservation, Slot};
use crate::problem::{Problem, Why};
use crate::request::Request;
use crate::sharing::Guests;
use bookahead_plan::{Capacity, Seconds, Time};
use serde::{Deserialize, Serialize};

/// Most answers remembered for one booking. A client repeats a call soon, not after this many others.
const MOST_ANSWERED: usize = 64;

/// Most replaced parts remembered for one booking. Bounds its size.
const MOST_REPLACED: usize = 32;

/// A part at the peer that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Child {
    /// Peer, slot and id.
    pub pick: Pick,
    /// What its peer no longer has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<PartLoss>,
    /// End of its hold, as reported since the broker started.
    #[serde(skip)]
    pub(super) held_until: Option<Moment>,
    /// Whether the peer confirmed the commit since the broker started.
    #[serde(skip)]
    pub(super) committed: bool,
}

/// The loss of a part or of some of its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartLoss {
    /// When the broker noticed.
    pub since: Moment,
    /// The cause.
    pub why: Lost,
    /// Missing capacity.
    pub missing: Capacity,
}

/// A reservation with parts at one or more peers.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Booking {
    /// Chosen by the client.
    pub id: ReservationId,
    /// The request. None if it was cancelled before it was received.
    pub asked: Option<Asked>,
    /// Its place in the life cycle.
    pub state: State,
    /// The parts of the candidate that is tried, held or committed.
    pub children: Vec<Child>,
    /// Parts to release whose peers may not know yet.
    pub leftovers: Vec<Pick>,
    /// Number of candidates tried.
    pub attempts: u32,
    /// Deadline for the commit of a hold.
    pub until: Option<Moment>,
    /// The call that led to the decision to commit. Its access level permits the commits.
    pub decided: Option<Call>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Attached jobs with the index of their part.
    pub jobs: Vec<(usize, JobId)>,
    /// Incremented with every change of terms.
    pub version: u32,
    /// Replacements that are held or committed, with the index of the lost part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replacing: Vec<(usize, Child)>,
    /// Parts that were replaced, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replacement>,
    /// Failed searches for a replacement since the last loss.
    #[serde(default)]
    pub(super) not_healed: u32,
    /// Time of the next search.
    #[serde(default)]
    pub(super) heal_next: Option<Moment>,
    /// Answers for repeated calls.
    pub(super) answered: Vec<Answered>,
    /// When it ended.
    pub ended: Option<Moment>,
    /// A change of its terms in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Changing>,
    /// The last change that ended, and whether it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change: Option<(ChangeId, bool)>,
    /// Its current request, if it was changed as a whole. Otherwise `asked` has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<Request>,
    /// When it was requested. None if it was requested before this was recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Moment>,
}

impl Child {
    fn new(pick: Pick) -> Child {
        Child { pick, loss: None, held_until: None, committed: false }
    }
}

impl Booking {
    pub(super) fn new(id: ReservationId, asked: Option<Asked>) -> Booking {
        Booking {
            id,
            asked,
            state: State::Requested,
            children: Vec::new(),
            leftovers: Vec::new(),
            attempts: 0,
            until: None,
            decided: None,
            outcome: None,
            jobs: Vec::new(),
            version: 1,
            replacing: Vec::new(),
            replaced: Vec::new(),
            not_healed: 0,
            heal_next: None,
            answered: Vec::new(),
            ended: None,
            change: None,
            last_change: None,
            request: None,
            created: None,
        }
    }

    /// The booking as its events define it, without reports of peers since the start.
    pub(super) fn as_written(&self) -> Booking {
        let as_written = |child: &Child| Child { loss: child.loss, ..Child::new(child.pick.clone()) };
        let children = self.children.iter().map(as_written).collect();
        let replacing = self.replacing.iter().map(|(part, child)| (*part, as_written(child))).collect();
        Booking { children, replacing, ..self.clone() }
    }

    /// Applies an event. A transition that the life cycle does not have is ignored: a broken journal must not
    /// crash the broker.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Woke { .. } | Event::CancelledBefore { .. } | Event::Forgot { .. } => {}
            Event::Trying { picks, asked, at, .. } => {
                if asked.is_some() {
                    self.created = self.created.or(Some(*at));
                }
                self.asked = asked.clone().or(self.asked.take());
                self.children = picks.iter().cloned().map(Child::new).collect();
                self.attempts += 1;
            }
            Event::GaveUp { .. } => self.leave_children(),
            Event::Held { until, .. } => {
                if self.state == State::Requested {
                    self.go(Move::Hold);
                }
                self.until = Some(*until);
            }
            Event::Decided { call, .. } => {
                if let Call::Commit { jobs, .. } = call {
                    self.jobs.extend(jobs.iter().map(|job| (0, *job)));
                }
                self.decided = Some(call.clone());
            }
            Event::Committed { .. } => self.go(Move::Commit),
            Event::Attached { part, job, .. } => {
                if !self.jobs.contains(&(*part, *job)) {
                    self.jobs.push((*part, *job));
                }
            }
            Event::Changed { part, slot, .. } => {
                if let Some(child) = self.children.get_mut(*part)
                    && child.pick.slot != *slot
                {
                    child.pick.slot = slot.clone();
                    self.version += 1;
                }
            }
            Event::RequestChanged { request, .. } => self.take_request(Request::clone(request)),
            Event::Changing { .. }
            | Event::ChangePrepared { .. }
            | Event::ChangeDecided { .. }
            | Event::ChangeGivenUp { .. }
            | Event::ChangeSettled { .. } => self.apply_change(event),
            Event::PartSeen { part, at, loss, .. } => self.see_part(*part, *at, *loss),
            Event::Replacing { picks, .. } => {
                let replacement = |(part, pick): &(usize, Pick)| (*part, Child::new(pick.clone()));
                self.replacing = picks.iter().map(replacement).collect();
            }
            Event::NotReplaced { .. } => self.leave_replacements(),
            Event::Replaced { at, .. } => self.replace_parts(*at),
            Event::NotHealed { tries, next, .. } => {
                (self.not_healed, self.heal_next) = (*tries, Some(*next));
            }
            Event::Answered { answered, .. } => {
                if self.answer_to_drop().is_some() {
                    self.answered.remove(0);
                }
                self.answered.push(answered.clone());
            }
            Event::Began { .. } => self.go(Move::Begin),
            Event::Ended { at, .. } => {
                self.go(Move::Complete);
                self.ended = Some(*at);
            }
            Event::Closed { at, outcome, .. } => self.close(*at, outcome),
            Event::Settled { .. } => self.leftovers.clear(),
        }
    }

    fn see_part(&mut self, part: usize, at: Moment, loss: Option<(Lost, Capacity)>) {
        let Some(child) = self.children.get_mut(part) else { return };
        // The same loss with another amount keeps its time; a search for a replacement must not be delayed by
        // each report.
        let before = child.loss.filter(|before| loss.is_some_and(|(why, _)| why == before.why));
        let since = before.map_or(at, |before| before.since);
        child.loss = loss.map(|(why, missing)| PartLoss { since, why, missing });
        (self.not_healed, self.heal_next) = (0, None);
    }

    fn close(&mut self, at: Moment, outcome: &Outcome) {
        self.go(match (self.state, outcome) {
            (State::Requested, _) => Move::Reject,
            (State::Held, Outcome::Expired) => Move::Expire,
            (State::Active, _) => Move::Terminate,
            _ => Move::Cancel,
        });
        if self.state == State::Rejected {
            // Only a digest is kept, so that refused requests cannot fill the memory.
            self.asked = self.asked.take().map(Asked::refused);
        }
        self.outcome = Some(outcome.clone());
        self.ended = Some(at);
        self.change = None;
        self.leave_children();
    }

    fn leave_replacements(&mut self) {
        self.leftovers.extend(self.replacing.drain(..).map(|(_, child)| child.pick));
    }

    fn replace_parts(&mut self, at: Moment) {
        for (part, replacement) in std::mem::take(&mut self.replacing) {
            let Some(child) = self.children.get_mut(part) else { continue };
            let old = std::mem::replace(child, replacement);
            if self.replaced.len() == MOST_REPLACED {
                self.replaced.remove(0);
            }
            let why = old.loss.map_or(Lost::Ended, |loss| loss.why);
            self.replaced.push(Replacement { part, at: at.second(), was: old.pick.slot_here(), why });
            self.leftovers.push(old.pick);
            // The jobs belong to the site that lost the part.
            self.jobs.retain(|(of, _)| *of != part);
        }
        self.version += 1;
        (self.not_healed, self.heal_next) = (0, None);
    }

    fn leave_children(&mut self) {
        self.leave_replacements();
        // The slots of a finished booking are still shown; those of an abandoned candidate are not.
        if self.state == State::Requested {
            self.leftovers.extend(self.children.drain(..).map(|child| child.pick));
        } else {
            self.leftovers.extend(self.children.iter().map(|child| child.pick.clone()));
        }
    }

    fn go(&mut self, step: Move) {
        if let Ok(state) = self.state.after(step) {
            self.state = state;
        }
    }

    /// Whether the commit is decided and not all peers have answered.
    pub fn is_being_committed(&self) -> bool {
        self.state == State::Held && self.decided.is_some()
    }

    /// Whether its candidate is waiting to be held.
    pub(super) fn is_trying(&self) -> bool {
        self.state == State::Requested && !self.children.is_empty()
    }

    /// Whether nothing is in progress for it.
    pub fn is_settled(&self) -> bool {
        let changing = self.change.is_some() && self.prepared_until().is_none();
        self.leftovers.is_empty()
            && self.replacing.is_empty()
            && self.state != State::Requested
            && !self.is_being_committed()
            && !changing
    }

    fn parts_there(&self) -> impl Iterator<Item = &Child> {
        let there = |(part, child)| self.has_part(part).then_some(child);
        self.children.iter().enumerate().filter_map(there)
    }

    /// Start of its first remaining part.
    pub(super) fn begins(&self) -> Option<Time> {
        self.parts_there().map(|child| child.pick.slot.interval.begin).min()
    }

    /// End of its last remaining part.
    pub(super) fn ends(&self) -> Option<Time> {
        self.parts_there().map(|child| child.pick.slot.interval.end).max()
    }

    /// End of its last part, lost parts included.
    fn last_end(&self) -> Option<Time> {
        self.children.iter().map(|child| child.pick.slot.interval.end).max()
    }

    /// The part of the candidate or replacement that is requested.
    pub(super) fn awaited(&mut self, part: usize) -> Option<&mut Child> {
        if self.is_trying() {
            return self.children.get_mut(part);
        }
        self.replacing.iter_mut().find(|(of, _)| *of == part).map(|(_, child)| child)
    }

    /// All parts that are requested.
    pub(super) fn all_awaited(&self) -> Vec<&Child> {
        let replacing = self.replacing.iter().map(|(_, child)| child);
        if self.is_trying() { self.children.iter().collect() } else { replacing.collect() }
    }

    /// When time alone changes it next: its hold expires, it starts, ends or is forgotten.
    pub(super) fn next_change(&self, retention: Seconds) -> Option<Moment> {
        match self.state {
            // During a change it waits: it starts and ends by the terms that it has afterwards.
            _ if self.open_change().is_some() => self.prepared_until(),
            State::Held if self.decided.is_none() => self.until,
            State::Committed => self.begins().or(self.last_end()).map(Moment::of),
            State::Active => self.ends().or(self.last_end()).map(Moment::of),
            state if state.is_over() && self.leftovers.is_empty() => {
                self.ended.map(|ended| ended + crate::Millis::seconds(retention.0))
            }
            _ => None,
        }
    }

    /// The booking as its owner may see it. Resources have the broker's names for them.
    pub fn view(&self, now: Moment) -> Reservation {
        let held = self.state == State::Held && self.decided.is_none();
        let losses = || self.children.iter().map(|child| child.loss);
        Reservation {
            id: self.id,
            owner: self.owner().clone(),
            state: if self.open_change().is_some() { State::ChangeRequested } else { self.state },
            slots: self.children.iter().map(|child| child.pick.slot_here()).collect(),
            held_for: self.until.filter(|_| held).or(self.prepared_until()).map(|until| until - now),
            prepared: self.prepared_slots(),
            jobs: self.jobs.clone(),
            missing: losses().map(|loss| loss.map_or(Capacity::ZERO, |loss| loss.missing)).collect(),
            condition: self.condition(),
            losses: losses()
                .enumerate()
                .filter_map(|(part, loss)| {
                    let heal_at = self.heal_next.filter(|_| self.is_healable(part)).map(Moment::second);
                    loss.map(|loss| Loss { part, since: loss.since.second(), why: loss.why, heal_at })
                })
                .collect(),
            replaced: self.replaced.clone(),
            given_up: self.given_up(),
            refused: match &self.outcome {
                Some(Outcome::Refused(problem)) => Some(problem.into()),
                _ => None,
            },
            version: self.version,
            description: self.request().map(|request| request.description.clone()).unwrap_or_default(),
            shared_with: self.guests().shared_with.clone(),
            consents: self.guests().consents.clone(),
            created: self.created.map(Moment::second),
            request: None,
        }
    }

    /// Whether it is complete, according to the last reports of its sites.
    pub fn condition(&self) -> Condition {
        let losses = || self.children.iter().filter_map(|child| child.loss);
        if losses().any(|loss| loss.why.is_gone()) {
            Condition::Broken
        } else if losses().next().is_some() {
            Condition::Degraded
        } else {
            Condition::Whole
        }
    }

    fn given_up(&self) -> Option<Because> {
        let revoked = |child: &Child| child.loss.is_some_and(|loss| loss.why == Lost::Revoked);
        match self.outcome.as_ref()? {
            Outcome::Cancelled => Some(Because::Owner),
            Outcome::Revoked => Some(Because::Operator),
            Outcome::Lost if self.children.iter().any(revoked) => Some(Because::Operator),
            _ => None,
        }
    }

    /// Whether its site still has a part, according to the last report.
    pub fn has_part(&self, part: usize) -> bool {
        self.children.get(part).is_some_and(|child| child.loss.is_none_or(|loss| !loss.why.is_gone()))
    }

    /// Its owner. Empty if it was cancelled before it was received.
    pub fn owner(&self) -> Name {
        self.asked.as_ref().map_or_else(|| Name::from(""), |asked| asked.caller.user.clone())
    }

    /// The users that it is shared with.
    pub fn guests(&self) -> Guests<'_> {
        self.request().map_or(Guests::NONE, Request::guests)
    }

    /// Key of the call whose answer the next one replaces.
    pub(super) fn answer_to_drop(&self) -> Option<Key> {
        self.answered.first().filter(|_| self.answered.len() >= MOST_ANSWERED).map(|answered| answered.key)
    }

    /// The refusal of the peer of a part, as this broker tells it.
    pub(super) fn of_peer(&self, part: usize, problem: Problem) -> Problem {
        match self.children.get(part) {
            Some(child) => problem.of_peer(&child.pick.peer),
            None => problem,
        }
    }

    /// The answer to a reserve or commit call, once it is decided.
    pub(super) fn answer(&self, now: Moment) -> Answer {
        match &self.outcome {
            None | Some(Outcome::Cancelled | Outcome::Revoked) if self.asked.is_some() => {
                Answer::Reservation(self.view(now))
            }
            None | Some(Outcome::Cancelled | Outcome::Revoked) => {
                Problem::new(Why::CancelledBefore(self.id)).into()
            }
            Some(Outcome::Refused(problem)) => problem.clone().into(),
            Some(Outcome::Expired) => Problem::new(Why::Expired).into(),
            Some(Outcome::PartLost | Outcome::Lost) => Problem::new(Why::PartLost).into(),
        }
    }
}

impl Pick {
    /// Whether the peer's answer confirms this hold: same id, time and capacity, and a hold time.
    pub(super) fn is_held_by(&self, held: &Reservation) -> bool {
        let [slot] = held.slots.as_slice() else { return false };
        held.id == self.child
            && held.state == State::Held
            && held.held_for.is_some()
            && slot.interval == self.slot.interval
            && slot.capacity == self.slot.capacity
    }

    /// The slot with the broker's name for the resource.
    pub fn slot_here(&self) -> Slot {
        Slot { resource: name_here(&self.peer, &self.slot.resource), ..self.slot.clone() }
    }
}

/// The broker's name for a peer's resource: `peer/resource`.
pub fn name_here(peer: &Name, resource: &Name) -> Name {
    Name::from(format!("{peer}/{resource}"))
}
