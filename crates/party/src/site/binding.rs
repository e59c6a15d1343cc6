//! Moving waiting jobs into a reservation, with its commit or later. Jobs are checked before the ledger sees
//! the call, so a commit with an unsuitable job fails as a whole. A job that starts before the batch system
//! has moved it runs where it is; the log says so. Running jobs are never touched.

use super::{JobEvent, JobOrder, LOOK_AGAIN, Site, Step};
use crate::batch::{Attracting, BatchError, BatchOrder, Sharing};
use crate::step::{Level, Remark};
use bookahead_plan::Capacity;
use bookahead_protocol::ledger::Entry;
use bookahead_protocol::problem::{Impossible, Problem, Why};
use bookahead_protocol::{Call, Caller, Envelope, JobId, NewTerms, ReservationId};

impl Site {
    /// Whether the jobs of a commit or attach call can be moved into the reservation.
    pub(super) fn check_jobs(&self, envelope: &Envelope) -> Result<(), Problem> {
        let (id, jobs) = match &envelope.call {
            Call::Commit { id, jobs } => (*id, jobs.as_slice()),
            Call::Attach { id, job, .. } => (*id, std::slice::from_ref(job)),
            _ => return Ok(()),
        };
        // For an unknown, ended or repeated call the ledger has a more precise answer.
        let entry = self.ledger.entry(id).filter(|entry| may_use(&envelope.caller, entry));
        let Some(entry) = entry.filter(|_| !self.ledger.knows(envelope)) else { return Ok(()) };
        let mut new = jobs.iter().filter(|job| !entry.jobs.contains(job));
        new.try_for_each(|job| self.check_job(&envelope.caller, (id, entry), *job))
    }

    /// Whether the batch system can let other users into a reservation, and attract jobs, if the call asks for that.
    pub(super) fn check_sharing(&self, call: &Call) -> Result<(), Problem> {
        let (Call::Probe { request, .. }
        | Call::Reserve { request, .. }
        | Call::Change { request, .. }
        | Call::PrepareChange { terms: NewTerms::Request(request), .. }) = call
        else {
            return Ok(());
        };
        let new = matches!(call, Call::Probe { .. } | Call::Reserve { .. });
        let entry = call.id().and_then(|id| self.ledger.entry(id)).filter(|_| !new);
        if request.attracts() {
            self.check_attract(new, entry)?;
        }
        let same = match entry {
            Some(entry) => *entry.guests().shared_with == request.shared_with,
            None => request.shared_with.is_empty(),
        };
        let impossible = match self.options.sharing {
            _ if same => return Ok(()),
            Sharing::Always => return Ok(()),
            Sharing::FromTheBeginning if new => return Ok(()),
            Sharing::FromTheBeginning => Impossible::SharingLater,
            Sharing::Never => Impossible::Sharing,
        };
        Err(Problem::new(Why::Unsupported(impossible)))
    }

    fn check_attract(&self, new: bool, entry: Option<&Entry>) -> Result<(), Problem> {
        let impossible = match self.options.attracting {
            Attracting::Allowed if new || entry.is_none_or(|entry| entry.request.attracts()) => return Ok(()),
            Attracting::Allowed => Impossible::AttractLater,
            Attracting::Forbidden => Impossible::AttractForbidden,
            Attracting::Impossible => Impossible::Attract,
        };
        Err(Problem::new(Why::Unsupported(impossible)))
    }

    fn check_job(
        &self,
        caller: &Caller,
        (id, entry): (ReservationId, &Entry),
        job: JobId,
    ) -> Result<(), Problem> {
        let refused = |why: String| Err(Problem::new(Why::JobRefused(format!("{job} {why}"))));
        // Not `unknown-job`: the caller would take that as an answer about the reservation.
        if self.jobs.get(job).is_none() {
            return refused("is not known here".into());
        }
        let record = self.owned_job(caller, job)?;
        if record.job.user != entry.owner && !entry.guests().contains(&record.job.user) {
            return Err(Problem::new(Why::NotJobOwner(job)));
        }
        if entry.current_request().must_accept(&record.job.user) {
            return Err(Problem::new(Why::Unsupported(Impossible::InvitationOpen)));
        }
        let instead = "cancel it and submit it with the reservation";
        if record.over.is_some() || record.started.is_some() {
            return refused("is running or over; only a waiting job can be moved into a reservation".into());
        }
        if let Some(other) = record.job.reservation.filter(|other| *other != id) {
            return refused(format!("belongs to {other}; {instead}"));
        }
        if record.job.claims {
            return refused("is a copy of a flooded job; submit another with the reservation".into());
        }
        if record.job.resource != entry.resource {
            let (there, here) = (&record.job.resource, &entry.resource);
            return refused(format!("is for resource {there}, but the reservation is on {here}"));
        }
        let most = entry.spans.iter().map(|span| span.capacity).max().unwrap_or(Capacity::ZERO);
        if record.job.capacity > most {
            return refused(format!(
                "needs a capacity of {}, but the reservation has {most}",
                record.job.capacity
            ));
        }
        if !self.options.binds_jobs {
            let why = "cannot be moved into a reservation by this site's batch system";
            return refused(format!("{why}; {instead}"));
        }
        Ok(())
    }

    /// Records that a job belongs to a reservation. A job submitted with the reservation already does.
    pub(super) fn bind(&mut self, id: JobId, reservation: ReservationId, step: &mut Step) {
        let free = self.jobs.get(id).filter(|record| record.over.is_none() && record.started.is_none());
        let Some(record) = free.filter(|record| record.job.reservation.is_none()) else { return };
        let handed = record.handed;
        self.note_job(JobEvent::Given { id, reservation }, step);
        // Otherwise the order follows when the batch system has the job.
        if handed {
            self.order_bind(id, step);
        }
    }

    /// Orders the batch system to move a job into its reservation, unless that is done or in progress.
    pub(super) fn order_bind(&mut self, id: JobId, step: &mut Step) {
        let open = self.jobs.get(id).filter(|record| record.binding && record.over.is_none());
        let Some(job) = open.map(|record| record.job.clone()) else { return };
        let Some(order) = self.begin_job_order(step.now, id, JobOrder::Bind) else { return };
        step.out.batch.push(BatchOrder::Bind { order, job: Box::new(job) });
    }

    /// Handles the result of a bind order.
    pub(super) fn on_bound(&mut self, id: JobId, outcome: Result<(), BatchError>, step: &mut Step) {
        match outcome {
            Ok(()) => self.note_job(JobEvent::Bound { id, bound: true }, step),
            Err(BatchError::Refused(why)) => {
                step.remark(Remark::new(Level::Warn, "job_not_bound", why).of_job(id));
                self.note_job(JobEvent::Bound { id, bound: false }, step);
            }
            // A look will tell whether it was carried out; if not, it is ordered again.
            Err(BatchError::Unknown(_)) => self.next_look = self.next_look.min(step.now + LOOK_AGAIN),
        }
    }
}

fn may_use(caller: &Caller, entry: &Entry) -> bool {
    caller.may_use(&entry.owner, entry.guests())
}
