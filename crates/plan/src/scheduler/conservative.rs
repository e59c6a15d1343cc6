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
//! A skipped job has an unknown place, but not before a known time, the *horizon*. The plan is exact until there, and
//! from there on only an upper bound of the free capacity: enough to rule a place out, not to find one. Jobs that cannot
//! begin before the horizon change nothing, so they are skipped too. If the start of a candidate depends on what is
//! unknown, it is planned again with a longer reach, and at last without skipping.
//!
//! Candidates are decided in the order of the queue, so no job in front of one starts now, and its place is searched only
//! later than now. Places are taken in a [flat copy](Flat) of the profile, which is dropped when the plan is.
//!
//! Places stay valid until something unforeseen happens, as promises do, so the next pass goes on where the last one
//! stopped. All of this is independent of how the queue is ordered; an order that changes with time only has every pass
//! begin at the front.

use super::Scheduler;
use crate::bound::{DROPS, Limits, Room, amount, cut_off};
use crate::policy::{JobKey, Waiting};
use crate::profile::Flat;
use crate::units::{Seconds, Span, Time};

/// Reach of the plan, in multiples of a candidate's length: at first, and each time again if that was not enough. A plan
/// of the whole queue costs the square of its length, so it is only the last resort.
const REACH: [i64; 5] = [1, 4, 16, 64, 256];

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
    /// In the order of the queue.
    placed: Vec<Placed>,
    /// Number of `placed` whose spans are in the profile of the scheduler.
    in_profile: usize,
    /// The profile with all places, if it was needed.
    plan: Flat,
    course: Course,
}

impl Ahead {
    pub(super) fn clear(&mut self) {
        self.placed.clear();
        self.in_profile = 0;
        self.plan.clear();
        self.course.clear();
    }

    /// Whether there is a plan, which must be dropped if the profile changes in an unforeseen way.
    pub(super) fn has_plan(&self) -> bool {
        !self.plan.is_empty()
    }
}

/// Progress of the plan through the queue.
struct Course {
    /// The next place of the queue.
    next: usize,
    /// Jobs that cannot begin before it are skipped.
    reach: Time,
    /// Jobs before `next` without a known place begin here at the earliest, so the plan is exact until here.
    horizon: Time,
    /// Bound of the jobs that may have a place before both.
    room: Limits,
}

impl Default for Course {
    fn default() -> Course {
        Course { next: 0, reach: Time::MAX, horizon: Time::MAX, room: Limits::default() }
    }
}

impl Course {
    fn clear(&mut self) {
        let Course { next, reach, horizon, room } = self;
        (*next, *reach, *horizon) = (0, Time::MAX, Time::MAX);
        room.clear();
    }

    /// Notes that a job cannot begin within reach.
    fn skip(&mut self) {
        self.horizon = self.horizon.min(self.reach);
    }

    /// Forgets which jobs were ruled out.
    fn renew_room(&mut self, plan: &Flat) {
        let until = self.horizon.min(self.reach);
        self.room.clear();
        if until < Time::MAX {
            self.room.narrow(plan.most_free(until));
        }
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
        let Course { next, horizon, .. } = self.ahead.course;
        let mut from = if self.now() < horizon { next } else { 0 };
        while let Some(candidate) = self.next_candidate(from) {
            self.decide(candidate, started);
            from = candidate.at + 1;
        }
    }

    /// Whether a job fits now beside all known places.
    pub(super) fn fits_beside_places(&mut self, job: &Waiting) -> bool {
        if i64::from(job.capacity.0) > self.profile.free_now() {
            return false;
        }
        self.update_plan();
        self.ahead.plan.fits_now(job.need())
    }

    /// Lets the plan begin now, with the known places.
    fn update_plan(&mut self) {
        if self.ahead.plan.is_empty() {
            self.ahead.plan.copy_from(&self.profile);
        }
        self.ahead.plan.advance(self.profile.origin());
    }

    /// The first job from a place of the queue on that fits now beside all known places. Every job that starts now is
    /// one of them: the complete plan has room for it beside all others.
    fn next_candidate(&mut self, mut from: usize) -> Option<Candidate> {
        let now = self.now();
        let room = Room::new(amount(self.profile.free_now()));
        from = self.queue.candidate(from, &room)?;
        self.update_plan();
        let plan = &self.ahead.plan;
        let mut room = Room::new(plan.free_now());
        plan.drops().take(DROPS).for_each(|(time, free)| room.drop_to(cut_off((time - now).0), free));
        while let Some(at) = self.queue.candidate(from, &room) {
            let job = self.queue.get(at);
            if plan.fits_now(job.need()) {
                return Some(Candidate { at, job });
            }
            from = at + 1;
        }
        None
    }

    /// Starts the candidate, or finds out that it cannot start.
    fn decide(&mut self, candidate: Candidate, started: &mut impl FnMut(JobKey)) {
        let now = self.now();
        let &Course { next, reach, horizon, .. } = &self.ahead.course;
        let known = next > 0 && now + candidate.job.estimate <= reach.min(horizon);
        if known && self.follow_queue(candidate, started).is_ok() {
            return;
        }
        for factor in REACH {
            let length = candidate.job.estimate.0.saturating_mul(factor);
            self.plan_anew(now + Seconds(length));
            if self.follow_queue(candidate, started).is_ok() {
                return;
            }
        }
        self.plan_anew(Time::MAX);
        // Without a limit nothing is skipped, so nothing is unknown.
        let _ = self.follow_queue(candidate, started);
    }

    /// Drops the plan, to begin another one that reaches until a time.
    fn plan_anew(&mut self, reach: Time) {
        self.withdraw_promises();
        let Ahead { plan, course, .. } = &mut self.ahead;
        plan.copy_from(&self.profile);
        course.reach = reach;
        course.renew_room(plan);
    }

    /// Gives every waiting job its place.
    pub(crate) fn place_all(&mut self, started: &mut impl FnMut(JobKey)) {
        self.enqueue_fresh();
        self.withdraw_promises();
        while self.place_next(started) {}
    }

    /// Gives the first waiting job its place.
    pub(super) fn place_front(&mut self, started: &mut impl FnMut(JobKey)) {
        self.place_next(started);
    }

    /// Gives the next waiting job its place, in the profile. Returns whether there is one.
    fn place_next(&mut self, started: &mut impl FnMut(JobKey)) -> bool {
        let Some(at) = self.queue.next_live(self.ahead.course.next) else {
            return false;
        };
        self.ahead.course.next = at + 1;
        let start = self.take_earliest(self.queue.get(at));
        if start == self.now() {
            let (key, job) = self.queue.take(at);
            self.start(key, &job, started);
        } else {
            self.keep_place(Placed { at, start });
            self.ahead.in_profile += 1;
        }
        true
    }

    fn keep_place(&mut self, placed: Placed) {
        self.ahead.placed.push(placed);
        self.due = self.due.min(placed.start);
    }

    /// Jobs whose place is known, with their planned starts, in the order of the queue.
    pub(super) fn places(&self) -> impl Iterator<Item = (JobKey, Time)> {
        self.ahead.placed.iter().map(|placed| (self.queue.key(placed.at), placed.start))
    }

    pub(super) fn withdraw_places(&mut self) {
        for Placed { at, start } in self.ahead.placed.drain(..).take(self.ahead.in_profile) {
            let job = self.queue.get(at);
            self.profile.remove(Span::starting(start, job.estimate, job.capacity));
        }
        self.ahead.clear();
    }

    /// Adds a job to the queue. Inside of it, the places of later jobs are no longer known.
    pub(super) fn enqueue(&mut self, key: JobKey, job: Waiting) {
        let order = self.policy.order();
        if self.ahead.course.next > 0 && !self.queue.appends(order, &job) {
            self.withdraw_promises();
        }
        self.queue.insert(order, key, job);
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
        let (mut visited, in_profile) = (0, self.ahead.in_profile);
        placed.retain(|&Placed { at, start }| {
            visited += 1;
            if start > now {
                self.due = self.due.min(start);
                return true;
            }
            let (key, job) = self.queue.take(at);
            if visited <= in_profile {
                self.ahead.in_profile -= 1;
            } else {
                self.profile.add(Span::starting(now, job.estimate, job.capacity));
            }
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
        let need = candidate.job.need();
        let end = self.now() + candidate.job.estimate;
        loop {
            let next = self.ahead.course.next;
            let at = self.queue.candidate(next, &self.ahead.course.room).unwrap_or(usize::MAX);
            if at >= candidate.at {
                break;
            }
            if at > next && self.queue.next_live(next) != Some(at) {
                self.ahead.course.skip();
            }
            self.ahead.course.next = at + 1;
            if self.place_before_horizon(at, need.capacity.0) && !self.ahead.plan.fits_now(need) {
                return Ok(());
            }
        }
        if self.queue.next_live(self.ahead.course.next) != Some(candidate.at) {
            self.ahead.course.skip();
        }
        self.ahead.course.next = candidate.at + 1;
        if end > self.ahead.course.horizon {
            return Err(Unknown);
        }
        // The end of the candidate is a new step, at which jobs may fit that were ruled out.
        let Ahead { plan, course, .. } = &mut self.ahead;
        plan.add_now(need);
        course.renew_room(plan);
        let (key, job) = self.queue.take(candidate.at);
        self.profile.add(Span::starting(self.now(), job.estimate, job.capacity));
        self.start(key, &job, started);
        Ok(())
    }

    /// Gives the job its place, later than now, if that begins before the horizon and is known. Returns whether less
    /// than `watched` is free during its place then.
    fn place_before_horizon(&mut self, at: usize, watched: u32) -> bool {
        let job = self.queue.get(at);
        let Ahead { plan, course, .. } = &mut self.ahead;
        let steps = match plan.earliest_later(job.need(), course.horizon.min(course.reach)) {
            Ok(steps) => steps,
            Err(longest) => {
                course.skip();
                if course.reach < Time::MAX {
                    course.room.limit(job.capacity.0, longest);
                }
                return false;
            }
        };
        let start = plan.time(steps.start);
        if start + job.estimate > course.horizon {
            course.horizon = start;
            course.room.narrow(plan.most_free(start));
            return false;
        }
        let less = plan.add(steps, job.need(), watched);
        self.keep_place(Placed { at, start });
        less
    }
}
