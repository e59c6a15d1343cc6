//! Placing requests: a probe on a queue of 1,000 jobs, a run with what-if compared with a plain EASY run of the same
//! workload and with a plain loop, and what-if compared with an implementation that rebuilds everything for each slot.

use bookahead_benches::{
    Chance, Guard, Outcome, Report, bare_easy, guard, in_turn, nanoseconds, people, timed,
};
use bookahead_plan::placement::{Admission, Method, Preference, Prober, Request, Rules, SlotRules, Weights};
use bookahead_plan::{Capacity, Cluster, Owner, Policy, Running, Seconds, Span, Time, Waiting};
use bookahead_sim::{EarliestFit, Job, Overrun, Rated, Site, simulate};
use bookahead_workload::models::{Lublin, Setting};
use bookahead_workload::requests::{Selection, select};
use std::hint::black_box;
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(800);
const MACHINE: Capacity = Capacity(144);
const NOW: Time = Time(1_000_000);

pub(crate) fn main() -> Report {
    guard("placement", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    if guard.wants("probe") {
        probes(guard);
    }
    if guard.wants("run") {
        runs(guard);
    }
    Ok(())
}

fn rules(method: Method, admission: Admission) -> Rules {
    let slots = SlotRules { most: 20, gap: Seconds(900), natural: false };
    Rules { policy: Policy::EASY, method, slots, admission }
}

fn probes(guard: &mut Guard) {
    let chance = &mut Chance::new(5);
    let size = |chance: &mut Chance| Capacity(1 << chance.below(7).min(chance.below(7)));
    let running: Vec<Running> = (0..30)
        .map(|_| Running {
            expected_end: NOW + Seconds(chance.between(60, 36_000)),
            capacity: Capacity(4),
            owner: 0,
        })
        .collect();
    let waiting: Vec<Waiting> = (0..1_000)
        .map(|at| Waiting {
            submit: NOW - Seconds(1_000 - at),
            estimate: Seconds(chance.between(1, 120) * 60),
            capacity: size(chance),
            priority: 0,
            owner: Owner::NONE,
        })
        .collect();
    let cluster =
        Cluster { capacity: MACHINE, now: NOW, running: &running, waiting: &waiting, reservations: &[] };
    let request = Request {
        earliest_start: NOW + Seconds(36_000),
        latest_end: NOW + Seconds(36_000 + 3_600 + 86_400),
        duration: Seconds(3_600),
        capacity: Capacity(32),
    };
    println!("a probe of 20 slots on a queue of 1,000 jobs");
    let methods = [
        ("load", Method::Load),
        ("earliest start", Method::EarliestStart { local_jobs_preferred: true }),
        ("what-if", Method::WhatIf(Weights::EVEN)),
    ];
    let times = methods.map(|(_, method)| {
        let mut prober = Prober::default();
        timed(move || prober.probe(&rules(method, Admission::default()), &cluster, &request).len())
    });
    let times = in_turn(BUDGET, times);
    // It takes seconds, so it does not take turns.
    let plain = nanoseconds(BUDGET, || rebuild(&cluster, &request));
    for ((name, _), ours) in methods.into_iter().zip(times) {
        println!("{name:>16} {:>10}", people(ours));
        guard.times(format!("probe, {name}"), ours, plain);
    }
    let ours = times[2];
    println!("{:>16} {:>10}   what-if is {:.1} times as fast", "rebuilding", people(plain), plain / ours);
}

/// Plans with a new planner for each slot: jobs are copied and placed one by one in the order of the queue at every
/// event.
fn rebuild(cluster: &Cluster<'_>, request: &Request) -> i64 {
    let width = (request.latest_start() - request.earliest_start).0;
    let starts = (0..20).map(|at| request.earliest_start + Seconds(width * at / 19));
    let plan = |start: Time| {
        let reservations = vec![Span::starting(start, request.duration, request.capacity)];
        let waiting = cluster.waiting.to_vec();
        let taken = Cluster { reservations: &reservations, waiting: &waiting, ..*cluster };
        plain_easy(&taken)
    };
    starts.map(plan).sum()
}

/// EASY with lists, where everything is visited again at every end. Returns the sum of the planned starts.
fn plain_easy(cluster: &Cluster<'_>) -> i64 {
    let mut held: Vec<(i64, i64, i64)> = cluster
        .running
        .iter()
        .map(|job| (cluster.now.0, job.expected_end.0, i64::from(job.capacity.0)))
        .collect();
    held.extend(
        cluster
            .reservations
            .iter()
            .map(|span| (span.interval.begin.0, span.interval.end.0, i64::from(span.capacity.0))),
    );
    let mut waiting: Vec<Waiting> = cluster.waiting.to_vec();
    let (mut now, mut sum) = (cluster.now.0, 0);
    while !waiting.is_empty() {
        held.retain(|&(_, end, _)| end > now);
        let mut promise = None;
        waiting.retain(|job| {
            let (capacity, length) = (i64::from(job.capacity.0), job.estimate.0);
            let fits = |start: i64, promise: Option<(i64, i64, i64)>| {
                let changes = held.iter().chain(&promise).map(|&(begin, _, _)| begin.max(start));
                let peak = changes.chain([start]).filter(|&at| at < start + length).map(|at| {
                    let here =
                        held.iter().chain(&promise).filter(|&&(begin, end, _)| begin <= at && at < end);
                    here.map(|(_, _, held)| held).sum::<i64>()
                });
                peak.max().unwrap_or(0) + capacity <= i64::from(cluster.capacity.0)
            };
            if fits(now, promise) {
                held.push((now, now + length, capacity));
                sum += now;
                return false;
            }
            if promise.is_none() {
                let ends = held.iter().map(|&(_, end, _)| end).filter(|&end| fits(end, None));
                promise = ends.min().map(|start| (start, start + length, capacity));
            }
            true
        });
        now = held
            .iter()
            .flat_map(|&(begin, end, _)| [begin, end])
            .filter(|&at| at > now)
            .min()
            .unwrap_or(i64::MAX);
    }
    sum
}

fn runs(guard: &mut Guard) {
    let setting = Setting { jobs: 2_000, processors: MACHINE, load: Some(0.75), seed: 2000 };
    let mut jobs = Lublin { setting, ..Lublin::default() }.generate().expect("a sound setting");
    let selection =
        Selection { book_ahead: Seconds(2 * 3_600), window: Seconds(10 * 3_600), ..Selection::default() };
    let requests = select(&mut jobs, &selection).expect("a sound selection");
    let jobs: Vec<Job> = jobs.iter().map(Job::from).collect();
    let site = Site { policy: Policy::EASY, capacity: MACHINE, overrun: Overrun::Kill };
    println!("\n1,800 jobs and 200 requests, window of ten hours");
    let (jobs, requests) = (&jobs[..], &requests[..]);
    let rated = |method| {
        timed(move || {
            let mut rated = Rated::new(rules(method, Admission::default()), Preference::BestAvailability);
            simulate(site, jobs, requests, &mut rated, |_| {}).killed
        })
    };
    let easy = timed(|| black_box(simulate(site, jobs, &[], &mut EarliestFit, |_| {})).killed);
    let bare = timed(|| bare_easy(MACHINE.0, jobs));
    let what_if = rated(Method::WhatIf(Weights::EVEN));
    let [easy, load, what_if, bare] = in_turn(BUDGET, [easy, rated(Method::Load), what_if, bare]);
    println!("{:>16} {:>10}", "EASY, no request", people(easy));
    for (name, time) in [("load", load), ("what-if", what_if)] {
        println!("{name:>16} {:>10}   {:.1} times the EASY run", people(time), time / easy);
        guard.times(format!("run, {name}"), time, bare);
    }
    println!("{:>16} {:>10}", "plain EASY loop", people(bare));
    guard.times("run, EASY", easy, bare);
}
