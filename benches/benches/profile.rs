//! The availability profile with 10^3 to 10^6 live spans, sparse (about 20 at a time) and dense (about 500): earliest
//! fit from a random time, removing and adding a span, and placing jobs one after another, compared with a sorted list
//! of breakpoints ("plain") on the same operations.

use bookahead_benches::{Chance, PlainProfile, nanoseconds, people};
use bookahead_plan::{Capacity, Frontier, Need, Profile, Seconds, Span, Time};
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(400);
const MEAN_LENGTH: i64 = 1_800;
/// The plain profile is not measured beyond this number of spans: it would take too long.
const PLAIN_MOST: i64 = 100_000;

fn main() {
    operations();
    placing();
}

fn need(chance: &mut Chance) -> Need {
    Need {
        capacity: Capacity(chance.between(1, 32) as u32),
        length: Seconds(chance.between(1, 2 * MEAN_LENGTH)),
    }
}

/// A feasible schedule: each span at the earliest fit from a random time.
struct Filled {
    profile: Profile,
    plain: Option<PlainProfile>,
    live: Vec<Span>,
    horizon: i64,
}

fn filled(spans: i64, at_a_time: i64, chance: &mut Chance) -> Filled {
    let horizon = spans * MEAN_LENGTH / at_a_time;
    let capacity = Capacity((at_a_time * 16 * 5 / 4) as u32);
    let mut profile = Profile::new(capacity, Time(0));
    let mut plain = (spans <= PLAIN_MOST).then(|| PlainProfile::new(capacity.0));
    let mut live = Vec::new();
    for _ in 0..spans {
        let need = need(chance);
        let begin =
            profile.earliest_fit(Time(chance.between(0, horizon)), need, None).expect("room in the end");
        let span = Span::starting(begin, need.length, need.capacity);
        profile.add(span);
        if let Some(plain) = &mut plain {
            plain.add(span);
        }
        live.push(span);
    }
    Filled { profile, plain, live, horizon }
}

/// Moves a random span to a random time.
fn exchange(live: &mut [Span], horizon: i64, chance: &mut Chance, mut change: impl FnMut(Span, Span)) {
    let nth = chance.below(live.len() as u64) as usize;
    let old = live[nth];
    let begin = Time(chance.between(0, horizon));
    live[nth] = Span::starting(begin, old.interval.length(), old.capacity);
    change(old, live[nth]);
}

fn operations() {
    println!("earliest fit from a random time; removing a span and adding it elsewhere");
    println!(
        "{:>9} {:>7} {:>12} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
        "spans", "", "breakpoints", "fit", "plain", "ratio", "exchange", "plain", "ratio"
    );
    for (name, at_a_time) in [("sparse", 20), ("dense", 500)] {
        for spans in [1_000, 10_000, 100_000, 1_000_000] {
            let Filled { mut profile, plain, mut live, horizon } =
                filled(spans, at_a_time, &mut Chance::new(7));
            let breakpoints = profile.breakpoints();
            let chance = &mut Chance::new(9);
            let fit = nanoseconds(BUDGET, || {
                profile.earliest_fit(Time(chance.between(0, horizon)), need(chance), None)
            });
            let mut copy = live.clone();
            let moved = nanoseconds(BUDGET, || {
                exchange(&mut copy, horizon, chance, |old, new| {
                    profile.remove(old);
                    profile.add(new);
                });
            });
            let (mut plain_fit, mut plain_moved) = (f64::NAN, f64::NAN);
            if let Some(mut plain) = plain {
                plain_fit = nanoseconds(BUDGET, || {
                    plain.earliest_fit(Time(chance.between(0, horizon)), need(chance))
                });
                plain_moved = nanoseconds(BUDGET, || {
                    exchange(&mut live, horizon, chance, |old, new| {
                        plain.remove(old);
                        plain.add(new);
                    });
                });
            }
            println!(
                "{spans:>9} {name:>7} {breakpoints:>12} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
                people(fit),
                people(plain_fit),
                ratio(plain_fit, fit),
                people(moved),
                people(plain_moved),
                ratio(plain_moved, moved)
            );
        }
    }
}

fn ratio(baseline: f64, ours: f64) -> String {
    if baseline.is_nan() { "-".to_owned() } else { format!("{:.1}", baseline / ours) }
}

fn placing() {
    println!("\nplacing jobs one after another, each at its earliest start, per job");
    println!("{:>9} {:>10} {:>10} {:>7}", "jobs", "ours", "plain", "ratio");
    for jobs in [1_000, 10_000, 100_000] {
        let ours = nanoseconds(BUDGET, || {
            let chance = &mut Chance::new(11);
            let mut profile = Profile::new(Capacity(400), Time(0));
            let mut frontier = Frontier::new();
            (0..jobs).map(|_| frontier.place(&mut profile, Time(0), need(chance))).max()
        }) / jobs as f64;
        let mut plain = f64::NAN;
        if jobs <= 10_000 {
            plain = nanoseconds(BUDGET, || {
                let chance = &mut Chance::new(11);
                let mut profile = PlainProfile::new(400);
                for _ in 0..jobs {
                    let need = need(chance);
                    let begin = profile.earliest_fit(Time(0), need).expect("room in the end");
                    profile.add(Span::starting(begin, need.length, need.capacity));
                }
                profile
            }) / jobs as f64;
        }
        println!("{jobs:>9} {:>10} {:>10} {:>7}", people(ours), people(plain), ratio(plain, ours));
    }
}
