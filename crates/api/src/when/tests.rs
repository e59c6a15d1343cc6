//! What times mean, by example and for all of them.

use super::*;
use crate::length::whole_seconds as length;
use proptest::prelude::*;

fn clock(now: &str, zone: &str) -> Clock {
    Clock { now: now.parse().unwrap(), zone: TimeZone::get(zone).unwrap() }
}

/// Sunday 2026-11-15, 16:30 in Berlin.
fn sunday() -> Clock {
    clock("2026-11-15T15:30:00Z", "Europe/Berlin")
}

#[track_caller]
fn means(text: &str, instant: &str) {
    let when: When = text.parse().unwrap_or_else(|error| panic!("{error}"));
    let time = when.resolve(&sunday()).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(Timestamp::from_second(time.0).unwrap().to_string(), instant, "{text}");
}

#[test]
fn times_are_read_as_people_write_them() {
    means("now", "2026-11-15T15:30:00Z");
    means("+2h", "2026-11-15T17:30:00Z");
    means("+90m", "2026-11-15T17:00:00Z");
    means("-1d", "2026-11-14T15:30:00Z");
    means("2026-11-16T09:00:00+01:00", "2026-11-16T08:00:00Z");
    means("2026-11-16T09:00:00Z", "2026-11-16T09:00:00Z");
    means("2026-11-16T09:00:00+01:00[Europe/Berlin]", "2026-11-16T08:00:00Z");
    means("2026-11-16T09:00[America/New_York]", "2026-11-16T14:00:00Z");
    means("today 17:00", "2026-11-15T16:00:00Z");
    means("Tomorrow 9:00", "2026-11-16T08:00:00Z");
    means("tomorrow 9:00 Asia/Tokyo", "2026-11-17T00:00:00Z");
    means("tomorrow 9:00 +05:30", "2026-11-16T03:30:00Z");
    means("2026-11-16 9:00", "2026-11-16T08:00:00Z");
    means("2026-11-16T09:00:15", "2026-11-16T08:00:15Z");
    means("2026-07-01 09:00 Europe/Berlin", "2026-07-01T07:00:00Z");
    means("2026-11-16 09:00 UTC", "2026-11-16T09:00:00Z");
    means("yesterday noon", "2026-11-14T11:00:00Z");
}

#[test]
fn a_day_of_the_week_is_the_next_on_which_the_time_is_still_to_come() {
    means("monday 08:30", "2026-11-16T07:30:00Z");
    means("sat 08:30", "2026-11-21T07:30:00Z");
    means("sunday 17:00", "2026-11-15T16:00:00Z");
    means("sunday 16:30", "2026-11-22T15:30:00Z");
    means("noon", "2026-11-16T11:00:00Z");
    means("midnight", "2026-11-15T23:00:00Z");
}

#[test]
fn what_is_not_clear_is_refused_and_the_error_says_what_to_write() {
    for (text, hint) in [
        ("", "tomorrow 9:00"),
        ("soon", "tomorrow 9:00"),
        ("17", "17:00"),
        ("tomorrow", "'tomorrow 9:00'"),
        ("2026-11-16", "'2026-11-16 9:00'"),
        ("tomorrow midnight", "use 0:00"),
        ("tomorrow 9:00 Mars/Olympus", "Europe/Berlin"),
        ("2026-11-16T09:00:00.5Z", "whole seconds"),
        ("2026-11-16T09:00:00+05:00[Europe/Berlin]", "remove one of them"),
        ("tomorrow 24:00", "is not a time"),
        ("tomorrow 9:5", "is not a time"),
        ("2026-02-30 9:00", "is not a time"),
        ("+soon", "is not a time"),
    ] {
        let error = text.parse::<When>().unwrap_err().to_string();
        assert!(error.contains(hint), "{text}: {error}");
    }
}

#[test]
fn a_wall_time_that_is_twice_or_never_is_refused_with_both_readings() {
    let refused = |text: &str| text.parse::<When>().unwrap().resolve(&sunday()).unwrap_err().to_string();
    let twice = refused("2027-10-31 02:30");
    assert!(twice.contains("occurs twice in Europe/Berlin"), "{twice}");
    assert!(twice.contains("2027-10-31T02:30:00+02:00 or 2027-10-31T02:30:00+01:00"), "{twice}");
    let never = refused("2027-03-28 02:30");
    assert!(never.contains("does not exist in Europe/Berlin"), "{never}");
    assert!(never.contains("2027-03-28T01:30:00+01:00 or 2027-03-28T03:30:00+02:00"), "{never}");
    // The readings can be written as they are shown, and there is no such hour elsewhere.
    for text in ["2027-10-31T02:30:00+02:00", "2027-10-31 02:30 UTC", "2027-03-28T03:30:00+02:00"] {
        assert!(text.parse::<When>().unwrap().resolve(&sunday()).is_ok(), "{text}");
    }
}

#[test]
fn it_is_known_what_a_time_depends_on() {
    let when = |text: &str| text.parse::<When>().unwrap();
    assert!(when("+1h").needs_now() && when("today 9:00").needs_now() && when("noon").needs_now());
    assert!(!when("2026-11-16 9:00").needs_now() && !when("2026-11-16T09:00:00Z").needs_now());
    assert!(when("tomorrow 9:00").assumes_zone() && when("noon").assumes_zone());
    assert!(!when("tomorrow 9:00 UTC").assumes_zone() && !when("+1h").assumes_zone());
}

/// Every expression in `expressions.txt` with its instant or its error, on a Sunday at 16:30 in Berlin.
/// `BOOKAHEAD_UPDATE=1` writes the file anew; read the difference.
#[test]
fn expressions_mean_what_the_table_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/when/expressions.txt");
    let table = std::fs::read_to_string(path).unwrap();
    let told = |line: &str| {
        let (kind, text) = line.split_once('|').map_or((line, ""), |(left, _)| left.split_at(7));
        let (kind, text) = (kind.trim(), text.trim());
        let outcome = match kind {
            "length" => {
                length(text).map(|length| Length::from(length).to_string()).map_err(|error| error.to_string())
            }
            "time" => text.parse::<When>().map_err(|error| error.to_string()).and_then(|when| {
                let time = when.resolve(&sunday()).map_err(|error| error.to_string())?;
                let zoned = Timestamp::from_second(time.0).unwrap().to_zoned(sunday().zone);
                Ok(zoned.strftime("%a %Y-%m-%d %H:%M:%S %:z").to_string())
            }),
            other => panic!("{other}: neither time nor length"),
        };
        match outcome {
            Ok(means) => format!("{kind:<7}{text:<34}| {means}"),
            Err(error) => format!("{kind:<7}{text:<34}| error: {error}"),
        }
    };
    let lines: Vec<&str> = table.lines().collect();
    let anew: Vec<String> = lines
        .iter()
        .map(|line| if line.starts_with('#') { (*line).to_owned() } else { told(line) })
        .collect();
    if std::env::var_os("BOOKAHEAD_UPDATE").is_some() {
        std::fs::write(path, anew.join("\n") + "\n").unwrap();
    }
    for (line, anew) in lines.iter().zip(&anew) {
        assert_eq!(line, anew);
    }
    assert!(lines.len() >= 200, "{}", lines.len());
}

/// Days that can be written, each with a time of day, in any of some zones.
fn walls() -> impl Strategy<Value = When> {
    let weekdays = (0..7).prop_map(|days| Day::Coming(Some(Weekday::Monday.wrapping_add(days))));
    let dates = (1..=9_999i16, 1..=12i8, 1..=28i8).prop_map(|(y, m, d)| Day::On(civil::date(y, m, d)));
    let next = (0..7).prop_map(|days| Day::Next(Weekday::Monday.wrapping_add(days)));
    let yearly = (1..=12i8, 1..=28i8).prop_map(|(month, day)| Day::Yearly { month, day });
    let near =
        prop_oneof![Just(Day::Yesterday), Just(Day::Today), Just(Day::Tomorrow), Just(Day::Coming(None))];
    let times = (0..24i8, 0..60i8, 0..60i8).prop_map(|(h, m, s)| civil::time(h, m, s, 0));
    let named = prop_oneof![Just("Europe/Berlin"), Just("America/St_Johns"), Just("UTC")];
    let named = named.prop_map(|name| TimeZone::get(name).unwrap());
    let fixed =
        (-80_000..80_000i32).prop_map(|s| TimeZone::fixed(jiff::tz::Offset::from_seconds(s).unwrap()));
    let zones = proptest::option::of(prop_oneof![named, fixed]);
    (prop_oneof![weekdays, dates, near, next, yearly], times, zones)
        .prop_map(|(day, time, zone)| When::Wall { day, time, zone })
}

fn whens() -> impl Strategy<Value = When> {
    let instants = -60_000_000_000..250_000_000_000i64;
    prop_oneof![
        Just(When::Now),
        (-400_000_000_000..400_000_000_000i64).prop_map(|seconds| When::In(Seconds(seconds))),
        instants.prop_map(|second| When::Exactly(Timestamp::from_second(second).unwrap())),
        walls(),
    ]
}

/// Words of which times are made, and others.
fn texts() -> impl Strategy<Value = String> {
    let word = prop_oneof![
        Just("tomorrow".to_owned()),
        Just("monday".to_owned()),
        Just("noon".to_owned()),
        Just("midnight".to_owned()),
        Just("[Europe/Berlin]".to_owned()),
        Just("Asia/Kathmandu".to_owned()),
        "[0-9]{1,3}:[0-9]{1,3}(:[0-9]{1,3})?",
        "[0-9]{1,5}-[0-9]{1,2}-[0-9]{1,2}[ T]?",
        "[+-][0-9]{1,20}[a-zA-Z:]{0,2}",
        "\\PC{0,6}",
    ];
    proptest::collection::vec(word, 0..5).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(512))]

    #[test]
    fn what_is_written_is_read_again(when in whens()) {
        prop_assert_eq!(when.to_string().parse::<When>(), Ok(when));
    }

    #[test]
    fn no_text_is_too_strange(text in prop_oneof![texts(), any::<String>()], now in any::<i64>()) {
        if let Ok(when) = text.parse::<When>() {
            let now = Timestamp::from_second(now % 253_402_207_200).unwrap();
            let clock = Clock { now, zone: TimeZone::get("America/New_York").unwrap() };
            let _ = (when.resolve(&clock), when.to_string());
        }
    }
}
