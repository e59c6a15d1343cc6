//! The availability profile with 10^3 to 10^6 live spans, sparse (about 20 at a time) and dense (about 500):
//! earliest fit from a random time, removing and adding a span, and placing jobs one after another.

use bookahead_benches::{Chance, nanoseconds, people};
use bookahead_plan::{Capacity, Need, Profile, Seconds, Span, Time};
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(400);
const MEAN_LENGTH: i64 = 1_800;

fn need(chance: &mut Chance) -> Need {
    Need {
        capacity: Capacity(chance.between(1, 32) as u32),
        length: Seconds(chance.between(1, 2 * MEAN_LENGTH)),
    }
}

/// A feasible schedule: each span at the earliest fit from a random time.
fn filled(spans: i64, at_a_time: i64, chance: &mut Chance) -> (Profile, Vec<Span>, i64) {
    let horizon = spans * MEAN_LENGTH / at_a_time;
    let mut profile = Profile::new(Capacity((at_a_time * 16 * 5 / 4) as u32), Time(0));
    let mut live = Vec::new();
    for _ in 0..spans {
        let need = need(chance);
        let begin =
            profile.earliest_fit(Time(chance.between(0, horizon)), need, None).expect("room in the end");
        let span = Span::starting(begin, need.length, need.capacity);
        profile.add(span);
        live.push(span);
    }
    (profile, live, horizon)
}

fn operations() {
    println!("{:>9} {:>7} {:>12} {:>14} {:>14}", "spans", "", "breakpoints", "earliest fit", "remove + add");
    for (name, at_a_time) in [("sparse", 20), ("dense", 500)] {
        for spans in [1_000, 10_000, 100_000, 1_000_000] {
            let chance = &mut Chance::new(7);
            let (mut profile, mut live, horizon) = filled(spans, at_a_time, chance);
            let breakpoints = profile.breakpoints();
            let fit = nanoseconds(BUDGET, || {
                let from = Time(chance.between(0, horizon));
                profile.earliest_fit(from, need(chance), None)
            });
            let exchange = nanoseconds(BUDGET, || {
                let nth = chance.below(live.len() as u64) as usize;
                profile.remove(live[nth]);
                let begin = Time(chance.between(0, horizon));
                live[nth].interval.end = begin + live[nth].interval.length();
                live[nth].interval.begin = begin;
                profile.add(live[nth]);
            });
            println!("{spans:>9} {name:>7} {breakpoints:>12} {:>14} {:>14}", people(fit), people(exchange));
        }
    }
}

fn placing() {
    println!("\n{:>9} {:>22}", "jobs", "placed one by one, each");
    for jobs in [1_000, 10_000, 100_000] {
        let whole = nanoseconds(BUDGET, || {
            let chance = &mut Chance::new(11);
            let mut profile = Profile::new(Capacity(400), Time(0));
            for _ in 0..jobs {
                let need = need(chance);
                let begin = profile.earliest_fit(Time(0), need, None).expect("room in the end");
                profile.add(Span::starting(begin, need.length, need.capacity));
            }
            profile.breakpoints()
        });
        println!("{jobs:>9} {:>22}", people(whole / f64::from(jobs)));
    }
}

fn main() {
    operations();
    placing();
}
