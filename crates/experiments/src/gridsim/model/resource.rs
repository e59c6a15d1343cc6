//! A grid resource: the operations of users, each at an instant, and the events in between. The profile has a span for
//! every reservation that is accepted, committed or active, and for every job started from the queue, so that every
//! accepted reservation is honoured.
//!
//! The events of one instant are handled in this order: ends of jobs, ends of slots, expiries, starts of slots; then
//! the queue gets the remaining CPUs; then the operations of users, in the order of the calls.
//!
//! A job from the queue never loses its CPU and never runs into a reservation: a job that would, by its size and the
//! rating of the CPU that it would get, waits, and all jobs behind it wait too (first come, first served, no
//! backfilling). A reservation is granted if running jobs and other reservations leave room; waiting jobs are not
//! considered. With [`Counted::Reservations`], Algorithm 1 of the paper as printed, running jobs are not considered
//! either. The slot starts nevertheless when it was promised: jobs from the queue that are in its way are paused, the
//! last started first, and go back to the front of the queue.

use super::{
    Booked, CpuId, Cpus, Job, Piece, Rating, Refusal, Request, ReservationId, Returned, Stopped, busy_hint,
};
use bookahead_plan::{Capacity, Interval, Need, Profile, Seconds, Span, Time};
use std::collections::{BTreeSet, VecDeque};

/// Settings of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// An accepted reservation expires after this time, or at its start if that is earlier. An immediate one must be
    /// committed within a second.
    pub patience: Seconds,
    /// The unit of the busy-time hint.
    pub hint_unit: Seconds,
    /// What takes room from a reservation.
    pub counted: Counted,
}

/// What is considered when a reservation is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Other reservations and running jobs.
    ReservationsAndJobs,
    /// Other reservations only, as Algorithm 1 of the paper is printed.
    Reservations,
}

impl Default for Rules {
    fn default() -> Rules {
        let counted = Counted::ReservationsAndJobs;
        Rules { patience: Seconds(600), hint_unit: Seconds(60), counted }
    }
}

/// Why a reservation cannot be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommitError {
    /// The id is not known.
    Unknown,
    /// It was not committed in time.
    Expired,
    /// Its slot has begun.
    Begun,
}

/// A future event. The order of the variants is the order of handling within an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The job on this CPU is done.
    JobEnd(CpuId),
    /// The slot of the reservation ends.
    SlotEnd(ReservationId),
    /// The time to commit the reservation is over.
    Expiry(ReservationId),
    /// The slot of the reservation starts.
    Begin(ReservationId),
}

#[derive(Debug, Clone, Copy)]
struct Running {
    job: Job,
    since: Time,
    done: Time,
    reservation: Option<ReservationId>,
}

#[derive(Debug, Clone)]
struct Reservation {
    span: Span,
    expires: Time,
    /// Why it can no longer be committed; None while it can.
    closed: Option<CommitError>,
    /// Attached jobs that have not started, in the order of their start.
    jobs: VecDeque<Job>,
    /// Its CPUs while it is active.
    cpus: Vec<CpuId>,
}

/// CPUs, a queue, and reservations.
#[derive(Clone)]
pub struct Resource {
    rules: Rules,
    cpus: Cpus,
    /// Reservations and running jobs. With [`Counted::Reservations`] there may be less than nothing left.
    profile: Profile,
    /// Reservations only.
    reserved: Profile,
    now: Time,
    queue: VecDeque<Job>,
    /// The job of each CPU.
    running: Vec<Option<Running>>,
    events: BTreeSet<(Time, Event)>,
    reservations: Vec<Reservation>,
    pieces: Vec<Piece>,
    returned: Vec<Returned>,
}

/// Operations of users.
impl Resource {
    /// An idle resource with one CPU per rating; None without CPUs or with a rating of zero.
    pub fn new(ratings: Vec<Rating>, rules: Rules, origin: Time) -> Option<Resource> {
        let count = u32::try_from(ratings.len()).ok().filter(|&count| count > 0)?;
        if ratings.contains(&Rating(0)) {
            return None;
        }
        Some(Resource {
            rules,
            running: vec![None; ratings.len()],
            cpus: Cpus::new(ratings),
            profile: Profile::new(Capacity(count), origin),
            reserved: Profile::new(Capacity(count), origin),
            now: origin,
            queue: VecDeque::new(),
            events: BTreeSet::new(),
            reservations: Vec::new(),
            pieces: Vec::new(),
            returned: Vec::new(),
        })
    }

    /// Number of CPUs.
    pub fn capacity(&self) -> Capacity {
        Capacity(self.running.len() as u32)
    }

    /// The CPU usage of all jobs, ordered by the end of each piece.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Jobs returned to their users, in order.
    pub fn returned(&self) -> &[Returned] {
        &self.returned
    }

    /// Handles all remaining events.
    pub fn finish(&mut self) {
        // A queued job waits for a CPU or for a reservation, and both have an event. So the queue is empty
        // when no event is left.
        while let Some(&(next, _)) = self.events.first() {
            self.instant(next);
        }
    }

    /// Puts a job without a reservation at the end of the queue.
    pub fn submit(&mut self, now: Time, job: Job) {
        self.advance(now);
        self.queue.push_back(job);
        self.serve_queue();
    }

    /// Requests a reservation. An accepted one must be committed before it expires.
    pub fn create(&mut self, now: Time, request: &Request) -> Result<Booked, Refusal> {
        self.advance(now);
        request.check(self.now, self.capacity())?;
        let start = request.start_at(self.now);
        let need = Need { capacity: Capacity(request.cpus), length: request.duration };
        let counted = match self.rules.counted {
            Counted::ReservationsAndJobs => &self.profile,
            Counted::Reservations => &self.reserved,
        };
        if !counted.fits(start, need) {
            let fit = counted.earliest_fit(start, need, None).unwrap_or(Time::MAX);
            return Err(Refusal::Busy { hint: busy_hint(fit - start, self.rules.hint_unit) });
        }
        let id = ReservationId(self.reservations.len() as u32);
        let span = Span::starting(start, need.length, need.capacity);
        // An immediate reservation would expire at its start, that is now; it gets one second.
        let expires = (self.now + self.rules.patience).min(start).max(self.now + Seconds(1));
        // In the profile from its acceptance on, so that a commit cannot fail for lack of room.
        self.profile.add(span);
        self.reserved.add(span);
        self.events.insert((expires, Event::Expiry(id)));
        let (jobs, cpus) = (VecDeque::new(), Vec::new());
        self.reservations.push(Reservation { span, expires, closed: None, jobs, cpus });
        Ok(Booked { id, slot: span.interval, expires })
    }

    /// Confirms a reservation and attaches jobs to it. Until its start it can be committed again to attach more jobs.
    /// Jobs start in order, at most one per reserved CPU at a time.
    pub fn commit(
        &mut self,
        now: Time,
        id: ReservationId,
        jobs: impl IntoIterator<Item = Job>,
    ) -> Result<(), CommitError> {
        self.advance(now);
        let reservation = self.reservations.get_mut(id.0 as usize).ok_or(CommitError::Unknown)?;
        if let Some(why) = reservation.closed {
            return Err(why);
        }
        reservation.jobs.extend(jobs);
        // At a second commit the expiry is gone already and the start is in the set already: both calls have
        // no effect then.
        self.events.remove(&(reservation.expires, Event::Expiry(id)));
        self.events.insert((reservation.span.interval.begin, Event::Begin(id)));
        // An immediate reservation begins at this very instant.
        self.advance(self.now);
        Ok(())
    }
}

/// Event handling.
impl Resource {
    /// Handles all events up to `now`. A time before the last event counts as that of the last event.
    fn advance(&mut self, now: Time) {
        while let Some(&(next, _)) = self.events.first().filter(|(next, _)| *next <= now) {
            self.instant(next);
        }
        self.instant(now.max(self.now));
    }

    /// Handles the events of one instant and serves the queue.
    fn instant(&mut self, now: Time) {
        self.now = now.max(self.now);
        self.profile.advance(self.now);
        self.reserved.advance(self.now);
        while let Some((_, event)) = self.events.first().copied().filter(|(time, _)| *time <= self.now) {
            // Ends are handled first, so that a slot that begins at this instant finds its CPUs free.
            self.events.pop_first();
            match event {
                Event::JobEnd(cpu) => self.job_end(cpu),
                Event::SlotEnd(id) => self.slot_end(id),
                Event::Expiry(id) => {
                    let reservation = &mut self.reservations[id.0 as usize];
                    reservation.closed = Some(CommitError::Expired);
                    self.profile.remove(reservation.span);
                    self.reserved.remove(reservation.span);
                }
                Event::Begin(id) => self.begin(id),
            }
        }
        self.serve_queue();
    }

    /// Starts jobs from the queue, in order, until one would run into a reservation or no CPU is free. The run time of
    /// the first job is that on the fastest free CPU, which it would get.
    fn serve_queue(&mut self) {
        while let (Some(&job), Some(cpu)) = (self.queue.front(), self.cpus.fastest_free()) {
            let length = job.work.run_time(self.cpus.rating(cpu));
            if !self.profile.fits(self.now, Need { capacity: Capacity(1), length }) {
                return;
            }
            self.queue.pop_front();
            self.cpus.take(cpu);
            // Run times are exact in this model, so the span never has to be shortened when the job ends.
            self.profile.add(Span::starting(self.now, length, Capacity(1)));
            self.run(job, cpu, None);
        }
    }

    /// Starts a slot: takes its CPUs, which the profile has kept free or jobs from the queue must leave, and starts its
    /// first jobs.
    fn begin(&mut self, id: ReservationId) {
        let reservation = &mut self.reservations[id.0 as usize];
        reservation.closed = Some(CommitError::Begun);
        let Span { interval, capacity } = reservation.span;
        for _ in 0..capacity.0 {
            if self.cpus.fastest_free().is_none() {
                self.pause_last_started();
            }
            let free = self.cpus.fastest_free();
            debug_assert!(free.is_some(), "the CPUs of a reservation are free at its start");
            let Some(cpu) = free else { break };
            self.cpus.take(cpu);
            self.reservations[id.0 as usize].cpus.push(cpu);
            self.next_in_slot(id, cpu);
        }
        self.events.insert((interval.end, Event::SlotEnd(id)));
    }

    /// Stops the job from the queue that was started last. It is the next of the queue, with the work that is left.
    fn pause_last_started(&mut self) {
        debug_assert_eq!(self.rules.counted, Counted::Reservations, "no job is in the way of a reservation");
        let from_queue = self.running.iter().enumerate().filter_map(|(cpu, running)| {
            let running = running.as_ref().filter(|running| running.reservation.is_none())?;
            Some((running.since, cpu, running.done))
        });
        let Some((_, cpu, done)) = from_queue.max() else { return };
        let cpu = CpuId(cpu as u32);
        let Some((job, _)) = self.stop(cpu) else { return };
        self.profile.remove(Span { interval: Interval::new(self.now, done), capacity: Capacity(1) });
        self.cpus.give_back(cpu);
        self.queue.push_front(job);
    }

    /// Gives a CPU of an active reservation to its next job, if it has one.
    fn next_in_slot(&mut self, id: ReservationId, cpu: CpuId) {
        let reservation = &mut self.reservations[id.0 as usize];
        let Some(job) = reservation.jobs.pop_front() else { return };
        self.run(job, cpu, Some(id));
    }

    fn run(&mut self, job: Job, cpu: CpuId, reservation: Option<ReservationId>) {
        let done = self.now + job.work.run_time(self.cpus.rating(cpu));
        self.running[cpu.0 as usize] = Some(Running { job, since: self.now, done, reservation });
        // The end of its slot may come first; `stop` then removes this event.
        self.events.insert((done, Event::JobEnd(cpu)));
    }

    fn job_end(&mut self, cpu: CpuId) {
        let Some((job, reservation)) = self.stop(cpu) else { return };
        self.give_to_user(&job);
        match reservation {
            // The reservation keeps its CPU to the end of the slot, used or not.
            Some(id) => {
                // At the end of the slot the next job would be stopped in the same instant.
                if self.reservations[id.0 as usize].span.interval.end > self.now {
                    self.next_in_slot(id, cpu);
                }
            }
            None => self.cpus.give_back(cpu),
        }
    }

    /// Frees the CPUs of a reservation. Running jobs are queued or returned before jobs that did not start.
    fn slot_end(&mut self, id: ReservationId) {
        let mut jobs = Vec::new();
        for cpu in std::mem::take(&mut self.reservations[id.0 as usize].cpus) {
            jobs.extend(self.stop(cpu).map(|(job, _)| job));
            self.cpus.give_back(cpu);
        }
        jobs.extend(std::mem::take(&mut self.reservations[id.0 as usize].jobs));
        for job in jobs {
            match job.stopped {
                Stopped::Queue => self.queue.push_back(job),
                Stopped::Return => self.give_to_user(&job),
            }
        }
    }

    fn give_to_user(&mut self, job: &Job) {
        self.returned.push(Returned { job: job.id, at: self.now, left: job.work });
    }

    /// Removes the job from a CPU, records the piece, and returns the job with its remaining work.
    fn stop(&mut self, cpu: CpuId) -> Option<(Job, Option<ReservationId>)> {
        let Running { mut job, since, done, reservation } = self.running[cpu.0 as usize].take()?;
        self.events.remove(&(done, Event::JobEnd(cpu)));
        let interval = Interval::new(since, self.now);
        job.work = job.work.after(self.cpus.rating(cpu), interval.length());
        if !interval.is_empty() {
            self.pieces.push(Piece { job: job.id, cpu, interval, reservation });
        }
        Some((job, reservation))
    }
}
