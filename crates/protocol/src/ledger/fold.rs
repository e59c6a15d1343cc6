//! How each event changes the ledger, live and on replay. It decides nothing and trusts nothing: an event
//! that does not fit, such as a transition that the life cycle does not have, changes nothing. Reservations
//! on a resource that the rules no longer have are kept and continue their life, without capacity; see
//! [`Ledger::check_resources`].

use super::book::Footprint;
use super::entry::{Change, Denied, Entry, Event, Preparing, Then, Waiting, What};
use super::spans::{self, rest_from};
use super::state::{Answered, Ledger};
use crate::clock::{Millis, Moment};
use crate::digest::Digest;
use crate::flaw::{Broken, Flaw};
use crate::ids::{ChangeId, JobId, Name, ReservationId};
use crate::life_cycle::{Move, State};
use crate::problem::Problem;
use crate::request::Request;
use bookahead_plan::{Capacity, Interval, Span, Time};
use std::sync::Arc;

/// Approximate memory use of a recorded call or denied id without its answer or reason, with its places in the indexes.
const SMALL: usize = 1_024;

impl Ledger {
    /// Applies an event. Returns its effect on the schedule of a resource, if it has one.
    pub fn apply(&mut self, event: &Event) -> Option<Change> {
        let at = event.at;
        self.latest = self.latest.max(at);
        match &event.what {
            What::Held { id, owner, request, resource, span, deadline } => {
                let mut entry = Entry::requested(self.accepted, at, owner, request, resource, *span)?;
                entry.moves(Move::Hold);
                entry.deadline = *deadline;
                self.observe_grant(&entry);
                self.accept(*id, entry)
            }
            What::Requested { id, owner, request, resource, span, hold_for, book, until } => {
                let mut entry = Entry::requested(self.accepted, at, owner, request, resource, *span)?;
                let then = if *book { Then::Book } else { Then::Hold(*hold_for) };
                entry.waits(at, *until, then);
                self.accept(*id, entry)
            }
            What::NotGranted { id, problem } => self.refuse_waiting(at, *id, problem),
            What::Refused { id, owner, request, problem } => {
                self.observe_refusal(problem);
                let refusal = Some((*request, problem.clone()));
                self.deny(*id, Denied { owner: owner.clone(), at, refusal })
            }
            What::CancelledBefore { id, owner } => {
                self.deny(*id, Denied { owner: owner.clone(), at, refusal: None })
            }
            What::Asked { envelope } => {
                let entry = envelope.call.id().and_then(|id| self.entries.get_mut(&id));
                if let Some(waiting) = entry.and_then(|entry| entry.waiting.as_mut()) {
                    waiting.asked = Some(envelope.clone());
                }
                None
            }
            What::Answered { call, answer } => {
                self.remember_answer(Answered { at, call: call.clone(), answer: answer.clone() });
                None
            }
            What::AnswerForgotten { key } => {
                self.answers.forget(key);
                None
            }
            What::Forgotten { id } => self.forget(*id),
            What::DenialForgotten { id, owner } => {
                self.denied.forget(&(*id, owner.clone()));
                None
            }
            What::Lost { resource, capacity } => {
                self.set_lost(resource, |lost| lost.saturating_add(capacity.0))
            }
            What::Restored { resource, capacity } => {
                self.set_lost(resource, |lost| lost.saturating_sub(capacity.0))
            }
            What::Waited { resource, until, jobs } => {
                let book = self.at(resource).map(|at| &mut self.books[at]);
                if let Some(book) = book {
                    book.waits.count(*until, jobs);
                }
                None
            }
            what => self.apply_to_entry(at, what),
        }
    }

    /// Events about an existing reservation.
    fn apply_to_entry(&mut self, at: Moment, what: &What) -> Option<Change> {
        let id = what.id()?;
        let state = self.entries.get(&id)?.state;
        // Must run before the edit: the statistics depend on the state that the event ends.
        if !matches!(what, What::HeldLonger { .. } | What::Released { .. } | What::Missing { .. }) {
            self.observe(id, what);
        }
        let new = matches!(what, What::Granted { .. })
            && self.entries.get(&id).is_some_and(|entry| !entry.is_committed_late());
        let change = self.edit(at, id, |entry| match what {
            What::HeldLonger { deadline, .. } => entry.deadline = *deadline,
            What::Missing { capacity, .. } => entry.missing = *capacity,
            What::Released { spans, .. } => entry.take_new(spans),
            What::RequestChanged { request, .. } => entry.take_request(request.clone()),
            What::Granted { deadline, .. } => entry.granted(at, *deadline),
            What::ChangeSettled { .. } => entry.changed(),
            What::Committed { jobs, late, .. } => {
                let moved = entry.moves(Move::Commit);
                entry.jobs.extend(jobs.iter().filter(|_| moved));
                if let (true, State::Expired, Some(spans)) = (moved, state, late) {
                    entry.take_new(spans);
                }
            }
            What::CommitRequested { jobs, spans, until, .. } => entry.commits_late(at, jobs, spans, *until),
            What::ChangeRequested { spans, extends, until, prepares, request, .. } => {
                entry.wants(at, spans, *extends, *until, *prepares, request.clone());
            }
            What::ChangePrepared { until, .. } => entry.prepared_until(*until),
            What::ChangeGivenUp { change, .. } => entry.gives_up_change(*change),
            What::Begun { .. } => {
                entry.moves(Move::Begin);
                entry.waits_no_more(false);
            }
            What::Expired { .. } => entry.ends(Move::Expire, at),
            What::Cancelled { because, .. } => {
                entry.ends(Move::Cancel, at);
                entry.given_up = Some(*because);
            }
            What::Completed { .. } => entry.ends(Move::Complete, at),
            What::Terminated { because, .. } => {
                entry.ends(Move::Terminate, at);
                entry.given_up = Some(*because);
            }
            _ => {}
        });
        if new && let Some(entry) = self.entries.get(&id).cloned() {
            self.observe_grant(&entry);
        }
        change
    }

    fn accept(&mut self, id: ReservationId, entry: Entry) -> Option<Change> {
        // An event for a known id does not fit, and must change nothing.
        if self.entries.contains_key(&id) || self.denied_to(id, &entry.owner).is_some() {
            return None;
        }
        self.accepted = self.accepted.saturating_add(1);
        if let Some(resource) = self.at(&entry.resource) {
            self.books[resource].advance(entry.accepted.second());
        }
        self.enter(id, entry)
    }

    /// Adds an entry and updates everything derived from the entries.
    pub(super) fn enter(&mut self, id: ReservationId, entry: Entry) -> Option<Change> {
        let footprint = footprint(self.broken, &entry);
        self.add_usage(&entry.owner, i32::from(footprint.is_live()), footprint.area());
        self.agenda.insert((entry.due(self.rules.retention), id));
        let change = self.at(&entry.resource).map(|at| {
            let (book, resource) = (&mut self.books[at], entry.resource.clone());
            let (gave_back, took) = book.replace(id, &entry.owner, &Footprint::NONE, &footprint, Time::MIN);
            Change { resource, id, gave_back, took }
        });
        self.entries.insert(id, entry);
        change
    }

    /// Changes an entry and updates everything derived from the entries.
    fn edit(&mut self, at: Moment, id: ReservationId, change: impl FnOnce(&mut Entry)) -> Option<Change> {
        let (broken, retention) = (self.broken, self.rules.retention);
        let entry = self.entries.get_mut(&id)?;
        let was_over = entry.state.is_over();
        let (before, old_due) = (footprint(broken, entry), entry.due(retention));
        change(entry);
        let (after, due) = (footprint(broken, entry), entry.due(retention));
        let (owner, resource) = (entry.owner.clone(), self.rules.at(&entry.resource));
        let counts = was_over || entry.state.is_over();
        if due != old_due {
            self.agenda.remove(&(old_due, id));
            self.agenda.insert((due, id));
        }
        if counts {
            self.count_ended(id);
        }
        let count = i32::from(after.is_live()) - i32::from(before.is_live());
        self.add_usage(&owner, count, after.area() - before.area());
        let resource = resource?;
        self.books[resource].advance(at.second());
        let (gave_back, took) = self.books[resource].replace(id, &owner, &before, &after, rest_from(at));
        let nothing = gave_back == took;
        let resource = self.rules.resources[resource].resource.name.clone();
        (!nothing).then_some(Change { resource, id, gave_back, took })
    }

    /// A request is moved to the denied ids. An expired hold stays expired, and a committed reservation keeps
    /// its old terms.
    fn refuse_waiting(&mut self, at: Moment, id: ReservationId, problem: &Problem) -> Option<Change> {
        let entry = self.entries.get(&id).filter(|entry| entry.state.is_waiting())?;
        let (state, late) = (entry.state, entry.is_committed_late());
        let change = self.edit(at, id, |entry| match state {
            State::Requested if late => entry.ends(Move::Expire, at),
            State::Requested => entry.ends(Move::Reject, at),
            _ => entry.settles(false),
        });
        if self.entries.get(&id).is_some_and(|entry| entry.state == State::Rejected)
            && let Some(entry) = self.entries.remove(&id)
        {
            self.agenda.remove(&(entry.due(self.rules.retention), id));
            self.observe_refusal(problem);
            let refusal = Some((Digest::of(&*entry.request), problem.clone()));
            self.deny(id, Denied { owner: entry.owner, at, refusal });
        }
        change
    }

    pub(super) fn deny(&mut self, id: ReservationId, denied: Denied) -> Option<Change> {
        let has_it = self.entries.get(&id).is_some_and(|entry| entry.owner == denied.owner);
        if !has_it && self.denied_to(id, &denied.owner).is_none() {
            let (at, owner) = (denied.at, denied.owner.clone());
            let bytes = denied.refusal.as_ref().map_or(0, |(_, problem)| problem.bytes()) + SMALL;
            let most = self.rules.bounds.denied;
            self.denied.remember((at, &owner), &(id, owner.clone()), denied, bytes, most);
        }
        None
    }

    pub(super) fn remember_answer(&mut self, answered: Answered) {
        let (at, user, key) = (answered.at, answered.call.user.clone(), answered.call.key);
        let bytes = answered.answer.bytes() + SMALL;
        self.answers.remember((at, &user), &key, answered, bytes, self.rules.bounds.answers);
    }

    pub(super) fn denied_to(&self, id: ReservationId, user: &Name) -> Option<&Denied> {
        self.denied.get(&(id, user.clone()))
    }

    /// The denials of an id to all users.
    pub(super) fn all_denied(&self, id: ReservationId) -> impl Iterator<Item = &Denied> {
        let from = self.denied.from((id, Name::from("")));
        from.take_while(move |((of, _), _)| *of == id).map(|(_, denied)| denied)
    }

    fn forget(&mut self, id: ReservationId) -> Option<Change> {
        // Journals of the first release drop denials with this event, too.
        let denied: Vec<Name> = self.all_denied(id).map(|denied| denied.owner.clone()).collect();
        denied.into_iter().for_each(|owner| self.denied.forget(&(id, owner)));
        if self.entries.get(&id).is_some_and(|entry| entry.state.is_over()) {
            self.drop_ended(id);
        }
        None
    }

    fn set_lost(&mut self, resource: &Name, lost: impl FnOnce(u32) -> u32) -> Option<Change> {
        let at = self.at(resource)?;
        let book = &mut self.books[at];
        book.set_lost(Capacity(lost(book.lost.0)));
        None
    }
}

fn footprint(broken: Broken, entry: &Entry) -> Footprint {
    let footprint = Footprint::of(entry);
    if broken.is(Flaw::HoldsTakeNoRoom) && entry.state == State::Held {
        return footprint.without_room();
    }
    footprint
}

impl Entry {
    fn requested(
        serial: u64,
        at: Moment,
        owner: &Name,
        request: &Arc<Request>,
        resource: &Name,
        span: Span,
    ) -> Option<Entry> {
        (span.area() > 0).then(|| Entry {
            owner: owner.clone(),
            request: request.clone(),
            state: State::Requested,
            resource: resource.clone(),
            spans: vec![span],
            serial,
            accepted: at,
            deadline: at,
            jobs: Vec::new(),
            missing: Capacity::ZERO,
            version: 1,
            ended: at,
            given_up: None,
            waiting: None,
            last_change: None,
            changed_to: None,
            shortened: None,
        })
    }

    fn waits(&mut self, since: Moment, until: Moment, then: Then) {
        self.waiting = Some(Waiting { until, since, then, asked: None });
    }

    fn commits_late(&mut self, at: Moment, jobs: &[JobId], spans: &[Span], until: Moment) {
        if self.moves(Move::Request) {
            self.take_new(spans);
            self.waits(at, until, Then::CommitLate(jobs.to_vec()));
        }
    }

    /// The batch system granted a request. For a late commit, the time of the original hold is kept.
    fn granted(&mut self, at: Moment, deadline: Moment) {
        let late = self.is_committed_late();
        if self.moves(Move::Hold) {
            self.accepted = if late { self.accepted } else { at };
            self.deadline = deadline;
            self.waiting = None;
        }
    }

    fn wants(
        &mut self,
        at: Moment,
        spans: &[Span],
        extends: bool,
        until: Moment,
        prepares: Option<(ChangeId, Millis)>,
        request: Option<Box<Request>>,
    ) {
        let begun = self.state == State::Active;
        if self.moves(if extends { Move::Extend } else { Move::RequestChange }) {
            let (spans, both) = (spans.to_vec(), spans::both(&self.spans, spans));
            let preparing = prepares.map(|(change, hold_for)| Preparing { change, hold_for, ready: false });
            self.waits(at, until, Then::Change { spans, both, begun, extends, preparing, request });
        }
    }

    fn prepared_until(&mut self, deadline: Moment) {
        if let Some(Waiting { until, then: Then::Change { preparing: Some(preparing), .. }, asked, .. }) =
            &mut self.waiting
        {
            (*until, preparing.ready, *asked) = (deadline, true, None);
        }
    }

    /// The old terms stay. If the change is not known yet, it is remembered as given up, in case its prepare
    /// call arrives later.
    fn gives_up_change(&mut self, change: ChangeId) {
        if self.preparing().is_some_and(|preparing| preparing.change == change) {
            self.settles(false);
        } else {
            self.last_change = Some((change, false));
        }
    }

    /// Ends a wait. `accepted` tells the result of a prepared change.
    fn waits_no_more(&mut self, accepted: bool) {
        if let Some(preparing) = self.preparing() {
            self.last_change = Some((preparing.change, accepted));
        }
        self.waiting = None;
    }

    /// The new terms take effect.
    fn changed(&mut self) {
        let waiting = self.waiting.clone();
        self.settles(true);
        if let Some(Waiting { then: Then::Change { spans, extends, request, .. }, .. }) = waiting {
            self.take_new(&spans);
            if let Some(request) = request {
                self.take_request(request);
            }
            if !extends {
                // New terms were placed with their full capacity free. An extension keeps the capacity
                // missing from the old terms.
                self.missing = Capacity::ZERO;
            }
        }
    }

    /// Ends a pending change.
    fn settles(&mut self, accepted: bool) {
        let begun = self.has_begun();
        if self.moves(Move::SettleChange) {
            self.waits_no_more(accepted);
            if begun {
                self.moves(Move::Begin);
            }
        }
    }

    /// Makes a transition if the life cycle has it; otherwise changes nothing and returns false.
    fn moves(&mut self, attempted: Move) -> bool {
        let after = self.state.after(attempted);
        self.state = after.unwrap_or(self.state);
        after.is_ok()
    }

    /// Makes a transition to a final state. Used time stays in the spans. A reservation that never started
    /// keeps its whole span: a cancelled one stays visible, and an expired hold can be committed late.
    fn ends(&mut self, attempted: Move, at: Moment) {
        if self.moves(attempted) {
            self.ended = at;
            self.waits_no_more(false);
            if matches!(self.state, State::Completed | State::Terminated) {
                // At least the instant of its start is kept, also if it was given back then.
                let mut before = spans::until(&self.spans, rest_from(at));
                if before.is_empty() {
                    let first = self.spans.first().copied();
                    let at_begin = |begin: Time| Interval::new(begin, begin);
                    before.extend(first.map(|span| Span { interval: at_begin(span.interval.begin), ..span }));
                }
                self.spans = before;
            }
        }
    }

    /// The version counts changes of the description and of sharing, too: an owner must not overwrite a change
    /// that it has not seen.
    fn take_request(&mut self, request: Box<Request>) {
        if self.is_live() {
            let says_other = request.says_other_than(self.current_request());
            self.version = self.version.saturating_add(u32::from(says_other));
            self.changed_to = Some(self.with_fixed_terms(Arc::from(request)));
        }
    }

    fn take_new(&mut self, spans: &[Span]) {
        if self.is_live() && !spans.is_empty() && self.spans != spans {
            self.spans = spans.to_vec();
            let most = spans.iter().map(|span| span.capacity).max().unwrap_or_default();
            self.missing = self.missing.min(most);
            self.version = self.version.saturating_add(1);
        }
    }
}
