//! Submits jobs, exactly once each, and cancels them. If a job may have been submitted before (by the service before
//! a restart, or by a command without an answer), its name shows whether it exists.

use super::adapter::{Batch, State};
use super::register::Entry;
use super::system::{Handle, Place, Submission};
use super::tag::job_name;
use crate::builtin::processes::command;
use crate::environment::Within;
use crate::error::LrmsError;
use bookahead_party::{Ended, Job, JobState};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, Moment, ReservationId};

impl Batch {
    /// Submits a job. Idempotent for the same id and job.
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
            // Marked under the same lock as the check: looks must not report the job before its native id is
            // registered.
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

    /// Moves a waiting job into its reservation. Idempotent.
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
            let known = known.ok_or_else(|| refused("it is unknown, already running or over"))?;
            let id = job.reservation.ok_or_else(|| refused("the job has no reservation"))?;
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

    /// Releases a job that was submitted on hold. Idempotent.
    pub fn release(&self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        self.meet(now, id)?;
        let said = "it is unknown or over".to_owned();
        let refused = || LrmsError::Refused { what: format!("to release {id}"), said };
        let native = self.state().live_native(id).ok_or_else(refused)?;
        self.system.release(&native)
    }

    /// Lets a claiming job run. Refused for a job that has claimed for [`super::Settings::go_within`]. The job itself
    /// waits half as long again, so it cannot give up between a go-ahead and the look that shows it; it would
    /// otherwise count as a job that ran.
    pub fn go(&self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        self.meet(now, id)?;
        let refused = |said: &str| LrmsError::Refused { what: format!("to let {id} run"), said: said.into() };
        let native = {
            let state = self.state();
            let latest = state.now.second() - self.settings.go_within;
            if state.jobs.get(id).and_then(|entry| entry.claims_since).is_some_and(|since| since <= latest) {
                return Err(refused(
                    "it has claimed for too long and may give up before the go-ahead arrives",
                ));
            }
            state.live_native(id).ok_or_else(|| refused("it is unknown or over"))?
        };
        self.system.go(&native)
    }

    /// Puts a job that is over back into the queue, outside of reservations. Idempotent for a number of restarts.
    pub fn requeue(&self, now: Moment, job: &Job, restarts: u32) -> Result<(), LrmsError> {
        self.meet(now, job.id)?;
        let native = {
            let mut state = self.state();
            let refused = |said: &str| LrmsError::Refused {
                what: format!("to put {} back into the queue", job.id),
                said: said.into(),
            };
            let known = state.jobs.get(job.id).ok_or_else(|| refused("it is no longer known"))?;
            if known.restarts >= restarts {
                return Ok(());
            }
            if !known.state.is_over() {
                return Err(refused("it still waits or runs"));
            }
            let native = known.native.clone();
            // A look meanwhile must not take it for a job that is over and waits by mistake.
            state.submitting.insert(job.id);
            native
        };
        let requeued = self.system.requeue(&native);
        let mut state = self.state();
        state.submitting.remove(&job.id);
        let begun = state.looks.begun;
        if requeued.is_ok() {
            state.jobs.requeued(job.id, restarts, begun);
        }
        requeued
    }

    /// Sends the warning signal to a running job.
    pub fn warn(&self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        self.meet(now, id)?;
        let said = "it is unknown or over".to_owned();
        let refused = || LrmsError::Refused { what: format!("to send a signal to {id}"), said };
        let native = self.state().live_native(id).ok_or_else(refused)?;
        self.system.warn(&native)
    }

    /// Cancels a waiting or running job. An unknown or finished one is not an error.
    pub fn cancel(&self, now: Moment, id: JobId) -> Result<(), LrmsError> {
        self.meet(now, id)?;
        let Some(native) = self.state().live_native(id) else { return Ok(()) };
        let ended = self.system.cancel(&native);
        let mut state = self.state();
        let begun = state.looks.begun;
        if let Some(entry) = state.jobs.get_mut(id) {
            entry.stamp = begun;
            // Without an answer the job may live on; the next look cancels it again.
            entry.unheard |= ended.as_ref().is_err_and(|why| !why.is_refusal());
        }
        if ended.is_ok() {
            state.tell_over(id, Ended::Cancelled);
            let remembered = state.settings.remembered;
            state.jobs.forget_old(remembered);
        }
        ended
    }

    /// Takes a look if it is unknown whether a job exists: before the first look, or after a command without an
    /// answer.
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
    /// The native id of a job that waits or runs.
    fn live_native(&self, id: JobId) -> Option<String> {
        self.jobs.get(id).filter(|entry| !entry.state.is_over()).map(|entry| entry.native.clone())
    }

    /// Validates a job and builds its submission.
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
            within: job.reservation.map(|id| Within::of(id, self.pieces.spans(id))),
            account: self.settings.accounts.runs_as(&job.user)?,
            project: self.settings.projects.of(&job.user),
            qos: job.description.priority.as_deref().and_then(|class| self.settings.qos.get(class).cloned()),
            work: job.work.clone(),
            // Longer than [`Batch::go`] accepts, see there.
            go_within: job.claims.then_some(Seconds(self.settings.go_within.0.saturating_mul(3) / 2)),
            held: job.held,
            restartable: job.rerun.restartable,
        })
    }

    /// The reservations of the batch system that make up a job's reservation, the next to begin first.
    fn handles(&self, job: &Job, place: &Place, id: ReservationId) -> Result<Vec<Handle>, LrmsError> {
        let pieces = self.pieces.of(id, &place.resource, self.terms_now());
        let Some(most) = pieces.iter().map(|piece| piece.span.capacity).max() else {
            return Err(LrmsError::NoBacking { resource: place.resource.clone(), id });
        };
        fits(job, id.to_string(), most)?;
        Ok(pieces.into_iter().map(|piece| piece.handle).collect())
    }
}

/// A repeated submission: fine if the job is the same. A job found after a restart gets its missing details.
fn same(known: &mut Entry, job: &Job) -> Result<(), LrmsError> {
    match &known.job {
        Some(before) if !is_same(before, job, known.restarts) => Err(LrmsError::OtherJob { id: job.id }),
        Some(_) => Ok(()),
        None => {
            known.reservation = known.reservation.or(job.reservation);
            known.limit = Some(job.limit);
            known.job = Some(job.clone());
            Ok(())
        }
    }
}

/// A job that went back to the queue has left its reservation.
fn is_same(before: &Job, job: &Job, restarts: u32) -> bool {
    let reservation = if restarts > 0 { before.reservation } else { job.reservation };
    *before == Job { reservation, ..job.clone() }
}

fn fits(job: &Job, within: String, available: Capacity) -> Result<(), LrmsError> {
    if job.capacity > available {
        return Err(LrmsError::TooWide { needed: job.capacity, within, available });
    }
    Ok(())
}
