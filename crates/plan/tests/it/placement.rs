//! Placing requests: the what-if method against a simple one that rebuilds everything for each slot,
//! preferred local jobs, and refusals whose suggestions work.

use bookahead_plan::placement::{
    Admission, Method, Preference, Prober, Reason, Refusal, Relaxation, Request, Rules, Slot, SlotRules,
    Weights,
};
use bookahead_plan::{
    Capacity, Cluster, Interval, Need, Owner, Planner, Policy, Profile, Running, Seconds, Span, Time, Waiting,
};
use bookahead_tests::cases::cases;
use proptest::prelude::*;

const CAPACITY: Capacity = Capacity(10);
const NOW: Time = Time(1_000);

/// A cluster at one moment, with owned lists.
#[derive(Debug, Clone)]
struct State {
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    reservations: Vec<Span>,
}

impl State {
    fn cluster(&self) -> Cluster<'_> {
        Cluster {
            capacity: CAPACITY,
            now: NOW,
            running: &self.running,
            waiting: &self.waiting,
            reservations: &self.reservations,
        }
    }
}

fn states() -> impl Strategy<Value = State> {
    let running = prop::collection::vec((1..5u32, 1..80i64), 0..5);
    let waiting = prop::collection::vec((0..1_000i64, 1..=10u32, 1..60i64), 0..12);
    let reserved = prop::collection::vec((1_000..1_150i64, 1..40i64, 1..6u32), 0..5);
    (running, waiting, reserved).prop_map(|(running, waiting, reserved)| {
        let mut free = Profile::new(CAPACITY, NOW);
        let mut take = |begin: i64, length: i64, capacity: u32| {
            let need = Need { capacity: Capacity(capacity), length: Seconds(length) };
            let fits = free.fits(Time(begin), need);
            let span = Span::starting(Time(begin), Seconds(length), Capacity(capacity));
            if fits {
                free.add(span);
            }
            fits.then_some(span)
        };
        let running: Vec<Running> = running
            .into_iter()
            .filter_map(|(capacity, rest)| take(NOW.0, rest, capacity))
            .map(|span| Running { expected_end: span.interval.end, capacity: span.capacity, owner: 0 })
            .collect();
        let reservations = reserved.into_iter().filter_map(|(b, l, c)| take(b, l, c)).collect();
        let waiting = waiting.into_iter().map(|(submit, capacity, estimate)| Waiting {
            submit: Time(submit),
            estimate: Seconds(estimate),
            capacity: Capacity(capacity),
            priority: 0,
            owner: Owner::NONE,
        });
        State { running, waiting: waiting.collect(), reservations }
    })
}

fn requests() -> impl Strategy<Value = Request> {
    (0..80i64, 1..50i64, 0..120i64, 1..=10u32).prop_map(|(ahead, duration, window, capacity)| Request {
        earliest_start: NOW + Seconds(ahead),
        latest_end: NOW + Seconds(ahead + duration + window),
        duration: Seconds(duration),
        capacity: Capacity(capacity),
    })
}

fn rules(method: Method, admission: Admission) -> Rules {
    let slots = SlotRules { most: 6, gap: Seconds(10), natural: true };
    Rules { policy: Policy::EASY, method, slots, admission }
}

/// Whether the slot has no conflict with running jobs, reservations and the first waiting job; second by
/// second.
fn feasible(state: &State, request: &Request, start: Time) -> bool {
    let head = state.waiting.iter().enumerate().min_by_key(|(at, job)| (job.submit, *at));
    let head_alone = State { waiting: head.map(|(_, job)| *job).into_iter().collect(), ..state.clone() };
    let head_start = Planner::new().plan(Policy::EASY, &head_alone.cluster()).first().copied();
    let held = |instant: Time| {
        let running = state.running.iter().filter(|job| instant < job.expected_end).map(|job| job.capacity.0);
        let reserved = state
            .reservations
            .iter()
            .filter(|span| span.interval.contains(instant))
            .map(|span| span.capacity.0);
        let head = head_start
            .zip(head)
            .filter(|(start, (_, job))| Interval::starting(*start, job.estimate).contains(instant));
        let head = head.map(|(_, (_, job))| job.capacity.0);
        running.chain(reserved).chain(head).sum::<u32>()
    };
    (start.0..(start + request.duration).0).all(|t| held(Time(t)) + request.capacity.0 <= CAPACITY.0)
}

/// Makespan from now, and mean completion time, of a plan.
fn figures(state: &State, starts: &[Time]) -> (f64, f64) {
    let ends = || starts.iter().zip(&state.waiting).map(|(&start, job)| (start + job.estimate, job.submit));
    let makespan = ends().map(|(end, _)| (end - NOW).0).max().unwrap_or(0);
    let sum: i64 = ends().map(|(end, submit)| (end - submit).0).sum();
    (makespan as f64, sum as f64 / starts.len().max(1) as f64)
}

/// The what-if method as in the paper: every plan from scratch.
fn plain_what_if(state: &State, request: &Request, begins: &[Time]) -> Vec<f64> {
    let plan = |state: &State| Planner::new().plan(Policy::EASY, &state.cluster()).to_vec();
    let mut with_job = state.clone();
    with_job.waiting.push(Waiting {
        submit: NOW,
        estimate: request.duration,
        capacity: request.capacity,
        priority: 0,
        owner: Owner::NONE,
    });
    let mut job_plan = plan(&with_job);
    let job_start = job_plan.pop().unwrap();
    let plans: Vec<Vec<(f64, f64)>> = begins
        .iter()
        .map(|&start| {
            let mut plans = Vec::new();
            if feasible(state, request, start) {
                let mut taken = state.clone();
                taken.reservations.push(Span::starting(start, request.duration, request.capacity));
                plans.push(figures(state, &plan(&taken)));
                if start == job_start {
                    plans.push(figures(state, &job_plan));
                }
            }
            plans
        })
        .collect();
    let least = |pick: fn(&(f64, f64)) -> f64| plans.iter().flatten().map(pick).fold(f64::INFINITY, f64::min);
    let (makespan, completion) = (least(|plan| plan.0), least(|plan| plan.1));
    let share = |best: f64, value: f64| if value > 0.0 { best / value } else { 1.0 };
    let rate = |plan: &(f64, f64)| 0.25 * share(makespan, plan.0) + 0.75 * share(completion, plan.1);
    plans.iter().map(|plans| plans.iter().map(rate).fold(0.0, f64::max)).collect()
}

proptest! {
    #![proptest_config(cases(800))]

    #[test]
    fn what_if_equals_rebuilding_everything_for_each_slot(state in states(), request in requests()) {
        let rules = rules(Method::WhatIf(Weights::new(0.25).unwrap()), Admission::default());
        let mut prober = Prober::default();
        // Twice, because memory is reused.
        prober.probe(&rules, &state.cluster(), &request);
        let slots = prober.probe(&rules, &state.cluster(), &request);
        let begins: Vec<Time> = slots.iter().map(|slot| slot.start).collect();
        let plain = plain_what_if(&state, &request, &begins);
        for (slot, plain) in slots.iter().zip(plain) {
            prop_assert!((slot.availability - plain).abs() < 1e-12, "{slot:?} is {plain}");
            prop_assert!((0.0..=1.0 + 1e-12).contains(&slot.availability));
            let in_window = request.earliest_start <= slot.start && slot.start <= request.latest_start();
            prop_assert!(in_window);
        }
    }

    #[test]
    fn with_local_jobs_preferred_no_planned_start_moves(state in states(), request in requests()) {
        let preferred = Method::EarliestStart { local_jobs_preferred: true };
        let by_limit = rules(Method::WhatIf(Weights::EVEN), Admission::LOCAL_JOBS_PREFERRED);
        for rules in [rules(preferred, Admission::default()), by_limit] {
            for policy in [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE] {
                let rules = Rules { policy, ..rules };
                let mut prober = Prober::default();
                let mut slots = prober.probe(&rules, &state.cluster(), &request);
                prober.add_impacts(policy, &state.cluster(), &request, &mut slots);
                let before = prober.planned(policy, &state.cluster()).to_vec();
                for slot in slots.iter().filter(|slot| slot.availability > 0.0) {
                    let mut taken = state.clone();
                    taken.reservations.push(Span::starting(slot.start, request.duration, request.capacity));
                    let after = Planner::new().plan(policy, &taken.cluster()).to_vec();
                    let moved_later = before.iter().zip(&after).any(|(before, after)| after > before);
                    prop_assert!(!moved_later, "{policy}: {before:?} {after:?}");
                    prop_assert!(slot.impact.as_ref().is_some_and(|impact| impact.delayed.is_empty()));
                }
            }
        }
    }

    #[test]
    fn the_earliest_vacancy_is_among_the_slots(state in states(), request in requests()) {
        for local_jobs_preferred in [true, false] {
            let rules = rules(Method::EarliestStart { local_jobs_preferred }, Admission::default());
            let mut prober = Prober::default();
            let slots = prober.probe(&rules, &state.cluster(), &request);
            let room = prober.room(Policy::EASY, &state.cluster(), local_jobs_preferred);
            let earliest = room.earliest_fit(request.earliest_start, request.need(), Some(request.latest_end));
            let found = slots.iter().find(|slot| slot.availability > 0.0).map(|slot| slot.start);
            prop_assert_eq!(found, earliest);
        }
    }

    #[test]
    fn the_advice_of_a_refusal_works(state in states(), request in requests(), limited in any::<bool>()) {
        let method = Method::EarliestStart { local_jobs_preferred: limited };
        let rules = rules(method, Admission::default());
        let mut prober = Prober::default();
        let granted = |prober: &mut Prober, request: &Request| {
            prober.probe(&rules, &state.cluster(), request).iter().any(|slot| slot.availability > 0.0)
        };
        if !granted(&mut prober, &request) {
            let refusal = Refusal::of(&mut prober, &rules, &state.cluster(), &request);
            prop_assert_eq!(refusal.reason, Reason::NoRoom);
            prop_assert!(!refusal.blockers.is_empty());
            prop_assert!(refusal.relaxations.iter().any(|change| matches!(change, Relaxation::Later(_))));
            for change in refusal.relaxations {
                let changed = match change {
                    Relaxation::Later(by) => Request { latest_end: request.latest_end + by, ..request },
                    Relaxation::Shorter(by) => {
                        Request { duration: Seconds(request.duration.0 - by.0), ..request }
                    }
                    Relaxation::Fewer(by) => {
                        Request { capacity: Capacity(request.capacity.0 - by.0), ..request }
                    }
                    Relaxation::Earlier(start) => Request {
                        earliest_start: start,
                        latest_end: start + request.duration,
                        ..request
                    },
                };
                prop_assert!(granted(&mut prober, &changed), "{change:?}");
                // The smallest: with a second or a processor less it would not be granted.
                let almost = match change {
                    Relaxation::Later(by) => {
                        Request { latest_end: request.latest_end + by - Seconds(1), ..request }
                    }
                    Relaxation::Fewer(by) => {
                        Request { capacity: Capacity(request.capacity.0 - by.0 + 1), ..request }
                    }
                    Relaxation::Shorter(by) => {
                        Request { duration: Seconds(request.duration.0 - by.0 + 1), ..request }
                    }
                    Relaxation::Earlier(_) => request,
                };
                prop_assert!(!granted(&mut prober, &almost), "{change:?} is not the smallest");
            }
        }
    }
}

#[test]
fn a_request_that_can_never_be_granted_says_why() {
    let state = State { running: Vec::new(), waiting: Vec::new(), reservations: Vec::new() };
    let rules = rules(Method::WhatIf(Weights::EVEN), Admission::default());
    let mut prober = Prober::default();
    let request = Request {
        earliest_start: Time(1_100),
        latest_end: Time(1_150),
        duration: Seconds(20),
        capacity: Capacity(11),
    };
    let refusal = Refusal::of(&mut prober, &rules, &state.cluster(), &request);
    assert_eq!((refusal.reason, refusal.busy_for), (Reason::TooWide, None));
    assert_eq!(refusal.relaxations, [Relaxation::Fewer(Capacity(1))]);
    let over = Request { earliest_start: Time(0), latest_end: Time(1_010), capacity: Capacity(1), ..request };
    let refusal = Refusal::of(&mut prober, &rules, &state.cluster(), &over);
    assert_eq!(refusal.reason, Reason::NoWindow);
    assert!(refusal.relaxations.contains(&Relaxation::Later(Seconds(10))), "{refusal:?}");
    assert!(refusal.relaxations.contains(&Relaxation::Shorter(Seconds(10))), "{refusal:?}");
}

#[test]
fn an_admission_limit_lies_between_local_jobs_and_reservations_first() {
    // One job waits for the whole machine until 1100; the first in the queue is protected, the second is not.
    let waits = |submit, capacity, estimate| Waiting {
        submit: Time(submit),
        estimate: Seconds(estimate),
        capacity: Capacity(capacity),
        priority: 0,
        owner: Owner::NONE,
    };
    let state = State {
        running: vec![Running { expected_end: Time(1_100), capacity: Capacity(10), owner: 0 }],
        waiting: vec![waits(1, 5, 50), waits(2, 5, 100)],
        reservations: Vec::new(),
    };
    let request = Request {
        earliest_start: Time(1_120),
        latest_end: Time(1_130),
        duration: Seconds(10),
        capacity: Capacity(5),
    };
    let granted = |admission| {
        let rules = rules(Method::WhatIf(Weights::EVEN), admission);
        let slots = Prober::default().probe(&rules, &state.cluster(), &request);
        (slots[0].availability > 0.0, slots[0].impact.clone().unwrap())
    };
    // The second job needs 5 for 100 from 1100 on; with the slot at 1120 it starts at 1130.
    let (free, impact) = granted(Admission::default());
    assert!(free);
    assert_eq!(
        (impact.delayed, impact.total_delay, impact.longest_delay),
        (vec![1], Seconds(30), Seconds(30))
    );
    assert_eq!(impact.makespan_change, Seconds(30));
    let longest = |seconds| Admission { longest_delay: Some(Seconds(seconds)), ..Admission::default() };
    assert!(!granted(Admission::LOCAL_JOBS_PREFERRED).0);
    assert!(!granted(longest(29)).0);
    assert!(granted(longest(30)).0);
}

#[test]
fn slots_are_ranked_by_what_the_requester_prefers() {
    let slot = |start, availability, delay| Slot {
        start: Time(start),
        availability,
        impact: Some(bookahead_plan::placement::Impact { total_delay: Seconds(delay), ..Default::default() }),
    };
    let ranked = |preference: Preference| {
        let mut slots = vec![slot(10, 0.5, 9), slot(20, 0.9, 5), slot(30, 0.0, 0), slot(40, 0.9, 3)];
        preference.rank(&mut slots);
        slots.iter().map(|slot| slot.start.0).collect::<Vec<_>>()
    };
    assert_eq!(ranked(Preference::Earliest), [10, 20, 40]);
    assert_eq!(ranked(Preference::BestAvailability), [20, 40, 10]);
    assert_eq!(ranked(Preference::LeastImpact), [40, 20, 10]);
}
