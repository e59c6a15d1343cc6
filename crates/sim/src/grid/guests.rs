//! Jobs that a site submits to a simulated batch system, in the queue or inside a reservation. A job inside starts as
//! soon as its reservation has begun and has room, and ends with it at the latest. A copy of a flooded job claims when
//! its turn comes, and runs only after a go.

use super::client::job_of;
use super::cluster::{Cluster, Submitted, key_of};
use bookahead_party::{BatchError, Ended, Job, JobChange, JobState, JobStatus};
use bookahead_plan::{Capacity, Owner, Span, Time, Waiting};
use bookahead_protocol::ledger::taken;
use bookahead_protocol::{JobId, ReservationId};
use std::collections::BTreeSet;

impl Cluster {
    /// Accepts a job. The same job again changes nothing, because sites repeat orders.
    pub(super) fn submit(&mut self, job: &Job) -> Result<(), BatchError> {
        let refuse = |why: &str| Err(BatchError::Refused(why.to_owned()));
        // Like a real batch system, it takes a forgotten job for a new one.
        let mut remembered = self.ours.iter().filter(|known| self.is_remembered(known));
        if let Some(known) = remembered.find(|known| known.job.id == job.id) {
            // A job that went back to the queue has left its reservation.
            let reservation = if known.restarts > 0 { known.job.reservation } else { job.reservation };
            let same = known.job == Job { reservation, ..job.clone() };
            return if same { Ok(()) } else { refuse("this is another job") };
        }
        self.take_job(job, 0)
    }

    fn take_job(&mut self, job: &Job, restarts: u32) -> Result<(), BatchError> {
        let refuse = |why: &str| Err(BatchError::Refused(why.to_owned()));
        let (now, place) = (self.now(), self.ours.len());
        // A job that runs again was released before.
        let held = job.held && restarts == 0;
        match job.reservation {
            Some(id) if self.most_room(id, now) < job.capacity => {
                return refuse("it has no such reservation");
            }
            Some(_) => {}
            None if held => {}
            None if !self.queue(place, job) => return refuse("it needs more than there is"),
            None => {}
        }
        self.ours.push(Submitted {
            job: job.clone(),
            state: JobState::Waiting,
            submitted: now,
            turn: None,
            started: None,
            ended: None,
            may_run: false,
            held,
            restarts,
            went_back: false,
        });
        self.live.insert(place);
        self.pass();
        Ok(())
    }

    /// Puts a job into the queue; false if it needs more than there is.
    fn queue(&mut self, place: usize, job: &Job) -> bool {
        let (submit, estimate, capacity) = (self.now(), job.limit, job.capacity);
        let waiting = Waiting { submit, estimate, capacity, priority: 0, owner: Owner::NONE };
        self.enqueue(key_of(place), waiting)
    }

    /// Releases a job that is on hold; false if there is no such job.
    pub(super) fn release(&mut self, id: JobId) -> bool {
        let Some(place) = self.place(id) else { return false };
        if std::mem::replace(&mut self.ours[place].held, false) {
            let job = self.ours[place].job.clone();
            if job.reservation.is_none() && !self.queue(place, &job) {
                let why = Ended::CouldNotStart("it needs more than there is".to_owned());
                self.over(place, JobState::Killed(why), self.now());
            }
            self.pass();
        }
        true
    }

    /// Puts a job that is over back into the queue.
    pub(super) fn requeue(&mut self, job: &Job, restarts: u32) -> Result<(), BatchError> {
        let refuse = |why: &str| Err(BatchError::Refused(why.to_owned()));
        let is_it = |ours: &Submitted| ours.job.id == job.id && self.is_remembered(ours);
        let Some(place) = self.ours.iter().rposition(is_it) else { return refuse("it is unknown") };
        if self.ours[place].restarts >= restarts {
            return Ok(());
        }
        if !self.ours[place].state.is_over() {
            return refuse("it still waits or runs");
        }
        self.take_job(job, restarts)?;
        self.ours[place].went_back = true;
        Ok(())
    }

    /// Moves a job from the queue into its reservation.
    pub(super) fn bind(&mut self, job: &Job) -> Result<(), BatchError> {
        let refuse = |why: &str| Err(BatchError::Refused(why.to_owned()));
        let Some(place) = self.place(job.id) else { return refuse("it is over or unknown") };
        if self.ours[place].job == *job {
            return Ok(());
        }
        let room = job.reservation.map_or(Capacity::ZERO, |id| self.most_room(id, self.now()));
        if self.ours[place].state != JobState::Waiting || room < job.capacity {
            return refuse("it runs already, or has no such reservation");
        }
        self.leave_queue(place);
        self.ours[place].job = job.clone();
        self.pass();
        Ok(())
    }

    /// Lets a copy run, now or when its turn comes.
    pub(super) fn go(&mut self, id: JobId) {
        let Some(place) = self.place(id) else { return };
        self.ours[place].may_run = true;
        if self.ours[place].state == JobState::Claiming {
            self.run(place, self.now());
        }
    }

    pub(super) fn cancel(&mut self, id: JobId) {
        if let Some(place) = self.place(id) {
            self.over(place, JobState::Killed(Ended::Cancelled), self.now());
            self.pass();
        }
    }

    /// Place of a live job.
    fn place(&self, id: JobId) -> Option<usize> {
        self.live.iter().copied().find(|place| self.ours[*place].job.id == id)
    }

    /// The turn of a job has come and its room is taken: it runs, or claims if it is a copy without a go.
    pub(super) fn turn(&mut self, place: usize, now: Time) {
        self.ours[place].turn = Some(now);
        if self.ours[place].job.claims && !self.ours[place].may_run {
            self.becomes(place, JobState::Claiming, now);
        } else {
            self.run(place, now);
        }
    }

    fn run(&mut self, place: usize, now: Time) {
        self.ours[place].started = Some(now);
        let job = &self.ours[place].job;
        *self.executions.entry(job_of(&job.work).map_or(job.id, |(id, _)| id)).or_default() += 1;
        self.becomes(place, JobState::Running, now);
    }

    fn becomes(&mut self, place: usize, state: JobState, at: Time) {
        self.ours[place].state = state.clone();
        self.changes.push(JobChange { id: self.ours[place].job.id, state, at });
        self.version += 1;
    }

    pub(super) fn over(&mut self, place: usize, state: JobState, at: Time) {
        self.live.remove(&place);
        self.ours[place].ended = Some(at);
        self.becomes(place, state, at);
        if self.ours[place].job.reservation.is_none() {
            self.leave_queue(place);
        }
    }

    /// Ends jobs that have reached their expected end.
    pub(super) fn end_ours(&mut self, now: Time) {
        for place in self.live.iter().copied().collect::<Vec<_>>() {
            if let Some((at, how)) = self.ours[place].end().filter(|(at, _)| *at <= now) {
                self.over(place, how, at);
            }
        }
    }

    /// Time of the next end of a submitted job, or edge of a backing with jobs.
    pub(super) fn next_of_ours(&self) -> Option<Time> {
        let now = self.now();
        let live = || self.live.iter().map(|place| &self.ours[*place]);
        let ends = live().filter_map(Submitted::end).map(|(end, _)| end);
        let inside = live().filter_map(|ours| self.reserved.get(&ours.job.reservation?)).flatten();
        let edges = inside.flat_map(|span| [span.interval.begin, span.interval.end]);
        ends.chain(edges.filter(|edge| *edge > now)).min()
    }

    /// Ends and starts jobs inside reservations. If a backing has shrunk, the jobs that were submitted last are ended.
    pub(super) fn settle_guests(&mut self, now: Time) {
        for id in self.in_use() {
            let is_in = |at: &usize| self.ours[*at].job.reservation == Some(id);
            let guests: Vec<usize> = self.live.iter().copied().filter(is_in).collect();
            let (mut left, gone) = (self.room(id, now).0, self.most_room(id, now) == Capacity::ZERO);
            for place in guests {
                let needs = self.ours[place].job.capacity.0;
                let inside = self.ours[place].turn.is_some();
                if self.ours[place].held && !gone {
                    continue;
                }
                if gone || (inside && needs > left) {
                    self.over(place, JobState::Killed(Ended::ReservationOver), now);
                } else if needs <= left {
                    left -= needs;
                    if !inside {
                        self.turn(place, now);
                    }
                }
            }
        }
    }

    /// Capacity of a backing at an instant, on nodes that are up.
    fn room(&self, id: ReservationId, at: Time) -> Capacity {
        taken(&self.kept(id), at)
    }

    /// Largest capacity of a backing from now on, nodes that are down included.
    fn most_room(&self, id: ReservationId, now: Time) -> Capacity {
        let spans = self.reserved.get(&id).map_or(&[][..], Vec::as_slice);
        let rest = spans.iter().filter(|span| span.interval.end > now);
        rest.map(|span: &Span| taken(spans, span.interval.begin.max(now))).max().unwrap_or(Capacity::ZERO)
    }

    /// Reservations with waiting or running jobs.
    pub(super) fn in_use(&self) -> BTreeSet<ReservationId> {
        self.live.iter().filter_map(|place| self.ours[*place].job.reservation).collect()
    }

    /// All jobs that the batch system still remembers.
    pub(super) fn statuses(&self) -> impl Iterator<Item = JobStatus> {
        self.ours.iter().filter(|ours| self.is_remembered(ours)).map(Submitted::status)
    }

    fn is_remembered(&self, ours: &Submitted) -> bool {
        !ours.went_back && ours.ended.is_none_or(|ended| ended + self.remembers >= self.now())
    }

    /// Whether a job ended after an instant.
    pub(super) fn ended_after(&self, id: JobId, instant: Time) -> bool {
        self.ours.iter().any(|ours| ours.job.id == id && ours.ended.is_some_and(|ended| ended > instant))
    }

    /// Jobs whose program runs, by the ids that their owners know.
    pub(super) fn programs(&self) -> impl Iterator<Item = JobId> {
        let running = self.live.iter().map(|place| &self.ours[*place]).filter(|ours| ours.started.is_some());
        running.map(|ours| job_of(&ours.job.work).map_or(ours.job.id, |(id, _)| id))
    }

    /// Waiting and running jobs.
    pub(crate) fn live_jobs(&self) -> impl Iterator<Item = JobId> {
        self.live.iter().map(|place| self.ours[*place].job.id)
    }
}
