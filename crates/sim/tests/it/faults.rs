//! Random fault schedules: the invariants hold under all faults, and are violated if the protocol has a deliberate
//! defect. A failing seed is printed; `bookahead faults --replay SEED` shows it.

use bookahead_party::site::SiteFlaw;
use bookahead_protocol::flaw::Flaw as Core;
use bookahead_sim::grid::faults::{Outcome, replay, run};
use bookahead_sim::grid::witness::Rule;
use bookahead_sim::grid::{Flaw, Log, Tally};
use bookahead_sim::run_all;
use bookahead_tests::cases::fewer;
use std::collections::BTreeSet;

/// First seed of every test.
const FIRST: u64 = 1;

fn schedules(count: u64) -> Vec<u64> {
    (FIRST..FIRST + fewer(count)).collect()
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

    let (mut injected, mut reached) = (Tally::default(), Tally::default());
    for outcome in &outcomes {
        injected.add_all(&outcome.injected);
        reached.add_all(&outcome.reached);
    }
    for (met, kinds) in [(&injected, &INJECTED[..]), (&reached, &REACHED[..])] {
        for kind in kinds {
            let count = met.of(kind);
            assert!(count >= 20, "{kind}: only {count}; the schedules do not reach it");
        }
    }
    let [replaced, missed] =
        ["parts_replaced", "bookings_not_healed_that_could_be"].map(|kind| reached.of(kind));
    println!("{replaced} parts were replaced, {missed} bookings were not healed though they could be");
    assert!(missed * 99 <= replaced, "{missed} were not healed though they could be, {replaced} were");
}

/// Faults that must occur in the schedules.
const INJECTED: [&str; 34] = [
    "lost",
    "doubled",
    "delayed",
    "cut_off",
    "crashes_idle",
    "crashes_before_writing",
    "crashes_after_writing",
    "crashes_while_sending",
    "capacity_failures",
    "clock_jumps",
    "clocks_wrong_at_starts",
    "clocks_in_doubt",
    "commands_behind_the_broker",
    "lies",
    "batch_slow",
    "batch_silent",
    "batch_hung",
    "batch_stalled",
    "batch_refused",
    "batch_granted_less",
    "batch_granted_less_unnoticed",
    "batch_unanswered",
    "batch_carried_out_late",
    "batch_clock_skewed",
    "backings_forgotten",
    "backings_deleted",
    "reservations_on_nodes_away",
    "moves_ordered",
    "nodes_flapping",
    "all_nodes_flapping",
    "batch_restarted_without_nodes",
    "foreign_jobs",
    "foreign_reservations",
    "restarts",
];

/// Situations that the schedules must reach.
const REACHED: [&str; 28] = [
    "promised_with_tres",
    "commits",
    "rollbacks",
    "expiries",
    "compensations",
    "interrupted",
    "finished_after_restart",
    "cancels",
    "granted_by_the_batch_system",
    "not_granted_by_the_batch_system",
    "terms_changed",
    "changes_prepared",
    "prepared_changes_given_up",
    "changes_of_several_parts",
    "released_in_part",
    "degraded_or_mended",
    "jobs_started",
    "jobs_over",
    "jobs_requeued",
    "jobs_retried",
    "jobs_warned",
    "orphan_backing_removed",
    "orphan_job_cancelled",
    "batch_silent",
    "batch_answers",
    "parts_lost_and_told",
    "parts_replaced",
    "bookings_that_cannot_be_healed",
];

/// Schedules that once violated an invariant: a loss ended a pending release that was ordered in the same look.
#[test]
fn schedules_that_found_defects_hold() {
    let outcomes = run_schedules(&[68_193, 127_575, 173_960, 184_231], None);
    assert_eq!(outcomes.iter().map(|outcome| outcome.violations.len()).sum::<usize>(), 0, "{outcomes:?}");
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

/// Enough schedules to catch each defect several times over.
const ENOUGH: u64 = 3_000;

/// Asserts that some schedule with this defect violates this rule.
#[track_caller]
fn assert_caught(flaw: Flaw, by: Rule) {
    let mut seen = BTreeSet::new();
    for first in (FIRST..FIRST + ENOUGH).step_by(100) {
        let seeds: Vec<u64> = (first..first + 100).collect();
        let outcomes = run_schedules(&seeds, Some(flaw));
        seen.extend(outcomes.iter().flat_map(|outcome| &outcome.violations).map(|violation| violation.rule));
        if seen.contains(&by) {
            return;
        }
    }
    panic!("{flaw:?} is seen only as {seen:?}");
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
fn changing_the_other_parts_although_one_was_refused_is_caught() {
    assert_caught(Flaw::Core(Core::ChangeInPart), Rule::ChangedTogether);
}

#[test]
fn not_looking_after_what_is_booked_is_caught() {
    assert_caught(Flaw::Core(Core::ForgetParts), Rule::NoPhantoms);
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
fn following_a_clock_that_is_wrong_at_a_start_is_caught() {
    assert_caught(Flaw::TrustClocks, Rule::KeptPromises);
}

#[test]
fn taking_repetitions_for_new_is_caught() {
    assert_caught(Flaw::RepeatsAreNew, Rule::AllOrNothing);
}

#[test]
fn keeping_what_was_granted_too_late_is_caught() {
    assert_caught(Flaw::Site(SiteFlaw::KeepLateGrants), Rule::NothingOrphaned);
}

#[test]
fn promising_what_was_not_granted_is_caught() {
    assert_caught(Flaw::Site(SiteFlaw::PromiseUngranted), Rule::Backed);
}

#[test]
fn ordering_before_a_look_is_caught() {
    assert_caught(Flaw::Site(SiteFlaw::OrderBeforeLook), Rule::KeptPromises);
}

#[test]
fn running_a_copy_without_a_go_is_caught() {
    assert_caught(Flaw::Site(SiteFlaw::RunWithoutGo), Rule::JobsRunOnce);
}

#[test]
fn a_site_that_gives_up_nodes_that_are_away_is_caught() {
    assert_caught(Flaw::Site(SiteFlaw::GiveUpNodesAway), Rule::NothingGivenAway);
}

#[test]
fn a_site_that_gives_up_what_has_no_node_left_is_caught() {
    assert_caught(Flaw::Site(SiteFlaw::GiveUpAllAway), Rule::NothingGivenAway);
}

#[test]
fn granting_two_claims_is_caught() {
    assert_caught(Flaw::Core(Core::GrantTwoClaims), Rule::JobsRunOnce);
}

#[test]
fn retrying_a_job_because_its_site_is_merely_silent_is_caught() {
    assert_caught(Flaw::Core(Core::RetryWhenSilent), Rule::JobsRunOnce);
}
