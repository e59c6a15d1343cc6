//! Jobs drawn from the figures of a sample: the tables can be read, what is drawn has their quantiles, and tables that
//! were measured from any jobs give sound jobs again.

use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_workload::Job;
use bookahead_workload::models::{Calibrated, PERIOD, QUANTILES, Tables};
use bookahead_workload::trace::offered_load;
use proptest::prelude::*;

fn drawn(jobs: usize, seed: u64) -> Vec<Job> {
    Calibrated { tables: Tables::blue_horizon(), jobs, load: None, seed }.generate().unwrap()
}

/// Whether about `share` of the values are at most `limit`.
fn has_quantile(values: &[f64], share: f64, limit: f64, tolerance: f64) -> bool {
    let below =
        |limit: f64| values.iter().filter(|value| **value <= limit).count() as f64 / values.len() as f64;
    // Run times are whole seconds, so many values are just above or below the limit.
    below(limit * 0.97) <= share + tolerance && below(limit * 1.03) >= share - tolerance
}

#[test]
fn a_seed_gives_the_same_jobs_on_every_machine() {
    let first = |seed| {
        let jobs = drawn(2_000, seed);
        jobs[500..503].iter().map(|job| [job.submit.0, job.run.0, job.request.0]).collect::<Vec<_>>()
    };
    assert_eq!(first(1), [[623_802, 240, 64_800], [624_500, 1_597, 36_000], [624_518, 6_025, 28_800]]);
    assert_eq!(first(1), first(1));
    assert_ne!(first(1), first(2));
}

#[test]
fn sizes_and_requests_of_a_big_draw_have_the_shares_of_the_tables() {
    let tables = Tables::blue_horizon();
    let jobs = drawn(20_000, 3);
    for class in &tables.classes {
        let here = |job: &&Job| class.sizes.iter().any(|(size, _)| *size == job.processors.0);
        let of_class: Vec<&Job> = jobs.iter().filter(here).collect();
        assert!((of_class.len() as f64 / 20_000.0 - class.share()).abs() < 0.001);
        for &(size, share) in &class.sizes {
            let found = of_class.iter().filter(|job| job.processors.0 == size).count() as f64 / 20_000.0;
            assert!((found - share).abs() < 0.001, "size {size}: {found}, not {share}");
        }
        for &(request, share) in &class.requests {
            let found = of_class.iter().filter(|job| job.request.0 == request).count() as f64;
            let found = found / of_class.len() as f64;
            assert!((found - share).abs() < 0.01, "request {request}: {found}, not {share}");
        }
    }
}

#[test]
fn accuracies_and_run_times_of_a_big_draw_have_the_quantiles_of_the_tables() {
    let jobs = drawn(200_000, 4);
    for class in &Tables::blue_horizon().classes {
        let here = |job: &&Job| class.sizes.iter().any(|(size, _)| *size == job.processors.0);
        let of_class: Vec<&Job> = jobs.iter().filter(here).collect();
        let mut shorter = 0;
        for band in &class.bands {
            let of_band = of_class.iter().filter(|job| (shorter + 1..=band.longest).contains(&job.request.0));
            let found: Vec<f64> = of_band.map(|job| job.run.0 as f64 / job.request.0 as f64).collect();
            shorter = band.longest;
            for (share, limit) in QUANTILES.iter().zip(&band.accuracy) {
                assert!(has_quantile(&found, *share, *limit, 0.03), "accuracy {limit} at {share}");
            }
        }
        // The run times follow from accuracies and requests, so they agree less, above all in classes of few jobs.
        let tolerance = 0.1 + 1.0 / (2_000.0 * class.share());
        let runs: Vec<f64> = of_class.iter().map(|job| job.run.0 as f64).collect();
        for (share, limit) in QUANTILES.iter().zip(&class.runs) {
            assert!(has_quantile(&runs, *share, *limit as f64, tolerance), "run time {limit} at {share}");
        }
    }
}

#[test]
fn a_draw_of_the_size_of_the_sample_has_its_calendar_and_load() {
    let tables = Tables::blue_horizon();
    for seed in 1..=5 {
        let jobs = drawn(2_000, seed);
        for (hour, count) in (0..).zip(&tables.arrivals) {
            let found = jobs.iter().filter(|job| job.submit.0 / 3_600 == hour).count();
            assert!(found.abs_diff(*count as usize) <= 1, "hour {hour}: {found}, not {count}");
        }
        let load = offered_load(&jobs, Capacity(tables.machine)).unwrap();
        assert!((load / tables.load - 1.0).abs() < 0.1, "{load}, not {}", tables.load);
        // The work of each quarter of a day, as far as whole series of jobs can have it.
        for (column, work) in [(0, run_work as fn(&Job) -> f64), (1, requested_work)] {
            let difference = largest_difference(&jobs, column, work);
            assert!(difference < 0.05, "{difference}, seed {seed}, column {column}");
        }
    }
}

fn run_work(job: &Job) -> f64 {
    job.area() as f64
}

fn requested_work(job: &Job) -> f64 {
    f64::from(job.processors.0) * job.request.0 as f64
}

/// The largest difference between the share of the work of a quarter of a day and that in the tables.
fn largest_difference(jobs: &[Job], column: usize, work: fn(&Job) -> f64) -> f64 {
    let all: f64 = jobs.iter().map(work).sum();
    let difference = |(period, expected): (i64, &[f64; 3])| {
        let here = jobs.iter().filter(|job| job.submit.0 / PERIOD == period);
        (here.map(work).sum::<f64>() / all - expected[column]).abs()
    };
    (0..).zip(&Tables::blue_horizon().work).map(difference).fold(0.0, f64::max)
}

#[test]
fn a_quarter_of_a_day_with_few_jobs_has_its_work_too() {
    let tables = Tables::blue_horizon();
    let jobs_of = |period: usize| tables.arrivals.iter().skip(6 * period).take(6).sum::<u32>();
    let quiet = |period: &usize| (1..=40).contains(&jobs_of(*period));
    let expected: f64 = (0..tables.work.len()).filter(quiet).map(|period| tables.work[period][1]).sum();
    for seed in 1..=5 {
        let jobs = drawn(2_000, seed);
        let here = jobs.iter().filter(|job| quiet(&((job.submit.0 / PERIOD) as usize)));
        let found = here.map(requested_work).sum::<f64>() / jobs.iter().map(requested_work).sum::<f64>();
        assert!((found / expected - 1.0).abs() < 0.1, "{found}, not {expected}");
    }
}

#[test]
fn a_longer_draw_repeats_the_calendar() {
    let span = Tables::blue_horizon().span;
    let jobs = drawn(6_000, 1);
    let within = |round: i64| jobs.iter().filter(|job| job.submit.0 / span == round).count();
    assert_eq!([0, 1, 2].map(within), [2_000; 3]);
    let of_first = |jobs: &[Job]| jobs[..2_000].iter().map(|job| (job.submit, job.run)).collect::<Vec<_>>();
    assert_eq!(of_first(&jobs), of_first(&drawn(2_000, 1)), "the first pass does not depend on the others");
}

#[test]
fn a_load_is_reached_by_scaling_the_gaps() {
    let tables = Tables::blue_horizon();
    let machine = Capacity(tables.machine);
    let jobs = Calibrated { tables, jobs: 4_000, load: Some(0.7), seed: 1 }.generate().unwrap();
    let load = offered_load(&jobs, machine).unwrap();
    assert!((load - 0.7).abs() < 0.01, "{load}");
}

#[test]
fn tables_survive_their_text() {
    let tables = Tables::blue_horizon();
    assert_eq!(serde_json::from_str::<Tables>(&tables.to_json()).unwrap(), tables);
}

#[test]
fn tables_from_which_nothing_can_be_drawn_are_refused() {
    let refused = |change: fn(&mut Tables)| {
        let mut tables = Tables::blue_horizon();
        change(&mut tables);
        Calibrated { tables, jobs: 10, load: None, seed: 1 }.generate().is_err()
    };
    assert!(refused(|tables| tables.machine = 100), "a job would be wider than the machine");
    assert!(refused(|tables| tables.classes.clear()));
    assert!(refused(|tables| tables.classes[0].bands.clear()));
    assert!(refused(|tables| tables.classes[0].requests.clear()));
    assert!(refused(|tables| tables.classes[0].bands[0].accuracy[3] = f64::NAN));
    assert!(refused(|tables| tables.classes[0].requests[0].0 = 0));
    assert!(refused(|tables| tables.gaps.truncate(3)));
    assert!(refused(|tables| tables.arrivals.truncate(3)));
    assert!(refused(|tables| tables.arrivals.fill(0)));
    assert!(refused(|tables| tables.span = 0));
    assert!(refused(|tables| tables.alike = 1.5));
}

fn sample() -> impl Strategy<Value = Vec<Job>> {
    let job = (0_i64..20_000, 1_i64..90_000, 0_i64..90_000, 1_u32..=64);
    prop::collection::vec(job, 2..120).prop_map(|rows| {
        let mut clock = 0;
        let job = |(number, (gap, run, more, size)): (i64, (i64, i64, i64, u32))| {
            clock += gap;
            let (submit, run, request) = (Time(clock), Seconds(run), Seconds(run + more));
            Job { number, submit, run, request, processors: Capacity(size), user: 0 }
        };
        (1..).zip(rows).map(job).collect()
    })
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(60))]

    #[test]
    fn any_sample_gives_sound_jobs_again(sample in sample(), jobs in 1_usize..300, seed in 0_u64..1_000) {
        let Some(tables) = Tables::of("a sample", &sample, Capacity(64)) else { return Ok(()) };
        let drawn = Calibrated { tables, jobs, load: None, seed }.generate().unwrap();
        prop_assert_eq!(drawn.len(), jobs);
        prop_assert!(drawn.is_sorted_by_key(|job| job.submit));
        for job in &drawn {
            prop_assert!((1..=64).contains(&job.processors.0) && job.run.0 >= 1 && job.run <= job.request);
            prop_assert!(sample.iter().any(|real| real.processors == job.processors));
            prop_assert!(sample.iter().any(|real| real.request == job.request));
        }
    }
}
