//! The book of a site: a plain value. Commands and the time go in; an answer, events for the journal, and
//! changes for the schedules of the resources come out. The state is the fold of the events
//! ([`Ledger::apply`]), live and after a restart; a [`Snapshot`] stands for all events before it. It relies on
//! its surroundings for jobs and foreign reservations ([`Views`]), and for keeping the events before they let
//! the answer out. It never looks at a clock.
//!
//! - *Time* moves by commands and by [`Ledger::tick`]. Every command first does what a tick at its moment
//!   would do, so it makes no difference when, or whether, anybody ticked. Time never goes back.
//! - *Holding is pessimistic*: a hold takes its capacity at once, so a commit in time never fails for lack of
//!   room. A hold lasts until its deadline or the begin of its slot, whichever is first; at exactly that
//!   moment it is too late.
//! - *Once*: a repeated call has no effect and gets the answer of the first time, with as much less of a hold
//!   as time has passed. Beside that, the id of a reservation stands for one request for as long as it is
//!   remembered.
//! - *Seconds*: rooms are planned in whole seconds. Whoever gives something back in the middle of a second
//!   keeps the rest of it.

mod book;
mod changing;
mod commands;
mod entry;
mod failure;
mod fold;
mod placing;
mod rules;
mod sight;
mod slots;
mod snapshot;
mod waiting;

pub use book::{both, less, shortfall, taken};
pub use entry::{
    AnsweredCall, Because, Change, Denied, Entry, Event, Handled, Preparing, Then, Ticked, Waiting, What,
};
pub use rules::{HoldRules, JobUsage, Limits, Offered, Reveal, Rules, RulesError, Usage, UserLimits};
pub use sight::{View, Views};
pub use snapshot::{RestoreError, Snapshot};

use crate::clock::Moment;
use crate::deadline::Observed;
use crate::flaw::Broken;
use crate::ids::{Key, Name, ReservationId};
use crate::life_cycle::State;
use crate::message::{Answer, Call, Caller, Envelope, Reservation};
use crate::per_user::PerUser;
use crate::problem::{Problem, Why};
use book::Book;
use bookahead_plan::{Capacity, Span};
use commands::Context;
use entry::forgotten_at;
use sight::Memory;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use waiting::{Answered, Decision};

/// The book of a site. Two are equal if they would answer every sequence of commands alike, as long as time
/// goes on.
#[derive(Clone)]
pub struct Ledger {
    rules: Arc<Rules>,
    entries: BTreeMap<ReservationId, Entry>,
    denied: PerUser<(ReservationId, Name), Denied>,
    answers: PerUser<Key, Answered>,
    observed: Observed,
    holds: waiting::Granted,
    /// How many were ever accepted.
    accepted: u64,
    /// For each resource of the rules.
    books: Vec<Book>,
    /// Follows from the entries.
    usage: BTreeMap<Name, Usage>,
    /// When each entry and each denied id is due to be looked at. Follows from them.
    agenda: BTreeSet<(Moment, ReservationId)>,
    /// The latest moment seen. It is no part of the state: whoever only asks leaves no trace.
    latest: Moment,
    memory: Memory,
    broken: Broken,
}

impl Ledger {
    /// An empty book.
    pub fn new(rules: Rules) -> Result<Ledger, RulesError> {
        rules.check()?;
        let limit_shares = rules.limits.limit_shares();
        let book = |offered: &Offered| Book::new(offered.resource.capacity, limit_shares);
        Ok(Ledger {
            books: rules.resources.iter().map(book).collect(),
            rules: Arc::new(rules),
            entries: BTreeMap::new(),
            denied: PerUser::default(),
            answers: PerUser::default(),
            observed: Observed::default(),
            holds: waiting::Granted::default(),
            accepted: 0,
            usage: BTreeMap::new(),
            agenda: BTreeSet::new(),
            latest: Moment(i64::MIN),
            memory: Memory::default(),
            broken: Broken::default(),
        })
    }

    /// Breaks it on purpose, before anything is in it: what tests must catch.
    #[cfg(feature = "flaws")]
    pub fn break_by(&mut self, flaw: crate::flaw::Flaw) {
        self.broken = Broken::by(flaw);
    }

    /// Takes a command. What it decides it decides without changing anything; what it changes it changes by
    /// events.
    pub fn handle(&mut self, now: Moment, envelope: &Envelope, views: &Views) -> Handled {
        let mut course = self.tick(now);
        let (answer, waits) = self.answer(envelope, views, &mut course);
        Handled { answer, waits, events: course.events, changes: course.changes }
    }

    /// Answers a call that changes nothing, from the book as it is: time does not pass by it.
    pub fn ask(&mut self, now: Moment, caller: &Caller, call: &Call, views: &Views) -> Answer {
        let now = now.max(self.latest);
        if !call.only_asks() {
            return Problem::new(Why::Busy).into();
        }
        let decision = self.decide(Context { now, caller, views }, call);
        self.carry_out(now, decision, &mut Ticked::default())
    }

    fn answer(
        &mut self,
        envelope: &Envelope,
        views: &Views,
        course: &mut Ticked,
    ) -> (Answer, Option<ReservationId>) {
        let now = self.latest;
        if envelope.call.only_asks() {
            let decision = self.decide(Context { now, caller: &envelope.caller, views }, &envelope.call);
            return (self.carry_out(now, decision, course), None);
        }
        if let Some(known) = self.answers.get(&envelope.key) {
            let same = known.call.is(envelope);
            let again = || known.answer.again(now - known.at);
            return (if same { again() } else { key_taken(envelope) }, None);
        }
        if let Some((id, asked)) = self.asked_by_key(envelope) {
            let same = *asked == *envelope;
            let decision = if same { Decision::show(id) } else { Decision::say(key_taken(envelope)) };
            return (self.carry_out(now, decision, course), same.then_some(id));
        }
        let decision = self.decide(Context { now, caller: &envelope.caller, views }, &envelope.call);
        let waits = decision.waits;
        let answer = self.carry_out(now, decision, course);
        let passing = matches!(&answer, Answer::Problem(problem) if problem.why.is_passing());
        match waits {
            Some(id) if self.asked(id).is_none() => {
                self.record(now, What::Asked { envelope: Box::new(envelope.clone()) }, course);
            }
            None if !passing => self.remember(now, envelope, &answer, course),
            _ => {}
        }
        (answer, waits)
    }

    /// Whether a call was answered before, or what it reserves is known: then it is not decided anew.
    pub fn knows(&self, envelope: &Envelope) -> bool {
        let reserved = match &envelope.call {
            Call::Reserve { id, .. } => {
                self.entries.contains_key(id) || self.denied_to(*id, &envelope.caller.user).is_some()
            }
            _ => false,
        };
        reserved || self.answers.get(&envelope.key).is_some()
    }

    fn remember(&mut self, now: Moment, envelope: &Envelope, answer: &Answer, course: &mut Ticked) {
        let call = AnsweredCall::of(envelope);
        self.record(now, What::Answered { call, answer: answer.clone() }, course);
        while self.answers.len() > self.rules.most_answers
            && let Some((_, &key)) = self.answers.oldest()
        {
            self.record(now, What::AnswerForgotten { key }, course);
        }
    }

    /// Lets time pass: holds expire, reservations begin and complete, what is long over is forgotten. Each
    /// event is of the moment at which it was due.
    pub fn tick(&mut self, now: Moment) -> Ticked {
        let mut course = Ticked::default();
        let now = now.max(self.latest);
        while let Some((due, what)) = self.next_due().filter(|(due, _)| *due <= now) {
            self.latest = self.latest.max(due);
            self.happen(self.latest, vec![what], &mut course);
        }
        self.latest = now;
        self.books.iter_mut().for_each(|book| book.advance(now.second()));
        course
    }

    /// When [`Ledger::tick`] has something to do.
    pub fn next_deadline(&self) -> Option<Moment> {
        let answer = self.answers.oldest().map(|(at, _)| forgotten_at(at, self.rules.retention));
        let denied = self.denied.oldest().map(|(at, _)| forgotten_at(at, self.rules.retention));
        let entry = self.agenda.first().map(|(due, _)| *due);
        [answer, denied, entry].into_iter().flatten().min()
    }

    fn next_due(&self) -> Option<(Moment, What)> {
        let answer = self.answers.oldest();
        let answer =
            answer.map(|(at, &key)| (forgotten_at(at, self.rules.retention), What::AnswerForgotten { key }));
        let denied = self.denied.oldest().map(|(at, (id, owner))| {
            (forgotten_at(at, self.rules.retention), What::DenialForgotten { id: *id, owner: owner.clone() })
        });
        let entry = self.agenda.first().map(|&(due, id)| {
            let entry = self.entries.get(&id);
            (due, entry.map_or(What::Forgotten { id }, |entry| entry.due_event(id)))
        });
        [entry, denied, answer].into_iter().flatten().min_by_key(|(due, _)| *due)
    }

    /// Applies an event, and notes it with what it means for schedules. Where room appeared, reservations of
    /// which something is missing get it before anybody else.
    fn record(&mut self, at: Moment, what: What, course: &mut Ticked) {
        let event = Event { at, what };
        let change = self.apply(&event);
        course.events.push(event);
        if let Some(change) = change {
            let gave_back = !change.gave_back.is_empty();
            let resource = gave_back.then(|| self.at(&change.resource)).flatten();
            course.changes.push(change);
            if let Some(resource) = resource {
                self.mend(at, resource, course);
            }
        }
    }

    /// The place of a resource in the rules.
    fn at(&self, resource: &Name) -> Option<usize> {
        self.rules.at(resource)
    }

    /// The rules it was made with.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A reservation.
    pub fn entry(&self, id: ReservationId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// A reservation as its owner may see it at a moment.
    pub fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        self.entries.get(&id).map(|entry| self.view(now, id, entry))
    }

    /// The ids of all reservations that are remembered, in order, after one of them or from the first.
    pub fn ids_after(&self, after: Option<ReservationId>) -> impl Iterator<Item = ReservationId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((from, Bound::Unbounded)).map(|(id, _)| *id)
    }

    /// All reservations that are remembered, by id.
    pub fn entries(&self) -> impl Iterator<Item = (ReservationId, &Entry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// All ids under which nothing was reserved, and that are remembered.
    pub fn denied(&self) -> impl Iterator<Item = (ReservationId, &Denied)> {
        self.denied.all().map(|((id, _), denied)| (*id, denied))
    }

    /// How many reservations are in each state that occurs.
    pub fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        self.entries.values().for_each(|entry| *counts.entry(entry.state).or_default() += 1);
        counts
    }

    /// Forgets the answers, which only who decides needs.
    pub fn forget_answers(&mut self) {
        self.answers = PerUser::default();
    }

    /// How many answers are remembered.
    pub fn answers_remembered(&self) -> usize {
        self.answers.len()
    }

    /// What each user with live reservations has.
    pub fn usage(&self) -> impl Iterator<Item = (&Name, &Usage)> {
        self.usage.iter()
    }

    /// What was seen of holds.
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// How much of a resource has failed.
    pub fn lost_capacity(&self, resource: &Name) -> Capacity {
        self.at(resource).map_or(Capacity::ZERO, |at| self.books[at].lost)
    }

    /// What live reservations take of a resource, in order of their begins: what its scheduler must keep
    /// free.
    pub fn reserved<'a>(&'a self, resource: &Name) -> impl Iterator<Item = (ReservationId, Span)> + 'a {
        let book = self.at(resource).map(|at| &self.books[at]);
        let ids = book.into_iter().flat_map(|book| &book.begins).map(|(_, id)| *id);
        let entries = ids.filter_map(|id| Some((id, self.entries.get(&id)?)));
        entries.flat_map(|(id, entry)| entry.takes().into_iter().map(move |span| (id, span)))
    }
}

fn key_taken(envelope: &Envelope) -> Answer {
    Problem::new(Why::KeyTaken(envelope.key)).into()
}
