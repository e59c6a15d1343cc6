//! The what-if experiment on a generated workload: the page is complete and the same on any number of threads.

use bookahead_experiments::what_if::{self, Contender, Setting, Workload, run_one};
use bookahead_experiments::{Scale, Section, Verdict};
use bookahead_workload::models::Tables;
use bookahead_workload::trace::Estimates;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

fn scale(threads: usize) -> Scale {
    Scale { quick: true, first_seed: 1, seeds: 1, threads }
}

#[test]
fn the_page_is_complete_and_the_same_on_any_number_of_threads() {
    let workload = Workload::find(Path::new("no/such/folder")).unwrap();
    assert!(!workload.real && workload.name.contains("drawn"), "{}", workload.name);
    let calls = AtomicUsize::new(0);
    let count = |_done: usize, _total: usize| {
        calls.fetch_add(1, Ordering::Relaxed);
    };
    let page = what_if::run(&workload, &scale(1), &count);
    assert!(calls.into_inner() > 0);
    assert_eq!(page, what_if::run(&workload, &scale(2), &|_, _| {}));
    assert_eq!(page.claims().count(), 12);
    let figures = page.sections.iter().filter(|section| matches!(section, Section::Figure { .. })).count();
    let tables = page.sections.iter().filter(|section| matches!(section, Section::Table(_))).count();
    assert_eq!((figures, tables), (9, 4));
    assert!(page.to_html().contains("jobs drawn for each seed from tables of figures"));
    for claim in page.claims() {
        assert_eq!(claim.verdict, Verdict::NotJudged, "{}: the workload is not the paper's", claim.id);
        assert!(claim.why.contains("Parallel Workloads Archive"), "{}", claim.why);
        assert!(claim.measured.iter().all(|(_, estimate)| estimate.runs > 0), "{}", claim.id);
    }
}

#[test]
fn a_wide_window_grants_more_than_a_narrow_one() {
    let workload = Workload::draw(1).unwrap();
    let success = |contender, book_ahead, window| {
        let setting = Setting { contender, book_ahead, window, estimates: Estimates::Requested, seed: 1 };
        run_one(&workload, &setting).success
    };
    for contender in Contender::ALL {
        let (narrow, wide) = (success(contender, 0, 0), success(contender, 0, 30));
        assert!(narrow <= wide && wide <= 100.0, "{}: {narrow} {wide}", contender.name());
    }
    // The load method offers no slots before the end of the planned workload.
    assert!(success(Contender::Load, 0, 0) < success(Contender::WhatIf, 0, 0));
}

#[test]
fn the_limit_cuts_only_wide_jobs() {
    let workload = Workload::draw(1).unwrap();
    let widest = bookahead_plan::Capacity(88);
    let (limited, cut) = workload.limited(widest);
    assert_eq!(cut, workload.jobs.iter().filter(|job| job.processors > widest).count());
    assert!(limited.jobs.iter().all(|job| job.processors <= widest));
}

#[test]
fn the_tables_in_the_repository_are_those_of_the_log() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let log = Workload::find(&folder).unwrap();
    if !log.real {
        println!("skipped: the log is not at hand");
        return;
    }
    assert_eq!(log.tables(), Some(Tables::blue_horizon()));
}

#[test]
fn a_drawn_workload_grants_about_as_much_as_the_log() {
    let success = |contender, seed| {
        let workload = Workload::draw(seed).unwrap();
        let granted = |(book_ahead, window)| {
            let setting = Setting { contender, book_ahead, window, estimates: Estimates::Requested, seed };
            run_one(&workload, &setting).success
        };
        let workloads = [(0, 0), (0, 2), (2, 0), (2, 2), (6, 5), (12, 10), (24, 0), (24, 30)];
        workloads.map(granted).iter().sum::<f64>() / workloads.len() as f64
    };
    let mean = |contender| (1..=5).map(|seed| success(contender, seed)).sum::<f64>() / 5.0;
    // On the log, with the same settings and seeds.
    let (what_if, load) = (95.58, 67.74);
    assert!((mean(Contender::WhatIf) - what_if).abs() < 5.0, "{}", mean(Contender::WhatIf));
    assert!((mean(Contender::Load) - load).abs() < 5.0, "{}", mean(Contender::Load));
}
