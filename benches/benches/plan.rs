//! Planning a queue of 1,000 waiting jobs around 100 reservations: the inner loop of what-if. Compared with placing the
//! jobs one after another in a sorted list of breakpoints ("plain"), which is conservative backfilling.

use bookahead_benches::{Chance, Guard, Outcome, PlainProfile, Report, guard, in_turn, people, timed};
use bookahead_plan::{
    Capacity, Cluster, Need, Owner, Planner, Policy, Running, Seconds, Span, Time, Waiting,
};
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(800);
const MACHINE: Capacity = Capacity(1_152);
const NOW: Time = Time(1_000_000);

pub(crate) fn main() -> Report {
    guard("plan", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    println!(
        "{:>7} {:>12} {:>14} {:>10} {:>10} {:>10}",
        "waiting", "reservations", "", "plan", "per job", "plain"
    );
    for (waiting, reservations) in [(100, 10), (1_000, 0), (1_000, 100), (10_000, 100)] {
        let (running, waiting, reservations) = state(waiting, reservations);
        let cluster = Cluster {
            capacity: MACHINE,
            now: NOW,
            running: &running,
            waiting: &waiting,
            reservations: &reservations,
        };
        let policies = [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE];
        let plan = |policy| {
            let mut planner = Planner::new();
            timed(move || planner.plan(policy, &cluster).len())
        };
        let [fcfs, easy, conservative] = policies.map(plan);
        let plain = timed(|| plainly(&cluster));
        let [times @ .., plain] = in_turn(BUDGET, [fcfs, easy, conservative, plain]);
        for (policy, time) in policies.into_iter().zip(times) {
            println!(
                "{:>7} {:>12} {:>14} {:>10} {:>10} {:>10}",
                waiting.len(),
                reservations.len(),
                policy.to_string(),
                people(time),
                people(time / waiting.len() as f64),
                people(plain)
            );
            let row = format!("{policy}, {} waiting, {} reservations", waiting.len(), reservations.len());
            guard.times(row, time, plain);
        }
    }
    Ok(())
}

/// The latest planned start, if each job is placed at its earliest.
fn plainly(cluster: &Cluster<'_>) -> Option<Time> {
    let mut profile = PlainProfile::new(cluster.capacity.0);
    let mut add = |span| profile.add(span);
    let running = cluster.running.iter();
    running.for_each(|job| add(Span::starting(NOW, job.expected_end - NOW, job.capacity)));
    cluster.reservations.iter().for_each(|&span| add(span));
    let place = |job: &Waiting| {
        let need = Need { capacity: job.capacity, length: job.estimate };
        let start = profile.earliest_fit(NOW, need)?;
        profile.add(Span::starting(start, need.length, need.capacity));
        Some(start)
    };
    cluster.waiting.iter().filter_map(place).max()
}

/// A full machine, a queue, and reservations over the days until the queue is empty.
fn state(waiting: i64, reservations: i64) -> (Vec<Running>, Vec<Waiting>, Vec<Span>) {
    let chance = &mut Chance::new(3);
    let mut free = i64::from(MACHINE.0);
    let mut running = Vec::new();
    while free > 16 {
        let capacity = size(chance).min(free as u32);
        free -= i64::from(capacity);
        running.push(Running {
            expected_end: NOW + Seconds(chance.between(60, 36_000)),
            capacity: Capacity(capacity),
            owner: 0,
        });
    }
    let job = |at: i64, chance: &mut Chance| Waiting {
        submit: NOW - Seconds(waiting - at),
        estimate: Seconds(chance.between(5, 600) * 60),
        capacity: Capacity(size(chance)),
        priority: 0,
        owner: Owner::NONE,
    };
    let queue = (0..waiting).map(|at| job(at, chance)).collect();
    let days = (waiting / 200).max(1);
    let reserved = |chance: &mut Chance| {
        let begin = NOW + Seconds(chance.between(36_000, 36_000 + days * 86_400));
        Span::starting(begin, Seconds(chance.between(600, 7_200)), Capacity(size(chance)))
    };
    (running, queue, (0..reservations).map(|_| reserved(chance)).collect())
}

/// Mostly small jobs and some large ones: from 8 processors to half of the machine, in powers of two.
fn size(chance: &mut Chance) -> u32 {
    8 << chance.below(7).min(chance.below(7))
}
