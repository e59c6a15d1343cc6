//! One simulated cluster. Its scheduler knows estimates; only the simulation knows the actual run times.
//!
//! The order at each instant is: ends, begins and ends of reservations, submissions, then one pass (see
//! [`bookahead_plan::scheduler`]). A request for a reservation is decided in the pass of its submission by
//! [`Placement`]; a grant conflicts with no running job, no reservation and not with the first waiting job.
//!
//! No job runs into a reservation: a job beyond its estimate is extended only as far as there is room.

use bookahead_plan::metrics::Completed;
use bookahead_plan::{
    Capacity, Cluster, Interval, JobKey, Need, Owner, Policy, Profile, Running, Scheduler, Seconds, Span,
    Time, Waiting,
};
use bookahead_workload::Overrun;
use bookahead_workload::requests::Request;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// First extension of a job beyond its estimate. Each further one is as long as the job is already late, so that the
/// number of extensions grows only with the logarithm of the overrun.
const FIRST_EXTENSION: Seconds = Seconds(60);
/// Number of ended jobs between two progress reports.
const REPORT_EVERY: usize = 4096;

/// A cluster and its rules.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// Queueing policy.
    pub policy: Policy,
    /// Number of processors.
    pub capacity: Capacity,
    /// Treatment of jobs that run longer than estimated.
    pub overrun: Overrun,
}

/// A job to be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// The part that the scheduler knows.
    pub asked: Waiting,
    /// Actual run time, unknown to the scheduler.
    pub run: Seconds,
}

/// The result for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// Ran, possibly killed before its end.
    Ran(Ran),
    /// Needs more processors than the cluster has.
    TooWide,
}

/// The interval in which a job ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// Not before its submission.
    pub start: Time,
    /// Exclusive.
    pub end: Time,
}

/// The start of a granted reservation, or None if the request was refused.
pub type Granted = Option<Time>;

/// The result of a simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// One per job, in the order given.
    pub jobs: Vec<Fate>,
    /// One per request, in the order given.
    pub requests: Vec<Granted>,
    /// Number of jobs that were killed before their end: by their own estimate, or because a reservation needed their
    /// processors.
    pub killed: usize,
}

impl From<&bookahead_workload::Job> for Job {
    fn from(job: &bookahead_workload::Job) -> Job {
        let owner = Owner { id: job.user, used: 0 };
        let (submit, estimate, capacity) = (job.submit, job.request, job.processors);
        let asked = Waiting { submit, estimate, capacity, priority: 0, owner };
        Job { asked, run: job.run }
    }
}

impl Job {
    /// The record of a job for metrics.
    pub fn completed(&self, ran: Ran) -> Completed {
        let Waiting { submit, estimate, capacity, .. } = self.asked;
        Completed { submit, start: ran.start, end: ran.end, estimate, capacity }
    }
}

/// Decides on requests for reservations: step 2 of a pass.
pub trait Placement {
    /// The start of the reservation, or None to refuse it. `cluster` is the state that the scheduler knows; `profile`
    /// has the room beside running jobs, reservations and the first waiting job.
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time>;

    /// Called for every job that starts while requests are to come; for placements that predict waits from history.
    fn job_started(&mut self, _job: &Waiting, _now: Time) {}
}

/// Grants every request at the earliest fit in its window.
#[derive(Debug, Clone, Copy, Default)]
pub struct EarliestFit;

impl Placement for EarliestFit {
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time> {
        let need = Need { capacity: request.processors, length: request.duration };
        profile.earliest_fit(request.earliest_start.max(cluster.now), need, Some(request.latest_end))
    }
}

/// Runs `jobs` and `requests`, both in the order of their submit times, to the last end; `placement` decides on the
/// requests. `observe` is called now and then with the number of ended jobs.
///
/// # Panics If jobs or requests are not in order, if there are 2^32 jobs or requests or more, or if `placement` grants a start that
/// conflicts: these are mistakes of the caller, not of the trace.
pub fn simulate(
    site: Site,
    jobs: &[Job],
    requests: &[Request],
    placement: &mut impl Placement,
    observe: impl FnMut(usize),
) -> Outcome {
    assert!(jobs.is_sorted_by_key(|job| job.asked.submit), "jobs are in the order of submission");
    assert!(requests.is_sorted_by_key(|request| request.submit), "requests are in the order of submission");
    assert!(u32::try_from(jobs.len().max(requests.len())).is_ok(), "fewer than 2^32 jobs and requests");
    let first_job = jobs.first().map_or(Time::MAX, |job| job.asked.submit);
    let first_request = requests.first().map_or(Time::MAX, |request| request.submit);
    let all_to_come =
        Outcome { jobs: vec![Fate::TooWide; jobs.len()], requests: vec![None; requests.len()], killed: 0 };
    let mut run = Run {
        site,
        jobs,
        requests,
        placement,
        observe,
        scheduler: Scheduler::new(site.policy, site.capacity, first_job.min(first_request)),
        events: Events::default(),
        started: Vec::new(),
        expected_ends: vec![Time::MAX; jobs.len()],
        view: View::new(!requests.is_empty()),
        submitted: 0,
        requested: 0,
        ended: 0,
        outcome: all_to_come,
    };
    while let Some(now) = run.next_time() {
        run.instant(now);
    }
    run.outcome
}

/// A simulation in progress.
struct Run<'a, P, O> {
    site: Site,
    jobs: &'a [Job],
    requests: &'a [Request],
    placement: &'a mut P,
    observe: O,
    scheduler: Scheduler,
    events: Events,
    /// Jobs started in the present pass; reused, so that a pass does not allocate.
    started: Vec<JobKey>,
    /// Expected end of each running job.
    expected_ends: Vec<Time>,
    /// The state that a placement sees; maintained only if there are requests.
    view: View,
    submitted: usize,
    requested: usize,
    ended: usize,
    outcome: Outcome,
}

impl<P: Placement, O: FnMut(usize)> Run<'_, P, O> {
    fn next_time(&self) -> Option<Time> {
        let job = self.jobs.get(self.submitted).map_or(Time::MAX, |job| job.asked.submit);
        let request = self.requests.get(self.requested).map_or(Time::MAX, |request| request.submit);
        let event = self.events.next_time().unwrap_or(Time::MAX);
        Some(job.min(request).min(event)).filter(|&next| next < Time::MAX)
    }

    fn instant(&mut self, now: Time) {
        self.scheduler.advance(now);
        while let Some(event) = self.events.pop_at(now) {
            match event {
                Event::End(job) => self.end(job),
                Event::Limit(job) => self.limit(job, now),
                Event::Release(request) => self.release(request, now),
                // Its span is already in the profile; the event only causes the pass of this instant.
                Event::Reservation => {}
            }
        }
        self.submit(now);
        // A request gets only the room that the first waiting job leaves, and later jobs only the room that requests
        // leave.
        if self.requests.get(self.requested).is_some_and(|request| request.submit == now) {
            self.scheduler.place_first(|job| self.started.push(job));
            // The placement must see jobs that have just started as running.
            self.start(now);
            self.decide(now);
            self.scheduler.place_rest(|job| self.started.push(job));
        } else {
            self.scheduler.schedule(|job| self.started.push(job));
        }
        self.start(now);
    }

    fn end(&mut self, job: u32) {
        let at = job as usize;
        self.scheduler.end(Running {
            expected_end: self.expected_ends[at],
            capacity: self.jobs[at].asked.capacity,
            owner: self.jobs[at].asked.owner.id,
        });
        self.view.end(job);
        self.ended += 1;
        if self.ended.is_multiple_of(REPORT_EVERY) {
            (self.observe)(self.ended);
        }
    }

    /// The owner of a reservation gives back the rest of it.
    fn release(&mut self, request: u32, now: Time) {
        let at = request as usize;
        let Some(start) = self.outcome.requests[at] else { return };
        let span = Span::starting(start, self.requests[at].duration, self.requests[at].processors);
        let interval = Interval::new(start.max(now), span.interval.end);
        self.scheduler.release(Span { interval, ..span });
        if let Some(place) = self.view.reservations.iter().position(|known| *known == span) {
            self.view.reservations.remove(place);
        }
    }

    /// A job has reached its expected end and is not done.
    fn limit(&mut self, job: u32, now: Time) {
        let at = job as usize;
        let Fate::Ran(ran) = &mut self.outcome.jobs[at] else { return };
        let asked = self.jobs[at].asked;
        let late = now - (ran.start + asked.estimate);
        let wanted = now + late.max(FIRST_EXTENSION);
        // Only reservations and other running jobs limit the extension; promises to waiting jobs move.
        self.scheduler.withdraw_promises();
        let blocked = self.scheduler.profile().first_below(now, i64::from(asked.capacity.0));
        let new_end = blocked.map_or(wanted, |(below, _)| wanted.min(below));
        if new_end == now {
            ran.end = now;
            self.outcome.killed += 1;
            self.end(job);
            return;
        }
        let running = Running { expected_end: now, capacity: asked.capacity, owner: asked.owner.id };
        self.scheduler.extend(running, new_end);
        self.expected_ends[at] = new_end;
        let end = ran.end;
        self.expect(job, end);
    }

    fn submit(&mut self, now: Time) {
        while let Some(job) = self.jobs.get(self.submitted).filter(|job| job.asked.submit == now) {
            let key = JobKey(self.submitted as u32);
            // A job that is too wide keeps the initial fate.
            if self.scheduler.submit(key, job.asked).is_ok() {
                self.view.submit(key.0);
            }
            self.submitted += 1;
        }
    }

    fn decide(&mut self, now: Time) {
        while let Some(request) = self.requests.get(self.requested).filter(|request| request.submit == now) {
            let cluster =
                self.view.cluster(&self.scheduler, self.site.capacity, self.jobs, &self.expected_ends);
            let start = self.placement.place(request, &cluster, self.scheduler.profile());
            if let Some(start) = start {
                let span = Span::starting(start, request.duration, request.processors);
                let free = self.scheduler.profile().min_free(span.interval);
                assert!(free >= i64::from(span.capacity.0), "a placement grants only what is free");
                self.scheduler.reserve(span);
                self.view.reservations.push(span);
                self.events.push(span.interval.begin, Event::Reservation);
                self.events.push(span.interval.end, Event::Reservation);
                // Later than the present instant, whose events are over.
                let released = request.released.map(|released| released.max(now + Seconds(1)));
                if let Some(released) = released.filter(|released| *released < span.interval.end) {
                    self.events.push(released, Event::Release(self.requested as u32));
                }
            }
            self.outcome.requests[self.requested] = start;
            self.requested += 1;
        }
    }

    /// Schedules the ends of the jobs that the pass has started.
    fn start(&mut self, now: Time) {
        for at in 0..self.started.len() {
            let JobKey(key) = self.started[at];
            let Job { asked, run } = self.jobs[key as usize];
            self.view.start(key);
            if self.requested < self.requests.len() {
                self.placement.job_started(&asked, now);
            }
            let estimate = asked.estimate.max(Seconds(1));
            let overruns = run > estimate;
            let killed = overruns && self.site.overrun != Overrun::Extend;
            let run = if killed { estimate } else { run };
            self.outcome.killed += usize::from(killed);
            // At least one second, so that the end falls into a later instant than the start.
            self.outcome.jobs[key as usize] = Fate::Ran(Ran { start: now, end: now + run.max(Seconds(1)) });
            self.expected_ends[key as usize] = now + estimate;
            self.expect(key, now + run.max(Seconds(1)));
        }
        self.started.clear();
    }

    /// Schedules the job's end, or the moment at which it outlives its expected end.
    fn expect(&mut self, job: u32, end: Time) {
        let expected = self.expected_ends[job as usize];
        if end <= expected {
            self.events.push(end, Event::End(job));
        } else {
            self.events.push(expected, Event::Limit(job));
        }
    }
}

/// An event at an instant. The order of the variants is the order inside an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The job with this index ends.
    End(u32),
    /// The job with this index reaches its expected end and continues.
    Limit(u32),
    /// The reservation of the request with this index is given back.
    Release(u32),
    /// A reservation begins or ends, so jobs may start.
    Reservation,
}

/// Future events, the earliest first.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Time, Event)>>,
}

impl Events {
    /// Adds an event; several at one instant are allowed.
    pub fn push(&mut self, time: Time, event: Event) {
        self.heap.push(Reverse((time, event)));
    }

    /// Time of the earliest event.
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|&Reverse((time, _))| time)
    }

    /// Removes and returns the next event if it happens at `now`.
    pub fn pop_at(&mut self, now: Time) -> Option<Event> {
        if self.next_time() != Some(now) {
            return None;
        }
        self.heap.pop().map(|Reverse((_, event))| event)
    }
}

/// The lists behind a [`Cluster`], maintained only if `wanted`.
#[derive(Default)]
pub(crate) struct View {
    wanted: bool,
    running: Vec<u32>,
    waiting: Vec<u32>,
    pub(crate) reservations: Vec<Span>,
    running_now: Vec<Running>,
    waiting_now: Vec<Waiting>,
}

impl View {
    pub(crate) fn new(wanted: bool) -> View {
        View { wanted, ..View::default() }
    }

    pub(crate) fn submit(&mut self, job: u32) {
        if self.wanted {
            self.waiting.push(job);
        }
    }

    pub(crate) fn start(&mut self, job: u32) {
        if self.wanted {
            self.waiting.retain(|&waits| waits != job);
            self.running.push(job);
        }
    }

    pub(crate) fn end(&mut self, job: u32) {
        if self.wanted {
            self.running.retain(|&runs| runs != job);
        }
    }

    /// The cluster at the scheduler's time; reservations that are over are forgotten.
    pub(crate) fn cluster(
        &mut self,
        scheduler: &Scheduler,
        capacity: Capacity,
        jobs: &[Job],
        expected_ends: &[Time],
    ) -> Cluster<'_> {
        let now = scheduler.now();
        self.reservations.retain(|span| span.interval.end > now);
        self.running_now.clear();
        self.running_now.extend(self.running.iter().map(|&job| Running {
            expected_end: expected_ends[job as usize],
            capacity: jobs[job as usize].asked.capacity,
            owner: jobs[job as usize].asked.owner.id,
        }));
        self.waiting_now.clear();
        let told = |&job: &u32| scheduler.usage().told(jobs[job as usize].asked);
        self.waiting_now.extend(self.waiting.iter().map(told));
        Cluster {
            capacity,
            now,
            running: &self.running_now,
            waiting: &self.waiting_now,
            reservations: &self.reservations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_instant_come_as_ends_limits_reservations() {
        let mut events = Events::default();
        for event in [Event::Reservation, Event::Limit(0), Event::End(9), Event::End(2)] {
            events.push(Time(5), event);
        }
        events.push(Time(4), Event::Reservation);
        assert_eq!(events.pop_at(Time(5)), None);
        assert_eq!(events.pop_at(Time(4)), Some(Event::Reservation));
        let order: Vec<Event> = std::iter::from_fn(|| events.pop_at(Time(5))).collect();
        assert_eq!(order, [Event::End(2), Event::End(9), Event::Limit(0), Event::Reservation]);
    }
}
