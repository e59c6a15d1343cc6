//! A site: its book, the batch system that its promises are kept by, and the jobs that were given to it.
//!
//! Where the batch system has to be asked ([`Rules::consent`]), nothing is promised before it grants it: a call waits, its
//! reservation rests in the book, and an order is under way. Whatever is kept there and is not in the book is found by looks
//! and given back. Where the scheduler is part of this process it is told at once what to keep free, and what is given back
//! only when that is durable: no job ever starts in room that the journal still promises.
//!
//! A job is written down before the batch system hears of it. After a restart a site looks before it orders anything.

mod binding;
mod jobs;
mod keeping;
mod orders;
mod queries;
mod submission;

pub use jobs::{JobEvent, Jobs, Record};
pub use queries::SiteFacts;

use crate::batch::{Backing, BatchOrder, BatchReport, OrderId};
use crate::register::{Changes, Heartbeat};
use crate::step::{CallId, Input, Level, Missing, Notice, Output, Party, Remark, Reply};
use bookahead_plan::{Seconds, Span};
use bookahead_protocol::ledger::{self, Change, Ledger, Rules, RulesError, What};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Call, Envelope, JobId, Millis, Moment, ReservationId};
use orders::Orders;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a site writes down.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SiteEvent {
    /// Something happened to its book.
    Book(ledger::Event),
    /// Something happened to a job.
    Job(JobEvent),
    /// It is settled what becomes of what the batch system kept when the book was new.
    Opened,
}

/// What stands for all events of a site up to one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteState {
    book: ledger::Snapshot,
    jobs: Jobs,
    #[serde(default)]
    opened: bool,
}

/// How a site deals with its batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteOptions {
    /// What becomes of reservations that the batch system keeps for this site while its book is new; None where the
    /// batch system keeps nothing by itself.
    pub on_lost_journal: Option<OnLostJournal>,
    /// How often book and batch system are compared.
    pub look_every: Millis,
    /// After nodes of a reservation have been away for this long it is moved to others, if there is room for all of it.
    pub move_after: Millis,
    /// Whether a job that waits in the batch system can be given a reservation.
    pub binds_jobs: bool,
}

/// What becomes of reservations that the batch system keeps for this site while its book is new: the journal was lost, or the
/// site was set up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLostJournal {
    /// The site stops: the operator is to say.
    #[default]
    Ask,
    /// They are taken into the book, as committed.
    Adopt,
    /// They are given back.
    Remove,
}

/// Machines that fail, and reservations that somebody removed, are noticed after this time at the latest: long enough that
/// looks are a small load for a batch system, short enough for its users.
pub const LOOK_EVERY: Millis = Millis::seconds(10);

/// After a failure the batch system is looked at again this soon.
const LOOK_AGAIN: Millis = Millis::seconds(1);

/// A batch system that was silent is not believed for this long when it says that nodes failed: its nodes have to be heard of
/// again first.
const DOUBT_AFTER_SILENCE: Millis = Millis::seconds(10);

/// Nodes that are away for less than this are not judged: after a restart of its server a batch system shows all nodes as away
/// for some seconds, and a daemon that is restarted comes back within one look.
const AWAY_COUNTS_AFTER: Millis = Millis::seconds(10);

/// A reservation whose nodes have been away for this long is moved to others, if there is room for all of it: long enough for
/// most nodes to restart their daemons, short enough to help those who need it.
pub const MOVE_AFTER: Millis = Millis::seconds(60);

/// Calls that may wait for the first look after a start: as many as a busy site gets in the seconds that it takes.
const MOST_EARLY: usize = 1_024;

/// The largest of this many holds is published as the time that a hold takes.
const HOLDS_REMEMBERED: usize = 16;

impl Default for SiteOptions {
    fn default() -> SiteOptions {
        SiteOptions {
            on_lost_journal: None,
            look_every: LOOK_EVERY,
            move_after: MOVE_AFTER,
            binds_jobs: true,
        }
    }
}

/// A site.
#[derive(Clone)]
pub struct Site {
    rules: Rules,
    about: Heartbeat,
    options: SiteOptions,
    ledger: Ledger,
    jobs: Jobs,
    opened: bool,
    // What follows is lost with a crash.
    facts: SiteFacts,
    facts_number: u64,
    orders: Orders,
    /// Calls that wait for the batch system, by the reservation they are about.
    waiting: BTreeMap<ReservationId, Vec<(CallId, Envelope)>>,
    /// Calls that came before the first look was in, and until when they wait for it.
    early: Vec<(Moment, CallId, Envelope)>,
    /// Submissions that wait for the batch system to take the job, until then.
    submitting: BTreeMap<JobId, (Moment, Vec<CallId>)>,
    /// Jobs that the batch system is being told to put into their reservations.
    binding: BTreeMap<JobId, OrderId>,
    /// Of a scheduler in this process: what it keeps until a change is durable.
    unsettled: BTreeMap<ReservationId, (crate::OrderId, Vec<Span>)>,
    /// How long the last holds took.
    holds_took: VecDeque<Millis>,
    next_look: Moment,
    /// Until then nodes that seem to have failed are not believed to: after silence they are unknown for a while.
    doubt_until: Moment,
    /// Since when more of a resource is away than the book knows.
    away_since: BTreeMap<bookahead_protocol::Name, Moment>,
    looked_once: bool,
    /// How far the clock of the batch system was ahead of ours at the last look.
    skew: Seconds,
    /// How many records of the batch system the last look could not read.
    unreadable: usize,
    /// That the batch system does not answer, as it was told.
    silence: Option<queries::Silence>,
    /// Whether it is known what the batch system keeps. Nothing is promised or ordered before.
    met: bool,
    broken: Option<SiteFlaw>,
}

/// A way to break a site on purpose, for tests that must notice it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteFlaw {
    /// What the batch system granted too late is not given back.
    KeepLateGrants,
    /// A reservation is promised before the batch system has granted it.
    PromiseUngranted,
    /// Orders are given after a restart without a look.
    OrderBeforeLook,
    /// A copy of a job runs without a go.
    RunWithoutGo,
    /// Less is kept in the batch system while nodes are away.
    GiveUpNodesAway,
    /// What has no node left is given up in the batch system.
    GiveUpAllAway,
}

type Step = crate::step::Step<SiteEvent>;

impl Site {
    /// One with an empty book.
    pub fn new(rules: Rules, about: Heartbeat, options: SiteOptions) -> Result<Site, RulesError> {
        Ok(Site {
            ledger: Ledger::new(rules.clone())?,
            rules,
            about,
            options,
            jobs: Jobs::default(),
            opened: false,
            facts: SiteFacts::default(),
            facts_number: 0,
            orders: Orders::default(),
            waiting: BTreeMap::new(),
            early: Vec::new(),
            submitting: BTreeMap::new(),
            binding: BTreeMap::new(),
            unsettled: BTreeMap::new(),
            holds_took: VecDeque::new(),
            next_look: Moment(0),
            doubt_until: Moment(0),
            away_since: BTreeMap::new(),
            looked_once: false,
            skew: Seconds::ZERO,
            unreadable: 0,
            silence: None,
            met: false,
            broken: None,
        })
    }

    /// Breaks it on purpose.
    #[cfg(feature = "flaws")]
    pub fn break_by(&mut self, flaw: SiteFlaw) {
        self.broken = Some(flaw);
    }

    /// Breaks its book on purpose.
    #[cfg(feature = "flaws")]
    pub fn break_book_by(&mut self, flaw: bookahead_protocol::flaw::Flaw) {
        self.ledger.break_by(flaw);
    }

    fn is_broken(&self, flaw: SiteFlaw) -> bool {
        self.broken == Some(flaw)
    }

    /// Its book.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Its rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Its jobs.
    pub fn records(&self) -> &Jobs {
        &self.jobs
    }

    /// Whether its batch system has to be asked.
    fn asks(&self) -> bool {
        self.rules.consent.is_some()
    }

    /// Whether no call waits for the batch system and no order is under way but looks.
    pub fn is_settled(&self) -> bool {
        let ordered = self.orders.keeps.values().any(|keep| keep.ordered.is_some());
        self.waiting.is_empty() && self.submitting.is_empty() && !ordered
    }

    fn call(&mut self, call: CallId, envelope: Envelope, step: &mut Step) {
        if let Some(id) = envelope.call.id()
            && let Some(calls) = self.waiting.get_mut(&id)
            && calls.iter().any(|(_, known)| *known == envelope)
        {
            return calls.push((call, envelope));
        }
        if let Err(problem) = self.check_jobs(&envelope) {
            return step.out.answer(call, problem);
        }
        let blind = !self.met && !self.is_broken(SiteFlaw::OrderBeforeLook);
        let needs_look = self.needs_look(&envelope) && (blind || self.is_silent());
        if self.asks() && (needs_look || blind && self.may_find(&envelope.call)) {
            if !self.is_silent() && self.early.len() < MOST_EARLY {
                // A quarter of the limit, since what is asked for then may wait for all of it.
                let until = step.now + Millis(self.rules.consent.unwrap_or(Millis::ZERO).0 / 4);
                return self.early.push((until, call, envelope));
            }
            return step.out.answer(call, Problem::new(Why::NoBatchSystem));
        }
        let views = self.facts.views.clone();
        let handled = self.ledger.handle(step.now, &envelope, &views);
        self.book(handled.events, handled.changes, step);
        match handled.waits.filter(|id| self.ledger.is_waiting(*id)) {
            Some(id) if self.is_broken(SiteFlaw::PromiseUngranted) => {
                self.waiting.entry(id).or_default().push((call, envelope));
                let granted = self.ledger.granted(step.now, id);
                self.book(granted.events, granted.changes, step);
            }
            Some(id) => self.waiting.entry(id).or_default().push((call, envelope)),
            None => step.out.answer(call, handled.answer),
        }
    }

    /// Whether the first look at the batch system may change the answer to a call that only asks: what is kept there may be
    /// adopted.
    fn may_find(&self, call: &Call) -> bool {
        match call {
            Call::Probe { .. } => true,
            Call::Show { id } => self.ledger.entry(*id).is_none(),
            _ => false,
        }
    }

    /// Whether a call wants something new, which cannot be placed before the batch system was looked at.
    fn needs_look(&self, envelope: &Envelope) -> bool {
        match &envelope.call {
            Call::Probe { .. } => true,
            Call::Reserve { .. } | Call::Change { .. } | Call::Extend { .. } | Call::PrepareChange { .. } => {
                !self.ledger.knows(envelope)
            }
            _ => false,
        }
    }

    fn pass_time(&mut self, step: &mut Step) {
        let ticked = self.ledger.tick(step.now);
        self.book(ticked.events, ticked.changes, step);
        self.answer_overdue_submissions(step);
        for (_, call, _) in self.early.extract_if(.., |(until, _, _)| *until <= step.now) {
            step.out.answer(call, Problem::new(Why::NoBatchSystem));
        }
    }

    fn note_job(&mut self, event: JobEvent, step: &mut Step) {
        self.jobs.apply(&event, self.rules.retention);
        step.out.events.push(SiteEvent::Job(event));
    }

    /// Takes over what the ledger has decided: writes it down, tells those who watch and those who wait, and orders what the
    /// batch system is to keep.
    fn book(&mut self, events: Vec<ledger::Event>, changes: Vec<Change>, step: &mut Step) {
        let (mut settled, mut given) = (Vec::new(), Vec::new());
        for event in events {
            if let What::Committed { id, jobs, .. } = &event.what {
                given.extend(jobs.iter().map(|job| (*job, *id)));
            }
            if let Some(notice) = self.notice(step.now, &event) {
                step.out.notices.push((step.out.events.len(), notice));
            }
            self.note_change(&event.what);
            if let Some(id) = event.what.id().filter(|id| self.settles(*id, &event.what)) {
                settled.push((id, event.what.clone()));
            }
            step.out.events.push(SiteEvent::Book(event));
        }
        for change in changes {
            if self.asks() {
                self.order_keep(change.id, step);
            } else {
                self.tell_scheduler(change, step);
            }
        }
        for (job, id) in given {
            self.bind(job, id, step);
        }
        for (id, by) in settled {
            self.answer_waiting(id, &by, step);
        }
    }

    /// Whether calls about a reservation have waited for this event.
    fn settles(&self, id: ReservationId, what: &What) -> bool {
        let answers = matches!(
            what,
            What::Granted { .. }
                | What::NotGranted { .. }
                | What::ChangePrepared { .. }
                | What::ChangeSettled { .. }
                | What::ChangeGivenUp { .. }
                | What::Cancelled { .. }
                | What::Terminated { .. }
                | What::Begun { .. }
                | What::Completed { .. }
        );
        answers && self.waiting.contains_key(&id) && !self.ledger.is_waiting(id)
    }

    /// Answers those who waited for a reservation.
    fn answer_waiting(&mut self, id: ReservationId, by: &What, step: &mut Step) {
        for (call, envelope) in self.waiting.remove(&id).unwrap_or_default() {
            let (answer, ticked) = self.ledger.settled_answer(step.now, &envelope, by);
            self.book(ticked.events, ticked.changes, step);
            step.out.answer(call, answer);
        }
    }

    /// Of a scheduler in this process: room is taken now, and given back when this is durable.
    fn tell_scheduler(&mut self, change: Change, step: &mut Step) {
        let Change { resource, id, gave_back, took } = change;
        // The change is about what can still be given back; the second that has begun is kept as it was, with its jobs.
        let takes = |entry: &ledger::Entry| entry.takes();
        let took = if took.is_empty() { took } else { self.ledger.entry(id).map(takes).unwrap_or_default() };
        let before = self.unsettled.get(&id).map_or(gave_back, |(_, spans)| spans.clone());
        let both = ledger::both(&before, &took);
        if !took.is_empty() {
            let order = self.orders.number();
            let backing = self.backing(&resource, id, both.clone());
            step.out.batch_now.push(BatchOrder::Keep { order, backing });
        }
        if both != took {
            let order = self.orders.number();
            self.unsettled.insert(id, (order, both));
            let backing = self.backing(&resource, id, took);
            step.out.batch.push(BatchOrder::Keep { order, backing });
        }
    }

    fn backing(&self, resource: &bookahead_protocol::Name, id: ReservationId, spans: Vec<Span>) -> Backing {
        let owner = self.ledger.entry(id).map_or_else(|| "".into(), |entry| entry.owner.clone());
        Backing { resource: resource.clone(), id, owner, spans, replaces: false }
    }

    fn notice(&mut self, now: Moment, event: &ledger::Event) -> Option<Notice> {
        let mut notice = self.plain_notice(event)?;
        if let (Some(missing), Some(id)) = (&mut notice.missing, notice.id)
            && missing.capacity.0 > 0
        {
            missing.could_begin = self.could_begin(now, id);
        }
        Some(notice)
    }

    /// What is told of an event, without what would have to be searched for.
    fn plain_notice(&self, event: &ledger::Event) -> Option<Notice> {
        let id = event.what.id();
        let (missing, because) = match &event.what {
            What::Missing { capacity, .. } => {
                (Some(Missing { capacity: *capacity, could_begin: Vec::new() }), None)
            }
            What::Cancelled { because, .. } | What::Terminated { because, .. } => {
                (None, Some(because.word()))
            }
            What::NotGranted { problem, .. } => (None, Some(problem.why.code())),
            _ => (None, None),
        };
        let told = id.is_some() || matches!(event.what, What::Lost { .. } | What::Restored { .. });
        let entry = id.and_then(|id| self.ledger.entry(id));
        told.then(|| Notice {
            at: event.at,
            kind: event.what.word(),
            id,
            owner: entry.map(|entry| entry.owner.clone()),
            state: entry.map(|entry| entry.state),
            version: entry.map(|entry| entry.version),
            missing,
            because,
            webhook: entry.and_then(|entry| entry.request.webhook.clone()),
        })
    }

    fn on_report(&mut self, report: BatchReport, step: &mut Step) {
        match report {
            BatchReport::Kept { order, id, outcome } => self.on_kept(order, id, outcome, step),
            BatchReport::Job { order, job, outcome } => self.on_job_report(order, job, outcome, step),
            BatchReport::Looked { order, at, outcome } => {
                self.on_look(order, at, outcome, step);
                if self.met || self.is_silent() {
                    // The first look is in, or there is none to be had: takes the calls that came before it.
                    for (_, call, envelope) in std::mem::take(&mut self.early) {
                        self.call(call, envelope, step);
                    }
                }
            }
            BatchReport::JobNamed { job, native } => self.on_job_named(job, native, step),
            BatchReport::JobChanged(change) => self.on_job_changed(&change, step),
        }
    }

    /// Orders a look, unless one is under way.
    fn order_look(&mut self, step: &mut Step) {
        if self.orders.look.is_none() {
            let order = self.orders.next(step.now);
            self.orders.look = Some(order);
            step.out.batch.push(BatchOrder::Look { order });
        }
        self.next_look = step.now + self.options.look_every;
    }
}

impl Party for Site {
    type Event = SiteEvent;
    type State = SiteState;
    type Facts = SiteFacts;

    const KIND: &'static str = "site";
    const SCHEMA: u32 = 2;

    fn restore(&mut self, state: SiteState) -> Result<(), String> {
        self.ledger = Ledger::restore(self.rules.clone(), state.book).map_err(|why| why.to_string())?;
        (self.jobs, self.opened) = (state.jobs, state.opened);
        Ok(())
    }

    fn apply(&mut self, event: &SiteEvent) {
        match event {
            SiteEvent::Book(event) => drop(self.ledger.apply(event)),
            SiteEvent::Job(event) => self.jobs.apply(event, self.rules.retention),
            SiteEvent::Opened => self.opened = true,
        }
    }

    fn notice_of(&self, _: Moment, event: &SiteEvent) -> Option<Notice> {
        match event {
            SiteEvent::Book(event) => self.plain_notice(event),
            SiteEvent::Job(_) | SiteEvent::Opened => None,
        }
    }

    fn start(&mut self, now: Moment) -> Result<Output<SiteEvent>, String> {
        let mut step = Step::new(now);
        self.facts.changes = Arc::new(Changes::new(now));
        // What ended meanwhile needs no resource any more.
        let ticked = self.ledger.tick(now);
        self.book(ticked.events, Vec::new(), &mut step);
        self.ledger.check_resources().map_err(|why| why.to_string())?;
        let fitted = self.ledger.fit_rules(now);
        if !fitted.events.is_empty() {
            let why = "less is offered now than was promised; the newest reservations miss something";
            step.remark(Remark::new(Level::Warn, "promises_exceed_capacity", why));
        }
        self.book(fitted.events, Vec::new(), &mut step);
        if !self.asks() {
            self.met = true;
            self.tell_scheduler_all(&mut step);
        }
        self.order_look(&mut step);
        self.publish();
        Ok(step.out)
    }

    fn step(&mut self, now: Moment, input: Input) -> Output<SiteEvent> {
        let mut step = Step::new(now);
        self.pass_time(&mut step);
        match input {
            Input::Call { call, envelope, .. } => self.call(call, envelope, &mut step),
            Input::Submit { call, caller, key, id, job, .. } => {
                self.submit(call, &caller, (key, id), *job, &mut step);
            }
            Input::CancelJob { call, caller, id } => self.cancel_job(call, &caller, id, &mut step),
            Input::Go { call, caller, id } => self.go(call, &caller, id, &mut step),
            Input::Batch(report) => self.on_report(report, &mut step),
            Input::Heard { call, .. } => {
                let no = Reply::Registered(Err(Problem::new(Why::NoRegister)));
                step.out.replies.extend(call.map(|call| (call, no)));
            }
            Input::WantLook if self.asks() => self.order_look(&mut step),
            Input::Time if self.asks() && self.next_look <= now => self.order_look(&mut step),
            Input::Answered { .. }
            | Input::JobAnswered { .. }
            | Input::Silent { .. }
            | Input::WantLook
            | Input::Time => {}
        }
        self.publish();
        step.out
    }

    fn wake_at(&self) -> Option<Moment> {
        let look = self.asks().then_some(self.next_look);
        let submitting = self.submitting.values().map(|(until, _)| *until);
        let early = self.early.iter().map(|(until, _, _)| *until);
        self.ledger.next_deadline().into_iter().chain(look).chain(submitting).chain(early).min()
    }

    fn state(&self) -> SiteState {
        SiteState { book: self.ledger.snapshot(), jobs: self.jobs.clone(), opened: self.opened }
    }

    fn read_copy(&self) -> Site {
        let mut copy = self.clone();
        (copy.waiting, copy.early, copy.submitting, copy.unsettled) = Default::default();
        copy.ledger.forget_answers();
        copy
    }

    fn is_shown(event: &SiteEvent) -> bool {
        !matches!(event, SiteEvent::Book(event)
            if matches!(event.what, What::Answered { .. } | What::AnswerForgotten { .. }))
    }

    fn facts(&self) -> (u64, SiteFacts) {
        (self.facts_number, self.facts.clone())
    }

    fn set_facts(&mut self, facts: SiteFacts) {
        self.facts = facts;
    }
}
