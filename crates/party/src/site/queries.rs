//! Queries of a site: its ledger, and its batch system as of the last look. Users see only that something of
//! others exists, not whose it is.

use super::{HOLDS_REMEMBERED, Site, SiteEvent, Step};
use crate::batch::Look;
use crate::queries::{
    BatchHealth, BatchState, BookedPart, Figures, Filter, Page, Queries, ResourceFigures, Subject, Viewer,
};
use crate::register::{Changes, Heartbeat, Known, Load, OfferedResource, Role};
use crate::schedule::{Block, BlockKind, ResourceSchedule, ScheduleWindow, WhatIf};
use crate::step::{Level, Remark};
use bookahead_plan::planner::{Cluster, Planner};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::ledger::{Because, Entry, Maintenance, Offered, Rules, View, Views, What};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{
    Answer, Call, Caller, JobId, Millis, Moment, Name, Reservation, ReservationId, Resource, State,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Time without failures after which a silence counts as over. As long as the usual interval between looks,
/// so that a batch system that answers every other query causes one silence in the log, not many.
const SILENCE_IS_OVER: Millis = Millis::seconds(10);

/// A logged silence of the batch system.
#[derive(Debug, Clone)]
pub(super) struct Silence {
    since: Moment,
    /// The last failed query or order.
    last: Moment,
    unanswered: u64,
    /// The first answer after that.
    answers: Option<Moment>,
}

/// Duration of an order beyond which the batch system counts as slow.
const SLOW: Millis = Millis::seconds(2);

/// Duration of an order beyond which the batch system counts as silent.
const SILENT: Millis = Millis::seconds(15);

/// Published data of a site that is not in its journal.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SiteFacts {
    /// Jobs and foreign reservations at the last look.
    pub(super) views: Arc<Views>,
    /// Expected starts of this site's waiting jobs.
    pub(super) expected: Arc<BTreeMap<JobId, Time>>,
    /// Jobs in the batch system that are not in the journal.
    pub(super) orphans: Arc<BTreeSet<JobId>>,
    /// When the last successful look began.
    pub(super) looked: Option<Moment>,
    /// Since when the batch system does not answer.
    silent: Option<Moment>,
    /// When the oldest order in progress was given.
    oldest_order: Option<Moment>,
    hold_takes: Option<Millis>,
    /// Whether the clock is in doubt, so that nothing new is promised.
    pub(super) clock_in_doubt: bool,
    /// Rules that replaced those of the start.
    rules: Option<Arc<Rules>>,
    /// Recent changes of reservations, for brokers.
    pub(super) changes: Arc<Changes>,
}

impl Site {
    /// Replaces the rules, here and on the copies for readers.
    pub(super) fn change_rules(&mut self, rules: Rules, step: &mut Step) {
        if let Err(why) = self.ledger.set_rules(rules.clone()) {
            return step.remark(Remark::new(Level::Error, "rules_kept", why.to_string()));
        }
        self.facts.rules = Some(Arc::new(rules.clone()));
        self.facts_number += 1;
        self.rules = rules;
    }

    /// On a copy for readers: replaces the rules if the party has new ones.
    pub(super) fn follow_rules(&mut self, facts: &SiteFacts) {
        let known = self.facts.rules.as_ref();
        let new = facts.rules.as_ref().filter(|new| known.is_none_or(|known| !Arc::ptr_eq(known, new)));
        // The party itself has accepted them.
        if let Some(new) = new
            && self.ledger.set_rules(Rules::clone(new)).is_ok()
        {
            self.rules = Rules::clone(new);
        }
    }

    /// Whether the first look may change the answer to a read-only call, because existing reservations may be
    /// adopted.
    pub(super) fn may_find(&self, call: &Call) -> bool {
        match call {
            Call::Probe { .. } => true,
            Call::Show { id } => self.ledger.entry(*id).is_none(),
            _ => false,
        }
    }

    /// Publishes the state found by a look.
    pub(super) fn note_look(&mut self, at: Moment, look: &Look, step: &mut Step) {
        self.facts.silent = None;
        self.tell_end_of_silence(at, step);
        // The views are shared with readers. They are replaced only if something changed.
        let same = look.resources.iter().all(|(name, seen)| *self.facts.views.on(name) == seen.view);
        if !same || self.facts.views.0.len() != look.resources.len() {
            let views = look.resources.iter().map(|(name, seen)| (name.clone(), seen.view.clone()));
            self.facts.views = Arc::new(Views(views.collect()));
        }
        let expected: BTreeMap<JobId, Time> =
            look.jobs.iter().filter_map(|status| Some((status.id, status.expected_start?))).collect();
        if *self.facts.expected != expected {
            self.facts.expected = Arc::new(expected);
        }
        self.facts.looked = Some(at);
        self.facts_number += 1;
        for (resource, seen) in &look.resources {
            let counted = self.ledger.jobs_started(step.now, resource, &seen.started);
            self.book(counted.events, counted.changes, step);
        }
    }

    /// Records a change of a reservation, for brokers that booked it.
    pub(super) fn note_change(&mut self, what: &What) {
        let changes = matches!(
            what,
            What::Cancelled { .. }
                | What::Terminated { .. }
                | What::Completed { .. }
                | What::Released { .. }
                | What::ChangeSettled { .. }
                | What::Missing { .. }
        );
        if let Some(id) = what.id().filter(|_| changes) {
            Arc::make_mut(&mut self.facts.changes).note(id);
            self.facts_number += 1;
        }
    }

    /// Records that the batch system does not answer. Its silence is logged when it starts and when it ends,
    /// not for each query.
    pub(super) fn note_silence(&mut self, why: &str, step: &mut Step) {
        if self.facts.silent.is_none() {
            self.facts.silent = Some(step.now);
            self.facts_number += 1;
        }
        self.note_unanswered(why, step);
    }

    /// Counts a failed look or order. Only the first is logged.
    pub(super) fn note_unanswered(&mut self, why: &str, step: &mut Step) {
        if let Some(silence) = &mut self.silence {
            (silence.last, silence.answers) = (step.now, None);
            silence.unanswered += 1;
            return;
        }
        self.silence = Some(Silence { since: step.now, last: step.now, unanswered: 1, answers: None });
        step.remark(Remark::new(Level::Error, "batch_silent", why));
    }

    /// The batch system has answered. Logs the end of a silence when it has answered for long enough.
    fn tell_end_of_silence(&mut self, at: Moment, step: &mut Step) {
        let Some(silence) = &mut self.silence else { return };
        let answers = *silence.answers.get_or_insert(at);
        if step.now - silence.last < SILENCE_IS_OVER {
            // Look again in time to log the end of the silence.
            self.next_look = self.next_look.min(silence.last + SILENCE_IS_OVER);
            return;
        }
        let (length, unanswered) = ((answers - silence.since).0.max(0) / 1_000, silence.unanswered);
        let why = format!("the batch system answers again after {length} s; {unanswered} queries failed");
        step.remark(Remark::new(Level::Info, "batch_answers", why));
        self.silence = None;
    }

    /// Whether the last look failed. New requests are then refused at once.
    pub(super) fn is_silent(&self) -> bool {
        self.facts.silent.is_some()
    }

    pub(super) fn note_hold_took(&mut self, took: Millis) {
        if self.holds_took.len() == HOLDS_REMEMBERED {
            self.holds_took.pop_front();
        }
        self.holds_took.push_back(took);
    }

    /// Updates the published data.
    pub(super) fn publish(&mut self) {
        // A built-in scheduler holds at once.
        let hold_takes = if self.asks() { self.holds_took.iter().max().copied() } else { Some(Millis::ZERO) };
        let shown = (self.orders.oldest(), hold_takes);
        if shown != (self.facts.oldest_order, self.facts.hold_takes) {
            (self.facts.oldest_order, self.facts.hold_takes) = shown;
            self.facts_number += 1;
        }
    }

    fn drawn(
        &self,
        now: Moment,
        viewer: &Viewer,
        window: &ScheduleWindow,
        offered: &Offered,
        resources: usize,
    ) -> ResourceSchedule {
        let Resource { name, capacity, .. } = &offered.resource;
        let mut blocks = self.reservations_in(viewer, window.interval, name);
        let view = self.facts.views.on(name);
        let jobs = self.jobs_of(now.second(), offered, view);
        let jobs = jobs.into_iter().filter(|(_, span)| overlap(span.interval, window.interval));
        let unnamed = |(kind, span)| (kind, span, None);
        let foreign = foreign_in(view, window.interval).into_iter();
        let foreign = foreign.map(|span| unnamed((BlockKind::Foreign, span)));
        let maintenance = view
            .maintenance_in(window.interval)
            .map(|one| (BlockKind::Maintenance, one.span, Some(one.name.to_string())));
        let others = jobs.map(unnamed).chain(foreign).chain(maintenance);
        blocks.extend(others.map(|(kind, span, name)| Block {
            kind,
            span,
            reservation: None,
            name,
            missing: Capacity::ZERO,
        }));
        let lost = self.ledger.lost_capacity(name);
        ResourceSchedule::new(name.clone(), *capacity, now.second(), lost)
            .with_blocks(blocks, window, resources)
    }

    /// Running jobs, and waiting jobs at their planned times.
    fn jobs_of(&self, now: Time, offered: &Offered, view: &View) -> Vec<(BlockKind, Span)> {
        let running = view.running.iter().map(|job| {
            let interval = Interval::new(now, job.expected_end.max(now + Seconds(1)));
            (BlockKind::RunningJob, Span { interval, capacity: job.capacity })
        });
        let waiting = self.planned(now, offered, view, None);
        let waiting = waiting.into_iter().map(|span| (BlockKind::WaitingJob, span));
        running.chain(waiting).collect()
    }

    /// The waiting jobs at their planned times, in the order of the queue, with one more reservation if one is given.
    fn planned(&self, now: Time, offered: &Offered, view: &View, more: Option<Span>) -> Vec<Span> {
        // Schedules are drawn often, and a plan without jobs would still look at every reservation.
        if view.waiting.is_empty() {
            return Vec::new();
        }
        let own = self.ledger.reserved(&offered.resource.name).map(|(_, span)| span);
        let reservations: Vec<Span> = own.chain(view.foreign.iter().copied()).chain(more).collect();
        let cluster = Cluster {
            capacity: offered.resource.capacity,
            now,
            running: &view.running,
            waiting: &view.waiting,
            reservations: &reservations,
        };
        let mut planner = Planner::new();
        let starts = planner.plan(offered.placement.policy, &cluster);
        let spans = view.waiting.iter().zip(starts).map(|(job, start)| Span {
            interval: Interval::new(*start, *start + job.estimate),
            capacity: job.capacity,
        });
        spans.collect()
    }

    fn reservations_in(&self, viewer: &Viewer, window: Interval, resource: &Name) -> Vec<Block> {
        let spans = self
            .ledger
            .reserved_before(resource, window.end)
            .filter(|(_, span)| overlap(span.interval, window));
        let drawn = spans.filter_map(|(id, span)| {
            let entry = self.ledger.entry(id)?;
            let held = matches!(entry.state, State::Held | State::Requested);
            let kind = if held { BlockKind::Hold } else { BlockKind::Reservation };
            let seen = viewer.sees_shared(&entry.owner, entry.guests());
            let reservation = seen.then(|| (id, entry.owner.clone(), entry.state));
            let name = entry.current_request().description.name.clone();
            let name = name.filter(|_| seen && !entry.guests().is_invited(&viewer.user));
            Some(Block { kind, span, reservation, name, missing: entry.missing })
        });
        drawn.collect()
    }
}

/// Foreign reservations without maintenance. Unchanged if the resource has no maintenance.
fn foreign_in(view: &View, window: Interval) -> Vec<Span> {
    if view.maintenance_in(window).next().is_some() {
        return view.foreign_beside_maintenance(window);
    }
    view.foreign.iter().copied().filter(|span| overlap(span.interval, window)).collect()
}

impl Queries for Site {
    fn role(&self) -> Role {
        Role::Site
    }

    fn resources(&self) -> Vec<Resource> {
        self.rules.resources.iter().map(|offered| offered.resource.clone()).collect()
    }

    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        self.ledger.reservation(now, id)
    }

    fn list(&self, now: Moment, filter: &Filter) -> Page {
        let seen = self.ledger.entries().filter(|(_, entry)| filter.may_want(&entry.owner, entry.guests()));
        filter.page(seen.filter_map(|(id, _)| self.ledger.reservation(now, id)))
    }

    fn schedule(
        &self,
        now: Moment,
        viewer: &Viewer,
        window: &ScheduleWindow,
        resource: Option<&Name>,
    ) -> Vec<ResourceSchedule> {
        let wanted = |offered: &&Offered| resource.is_none_or(|name| *name == offered.resource.name);
        let offered = self.rules.resources.iter().filter(wanted);
        let all: Vec<&Offered> = offered.collect();
        let drawn = |offered: &&Offered| self.drawn(now, viewer, window, offered, all.len());
        all.iter().map(drawn).collect()
    }

    fn what_if(&self, now: Moment, resource: &Name, more: Span) -> Option<WhatIf> {
        let offered = self.rules.resources.iter().find(|offered| offered.resource.name == *resource)?;
        let view = self.facts.views.on(resource);
        let plan = |more| self.planned(now.second(), offered, view, more);
        Some(WhatIf { before: plan(None), after: plan(Some(more)) })
    }

    fn maintenance(&self, within: Interval) -> Vec<(Name, Maintenance)> {
        let names = self.rules.resources.iter().map(|offered| &offered.resource.name);
        let of = |name: &Name| {
            let here = self.facts.views.on(name).maintenance_in(within);
            here.map(|one| (name.clone(), one.clone())).collect::<Vec<_>>()
        };
        names.flat_map(of).collect()
    }

    fn sites(&self, now: Moment) -> Vec<Known> {
        let names = self.rules.resources.iter().map(|offered| &offered.resource.name);
        let loads = names.map(|name| load(now.second(), self.facts.views.on(name), name.clone())).collect();
        let own = |resource| OfferedResource { resource, through: Vec::new() };
        let resources = self.resources().into_iter().map(own).collect();
        let hold_takes = self.facts.hold_takes;
        let changes = Some(self.facts.changes.clone());
        let batch = self.batch_health(now).map(|health| health.state);
        let said = Heartbeat { resources, loads, hold_takes, batch, changes, ..self.about.clone() };
        vec![Known { said, last_heard: Some(now.second()), round_trip: None, up: true }]
    }

    fn job(&self, id: JobId) -> Option<JobView> {
        self.jobs.get(id).map(|record| self.show_job(record))
    }

    fn may_have_job(&self, id: JobId) -> bool {
        Site::may_have_job(self, id)
    }

    fn jobs(&self, viewer: &Viewer) -> Vec<JobView> {
        let seen = self.jobs.all().filter(|record| viewer.sees(&record.job.user));
        let mut jobs: Vec<JobView> = seen.map(|record| self.show_job(record)).collect();
        jobs.sort_by_key(|job| (job.submitted, job.id));
        jobs
    }

    fn booked(&self, id: ReservationId) -> Vec<BookedPart> {
        let window = |entry: &Entry| {
            let asked = entry.changed_to.as_deref().unwrap_or(&entry.request);
            let wanted = &asked.parts.first()?.wanted;
            Some(Interval::new(wanted.earliest_start, wanted.latest_end.max(wanted.earliest_start)))
        };
        let part = self.ledger.entry(id).map(|entry| BookedPart {
            part: 0,
            accepted: Some(entry.accepted),
            window: window(entry),
            owner: entry.owner.clone(),
            resource: entry.resource.clone(),
            state: entry.state,
            spans: entry.spans.clone(),
            with_past: true,
            missing: entry.missing,
            ended: entry.state.is_over().then_some(entry.ended),
            lost: entry.given_up == Some(Because::Lost),
        });
        part.into_iter().collect()
    }

    fn counts(&self) -> BTreeMap<State, usize> {
        self.ledger.counts()
    }

    fn figures(&self, now: Moment) -> Figures {
        let second = now.second();
        let of = |offered: &Offered| {
            let Resource { name, capacity, .. } = &offered.resource;
            let view = self.facts.views.on(name);
            let sum = |all: &mut dyn Iterator<Item = Capacity>| all.map(|one| u64::from(one.0)).sum::<u64>();
            let foreign = view.foreign.iter().filter(|span| span.interval.contains(second));
            let lost = self.ledger.lost_capacity(name);
            let booked = u64::from(self.ledger.taken_at(name, second).0);
            let used = sum(&mut view.running.iter().map(|job| job.capacity));
            let foreign = sum(&mut foreign.map(|span| span.capacity));
            ResourceFigures {
                resource: name.clone(),
                capacity: u64::from(capacity.0),
                lost: u64::from(lost.0),
                booked,
                used,
                foreign,
                free: u64::from(capacity.0 - lost.0).saturating_sub(booked + used + foreign),
                running_jobs: view.running.len(),
                waiting_jobs: view.waiting.len(),
                waiting_capacity: sum(&mut view.waiting.iter().map(|job| job.capacity)),
            }
        };
        let resources = self.rules.resources.iter().map(of).collect();
        Figures { resources, holds: Some(self.ledger.hold_counts()), peers: Vec::new() }
    }

    fn ask(&mut self, now: Moment, caller: &Caller, call: &Call) -> Option<Answer> {
        if !call.only_asks() {
            return None;
        }
        // Before the first look only the party itself can answer: its call waits for the look.
        if self.asks() && self.facts.looked.is_none() && self.may_find(call) {
            return None;
        }
        if self.facts.clock_in_doubt && matches!(call, Call::Probe { .. }) {
            return Some(Problem::new(Why::ClockInDoubt).into());
        }
        if let Err(problem) = self.check_sharing(call) {
            return Some(problem.into());
        }
        let views = self.facts.views.clone();
        Some(self.ledger.ask(now, caller, call, &views))
    }

    fn batch_health(&self, now: Moment) -> Option<BatchHealth> {
        if !self.asks() {
            return None;
        }
        let look_age = self.facts.looked.map(|looked| (now - looked).max(Millis::ZERO));
        // An order without a report counts as slow, later as silent, even if no look has failed.
        let waits = self.facts.oldest_order.filter(|since| now - *since > SLOW);
        let silent = self.facts.silent.or(waits.filter(|since| now - *since > SILENT));
        let (state, since) = match (silent, waits) {
            (Some(since), _) => (BatchState::Silent, Some(since)),
            (None, Some(since)) => (BatchState::Slow, Some(since)),
            (None, None) => (BatchState::Ok, None),
        };
        Some(BatchHealth { state, since, look_age })
    }
}

impl SiteEvent {
    /// The reservation or job that the event is about.
    pub(super) fn subject(&self) -> Option<Subject> {
        match self {
            SiteEvent::Book(event) => {
                let committed = matches!(event.what, What::Committed { .. });
                event.what.id().map(|id| Subject::Reservation { id, committed })
            }
            SiteEvent::Job(event) => Some(Subject::Job(event.id())),
            SiteEvent::Opened => None,
        }
    }
}

fn load(now: Time, view: &View, resource: Name) -> Load {
    let count = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
    let running = view.running.iter().map(|job| (job.capacity, job.expected_end - now));
    let waiting = view.waiting.iter().map(|job| (job.capacity, job.estimate));
    let jobs = || running.clone().chain(waiting.clone());
    Load {
        resource,
        running_jobs: count(view.running.len()),
        waiting_jobs: count(view.waiting.len()),
        requested: jobs().map(|(capacity, _)| u64::from(capacity.0)).sum(),
        longest_wall_time_seconds: jobs().map(|(_, time)| time.0).max().unwrap_or(0).max(0),
    }
}

fn overlap(one: Interval, other: Interval) -> bool {
    one.begin < other.end && other.begin < one.end
}
