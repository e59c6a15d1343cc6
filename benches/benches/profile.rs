//! The availability profile with 10^3 to 10^6 live spans, sparse (about 20 at a time) and dense (about 500): earliest
//! fit from a random time, removing and adding a span, and placing jobs one after another, compared with a sorted list
//! of breakpoints ("plain") on the same operations.

use bookahead_benches::{Chance, Guard, Outcome, PlainProfile, Report, guard, in_turn, people, timed};
use bookahead_plan::{Capacity, Frontier, Need, Profile, Seconds, Span, Time};
use std::time::Duration;

const BUDGET: Duration = Duration::from_millis(400);
const MEAN_LENGTH: i64 = 1_800;
/// The plain profile is not measured beyond this number of spans: it would take too long.
const PLAIN_MOST: i64 = 100_000;

pub(crate) fn main() -> Report {
    guard("profile", run)
}

fn run(guard: &mut Guard) -> Outcome<()> {
    operations(guard);
    placing(guard);
    Ok(())
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
    live: Vec<Span>,
    horizon: i64,
}

/// The same in a list.
struct Listed {
    plain: PlainProfile,
    live: Vec<Span>,
    horizon: i64,
}

fn filled(spans: i64, at_a_time: i64, chance: &mut Chance) -> (Filled, Option<Listed>) {
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
    let listed = plain.map(|plain| Listed { plain, live: live.clone(), horizon });
    (Filled { profile, live, horizon }, listed)
}

/// Moves a random span to a random time.
fn exchange(live: &mut [Span], horizon: i64, chance: &mut Chance, mut change: impl FnMut(Span, Span)) {
    let nth = chance.below(live.len() as u64) as usize;
    let old = live[nth];
    let begin = Time(chance.between(0, horizon));
    live[nth] = Span::starting(begin, old.interval.length(), old.capacity);
    change(old, live[nth]);
}

fn operations(guard: &mut Guard) {
    println!("earliest fit from a random time; removing a span and adding it elsewhere");
    println!(
        "{:>9} {:>7} {:>12} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
        "spans", "", "breakpoints", "fit", "plain", "ratio", "exchange", "plain", "ratio"
    );
    for (name, at_a_time) in [("sparse", 20), ("dense", 500)] {
        let mut list = None;
        for spans in [1_000, 10_000, 100_000, 1_000_000] {
            let (mut filled, listed) = filled(spans, at_a_time, &mut Chance::new(7));
            let breakpoints = filled.profile.breakpoints();
            // The largest profile is compared with a smaller list, which is not printed.
            let comparable = listed.is_some();
            list = listed.or(list);
            let Some(list) = &mut list else { continue };
            let [fit, plain_fit, moved, plain_moved] = times(&mut filled, list);
            guard.times(format!("fit, {name}, {spans}"), fit, plain_fit);
            guard.times(format!("exchange, {name}, {spans}"), moved, plain_moved);
            let plain = |time: f64| if comparable { time } else { f64::NAN };
            println!(
                "{spans:>9} {name:>7} {breakpoints:>12} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
                people(fit),
                people(plain(plain_fit)),
                ratio(plain(plain_fit), fit),
                people(moved),
                people(plain(plain_moved)),
                ratio(plain(plain_moved), moved)
            );
        }
    }
}

/// Nanoseconds of a search, of one in the list, of an exchange, and of one in the list.
fn times(filled: &mut Filled, list: &mut Listed) -> [f64; 4] {
    let Filled { profile, live, horizon } = filled;
    let [mut chance, mut other] = [9, 9].map(Chance::new);
    let fit = || profile.earliest_fit(Time(chance.between(0, *horizon)), need(&mut chance), None);
    let plain_fit = || list.plain.earliest_fit(Time(other.between(0, list.horizon)), need(&mut other));
    let [fit, plain_fit] = in_turn(BUDGET, [timed(fit), timed(plain_fit)]);
    let moved = || {
        exchange(live, *horizon, &mut chance, |old, new| {
            profile.remove(old);
            profile.add(new);
        });
    };
    let plain_moved = || {
        exchange(&mut list.live, list.horizon, &mut other, |old, new| {
            list.plain.remove(old);
            list.plain.add(new);
        });
    };
    let [moved, plain_moved] = in_turn(BUDGET, [timed(moved), timed(plain_moved)]);
    [fit, plain_fit, moved, plain_moved]
}

fn ratio(baseline: f64, ours: f64) -> String {
    if baseline.is_nan() { "-".to_owned() } else { format!("{:.1}", baseline / ours) }
}

fn placing(guard: &mut Guard) {
    println!("\nplacing jobs one after another, each at its earliest start, per job");
    println!("{:>9} {:>10} {:>10} {:>7}", "jobs", "ours", "plain", "ratio");
    let ours = |jobs: i64| {
        let chance = &mut Chance::new(11);
        let mut profile = Profile::new(Capacity(400), Time(0));
        let mut frontier = Frontier::new();
        (0..jobs).map(|_| frontier.place(&mut profile, Time(0), need(chance))).max()
    };
    let listed = |jobs: i64| {
        let chance = &mut Chance::new(11);
        let mut profile = PlainProfile::new(400);
        for _ in 0..jobs {
            let need = need(chance);
            let begin = profile.earliest_fit(Time(0), need).expect("room in the end");
            profile.add(Span::starting(begin, need.length, need.capacity));
        }
        profile
    };
    for jobs in [1_000, 10_000, 100_000] {
        let listed_jobs = jobs.min(10_000);
        let [ours, plain] = in_turn(BUDGET, [timed(|| ours(jobs)), timed(|| listed(listed_jobs))]);
        let (ours, plain) = (ours / jobs as f64, plain / listed_jobs as f64);
        guard.times(format!("placing, {jobs}"), ours, plain);
        let plain = if jobs == listed_jobs { plain } else { f64::NAN };
        println!("{jobs:>9} {:>10} {:>10} {:>7}", people(ours), people(plain), ratio(plain, ours));
    }
}
