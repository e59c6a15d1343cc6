//! One booking of a broker: what is wanted, and how far it has come. It changes by events alone; everything else about it (who
//! waits for an answer, which calls are under way) is lost with a crash and does no harm.

use super::change::Changing;
use super::event::{Answered, Asked, Event, Outcome, Pick};
use crate::clock::Moment;
use crate::ids::{ChangeId, JobId, Key, Name, ReservationId};
use crate::ledger::Because;
use crate::life_cycle::{Move, State};
use crate::message::{Answer, Call, Condition, Loss, Lost, Replacement, Reservation, Slot};
use crate::problem::{Problem, Why};
use crate::request::Request;
use bookahead_plan::{Capacity, Seconds, Time};
use serde::{Deserialize, Serialize};

/// Of each booking so many answers are remembered; nobody repeats a call after so many others.
const MOST_ANSWERED: usize = 64;

/// Of each booking so many replaced parts are remembered.
const MOST_REPLACED: usize = 32;

/// A part, at the peer that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Child {
    /// Where, what and by which name.
    pub pick: Pick,
    /// What its peer has of it less than was promised.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss: Option<PartLoss>,
    /// Until when it is held, as far as we were told in this life of the broker.
    #[serde(skip)]
    pub(super) held_until: Option<Moment>,
    /// Whether the peer said that it is committed, in this life of the broker.
    #[serde(skip)]
    pub(super) committed: bool,
}

/// What is gone of a part, or missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct PartLoss {
    /// When that was noticed.
    pub since: Moment,
    /// Why.
    pub why: Lost,
    /// How much of the capacity.
    pub missing: Capacity,
}

/// What a broker has promised, or is about to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Booking {
    /// Its id.
    pub id: ReservationId,
    /// What is wanted; None where it was cancelled before it was ever heard of.
    pub asked: Option<Asked>,
    /// Where in its life it is.
    pub state: State,
    /// The parts of the candidate that is tried, held or committed.
    pub children: Vec<Child>,
    /// Parts of what is given up, whose peers may not know it yet.
    pub leftovers: Vec<Pick>,
    /// Candidates tried.
    pub attempts: u32,
    /// Of a hold: until when it can be committed.
    pub until: Option<Moment>,
    /// The call by which it was decided to commit.
    pub decided: Option<Call>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Jobs, by part.
    pub jobs: Vec<(usize, JobId)>,
    /// Grows with every change of terms.
    pub version: u32,
    /// Replacements of lost parts that are held or committed, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replacing: Vec<(usize, Child)>,
    /// Parts that were replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replacement>,
    /// So often no replacement was found since something was lost.
    #[serde(default)]
    pub(super) not_healed: u32,
    /// When the next one is looked for.
    #[serde(default)]
    pub(super) heal_next: Option<Moment>,
    /// Answers to calls about it, for those who repeat them.
    pub(super) answered: Vec<Answered>,
    /// When it ended.
    pub ended: Option<Moment>,
    /// A change of its terms that is under way.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Changing>,
    /// The last change that came to its end, and whether its terms were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_change: Option<(ChangeId, bool)>,
    /// What it fulfils since all its parts were changed together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) request: Option<Request>,
}

impl Child {
    /// One of which its peer has said nothing yet.
    fn new(pick: Pick) -> Child {
        Child { pick, loss: None, held_until: None, committed: false }
    }
}

impl Booking {
    /// As it is before anything has happened to it.
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
        }
    }

    /// As its events tell of it: without what peers have said in this life of the broker.
    pub(super) fn as_written(&self) -> Booking {
        let as_written = |child: &Child| Child { loss: child.loss, ..Child::new(child.pick.clone()) };
        let children = self.children.iter().map(as_written).collect();
        let replacing = self.replacing.iter().map(|(part, child)| (*part, as_written(child))).collect();
        Booking { children, replacing, ..self.clone() }
    }

    /// The fold. A move that the life cycle does not know is ignored: a journal that another program wrote is not ours to
    /// crash on.
    pub(super) fn apply(&mut self, event: &Event) {
        match event {
            Event::Woke { .. } | Event::CancelledBefore { .. } | Event::Forgot { .. } => {}
            Event::Trying { picks, asked, .. } => {
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
            Event::Changing { .. }
            | Event::ChangePrepared { .. }
            | Event::ChangeDecided { .. }
            | Event::ChangeGivenUp { .. }
            | Event::ChangeSettled { .. } => self.apply_change(event),
            Event::PartSeen { part, at, loss, .. } => {
                if let Some(child) = self.children.get_mut(*part) {
                    let before = child.loss.filter(|before| loss.is_some_and(|(why, _)| why == before.why));
                    let since = before.map_or(*at, |before| before.since);
                    child.loss = loss.map(|(why, missing)| PartLoss { since, why, missing });
                    (self.not_healed, self.heal_next) = (0, None);
                }
            }
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
                if self.answered.len() == MOST_ANSWERED {
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

    fn close(&mut self, at: Moment, outcome: &Outcome) {
        self.go(match (self.state, outcome) {
            (State::Requested, _) => Move::Reject,
            (State::Held, Outcome::Expired) => Move::Expire,
            (State::Active, _) => Move::Terminate,
            _ => Move::Cancel,
        });
        if self.state == State::Rejected {
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
            // They were jobs of the site that lost the part.
            self.jobs.retain(|(of, _)| *of != part);
        }
        self.version += 1;
        (self.not_healed, self.heal_next) = (0, None);
    }

    fn leave_children(&mut self) {
        self.leave_replacements();
        // Of what is over the slots are still shown; of a candidate that is given up nothing is.
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

    /// Whether it was decided to commit and not all peers have answered.
    pub fn is_being_committed(&self) -> bool {
        self.state == State::Held && self.decided.is_some()
    }

    /// Whether its candidate waits to be held.
    pub(super) fn is_trying(&self) -> bool {
        self.state == State::Requested && !self.children.is_empty()
    }

    /// Whether nothing is under way for it.
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

    /// When its first part begins.
    pub(super) fn begins(&self) -> Option<Time> {
        self.parts_there().map(|child| child.pick.slot.interval.begin).min()
    }

    /// When its last part ends.
    pub(super) fn ends(&self) -> Option<Time> {
        self.parts_there().map(|child| child.pick.slot.interval.end).max()
    }

    /// When the last part of it would have ended, also of those that are gone.
    fn last_end(&self) -> Option<Time> {
        self.children.iter().map(|child| child.pick.slot.interval.end).max()
    }

    /// The part of a candidate or of a replacement that is asked for.
    pub(super) fn awaited(&mut self, part: usize) -> Option<&mut Child> {
        if self.is_trying() {
            return self.children.get_mut(part);
        }
        self.replacing.iter_mut().find(|(of, _)| *of == part).map(|(_, child)| child)
    }

    /// All that is asked for.
    pub(super) fn all_awaited(&self) -> Vec<&Child> {
        let replacing = self.replacing.iter().map(|(_, child)| child);
        if self.is_trying() { self.children.iter().collect() } else { replacing.collect() }
    }

    /// When time alone changes it next: a hold expires, a reservation begins or ends, what is over is forgotten.
    pub(super) fn next_change(&self, retention: Seconds) -> Option<Moment> {
        match self.state {
            // It begins and ends by the terms that it has then.
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

    /// What its owner may see. Resources have the names that the broker gives them.
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
            version: self.version,
        }
    }

    /// Whether all of it is there, as far as its sites have told.
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

    /// Who gave it up.
    fn given_up(&self) -> Option<Because> {
        let revoked = |child: &Child| child.loss.is_some_and(|loss| loss.why == Lost::Revoked);
        match self.outcome.as_ref()? {
            Outcome::Cancelled => Some(Because::Owner),
            Outcome::Revoked => Some(Because::Operator),
            Outcome::Lost if self.children.iter().any(revoked) => Some(Because::Operator),
            _ => None,
        }
    }

    /// Whether its site still has a part, as far as it has told.
    pub fn has_part(&self, part: usize) -> bool {
        self.children.get(part).is_some_and(|child| child.loss.is_none_or(|loss| !loss.why.is_gone()))
    }

    /// Whose it is; nobody's where it was cancelled before it was heard of.
    pub fn owner(&self) -> Name {
        self.asked.as_ref().map_or_else(|| Name::from(""), |asked| asked.caller.user.clone())
    }

    /// The keys of the calls about it whose answers are remembered.
    pub fn answered_keys(&self) -> impl Iterator<Item = Key> {
        self.answered.iter().map(|answered| answered.key)
    }

    /// The answer to whoever asks for it once it is decided one way or the other.
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
    /// Whether what a peer says it holds is what it was asked for, and it says for how long.
    pub(super) fn is_held_by(&self, held: &Reservation) -> bool {
        let [slot] = held.slots.as_slice() else { return false };
        held.id == self.child
            && held.state == State::Held
            && held.held_for.is_some()
            && slot.interval == self.slot.interval
            && slot.capacity == self.slot.capacity
    }

    /// The slot with the name that the resource has here: the peer's name in front of the peer's own.
    pub fn slot_here(&self) -> Slot {
        Slot { resource: name_here(&self.peer, &self.slot.resource), ..self.slot.clone() }
    }
}

/// What a peer's resource is called by a broker that offers it as its own.
pub fn name_here(peer: &Name, resource: &Name) -> Name {
    Name::from(format!("{peer}/{resource}"))
}
