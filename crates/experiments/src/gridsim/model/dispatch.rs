//! Who gets a CPU and who loses it: the events of a grid resource, and its queue. It relies on the profile to know
//! how long a CPU may be given away; it never takes a CPU from a job that came from the queue.

use super::cpus::CpuId;
use super::job::{Job, Piece, Returned, Stopped};
use super::reservation::ReservationId;
use super::resource::{Resource, legal};
use bookahead_plan::{Capacity, Interval, Need, Span, Time};
use bookahead_protocol::{Move, State};

/// What is going to happen. The order of the variants is the order inside an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The job on this CPU is done.
    JobEnd(CpuId),
    /// The reservation's time is over.
    SlotEnd(ReservationId),
    /// The reservation was to be committed before now.
    Expiry(ReservationId),
    /// The reservation's time has come.
    Begin(ReservationId),
}

/// A job on a CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct Running {
    job: Job,
    since: Time,
    /// When it will be done.
    done: Time,
    reservation: Option<ReservationId>,
}

impl Resource {
    /// All that happens at one instant, up to the operations of users.
    pub(super) fn instant(&mut self, now: Time) {
        self.now = now.max(self.now);
        self.profile.advance(self.now);
        while let Some((_, event)) = self.events.first().copied().filter(|(time, _)| *time <= self.now) {
            self.events.pop_first();
            match event {
                Event::JobEnd(cpu) => self.job_end(cpu),
                Event::SlotEnd(id) => self.slot_end(id),
                Event::Expiry(id) => {
                    let reservation = &mut self.reservations[id.0 as usize];
                    legal(reservation.apply(Move::Expire));
                    self.profile.remove(reservation.span);
                }
                Event::Begin(id) => self.begin(id),
            }
        }
        self.serve_queue();
    }

    /// Starts jobs from the queue, in order, until one would run into a reservation or no CPU is free. The first is
    /// measured on the fastest free CPU, the one it would get.
    pub(super) fn serve_queue(&mut self) {
        while let (Some(&job), Some(cpu)) = (self.queue.front(), self.cpus.fastest_free()) {
            let length = job.work.run_time(self.cpus.rating(cpu));
            if !self.profile.fits(self.now, Need { capacity: Capacity(1), length }) {
                return;
            }
            self.queue.pop_front();
            self.cpus.take(cpu);
            self.profile.add(Span::starting(self.now, length, Capacity(1)));
            self.run(job, cpu, None);
        }
    }

    /// The reservation takes its CPUs, which the profile has kept free, and starts its first jobs.
    fn begin(&mut self, id: ReservationId) {
        let reservation = &mut self.reservations[id.0 as usize];
        legal(reservation.apply(Move::Begin));
        let Span { interval, capacity } = reservation.span;
        for _ in 0..capacity.0 {
            let free = self.cpus.fastest_free();
            debug_assert!(free.is_some(), "a reservation finds its CPUs free");
            let Some(cpu) = free else { break };
            self.cpus.take(cpu);
            self.reservations[id.0 as usize].cpus.push(cpu);
            self.next_in_slot(id, cpu);
        }
        self.events.insert((interval.end, Event::SlotEnd(id)));
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
        // Of a job in a reservation, the end of the slot may come first and stop it.
        self.events.insert((done, Event::JobEnd(cpu)));
    }

    fn job_end(&mut self, cpu: CpuId) {
        let Some((job, reservation)) = self.stop(cpu) else { return };
        self.returned.push(Returned { job: job.id, at: self.now, left: job.work });
        match reservation {
            // The reservation keeps its CPU to the end of the slot, used or not.
            Some(id) => {
                if self.reservations[id.0 as usize].span.interval.end > self.now {
                    self.next_in_slot(id, cpu);
                }
            }
            None => self.cpus.give_back(cpu),
        }
    }

    fn slot_end(&mut self, id: ReservationId) {
        debug_assert_eq!(self.reservations[id.0 as usize].state(), State::Active);
        legal(self.reservations[id.0 as usize].apply(Move::Complete));
        for job in self.release(id) {
            match job.stopped {
                Stopped::Queue => self.queue.push_back(job),
                Stopped::Return => {
                    self.returned.push(Returned { job: job.id, at: self.now, left: job.work });
                }
            }
        }
    }

    /// Takes the CPUs from a reservation; its jobs as they are, those that ran first.
    pub(super) fn release(&mut self, id: ReservationId) -> Vec<Job> {
        let mut jobs = Vec::new();
        for cpu in std::mem::take(&mut self.reservations[id.0 as usize].cpus) {
            if let Some((job, _)) = self.stop(cpu) {
                jobs.push(job);
            }
            self.cpus.give_back(cpu);
        }
        jobs.extend(std::mem::take(&mut self.reservations[id.0 as usize].jobs));
        jobs
    }

    /// Takes the job off a CPU and notes how long it had it; the job with what is left of it.
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
