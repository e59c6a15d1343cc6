//! Rates slots. Plans the queue as often as the method needs, with memory that is reused between probes.

use super::impact::{Admission, Impact, SlotRules, last_end, workload_end};
use super::{Method, Request, Slot, Weights};
use crate::planner::{Cluster, Planner};
use crate::policy::{Owner, Policy, Waiting};
use crate::profile::Profile;
use crate::units::{Seconds, Span, Time};

/// A site's rules for probes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rules {
    /// Its queueing policy.
    pub policy: Policy,
    /// How slots are rated.
    pub method: Method,
    /// Which starts are tried.
    pub slots: SlotRules,
    /// Limits on the effect on waiting jobs.
    pub admission: Admission,
}

/// A request, the cluster and its policy.
#[derive(Clone, Copy)]
struct Question<'a> {
    policy: Policy,
    cluster: &'a Cluster<'a>,
    request: &'a Request,
}

/// Figures of a plan for the what-if method, in seconds.
#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Last planned end, from now.
    makespan: f64,
    /// Mean time from submission to planned end.
    completion: f64,
}

/// A prober with reusable memory.
#[derive(Default)]
pub struct Prober {
    planner: Planner,
    room: Option<Profile>,
    begins: Vec<Time>,
    /// Planned starts of the waiting jobs without the request.
    original: Vec<Time>,
    reservations: Vec<Span>,
    waiting: Vec<Waiting>,
    looked_until: Time,
}

impl Prober {
    /// The slots for `request` at this moment, by start, rated. A slot with availability 0 is not available.
    pub fn probe(&mut self, rules: &Rules, cluster: &Cluster<'_>, request: &Request) -> Vec<Slot> {
        let mut room = self.room.take().unwrap_or_else(|| Profile::new(cluster.capacity, cluster.now));
        room.copy_from(self.planner.room(rules.policy, cluster));
        rules.slots.starts(request, cluster.now, &room, &mut self.begins);
        self.prepare(rules, cluster);
        let slots = match rules.method {
            Method::EarliestStart { local_jobs_preferred: true } => {
                let vacancies = self.vacancies(cluster);
                self.rate(rules, cluster, request, &vacancies)
            }
            _ => self.rate(rules, cluster, request, &room),
        };
        self.room = Some(room);
        slots
    }

    /// As [`Prober::probe`], for callers that have a profile of the resource. Rates `begins`, which must be
    /// ascending, and the start that the method itself finds. `room` is the capacity left by running jobs,
    /// all reservations and the first waiting job, or all planned jobs if the method prefers local jobs.
    /// `cluster` must contain the reservations that start before [`Prober::looked_until`]; later ones make no
    /// difference.
    pub fn probe_in(
        &mut self,
        room: &Profile,
        rules: &Rules,
        cluster: &Cluster<'_>,
        request: &Request,
        begins: &[Time],
    ) -> Vec<Slot> {
        self.begins.clear();
        self.begins.extend_from_slice(begins);
        self.prepare(rules, cluster);
        self.rate(rules, cluster, request, room)
    }

    /// The last instant that the plans of the last call depend on: reservations that start later would not
    /// have changed them. A plan is made from the front: each job gets the first start that fits its whole
    /// estimate. A reservation that starts after the end of all planned jobs blocks none of these starts, and
    /// makes no earlier one fit. [`Time::MAX`] if jobs wait in an order that changes with time.
    pub fn looked_until(&self) -> Time {
        self.looked_until
    }

    fn rate(&mut self, rules: &Rules, cluster: &Cluster<'_>, request: &Request, room: &Profile) -> Vec<Slot> {
        let question = Question { policy: rules.policy, cluster, request };
        let mut slots = match rules.method {
            Method::Load => self.by_load(cluster, request, room),
            Method::EarliestStart { .. } => {
                let from = request.earliest_start.max(cluster.now);
                self.add_begin(room.earliest_fit(from, request.need(), Some(request.latest_end)));
                self.rate_by(|start| room.fits(start, request.need()))
            }
            Method::WhatIf(weights) => self.by_plans(weights, question, room),
        };
        if !rules.admission.is_unlimited() {
            self.admit(&rules.admission, question, &mut slots);
        }
        slots
    }

    /// Adds the effect on waiting jobs to each available slot that does not have it yet.
    pub fn add_impacts(
        &mut self,
        policy: Policy,
        cluster: &Cluster<'_>,
        request: &Request,
        slots: &mut [Slot],
    ) {
        self.looked_until = cluster.now;
        self.plan_original(policy, cluster);
        for slot in slots.iter_mut().filter(|slot| slot.availability > 0.0 && slot.impact.is_none()) {
            let question = Question { policy, cluster, request };
            slot.impact = Some(self.impact_beside_original(question, slot.start));
        }
    }

    /// The capacity available to a reservation; with `all_jobs`, the part of it that planned jobs leave.
    pub fn room(&mut self, policy: Policy, cluster: &Cluster<'_>, all_jobs: bool) -> Profile {
        if !all_jobs {
            return self.planner.room(policy, cluster).clone();
        }
        self.plan_original(policy, cluster);
        self.vacancies(cluster)
    }

    /// Planned starts of the waiting jobs without a request.
    pub fn planned(&mut self, policy: Policy, cluster: &Cluster<'_>) -> &[Time] {
        self.looked_until = cluster.now;
        self.plan_original(policy, cluster);
        &self.original
    }

    fn prepare(&mut self, rules: &Rules, cluster: &Cluster<'_>) {
        self.looked_until = cluster.now;
        // These methods need no plan of the queue, which is the expensive part of a probe.
        let planless =
            matches!(rules.method, Method::Load | Method::EarliestStart { local_jobs_preferred: false });
        if !(planless && rules.admission.is_unlimited()) {
            self.plan_original(rules.policy, cluster);
        }
    }

    fn plan_original(&mut self, policy: Policy, cluster: &Cluster<'_>) {
        self.original.clear();
        self.original.extend_from_slice(self.planner.plan(policy, cluster));
        self.look_at_ends(policy, cluster.waiting);
    }

    /// Updates `looked_until` with the ends in the last plan.
    fn look_at_ends(&mut self, policy: Policy, waiting: &[Waiting]) {
        // A job may be promised a later start than it finally gets, because the order changes in between.
        if policy.order().changes_with_time() && !waiting.is_empty() {
            self.looked_until = Time::MAX;
            return;
        }
        let planned = self.planner.last_plan().iter().zip(waiting).filter(|(start, _)| **start < Time::MAX);
        let ends = planned.map(|(&start, job)| start + job.estimate.max(Seconds(1)));
        self.looked_until = ends.max().unwrap_or(self.looked_until).max(self.looked_until);
    }

    fn by_load(&mut self, cluster: &Cluster<'_>, request: &Request, room: &Profile) -> Vec<Slot> {
        let end = workload_end(cluster);
        self.looked_until = self.looked_until.max(end);
        self.rate_by(|start| start >= end && room.fits(start, request.need()))
    }

    fn rate_by(&self, good: impl Fn(Time) -> bool) -> Vec<Slot> {
        let slot =
            |&start: &Time| Slot { start, availability: f64::from(u8::from(good(start))), impact: None };
        self.begins.iter().map(slot).collect()
    }

    fn add_begin(&mut self, begin: Option<Time>) {
        if let Some(begin) = begin
            && let Err(at) = self.begins.binary_search(&begin)
        {
            self.begins.insert(at, begin);
        }
    }

    /// Capacity left by running jobs, reservations and all planned jobs.
    fn vacancies(&self, cluster: &Cluster<'_>) -> Profile {
        let mut profile = Profile::new(cluster.capacity, cluster.now);
        for running in cluster.running {
            let length = (running.expected_end - cluster.now).max(Seconds(1));
            profile.add(Span::starting(cluster.now, length, running.capacity));
        }
        cluster.reservations.iter().for_each(|&span| profile.add(span));
        for (&start, job) in self.original.iter().zip(cluster.waiting) {
            // Same minimum of one second as in the scheduler.
            profile.add(Span::starting(start, job.estimate.max(Seconds(1)), job.capacity));
        }
        profile
    }

    fn by_plans(&mut self, weights: Weights, question: Question<'_>, room: &Profile) -> Vec<Slot> {
        let Question { cluster, request, .. } = question;
        let fits = |start: Time| room.fits(start, request.need());
        let as_job = self.plan_as_job(question);
        let as_job = as_job.filter(|&(start, _)| {
            let in_window = request.earliest_start <= start && start <= request.latest_start();
            in_window && fits(start)
        });
        // Its start as a job may lie between the tried ones, and is rated too.
        self.add_begin(as_job.map(|(start, _)| start));
        let mut slots = Vec::with_capacity(self.begins.len());
        let mut plans = Vec::with_capacity(self.begins.len());
        for at in 0..self.begins.len() {
            let start = self.begins[at];
            let feasible = fits(start);
            let impact = feasible.then(|| self.impact_beside_original(question, start));
            let planned = feasible.then(|| figures(cluster, self.planner.last_plan()));
            let job = as_job.filter(|&(begin, _)| begin == start).map(|(_, figures)| figures);
            slots.push(Slot { start, availability: 0.0, impact });
            plans.push([planned, job]);
        }
        let considered = || plans.iter().flatten().flatten();
        let least = |value: fn(&Figures) -> f64| considered().map(value).fold(f64::INFINITY, f64::min);
        let (makespan, completion) = (least(|plan| plan.makespan), least(|plan| plan.completion));
        for (slot, plans) in slots.iter_mut().zip(&plans) {
            // At the start that the request would get as a job, the better of its two plans counts.
            let rated = plans.iter().flatten().map(|plan| {
                weights.makespan * share(makespan, plan.makespan)
                    + (1.0 - weights.makespan) * share(completion, plan.completion)
            });
            slot.availability = rated.fold(0.0, f64::max);
        }
        slots
    }

    /// The start of the request if it were submitted as a job now, and the figures of that plan.
    fn plan_as_job(&mut self, question: Question<'_>) -> Option<(Time, Figures)> {
        let Question { policy, cluster, request } = question;
        let (submit, estimate, capacity) = (cluster.now, request.duration, request.capacity);
        let job = Waiting { submit, estimate, capacity, priority: 0, owner: Owner::NONE };
        self.waiting.clear();
        self.waiting.extend_from_slice(cluster.waiting);
        self.waiting.push(job);
        let with_job = Cluster { waiting: &self.waiting, ..*cluster };
        self.planner.plan(policy, &with_job);
        // Moved out and back, because `self` is borrowed in between. Keeps its memory.
        let waiting = std::mem::take(&mut self.waiting);
        self.look_at_ends(policy, &waiting);
        self.waiting = waiting;
        let (&start, others) = self.planner.last_plan().split_last()?;
        (start < Time::MAX).then(|| (start, figures(cluster, others)))
    }

    /// Plans the queue with the slot taken, and compares it with the original plan.
    fn impact_beside_original(&mut self, question: Question<'_>, start: Time) -> Impact {
        let Question { policy, cluster, request } = question;
        let slot = Span::starting(start, request.duration, request.capacity);
        self.reservations.clear();
        self.reservations.extend_from_slice(cluster.reservations);
        self.reservations.push(slot);
        let taken = Cluster { reservations: &self.reservations, ..*cluster };
        self.planner.plan(policy, &taken);
        self.look_at_ends(policy, cluster.waiting);
        Impact::of(cluster, &self.original, self.planner.last_plan(), slot)
    }

    fn admit(&mut self, admission: &Admission, question: Question<'_>, slots: &mut [Slot]) {
        for slot in slots.iter_mut().filter(|slot| slot.availability > 0.0) {
            let planned = slot.impact.take();
            let impact = planned.unwrap_or_else(|| self.impact_beside_original(question, slot.start));
            if !admission.allows(&impact) {
                slot.availability = 0.0;
            }
            slot.impact = Some(impact);
        }
    }
}

fn figures(cluster: &Cluster<'_>, starts: &[Time]) -> Figures {
    let makespan = (last_end(cluster, starts) - cluster.now).0 as f64;
    let (mut sum, mut count) = (0i128, 0u32);
    for (&start, job) in starts.iter().zip(cluster.waiting).filter(|(start, _)| **start < Time::MAX) {
        sum += i128::from((start + job.estimate - job.submit).0);
        count += 1;
    }
    Figures { makespan, completion: sum as f64 / f64::from(count.max(1)) }
}

/// Ratio to the best; 1 if there is nothing to compare.
fn share(best: f64, value: f64) -> f64 {
    if value > 0.0 { best / value } else { 1.0 }
}
