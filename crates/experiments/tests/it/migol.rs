//! The Migol experiment: the page is complete, the same on any number of threads with a test clock, and shows the
//! directions that the paper claims.

use bookahead_experiments::check::{Agreement, verdict};
use bookahead_experiments::{Page, Scale, Section, Verdict, migol};
use std::cell::Cell;
use std::time::Duration;

/// A quick run with a clock that advances at each reading.
fn quick(threads: usize) -> Page {
    let ticks = Cell::new(0);
    let clock = || {
        ticks.set(ticks.get() + 1);
        Duration::from_micros(ticks.get())
    };
    migol::run_with_clock(&Scale { quick: true, first_seed: 1, seeds: 1, threads }, &|_, _| {}, &clock)
}

#[test]
fn the_page_is_complete_and_the_same_on_any_number_of_threads() {
    let page = quick(1);
    assert_eq!(page, quick(2));
    assert_eq!(page.id, "migol");
    assert_eq!(page.claims().count(), 7);
    for claim in page.claims() {
        assert!(claim.id.starts_with("migol/") && !claim.statement.is_empty() && !claim.rule.is_empty());
        assert_eq!(claim.verdict, Verdict::NotJudged, "{}: the run is too small", claim.id);
    }
    let figures = page.sections.iter().filter(|section| matches!(section, Section::Figure { .. })).count();
    assert_eq!(figures, 6);
    for section in &page.sections {
        if let Section::Table(table) = section {
            assert!(!table.rows.is_empty(), "{}", table.file);
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.file);
        }
    }
}

#[test]
fn estimates_get_worse_with_the_wall_times_and_still_rank_clusters_better_than_chance() {
    let page = quick(2);
    let claim = |id: &str| page.claims().find(|claim| claim.id == id).unwrap();
    let mean = |id: &str, name: &str| {
        let found = claim(id).measured.iter().find(|(what, _)| what == name);
        found.unwrap().1.mean
    };
    assert!(mean("migol/ranking-total", "all") > 50.0);
    assert!(
        mean("migol/accuracy-falls", "large job, W2, 150%")
            < mean("migol/accuracy-falls", "large job, W2, 110%")
    );
    assert_eq!(verdict(&claim("migol/bound-to-three").checks), Verdict::Reproduced);
    // The times of the test clock say nothing, but the calls are counted.
    let calls = claim("migol/broker-costs-more").checks.iter().find(|check| check.what == "more calls");
    assert_eq!(calls.unwrap().agreement, Agreement::Full);
}
