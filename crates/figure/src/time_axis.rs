//! Time axes: the format of times (time elapsed, or dates in UTC), the marks (at round times of clock and calendar),
//! and the axis itself. Uses 128-bit arithmetic, which is wide enough for any 64-bit instant. There are no time zones,
//! no leap seconds, and never more than a few dozen marks. Times beyond the drawn range are moved to its edge.

use crate::svg::{Frame, Svg};
use crate::theme::{LEFT, PLOT_WIDTH};
use bookahead_plan::{Interval, Seconds, Time};

/// Origin and format of the labels of a time axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Clock {
    /// Time elapsed since the left edge of the picture.
    #[default]
    SinceStart,
    /// Time elapsed since this instant.
    Since(Time),
    /// Dates and hours in UTC.
    Utc {
        /// Unix time of `Time(0)` in seconds: zero on a live site, `UnixStartTime` of the header for a trace.
        unix_of_zero: i64,
    },
}

const MINUTE: i128 = 60;
const HOUR: i128 = 60 * MINUTE;
const DAY: i128 = 24 * HOUR;

impl Clock {
    /// The instant at which this clock shows zero, in seconds of [`Time`].
    fn zero(self, range: Interval) -> i128 {
        match self {
            Clock::SinceStart => i128::from(range.begin.0),
            Clock::Since(start) => i128::from(start.0),
            // Wider than `i64`: the smallest one has no negative, and the difference of two may not fit.
            Clock::Utc { unix_of_zero } => -i128::from(unix_of_zero),
        }
    }

    /// The full form of an instant, for tooltips and descriptions.
    fn written(self, instant: Time, range: Interval) -> String {
        if instant == Time::MAX {
            return "never".to_owned();
        }
        let shown = i128::from(instant.0) - self.zero(range);
        match self {
            Clock::Utc { .. } => {
                format!("{} {} UTC", iso_date(shown.div_euclid(DAY)), time_of_day(shown.rem_euclid(DAY)))
            }
            Clock::SinceStart | Clock::Since(_) => elapsed(shown),
        }
    }
}

fn elapsed(seconds: i128) -> String {
    let sign = if seconds < 0 { "-" } else { "" };
    let seconds = seconds.abs();
    format!("{sign}{} d {}", seconds / DAY, time_of_day(seconds % DAY))
}

/// Formats `seconds` after midnight as hours, minutes and seconds.
fn time_of_day(seconds: i128) -> String {
    format!("{:02}:{:02}:{:02}", seconds / HOUR, seconds % HOUR / MINUTE, seconds % MINUTE)
}

fn iso_date(days: i128) -> String {
    let date = civil_from_days(days);
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// A day of the proleptic Gregorian calendar; January is month 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Date {
    year: i128,
    month: i128,
    day: i128,
}

impl Date {
    /// The name of the month, in three letters.
    fn month_name(&self) -> &'static str {
        const NAMES: [&str; 12] =
            ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
        usize::try_from(self.month - 1).ok().and_then(|index| NAMES.get(index)).copied().unwrap_or("")
    }
}

/// Days in the 400 years after which the calendar repeats.
const DAYS_PER_ERA: i128 = 146_097;
/// Days from 1 March of year 0 to 1 January 1970. Years are counted from March, so that a leap day is the last day.
const EPOCH_FROM_MARCH_ZERO: i128 = 719_468;

/// The date that is `days` after 1 January 1970.
fn civil_from_days(days: i128) -> Date {
    let days = days + EPOCH_FROM_MARCH_ZERO;
    let (era, day_of_era) = (days.div_euclid(DAYS_PER_ERA), days.rem_euclid(DAYS_PER_ERA));
    // The leap days of 4, 100 and 400 years are taken out, so that all years have 365 days.
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // From March on, the lengths of months repeat every five months, which have 153 days together.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    Date { year: era * 400 + year_of_era + i128::from(month <= 2), month, day }
}

/// Days from 1 January 1970 to the first of `month` (0 is January) of `year`.
fn days_to_month(year: i128, month: i128) -> i128 {
    let (year, month_from_march) = if month < 2 { (year - 1, month + 10) } else { (year, month - 2) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5;
    let day_of_era = 365 * year_of_era + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - EPOCH_FROM_MARCH_ZERO
}

/// One mark of a time axis.
#[derive(Debug, PartialEq)]
struct TimeMark {
    at: Time,
    label: String,
    /// The part that labels omit, at marks where it changes: the day for hours, the year for days.
    context: Option<String>,
}

/// The caption of a time axis over `range`, with the unit, and about `room` marks, ascending.
fn time_ticks(range: Interval, clock: Clock, room: u32) -> (String, Vec<TimeMark>) {
    let zero = clock.zero(range);
    let shown = Shown { begin: i128::from(range.begin.0) - zero, end: i128::from(range.end.0) - zero, zero };
    match clock {
        Clock::Utc { .. } => calendar_ticks(shown, room.max(1)),
        Clock::SinceStart | Clock::Since(_) => elapsed_ticks(shown, room.max(1)),
    }
}

/// The range in the time of the clock, with the conversion back to instants.
#[derive(Debug, Clone, Copy)]
struct Shown {
    begin: i128,
    end: i128,
    zero: i128,
}

impl Shown {
    fn instant(self, shown: i128) -> Time {
        let clamped = (shown + self.zero).clamp(i128::from(i64::MIN), i128::from(i64::MAX));
        Time(i64::try_from(clamped).unwrap_or(i64::MAX))
    }

    /// The multiples of `step` from `origin` that lie in the range.
    fn multiples(self, step: i128, origin: i128) -> impl Iterator<Item = i128> {
        // Rounded up, also before the origin: a mark before the range would be drawn at its edge.
        let first = (self.begin - origin + step - 1).div_euclid(step);
        (first..).map(move |index| origin + index * step).take_while(move |&at| at <= self.end)
    }
}

/// Steps shorter than a day, in seconds.
const CLOCK_STEPS: [i128; 17] =
    [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200];

/// Steps in days that are parts or multiples of weeks.
const DAY_STEPS: [i128; 4] = [DAY, 2 * DAY, 7 * DAY, 14 * DAY];

/// 10, 20, 50, 100, 200, …: more than any axis needs.
fn decades() -> impl Iterator<Item = i128> {
    (1..20).flat_map(|power| [1, 2, 5].map(|digit| digit * 10_i128.pow(power)))
}

/// The first of the ascending `steps` of which at most `room` fit into `length`.
fn first_fitting(mut steps: impl Iterator<Item = i128>, length: i128, room: u32) -> Option<i128> {
    steps.find(|step| length / step <= i128::from(room))
}

fn elapsed_ticks(shown: Shown, room: u32) -> (String, Vec<TimeMark>) {
    let long_steps = decades().skip_while(|&days| days < 50).map(|days| days * DAY);
    let steps = CLOCK_STEPS.into_iter().chain(DAY_STEPS).chain([28 * DAY]).chain(long_steps);
    // The fallback is never used, because the last decade is longer than any range. A quarter of the maximum
    // leaves room for sums.
    let step = first_fitting(steps, shown.end - shown.begin, room).unwrap_or(i128::MAX / 4);
    let (unit, name) = match step {
        step if step >= DAY => (DAY, "days"),
        step if step >= HOUR => (HOUR, "hours"),
        step if step >= MINUTE => (MINUTE, "minutes"),
        _ => (1, "seconds"),
    };
    // Steps are multiples of their unit, so the division leaves no rest.
    let mark = |at| TimeMark { at: shown.instant(at), label: (at / unit).to_string(), context: None };
    (format!("Elapsed time ({name})"), shown.multiples(step, 0).map(mark).collect())
}

/// A Monday at midnight, the origin of weekly marks.
const A_MONDAY: i128 = 4 * DAY;

fn calendar_ticks(shown: Shown, room: u32) -> (String, Vec<TimeMark>) {
    let length = shown.end - shown.begin;
    let marks = match first_fitting(CLOCK_STEPS.into_iter().chain(DAY_STEPS), length, room) {
        Some(step) if step < DAY => hour_marks(shown, step),
        Some(step) => dated_marks(shown, shown.multiples(step, A_MONDAY), |date| {
            format!("{} {}", date.day, date.month_name())
        }),
        None => month_marks(shown, length, room),
    };
    ("Time (UTC)".to_owned(), marks)
}

fn hour_marks(shown: Shown, step: i128) -> Vec<TimeMark> {
    let mut day_before = None;
    let mark = |at: i128| {
        let day = at.div_euclid(DAY);
        let date = civil_from_days(day);
        let new_day = day_before.replace(day) != Some(day);
        let mut label = time_of_day(at.rem_euclid(DAY));
        // With steps of whole minutes the seconds are always 00.
        label.truncate(if step < MINUTE { "hh:mm:ss".len() } else { "hh:mm".len() });
        let context = new_day.then(|| format!("{} {} {}", date.day, date.month_name(), date.year));
        TimeMark { at: shown.instant(at), label, context }
    };
    shown.multiples(step, A_MONDAY).map(mark).collect()
}

/// Marks labelled with their date, and with the year where it changes.
fn dated_marks(
    shown: Shown,
    instants: impl Iterator<Item = i128>,
    label: impl Fn(Date) -> String,
) -> Vec<TimeMark> {
    let mut year_before = None;
    let mark = |at: i128| {
        let date = civil_from_days(at.div_euclid(DAY));
        let new_year = year_before.replace(date.year) != Some(date.year);
        TimeMark {
            at: shown.instant(at),
            label: label(date),
            context: new_year.then(|| date.year.to_string()),
        }
    };
    instants.map(mark).collect()
}

/// 27.5 days in seconds: half a day less than the shortest month, so that a monthly step never has too many marks.
const SHORT_MONTH: i128 = 55 * HOUR * 12;

fn month_marks(shown: Shown, length: i128, room: u32) -> Vec<TimeMark> {
    let months = [1, 2, 3, 6].into_iter().chain([12, 24, 60]).chain(decades().map(|years| years * 12));
    let step = first_fitting(months.map(|months| months * SHORT_MONTH), length, room);
    let step = step.unwrap_or(i128::MAX / 4) / SHORT_MONTH;
    let begin = civil_from_days(shown.begin.div_euclid(DAY));
    let first = (begin.year * 12 + begin.month - 1).div_euclid(step);
    let instants = (first..)
        .map(|index| index * step)
        .map(|month| days_to_month(month.div_euclid(12), month.rem_euclid(12)) * DAY)
        // The first multiple is rounded down to a whole step and may be before the range.
        .skip_while(|&at| at < shown.begin)
        .take_while(|&at| at <= shown.end);
    if step < 12 {
        return dated_marks(shown, instants, |date| date.month_name().to_owned());
    }
    let year = |at: i128| civil_from_days(at.div_euclid(DAY)).year.to_string();
    instants.map(|at| TimeMark { at: shown.instant(at), label: year(at), context: None }).collect()
}

/// Minimum distance between two labels, in pixels: enough for a day with its year.
const LABEL_PITCH: f64 = 90.0;

/// Height of the labels below the plot, in pixels.
pub(crate) const TIME_AXIS_HEIGHT: f64 = 62.0;

#[derive(Debug)]
pub(crate) struct TimeAxis {
    range: Interval,
    clock: Clock,
    caption: String,
    marks: Vec<TimeMark>,
}

impl TimeAxis {
    pub(crate) fn new(range: Interval, clock: Clock) -> TimeAxis {
        let (caption, marks) = time_ticks(range, clock, (PLOT_WIDTH / LABEL_PITCH) as u32);
        TimeAxis { range, clock, caption, marks }
    }

    pub(crate) fn range(&self) -> Interval {
        self.range
    }

    /// Position of `instant` in pixels; times beyond the range are at the edge.
    pub(crate) fn x(&self, instant: Time) -> f64 {
        LEFT + self.share(instant) * PLOT_WIDTH
    }

    /// Position of `instant` in the range, clamped to 0 to 1.
    fn share(&self, instant: Time) -> f64 {
        let passed = i128::from(instant.0) - i128::from(self.range.begin.0);
        let length = i128::from(self.range.end.0) - i128::from(self.range.begin.0);
        (passed as f64 / length.max(1) as f64).clamp(0.0, 1.0)
    }

    /// The full form of an instant.
    pub(crate) fn written(&self, instant: Time) -> String {
        self.clock.written(instant, self.range)
    }

    /// Draws a vertical line through the plot for each mark.
    pub(crate) fn draw_grid(&self, svg: &mut Svg, plot: Frame) {
        for mark in &self.marks {
            let x = self.x(mark.at);
            svg.line("grid", (x, plot.top), (x, plot.bottom()));
        }
    }

    /// Draws the base line, the labels and the caption below the last plot.
    pub(crate) fn draw_labels(&self, svg: &mut Svg, plot: Frame) {
        let y = plot.bottom();
        svg.line("axis", (plot.left, y), (plot.right(), y));
        for mark in &self.marks {
            let x = self.x(mark.at);
            svg.line("axis", (x, y), (x, y + 4.0));
            svg.text("middle", (x, y + 17.0), &mark.label);
            if let Some(context) = &mark.context {
                svg.text("middle heading", (x, y + 32.0), context);
            }
        }
        let has_context = self.marks.iter().any(|mark| mark.context.is_some());
        let drop = if has_context { 50.0 } else { 36.0 };
        svg.text("middle", (plot.left + plot.width / 2.0, y + drop), &self.caption);
    }
}

/// The range to draw: the requested one, or that of the instants; never empty. The ends of [`Time`], which mean
/// "always" and "never", are ignored.
pub(crate) fn drawn_range(asked: Option<Interval>, instants: impl Iterator<Item = Time>) -> Interval {
    if let Some(range) = asked {
        return not_empty(range);
    }
    let known = instants.filter(|&instant| instant != Time::MIN && instant != Time::MAX);
    let spanned = known.fold(None, |span: Option<Interval>, instant| {
        let (begin, end) = span.map_or((instant, instant), |span| (span.begin, span.end));
        Some(Interval::new(begin.min(instant), end.max(instant)))
    });
    not_empty(spanned.unwrap_or(Interval::new(Time(0), Time(0))))
}

fn not_empty(range: Interval) -> Interval {
    if !range.is_empty() {
        return range;
    }
    // Sums of times saturate, so a range that begins at the end of time would stay empty.
    let begin = range.begin.min(Time::MAX - Seconds(1));
    Interval::starting(begin, Seconds(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_of_a_thousand_years_follows_the_one_before() {
        let mut before = civil_from_days(-200_000);
        for days in -199_999..200_000 {
            let date = civil_from_days(days);
            if date.day == 1 {
                assert_eq!(days_to_month(date.year, date.month - 1), days);
                assert!((28..=31).contains(&before.day));
            } else {
                assert_eq!(date, Date { day: before.day + 1, ..before });
            }
            before = date;
        }
    }

    #[test]
    fn instants_are_written_in_full() {
        let range = Interval::new(Time(100), Time(200));
        let utc = Clock::Utc { unix_of_zero: 951_782_400 };
        assert_eq!(utc.written(Time(3661), range), "2000-02-29 01:01:01 UTC");
        assert_eq!(utc.written(Time(86_400), range), "2000-03-01 00:00:00 UTC");
        assert_eq!(Clock::SinceStart.written(Time(90_100), range), "1 d 01:00:00");
        assert_eq!(Clock::Since(Time(130)).written(Time(100), range), "-0 d 00:00:30");
        assert_eq!(Clock::SinceStart.written(Time::MAX, range), "never");
        assert!(Clock::Utc { unix_of_zero: i64::MAX }.written(Time(i64::MAX - 1), range).ends_with("UTC"));
        assert!(Clock::Utc { unix_of_zero: i64::MIN }.written(Time::MIN, range).starts_with('-'));
    }

    fn time_labels(begin: i64, end: i64, clock: Clock) -> (String, Vec<String>) {
        let (caption, marks) = time_ticks(Interval::new(Time(begin), Time(end)), clock, 6);
        let both = |mark: TimeMark| match mark.context {
            Some(context) => format!("{}|{context}", mark.label),
            None => mark.label,
        };
        (caption, marks.into_iter().map(both).collect())
    }

    #[test]
    fn elapsed_time_is_counted_in_its_unit() {
        let check = |length: i64, caption: &str, expected: &[&str]| {
            let (found, labels) = time_labels(500, 500 + length, Clock::SinceStart);
            assert_eq!((found.as_str(), labels), (caption, expected.iter().map(|&l| l.to_owned()).collect()));
        };
        check(1, "Elapsed time (seconds)", &["0", "1"]);
        check(1500, "Elapsed time (minutes)", &["0", "5", "10", "15", "20", "25"]);
        check(86_400, "Elapsed time (hours)", &["0", "6", "12", "18", "24"]);
        check(86_400 * 30, "Elapsed time (days)", &["0", "7", "14", "21", "28"]);
        check(86_400 * 1000, "Elapsed time (days)", &["0", "200", "400", "600", "800", "1000"]);
    }

    #[test]
    fn dates_follow_the_calendar() {
        let unix = Clock::Utc { unix_of_zero: 0 };
        let check = |begin: i64, length: i64, expected: &[&str]| {
            let (caption, labels) = time_labels(begin, begin + length, unix);
            assert_eq!(caption, "Time (UTC)");
            assert_eq!(labels, expected);
        };
        let new_year = 946_684_800; // 2000-01-01, a Saturday
        check(new_year - 3600, 7200, &["23:00|31 Dec 1999", "23:30", "00:00|1 Jan 2000", "00:30", "01:00"]);
        let days = ["27 Dec|1999", "3 Jan|2000", "10 Jan", "17 Jan", "24 Jan"];
        check(new_year - 86_400 * 5, 86_400 * 30, &days);
        let months = ["Nov|1999", "Jan|2000", "Mar", "May", "Jul"];
        check(new_year - 86_400 * 62, 86_400 * 300, &months);
        check(new_year + 1, 86_400 * 365 * 30, &["2005", "2010", "2015", "2020", "2025"]);
    }

    #[test]
    fn the_longest_time_has_few_marks() {
        for clock in [Clock::SinceStart, Clock::Since(Time::MAX), Clock::Utc { unix_of_zero: i64::MIN }] {
            let (_, labels) = time_labels(i64::MIN, i64::MAX, clock);
            assert!((2..=8).contains(&labels.len()), "{labels:?}");
            assert!(time_labels(i64::MAX - 1, i64::MAX, clock).1.len() <= 2);
        }
    }

    #[test]
    fn the_drawn_range_is_never_empty() {
        for instant in [Time(0), Time::MIN, Time::MAX, Time(7)] {
            assert!(!drawn_range(None, [instant].into_iter()).is_empty());
            assert!(!drawn_range(Some(Interval::new(instant, instant)), std::iter::empty()).is_empty());
        }
        let instants = [Time(9), Time::MAX, Time(3)].into_iter();
        assert_eq!(drawn_range(None, instants), Interval::new(Time(3), Time(9)));
    }

    #[test]
    fn instants_stay_on_the_axis() {
        let axis = TimeAxis::new(Interval::new(Time::MIN, Time::MAX), Clock::SinceStart);
        assert_eq!(axis.x(Time::MIN), LEFT);
        assert_eq!(axis.x(Time::MAX), LEFT + PLOT_WIDTH);
        let short = TimeAxis::new(Interval::new(Time(0), Time(10)), Clock::SinceStart);
        assert_eq!(short.x(Time::MIN), LEFT);
        assert_eq!(short.x(Time(5)), LEFT + PLOT_WIDTH / 2.0);
    }
}
