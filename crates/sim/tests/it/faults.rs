//! Random fault schedules: whatever goes wrong, the invariants hold; and if the protocol is broken on purpose, they do
//! not. A failing seed is printed; `bookahead faults --replay SEED` shows it.

use bookahead_protocol::flaw::Flaw as Core;
use bookahead_sim::grid::faults::{Outcome, replay, run};
use bookahead_sim::grid::witness::Rule;
use bookahead_sim::grid::{Flaw, Log};
use bookahead_sim::run_all;

/// Seeds from here on, in every test.
const FIRST: u64 = 1;

fn schedules(count: u64) -> Vec<u64> {
    let quick = std::env::var_os("BOOKAHEAD_TEST_QUICK").is_some();
    (FIRST..FIRST + if quick { count / 4 } else { count }).collect()
}

fn run_schedules(seeds: &[u64], flaw: Option<Flaw>) -> Vec<Outcome> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    run_all(seeds, threads, |&seed| run(seed, flaw), || {})
}

#[test]
fn ten_thousand_random_fault_schedules_violate_nothing() {
    let outcomes = run_schedules(&schedules(10_000), None);
    let broken: Vec<String> = outcomes
        .iter()
        .flat_map(|outcome| {
            outcome.violations.iter().map(move |what| format!("seed {}: {what}", outcome.seed))
        })
        .collect();
    assert!(broken.is_empty(), "{} violations\n{}", broken.len(), broken[..broken.len().min(20)].join("\n"));

    let sum = |figure: &dyn Fn(&Outcome) -> u64| outcomes.iter().map(figure).sum::<u64>();
    let injected: [(&str, u64); 9] = [
        ("lost", sum(&|outcome| outcome.network.lost)),
        ("doubled", sum(&|outcome| outcome.network.twice)),
        ("delayed", sum(&|outcome| outcome.network.delayed)),
        ("cut off", sum(&|outcome| outcome.network.cut_off)),
        ("crashed while idle", sum(&|outcome| outcome.troubles.crashes[0])),
        ("crashed before writing", sum(&|outcome| outcome.troubles.crashes[1])),
        ("crashed after writing", sum(&|outcome| outcome.troubles.crashes[2])),
        ("crashed while sending", sum(&|outcome| outcome.troubles.crashes[3])),
        ("failed", sum(&|outcome| outcome.troubles.failures)),
    ];
    let reached: [(&str, u64); 7] = [
        ("commits", sum(&|outcome| outcome.reached.commits)),
        ("rollbacks", sum(&|outcome| outcome.reached.rollbacks)),
        ("expiries", sum(&|outcome| outcome.reached.expiries)),
        ("compensations", sum(&|outcome| outcome.reached.compensations)),
        ("interrupted", sum(&|outcome| outcome.reached.interrupted)),
        ("finished", sum(&|outcome| outcome.reached.finished)),
        ("cancels", sum(&|outcome| outcome.reached.cancels)),
    ];
    for (kind, count) in injected.into_iter().chain(reached) {
        assert!(count >= 20, "{kind}: only {count}; the schedules do not reach it");
    }
}

#[test]
fn a_seed_replays_exactly() {
    for seed in [3, 17, 4_711] {
        let (first, grid) = replay(seed, None);
        let (again, other) = replay(seed, None);
        assert_eq!(first, again);
        assert_eq!(first, run(seed, None), "keeping a log changes nothing");
        let rows = |log: &Log| log.rows.clone().unwrap_or_default();
        assert!(!rows(&grid.log).is_empty() && rows(&grid.log) == rows(&other.log));
    }
}

/// The rules that schedules see violated when the protocol is broken so.
fn seen(flaw: Flaw) -> Vec<Rule> {
    let seeds: Vec<u64> = (FIRST..FIRST + 1_500).collect();
    let outcomes = run_schedules(&seeds, Some(flaw));
    let mut rules: Vec<Rule> =
        outcomes.iter().flat_map(|outcome| &outcome.violations).map(|violation| violation.rule).collect();
    rules.sort();
    rules.dedup();
    rules
}

#[track_caller]
fn assert_caught(flaw: Flaw, by: Rule) {
    let seen = seen(flaw);
    assert!(seen.contains(&by), "{flaw:?} is seen only as {seen:?}");
}

#[test]
fn committing_although_a_part_was_refused_is_caught() {
    assert_caught(Flaw::Core(Core::IgnoreRefusals), Rule::AllOrNothing);
}

#[test]
fn forgetting_to_cancel_is_caught() {
    assert_caught(Flaw::Core(Core::ForgetToCancel), Rule::AllOrNothing);
}

#[test]
fn forgetting_a_decision_in_a_crash_is_caught() {
    assert_caught(Flaw::Core(Core::ForgetDecisions), Rule::Settled);
}

#[test]
fn holds_that_take_no_room_are_caught() {
    assert_caught(Flaw::Core(Core::HoldsTakeNoRoom), Rule::Capacity);
}

#[test]
fn late_commits_without_a_look_are_caught() {
    assert_caught(Flaw::Core(Core::LateCommitsUnseen), Rule::Capacity);
}

#[test]
fn forgetting_deadlines_in_a_crash_is_caught() {
    assert_caught(Flaw::ForgetDeadlines, Rule::KeptPromises);
}

#[test]
fn answering_before_writing_is_caught() {
    assert_caught(Flaw::AnswerBeforeWriting, Rule::KeptPromises);
}

#[test]
fn taking_repetitions_for_new_is_caught() {
    assert_caught(Flaw::RepeatsAreNew, Rule::AllOrNothing);
}
