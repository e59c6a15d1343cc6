//! A site: its ledger, and the batch system that the ledger's promises are kept by. It decides nothing; it shows the ledger
//! what is on the machines, and sees to it that what the ledger promises is kept free there.
//!
//! Towards the batch system room is taken before that is written down and given back after: whatever comes between, no job
//! runs in room that is promised. What the batch system does not grant is not promised. A job is written down before the
//! batch system hears of it: whatever comes between, none runs that the book does not know. After a restart, and every so
//! often, both are compared and made to agree ([`Site::reconcile`]).

mod backing;
mod jobs;
mod keeping;
mod sight;
mod submission;

pub use jobs::{Event as JobEvent, Jobs, Record};

use crate::party::{Done, Input, Missing, Notice, Party, Reply, Sight};
use bookahead_api as api;
use bookahead_lrms::{Backing, Job, Lrms};
use bookahead_protocol::ledger::{self, Change, Ledger, Objection, Rules, RulesError, Views};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Envelope, Millis, Moment, ReservationId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What a site writes down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Something happened to its book.
    Book(ledger::Event),
    /// Something happened to a job.
    Job(JobEvent),
    /// It is known what the batch system kept when the book was new.
    Opened,
}

/// What stands for all events of a site up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct State {
    book: ledger::Snapshot,
    jobs: Jobs,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    opened: bool,
}

/// What is to be done when something is durable.
enum AfterWriting {
    GiveBack(Change),
    Submit { job: Box<Job>, reply: Option<Reply<Result<api::Job, api::Problem>>> },
    Cancel { id: bookahead_protocol::JobId },
}

/// Machines that fail, and reservations that somebody removed, are noticed after this time at the latest, unless the site is
/// told another.
const LOOK_EVERY: Millis = Millis::seconds(10);

/// After a failure both are compared again so soon.
const LOOK_AGAIN: Millis = Millis::seconds(1);

/// So many calls may wait until room is given back.
const MOST_PUT_OFF: usize = 1_024;

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
    /// Calls that the batch system refused while it still had to be told what was given back: they are taken again then.
    put_off: VecDeque<Input>,
    /// How often book and batch system are compared.
    look_every: Millis,
    /// When that is next.
    next_look: Moment,
    /// What becomes of what the batch system keeps when the book is new; None where it keeps nothing by itself.
    found: Option<Found>,
    /// Whether the book was new, and what was kept then is settled.
    opened: bool,
    /// Whether the clock of the batch system differs from ours.
    skewed: bool,
    /// Whether it is known what the batch system kept at the start. Nothing is promised or given back before.
    met: bool,
}

/// What becomes of reservations that the batch system keeps for this site while its book is new: the book was lost, or the
/// site was set up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Found {
    /// The site does not start: whoever runs it is to say.
    #[default]
    Ask,
    /// They are taken into the book, as committed.
    Adopt,
    /// They are given back.
    Remove,
}

/// What came of a call.
enum Called {
    Answered(Answer),
    /// Nothing yet: it is to be taken again when what was given back is really free.
    PutOff,
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
            put_off: VecDeque::new(),
            look_every: LOOK_EVERY,
            next_look: Moment(0),
            found: None,
            opened: false,
            skewed: false,
            met: false,
        })
    }

    /// With a batch system that keeps what it was told over a restart; what becomes of that when the book is new.
    pub fn finding(mut self, found: Found) -> Site {
        self.found = Some(found);
        self
    }

    /// How often book and batch system are compared.
    pub fn looking_every(mut self, every: Millis) -> Site {
        self.look_every = every;
        self
    }

    fn call(&mut self, now: Moment, envelope: &Envelope, done: &mut Done<Event>) -> Called {
        if !self.met {
            self.look(now, done);
        }
        self.advance(now, done);
        self.pass_time(now, done);
        let views = match self.views_for(now, &envelope.call) {
            Ok(views) => views,
            Err(why) => return Called::Answered(Problem::new(why).into()),
        };
        let giving_back = self.gives_back();
        let mut put_off = false;
        let names = self.rules.resources.iter().map(|offered| &offered.resource.name);
        let degraded: BTreeSet<ReservationId> = names.flat_map(|name| self.ledger.degraded(name)).collect();
        let Site { ledger, lrms, untold, .. } = self;
        let handled = ledger.handle_with(now, envelope, &views, &mut |taking| {
            keeping::take_room(lrms.as_mut(), now, taking, &degraded, untold).map_err(|objection| {
                put_off = giving_back && matches!(objection, Objection::Refused(_));
                if put_off { Objection::NotNow(Why::Busy) } else { objection }
            })
        });
        self.book(now, handled.events, handled.changes, done);
        if put_off { Called::PutOff } else { Called::Answered(handled.answer) }
    }

    /// What is on the machines, for the calls that are decided by it.
    fn views_for(&mut self, now: Moment, call: &Call) -> Result<Views, Why> {
        let needed = match call {
            Call::Probe { .. } | Call::Reserve { .. } | Call::Change { .. } => true,
            // A commit in time needs no room that it does not have; one that is late is asked for again.
            Call::Commit { .. } => false,
            _ => return Ok(Views::default()),
        };
        match self.lrms.views(now) {
            Ok(_) if needed && !self.met => Err(Why::NoBatchSystem),
            Ok(views) => Ok(views),
            Err(_) if !needed => Ok(Views::default()),
            Err(why) => {
                tracing::error!("cannot see the batch system: {why}");
                Err(Why::NoBatchSystem)
            }
        }
    }

    /// Lets the batch system go on, and notes what became of jobs.
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
    }

    fn pass_time(&mut self, now: Moment, done: &mut Done<Event>) {
        let ticked = self.ledger.tick(now);
        self.book(now, ticked.events, ticked.changes, done);
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
            if let Some(notice) = self.notice(now, &event) {
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

    fn notice(&mut self, now: Moment, event: &ledger::Event) -> Option<Notice> {
        let id = event.what.id();
        let missing = match event.what {
            ledger::What::Missing { id, capacity } => {
                let could_begin = if capacity.0 > 0 { self.could_begin(now, id) } else { Vec::new() };
                Some(Missing { capacity, could_begin })
            }
            _ => None,
        };
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
            missing,
        })
    }
}

impl Party for Site {
    type Event = Event;
    type State = State;

    const KIND: &'static str = "site";
    const SCHEMA: u32 = 1;

    fn restore(&mut self, state: State) -> Result<(), String> {
        self.ledger = Ledger::restore(self.rules.clone(), state.book).map_err(|why| why.to_string())?;
        (self.jobs, self.opened) = (state.jobs, state.opened);
        Ok(())
    }

    fn replay(&mut self, event: &Event) {
        match event {
            Event::Book(event) => drop(self.ledger.apply(event)),
            Event::Job(event) => self.jobs.apply(event, self.rules.retention),
            Event::Opened => self.opened = true,
        }
    }

    fn wake(&mut self, now: Moment, done: &mut Done<Event>) -> Result<(), String> {
        // What ended meanwhile needs no resource any more.
        let ticked = self.ledger.tick(now);
        self.book(now, ticked.events, Vec::new(), done);
        self.ledger.check_resources().map_err(|why| why.to_string())?;
        let fitted = self.ledger.fit_rules(now);
        if !fitted.events.is_empty() {
            tracing::warn!("less is offered now than was promised; the newest reservations miss something");
        }
        self.book(now, fitted.events, Vec::new(), done);
        match self.reconcile(now, done) {
            Err(why) if why.is_silence() => {
                tracing::error!("starts although the batch system does not answer: {why}");
                Ok(())
            }
            outcome => outcome.map_err(|why| why.to_string()),
        }
    }

    fn take(&mut self, now: Moment, input: Input, done: &mut Done<Event>) {
        match input {
            Input::Call { envelope, reply, origin } => match self.call(now, &envelope, done) {
                Called::Answered(answer) => done.answer(reply, answer),
                Called::PutOff if self.put_off.len() < MOST_PUT_OFF => {
                    self.put_off.push_back(Input::Call { envelope, reply, origin });
                }
                Called::PutOff => done.answer(reply, Problem::new(Why::Busy).into()),
            },
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
        self.pass_time(now, done);
        if self.next_look <= now {
            self.look(now, done);
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
                    self.back(now, self.promised(&change.resource, change.id));
                }
                AfterWriting::Submit { job, reply } => self.hand_over(now, &job, reply, done),
                AfterWriting::Cancel { id } => {
                    if let Err(why) = self.lrms.cancel(now, id) {
                        tracing::error!(job = %id, "cannot be ended: {why}");
                    }
                }
            }
        }
        if !self.gives_back() {
            for input in std::mem::take(&mut self.put_off) {
                self.take(now, input, done);
            }
        }
    }

    fn state(&self) -> State {
        State { book: self.ledger.snapshot(), jobs: self.jobs.clone(), opened: self.opened }
    }

    fn sight(&mut self) -> &mut dyn Sight {
        self
    }
}
