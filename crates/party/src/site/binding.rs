//! Jobs that wait in the queue and are given to a reservation, with its commit or later. They are checked before the book hears
//! of them, so that a commit with a job that cannot run in it does not happen. A job that starts before the batch system hears
//! of its reservation runs where it is; the log says so. Never touches a job that runs.

use super::{JobEvent, LOOK_AGAIN, Site, Step};
use crate::batch::{BatchError, BatchOrder};
use crate::step::{Level, Remark};
use bookahead_plan::Capacity;
use bookahead_protocol::ledger::Entry;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Call, Caller, Envelope, JobId, ReservationId};

impl Site {
    /// Whether the jobs that a call wants in a reservation can be put there.
    pub(super) fn check_jobs(&self, envelope: &Envelope) -> Result<(), Problem> {
        let (id, jobs) = match &envelope.call {
            Call::Commit { id, jobs } => (*id, jobs.as_slice()),
            Call::Attach { id, job, .. } => (*id, std::slice::from_ref(job)),
            _ => return Ok(()),
        };
        // Of what it does not know, has given up or has answered before, the book has more to say.
        let entry = self.ledger.entry(id).filter(|entry| envelope.caller.may_act_for(&entry.owner));
        let Some(entry) = entry.filter(|_| !self.ledger.knows(envelope)) else { return Ok(()) };
        let mut new = jobs.iter().filter(|job| !entry.jobs.contains(job));
        new.try_for_each(|job| self.check_job(&envelope.caller, (id, entry), *job))
    }

    fn check_job(
        &self,
        caller: &Caller,
        (id, entry): (ReservationId, &Entry),
        job: JobId,
    ) -> Result<(), Problem> {
        let refused = |why: String| Err(Problem::new(Why::JobRefused(format!("{job} {why}"))));
        // Not that it is unknown: whoever asks would take that for an answer about the reservation.
        if self.jobs.get(job).is_none() {
            return refused("is not known here".into());
        }
        let record = self.owned_job(caller, job)?;
        if record.job.user != entry.owner {
            return Err(Problem::new(Why::NotJobOwner(job)));
        }
        let instead = "cancel it and submit it with the reservation";
        if record.over.is_some() || record.started.is_some() {
            return refused(
                "runs already or is over; only a job that waits can be given a reservation".into(),
            );
        }
        if let Some(other) = record.job.reservation.filter(|other| *other != id) {
            return refused(format!("belongs to {other}; {instead}"));
        }
        if record.job.claims {
            return refused("is a copy of a flooded job; submit another with the reservation".into());
        }
        if record.job.resource != entry.resource {
            let (there, here) = (&record.job.resource, &entry.resource);
            return refused(format!("waits for {there}, and the reservation is on {here}"));
        }
        let most = entry.spans.iter().map(|span| span.capacity).max().unwrap_or(Capacity::ZERO);
        if record.job.capacity > most {
            return refused(format!("needs {}, and the reservation has {most}", record.job.capacity));
        }
        if !self.options.binds_jobs {
            let why = "cannot be moved into a reservation by the batch system of this site";
            return refused(format!("{why}; {instead}"));
        }
        Ok(())
    }

    /// A job belongs to a reservation from now on. One that was submitted for it does already.
    pub(super) fn bind(&mut self, id: JobId, reservation: ReservationId, step: &mut Step) {
        let free = self.jobs.get(id).filter(|record| record.over.is_none() && record.started.is_none());
        let Some(record) = free.filter(|record| record.job.reservation.is_none()) else { return };
        let handed = record.handed;
        self.note_job(JobEvent::Given { id, reservation }, step);
        // Otherwise when the batch system has it.
        if handed {
            self.order_bind(id, step);
        }
    }

    /// Orders that the batch system puts a job into its reservation, where it is not known to have done so.
    pub(super) fn order_bind(&mut self, id: JobId, step: &mut Step) {
        let open = self.jobs.get(id).filter(|record| record.binding && record.over.is_none());
        let Some(job) = open.map(|record| record.job.clone()) else { return };
        if self.binding.contains_key(&id) {
            return;
        }
        let order = self.orders.next_for_job(step.now, id);
        self.binding.insert(id, order);
        step.out.batch.push(BatchOrder::Bind { order, job: Box::new(job) });
    }

    /// The batch system has put a job into its reservation, or not.
    pub(super) fn on_bound(&mut self, id: JobId, outcome: Result<(), BatchError>, step: &mut Step) {
        match outcome {
            Ok(()) => self.note_job(JobEvent::Bound { id, bound: true }, step),
            Err(BatchError::Refused(why)) => {
                step.remark(Remark::new(Level::Warn, "job_not_bound", why).of_job(id));
                self.note_job(JobEvent::Bound { id, bound: false }, step);
            }
            // It is ordered again after a look.
            Err(BatchError::Unknown(_)) => self.next_look = self.next_look.min(step.now + LOOK_AGAIN),
        }
    }
}
