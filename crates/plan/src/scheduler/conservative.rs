//! Conservative backfilling without a complete plan.
//!
//! The plan of a pass is a function of running jobs, reservations and the order of the queue: every waiting job in
//! turn takes its earliest start. Which jobs start now is all that a pass must find out, and most of the plan has no
//! say in it:
//! - A job can start now only if it fits now beside running jobs and reservations, and beside every job whose place
//!   in the plan is known: a *candidate*. Without candidates nothing is planned at all.
//! - A job in front of a candidate matters only if its place begins before the candidate would end: within *reach*.
//!   Jobs that are too wide or too long for the room within reach are skipped; the blocks of the queue know their
//!   shortest jobs by width, so whole blocks are skipped at once.
//! - As soon as the candidate does not fit any more, the rest of the queue is not planned.
//!
//! A skipped job has an unknown place, but not before a known time. So the plan is exact until there, and from there on
//! only an upper bound of the free capacity: enough to rule a place out, not to find one. If the start of a candidate
//! depends on what is unknown, it is planned again with a longer reach, and at last without skipping.
//!
//! Places stay valid until something unforeseen happens, as promises do, so the next pass goes on where the last one
//! stopped. All of this is independent of how the queue is ordered; an order that changes with time only has every pass
//! begin at the front.

use super::Scheduler;
use crate::policy::{JobKey, Waiting};
use crate::queue::Room;
use crate::units::{Interval, Seconds, Span, Time};

/// Reach of the plan, in multiples of a candidate's length: at first, and again if that was not enough. After that it
/// is not limited.
const REACH: [i64; 2] = [1, 4];

/// A job that may start now.
#[derive(Clone, Copy)]
struct Candidate {
    at: usize,
    job: Waiting,
}

/// A waiting job and its planned start, later than now.
#[derive(Clone, Copy)]
struct Placed {
    at: usize,
    start: Time,
}

/// The part of the plan that is known.
#[derive(Default)]
pub(super) struct Ahead {
    /// In the order of the queue. Their spans are in the profile.
    placed: Vec<Placed>,
    course: Course,
}

impl Ahead {
    pub(super) fn clear(&mut self) {
        self.placed.clear();
        self.course = Course::default();
    }
}

/// Progress of the plan through the queue.
#[derive(Clone, Copy)]
struct Course {
    /// The next place of the queue.
    next: usize,
    /// Only places that begin before it are searched.
    reach: Time,
    /// Jobs before `next` without a known place begin here at the earliest, so the profile is exact until here.
    exact_until: Time,
    /// Bound of the jobs that may have a place before `reach`.
    room: Room,
}

impl Default for Course {
    fn default() -> Course {
        Course { next: 0, reach: Time::MAX, exact_until: Time::MAX, room: Room::new(u32::MAX) }
    }
}

/// A place depends on jobs that were skipped.
struct Unknown;

impl Scheduler {
    /// Whether every waiting job is promised a start, so that [`Scheduler::plan_ahead`] is used.
    pub(super) fn plans_ahead(&self) -> bool {
        self.policy.promises() == usize::MAX
    }

    /// A pass: starts all jobs whose planned start is now.
    pub(super) fn plan_ahead(&mut self, started: &mut impl FnMut(JobKey)) {
        self.start_due_places(started);
        if self.queue.wants_sweep() {
            self.withdraw_promises();
            self.queue.sweep();
        }
        // Jobs before `next` without a known place begin later than now, unless that time has come.
        let Course { next, exact_until, .. } = self.ahead.course;
        let mut from = if self.now() < exact_until { next } else { 0 };
        while let Some(candidate) = self.next_candidate(from) {
            self.decide(candidate, started);
            from = candidate.at + 1;
        }
    }

    /// The first job from a place of the queue on that fits now beside all known places. Every job that starts now is
    /// one of them: the complete plan has room for it beside all others.
    fn next_candidate(&mut self, mut from: usize) -> Option<Candidate> {
        self.stairs.reset();
        while let Some(room) = self.stairs.room(&self.profile)
            && let Some(at) = self.queue.candidate(from, &room)
        {
            let job = self.queue.get(at);
            if self.stairs.admit(&self.profile, job.capacity, job.estimate) {
                return Some(Candidate { at, job });
            }
            from = at + 1;
        }
        None
    }

    /// Starts the candidate, or finds out that it cannot start.
    fn decide(&mut self, candidate: Candidate, started: &mut impl FnMut(JobKey)) {
        let now = self.now();
        let Course { next, reach, exact_until, .. } = self.ahead.course;
        let known = next > 0 && now + candidate.job.estimate <= reach.min(exact_until);
        if known && self.follow_queue(candidate, started).is_ok() {
            return;
        }
        for factor in REACH {
            self.withdraw_promises();
            let length = candidate.job.estimate.0.saturating_mul(factor);
            self.ahead.course.reach = now + Seconds(length);
            self.narrow_room();
            if self.follow_queue(candidate, started).is_ok() {
                return;
            }
        }
        self.withdraw_promises();
        // Without a limit nothing is skipped, so nothing is unknown.
        let _ = self.follow_queue(candidate, started);
    }

    fn narrow_room(&mut self) {
        let course = &mut self.ahead.course;
        let most = self.profile.max_free(Interval::new(self.profile.origin(), course.reach));
        course.room.narrow(u32::try_from(most.max(0)).unwrap_or(u32::MAX));
    }

    /// Gives every waiting job its place.
    pub(crate) fn place_all(&mut self, started: &mut impl FnMut(JobKey)) {
        self.enqueue_fresh();
        self.withdraw_promises();
        let mut next = 0;
        while let Some(at) = self.queue.next_live(next) {
            let job = self.queue.get(at);
            let start = self.take_earliest(job);
            self.settle(at, start, started);
            next = at + 1;
        }
        self.ahead.course.next = next;
    }

    /// Gives the first waiting job its place.
    pub(super) fn place_front(&mut self, started: &mut impl FnMut(JobKey)) {
        if let Some(at) = self.queue.next_live(0) {
            let job = self.queue.get(at);
            let start = self.take_earliest(job);
            self.settle(at, start, started);
            self.ahead.course.next = at + 1;
        }
    }

    /// Jobs whose place is known, with their planned starts, in the order of the queue.
    pub(super) fn places(&self) -> impl Iterator<Item = (JobKey, Time)> {
        self.ahead.placed.iter().map(|placed| (self.queue.key(placed.at), placed.start))
    }

    pub(super) fn withdraw_places(&mut self) {
        while let Some(Placed { at, start }) = self.ahead.placed.pop() {
            let job = self.queue.get(at);
            self.profile.remove(Span::starting(start, job.estimate, job.capacity));
        }
        self.ahead.course = Course::default();
    }

    /// Adds a job to the queue. Inside of it, the places of later jobs are no longer known.
    pub(super) fn enqueue(&mut self, key: JobKey, job: Waiting) {
        let order = self.policy.order();
        if self.ahead.course.next > 0 && !self.queue.appends(order, &job) {
            self.withdraw_promises();
        }
        self.queue.insert(order, key, job);
    }

    /// The job's capacity is taken in the profile at `start`: starts it now, or remembers its place.
    fn settle(&mut self, at: usize, start: Time, started: &mut impl FnMut(JobKey)) {
        if start == self.now() {
            let (key, job) = self.queue.take(at);
            self.start(key, &job, started);
        } else {
            self.ahead.placed.push(Placed { at, start });
            self.due = self.due.min(start);
        }
    }

    fn start_due_places(&mut self, started: &mut impl FnMut(JobKey)) {
        let now = self.now();
        // The driver skipped a planned start.
        if self.due < now {
            self.withdraw_promises();
        }
        if self.due > now {
            return;
        }
        self.due = Time::MAX;
        let mut placed = std::mem::take(&mut self.ahead.placed);
        placed.retain(|&Placed { at, start }| {
            if start > now {
                self.due = self.due.min(start);
                return true;
            }
            let (key, job) = self.queue.take(at);
            self.start(key, &job, started);
            false
        });
        self.ahead.placed = placed;
    }

    /// Plans in the order of the queue until the candidate has started or does not fit now any more.
    fn follow_queue(
        &mut self,
        candidate: Candidate,
        started: &mut impl FnMut(JobKey),
    ) -> Result<(), Unknown> {
        loop {
            let course = &mut self.ahead.course;
            let Some(at) = self.queue.candidate(course.next, &course.room).filter(|at| *at <= candidate.at)
            else {
                return Ok(());
            };
            if self.queue.next_live(course.next) != Some(at) {
                course.exact_until = course.exact_until.min(course.reach);
            }
            course.next = at + 1;
            let changed = self.place_within_reach(at, started)?;
            if at == candidate.at || (changed && !self.fits_now(&candidate.job)) {
                return Ok(());
            }
        }
    }

    /// Gives the job its place, if that begins within reach and is known. Returns whether it did.
    fn place_within_reach(&mut self, at: usize, started: &mut impl FnMut(JobKey)) -> Result<bool, Unknown> {
        let (job, now) = (self.queue.get(at), self.now());
        let course = &mut self.ahead.course;
        if course.reach == Time::MAX {
            let start = self.take_earliest(job);
            self.settle(at, start, started);
            return Ok(true);
        }
        let deadline = course.reach + job.estimate - Seconds(1);
        let Some(start) = self.profile.earliest_fit(now, job.need(), Some(deadline)) else {
            course.exact_until = course.exact_until.min(course.reach);
            course.room.rule_out(job.capacity.0, job.estimate);
            return Ok(false);
        };
        if start + job.estimate > course.exact_until {
            if start == now {
                return Err(Unknown);
            }
            course.exact_until = course.exact_until.min(start);
            return Ok(false);
        }
        self.profile.add(Span::starting(start, job.estimate, job.capacity));
        self.settle(at, start, started);
        Ok(true)
    }
}
