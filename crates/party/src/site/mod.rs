//! A site: its ledger, the batch system that keeps its promises, and its jobs.
//!
//! With a batch system ([`Rules::consent`]), nothing is promised before it is granted: the call waits, its
//! reservation is pending in the ledger, and an order is in progress. Looks find everything that the batch
//! system keeps and the ledger does not have, and release it. A built-in scheduler is told at once what to
//! keep free, but releases only after the change is durable: no job ever starts on capacity that the journal
//! still promises.
//!
//! A job is journalled before it is submitted to the batch system. After a restart a site looks before it
//! gives any order.

mod binding;
mod jobs;
mod keeping;
mod notices;
mod orders;
mod queries;
mod rerun;
mod scheduler;
mod shrinking;
mod submission;
mod terms;

pub use jobs::{JobEvent, Jobs, Record};
pub use queries::SiteFacts;

use crate::batch::{Attracting, BatchReport, OrderId, Sharing};
use crate::queries::Subject;
use crate::register::{Changes, Heartbeat};
use crate::step::{CallId, Input, NewRules, Notice, Output, Party, Reply};
use bookahead_plan::{Seconds, Span};
use bookahead_protocol::ledger::{self, Change, Ledger, Rules, RulesError, What};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Call, Envelope, JobId, Millis, Moment, ReservationId};
use keeping::say_missing;
use orders::Orders;
use serde::{Deserialize, Serialize};
use shrinking::Shrinking;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A journal entry of a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum SiteEvent {
    /// An event of its ledger.
    Book(ledger::Event),
    /// An event of a job.
    Job(JobEvent),
    /// The decision about reservations found with a new ledger is made ([`OnLostJournal`]).
    Opened,
}

/// Snapshot of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SiteState {
    book: ledger::Snapshot,
    jobs: Jobs,
    #[serde(default)]
    opened: bool,
}

/// A site's settings for its batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteOptions {
    /// What to do with existing reservations if the journal is new. None if the batch system keeps nothing
    /// across restarts.
    pub on_lost_journal: Option<OnLostJournal>,
    /// Interval between comparisons of ledger and batch system.
    pub look_every: Millis,
    /// How long nodes of a reservation must be away before it is moved to others, if there is room for all of
    /// it.
    pub move_after: Millis,
    /// Whether a waiting job can be moved into a reservation.
    pub binds_jobs: bool,
    /// Whether a job that is over can go back to the queue, and a running one can get a signal.
    pub requeues_jobs: bool,
    /// Whether jobs are submitted on hold and released when the journal has their native ids. Then a process that
    /// lost its journal to another one can submit nothing that runs.
    pub holds_jobs: bool,
    /// Whether a reservation can be shared with other users.
    pub sharing: Sharing,
    /// Whether a reservation may attract jobs that do not name it.
    pub attracting: Attracting,
}

/// What to do with existing reservations of this site in the batch system if the journal is new: it was lost,
/// or the site was set up again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnLostJournal {
    /// Stop, so that the operator can decide.
    #[default]
    Ask,
    /// Take them into the ledger as committed.
    Adopt,
    /// Delete them.
    Remove,
}

/// Default interval between looks. Node failures and deleted reservations are noticed after this time at the
/// latest: long enough to be a small load for a batch system, short enough for its users.
pub const LOOK_EVERY: Millis = Millis::seconds(10);

/// Interval until the next look after a failure.
const LOOK_AGAIN: Millis = Millis::seconds(1);

/// How long node failures are not believed after the batch system was silent: its nodes have to report to it
/// first.
const DOUBT_AFTER_SILENCE: Millis = Millis::seconds(10);

/// How long nodes must be away before they count as failed: after a restart of its server a batch system
/// shows all nodes as away for some seconds, and a restarted node daemon comes back within one look.
const AWAY_COUNTS_AFTER: Millis = Millis::seconds(10);

/// Default time before a reservation is moved away from nodes that are away: long enough for most nodes to
/// restart their daemons, short enough to help.
pub const MOVE_AFTER: Millis = Millis::seconds(60);

/// Most calls that wait for the first look after a start: as many as a busy site gets in the seconds that it
/// takes.
const MOST_EARLY: usize = 1_024;

/// Number of recent holds of which the slowest is published as the hold time.
const HOLDS_REMEMBERED: usize = 16;

impl Default for SiteOptions {
    fn default() -> SiteOptions {
        SiteOptions {
            on_lost_journal: None,
            look_every: LOOK_EVERY,
            move_after: MOVE_AFTER,
            binds_jobs: true,
            requeues_jobs: true,
            holds_jobs: false,
            sharing: Sharing::Always,
            attracting: Attracting::Impossible,
        }
    }
}

/// Kinds of orders about a job that are given once at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum JobOrder {
    Bind,
    Release,
    Requeue,
    Warn,
}

/// A site as a party.
#[derive(Clone)]
pub struct Site {
    rules: Rules,
    about: Heartbeat,
    options: SiteOptions,
    ledger: Ledger,
    jobs: Jobs,
    opened: bool,
    // The fields below are lost in a crash.
    facts: SiteFacts,
    facts_number: u64,
    orders: Orders,
    /// Calls that wait for the batch system, by reservation.
    waiting: BTreeMap<ReservationId, Vec<(CallId, Envelope)>>,
    /// Calls that wait for the first look, and their timeouts.
    early: Vec<(Moment, CallId, Envelope)>,
    /// Calls that wait until jobs have ended.
    shrinking: Vec<Shrinking>,
    /// Submissions that wait for the batch system, and their timeouts.
    submitting: BTreeMap<JobId, (Moment, Vec<CallId>)>,
    /// Orders about jobs that are not repeated while one is in progress. A warn order without an answer counts as in
    /// progress until the next look.
    job_orders: BTreeMap<(JobId, JobOrder), OrderId>,
    /// For a built-in scheduler: the spans that it keeps until a change is durable.
    unsettled: BTreeMap<ReservationId, (crate::OrderId, Vec<Span>)>,
    /// Durations of the last holds.
    holds_took: VecDeque<Millis>,
    next_look: Moment,
    /// Until then node failures are not believed: after silence, nodes are unknown for a while.
    doubt_until: Moment,
    /// Since when more of a resource is away than the ledger knows.
    away_since: BTreeMap<bookahead_protocol::Name, Moment>,
    looked_once: bool,
    /// How far the batch system's clock was ahead at the last look.
    skew: Seconds,
    /// Number of records that the last look could not parse.
    unreadable: usize,
    /// The logged silence of the batch system.
    silence: Option<queries::Silence>,
    /// Whether the first look is done. Nothing is promised or ordered before.
    met: bool,
    broken: Option<SiteFlaw>,
}

/// A deliberate fault of a site that tests must detect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SiteFlaw {
    /// Late grants of the batch system are not released.
    KeepLateGrants,
    /// A reservation is promised before the batch system has granted it.
    PromiseUngranted,
    /// Orders are given after a restart without a look.
    OrderBeforeLook,
    /// A copy of a job runs without a go.
    RunWithoutGo,
    /// Less is kept in the batch system while nodes are away.
    GiveUpNodesAway,
    /// A reservation without any node left is deleted in the batch system.
    GiveUpAllAway,
}

type Step = crate::step::Step<SiteEvent>;

impl Site {
    /// A site with an empty ledger. Fails if the rules contradict themselves.
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
            shrinking: Vec::new(),
            submitting: BTreeMap::new(),
            job_orders: BTreeMap::new(),
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

    /// Breaks the site on purpose, so that tests can prove they would notice.
    pub fn break_by(&mut self, flaw: SiteFlaw) {
        self.broken = Some(flaw);
    }

    /// Breaks its ledger on purpose.
    pub fn break_book_by(&mut self, flaw: bookahead_protocol::flaw::Flaw) {
        self.ledger.break_by(flaw);
    }

    fn is_broken(&self, flaw: SiteFlaw) -> bool {
        cfg!(debug_assertions) && self.broken == Some(flaw)
    }

    /// Its reservations.
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

    /// Whether it has an external batch system, which must grant reservations.
    fn asks(&self) -> bool {
        self.rules.consent.is_some()
    }

    /// Whether no call waits for the batch system and no order but looks is in progress.
    pub fn is_settled(&self) -> bool {
        let ordered = self.orders.keeps.values().any(|keep| keep.ordered.is_some());
        self.waiting.is_empty() && self.submitting.is_empty() && !ordered
    }

    fn call(&mut self, call: CallId, envelope: Envelope, step: &mut Step) {
        if let Some(id) = envelope.call.id()
            && let Some(calls) = self.waiting.get_mut(&id)
            && calls.iter().any(|(_, known)| *known == envelope)
        {
            // A repetition while the first call waits: both get the same answer.
            return calls.push((call, envelope));
        }
        // A repetition gets its first answer.
        let new = !self.ledger.knows(&envelope);
        let sharing = if new { self.check_sharing(&envelope.call) } else { Ok(()) };
        if let Err(problem) = self.check_jobs(&envelope).and(sharing) {
            return step.out.answer(call, problem);
        }
        if self.facts.clock_in_doubt && self.promises(&envelope) {
            return step.out.answer(call, Problem::new(Why::ClockInDoubt));
        }
        let blind = !self.met && !self.is_broken(SiteFlaw::OrderBeforeLook);
        let needs_look = self.needs_look(&envelope) && (blind || self.is_silent());
        if self.asks() && (needs_look || blind && self.may_find(&envelope.call)) {
            if !self.is_silent() && self.early.len() < MOST_EARLY {
                // A quarter of the limit, because the request itself may then wait for all of it.
                let until = step.now + Millis(self.rules.consent.unwrap_or(Millis::ZERO).0 / 4);
                return self.early.push((until, call, envelope));
            }
            return step.out.answer(call, Problem::new(Why::NoBatchSystem));
        }
        if new && !self.clear_jobs(call, &envelope, step) {
            return;
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

    /// Whether a call requests something that the batch system must grant, which is not possible before the first look.
    fn needs_look(&self, envelope: &Envelope) -> bool {
        match &envelope.call {
            Call::Probe { .. } => true,
            Call::Reserve { .. } | Call::Change { .. } | Call::Extend { .. } | Call::PrepareChange { .. } => {
                !self.ledger.knows(envelope)
            }
            // Keeping some of it needs the consent of the batch system.
            Call::Release { keep, .. } => keep.0 > 0 && !self.ledger.knows(envelope),
            _ => false,
        }
    }

    /// Whether a call requests a promise that does not exist yet, or asks for one.
    fn promises(&self, envelope: &Envelope) -> bool {
        let longer = matches!(envelope.call, Call::Hold { .. }) && !self.ledger.knows(envelope);
        longer || self.needs_look(envelope)
    }

    fn pass_time(&mut self, step: &mut Step) {
        let ticked = self.ledger.tick(step.now);
        self.book(ticked.events, ticked.changes, step);
        self.answer_overdue_submissions(step);
        self.answer_overdue_shrinking(step);
        self.warn_jobs(step);
        for (_, call, _) in self.early.extract_if(.., |(until, _, _)| *until <= step.now) {
            step.out.answer(call, Problem::new(Why::NoBatchSystem));
        }
    }

    fn note_job(&mut self, event: JobEvent, step: &mut Step) {
        self.jobs.apply(&event, self.rules.retention);
        let notice = self.job_notice(step.now, &event);
        step.out.notices.extend(notice.map(|notice| (step.out.events.len(), notice)));
        step.out.events.push(SiteEvent::Job(event));
    }

    /// Applies the results of the ledger: events for the journal, notices, orders to the batch system, and
    /// answers to waiting calls.
    fn book(&mut self, events: Vec<ledger::Event>, changes: Vec<Change>, step: &mut Step) {
        let (mut settled, mut given, mut changed) = (Vec::new(), Vec::new(), Vec::new());
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
            if let What::RequestChanged { id, .. }
            | What::ChangeRequested { id, .. }
            | What::ChangeSettled { id }
            | What::ChangeGivenUp { id, .. }
            | What::NotGranted { id, .. } = &event.what
            {
                changed.push(*id);
            }
            step.out.events.push(SiteEvent::Book(event));
        }
        // Orders come after all events: what the batch system should keep is the result of all of them.
        for change in changes {
            if self.asks() {
                self.order_keep(change.id, step);
            } else {
                self.tell_scheduler(change, step);
            }
        }
        self.order_changed(changed, step);
        for (job, id) in given {
            self.bind(job, id, step);
        }
        for (id, by) in settled {
            self.answer_waiting(id, &by, step);
        }
    }

    /// Whether this event ends the wait of calls about a reservation.
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

    fn answer_waiting(&mut self, id: ReservationId, by: &What, step: &mut Step) {
        for (call, envelope) in self.waiting.remove(&id).unwrap_or_default() {
            let (answer, ticked) = self.ledger.settled_answer(step.now, &envelope, by);
            self.book(ticked.events, ticked.changes, step);
            step.out.answer(call, answer);
        }
    }

    fn on_report(&mut self, report: BatchReport, step: &mut Step) {
        match report {
            BatchReport::Kept { order, id, outcome } => self.on_kept(order, id, outcome, step),
            BatchReport::Job { order, job, outcome } => self.on_job_report(order, job, outcome, step),
            BatchReport::Looked { order, at, outcome } => {
                self.on_look(order, at, outcome, step);
                if self.met || self.is_silent() {
                    // The first look is done, or fails: handle the calls that waited for it.
                    for (_, call, envelope) in std::mem::take(&mut self.early) {
                        self.call(call, envelope, step);
                    }
                }
            }
            BatchReport::JobNamed { job, native } => self.on_job_named(job, native, step),
            BatchReport::JobChanged(change) => self.on_job_changed(&change, step),
        }
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

    fn subject(event: &SiteEvent) -> Option<Subject> {
        event.subject()
    }

    fn start(&mut self, now: Moment) -> Result<Output<SiteEvent>, String> {
        let mut step = Step::new(now);
        self.facts.changes = Arc::new(Changes::new(now));
        self.ledger.count_anew();
        // Reservations that ended meanwhile need no resource any more.
        let ticked = self.ledger.tick(now);
        self.book(ticked.events, Vec::new(), &mut step);
        self.ledger.check_resources().map_err(|why| why.to_string())?;
        let before = self.missing();
        let fitted = self.ledger.fit_rules(now);
        say_missing(&before, &fitted.events, &mut step);
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
        // First, so that the input sees everything that has expired or started by now.
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
            Input::Rules(NewRules::Site(rules)) => self.change_rules(*rules, &mut step),
            Input::WantLook if self.asks() => self.order_look(&mut step),
            Input::Time if self.asks() && self.next_look <= now => self.order_look(&mut step),
            Input::Answered { .. }
            | Input::JobAnswered { .. }
            | Input::Silent { .. }
            | Input::WantLook
            | Input::Rules(NewRules::Broker(_))
            | Input::Time => {}
        }
        self.publish();
        step.out
    }

    fn wake_at(&self) -> Option<Moment> {
        let look = self.asks().then_some(self.next_look);
        let submitting = self.submitting.values().map(|(until, _)| *until);
        let early = self.early.iter().map(|(until, _, _)| *until);
        let warning = self.next_warning();
        let shrinking = self.shrinking.iter().map(|waits| waits.until);
        let own = look.into_iter().chain(warning).chain(submitting).chain(early).chain(shrinking);
        self.ledger.next_deadline().into_iter().chain(own).min()
    }

    fn next_change(&self) -> Option<Moment> {
        self.ledger.next_change()
    }

    fn doubt_clock(&mut self, in_doubt: bool) {
        self.facts.clock_in_doubt = in_doubt;
        self.facts_number += 1;
    }

    fn state(&self) -> SiteState {
        SiteState { book: self.ledger.snapshot(), jobs: self.jobs.clone(), opened: self.opened }
    }

    fn read_copy(&self) -> Site {
        let mut copy = self.clone();
        (copy.waiting, copy.early, copy.shrinking) = Default::default();
        (copy.submitting, copy.unsettled) = Default::default();
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
        self.follow_rules(&facts);
        self.facts = facts;
    }
}
