//! One simulated cluster. Its scheduler knows estimates; only the simulation knows how long jobs really run.
//!
//! At each instant: ends, reservations that begin or end, submissions, then one pass (see
//! [`bookahead_plan::scheduler`]). A request for a reservation is decided in the pass of its submission, by
//! [`Placement`]; what it grants conflicts with no running job, no reservation and not with the first waiting job.
//!
//! It never lets a job run into a reservation: one that is beyond its estimate is extended only as far as there
//! is room.

use bookahead_plan::metrics::Completed;
use bookahead_plan::{
    Capacity, Cluster, JobKey, Need, Policy, Profile, Running, Scheduler, Seconds, Span, Time, Waiting,
};
use bookahead_workload::requests::Request;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The first extension of a job that goes on beyond its estimate; each further one is as long as the job is
/// late already, so that there are few.
const FIRST_EXTENSION: Seconds = Seconds(60);
/// How often the observer hears of progress.
const REPORT_EVERY: usize = 4096;

/// What becomes of a job that runs longer than estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overrun {
    /// It is killed when its estimate is used up, as batch systems do.
    #[default]
    Kill,
    /// It goes on to its end, unless a reservation needs its processors.
    Extend,
}

/// The cluster and its rules.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// How jobs are queued.
    pub policy: Policy,
    /// What there is.
    pub capacity: Capacity,
    /// What becomes of jobs that run longer than estimated.
    pub overrun: Overrun,
}

/// A job to be simulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// What the scheduler gets to know.
    pub asked: Waiting,
    /// How long it would run.
    pub run: Seconds,
}

/// What became of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It ran.
    Ran(Ran),
    /// It needs more than there is.
    TooWide,
}

/// When a job ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// Its start.
    pub start: Time,
    /// Its end.
    pub end: Time,
}

/// What became of a request: the start of the reservation, or None where it was refused.
pub type Granted = Option<Time>;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Of each job, in the order given.
    pub jobs: Vec<Fate>,
    /// Of each request, in the order given.
    pub requests: Vec<Granted>,
    /// Jobs that were killed before their end: by their own estimate, or because a reservation needed their
    /// processors.
    pub killed: usize,
}

impl From<&bookahead_workload::Job> for Job {
    fn from(job: &bookahead_workload::Job) -> Job {
        let asked =
            Waiting { submit: job.submit, estimate: job.request, capacity: job.processors, priority: 0 };
        Job { asked, run: job.run }
    }
}

impl Job {
    /// The record of a job that ran, for figures.
    pub fn completed(&self, ran: Ran) -> Completed {
        let Waiting { submit, estimate, capacity, .. } = self.asked;
        Completed { submit, start: ran.start, end: ran.end, estimate, capacity }
    }
}

/// Decides on requests for reservations: step 2 of a pass.
pub trait Placement {
    /// Where the request is placed, or None where it is refused. `cluster` is what is known at this moment; `profile`
    /// has the room that running jobs, reservations and the first waiting job leave.
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time>;

    /// Told of every job that starts, and when: history, for those who predict waits from it.
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
/// requests. `observe` hears from time to time how many jobs have ended.
///
/// # Panics
/// Where jobs or requests are not in order, or are more than 2^32, or where `placement` grants what conflicts: the
/// caller's mistake, not the trace's.
pub fn simulate(
    site: Site,
    jobs: &[Job],
    requests: &[Request],
    placement: &mut impl Placement,
    observe: impl FnMut(usize),
) -> Outcome {
    assert!(jobs.is_sorted_by_key(|job| job.asked.submit), "jobs are in the order of submission");
    assert!(requests.is_sorted_by_key(|request| request.submit), "requests are in the order of submission");
    assert!(u32::try_from(jobs.len()).is_ok(), "fewer than 2^32 jobs");
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

/// A simulation under way.
struct Run<'a, P, O> {
    site: Site,
    jobs: &'a [Job],
    requests: &'a [Request],
    placement: &'a mut P,
    observe: O,
    scheduler: Scheduler,
    events: Events,
    /// Started in the pass under way.
    started: Vec<JobKey>,
    /// Until when each running job is expected to run.
    expected_ends: Vec<Time>,
    /// What a placement gets to see; kept only where there are requests.
    view: View,
    submitted: usize,
    requested: usize,
    ended: usize,
    outcome: Outcome,
}

impl<P: Placement, O: FnMut(usize)> Run<'_, P, O> {
    /// When something happens next.
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
                Event::Reservation => {}
            }
        }
        self.submit(now);
        if self.requests.get(self.requested).is_some_and(|request| request.submit == now) {
            self.scheduler.place_first(|job| self.started.push(job));
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
        self.scheduler
            .end(Running { expected_end: self.expected_ends[at], capacity: self.jobs[at].asked.capacity });
        self.view.end(job);
        self.ended += 1;
        if self.ended.is_multiple_of(REPORT_EVERY) {
            (self.observe)(self.ended);
        }
    }

    /// The job has used up what it was expected to take, and is not done.
    fn limit(&mut self, job: u32, now: Time) {
        let at = job as usize;
        let Fate::Ran(ran) = &mut self.outcome.jobs[at] else { return };
        let asked = self.jobs[at].asked;
        let late = now - (ran.start + asked.estimate);
        let wanted = now + late.max(FIRST_EXTENSION);
        self.scheduler.withdraw_promises();
        let blocked = self.scheduler.profile().first_below(now, i64::from(asked.capacity.0));
        let new_end = blocked.map_or(wanted, |(below, _)| wanted.min(below));
        if new_end == now {
            ran.end = now;
            self.outcome.killed += 1;
            self.end(job);
            return;
        }
        let running = Running { expected_end: now, capacity: asked.capacity };
        self.scheduler.extend(running, new_end);
        self.expected_ends[at] = new_end;
        let end = ran.end;
        self.expect(job, end);
    }

    fn submit(&mut self, now: Time) {
        while let Some(job) = self.jobs.get(self.submitted).filter(|job| job.asked.submit == now) {
            let key = JobKey(self.submitted as u32);
            // One that is too wide keeps the fate that all begin with.
            if self.scheduler.submit(key, job.asked).is_ok() {
                self.view.submit(key.0);
            }
            self.submitted += 1;
        }
    }

    fn decide(&mut self, now: Time) {
        while let Some(request) = self.requests.get(self.requested).filter(|request| request.submit == now) {
            let cluster = self.view.cluster(now, self.site.capacity, self.jobs, &self.expected_ends);
            let start = self.placement.place(request, &cluster, self.scheduler.profile());
            if let Some(start) = start {
                let span = Span::starting(start, request.duration, request.processors);
                let free = self.scheduler.profile().min_free(span.interval);
                assert!(free >= i64::from(span.capacity.0), "a placement grants only what is free");
                self.scheduler.reserve(span);
                self.view.reservations.push(span);
                self.events.push(span.interval.begin, Event::Reservation);
                self.events.push(span.interval.end, Event::Reservation);
            }
            self.outcome.requests[self.requested] = start;
            self.requested += 1;
        }
    }

    /// Lets the jobs run that the pass has started.
    fn start(&mut self, now: Time) {
        for at in 0..self.started.len() {
            let JobKey(key) = self.started[at];
            let Job { asked, run } = self.jobs[key as usize];
            self.view.start(key);
            self.placement.job_started(&asked, now);
            let estimate = asked.estimate.max(Seconds(1));
            let overruns = run > estimate;
            let run = if overruns && self.site.overrun == Overrun::Kill { estimate } else { run };
            self.outcome.killed += usize::from(overruns && self.site.overrun == Overrun::Kill);
            self.outcome.jobs[key as usize] = Fate::Ran(Ran { start: now, end: now + run.max(Seconds(1)) });
            self.expected_ends[key as usize] = now + estimate;
            self.expect(key, now + run.max(Seconds(1)));
        }
        self.started.clear();
    }

    /// Books the job's end, or the moment at which it outlives its expected end.
    fn expect(&mut self, job: u32, end: Time) {
        let expected = self.expected_ends[job as usize];
        if end <= expected {
            self.events.push(end, Event::End(job));
        } else {
            self.events.push(expected, Event::Limit(job));
        }
    }
}

/// Something that happens at an instant. The order of the variants is the order inside an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Event {
    /// The job with this index ends.
    End(u32),
    /// The job with this index has run for as long as expected and goes on.
    Limit(u32),
    /// A reservation begins or ends.
    Reservation,
}

/// The events to come.
#[derive(Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<(Time, Event)>>,
}

impl Events {
    /// Adds an event.
    pub fn push(&mut self, time: Time, event: Event) {
        self.heap.push(Reverse((time, event)));
    }

    /// When something happens next.
    pub fn next_time(&self) -> Option<Time> {
        self.heap.peek().map(|&Reverse((time, _))| time)
    }

    /// Takes the next event if it happens at `now`.
    pub fn pop_at(&mut self, now: Time) -> Option<Event> {
        if self.next_time() != Some(now) {
            return None;
        }
        self.heap.pop().map(|Reverse((_, event))| event)
    }
}

/// The lists behind a [`Cluster`], kept up to date where they are wanted.
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

    /// The cluster at `now`; reservations that are over are forgotten.
    pub(crate) fn cluster(
        &mut self,
        now: Time,
        capacity: Capacity,
        jobs: &[Job],
        expected_ends: &[Time],
    ) -> Cluster<'_> {
        self.reservations.retain(|span| span.interval.end > now);
        self.running_now.clear();
        self.running_now.extend(self.running.iter().map(|&job| Running {
            expected_end: expected_ends[job as usize],
            capacity: jobs[job as usize].asked.capacity,
        }));
        self.waiting_now.clear();
        self.waiting_now.extend(self.waiting.iter().map(|&job| jobs[job as usize].asked));
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
