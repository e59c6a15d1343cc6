//! Request files: what they become, and what is said of those that cannot be meant.

use super::RequestFile;
use super::described::{Described, Fault};
use super::values::{Gap, Required};
use crate::client::dates::Reader;
use bookahead_api::{Constraint, Objective, Part, Request, Requirement, Timestamp};
use jiff::tz::TimeZone;
use proptest::prelude::*;
use std::path::Path;

/// Sunday 2026-11-15, 16:30 in Berlin.
fn reader() -> Reader {
    let now = "2026-11-15T15:30:00Z".parse().unwrap();
    Reader::new(now, TimeZone::get("Europe/Berlin").unwrap())
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn read(text: &str) -> RequestFile {
    RequestFile::read("r.toml".into(), text.into()).unwrap_or_else(|usage| panic!("{usage}"))
}

#[track_caller]
fn request(text: &str) -> Request {
    let file = read(text);
    file.described.request(&reader()).unwrap_or_else(|fault| panic!("{}", file.usage(&fault)))
}

#[track_caller]
fn refused(text: &str) -> String {
    match RequestFile::read("r.toml".into(), text.into()) {
        Err(usage) => usage.to_string(),
        Ok(file) => file.usage(&file.described.request(&reader()).unwrap_err()).to_string(),
    }
}

fn example(name: &str) -> Request {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/requests").join(name);
    request(&std::fs::read_to_string(path).unwrap())
}

/// A part that takes `minutes` within `window`, given by its two ends.
fn part(kind: &str, capacity: u32, minutes: i64, window: [&str; 2]) -> Part {
    Part {
        kind: kind.into(),
        capacity,
        duration_seconds: 60 * minutes,
        earliest_start: at(window[0]),
        latest_end: at(window[1]),
        requirements: Vec::new(),
        resource: None,
        replaces: None,
        changes: None,
        up_to: None,
        measured_on: None,
        tres: Default::default(),
    }
}

#[test]
fn the_examples_become_the_requests_that_they_describe() {
    let one = example("one-cluster.toml");
    let window = ["2026-11-15T16:30:00Z", "2026-11-16T00:30:00Z"];
    let expected = Request {
        parts: vec![part("processors", 32, 60, window)],
        constraints: vec![],
        objective: Objective::LeastImpact,
        ..Request::new(Vec::new(), Vec::new())
    };
    assert_eq!(one, expected);
    let window = ["2026-11-15T16:30:00Z", "2026-11-16T03:30:00Z"];
    let two = example("two-clusters.toml");
    assert_eq!(two.parts, [part("processors", 32, 60, window), part("processors", 48, 60, window)]);
    assert_eq!(
        two.constraints,
        [
            Constraint::Offset { first: 0, second: 1, by_seconds: 0 },
            Constraint::DifferentSites { first: 0, second: 1 }
        ]
    );
    let show = example("tele-immersion.toml");
    let parts = [("processors", 64, 45), ("seats", 10, 30), ("bandwidth", 600, 30)];
    assert_eq!(show.parts, parts.map(|(kind, capacity, minutes)| part(kind, capacity, minutes, window)));
    assert_eq!(
        show.constraints,
        [
            Constraint::Offset { first: 0, second: 1, by_seconds: 900 },
            Constraint::Offset { first: 1, second: 2, by_seconds: 0 },
            Constraint::Joins { link: 2, ends: [0, 1] },
        ]
    );
}

#[test]
fn the_examples_with_an_order_become_gaps() {
    let after =
        |first, second, most| Constraint::After { first, second, least_seconds: 0, most_seconds: Some(most) };
    let chain = example("chain.toml");
    assert_eq!(
        chain.constraints,
        [after(0, 1, 1_800), after(1, 2, 3_600), Constraint::SameSite { first: 0, second: 1 }]
    );
    let qpu = example("qpu-and-cluster.toml");
    let window = ["2026-11-15T16:30:00Z", "2026-11-16T15:30:00Z"];
    assert_eq!(qpu.parts, [part("processors", 16, 60, window), part("qpu", 1, 20, window)]);
    assert_eq!(
        qpu.constraints,
        [
            Constraint::Offset { first: 0, second: 1, by_seconds: 600 },
            Constraint::EndsBefore { first: 1, second: 0 }
        ]
    );
}

#[test]
fn json_says_the_same_as_toml() {
    let toml = "until = \"+9h\"\n[[part]]\ncapacity = 4\nduration = \"2h\"\nrequire = [\"gpus>=4\"]\n\
                resource = \"cluster\"\n[[part]]\nname = \"b\"\ncapacity = 1\nduration = \"1h\"\n\
                [[constraint]]\nsame_site = [\"1\", \"b\"]\n";
    let json = r#"{"until": "+9h", "part": [
        {"capacity": 4, "duration": "2h", "require": ["gpus>=4"], "resource": "cluster"},
        {"name": "b", "capacity": 1, "duration": "PT1H"}
    ], "constraint": [{"same_site": ["1", "b"]}]}"#;
    assert_eq!(request(toml), request(json));
    let first = &request(json).parts[0];
    assert_eq!(first.requirements, [Requirement::AtLeast { attribute: "gpus".into(), value: 4 }]);
    assert_eq!(first.resource, Some("cluster".into()));
    assert_eq!(first.earliest_start, at("2026-11-15T15:30:00Z"), "without a begin from now on");
}

#[test]
fn a_begin_alone_is_the_only_begin() {
    let only = request("from = \"tomorrow 9:00\"\n[[part]]\ncapacity = 1\nduration = \"2h\"\n");
    assert_eq!(only.parts[0].earliest_start, at("2026-11-16T08:00:00Z"));
    assert_eq!(only.parts[0].latest_end, at("2026-11-16T10:00:00Z"));
}

#[test]
fn a_wall_time_without_a_zone_is_told_once() {
    let reader = reader();
    let text = "from = \"tomorrow 9:00\"\nuntil = \"tomorrow 17:00 UTC\"\nduration = \"1h\"\n\
                [[part]]\ncapacity = 1\n[[part]]\ncapacity = 2\n";
    read(text).described.request(&reader).unwrap();
    let told = reader.take_assumed();
    let expected =
        "'tomorrow 09:00' is taken in Europe/Berlin: Mon 2026-11-16 09:00+01:00 (2026-11-16T08:00:00Z)";
    assert_eq!(told, [expected]);
}

#[test]
fn what_cannot_be_read_is_named_with_its_file_and_line() {
    for (text, words) in [
        ("[[part]]\ncapacity = 4\nfrom = \"soon\"\n", ["line 3", "'soon' is not a time"]),
        ("[[part]]\ncapacity = 4\nfrom = 2026-11-16T09:00:00Z\n", ["line 3", "a time in quotes"]),
        ("[[part]]\ncapacity = 4\nduration = 7200\n", ["line 3", "a length of time in quotes"]),
        ("[[part]]\ncapacity = 4\nrequire = [\"gpus>=many\"]\n", ["line 3", "whole number"]),
        ("[[part]]\nkind = \"seats\"\n", ["line 1", "missing field `capacity`"]),
        ("[[part]]\ncapacity = 4\nlength = \"2h\"\n", ["line 3", "unknown field `length`"]),
        ("[[constraint]]\nwith = [\"a\"]\n", ["line 2", "`together`"]),
        (
            "[[constraint]]\nafter = { first = \"a\", second = \"b\", gap = \"soon\" }\n",
            ["line 2", "invalid gap"],
        ),
        ("objective = \"best\"\n", ["line 1", "`earliest-end`"]),
        ("{\"part\": [\n{\"capacity\": 4, \"duration\": \"long\"}]}", ["line 2", "'long' is not a length"]),
    ] {
        let error = refused(text);
        assert!(error.contains("r.toml is not a valid request"), "{error}");
        assert!(words.iter().all(|word| error.contains(word)), "{text}\n{error}");
    }
}

#[test]
fn what_does_not_fit_together_is_named_with_its_file_and_line() {
    let two = "until = \"+9h\"\nduration = \"1h\"\n[[part]]\nname = \"a\"\ncapacity = 1\n\n\
               [[part]]\nname = \"b\"\ncapacity = 1\n";
    let with = |more: &str| format!("{two}\n{more}");
    for (text, words) in [
        ("".to_owned(), "r.toml: the request has no parts"),
        ("duration = \"1h\"\n\n[[part]]\ncapacity = 1\n".into(), "r.toml:3: the time is missing; use from"),
        ("until = \"+1h\"\n[[part]]\ncapacity = 1\n".into(), "r.toml:2: the duration is missing"),
        (
            "until = \"+1h\"\n[[part]]\ncapacity = 0\nduration = \"1h\"".into(),
            "r.toml:2: the capacity must be at least 1",
        ),
        (
            "until = \"+1h\"\n[[part]]\ncapacity = 1\nduration = \"-1h\"".into(),
            "r.toml:2: the duration must be at least",
        ),
        (
            "until = \"+1h\"\n[[part]]\ncapacity = 1\nduration = \"2h\"".into(),
            "r.toml:2: it cannot end by Sun",
        ),
        (
            "from = \"2027-03-28 02:30\"\n[[part]]\ncapacity = 1\nduration = \"2h\"".into(),
            "r.toml:2: 2027-03-28 02:30 does not exist in",
        ),
        (with("[[part]]\nname = \"a\"\ncapacity = 1\n"), "r.toml:11: two parts are called a"),
        (
            with("[[part]]\nname = \"c\"\ncapacity = 1\nduration = \"10h\"\n"),
            "r.toml:11: part c: it cannot end by",
        ),
        (
            with("[[constraint]]\ntogether = [\"a\", \"c\"]\n"),
            "r.toml:11: constraint 1: there is no part c; use one of: a, b",
        ),
        (
            with("[[constraint]]\ntogether = [\"a\"]\n"),
            "r.toml:11: constraint 1: it needs at least two parts",
        ),
        (
            with("[[constraint]]\nafter = { first = \"a\", second = \"a\" }\n"),
            "r.toml:11: constraint 1: it relates a to itself",
        ),
        (
            with("[[constraint]]\njoins = { link = \"a\", ends = [\"a\", \"b\"] }\n"),
            "r.toml: constraint 1 is between a part and itself",
        ),
    ] {
        let error = refused(&text);
        assert!(error.starts_with(words), "{text}\n{error}");
    }
}

#[test]
fn a_description_without_a_file_says_what_is_wrong_alone() {
    let Fault { what, .. } = Described::default().request(&reader()).unwrap_err();
    assert_eq!(what, "the request has no parts; give at least one");
}

/// Lines of which request files are made, and others.
fn files() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("[[part]]".to_owned()),
        Just("[[constraint]]".to_owned()),
        Just("until = \"+9h\"".to_owned()),
        Just("together = [\"1\", \"2\"]".to_owned()),
        "capacity = [0-9]{1,10}",
        "duration = \"-?[0-9]{1,9}[smhd]\"",
        "from = \"[+-][0-9]{1,9}d\"",
        "require = \\[\"[a-z]{0,3}[<>=]{0,2}[0-9|a-z]{0,20}\"\\]",
        "\\PC{0,10}",
    ];
    proptest::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(256))]

    #[test]
    fn no_file_is_too_strange(text in prop_oneof![files(), any::<String>()]) {
        if let Ok(file) = RequestFile::read("r.toml".into(), text)
            && let Err(fault) = file.described.request(&reader())
        {
            prop_assert!(file.usage(&fault).to_string().starts_with("r.toml"));
        }
    }

    #[test]
    fn no_value_is_too_strange(text in prop_oneof!["[a-z]{0,3}[<>=|.0-9sm]{0,12}", "a=[ \"|4x]{0,4}", any::<String>()]) {
        let _ = text.parse::<Gap>();
        if let Ok(required) = text.parse::<Required>() {
            prop_assert_eq!(required.to_string().parse::<Required>(), Ok(required));
        }
    }
}

#[test]
fn a_window_from_now_on_begins_at_a_whole_minute_if_that_costs_little() {
    let now = "2026-11-15T15:30:17Z".parse().unwrap();
    let begin = |text: &str| {
        let file = read(&format!("[[part]]\ncapacity = 1\n{text}"));
        let request = file.described.request(&Reader::new(now, TimeZone::UTC));
        request.unwrap_or_else(|fault| panic!("{}", file.usage(&fault))).parts[0].earliest_start
    };
    assert_eq!(begin("duration = '1h'\nuntil = '+2h'"), at("2026-11-15T15:31:00Z"));
    assert_eq!(begin("duration = '1h'\nfrom = '+2h'\nuntil = '+9h'"), at("2026-11-15T17:31:00Z"));
    assert_eq!(begin("duration = '2h'\nuntil = '+2h'"), now, "there is no time to lose");
    assert_eq!(begin("duration = '5m'\nuntil = '+2h'"), now, "a minute is long for a short one");
    assert_eq!(begin("duration = '1h'\nfrom = '+2h'"), at("2026-11-15T17:30:17Z"), "an exact start");
}
