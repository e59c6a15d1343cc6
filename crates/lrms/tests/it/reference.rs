//! The built-in scheduler in the simplest form: every second everything is computed anew, and free capacity is an
//! array.

use bookahead_party::{Ended, Job, JobState, Work};
use bookahead_plan::{Capacity, Policy, Seconds, Span, Time};
use bookahead_protocol::{JobId, ReservationId};
use std::collections::BTreeMap;

/// Nothing in a test lasts longer.
const HORIZON: i64 = 420;

pub(crate) struct Kept {
    pub(crate) job: Job,
    pub(crate) state: JobState,
    pub(crate) started: Option<i64>,
    pub(crate) ended: Option<i64>,
}

pub(crate) struct Reference {
    pub(crate) policy: Policy,
    pub(crate) capacity: i64,
    pub(crate) lost: i64,
    pub(crate) backings: BTreeMap<ReservationId, Vec<Span>>,
    /// In order of submission.
    pub(crate) jobs: Vec<Kept>,
}

impl Kept {
    fn runs(&self) -> bool {
        self.state == JobState::Running
    }

    fn waits(&self) -> bool {
        self.state == JobState::Waiting
    }

    fn needs(&self) -> i64 {
        i64::from(self.job.capacity.0)
    }

    fn end(&mut self, state: JobState, at: i64) {
        self.state = state;
        self.ended = Some(at);
    }

    fn start(&mut self, at: i64) {
        self.state = JobState::Running;
        self.started = Some(at);
    }
}

impl Reference {
    pub(crate) fn new(policy: Policy, capacity: u32) -> Reference {
        let (jobs, backings) = (Vec::new(), BTreeMap::new());
        Reference { policy, capacity: i64::from(capacity), lost: 0, backings, jobs }
    }

    pub(crate) fn submit(&mut self, job: Job) {
        self.jobs.push(Kept { job, state: JobState::Waiting, started: None, ended: None });
    }

    pub(crate) fn cancel(&mut self, id: JobId, now: i64) {
        let live = |kept: &&mut Kept| kept.job.id == id && !kept.state.is_over();
        if let Some(kept) = self.jobs.iter_mut().find(live) {
            kept.end(JobState::Killed(Ended::Cancelled), now);
        }
    }

    /// Capacity of a reservation at an instant.
    pub(crate) fn room(&self, id: ReservationId, instant: i64) -> i64 {
        let spans = self.backings.get(&id).into_iter().flatten();
        spans
            .filter(|span| span.interval.contains(Time(instant)))
            .map(|span| i64::from(span.capacity.0))
            .sum()
    }

    fn is_over(&self, id: ReservationId, now: i64) -> bool {
        (now..HORIZON).all(|instant| self.room(id, instant) == 0)
    }

    /// Capacity in use by running guests, of one reservation or of all.
    fn used_inside(&self, id: Option<ReservationId>) -> i64 {
        let here =
            |kept: &&Kept| kept.job.reservation.is_some() && (id.is_none() || kept.job.reservation == id);
        self.jobs.iter().filter(here).filter(|kept| kept.runs()).map(Kept::needs).sum()
    }

    /// Free capacity at an instant, by the limits of jobs.
    fn free_at(&self, instant: i64) -> i64 {
        let reserved: i64 = self.backings.keys().map(|id| self.room(*id, instant)).sum();
        let outside = self.jobs.iter().filter(|kept| kept.runs() && kept.job.reservation.is_none());
        let still = outside.filter(|kept| kept.started.unwrap() + kept.job.limit.0 > instant);
        self.capacity - self.lost - reserved - still.map(Kept::needs).sum::<i64>()
    }

    pub(crate) fn step(&mut self, now: i64) {
        self.end_due(now);
        while self.free_at(now) < 0
            && let Some(last) =
                self.jobs.iter_mut().rfind(|kept| kept.runs() && kept.job.reservation.is_none())
        {
            last.end(JobState::Killed(Ended::Displaced), now);
        }
        self.settle_guests(now);
        self.schedule(now);
        if self
            .jobs
            .iter()
            .any(|kept| kept.runs() && kept.job.work == (Work::Pretended { run: Seconds::ZERO }))
        {
            self.step(now);
        }
    }

    fn end_due(&mut self, now: i64) {
        for kept in self.jobs.iter_mut().filter(|kept| kept.runs()) {
            let Work::Pretended { run } = kept.job.work else { unreachable!("only pretended jobs") };
            let (run, in_time) = (run.min(kept.job.limit), run <= kept.job.limit);
            let end = kept.started.unwrap() + run.max(Seconds::ZERO).0;
            if end <= now {
                kept.end(
                    if in_time { JobState::Done { exit: 0 } } else { JobState::Killed(Ended::Limit) },
                    end,
                );
            }
        }
    }

    fn settle_guests(&mut self, now: i64) {
        let mut reservations: Vec<ReservationId> =
            self.jobs.iter().filter_map(|kept| kept.job.reservation).collect();
        reservations.sort();
        reservations.dedup();
        for &id in &reservations {
            while self.used_inside(Some(id)) > self.room(id, now) {
                let last = self.jobs.iter_mut().rfind(|kept| kept.runs() && kept.job.reservation == Some(id));
                last.unwrap().end(JobState::Killed(Ended::ReservationOver), now);
            }
            if self.is_over(id, now) {
                for kept in
                    self.jobs.iter_mut().filter(|kept| kept.waits() && kept.job.reservation == Some(id))
                {
                    kept.end(JobState::Killed(Ended::ReservationOver), now);
                }
            }
        }
        while self.used_inside(None) > self.capacity - self.lost {
            let last = self.jobs.iter_mut().rfind(|kept| kept.runs() && kept.job.reservation.is_some());
            last.unwrap().end(JobState::Killed(Ended::Displaced), now);
        }
        for id in reservations {
            for which in 0..self.jobs.len() {
                let kept = &self.jobs[which];
                let fits = self.used_inside(Some(id)) + kept.needs() <= self.room(id, now);
                let there = self.used_inside(None) + kept.needs() <= self.capacity - self.lost;
                if kept.waits() && kept.job.reservation == Some(id) && fits && there {
                    self.jobs[which].start(now);
                }
            }
        }
    }

    fn schedule(&mut self, now: i64) {
        let mut free: Vec<i64> = (now..HORIZON).map(|instant| self.free_at(instant)).collect();
        let mut promised = 0;
        for kept in self.jobs.iter_mut().filter(|kept| kept.waits() && kept.job.reservation.is_none()) {
            let (needs, limit) = (kept.needs(), kept.job.limit.0 as usize);
            let fits = |free: &[i64], from: usize| {
                from + limit <= free.len() && free[from..from + limit].iter().all(|free| *free >= needs)
            };
            let start = if promised < self.policy.promises() {
                (0..free.len()).find(|from| fits(&free, *from))
            } else if self.policy.backfills() && fits(&free, 0) {
                Some(0)
            } else {
                continue;
            };
            if let Some(start) = start {
                free[start..start + limit].iter_mut().for_each(|free| *free -= needs);
            }
            if start == Some(0) {
                kept.start(now);
            } else {
                promised += 1;
            }
        }
    }

    pub(crate) fn lose(&mut self, capacity: Capacity) {
        self.lost = (self.lost + i64::from(capacity.0)).min(self.capacity);
    }

    pub(crate) fn regain(&mut self, capacity: Capacity) {
        self.lost = (self.lost - i64::from(capacity.0)).max(0);
    }
}
