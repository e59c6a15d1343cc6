//! The ledger of a site: all its reservations, as a plain value. A command and the time go in. An answer,
//! events for the journal, and changes for the schedules of the resources come out. The state is the fold of
//! the events ([`Ledger::apply`]), live and after a restart; a [`Snapshot`] replaces all events before it.
//! The caller supplies jobs and foreign reservations ([`Views`]), and must store the events before it sends
//! the answer. The ledger never reads a clock.
//!
//! - *Time* advances with commands and with [`Ledger::tick`]. Every command first does the work of a tick at
//!   its moment, so the timing of ticks has no effect on the result. Time never goes back.
//! - *Holding is pessimistic*: a hold takes its capacity at once, so a commit in time never fails for lack of
//!   room. A hold lasts until its deadline or the start of its slot, whichever is first. A commit at exactly
//!   that moment is too late.
//! - *Idempotence*: a repeated call has no effect and gets the first answer again, with the remaining hold
//!   time reduced by the time passed. Independently of keys, a reservation id stands for one request for as
//!   long as the id is remembered.
//! - *Seconds*: capacity is planned in whole seconds. Capacity released in the middle of a second stays taken
//!   until the end of that second.

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
mod what;
mod within_limits;

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

/// The reservations of a site and the answers it gave. Two ledgers are equal if they answer every future
/// sequence of commands alike.
#[derive(Clone)]
pub struct Ledger {
    rules: Arc<Rules>,
    entries: BTreeMap<ReservationId, Entry>,
    denied: PerUser<(ReservationId, Name), Denied>,
    answers: PerUser<Key, Answered>,
    observed: Observed,
    holds: waiting::Granted,
    /// Number of reservations ever accepted; gives each entry its serial.
    accepted: u64,
    /// Same order as `rules.resources`.
    books: Vec<Book>,
    /// Derived from the entries.
    usage: BTreeMap<Name, Usage>,
    /// When each entry needs its next event. Derived from the entries.
    agenda: BTreeSet<(Moment, ReservationId)>,
    /// The latest moment seen. Not part of the state that equality compares: a query leaves no trace.
    latest: Moment,
    memory: Memory,
    broken: Broken,
}

impl Ledger {
    /// An empty ledger. Fails if the rules contradict themselves.
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

    /// Breaks the ledger on purpose, so that tests can prove they would notice. Call it before the first
    /// command.
    #[cfg(feature = "flaws")]
    pub fn break_by(&mut self, flaw: crate::flaw::Flaw) {
        self.broken = Broken::by(flaw);
    }

    /// Handles a command. Deciding changes nothing; every change to the state is made by an event.
    pub fn handle(&mut self, now: Moment, envelope: &Envelope, views: &Views) -> Handled {
        let mut course = self.tick(now);
        let (answer, waits) = self.answer(envelope, views, &mut course);
        Handled { answer, waits, events: course.events, changes: course.changes }
    }

    /// Answers a call that changes nothing, without advancing time. Answers `busy` to any other call.
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
        // The key is checked before the id: a repeated call must get its first answer, even if the
        // reservation has changed since.
        if let Some(known) = self.answers.get(&envelope.key) {
            let same = known.call.is(envelope);
            let again = || known.answer.again(now - known.at);
            return (if same { again() } else { key_taken(envelope) }, None);
        }
        // A call that still waits for the batch system has no recorded answer yet; its envelope is in the
        // entry.
        if let Some((id, asked)) = self.asked_by_key(envelope) {
            let same = *asked == *envelope;
            let decision = if same { Decision::show(id) } else { Decision::say(key_taken(envelope)) };
            return (self.carry_out(now, decision, course), same.then_some(id));
        }
        let decision = self.decide(Context { now, caller: &envelope.caller, views }, &envelope.call);
        let waits = decision.waits;
        let answer = self.carry_out(now, decision, course);
        let passing = matches!(&answer, Answer::Problem(problem) if problem.why.is_passing());
        // The first call that waits is recorded now; its answer is recorded when the wait ends. Transient
        // problems are not recorded, so a retry with the same key is decided anew.
        match waits {
            Some(id) if self.asked(id).is_none() => {
                self.record(now, What::Asked { envelope: Box::new(envelope.clone()) }, course);
            }
            None if !passing => self.remember(now, envelope, &answer, course),
            _ => {}
        }
        (answer, waits)
    }

    /// Whether the call is a repetition: its key was answered before, or it reserves under a known id. Such a
    /// call is not decided anew.
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

    /// Advances time: holds expire, reservations start and complete, old records are dropped. Each event
    /// carries the moment at which it was due, not `now`.
    pub fn tick(&mut self, now: Moment) -> Ticked {
        let mut course = Ticked::default();
        let now = now.max(self.latest);
        // One event can make the next one due (a reservation that started may also have ended), so the
        // earliest is looked up again each time.
        while let Some((due, what)) = self.next_due().filter(|(due, _)| *due <= now) {
            self.latest = self.latest.max(due);
            self.happen(self.latest, vec![what], &mut course);
        }
        self.latest = now;
        self.books.iter_mut().for_each(|book| book.advance(now.second()));
        course
    }

    /// When [`Ledger::tick`] has its next event; None if nothing is pending.
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

    /// Applies an event and collects it together with its effect on schedules. Capacity that becomes free
    /// goes to degraded reservations before any later event can use it.
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

    fn at(&self, resource: &Name) -> Option<usize> {
        self.rules.at(resource)
    }

    /// The rules that the ledger was made with. They do not change during its life.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A reservation in any state, as long as it is remembered.
    pub fn entry(&self, id: ReservationId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// A reservation as its owner may see it at `now`.
    pub fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        self.entries.get(&id).map(|entry| self.view(now, id, entry))
    }

    /// The ids of all remembered reservations, ascending, starting after `after`. For paging.
    pub fn ids_after(&self, after: Option<ReservationId>) -> impl Iterator<Item = ReservationId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((from, Bound::Unbounded)).map(|(id, _)| *id)
    }

    /// All remembered reservations, by ascending id.
    pub fn entries(&self) -> impl Iterator<Item = (ReservationId, &Entry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// All remembered ids that were refused, or cancelled before they were reserved.
    pub fn denied(&self) -> impl Iterator<Item = (ReservationId, &Denied)> {
        self.denied.all().map(|((id, _), denied)| (*id, denied))
    }

    /// Number of reservations by state. States without a reservation are left out.
    pub fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        self.entries.values().for_each(|entry| *counts.entry(entry.state).or_default() += 1);
        counts
    }

    /// Drops the recorded answers. A read-only copy of the ledger does not need them.
    pub fn forget_answers(&mut self) {
        self.answers = PerUser::default();
    }

    /// Number of recorded answers, for metrics.
    pub fn answers_remembered(&self) -> usize {
        self.answers.len()
    }

    /// Usage of each user that has live reservations.
    pub fn usage(&self) -> impl Iterator<Item = (&Name, &Usage)> {
        self.usage.iter()
    }

    /// Statistics about holds, input of [`crate::deadline`].
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Capacity of a resource that has failed and not come back. Zero for an unknown resource.
    pub fn lost_capacity(&self, resource: &Name) -> Capacity {
        self.at(resource).map_or(Capacity::ZERO, |at| self.books[at].lost)
    }

    /// The spans that live reservations take on a resource, by start: the capacity that its scheduler must
    /// keep free.
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
