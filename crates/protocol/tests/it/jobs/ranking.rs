//! The formulas of the expected delay, by hand and against a simple implementation.

use super::{site, task};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::jobs::{Delay, Site, Task, rank};
use bookahead_protocol::{Millis, Moment, Requirement, Test, Value};
use proptest::prelude::*;

#[test]
fn the_delay_of_one_job_by_hand() {
    let mut highland = site("highland", 20, 1_800);
    highland.requested = 59;
    highland.bandwidth = Some(3_000_000);
    let task = Task { files: vec![72_000, 9_000_001], ..task() };
    let delay = Delay::of(&task, &highland);
    assert_eq!(delay.run, Millis(666_667), "600 s at 2000 MHz, on 1800 MHz, rounded up");
    assert_eq!(delay.wait, Millis::seconds(7_200), "59 cores fill 20 twice: two rounds of an hour");
    assert_eq!(delay.transfer, Millis(3_025), "9.072001 MB at 3 MB/s");
    assert_eq!(delay.total(), Millis(666_667 + 7_200_000 + 3_025));
    assert_eq!(delay.duration(), Seconds(667));
    assert_eq!(delay.ready(Moment(1_000)), Time(5), "at 4.025");
    assert_eq!(
        delay.finish(Moment(10_000)),
        Moment(676_667),
        "the wait and the transfer are before the start"
    );
}

#[test]
fn a_heterogeneous_machine_counts_with_its_slowest_cpu() {
    let mixed = Site { rates: vec![2_600, 1_000, 1_800], ..site("mixed", 8, 0) };
    assert_eq!(Delay::of(&task(), &mixed).run, Millis::seconds(1_200));
}

#[test]
fn without_network_data_a_transfer_counts_as_no_time() {
    let task = Task { files: vec![1 << 40], ..task() };
    let unknown = site("unknown", 8, 2_000);
    let cut_off = Site { bandwidth: Some(0), ..unknown.clone() };
    assert_eq!(Delay::of(&task, &unknown).transfer, Millis::ZERO);
    assert_eq!(Delay::of(&task, &cut_off).transfer, Millis(i64::MAX), "never");
    assert_eq!(Delay::of(&super::task(), &cut_off).transfer, Millis::ZERO, "nothing to send");
}

#[test]
fn sites_are_ranked_by_delay_then_by_name_and_only_where_they_suit() {
    let busy = Site { requested: 8, ..site("busy", 8, 2_000) };
    let mut other_kind = site("gpus", 8, 9_000);
    other_kind.resource.kind = "gpus".into();
    let sites = [site("b", 8, 2_000), busy, site("small", 3, 9_000), other_kind, site("a", 8, 2_000)];
    let names = |task: &Task| -> Vec<String> {
        rank(task, &sites).iter().map(|ranked| ranked.site.to_string()).collect()
    };
    assert_eq!(names(&task()), ["a", "b", "busy"]);
    let only_b = Requirement { attribute: "site".into(), test: Test::Is(Value::Text("b".into())) };
    assert_eq!(names(&Task { requirements: vec![only_b], ..task() }), ["b"]);
}

#[test]
fn of_sites_with_the_same_delay_the_cheaper_is_first() {
    let mut dear = site("a", 8, 2_000);
    dear.resource.price = 500;
    let mut cheap = site("b", 8, 2_000);
    cheap.resource.price = 100;
    for sites in [[dear.clone(), cheap.clone()], [cheap, dear]] {
        let names: Vec<String> = rank(&task(), &sites).iter().map(|one| one.site.to_string()).collect();
        assert_eq!(names, ["b", "a"]);
    }
}

/// The delay as the paper prints it, with fractions. None means never.
fn plain(task: &Task, site: &Site) -> [Option<f64>; 3] {
    let slowest = site.rates.iter().map(|&rate| f64::from(rate)).fold(f64::INFINITY, f64::min);
    let usable = slowest.is_finite() && slowest > 0.0;
    let run = usable.then(|| f64::from(task.rate) / slowest * task.run.0 as f64);
    let cores = f64::from(site.resource.capacity.0);
    let rounds = (cores > 0.0).then(|| (site.requested as f64 / cores).floor());
    let wait = rounds.map(|rounds| rounds * site.longest_wall_time.0 as f64);
    let size: f64 = task.files.iter().map(|&size| size as f64).sum();
    let transfer = match site.bandwidth {
        Some(0) if size > 0.0 => None,
        Some(bandwidth) if size > 0.0 => Some(size * 1_000.0 / bandwidth as f64),
        _ => Some(0.0),
    };
    [transfer, wait, run]
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(256))]

    #[test]
    fn delays_are_those_of_the_plain_formulas(
        (rates, requested, wall_time, bandwidth, cores) in
            (prop::collection::vec(0u32..4_000, 0..4), 0u64..5_000, 0i64..1_000_000, prop::option::of(0u64..1_000_000), 0u32..64),
        (run, rate, files) in (0i64..10_000_000, 0u32..4_000, prop::collection::vec(0u64..10_000_000, 0..4)),
    ) {
        let site = Site {
            rates, requested, longest_wall_time: Millis(wall_time), bandwidth, ..site("site", cores, 0)
        };
        let task = Task { run: Millis(run), rate, files, ..task() };
        let Delay { transfer, wait, run } = Delay::of(&task, &site);
        for (ours, plain) in [transfer, wait, run].into_iter().zip(plain(&task, &site)) {
            match plain {
                None => prop_assert_eq!(ours, Millis(i64::MAX)),
                // The implementation rounds up; doubles are exact enough for numbers of this size.
                Some(plain) => prop_assert!((-1e-3..1.001).contains(&(ours.0 as f64 - plain)), "{} {}", ours, plain),
            }
        }
    }

    #[test]
    fn no_facts_make_it_panic(
        (rate, requested, wall_time, bandwidth, cores) in
            (any::<u32>(), any::<u64>(), any::<i64>(), any::<Option<u64>>(), any::<u32>()),
        (run, reference, file, now) in (any::<i64>(), any::<u32>(), any::<u64>(), any::<i64>()),
    ) {
        let site = Site { requested, longest_wall_time: Millis(wall_time), bandwidth, ..site("site", cores, rate) };
        let task = Task { run: Millis(run), rate: reference, files: vec![file; 3], cores: Capacity(1), ..task() };
        for ranked in rank(&task, &[site.clone(), site]) {
            prop_assert!(ranked.delay.duration() >= Seconds(1));
            prop_assert!(ranked.delay.total() >= Millis::ZERO);
            let _ = (ranked.ready(Moment(now)), ranked.delay.finish(Moment(now)));
        }
    }
}
