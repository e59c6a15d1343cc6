//! Days of rules, windows over changes of the clocks, and what is refused.

use super::*;
use jiff::civil::date;
use proptest::prelude::*;

fn window(rule: &str, from: &str, to: &str, zone: &str) -> Window {
    Window {
        name: "weekly".into(),
        resource: None,
        rule: Rule::parse(rule, None).unwrap(),
        from: from.parse().unwrap(),
        to: to.parse().unwrap(),
        zone: TimeZone::get(zone).unwrap(),
    }
}

fn at(text: &str) -> Time {
    Time(text.parse::<Timestamp>().unwrap().as_second())
}

fn of(begin: &str, end: &str) -> Interval {
    Interval::new(at(begin), at(end))
}

fn days(rule: &str, start: Option<Date>, from: Date, until: Date) -> Vec<String> {
    let rule = Rule::parse(rule, start).unwrap_or_else(|why| panic!("{rule}: {why}"));
    let all = from.series(jiff::Span::new().days(1)).take_while(|day| *day <= until);
    all.filter(|day| rule.includes(*day)).map(|day| day.strftime("%m-%d").to_string()).collect()
}

#[test]
fn a_window_keeps_its_times_on_the_clock_when_summer_begins_and_ends() {
    let weekly = window("FREQ=WEEKLY;BYDAY=WE", "08:00", "12:00", "Europe/Zurich");
    // Summer time begins on 28 March 2027 and ends on 31 October 2027.
    assert_eq!(
        weekly.within(of("2027-03-22T00:00:00Z", "2027-04-03T00:00:00Z")),
        [
            of("2027-03-24T07:00:00Z", "2027-03-24T11:00:00Z"),
            of("2027-03-31T06:00:00Z", "2027-03-31T10:00:00Z")
        ]
    );
    assert_eq!(
        weekly.within(of("2027-10-25T00:00:00Z", "2027-11-05T00:00:00Z")),
        [
            of("2027-10-27T06:00:00Z", "2027-10-27T10:00:00Z"),
            of("2027-11-03T07:00:00Z", "2027-11-03T11:00:00Z")
        ]
    );
}

#[test]
fn a_window_over_the_change_is_an_hour_shorter_or_longer() {
    let night = window("FREQ=WEEKLY;BYDAY=SA", "22:00", "06:00", "Europe/Zurich");
    let hours = |begin: &str, end: &str| {
        let found = night.within(of(begin, end));
        assert_eq!(found.len(), 1, "{found:?}");
        found[0].length().0 / 3_600
    };
    assert_eq!(hours("2027-03-20T12:00:00Z", "2027-03-21T12:00:00Z"), 8);
    assert_eq!(hours("2027-03-27T12:00:00Z", "2027-03-28T12:00:00Z"), 7);
    assert_eq!(hours("2027-10-30T12:00:00Z", "2027-10-31T12:00:00Z"), 9);
}

#[test]
fn times_that_the_clocks_skip_or_repeat_are_covered_in_both_readings() {
    let on = |from: &str, to: &str, day: &str| {
        let window = window("FREQ=DAILY", from, to, "Europe/Zurich");
        window.within(of(&format!("{day}T00:00:00Z"), &format!("{day}T12:00:00Z")))
    };
    // 02:00 to 03:00 is skipped.
    assert_eq!(on("02:15", "02:45", "2027-03-28"), [of("2027-03-28T00:15:00Z", "2027-03-28T01:45:00Z")]);
    assert_eq!(on("02:30", "05:00", "2027-03-28"), [of("2027-03-28T00:30:00Z", "2027-03-28T03:00:00Z")]);
    // 02:00 to 03:00 comes twice.
    assert_eq!(on("02:15", "02:45", "2027-10-31"), [of("2027-10-31T00:15:00Z", "2027-10-31T01:45:00Z")]);
    assert_eq!(on("02:30", "05:00", "2027-10-31"), [of("2027-10-31T00:30:00Z", "2027-10-31T04:00:00Z")]);
}

#[test]
fn a_window_that_is_running_counts_and_one_that_is_over_does_not() {
    let night = window("FREQ=DAILY", "22:00", "06:00", "UTC");
    let first = |now: &str| night.within(Interval::new(at(now), at(now) + Seconds(DAY)))[0];
    let running = of("2026-11-17T22:00:00Z", "2026-11-18T06:00:00Z");
    assert_eq!(first("2026-11-18T05:59:59Z"), running);
    assert_eq!(first("2026-11-18T06:00:00Z").begin, at("2026-11-18T22:00:00Z"));
}

#[test]
fn rules_select_the_days_of_rfc_5545() {
    let (first, last) = (date(2026, 11, 1), date(2026, 12, 31));
    let of = |rule: &str| days(rule, None, first, last);
    assert_eq!(of("FREQ=WEEKLY;BYDAY=WE,FR;UNTIL=20261111"), ["11-04", "11-06", "11-11"]);
    assert_eq!(of("FREQ=MONTHLY;BYDAY=1TU"), ["11-03", "12-01"]);
    assert_eq!(of("FREQ=MONTHLY;BYDAY=-1FR"), ["11-27", "12-25"]);
    assert_eq!(of("RRULE:FREQ=MONTHLY;BYMONTHDAY=13;BYDAY=FR"), ["11-13"]);
    assert_eq!(of("FREQ=MONTHLY;BYMONTHDAY=31"), ["12-31"]);
    assert_eq!(of("FREQ=MONTHLY;BYMONTHDAY=-1"), ["11-30", "12-31"]);
    assert_eq!(of("FREQ=YEARLY;BYMONTH=12;BYDAY=2SU"), ["12-13"]);
    assert_eq!(of("freq=daily;bymonthday=1"), ["11-01", "12-01"]);
    let from = |rule: &str| days(rule, Some(date(2026, 11, 18)), first, last);
    assert_eq!(from("FREQ=WEEKLY;INTERVAL=2"), ["11-18", "12-02", "12-16", "12-30"]);
    assert_eq!(
        from("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE"),
        ["11-18", "11-30", "12-02", "12-14", "12-16", "12-28", "12-30"]
    );
    assert_eq!(from("FREQ=DAILY;INTERVAL=20"), ["11-18", "12-08", "12-28"]);
    assert_eq!(from("FREQ=MONTHLY"), ["11-18", "12-18"]);
    assert_eq!(from("FREQ=YEARLY"), ["11-18"]);
    let once = Rule::once(date(2026, 11, 18));
    assert!(once.includes(date(2026, 11, 18)) && !once.includes(date(2026, 11, 19)));
}

#[test]
fn a_rule_that_is_not_understood_says_what_to_write() {
    for (rule, words) in [
        ("", "NAME=VALUE"),
        ("BYDAY=WE", "FREQ"),
        ("FREQ=HOURLY", "once a day"),
        ("FREQ=SOMETIMES", "DAILY, WEEKLY"),
        ("FREQ=WEEKLY", "BYDAY"),
        ("FREQ=WEEKLY;BYDAY=XX", "MO,WE"),
        ("FREQ=WEEKLY;BYDAY=2TU", "MONTHLY"),
        ("FREQ=YEARLY;BYDAY=2TU", "BYMONTH"),
        ("FREQ=WEEKLY;BYMONTHDAY=1", "MONTHLY"),
        ("FREQ=MONTHLY;BYMONTHDAY=0", "1 to 31"),
        ("FREQ=MONTHLY;BYMONTHDAY=1;BYMONTH=13", "1 to 12"),
        ("FREQ=DAILY;COUNT=3", "UNTIL"),
        ("FREQ=DAILY;INTERVAL=0", "1 to 1000"),
        ("FREQ=DAILY;INTERVAL=2", "start"),
        ("FREQ=DAILY;UNTIL=tomorrow", "20271231"),
        ("FREQ=DAILY;FREQ=DAILY", "twice"),
        ("FREQ=MONTHLY;BYDAY=MO;BYSETPOS=1", "BYDAY"),
        ("FREQ=DAILY;BYHOUR=8", "from and to"),
        ("FREQ=DAILY;WKST=SU", "Monday"),
        ("FREQ=DAILY;COLOUR=RED", "RFC 5545"),
    ] {
        let why = Rule::parse(rule, None).unwrap_err();
        assert!(why.contains(words), "{rule}: {why}");
    }
    assert!(Rule::parse(&"FREQ=DAILY;".repeat(100), None).unwrap_err().contains("at most 500"));
}

#[test]
fn windows_that_overlap_take_the_resource_once() {
    let [daily, weekly] =
        ["FREQ=DAILY", "FREQ=WEEKLY;BYDAY=WE"].map(|rule| window(rule, "08:00", "12:00", "UTC"));
    let other = Window { resource: Some("other".into()), ..daily.clone() };
    let later = Window { from: "10:00".parse().unwrap(), to: "14:00".parse().unwrap(), ..weekly };
    let now = at("2026-11-18T00:00:00Z");
    let planned = planned(&[daily, later, other], &"cluster".into(), Capacity(8), now);
    let taken = taken(&planned);
    assert_eq!(taken[0].interval, of("2026-11-18T08:00:00Z", "2026-11-18T14:00:00Z"));
    assert!(taken.windows(2).all(|pair| pair[0].interval.end < pair[1].interval.begin));
    assert!(taken.iter().all(|span| span.capacity == Capacity(8)));
    assert!(taken.last().unwrap().interval.begin >= now + KNOWN_AHEAD - Seconds(DAY));
}

const ZONES: [&str; 5] =
    ["Europe/Zurich", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"];

/// Minutes in steps of a quarter of an hour on which the clock of the zone shows a time of the window that belongs to
/// a selected day.
fn minutes(window: &Window, within: Interval) -> Vec<Time> {
    let step = |time: &Time| (time.0 < within.end.0).then_some(*time + Seconds(900));
    let all = std::iter::successors(Some(within.begin), step).filter(|time| *time < within.end);
    let shown = all.filter(|time| {
        let clock = window.zone.to_datetime(Timestamp::from_second(time.0).unwrap());
        let over_night = window.to <= window.from;
        let today = window.rule.includes(clock.date()) && clock.time() >= window.from;
        let before = window.rule.includes(clock.date().yesterday().unwrap()) && clock.time() < window.to;
        if over_night { today || before } else { today && clock.time() < window.to }
    });
    shown.collect()
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(128))]

    #[test]
    fn windows_are_where_the_clock_shows_their_times(
        zone in prop::sample::select(ZONES.to_vec()),
        (from, to) in (0..96_u32, 0..96_u32),
        weekday in prop::sample::select(vec!["MO", "WE", "SA", "SU", "SA,SU"]),
        day in 0..400_i64,
    ) {
        let clock = |quarter: u32| format!("{:02}:{:02}", quarter / 4, quarter % 4 * 15);
        let window = window(&format!("FREQ=WEEKLY;BYDAY={weekday}"), &clock(from), &clock(to), zone);
        let begin = at("2027-01-01T00:00:00Z") + Seconds(day * DAY);
        let within = Interval::new(begin, begin + Seconds(14 * DAY));
        let found = window.within(within);
        let shown = minutes(&window, within);
        let inside = |time: &Time| found.iter().any(|one| one.contains(*time));
        prop_assert!(shown.iter().all(inside), "{found:?}");
        prop_assert!(found.windows(2).all(|pair| pair[0].begin < pair[1].begin));
        // Only where the clocks change within two hours of an edge may a window cover more than the clock shows.
        for one in &found {
            let offset = |time: Time| window.zone.to_offset(Timestamp::from_second(time.0).unwrap());
            let is_plain = |edge: Time| offset(edge - Seconds(7_200)) == offset(edge + Seconds(7_200));
            if is_plain(one.begin) && is_plain(one.end) {
                let times = (one.begin.0.max(within.begin.0)..one.end.0.min(within.end.0)).step_by(900);
                prop_assert!(times.map(Time).all(|time| shown.contains(&time)), "{one:?}");
            }
        }
    }

    #[test]
    fn the_days_equal_those_counted_one_by_one(
        start in 0..800_i64,
        interval in 1..6_u32,
        which in 1..5_i8,
        kind in 0..5_u8,
    ) {
        let first = date(2026, 1, 1);
        let start = first.checked_add(jiff::Span::new().days(start)).unwrap();
        let end = date(2031, 1, 1);
        let text = match kind {
            0 => format!("FREQ=DAILY;INTERVAL={interval}"),
            1 => format!("FREQ=WEEKLY;INTERVAL={interval}"),
            2 => format!("FREQ=MONTHLY;INTERVAL={interval};BYDAY={which}TU"),
            3 => format!("FREQ=MONTHLY;INTERVAL={interval};BYMONTHDAY=-{which}"),
            _ => format!("FREQ=YEARLY;INTERVAL={interval};BYMONTH=2;BYDAY=-{which}FR"),
        };
        prop_assert_eq!(days(&text, Some(start), first, end), counted(start, interval, which, kind, end));
    }
}

/// The days of a rule by steps from the start, as a person counts them on a calendar.
fn counted(start: Date, interval: u32, which: i8, kind: u8, end: Date) -> Vec<String> {
    use jiff::civil::Weekday;
    let span = jiff::Span::new();
    let interval = i64::from(interval);
    let month = start.first_of_month();
    let found: Vec<Date> = match kind {
        0 => start.series(span.days(interval)).take_while(|day| *day <= end).collect(),
        1 => start.series(span.weeks(interval)).take_while(|day| *day <= end).collect(),
        2 | 3 => month
            .series(span.months(interval))
            .take_while(|first| *first <= end)
            .filter_map(|first| match kind {
                2 => first.nth_weekday_of_month(which, Weekday::Tuesday).ok(),
                _ => first.last_of_month().checked_sub(span.days(i64::from(which) - 1)).ok(),
            })
            .collect(),
        _ => (i64::from(start.year())..=2031)
            .step_by(usize::try_from(interval).unwrap())
            .filter_map(|year| {
                date(i16::try_from(year).unwrap(), 2, 1).nth_weekday_of_month(-which, Weekday::Friday).ok()
            })
            .collect(),
    };
    let meant = found.into_iter().filter(|day| *day >= start && *day <= end);
    meant.map(|day| day.strftime("%m-%d").to_string()).collect()
}
