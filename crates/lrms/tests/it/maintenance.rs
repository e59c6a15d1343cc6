//! Recurring maintenance on the built-in scheduler.

use crate::{Drive, at, backing, cpu, hosted, inside, job, span, state, wake};
use bookahead_lrms::maintenance::{KNOWN_AHEAD, Rule, Window};
use bookahead_lrms::{Builtin, Hosted};
use bookahead_party::JobState;
use bookahead_plan::{Policy, Span};
use bookahead_protocol::JobId;

const DAY: i64 = 86_400;

/// From one to two o'clock every day.
fn window() -> Window {
    Window {
        name: "nightly".into(),
        resource: Some(cpu()),
        rule: Rule::parse("FREQ=DAILY", None).unwrap(),
        from: "01:00".parse().unwrap(),
        to: "02:00".parse().unwrap(),
        zone: jiff::tz::TimeZone::UTC,
    }
}

fn builtin(policy: Policy) -> Builtin {
    let hosted = Hosted { maintenance: vec![window()], ..hosted(8, policy) };
    let mut builtin = Builtin::new(vec![hosted], at(0), None).unwrap();
    wake(&mut builtin, 0);
    builtin
}

#[test]
fn jobs_start_only_if_they_end_before_maintenance_or_after_it() {
    for policy in crate::policies() {
        let mut builtin = builtin(policy);
        for (id, limit) in [(1, 3_600), (2, 3_601), (3, 100)] {
            builtin.submit(at(0), &job(id, 4, limit, limit)).unwrap();
        }
        let expected = builtin.jobs().into_iter().find(|job| job.id == JobId(2)).unwrap().expected_start;
        assert_eq!(expected.map(|start| start.0), Some(7_200));
        let changes = builtin.pass(at(20_000));
        let started = changes.iter().filter(|change| change.state == JobState::Running);
        let started: Vec<(u128, i64)> = started.map(|change| (change.id.0, change.at.0)).collect();
        let third = if policy == Policy::FCFS { 7_200 } else { 0 };
        for start in [(1, 0), (2, 7_200), (3, third)] {
            assert!(started.contains(&start), "{policy}: {started:?}");
        }
    }
}

#[test]
fn a_reservation_made_before_the_window_was_configured_keeps_its_jobs() {
    let mut builtin = builtin(Policy::EASY);
    builtin.back(at(0), &backing(1, &[span(3_000, 5_000, 2)])).unwrap();
    builtin.submit(at(0), &inside(job(7, 2, 1_500, 1_500), 1)).unwrap();
    builtin.pass(at(4_000));
    assert_eq!(state(&mut builtin, 7), JobState::Running);
    builtin.pass(at(4_600));
    assert_eq!(state(&mut builtin, 7), JobState::Done { exit: 0 });
}

#[test]
fn windows_are_known_two_years_ahead_at_any_time() {
    let mut builtin = builtin(Policy::EASY);
    for day in [0, 1, 5, 400] {
        let now = at(day * DAY + 10_000);
        builtin.pass(now);
        let view = builtin.seen(now).view.clone();
        let first = span((day + 1) * DAY + 3_600, (day + 1) * DAY + 7_200, 8);
        assert!(view.foreign.contains(&first), "day {day}");
        let last: &Span = view.foreign.last().unwrap();
        assert!(
            last.interval.begin >= now.second() + KNOWN_AHEAD - bookahead_plan::Seconds(DAY),
            "day {day}"
        );
        assert!(view.maintenance.iter().all(|one| one.name.as_str() == "nightly"));
        assert_eq!(view.maintenance.len(), view.foreign.len());
    }
}
