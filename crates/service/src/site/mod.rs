//! A site: its ledger, and the batch system that the ledger's promises are kept by. It decides nothing; it shows the ledger
//! what is on the machines, and sees to it that what the ledger promises is kept free there.
//!
//! Towards the batch system room is taken before that is written down and given back after: whatever comes between, no job
//! runs in room that is promised. A job is written down before the batch system hears of it: whatever comes between, none
//! runs that the book does not know. After a restart both are compared, and made to agree ([`Site::reconcile`]).

mod backing;
mod jobs;
mod sight;
mod submission;

pub use jobs::{Event as JobEvent, Jobs, Record};

use crate::party::{Done, Input, Notice, Party, Reply, Sight};
use bookahead_api as api;
use bookahead_lrms::{Backing, Job, Lrms, LrmsError, Snapshot};
use bookahead_plan::{Capacity, Span};
use bookahead_protocol::ledger::{self, Change, Ledger, Rules, RulesError, Views};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Envelope, Millis, Moment, Name, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// What a site writes down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Something happened to its book.
    Book(ledger::Event),
    /// Something happened to a job.
    Job(JobEvent),
}

/// What stands for all events of a site up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    book: ledger::Snapshot,
    jobs: Jobs,
}

/// What is to be done when something is durable.
enum AfterWriting {
    GiveBack(Change),
    Submit { job: Box<Job>, reply: Option<Reply<Result<api::Job, api::Problem>>> },
    Cancel { id: bookahead_protocol::JobId },
}

/// Machines that fail are noticed after this time at the latest.
const LOOK_EVERY: Millis = Millis::seconds(10);

/// A site.
pub struct Site {
    rules: Rules,
    /// What else there is to know of it, for those who choose among sites.
    about: api::Site,
    ledger: Ledger,
    lrms: Box<dyn Lrms>,
    jobs: Jobs,
    /// For each time that the keeper will say that something is durable.
    after_writing: VecDeque<Vec<AfterWriting>>,
    /// What the batch system could not be told, and will be told again.
    untold: BTreeMap<ReservationId, Backing>,
    /// When it looks next whether machines have failed.
    next_look: Moment,
}

impl Site {
    /// One with an empty book.
    pub fn new(rules: Rules, about: api::Site, lrms: Box<dyn Lrms>) -> Result<Site, RulesError> {
        let ledger = Ledger::new(rules.clone())?;
        Ok(Site {
            rules,
            about,
            ledger,
            lrms,
            jobs: Jobs::default(),
            after_writing: VecDeque::new(),
            untold: BTreeMap::new(),
            next_look: Moment(0),
        })
    }

    fn call(&mut self, now: Moment, envelope: &Envelope, done: &mut Done<Event>) -> Answer {
        self.advance(now, done);
        let views = match &envelope.call {
            Call::Probe { .. } | Call::Reserve { .. } | Call::Change { .. } | Call::Commit { .. } => {
                match self.lrms.views(now) {
                    Ok(views) => views,
                    Err(why) => {
                        tracing::error!("cannot see the batch system: {why}");
                        return Problem::new(Why::Busy).into();
                    }
                }
            }
            _ => Views::default(),
        };
        let handled = self.ledger.handle(now, envelope, &views);
        self.book(now, handled.events, handled.changes, done);
        handled.answer
    }

    /// Lets the batch system go on, and notes what became of jobs and machines.
    fn advance(&mut self, now: Moment, done: &mut Done<Event>) {
        match self.lrms.advance(now) {
            Ok(changes) => {
                for change in changes.into_iter().filter(|change| change.state.is_over()) {
                    let (id, state, at) = (change.id, change.state, change.at);
                    if self.jobs.get(id).is_some_and(|record| record.over.is_none()) {
                        self.note_job(JobEvent::Over { id, state, at }, done);
                    }
                }
            }
            Err(why) => tracing::error!("the batch system does not go on: {why}"),
        }
        for backing in std::mem::take(&mut self.untold).into_values() {
            self.back(now, backing);
        }
    }

    fn note_job(&mut self, event: JobEvent, done: &mut Done<Event>) {
        self.jobs.apply(&event, self.rules.retention);
        done.events.push(Event::Job(event));
    }

    /// Takes over what the ledger has decided: room is taken now, and given back once this is durable.
    fn book(
        &mut self,
        now: Moment,
        events: Vec<ledger::Event>,
        changes: Vec<Change>,
        done: &mut Done<Event>,
    ) {
        for event in events {
            if let Some(notice) = self.notice(&event) {
                done.notices.push((done.events.len(), notice));
            }
            done.events.push(Event::Book(event));
        }
        let mut later = Vec::new();
        for change in changes {
            if change.took.is_empty() {
                later.push(AfterWriting::GiveBack(change));
            } else if change.gave_back.is_empty() {
                self.back(now, self.backing(&change.resource, change.id, change.took));
            } else {
                let spans = backing::both(&change.gave_back, &change.took);
                self.back(now, self.backing(&change.resource, change.id, spans));
                later.push(AfterWriting::GiveBack(change));
            }
        }
        self.when_written(later, done);
    }

    fn when_written(&mut self, later: Vec<AfterWriting>, done: &mut Done<Event>) {
        if later.is_empty() {
            return;
        }
        if done.call_back
            && let Some(last) = self.after_writing.back_mut()
        {
            last.extend(later);
        } else {
            done.call_back = true;
            self.after_writing.push_back(later);
        }
    }

    fn backing(&self, resource: &Name, id: ReservationId, spans: Vec<Span>) -> Backing {
        let owner = self.ledger.entry(id).map_or_else(|| Name::from(""), |entry| entry.owner.clone());
        Backing { resource: resource.clone(), id, owner, spans }
    }

    /// Tells the batch system what to keep free; what it cannot be told now it is told again with the next input.
    fn back(&mut self, now: Moment, backing: Backing) {
        if let Err(why) = self.lrms.back(now, &backing) {
            tracing::error!(reservation = %backing.id, "the batch system does not keep it free: {why}");
            self.untold.insert(backing.id, backing);
        }
    }

    fn gives_back_later(&self, id: ReservationId) -> bool {
        let mut later = self.after_writing.iter().flatten();
        later.any(|after| matches!(after, AfterWriting::GiveBack(change) if change.id == id))
    }

    fn notice(&self, event: &ledger::Event) -> Option<Notice> {
        let id = event.what.id();
        let told =
            id.is_some() || matches!(event.what, ledger::What::Lost { .. } | ledger::What::Restored { .. });
        let entry = id.and_then(|id| self.ledger.entry(id));
        told.then(|| Notice {
            at: event.at,
            kind: event.what.word(),
            id,
            owner: entry.map(|entry| entry.owner.clone()),
            state: entry.map(|entry| entry.state),
            version: entry.map(|entry| entry.version),
        })
    }

    /// Makes the batch system and the book agree: what is promised is kept free, what nobody promised is given back, a job
    /// that never reached it is submitted, and one that the book does not know is ended. Says what it found.
    /// Nothing starts before the batch system knows what is promised.
    fn reconcile(&mut self, now: Moment, done: &mut Done<Event>) -> Result<(), LrmsError> {
        let snapshot = self.lrms.snapshot(now)?;
        for (resource, seen) in &snapshot.resources {
            let mut promised: BTreeMap<ReservationId, Vec<Span>> = BTreeMap::new();
            for (id, span) in self.ledger.reserved(resource) {
                promised.entry(id).or_default().push(span);
            }
            for id in seen.backings.keys().filter(|id| !promised.contains_key(id)) {
                tracing::warn!(reservation = %id, %resource, "was kept free for nobody, and is given back");
                self.lrms.back(now, &self.backing(resource, *id, Vec::new()))?;
            }
            for (id, spans) in promised {
                if seen.backings.get(&id) != Some(&spans) {
                    self.lrms.back(now, &self.backing(resource, id, spans))?;
                }
            }
        }
        self.advance(now, done);
        self.note_failures(now, &snapshot, done);
        self.reconcile_jobs(now, done)
    }

    /// Tells the ledger what has failed and what is back, as far as it does not know.
    fn note_failures(&mut self, now: Moment, snapshot: &Snapshot, done: &mut Done<Event>) {
        for (resource, seen) in &snapshot.resources {
            let known = self.ledger.lost_capacity(resource);
            let ticked = if seen.lost > known {
                self.ledger.lost(now, resource, Capacity(seen.lost.0 - known.0))
            } else if seen.lost < known {
                self.ledger.restored(now, resource, Capacity(known.0 - seen.lost.0))
            } else {
                continue;
            };
            self.book(now, ticked.events, ticked.changes, done);
        }
    }
}

impl Party for Site {
    type Event = Event;
    type State = State;

    const KIND: &'static str = "site";
    const SCHEMA: u32 = 1;

    fn restore(&mut self, state: State) -> Result<(), String> {
        self.ledger = Ledger::restore(self.rules.clone(), state.book).map_err(|why| why.to_string())?;
        self.jobs = state.jobs;
        Ok(())
    }

    fn replay(&mut self, event: &Event) {
        match event {
            Event::Book(event) => drop(self.ledger.apply(event)),
            Event::Job(event) => self.jobs.apply(event, self.rules.retention),
        }
    }

    fn wake(&mut self, now: Moment, done: &mut Done<Event>) -> Result<(), String> {
        // What ended meanwhile needs no resource any more.
        let ticked = self.ledger.tick(now);
        self.book(now, ticked.events, Vec::new(), done);
        self.ledger.check_resources().map_err(|why| why.to_string())?;
        self.reconcile(now, done).map_err(|why| why.to_string())
    }

    fn take(&mut self, now: Moment, input: Input, done: &mut Done<Event>) {
        match input {
            Input::Call { envelope, reply, .. } => {
                let answer = self.call(now, &envelope, done);
                done.answer(reply, answer);
            }
            Input::Submit { caller, key, id, job, reply, .. } => {
                self.submit(now, &caller, (key, id), *job, reply, done);
            }
            Input::CancelJob { caller, id, reply } => self.cancel_job(now, &caller, id, reply, done),
            Input::Heard { reply, .. } => {
                let why = "a site keeps no register of others; register at a broker";
                done.answer(reply, Err(api::Problem::new(api::Code::NotFound, why)));
            }
            Input::Answered { .. } | Input::Silent { .. } | Input::JobAnswered { .. } => {}
        }
    }

    fn tick(&mut self, now: Moment, done: &mut Done<Event>) {
        self.advance(now, done);
        let ticked = self.ledger.tick(now);
        self.book(now, ticked.events, ticked.changes, done);
        if self.next_look <= now {
            self.next_look = now + LOOK_EVERY;
            match self.lrms.snapshot(now) {
                Ok(snapshot) => self.note_failures(now, &snapshot, done),
                Err(why) => tracing::error!("cannot see the batch system: {why}"),
            }
        }
    }

    fn next_timer(&self) -> Option<Moment> {
        let due = [self.ledger.next_deadline(), self.lrms.next_event()];
        due.into_iter().flatten().chain([self.next_look]).min()
    }

    fn written(&mut self, now: Moment, done: &mut Done<Event>) {
        for after in self.after_writing.pop_front().unwrap_or_default() {
            match after {
                // Where it was changed again meanwhile, what it had is needed until that is durable.
                AfterWriting::GiveBack(change) if self.gives_back_later(change.id) => {}
                AfterWriting::GiveBack(change) => {
                    let reserved = self.ledger.entry(change.id).map(ledger::Entry::takes).unwrap_or_default();
                    self.back(now, self.backing(&change.resource, change.id, reserved));
                }
                AfterWriting::Submit { job, reply } => self.hand_over(now, &job, reply, done),
                AfterWriting::Cancel { id } => {
                    if let Err(why) = self.lrms.cancel(now, id) {
                        tracing::error!(job = %id, "cannot be ended: {why}");
                    }
                }
            }
        }
    }

    fn state(&self) -> State {
        State { book: self.ledger.snapshot(), jobs: self.jobs.clone() }
    }

    fn sight(&mut self) -> &mut dyn Sight {
        self
    }
}
