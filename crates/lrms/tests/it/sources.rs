//! Sources of local jobs.

use crate::{Drive, at, cpu, wake};
use bookahead_lrms::builtin::sources::{LocalJob, Mix, Nothing, Repeated, Source, Steady};
use bookahead_lrms::{Builtin, Hosted};
use bookahead_plan::{Capacity, Seconds, Time};

fn local(submit: i64, estimate: i64, run: i64, capacity: u32) -> LocalJob {
    LocalJob {
        submit: Time(submit),
        estimate: Seconds(estimate),
        run: Seconds(run),
        capacity: Capacity(capacity),
    }
}

fn mix(load: u32) -> Mix {
    let widths = [1, 1, 2, 4, 16].map(Capacity).to_vec();
    Mix { capacity: Capacity(64), load, widths, estimates: [60, 600, 3_600].map(Seconds).to_vec() }
}

#[test]
fn a_list_is_repeated_for_ever() {
    let jobs = vec![local(5, 9, 9, 1), local(0, 9, 9, 2)];
    let submits = |period, start| -> Vec<i64> {
        let repeated = Repeated::new(jobs.clone(), Seconds(period), Time(start));
        repeated.take(6).map(|job| job.submit.0).collect()
    };
    assert_eq!(submits(100, 1_000), [1_000, 1_005, 1_100, 1_105, 1_200, 1_205]);
    assert_eq!(submits(0, 0), [0, 5, 5, 10, 10, 15], "a period is at least as long as the list");
    assert_eq!(Repeated::new(Vec::new(), Seconds(0), Time(0)).next(), None);
    assert_eq!(Repeated::new(jobs.clone(), Seconds(i64::MAX), Time(7)).count(), 2, "time ends");
    assert_eq!(Nothing.next(), None);
}

#[test]
fn a_steady_stream_is_a_function_of_its_seed() {
    let first = |seed| -> Vec<LocalJob> { Steady::new(&mix(70), Time(0), seed).take(1_000).collect() };
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
    assert_eq!(first(2000)[0], local(102, 60, 17, 1));
}

#[test]
fn a_steady_stream_brings_the_load_that_was_asked_for() {
    for load in [10, 70, 150] {
        let jobs: Vec<LocalJob> = Steady::new(&mix(load), Time(0), 3).take(200_000).collect();
        let area: i128 = jobs.iter().map(|job| i128::from(job.capacity.0) * i128::from(job.run.0)).sum();
        let percent = area as f64 * 100.0 / 64.0 / jobs.last().unwrap().submit.0 as f64;
        assert!((percent / f64::from(load) - 1.0).abs() < 0.02, "{percent} instead of {load}");
        assert!(jobs.is_sorted_by_key(|job| job.submit));
        assert!(jobs.iter().all(|job| (1..=job.estimate.0).contains(&job.run.0)));
        let gaps: Vec<i64> = jobs.windows(2).map(|pair| (pair[1].submit - pair[0].submit).0).collect();
        let mean = gaps.iter().sum::<i64>() as f64 / gaps.len() as f64;
        let short = gaps.iter().filter(|gap| (**gap as f64) < mean * std::f64::consts::LN_2).count();
        let half = short as f64 / gaps.len() as f64;
        assert!((half - 0.5).abs() < 0.05, "half of the gaps are shorter than the median: {half}");
    }
}

#[test]
fn where_there_is_nothing_to_bring_nothing_comes() {
    let none = |change: fn(&mut Mix)| {
        let mut mix = mix(70);
        change(&mut mix);
        Steady::new(&mix, Time(0), 1).next().is_none()
    };
    assert!(none(|mix| mix.load = 0));
    assert!(none(|mix| mix.widths.clear()));
    assert!(none(|mix| mix.capacity = Capacity(0)));
    assert!(none(|mix| mix.estimates = vec![Seconds(0), Seconds(-5), Seconds(i64::MAX)]));
}

fn alive(source: impl Source + 'static) -> Builtin {
    let hosted = Hosted { source: Box::new(source), ..Hosted::new(cpu(), Capacity(8)) };
    let mut builtin = Builtin::new(vec![hosted], at(0), None).unwrap();
    wake(&mut builtin, 0);
    builtin
}

#[test]
fn local_jobs_come_when_they_are_due_and_end_by_themselves() {
    let jobs = [local(3, 10, 4, 8), local(5, 10, 99, 8), local(4, 1, 1, 9)];
    let mut builtin = alive(jobs.into_iter());
    assert_eq!(builtin.next_event(), Some(at(3)));
    let mut seen = |now| {
        let view = builtin.seen(at(now)).view.clone();
        (view.running.iter().map(|running| running.expected_end.0).collect::<Vec<_>>(), view.waiting.len())
    };
    assert_eq!(seen(2), (vec![], 0));
    assert_eq!(seen(5), (vec![13], 1));
    assert_eq!(seen(7), (vec![17], 0), "it ended early, and the other began");
    assert_eq!(seen(17), (vec![], 0), "no job outlives its estimate, and one that is too wide does not come");
    assert!(builtin.jobs().is_empty() && builtin.next_event().is_none());
}
