//! Parsing of handwritten documents: short forms, defaults, and clear errors.

use bookahead_api as api;
use bookahead_api::{AttributeValue, Code, Constraint, Requirement};
use bookahead_protocol::{Millis, Problem, Why};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use serde_json::json;

#[allow(clippy::needless_pass_by_value, reason = "calls read better without a reference to json!")]
fn read<T: DeserializeOwned>(document: serde_json::Value) -> Result<T, String> {
    serde_json::from_str(&document.to_string()).map_err(|error| error.to_string())
}

#[allow(clippy::needless_pass_by_value, reason = "calls read better without a reference to json!")]
fn part(change: serde_json::Value) -> serde_json::Value {
    let mut part = json!({
        "capacity": 4, "duration_seconds": 60,
        "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00+01:00",
    });
    part.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
    part
}

#[test]
fn the_shortest_reservation_names_only_what_is_wanted() {
    let reserve: api::Reserve = read(json!({"request": {"parts": [part(json!({}))]}})).unwrap();
    assert_eq!(reserve.id, None);
    assert_eq!((reserve.hold_for_seconds, reserve.book), (api::FineSeconds(60_000), false));
    let wanted = &reserve.request.parts[0];
    assert_eq!(wanted.kind.as_str(), "processors");
    assert_eq!(wanted.latest_end.to_string(), "2026-11-16T17:00:00Z");
    assert_eq!(reserve.request.objective, api::Objective::EarliestEnd);
    assert_eq!(read::<api::Commit>(json!({})), Ok(api::Commit { jobs: vec![] }));
    assert_eq!(read::<api::Hold>(json!({})), Ok(api::Hold { hold_for_seconds: api::FineSeconds(60_000) }));
}

#[test]
fn documents_of_older_parties_are_read_and_nothing_is_said_that_is_not_known() {
    let job: api::SubmitJob =
        read(json!({"capacity": 1, "limit_seconds": 60, "work": {"type": "pretended", "run_seconds": 1}}))
            .unwrap();
    assert!(!job.claims && serde_json::to_value(&job).unwrap().get("claims").is_none());
    let heartbeat: api::Heartbeat =
        read(json!({"name": "north", "url": "http://north", "role": "site"})).unwrap();
    assert_eq!(heartbeat.hold_takes_seconds, None);
    let offers: api::Offers = read(json!({"offers": []})).unwrap();
    assert_eq!(serde_json::to_value(&offers).unwrap(), json!({"offers": []}));
    let health: api::Health = read(json!({
        "status": "ready", "name": "north", "role": "site", "version": "0.1.0", "now": "2026-11-16T09:00:00Z",
        "clock_speed": 1, "journal_sequence": 0, "batch": {"state": "silent", "looked_seconds_ago": 90},
    }))
    .unwrap();
    let silent =
        api::BatchHealth { state: api::BatchState::Silent, since: None, looked_seconds_ago: Some(90) };
    assert_eq!(health.batch, Some(silent));
}

#[test]
fn requirements_and_constraints_are_written_as_people_would() {
    let part: api::Part = read(part(json!({"requirements": [
        {"attribute": "gpus", "test": "at-least", "value": 4},
        {"attribute": "site", "test": "is", "value": "north"},
        {"attribute": "cpu", "test": "one-of", "values": ["zen", 5]},
        {"attribute": "infiniband", "test": "present"},
    ]})))
    .unwrap();
    assert_eq!(part.requirements[0], Requirement::AtLeast { attribute: "gpus".into(), value: 4 });
    let values = vec![AttributeValue::Text("zen".into()), AttributeValue::Number(5)];
    assert_eq!(part.requirements[2], Requirement::OneOf { attribute: "cpu".into(), values });
    let after = json!({"type": "after", "first": 0, "second": 1, "most_seconds": 600});
    let least = Constraint::After { first: 0, second: 1, least_seconds: 0, most_seconds: Some(600) };
    assert_eq!(read(after), Ok(least));
    let joins = json!({"type": "joins", "link": 2, "ends": [0, 1]});
    assert_eq!(read(joins), Ok(Constraint::Joins { link: 2, ends: [0, 1] }));
}

#[test]
fn a_field_that_is_not_known_is_refused_and_named() {
    let wrong = [
        read::<api::Part>(part(json!({"durration": 60}))).unwrap_err(),
        read::<api::Reserve>(json!({"request": {"parts": []}, "durration": 1})).unwrap_err(),
        read::<Constraint>(json!({"type": "same-site", "first": 0, "second": 1, "durration": 1}))
            .unwrap_err(),
        read::<Requirement>(json!({"test": "present", "attribute": "a", "durration": 1})).unwrap_err(),
        read::<api::Work>(json!({"type": "pretended", "run_seconds": 1, "durration": 1})).unwrap_err(),
        read::<api::Extend>(json!({"end": "2026-11-16T13:00:00Z", "durration": 60})).unwrap_err(),
        read::<api::ListQuery>(json!({"durration": 60})).unwrap_err(),
    ];
    for error in wrong {
        assert!(error.contains("durration"), "{error}");
    }
}

#[test]
fn values_of_the_wrong_kind_are_refused_in_words() {
    let zoneless = part(json!({"earliest_start": "2026-11-16T09:00:00"}));
    assert!(read::<api::Part>(zoneless).unwrap_err().contains("no offset"));
    let fraction = part(json!({"requirements": [{"attribute": "a", "test": "is", "value": 1.5}]}));
    assert!(read::<api::Part>(fraction).unwrap_err().contains("a text or a whole number"));
    let wrong_id = json!({"job": "rsv_1"});
    assert!(read::<api::Attach>(wrong_id).unwrap_err().contains("job_"));
    assert!(read::<api::Part>(part(json!({"capacity": -1}))).is_err());
}

#[test]
fn a_problem_of_a_newer_server_is_still_a_problem() {
    let document = json!({
        "type": "/problems/new", "title": "New", "status": 409, "detail": "something new", "code": "new",
        "reason": {"SomethingNew": 7}, "another": true,
    });
    let problem: api::Problem = read(document).unwrap();
    assert_eq!(problem.why(), None);
    let error = Problem::try_from(problem).unwrap_err();
    assert!(error.to_string().contains("something new"), "{error}");
}

#[test]
fn statuses_follow_from_what_the_client_can_do_about_it() {
    for (why, status) in [
        (Why::OnePartOnly(2), 422),
        (Why::Busy, 503),
        (Why::Silence, 504),
        (Why::BatchTimeout { waited: Millis(30_000) }, 409),
        (Why::Circle, 409),
        (Why::Expired, 410),
        (Why::Changed { seen: 1, now: 2 }, 412),
        (Why::PartLost, 409),
    ] {
        assert_eq!(api::Problem::status(&why), status);
    }
    let final_ones = [Why::BatchTimeout { waited: Millis(30_000) }, Why::Circle, Why::Expired];
    assert!(final_ones.into_iter().all(|why| api::Problem::from(Problem::new(why)).is_final()));
    assert!(!api::Problem::from(Problem::new(Why::Busy)).is_final());
    let problem = api::Problem::new(Code::NoVersion, "send If-Match");
    let written = serde_json::to_value(&problem).unwrap();
    let expected = json!({
        "type": "/problems/no-version", "title": "If-Match missing", "status": 428,
        "detail": "send If-Match", "code": "no-version",
    });
    assert_eq!(written, expected);
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn a_time_that_is_read_is_written_as_the_same_instant(
        text in prop_oneof![
            4 => r"[0-9]{4}-[01][0-9]-[0-3][0-9][T ][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\.0{1,12})?(Z|[+-][0-2][0-9]:[0-6][0-9])",
            1 => r"[0-9T:+Z. -]{0,30}",
            1 => any::<String>(),
        ]
    ) {
        if let Ok(read) = text.parse::<api::Timestamp>() {
            let written = read.to_string();
            prop_assert!(written.len() == 20 && written.ends_with('Z'), "{}", written);
            prop_assert_eq!(written.parse(), Ok(read));
            prop_assert_eq!(text.parse::<api::FineTimestamp>().unwrap().moment().second(), read.time());
        }
    }
}
