//! Jobs submitted to a site: checked against the ledger, journalled, then submitted to the batch system. A
//! copy of a flooded job runs only after its broker's go.

use super::{JobEvent, JobOrder, LOOK_AGAIN, Record, Site, SiteFlaw, Step};
use crate::batch::{
    BatchError, BatchOrder, Ended, Job, JobChange, JobState, JobStatus, Look, OrderId, Rerun,
};
use crate::step::{CallId, Level, Notice, Remark};
use bookahead_plan::{Capacity, Seconds, Time, placement};
use bookahead_protocol::jobs::{JobRequest, JobView, JobWord, Runs};
use bookahead_protocol::ledger::JobUsage;
use bookahead_protocol::missing::Missing;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Caller, Envelope, JobId, Key, Moment, Name, Part, ReservationId};
use std::collections::BTreeMap;

impl Site {
    /// Accepts a job: journals it, and submits it to the batch system when that is durable. The call waits
    /// for the batch system.
    pub(super) fn submit(
        &mut self,
        call: CallId,
        caller: &Caller,
        (key, id): (Key, JobId),
        asked: JobRequest,
        step: &mut Step,
    ) {
        match self.admit(caller, (key, id), asked, step) {
            Ok(None) => match self.submitting.get_mut(&id) {
                Some((_, calls)) => calls.push(call),
                None => step.out.answer_job(call, self.shown(id)),
            },
            Ok(Some(job)) => {
                let at = step.now.second();
                self.note_job(JobEvent::Submitted { job: job.clone(), key, at }, step);
                let until = self.rules.consent.map_or(Moment::MAX, |limit| step.now + limit);
                self.submitting.entry(id).or_insert_with(|| (until, Vec::new())).1.push(call);
                self.hand_over(job, step);
            }
            Err(problem) => step.out.answer_job(call, Err(problem)),
        }
    }

    fn hand_over(&mut self, job: Job, step: &mut Step) {
        let order = self.orders.next_for_job(step.now, job.id);
        step.out.batch.push(BatchOrder::Submit { order, job: Box::new(job) });
    }

    /// The job for the batch system. None for a repeated submission.
    fn admit(
        &mut self,
        caller: &Caller,
        (key, id): (Key, JobId),
        asked: JobRequest,
        step: &mut Step,
    ) -> Result<Option<Job>, Problem> {
        let resource = self.resource_for(caller, &asked)?;
        let mut description = asked.description;
        let priorities = &self.rules.priorities;
        priorities.check(caller, description.priority.as_deref())?;
        description.priority =
            description.priority.or_else(|| priorities.default.as_ref().map(ToString::to_string));
        let job = Job {
            id,
            user: caller.user.clone(),
            resource,
            capacity: asked.capacity,
            limit: asked.limit,
            reservation: asked.reservation,
            work: asked.work,
            claims: asked.claims && !self.is_broken(SiteFlaw::RunWithoutGo),
            held: self.options.holds_jobs,
            // Attempts at other sites are the concern of the broker.
            rerun: Rerun { retry: None, ..asked.rerun },
            description,
        };
        if job.capacity == Capacity::ZERO || job.limit < Seconds(1) {
            let why = "a job needs a capacity of at least 1 and a time limit of at least 1s";
            return Err(Problem::new(Why::MalformedJob(why.into())));
        }
        self.check_rerun(&job)?;
        if self.jobs.with_key(key).is_some_and(|known| !known.is(&job)) {
            return Err(Problem::new(Why::KeyTaken(key)));
        }
        if let Some(known) = self.jobs.get(id) {
            return if known.is(&job) { Ok(None) } else { Err(Problem::new(Why::JobTaken(id))) };
        }
        match job.reservation {
            Some(reservation) => self.attach(caller, reservation, id, step)?,
            None => self.check_limits(caller, &job)?,
        }
        Ok(Some(job))
    }

    /// Whether the owner's limits allow one more job outside reservations.
    fn check_limits(&self, caller: &Caller, job: &Job) -> Result<(), Problem> {
        let limits = self.rules.limits.of(caller);
        let offered = self.rules.resources.iter().find(|offered| offered.resource.name == job.resource);
        let of = offered.map_or(Capacity::ZERO, |offered| offered.resource.capacity);
        let others = self.jobs.live().map(|record| &record.job);
        let mut beside = JobUsage::default();
        for other in others.filter(|other| other.reservation.is_none() && other.user == job.user) {
            beside.count = beside.count.saturating_add(1);
            if other.resource == job.resource {
                beside.capacity = beside.capacity.saturating_add(other.capacity.0.into());
            }
        }
        let usage = JobUsage { count: 1, capacity: job.capacity.0.into(), of };
        Ok(limits.check_job(&beside, &usage, job.limit)?)
    }

    /// Its resource: that of its reservation, the named one, or the first suitable one.
    fn resource_for(&self, caller: &Caller, asked: &JobRequest) -> Result<Name, Problem> {
        if let Some(id) = asked.reservation {
            let entry = self.ledger.entry(id).ok_or_else(|| Problem::new(Why::Unknown(id)))?;
            if !caller.may_use(&entry.owner, entry.guests()) {
                return Err(Problem::new(Why::NotOwner(id)));
            }
            return Ok(entry.resource.clone());
        }
        let wanted = placement::Request {
            earliest_start: Time(0),
            latest_end: Time(0),
            duration: asked.limit,
            capacity: asked.capacity,
        };
        let (kind, requirements) = (asked.kind.clone(), asked.requirements.clone());
        let part = Part { requirements, resource: asked.resource.clone(), ..Part::new(wanted, kind) };
        let suits = self.rules.resources.iter().find(|offered| offered.resource.suits(&part));
        let none = || {
            let all = self.rules.resources.iter().map(|one| (one.resource.name.clone(), &one.resource));
            let missing = Missing::of(&part, &all.collect::<Vec<_>>());
            Problem::new(Why::no_such_resource(0, 1, asked.kind.clone(), missing))
        };
        suits.map(|offered| offered.resource.name.clone()).ok_or_else(none)
    }

    /// Records in the ledger that the job belongs to a reservation.
    fn attach(
        &mut self,
        caller: &Caller,
        id: ReservationId,
        job: JobId,
        step: &mut Step,
    ) -> Result<(), Problem> {
        let envelope = Envelope {
            // Derived from the job's id, so a repeated submission attaches it once.
            key: Key(job.0).derived(0),
            caller: caller.clone(),
            call: Call::Attach { id, part: 0, job },
        };
        let views = self.facts.views.clone();
        let handled = self.ledger.handle(step.now, &envelope, &views);
        self.book(handled.events, handled.changes, step);
        match handled.answer {
            Answer::Problem(problem) => Err(*problem),
            _ => Ok(()),
        }
    }

    /// Handles the result of a submit, bind, go or cancel order.
    pub(super) fn on_job_report(
        &mut self,
        order: OrderId,
        id: JobId,
        outcome: Result<(), BatchError>,
        step: &mut Step,
    ) {
        self.orders.ended(step.now, order);
        self.orders.job_reported(id);
        if let Some(kind) = self.job_order(id, order) {
            // A warn order stays in progress if it was not answered.
            if kind != JobOrder::Warn {
                self.job_orders.remove(&(id, kind));
            }
            return match kind {
                JobOrder::Bind => self.on_bound(id, outcome, step),
                JobOrder::Release => self.on_released(id, outcome, step),
                JobOrder::Requeue => self.on_requeued(id, outcome, step),
                JobOrder::Warn => self.on_warned(id, outcome, step),
            };
        }
        let submits = self.jobs.get(id).is_some_and(|record| !record.handed && record.over.is_none());
        match outcome {
            Ok(()) if submits => {
                self.note_job(JobEvent::Handed { id }, step);
                self.order_bind(id, step);
                self.order_release(id, step);
            }
            Ok(()) => {}
            Err(BatchError::Refused(why)) if submits => {
                step.remark(Remark::new(Level::Warn, "job_refused", why.clone()).of_job(id));
                let state = JobState::Killed(Ended::CouldNotStart(why.clone()));
                self.note_job(JobEvent::Over { id, state, at: step.now.second() }, step);
                return self.answer_submitting(id, &Err(Problem::new(Why::JobRefused(why))), step);
            }
            // A look will tell whether it was carried out; if not, it is ordered again.
            Err(why) => {
                match &why {
                    BatchError::Refused(why) => {
                        step.remark(Remark::new(Level::Warn, "job_order_failed", why.clone()).of_job(id));
                    }
                    BatchError::Unknown(why) => self.note_unanswered(why, step),
                }
                self.next_look = self.next_look.min(step.now + LOOK_AGAIN);
            }
        }
        let shown = self.shown(id);
        self.answer_submitting(id, &shown, step);
    }

    /// Orders the batch system to release a job that was submitted on hold, unless that is done or in progress.
    /// The order leaves the site when the events before it are durable: those have the native id of the job.
    fn order_release(&mut self, id: JobId, step: &mut Step) {
        let held = self.jobs.get(id).is_some_and(Record::is_to_be_released);
        if held && let Some(order) = self.begin_job_order(step.now, id, JobOrder::Release) {
            step.out.batch.push(BatchOrder::Release { order, job: id });
        }
    }

    /// Whether such an order about a job is in progress.
    pub(super) fn is_ordered(&self, id: JobId, kind: JobOrder) -> bool {
        self.job_orders.contains_key(&(id, kind))
    }

    /// The number of a new order about a job. None if one of its kind is in progress.
    pub(super) fn begin_job_order(&mut self, now: Moment, id: JobId, kind: JobOrder) -> Option<OrderId> {
        if self.is_ordered(id, kind) {
            return None;
        }
        let order = self.orders.next_for_job(now, id);
        self.job_orders.insert((id, kind), order);
        Some(order)
    }

    /// The kind of an order in progress.
    fn job_order(&self, id: JobId, order: OrderId) -> Option<JobOrder> {
        let of_job = self.job_orders.range((id, JobOrder::Bind)..=(id, JobOrder::Warn));
        of_job.into_iter().find_map(|((_, kind), known)| (*known == order).then_some(*kind))
    }

    /// Handles the result of a release order.
    fn on_released(&mut self, id: JobId, outcome: Result<(), BatchError>, step: &mut Step) {
        match outcome {
            Ok(()) => return self.note_job(JobEvent::Released { id }, step),
            Err(BatchError::Refused(why)) => {
                step.remark(Remark::new(Level::Warn, "job_not_released", why).of_job(id));
            }
            Err(BatchError::Unknown(why)) => self.note_unanswered(&why, step),
        }
        // It is ordered again if the look shows that the job waits.
        self.next_look = self.next_look.min(step.now + LOOK_AGAIN);
    }

    fn answer_submitting(&mut self, id: JobId, answer: &Result<JobView, Problem>, step: &mut Step) {
        for call in self.submitting.remove(&id).map(|(_, calls)| calls).unwrap_or_default() {
            step.out.answer_job(call, answer.clone());
        }
    }

    /// Answers submissions past their timeout. The job stays in the ledger and is submitted later.
    pub(super) fn answer_overdue_submissions(&mut self, step: &mut Step) {
        let overdue = self.submitting.iter().filter(|(_, (until, _))| *until <= step.now);
        for id in overdue.map(|(id, _)| *id).collect::<Vec<_>>() {
            let shown = self.shown(id);
            self.answer_submitting(id, &shown, step);
        }
    }

    /// Records the batch system's own id of a job.
    pub(super) fn on_job_named(&mut self, id: JobId, native: String, step: &mut Step) {
        if self.jobs.get(id).is_some_and(|record| record.native.as_ref() != Some(&native)) {
            self.note_job(JobEvent::Named { id, native }, step);
        }
    }

    /// Handles a change of a job's state.
    pub(super) fn on_job_changed(&mut self, change: &JobChange, step: &mut Step) {
        let JobChange { id, state, at } = change;
        let Some(record) = self.jobs.get(*id).filter(|record| record.over.is_none()) else { return };
        // Until the batch system has it in the queue again, reports may be about its earlier run.
        if record.requeuing {
            return;
        }
        let event = match state {
            JobState::Killed(why) if record.goes_back_after(why) => {
                return self.send_back(*id, why.clone(), *at, step);
            }
            state if state.is_over() => JobEvent::Over { id: *id, state: state.clone(), at: *at },
            JobState::Running if record.started.is_none() => JobEvent::Started { id: *id, at: *at },
            JobState::Claiming if !record.claims => JobEvent::Claimed { id: *id },
            _ => return,
        };
        if !record.handed && !matches!(event, JobEvent::Over { .. }) {
            self.note_job(JobEvent::Handed { id: *id }, step);
        }
        self.note_job(event, step);
    }

    /// Cancels a job.
    pub(super) fn cancel_job(&mut self, call: CallId, caller: &Caller, id: JobId, step: &mut Step) {
        match self.owned_job(caller, id) {
            Err(problem) => return step.out.answer_job(call, Err(problem)),
            Ok(record) if record.over.is_some() => {}
            Ok(_) => self.end_job(id, step),
        }
        step.out.answer_job(call, self.shown(id));
    }

    /// Cancels a job that is not over.
    pub(super) fn end_job(&mut self, id: JobId, step: &mut Step) {
        // After a go it may be running without a report. It must count as started, or its broker would run another
        // copy.
        if self.jobs.get(id).is_some_and(|record| record.may_run && record.started.is_none()) {
            self.note_job(JobEvent::Started { id, at: step.now.second() }, step);
        }
        let state = JobState::Killed(Ended::Cancelled);
        self.note_job(JobEvent::Over { id, state, at: step.now.second() }, step);
        self.order_cancel(id, step);
    }

    fn order_cancel(&mut self, id: JobId, step: &mut Step) {
        let order = self.orders.next_for_job(step.now, id);
        step.out.batch.push(BatchOrder::Cancel { order, job: id });
    }

    /// Lets a claiming job run.
    pub(super) fn go(&mut self, call: CallId, caller: &Caller, id: JobId, step: &mut Step) {
        match self.owned_job(caller, id) {
            Err(problem) => return step.out.answer_job(call, Err(problem)),
            Ok(record) if record.job.claims && record.over.is_none() && !record.may_run => {
                self.note_job(JobEvent::MayRun { id }, step);
                self.order_go(id, step);
            }
            Ok(_) => {}
        }
        step.out.answer_job(call, self.shown(id));
    }

    fn order_go(&mut self, id: JobId, step: &mut Step) {
        let order = self.orders.next_for_job(step.now, id);
        step.out.batch.push(BatchOrder::Go { order, job: id });
    }

    pub(super) fn owned_job(&self, caller: &Caller, id: JobId) -> Result<&Record, Problem> {
        let record = self.jobs.get(id).ok_or_else(|| self.unknown_job(id))?;
        let allowed = caller.may_act_for(&record.job.user);
        if allowed { Ok(record) } else { Err(Problem::new(Why::NotJobOwner(id))) }
    }

    /// Makes jobs agree with the batch system: submits jobs that never reached it, cancels jobs that are
    /// unknown or over, and repeats a go that got lost.
    pub(super) fn reconcile_jobs(&mut self, order: Option<OrderId>, look: &Look, step: &mut Step) {
        let shown = |site: &Site, id: JobId| order.is_none_or(|order| site.orders.is_job_shown_by(id, order));
        let there: BTreeMap<JobId, _> = look.jobs.iter().map(|status| (status.id, status)).collect();
        self.note_orphans(look);
        self.job_orders.retain(|(_, kind), _| *kind != JobOrder::Warn);
        for status in there.values().filter(|status| !status.state.is_over()) {
            let id = status.id;
            if shown(self, id) && self.jobs.get(id).is_none_or(|record| record.over.is_some()) {
                let why = "cancelling a job in the batch system that is not in the journal";
                step.remark(Remark::new(Level::Warn, "orphan_job_cancelled", why).of_job(id));
                self.order_cancel(id, step);
            }
        }
        let live = self.jobs.live().filter(|record| shown(self, record.job.id));
        for record in live.cloned().collect::<Vec<_>>() {
            let id = record.job.id;
            let status = there.get(&id).copied();
            if !self.agrees_on_restarts(&record, status, step) {
                continue;
            }
            match status {
                // The batch system had it and no longer lists it: it may have run. A job runs at most once,
                // so it is lost.
                None if record.handed && self.asks() => {
                    let state = JobState::Killed(Ended::Lost);
                    self.note_job(JobEvent::Over { id, state, at: step.now.second() }, step);
                }
                None => self.hand_over(record.job, step),
                Some(status) => {
                    if !record.handed {
                        self.note_job(JobEvent::Handed { id }, step);
                    }
                    self.take_status(status, step);
                    self.order_bind(id, step);
                    if status.state == JobState::Waiting {
                        self.order_release(id, step);
                    }
                    if record.may_run && status.state == JobState::Claiming {
                        self.order_go(id, step);
                    }
                }
            }
        }
    }

    fn take_status(&mut self, status: &JobStatus, step: &mut Step) {
        let id = status.id;
        // It may have started and ended between two looks.
        if let Some(at) = status.started {
            self.on_job_changed(&JobChange { id, state: JobState::Running, at }, step);
        }
        let at = status.ended.or(status.started).unwrap_or(step.now.second());
        self.on_job_changed(&JobChange { id, state: status.state.clone(), at }, step);
    }

    fn shown(&self, id: JobId) -> Result<JobView, Problem> {
        let record = self.jobs.get(id).ok_or_else(|| Problem::new(Why::UnknownJob(id)))?;
        Ok(self.show_job(record))
    }

    /// The notice of an event that was just applied.
    pub(super) fn job_notice(&self, now: Moment, event: &JobEvent) -> Option<Notice> {
        let (id, at) = match event {
            JobEvent::Submitted { job, .. } => (job.id, now),
            JobEvent::Started { id, at }
            | JobEvent::Requeued { id, at, .. }
            | JobEvent::Over { id, at, .. } => (*id, Moment::of(*at)),
            _ => return None,
        };
        let notice = self.jobs.get(id).map(|record| Notice::about_job(at, &self.show_job(record)))?;
        Some(match event {
            JobEvent::Requeued { .. } => Notice { kind: "job-requeued", ..notice },
            _ => notice,
        })
    }

    /// A job as its owner may see it.
    pub(super) fn show_job(&self, record: &Record) -> JobView {
        let (state, exit, detail) = described(&record.state());
        let waits = matches!(state, JobWord::Waiting);
        let back = |why: &Ended| format!("it went back to the queue: {why}");
        let detail = detail.or_else(|| record.sent_back.as_ref().filter(|_| waits).map(back));
        let taken_away = |(_, state): &(Time, JobState)| {
            matches!(state, JobState::Killed(Ended::Displaced | Ended::NodeFailed(_)))
        };
        let node_failed = record.over.as_ref().is_some_and(taken_away);
        JobView {
            id: record.job.id,
            owner: record.job.user.clone(),
            site: Some(self.rules.site.clone()),
            resource: Some(record.job.resource.clone()),
            reservation: record.job.reservation,
            capacity: record.job.capacity,
            limit: record.job.limit,
            state,
            submitted: record.submitted,
            started: record.started,
            ended: record.over.as_ref().map(|(at, _)| *at),
            expected_start: self.facts.expected.get(&record.job.id).copied().filter(|_| waits),
            exit,
            native_id: record.native.clone(),
            detail,
            rerun: record.job.rerun,
            runs: Runs { restarts: record.restarts, node_failed, ..Runs::default() },
            description: record.job.description.clone(),
        }
    }
}

fn described(state: &JobState) -> (JobWord, Option<i32>, Option<String>) {
    let word = match state {
        JobState::Waiting => JobWord::Waiting,
        JobState::Claiming => JobWord::Claiming,
        JobState::Running => JobWord::Running,
        JobState::Done { exit } => return (JobWord::Done, Some(*exit), None),
        JobState::Killed(why) => {
            let word = match why {
                Ended::Cancelled => JobWord::Cancelled,
                Ended::Limit => JobWord::OutOfTime,
                Ended::ReservationOver | Ended::Displaced | Ended::Failed(_) | Ended::NodeFailed(_) => {
                    JobWord::ReservationOver
                }
                Ended::Lost => JobWord::Lost,
                Ended::CouldNotStart(_) | Ended::NoGo => JobWord::CouldNotStart,
            };
            return (word, None, Some(why.to_string()));
        }
    };
    (word, None, None)
}
