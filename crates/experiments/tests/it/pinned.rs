//! The figures and verdict of every claim, for a small set-up with fixed seeds. `BOOKAHEAD_UPDATE=1` writes
//! `tests/pinned/` anew; read the difference: each line that changes is a result that changed.

use bookahead_experiments::check::{Agreement, verdict};
use bookahead_experiments::what_if::Workload;
use bookahead_experiments::{
    Claim, Estimate, Page, Scale, Verdict, co_reservation, cosy, gridsim, migol, what_if,
};
use std::cell::Cell;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Two seeds, so that there are intervals. Small runs; their verdicts are not those of a full run.
const SCALE: Scale = Scale { quick: true, first_seed: 1, seeds: 2, threads: 2 };

/// One line for the verdict that a claim would get if the runs were not too small, and one for each figure behind it.
fn lines(claim: &Claim) -> Vec<String> {
    let count = |wanted| claim.checks.iter().filter(|check| check.agreement == wanted).count();
    let [full, on_average, no] = [Agreement::Full, Agreement::OnAverage, Agreement::No].map(count);
    let verdict = verdict(&claim.checks).name();
    let verdict = format!("{}\t{verdict}\tin full {full}, on average {on_average}, no {no}", claim.id);
    let figure = |(name, estimate): &(String, Estimate)| {
        let margin = estimate.margin.map_or_else(|| "-".to_owned(), significant);
        format!("{}\t{name}\t{} ± {margin}", claim.id, significant(estimate.mean))
    };
    std::iter::once(verdict).chain(claim.measured.iter().map(figure)).collect()
}

/// Six significant digits: a change of the results shows, a change of the order of additions does not.
fn significant(value: f64) -> String {
    format!("{value:.5e}")
}

/// Compares the claims of a page with `tests/pinned`, or writes them.
fn assert_pinned(page: &Page) {
    for claim in page.claims() {
        assert_eq!(claim.verdict, Verdict::NotJudged, "{}: the run is too small", claim.id);
        assert!(!claim.why.is_empty(), "{}", claim.id);
        assert!(!claim.rule.is_empty() && !claim.checks.is_empty(), "{}", claim.id);
    }
    let now: Vec<String> = page.claims().flat_map(lines).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/pinned/{}.tsv", page.id));
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some_and(|value| value == "1") {
        fs::write(&path, now.join("\n") + "\n").unwrap();
        return;
    }
    let pinned = fs::read_to_string(&path).unwrap();
    let pinned: Vec<&str> = pinned.lines().collect();
    let gone =
        pinned.iter().filter(|line| !now.iter().any(|new| new == *line)).map(|line| format!("- {line}"));
    let new = now.iter().filter(|line| !pinned.contains(&line.as_str())).map(|line| format!("+ {line}"));
    let changed: Vec<String> = gone.chain(new).collect();
    assert!(
        changed.is_empty(),
        "results have changed; if that is intended, run this test with BOOKAHEAD_UPDATE=1:\n{}",
        changed.join("\n")
    );
}

#[test]
fn what_if_is_as_pinned() {
    // The log is not in the repository, so that the workload is drawn.
    let workload = Workload::find(Path::new("no/such/folder")).unwrap();
    assert_pinned(&what_if::run(&workload, &SCALE, &|_, _| {}));
}

#[test]
fn cosy_is_as_pinned() {
    assert_pinned(&cosy::run(&SCALE, &|_, _| {}));
}

#[test]
fn gridsim_is_as_pinned() {
    assert_pinned(&gridsim::run(&SCALE, &|_, _| {}));
}

#[test]
fn co_reservation_is_as_pinned() {
    assert_pinned(&co_reservation::run(&SCALE, &|_, _| {}));
}

#[test]
fn migol_is_as_pinned() {
    // A clock that advances at each reading, because measured times would differ from run to run.
    let ticks = Cell::new(0);
    let clock = || {
        ticks.set(ticks.get() + 1);
        Duration::from_micros(ticks.get())
    };
    assert_pinned(&migol::run_with_clock(&SCALE, &|_, _| {}, &clock));
}
