//! Jobs that run again, and warnings before the end of a run. A restartable job whose reservation is over, or whose
//! capacity failed, goes back to the queue: that is journalled before the batch system is told, and told again after
//! each look until the batch system counts as many restarts as the journal. So a job never has two runs at the same
//! time. A warning may arrive twice, but only if the site or the batch system failed in between.

use super::{JobEvent, JobOrder, LOOK_AGAIN, Record, Site, Step};
use crate::batch::{BatchError, BatchOrder, Ended, Job, JobState, JobStatus, Look};
use crate::step::{Level, Remark};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{JobId, Moment};
use std::collections::BTreeSet;
use std::sync::Arc;

/// No warning before a run has lasted this long: its program needs a moment to prepare for the signal, which ends it
/// otherwise.
const SETTLED: Seconds = Seconds(5);

impl Record {
    /// Whether it goes back to the queue if its run ends like this.
    pub(super) fn goes_back_after(&self, why: &Ended) -> bool {
        // The time limit of a job in a reservation is often the rest of the reservation. In the queue it is final.
        let used_up = *why == Ended::Limit && self.job.reservation.is_some();
        self.job.rerun.restartable && !self.job.claims && (why.is_taken_away() || used_up)
    }
}

impl Site {
    /// Whether the batch system can do what the owner allows or wants.
    pub(super) fn check_rerun(&self, job: &Job) -> Result<(), Problem> {
        let rerun = &job.rerun;
        if let Some(why) = rerun.problem() {
            return Err(Problem::new(Why::MalformedJob(why)));
        }
        if rerun.restartable && job.claims {
            let why =
                "a copy of a flooded job has no reservation to outlast; use retry instead of restartable";
            return Err(Problem::new(Why::MalformedJob(why.into())));
        }
        if !self.options.requeues_jobs && (rerun.restartable || rerun.warn_seconds.is_some()) {
            let why = "this site's batch system cannot put a job back into the queue or send it a signal; leave out \
                       restartable and warn_seconds";
            return Err(Problem::new(Why::JobRefused(why.into())));
        }
        Ok(())
    }

    /// Sends a job back to the queue.
    pub(super) fn send_back(&mut self, id: JobId, why: Ended, at: Time, step: &mut Step) {
        let Some(record) = self.jobs.get(id) else { return };
        let restarts = record.restarts.saturating_add(1);
        let remark = Remark::new(Level::Info, "job_requeued", why.to_string());
        step.remark(remark.of_job(id));
        self.note_job(JobEvent::Requeued { id, restarts, why: Some(why), at }, step);
        self.order_requeue(id, step);
    }

    fn order_requeue(&mut self, id: JobId, step: &mut Step) {
        let open = self.jobs.get(id).filter(|record| record.requeuing && record.over.is_none());
        let Some((job, restarts)) = open.map(|record| (record.job.clone(), record.restarts)) else { return };
        let Some(order) = self.begin_job_order(step.now, id, JobOrder::Requeue) else { return };
        step.out.batch.push(BatchOrder::Requeue { order, job: Box::new(job), restarts });
    }

    /// Handles the result of a requeue order.
    pub(super) fn on_requeued(&mut self, id: JobId, outcome: Result<(), BatchError>, step: &mut Step) {
        if self.jobs.get(id).is_none_or(|record| record.over.is_some()) {
            return;
        }
        match outcome {
            Ok(()) => {
                self.note_job(JobEvent::Queued { id }, step);
                self.order_bind(id, step);
            }
            Err(BatchError::Refused(why)) => {
                step.remark(Remark::new(Level::Warn, "job_not_requeued", why.clone()).of_job(id));
                let why = format!("it could not go back to the queue: {why}");
                let state = JobState::Killed(Ended::CouldNotStart(why));
                self.note_job(JobEvent::Over { id, state, at: step.now.second() }, step);
            }
            // A look will tell whether it was carried out; if not, it is ordered again.
            Err(BatchError::Unknown(_)) => self.next_look = self.next_look.min(step.now + LOOK_AGAIN),
        }
    }

    /// Makes journal and batch system agree on how often a job went back to the queue. Returns whether the status is
    /// about its present run.
    pub(super) fn agrees_on_restarts(
        &mut self,
        record: &Record,
        status: Option<&JobStatus>,
        step: &mut Step,
    ) -> bool {
        let id = record.job.id;
        match status.map(|status| status.restarts) {
            Some(restarts) if restarts >= record.restarts => {
                if record.requeuing {
                    self.note_job(JobEvent::Queued { id }, step);
                }
                if restarts > record.restarts {
                    // The batch system did it, such as after the failure of a node.
                    let at = step.now.second();
                    self.note_job(JobEvent::Requeued { id, restarts, why: None, at }, step);
                }
                true
            }
            _ if record.requeuing => {
                self.order_requeue(id, step);
                false
            }
            _ => true,
        }
    }

    /// When a running job gets its warning. None if it has less time than it takes to expect one.
    fn warn_at(&self, record: &Record) -> Option<Moment> {
        let started = record.started?;
        let limit = started + record.job.limit;
        let reserved = record
            .job
            .reservation
            .and_then(|id| self.ledger.entry(id))
            .map(bookahead_protocol::ledger::Entry::end);
        let end = reserved.map_or(limit, |reserved| reserved.min(limit));
        let at = (end - record.job.rerun.warn_seconds?).max(started + SETTLED);
        (at < end).then_some(Moment::of(at))
    }

    /// When the next job must be warned.
    pub(super) fn next_warning(&self) -> Option<Moment> {
        let open = self.jobs.to_warn().filter(|record| !self.is_ordered(record.job.id, JobOrder::Warn));
        open.filter_map(|record| self.warn_at(record)).min()
    }

    /// Warns the jobs whose time ends soon.
    pub(super) fn warn_jobs(&mut self, step: &mut Step) {
        let open = self.jobs.to_warn().filter(|record| !self.is_ordered(record.job.id, JobOrder::Warn));
        let due = open.filter(|record| self.warn_at(record).is_some_and(|at| at <= step.now));
        for id in due.map(|record| record.job.id).collect::<Vec<_>>() {
            if let Some(order) = self.begin_job_order(step.now, id, JobOrder::Warn) {
                step.out.batch.push(BatchOrder::Warn { order, job: id });
            }
        }
    }

    /// Handles the result of a warn order. Without an answer it is ordered again after the next look.
    pub(super) fn on_warned(&mut self, id: JobId, outcome: Result<(), BatchError>, step: &mut Step) {
        match outcome {
            Err(BatchError::Unknown(_)) => {
                self.next_look = self.next_look.min(step.now + LOOK_AGAIN);
                return;
            }
            Err(BatchError::Refused(why)) => {
                step.remark(Remark::new(Level::Warn, "job_not_warned", why).of_job(id));
            }
            Ok(()) => {}
        }
        self.job_orders.remove(&(id, JobOrder::Warn));
        if self.jobs.get(id).is_some_and(|record| record.over.is_none()) {
            self.note_job(JobEvent::Warned { id }, step);
        }
    }

    /// Publishes which jobs are in the batch system and not in the journal. A broker must not take one of them for
    /// lost before it is gone.
    pub(super) fn note_orphans(&mut self, look: &Look) {
        let live = look.jobs.iter().filter(|status| !status.state.is_over()).map(|status| status.id);
        let orphans: BTreeSet<JobId> = live.filter(|id| self.jobs.get(*id).is_none()).collect();
        if *self.facts.orphans != orphans {
            self.facts.orphans = Arc::new(orphans);
            self.facts_number += 1;
        }
    }

    /// Whether a job that is not in the journal may still run: after the journal was lost, only a look tells.
    pub(super) fn may_have_job(&self, id: JobId) -> bool {
        let unseen = self.asks() && self.facts.looked.is_none();
        self.jobs.get(id).is_none() && (unseen || self.facts.orphans.contains(&id))
    }

    /// The answer about a job that is not in the journal.
    pub(super) fn unknown_job(&self, id: JobId) -> Problem {
        Problem::new(if self.may_have_job(id) { Why::NoBatchSystem } else { Why::UnknownJob(id) })
    }
}
