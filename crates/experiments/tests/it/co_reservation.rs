//! The co-reservation experiment: the page is complete and the same on any number of threads.

use bookahead_experiments::{Page, Scale, Section, Verdict, co_reservation};

fn quick(threads: usize) -> Page {
    co_reservation::run(&Scale { quick: true, first_seed: 1, seeds: 1, threads }, &|_, _| {})
}

#[test]
fn the_page_is_complete_and_the_same_on_any_number_of_threads() {
    let page = quick(1);
    assert_eq!(page, quick(2));
    assert_eq!(page.id, "co-reservation");
    let figures = page.sections.iter().filter(|section| matches!(section, Section::Figure { .. })).count();
    assert_eq!(figures, 4);
    for section in &page.sections {
        if let Section::Table(table) = section {
            assert!(!table.rows.is_empty(), "{}", table.file);
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.file);
        }
    }
    assert_eq!(page.claims().count(), 9);
    for claim in page.claims() {
        assert!(claim.id.starts_with("co-reservation/"), "{}", claim.id);
        assert!(
            !claim.statement.is_empty() && !claim.rule.is_empty() && !claim.ours.is_empty(),
            "{}",
            claim.id
        );
        assert!(!claim.measured.is_empty(), "{}", claim.id);
        assert!(claim.measured.iter().all(|(_, estimate)| estimate.runs == 1), "{}", claim.id);
        assert_eq!(claim.verdict, Verdict::NotJudged, "{}: the run is too small", claim.id);
    }
}

#[test]
fn a_broker_that_sees_everything_tries_nothing_in_vain() {
    let page = quick(2);
    let claim = page.claims().find(|claim| claim.id == "co-reservation/all-seen-fewer-without").unwrap();
    let without = claim.measured.iter().filter(|(name, _)| name.ends_with("without probing"));
    for (name, attempts) in without {
        let expected = if name.starts_with("successful") { 1.0 } else { 0.0 };
        assert!((attempts.mean - expected).abs() < 1e-9, "{name}: {}", attempts.mean);
    }
}
