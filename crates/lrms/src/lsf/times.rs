//! Times in the formats of LSF's commands: whole minutes as input, several formats as output. All are UTC, since the
//! commands run with `TZ=UTC`.

use crate::dialect::calendar::{self, date};
use bookahead_plan::{Interval, Seconds, Time};

/// Reservations begin and end on whole minutes, in seconds.
pub(super) const STEP: i64 = 60;
/// LSF reserves slots in whole periods of this length, in seconds (brsvadd: a day has 144 periods).
pub(super) const PERIOD: i64 = 600;
const DAY: i64 = 86_400;

/// The smallest interval on whole steps that contains this one.
pub(super) fn widened(interval: Interval, step: i64) -> Interval {
    // With `%`, times before 1970 would be rounded up.
    let down = |time: i64| time.saturating_sub(time.rem_euclid(step));
    let up = |time: i64| down(time.saturating_add(step - 1));
    Interval::new(Time(down(interval.begin.0)), Time(up(interval.end.0)))
}

/// A limit in whole minutes, rounded up, for `bsub -W`.
pub(super) fn minutes(limit: Seconds) -> i64 {
    // Up: LSF must not kill a job before the limit that its owner asked for.
    limit.0.max(1).saturating_add(STEP - 1) / STEP
}

/// `year:month:day:hour:minute`, for `brsvadd -b` and `-e`.
pub(super) fn asked(time: Time) -> String {
    calendar::written(time, "%Y:%-m:%-d:%-H:%-M")
}

/// How to choose the year if none is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lies {
    /// The latest that is not after now.
    Behind,
    /// The earliest that is not before now.
    Ahead,
}

/// Parses a time of `bjobs`, `bhist` or `brsvs -l`: `[Sat] Oct  1 14:01[:44] [2026]`, perhaps followed by a letter.
pub(super) fn stamp(text: &str, clock: Time, lies: Lies) -> Option<Time> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // The only fixed point: the day of the week, the seconds and the year may be missing.
    let at = words.iter().position(|word| word.contains(':'))?;
    let day = words.get(at.checked_sub(2)?..=at)?.join(" ");
    let format = if words[at].matches(':').count() == 1 { "%Y %b %d %H:%M" } else { "%Y %b %d %H:%M:%S" };
    let of_year = |year: i16| calendar::read(&format!("{year} {day}"), format);
    match words.get(at + 1).and_then(|word| word.parse().ok()) {
        Some(year) => of_year(year),
        None => without_year(of_year, clock, lies),
    }
}

/// Allows a day of tolerance, since clocks differ and minutes are truncated.
fn without_year(of_year: impl Fn(i16) -> Option<Time>, clock: Time, lies: Lies) -> Option<Time> {
    let now = date(clock).year();
    // Any nine consecutive years from 2000 to 2099 contain a 29 February.
    match lies {
        Lies::Behind => {
            let is_behind = |time: &Time| time.0 <= clock.0.saturating_add(DAY);
            (now - 8..=now + 1).rev().filter_map(of_year).find(is_behind)
        }
        Lies::Ahead => {
            let is_ahead = |time: &Time| time.0 >= clock.0.saturating_sub(DAY);
            (now - 1..=now + 8).filter_map(of_year).find(is_ahead)
        }
    }
}

/// The time window of a reservation in the format of `brsvs`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Window {
    /// Once: `[year/]month/day/hour/minute-…`.
    Once(Interval),
    /// Recurring, with this period in seconds: `[day:]hour:minute-…`.
    Every(i64),
}

/// Parses a time window; None if it is not one. Without a year, it is the first that is not over.
pub(super) fn window(text: &str, clock: Time) -> Option<Window> {
    let is_part = |byte: u8| byte.is_ascii_digit() || byte == b'/' || byte == b':';
    let (begin, end) = text.split_once('-')?;
    if ![begin, end].iter().all(|part| !part.is_empty() && part.bytes().all(is_part)) {
        return None;
    }
    if begin.contains('/') {
        return once(begin, end, clock).map(Window::Once);
    }
    match begin.split(':').count() {
        1 | 2 => Some(Window::Every(DAY)),
        3 => Some(Window::Every(7 * DAY)),
        _ => None,
    }
}

fn once(begin: &str, end: &str, clock: Time) -> Option<Interval> {
    let of_year = |text: &str, year: i16| calendar::read(&format!("{year}/{text}"), "%Y/%m/%d/%H/%M");
    let read = |text: &str, without_year: &dyn Fn() -> Option<Time>| match text.split('/').count() {
        4 => without_year(),
        _ => calendar::read(text, "%Y/%m/%d/%H/%M"),
    };
    // The end first: a listed reservation is not over, so its end lies ahead, and its begin before that.
    let end = read(end, &|| without_year(|year| of_year(end, year), clock, Lies::Ahead))?;
    let last = date(end).year();
    let before =
        || (last - 8..=last).rev().filter_map(|year| of_year(begin, year)).find(|begin| *begin < end);
    let begin = read(begin, &before)?;
    (begin < end).then_some(Interval::new(begin, end))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(year: i16, month: i8, day: i8, hour: i8, minute: i8) -> Time {
        calendar::iso(&format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:00")).unwrap()
    }

    #[test]
    fn intervals_are_widened_outward_to_whole_minutes() {
        let widen = |begin, end| widened(Interval::new(Time(begin), Time(end)), STEP);
        assert_eq!(widen(61, 119), Interval::new(Time(60), Time(120)));
        assert_eq!(widen(60, 120), Interval::new(Time(60), Time(120)));
        assert_eq!(widen(-1, 1), Interval::new(Time(-60), Time(60)));
        widened(Interval::new(Time::MIN, Time::MAX), STEP);
    }

    #[test]
    fn limits_round_up_to_minutes() {
        let limits = [0, 1, 60, 61, i64::MAX].map(|limit| minutes(Seconds(limit)));
        assert_eq!(limits, [1, 1, 1, 2, i64::MAX / 60]);
    }

    #[test]
    fn a_time_is_asked_for_with_its_year() {
        assert_eq!(asked(at(2026, 11, 5, 7, 3)), "2026:11:5:7:3");
    }

    #[test]
    fn stamps_are_read_with_and_without_a_year() {
        let clock = at(2027, 1, 2, 12, 0);
        let read = |text, lies| stamp(text, clock, lies);
        assert_eq!(read("Oct  1 14:01:44 2026", Lies::Behind), Some(Time(at(2026, 10, 1, 14, 1).0 + 44)));
        assert_eq!(read("Sat Aug 22 08:00:00 2009", Lies::Ahead), Some(at(2009, 8, 22, 8, 0)));
        assert_eq!(read("Dec 28 19:56 L", Lies::Behind), Some(at(2026, 12, 28, 19, 56)));
        assert_eq!(read("Jan  2 11:59", Lies::Behind), Some(at(2027, 1, 2, 11, 59)));
        assert_eq!(read("Feb 29 10:00", Lies::Ahead), Some(at(2028, 2, 29, 10, 0)));
        for nonsense in
            ["", "x", "Foo 1 10:00", "Oct 32 10:00", "Oct 1 10", "Sat", "Oct 1 10:00 99999999999999999"]
        {
            assert_eq!(read(nonsense, Lies::Behind).filter(|_| nonsense.len() < 12), None, "{nonsense}");
        }
    }

    #[test]
    fn windows_are_read_with_and_without_a_year() {
        let clock = at(2026, 12, 30, 0, 0);
        let once = |begin, end| Some(Window::Once(Interval::new(begin, end)));
        let (new, old) = ("2026/12/31/6/0-2027/1/1/8/30", "12/31/6/0-1/1/8/30");
        let expected = once(at(2026, 12, 31, 6, 0), at(2027, 1, 1, 8, 30));
        assert_eq!(window(new, clock), expected);
        assert_eq!(window(old, clock), expected);
        assert_eq!(
            window("12/29/23/0-12/30/1/0", clock),
            once(at(2026, 12, 29, 23, 0), at(2026, 12, 30, 1, 0))
        );
        assert_eq!(window("12:0-14:0", clock), Some(Window::Every(DAY)));
        assert_eq!(window("5:18:0-5:20:0", clock), Some(Window::Every(7 * DAY)));
        for nonsense in
            ["-", "", "a-b", "1/2-3/4", "12/32/0/0-12/33/0/0", "host-1", "1:2:3:4-1:2:3:4", "2/1/0/0-"]
        {
            assert_eq!(window(nonsense, clock), None, "{nonsense}");
        }
    }
}
