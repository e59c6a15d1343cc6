//! Jobs that are given to a site: checked against the book, written down, and then handed to the batch system.

use super::{AfterWriting, Called, Event, JobEvent, LOOK_AGAIN, Site};
use crate::party::{Done, Reply};
use bookahead_api as api;
use bookahead_lrms::{Job, JobState, JobStatus, LrmsError, Why as Ended, Work};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{
    Answer, Call, Caller, Envelope, JobId, Key, Moment, Name, Requirement, ReservationId,
};
use std::path::PathBuf;

/// Where the outcome of a submission goes.
type Outcome = Reply<Result<api::Job, api::Problem>>;

impl Site {
    /// Takes a job: it is written down, and handed over once that is durable.
    pub(super) fn submit(
        &mut self,
        now: Moment,
        caller: &Caller,
        (key, id): (Key, JobId),
        asked: api::SubmitJob,
        reply: Outcome,
        done: &mut Done<Event>,
    ) {
        match self.admit(now, caller, (key, id), asked, done) {
            Ok(None) => {
                let known = self.job(id).ok_or_else(|| unknown(id));
                done.answer(reply, known);
            }
            Ok(Some(job)) => {
                let at = now.second();
                self.note_job(JobEvent::Submitted { job: job.clone(), key, at }, done);
                let later = AfterWriting::Submit { job: Box::new(job), reply: Some(reply) };
                self.when_written(vec![later], done);
            }
            Err(problem) => done.answer(reply, Err(problem)),
        }
    }

    /// The job as the batch system is to have it; None where it has it already.
    fn admit(
        &mut self,
        now: Moment,
        caller: &Caller,
        (key, id): (Key, JobId),
        asked: api::SubmitJob,
        done: &mut Done<Event>,
    ) -> Result<Option<Job>, api::Problem> {
        let resource = self.resource_for(caller, &asked)?;
        let job = Job {
            id,
            user: caller.user.clone(),
            resource,
            capacity: Capacity(asked.capacity),
            limit: Seconds(asked.limit_seconds),
            reservation: asked.reservation,
            work: work(asked.work),
        };
        if job.capacity == Capacity::ZERO || job.limit < Seconds(1) {
            let why = "a job has a capacity of at least 1 and a limit of at least one second";
            return Err(api::Problem::new(api::Code::BadRequest, why));
        }
        if self.jobs.with_key(key).is_some_and(|known| known.job != job) {
            return Err(Problem::new(Why::KeyTaken(key)).into());
        }
        if let Some(known) = self.jobs.get(id) {
            let same = known.job == job;
            let why = || format!("{id} is already another job; make a new id");
            return if same { Ok(None) } else { Err(api::Problem::new(api::Code::JobTaken, why())) };
        }
        if let Some(reservation) = job.reservation {
            self.attach(now, caller, reservation, id, done)?;
        }
        Ok(Some(job))
    }

    /// The resource on which it runs: that of its reservation, the one it names, or the first that suits it.
    fn resource_for(&self, caller: &Caller, asked: &api::SubmitJob) -> Result<Name, api::Problem> {
        if let Some(id) = asked.reservation {
            let entry = self.ledger.entry(id).ok_or(Why::Unknown(id));
            let entry = entry.map_err(|why| api::Problem::from(Problem::new(why)))?;
            if !caller.may_act_for(&entry.owner) {
                return Err(Problem::new(Why::NotOwner(id)).into());
            }
            return Ok(entry.resource.clone());
        }
        let requirements: Vec<Requirement> = asked.requirements.iter().cloned().map(Into::into).collect();
        let part = bookahead_protocol::Part {
            wanted: bookahead_plan::placement::Request {
                earliest_start: bookahead_plan::Time(0),
                latest_end: bookahead_plan::Time(0),
                duration: Seconds(asked.limit_seconds),
                capacity: Capacity(asked.capacity),
            },
            kind: asked.kind.clone(),
            requirements,
            resource: asked.resource.clone(),
        };
        let suits = self.rules.resources.iter().find(|offered| offered.resource.suits(&part));
        let none = || Problem::new(Why::NoSuchResource { part: 0, kind: asked.kind.clone() }).into();
        suits.map(|offered| offered.resource.name.clone()).ok_or_else(none)
    }

    /// Notes in the book that the job belongs to a reservation.
    fn attach(
        &mut self,
        now: Moment,
        caller: &Caller,
        id: ReservationId,
        job: JobId,
        done: &mut Done<Event>,
    ) -> Result<(), api::Problem> {
        let envelope = Envelope {
            // The same for every repetition: a job is attached once.
            key: Key(job.0).derived(0),
            caller: caller.clone(),
            call: Call::Attach { id, part: 0, job },
        };
        match self.call(now, &envelope, done) {
            Called::Answered(Answer::Problem(problem)) => Err((*problem).into()),
            Called::Answered(_) => Ok(()),
            // No room is taken by a job in a reservation.
            Called::PutOff => Err(Problem::new(Why::Busy).into()),
        }
    }

    /// Hands a job to the batch system.
    pub(super) fn hand_over(
        &mut self,
        now: Moment,
        job: &Job,
        reply: Option<Outcome>,
        done: &mut Done<Event>,
    ) {
        let id = job.id;
        let outcome = match self.lrms.submit(now, job) {
            Ok(()) => {
                self.note_job(JobEvent::Handed { id }, done);
                self.advance(now, done);
                self.job(id).ok_or_else(|| unknown(id))
            }
            Err(why) if why.is_silence() => {
                // Whether it was taken is found out when the batch system is looked at, and then it is handed over again.
                tracing::error!(job = %id, "the batch system does not say whether it takes it: {why}");
                self.next_look = self.next_look.min(now + LOOK_AGAIN);
                self.job(id).ok_or_else(|| unknown(id))
            }
            Err(why) => {
                tracing::warn!(job = %id, "the batch system does not take it: {why}");
                let state = JobState::Killed(Ended::CouldNotStart(why.to_string()));
                self.note_job(JobEvent::Over { id, state, at: now.second() }, done);
                Err(api::Problem::new(api::Code::JobRefused, why.to_string()))
            }
        };
        if let Some(reply) = reply {
            done.answer(reply, outcome);
        }
    }

    /// Ends a job.
    pub(super) fn cancel_job(
        &mut self,
        now: Moment,
        caller: &Caller,
        id: JobId,
        reply: Outcome,
        done: &mut Done<Event>,
    ) {
        self.advance(now, done);
        let outcome = match self.jobs.get(id) {
            None => Err(unknown(id)),
            Some(record) if !caller.may_act_for(&record.job.user) => {
                Err(api::Problem::new(api::Code::Forbidden, format!("{id} belongs to somebody else")))
            }
            Some(record) if record.over.is_some() => self.job(id).ok_or_else(|| unknown(id)),
            Some(_) => {
                let state = JobState::Killed(Ended::Cancelled);
                self.note_job(JobEvent::Over { id, state, at: now.second() }, done);
                self.when_written(vec![AfterWriting::Cancel { id }], done);
                self.job(id).ok_or_else(|| unknown(id))
            }
        };
        done.answer(reply, outcome);
    }

    /// After a restart: jobs that never reached the batch system are handed over, and those that the book does not know,
    /// or has as over, are ended.
    pub(super) fn reconcile_jobs(&mut self, now: Moment, done: &mut Done<Event>) -> Result<(), LrmsError> {
        let there = self.lrms.jobs();
        for status in there.iter().filter(|status| !status.state.is_over()) {
            let id = status.id;
            if self.jobs.get(id).is_none_or(|record| record.over.is_some()) {
                tracing::warn!(job = %id, "runs or waits for nobody, and is ended");
                self.lrms.cancel(now, id)?;
            }
        }
        let live: Vec<(Job, bool)> =
            self.jobs.live().map(|record| (record.job.clone(), record.handed)).collect();
        for (job, handed) in live {
            match there.iter().find(|status| status.id == job.id) {
                // It ran and was forgotten while nobody looked; a job runs once.
                None if handed && self.lrms.keeps_jobs() => {
                    let state = JobState::Killed(Ended::Lost);
                    self.note_job(JobEvent::Over { id: job.id, state, at: now.second() }, done);
                }
                None => self.hand_over(now, &job, None, done),
                Some(status) if status.state.is_over() => {
                    let (state, at) = (status.state.clone(), status.ended.unwrap_or(now.second()));
                    self.note_job(JobEvent::Over { id: job.id, state, at }, done);
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// A job as its owner may see it.
    pub(super) fn job(&self, id: JobId) -> Option<api::Job> {
        let record = self.jobs.get(id)?;
        let status = self.lrms.jobs().into_iter().find(|status| status.id == id);
        Some(self.show_job(record, status.as_ref()))
    }

    pub(super) fn show_job(&self, record: &super::Record, status: Option<&JobStatus>) -> api::Job {
        let state = record.over.as_ref().map(|(_, state)| state.clone());
        let state = state.or_else(|| status.map(|status| status.state.clone())).unwrap_or(JobState::Waiting);
        let time = |time: bookahead_plan::Time| api::Timestamp::try_from(time).ok();
        let ended = record.over.as_ref().map(|(at, _)| *at).or(status.and_then(|status| status.ended));
        let (word, exit, detail) = described(&state);
        api::Job {
            id: record.job.id,
            owner: record.job.user.clone(),
            site: Some(self.rules.site.clone()),
            resource: Some(record.job.resource.clone()),
            reservation: record.job.reservation,
            capacity: record.job.capacity.0,
            limit_seconds: record.job.limit.0,
            state: word,
            submitted: api::Timestamp::nearest(record.submitted),
            started: status.and_then(|status| status.started).and_then(time),
            ended: ended.and_then(time),
            expected_start: status.and_then(|status| status.expected_start).and_then(time),
            exit,
            detail,
        }
    }
}

fn unknown(id: JobId) -> api::Problem {
    api::Problem::new(api::Code::UnknownJob, format!("{id} is not known here"))
}

fn described(state: &JobState) -> (api::JobState, Option<i32>, Option<String>) {
    match state {
        JobState::Waiting => (api::JobState::Waiting, None, None),
        JobState::Running => (api::JobState::Running, None, None),
        JobState::Done { exit } => (api::JobState::Done, Some(*exit), None),
        JobState::Killed(why) => {
            let word = match why {
                Ended::Cancelled => api::JobState::Cancelled,
                Ended::Limit => api::JobState::OutOfTime,
                Ended::ReservationOver | Ended::Displaced => api::JobState::ReservationOver,
                Ended::Lost => api::JobState::Lost,
                Ended::CouldNotStart(_) => api::JobState::CouldNotStart,
            };
            (word, None, Some(why.to_string()))
        }
    }
}

fn work(asked: api::Work) -> Work {
    match asked {
        api::Work::Program { program, arguments, folder, environment } => {
            Work::Program { program, arguments, folder: folder.map(PathBuf::from), environment }
        }
        api::Work::Script { text, arguments } => Work::Script { text, arguments },
        api::Work::Pretended { run_seconds } => Work::Pretended { run: Seconds(run_seconds) },
    }
}
