//! Handing jobs to a batch system, once each, and ending them. Whether a job is there already is seen by its name, where
//! it may have been submitted before: by the service before its restart, or by a command that was not answered.

use super::register::Entry;
use super::system::{Handle, Place, Submission};
use super::tag::job_name;
use super::{Batch, State};
use crate::builtin::processes::command;
use crate::error::LrmsError;
use bookahead_party::{Ended, Job, JobState};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, Moment, ReservationId};

impl Batch {
    /// Takes a job. The same id twice changes nothing if it is the same job.
    pub fn submit(&self, now: Moment, job: &Job) -> Result<(), LrmsError> {
        self.meet(now, job.id)?;
        let unsure = job.reservation.filter(|id| self.state().pieces.is_unsure(*id));
        if unsure.is_some() {
            self.look_anew(now)?;
        }
        let submission = {
            let mut state = self.state();
            if let Some(known) = state.jobs.get_mut(job.id) {
                return same(known, job);
            }
            let submission = state.submission(job)?;
            state.submitting.insert(job.id);
            submission
        };
        let submitted = self.system.submit(&submission);
        let mut state = self.state();
        state.submitting.remove(&job.id);
        let begun = state.looks.begun;
        if submitted.as_ref().is_err_and(|why| !why.is_refusal()) {
            state.unsure_jobs.insert(job.id, begun);
        }
        let until = job.reservation.and_then(|id| state.pieces.end(id));
        let entry = Entry::submitted(job, submitted?, state.now.second(), until, begun);
        state.jobs.add(entry);
        Ok(())
    }

    /// Lets a job that waits run inside its reservation. Saying it twice changes nothing.
    pub fn bind(&self, now: Moment, job: &Job) -> Result<(), LrmsError> {
        self.meet(now, job.id)?;
        if job.reservation.is_some_and(|id| self.state().pieces.is_unsure(id)) {
            self.look_anew(now)?;
        }
        let (native, handles) = {
            let state = self.state();
            let refused = |said: &str| LrmsError::Refused {
                what: format!("to put {} into a reservation", job.id),
                said: said.into(),
            };
            let known = state.jobs.get(job.id).filter(|known| known.state == JobState::Waiting);
            let known = known.ok_or_else(|| refused("it runs already, is over, or nobody knows it"))?;
            let id = job.reservation.ok_or_else(|| refused("it names none"))?;
            if known.reservation == Some(id) {
                return Ok(());
            }
            let place = &state.place(&job.resource)?.0;
            (known.native.clone(), state.handles(job, place, id)?)
        };
        self.system.bind(&native, &handles)?;
        let mut state = self.state();
        let (begun, until) = (state.looks.begun, job.reservation.and_then(|id| state.pieces.end(id)));
        if let Some(known) = state.jobs.get_mut(job.id) {
            known.job = Some(job.clone());
            (known.reservation, known.until, known.stamp) = (job.reservation, until, begun);
        }
        Ok(())
    }

    /// Lets a job run that claims. It is refused to one that has claimed for [`super::Settings::go_within`]: the job waits half as
    /// long again, so that it cannot give up between a go and the look that shows it. Otherwise it would count as one that ran.
    pub fn go(&self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        self.meet(now, id)?;
        let refused = |said: &str| LrmsError::Refused { what: format!("to let {id} run"), said: said.into() };
        let native = {
            let state = self.state();
            let latest = state.now.second() - self.settings.go_within;
            if state.jobs.get(id).and_then(|entry| entry.claims_since).is_some_and(|since| since <= latest) {
                return Err(refused("it claims for too long, and may give up before it hears of it"));
            }
            state.live_native(id).ok_or_else(|| refused("it is over, or nobody knows it"))?
        };
        self.system.go(&native)
    }

    /// Ends a job, whether it waits or runs. One that is unknown or over is left as it is.
    pub fn cancel(&self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        self.meet(now, id)?;
        let Some(native) = self.state().live_native(id) else { return Ok(()) };
        let ended = self.system.cancel(&native);
        let mut state = self.state();
        let begun = state.looks.begun;
        if let Some(entry) = state.jobs.get_mut(id) {
            entry.stamp = begun;
            entry.unheard |= ended.as_ref().is_err_and(|why| !why.is_refusal());
        }
        if ended.is_ok() {
            state.tell_over(id, Ended::Cancelled);
            let remembered = state.settings.remembered;
            state.jobs.forget_old(remembered);
        }
        ended
    }

    /// Looks if it is not known whether a job is there: before the first look, or after a command that was not answered.
    fn meet(&self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        let (sees, unsure) = {
            let mut state = self.state();
            state.reach(now);
            (state.looks.is_there(), state.unsure_jobs.contains_key(&id))
        };
        match (sees, unsure) {
            (_, true) => self.look_anew(now),
            (false, false) => self.look_again(now),
            (true, false) => Ok(()),
        }
    }
}

impl State {
    /// What a job is called there, if it waits or runs.
    fn live_native(&self, id: JobId) -> Option<String> {
        self.jobs.get(id).filter(|entry| !entry.state.is_over()).map(|entry| entry.native.clone())
    }

    /// The job as the batch system is to have it, if it can be taken.
    fn submission(&self, job: &Job) -> Result<Submission, LrmsError> {
        let (place, capacity) = self.place(&job.resource)?.clone();
        command::check_job(job)?;
        let most = self.settings.most_jobs;
        if self.jobs.live() + self.submitting.len() >= most {
            return Err(LrmsError::Full { most });
        }
        let reservations = match job.reservation {
            Some(id) => self.handles(job, &place, id)?,
            None => {
                fits(job, job.resource.to_string(), capacity)?;
                Vec::new()
            }
        };
        Ok(Submission {
            name: job_name(job.id, &self.settings.site),
            place,
            amount: job.capacity.0,
            limit: job.limit,
            reservations,
            account: self.settings.accounts.runs_as(&job.user)?,
            project: self.settings.projects.of(&job.user),
            work: job.work.clone(),
            go_within: job.claims.then_some(Seconds(self.settings.go_within.0.saturating_mul(3) / 2)),
        })
    }

    /// What a job's reservation is called there, the next to begin first.
    fn handles(&self, job: &Job, place: &Place, id: ReservationId) -> Result<Vec<Handle>, LrmsError> {
        let pieces = self.pieces.of(id, &place.resource, self.terms_now());
        let Some(most) = pieces.iter().map(|piece| piece.span.capacity).max() else {
            return Err(LrmsError::NoBacking { resource: place.resource.clone(), id });
        };
        fits(job, id.to_string(), most)?;
        Ok(pieces.into_iter().map(|piece| piece.handle).collect())
    }
}

/// A job that is known: nothing is to be done, if it is the same.
fn same(known: &mut Entry, job: &Job) -> Result<(), LrmsError> {
    match &known.job {
        Some(before) if before != job => Err(LrmsError::OtherJob { id: job.id }),
        Some(_) => Ok(()),
        None => {
            known.reservation = known.reservation.or(job.reservation);
            known.limit = Some(job.limit);
            known.job = Some(job.clone());
            Ok(())
        }
    }
}

fn fits(job: &Job, within: String, available: Capacity) -> Result<(), LrmsError> {
    if job.capacity > available {
        return Err(LrmsError::TooWide { needed: job.capacity, within, available });
    }
    Ok(())
}
