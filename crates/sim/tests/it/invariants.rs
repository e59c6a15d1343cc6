//! Invariants of every schedule under any workload: capacity, kept reservations, and that no later job delays the head
//! of the queue.

use crate::equals_reference::{jobs, order, requests};
use crate::reference::policies;
use bookahead_plan::placement::{Admission, Method, Preference, Rules, SlotRules, Weights};
use bookahead_plan::{Capacity, Cluster, Planner, Policy, Profile, Running, Seconds, Span, Time, Waiting};
use bookahead_sim::{EarliestFit, Fate, Job, Overrun, Ran, Rated, Site, simulate};
use bookahead_tests::cases::cases;
use bookahead_workload::requests::Request;
use proptest::prelude::*;

const CAPACITY: Capacity = Capacity(10);

fn ran(fates: &[Fate]) -> impl Iterator<Item = (usize, Ran)> {
    fates.iter().enumerate().filter_map(|(at, fate)| match fate {
        Fate::Ran(ran) => Some((at, *ran)),
        Fate::TooWide => None,
    })
}

fn reservations(requests: &[Request], granted: &[Option<Time>]) -> Vec<Span> {
    let pairs = requests.iter().zip(granted);
    pairs
        .filter_map(|(request, start)| Some(Span::starting((*start)?, request.duration, request.processors)))
        .collect()
}

/// The planned start of the first waiting job at `now`, from the jobs and grants known then.
fn planned_head(
    now: Time,
    jobs: &[Job],
    fates: &[Fate],
    reservations: &[Span],
    policy: Policy,
) -> Option<(usize, Time)> {
    let mut running = Vec::new();
    let mut waiting: Vec<(usize, Waiting)> = Vec::new();
    for (at, ran) in ran(fates) {
        let asked = jobs[at].asked;
        if asked.submit > now || ran.end <= now {
            continue;
        }
        if ran.start < now {
            running.push(Running {
                expected_end: ran.start + asked.estimate,
                capacity: asked.capacity,
                owner: asked.owner.id,
            });
        } else {
            waiting.push((at, asked));
        }
    }
    waiting.sort_by_key(|(_, job)| (-job.priority, job.submit));
    let queue: Vec<Waiting> = waiting.iter().map(|(_, job)| *job).collect();
    let cluster = Cluster { capacity: CAPACITY, now, running: &running, waiting: &queue, reservations };
    let start = *Planner::new().plan(policy, &cluster).first()?;
    Some((waiting[0].0, start))
}

proptest! {
    #![proptest_config(cases(1_600))]

    #[test]
    fn running_jobs_and_reservations_never_exceed_the_capacity(jobs in jobs(40), requests in requests(10), extend in any::<bool>(), order in order()) {
        let overrun = if extend { Overrun::Extend } else { Overrun::Kill };
        for policy in policies().map(|policy| policy.ordered_by(order)) {
            let outcome = simulate(Site { policy, capacity: CAPACITY, overrun }, &jobs, &requests, &mut EarliestFit, |_| {});
            let mut profile = Profile::new(CAPACITY, Time(0));
            for (at, ran) in ran(&outcome.jobs) {
                prop_assert!(ran.start >= jobs[at].asked.submit && ran.end > ran.start);
                profile.add(jobs[at].completed(ran).span());
            }
            let granted = reservations(&requests, &outcome.requests);
            granted.iter().for_each(|&span| profile.add(span));
            let everything = bookahead_plan::Interval::new(Time(0), Time::MAX);
            prop_assert!(profile.min_free(everything) >= 0);
            for (request, start) in requests.iter().zip(&outcome.requests) {
                if let Some(start) = *start {
                    prop_assert!(request.earliest_start <= start);
                    prop_assert!(start + request.duration <= request.latest_end);
                }
            }
        }
    }

    #[test]
    fn whatever_the_method_reservations_and_jobs_fit_the_machine(jobs in jobs(30), requests in requests(12), policy in 0..4usize, order in order()) {
        let policy = policies()[policy].ordered_by(order);
        let local = Method::EarliestStart { local_jobs_preferred: true };
        for method in [Method::Load, Method::WhatIf(Weights::EVEN), local] {
            let slots = SlotRules { most: 5, gap: Seconds(7), natural: true };
            let rules = Rules { policy, method, slots, admission: Admission::default() };
            let site = Site { policy, capacity: CAPACITY, overrun: Overrun::Kill };
            let mut rated = Rated::new(rules, Preference::BestAvailability);
            let outcome = simulate(site, &jobs, &requests, &mut rated, |_| {});
            let mut profile = Profile::new(CAPACITY, Time(0));
            for (at, ran) in ran(&outcome.jobs) {
                profile.add(jobs[at].completed(ran).span());
            }
            reservations(&requests, &outcome.requests).into_iter().for_each(|span| profile.add(span));
            prop_assert!(profile.min_free(bookahead_plan::Interval::new(Time(0), Time::MAX)) >= 0);
            for (request, start) in requests.iter().zip(&outcome.requests) {
                let inside = |start: Time| {
                    request.earliest_start <= start && start + request.duration <= request.latest_end
                };
                prop_assert!(start.is_none_or(inside));
            }
        }
    }

    #[test]
    fn head_of_queue_is_never_delayed(jobs in jobs(30)) {
        // At every submission the head has a planned start. Later jobs of the same priority cannot delay it beyond
        // that.
        let mut jobs = jobs;
        jobs.iter_mut().for_each(|job| job.asked.priority = 0);
        for policy in policies() {
            let outcome = simulate(Site { policy, capacity: CAPACITY, overrun: Overrun::Kill }, &jobs, &[], &mut EarliestFit, |_| {});
            for at in 0..jobs.len() {
                let now = jobs[at].asked.submit;
                if let Some((head, promised)) = planned_head(now, &jobs, &outcome.jobs, &[], policy) {
                    let Fate::Ran(ran) = outcome.jobs[head] else { unreachable!("a head fits the machine") };
                    prop_assert!(ran.start <= promised, "{policy}: job {head} starts at {} after {promised}", ran.start);
                }
            }
        }
    }

    #[test]
    fn a_plan_is_what_happens_when_all_estimates_are_right(jobs in jobs(30), reserved in requests(8)) {
        // With exact estimates and all jobs and reservations present from the start, plan and run must agree.
        let mut jobs = jobs;
        jobs.retain(|job| job.asked.capacity <= CAPACITY);
        for job in &mut jobs {
            job.asked.submit = Time(0);
            job.asked.estimate = job.run;
        }
        let mut requests = reserved;
        requests.iter_mut().for_each(|request| request.submit = Time(-1));
        for policy in policies() {
            let site = Site { policy, capacity: CAPACITY, overrun: Overrun::Kill };
            let outcome = simulate(site, &jobs, &requests, &mut EarliestFit, |_| {});
            let spans = reservations(&requests, &outcome.requests);
            let waiting: Vec<Waiting> = jobs.iter().map(|job| job.asked).collect();
            let cluster = Cluster { capacity: CAPACITY, now: Time(0), running: &[], waiting: &waiting, reservations: &spans };
            let mut planner = Planner::new();
            let planned = planner.plan(policy, &cluster).to_vec();
            let happened: Vec<Time> = ran(&outcome.jobs).map(|(_, ran)| ran.start).collect();
            prop_assert_eq!(&planned, &happened, "{}", policy);
            // A plan on reused memory must be the same.
            prop_assert_eq!(planner.plan(policy, &cluster), &planned[..]);
        }
    }
}
