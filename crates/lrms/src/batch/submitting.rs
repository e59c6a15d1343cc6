//! Handing jobs to a batch system, once each, and ending them. Whether a job is there already is seen by its name, where
//! it may have been submitted before: by the service before its restart, or by a command that was not answered.

use super::Batch;
use super::register::Entry;
use super::system::{Place, Submission};
use super::tag::job_name;
use crate::builtin::processes::command;
use crate::error::LrmsError;
use crate::job::{Job, Why};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::{JobId, ReservationId};

impl Batch {
    /// Takes a job.
    pub(super) fn hand_in(&mut self, job: &Job) -> Result<(), LrmsError> {
        self.meet()?;
        if self.unsure_jobs.contains(&job.id) {
            self.follow()?;
        }
        if let Some(known) = self.jobs.get_mut(job.id) {
            return same(known, job);
        }
        let submission = self.submission(job)?;
        let submitted = self.system.submit(&submission);
        self.sight.outdate();
        match submitted {
            Ok(native) => {
                let until = job.reservation.and_then(|id| self.pieces.end(id));
                self.jobs.add(Entry::submitted(job, native, self.now.second(), until));
                Ok(())
            }
            Err(why) => {
                if !why.is_refusal() {
                    self.unsure_jobs.insert(job.id);
                }
                Err(why)
            }
        }
    }

    /// Ends a job, whether it waits or runs.
    pub(super) fn take_out(&mut self, id: JobId) -> Result<(), LrmsError> {
        self.meet()?;
        if self.unsure_jobs.contains(&id) {
            self.follow()?;
        }
        let live = self.jobs.get(id).filter(|entry| !entry.state.is_over());
        let Some(native) = live.map(|entry| entry.native.clone()) else { return Ok(()) };
        let ended = self.system.cancel(&native);
        self.sight.outdate();
        match ended {
            Ok(()) => self.tell_over(id, Why::Cancelled, self.now.second()),
            Err(why) => {
                if let Some(entry) = self.jobs.get_mut(id).filter(|_| !why.is_refusal()) {
                    entry.unheard = true;
                }
                return Err(why);
            }
        }
        self.jobs.forget_old(self.settings.remembered);
        Ok(())
    }

    /// The job as the batch system is to have it, if it can be taken.
    fn submission(&mut self, job: &Job) -> Result<Submission, LrmsError> {
        let (place, capacity) = self.place(&job.resource)?.clone();
        if job.limit < Seconds(1) {
            return Err(LrmsError::Malformed("its time limit is less than a second; give it more".into()));
        }
        if job.capacity == Capacity::ZERO {
            return Err(LrmsError::Malformed("it needs no capacity; ask for some".into()));
        }
        command::check(job)?;
        let most = self.settings.most_jobs;
        if self.jobs.live() >= most {
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
        })
    }

    /// What a job's reservation is called there, the next to begin first.
    fn handles(
        &mut self,
        job: &Job,
        place: &Place,
        id: ReservationId,
    ) -> Result<Vec<super::system::Handle>, LrmsError> {
        if self.pieces.is_unsure(id) {
            self.look(self.now)?;
        }
        let pieces = self.pieces.of(id, &place.resource, self.terms_now(self.now));
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
