//! Unsolicited reports of the built-in scheduler: the visible state when it has changed, and nothing otherwise.

use crate::{Drive, at, backing, cpu, hosted, job, span};
use bookahead_lrms::{Builtin, Hosted};
use bookahead_party::{BatchReport, Look};
use bookahead_plan::{Capacity, Policy};
use bookahead_protocol::Name;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn gpu() -> Name {
    Name::from("gpu")
}

fn shown(builtin: &mut Builtin, second: i64) -> Option<Look> {
    let of = |report| match report {
        BatchReport::Looked { order: None, at: when, outcome } if when == at(second) => {
            Some(outcome.unwrap())
        }
        BatchReport::JobChanged(_) => None,
        other => panic!("{other:?}"),
    };
    let mut shown: Vec<Look> = builtin.advance(at(second)).into_iter().filter_map(of).collect();
    assert!(shown.len() < 2);
    shown.pop()
}

fn two() -> Builtin {
    let gpu = Hosted { name: gpu(), ..hosted(4, Policy::EASY) };
    Builtin::new(vec![hosted(8, Policy::EASY), gpu], at(0), None).unwrap()
}

#[test]
fn what_is_shown_is_reported_once_and_again_when_it_has_changed() {
    let mut builtin = two();
    let first = shown(&mut builtin, 0).unwrap();
    assert_eq!((first.resources.len(), first.jobs.len(), first.tagged.len()), (2, 0, 0));
    assert_eq!([1, 2, 3].map(|second| shown(&mut builtin, second)), [None, None, None]);
    builtin.back(at(3), &backing(1, &[span(10, 20, 4)])).unwrap();
    assert_eq!([3, 10, 20].map(|second| shown(&mut builtin, second)), [None, None, None]);
    builtin.submit(at(20), &job(1, 2, 10, 10)).unwrap();
    let second = shown(&mut builtin, 20).unwrap();
    assert_eq!((second.resources[&cpu()].view.running.len(), second.jobs.len()), (1, 1));
    assert!(Arc::ptr_eq(&first.resources[&gpu()], &second.resources[&gpu()]), "nothing became of it");
    assert_eq!(shown(&mut builtin, 25), None);
    assert!(shown(&mut builtin, 30).unwrap().resources[&cpu()].view.running.is_empty());
    builtin.fail(at(30), &gpu(), Capacity(1)).unwrap();
    assert_eq!(shown(&mut builtin, 30).unwrap().resources[&gpu()].lost, Capacity(1));
    // An answered look counts as reported.
    builtin.repair(at(31), &gpu(), Capacity(1)).unwrap();
    assert_eq!(builtin.look(at(31)).resources[&gpu()].lost, Capacity::ZERO);
    assert_eq!(shown(&mut builtin, 31), None);
}

/// Duration of reports about nothing, with this many reservations.
fn reporting(reservations: u128) -> Duration {
    let mut builtin = two();
    for id in 0..reservations {
        let begin = 100 + i64::try_from(id).unwrap() * 10;
        builtin.back(at(0), &backing(id, &[span(begin, begin + 10, 4)])).unwrap();
    }
    shown(&mut builtin, 0);
    let began = Instant::now();
    for second in 0..50_000 {
        assert_eq!(shown(&mut builtin, second), None);
    }
    began.elapsed()
}

/// A report that looks at all of them takes a thousand times as long as one without any, and more.
#[test]
fn a_hundred_thousand_reservations_without_jobs_cost_nothing_to_report() {
    let (none, many) = (reporting(0), reporting(100_000));
    assert!(many < 100 * none, "{many:?}, without reservations {none:?}");
}
