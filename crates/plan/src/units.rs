//! Instants, durations and capacities: integers of different types, so they cannot be confused. Time
//! arithmetic saturates: [`Time::MAX`] ("never") plus an hour is still never, and no input can overflow a
//! sum. Nothing here knows a clock, a calendar or a time zone.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, Sub};

/// An instant, in whole seconds since an origin chosen by the caller (the Unix epoch on a live site, the
/// start of the log in a trace).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Time(pub i64);

/// A duration, in whole seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Seconds(pub i64);

/// An amount of one resource: processors, nodes, seats, Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Capacity(pub u32);

impl Time {
    /// Before every other instant.
    pub const MIN: Time = Time(i64::MIN);
    /// Never: after every instant that can be planned.
    pub const MAX: Time = Time(i64::MAX);
}

impl Seconds {
    /// Zero seconds.
    pub const ZERO: Seconds = Seconds(0);
}

impl Seconds {
    /// For messages: `45s`, `2h 30m`, `14 days`, `1 day 1s`. Exact, so different lengths have different words.
    pub fn in_words(self) -> String {
        let (sign, whole) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        let days = match whole / 86_400 {
            0 => String::new(),
            1 => "1 day".to_owned(),
            days => format!("{days} days"),
        };
        let rest = [(whole / 3_600 % 24, "h"), (whole / 60 % 60, "m"), (whole % 60, "s")];
        let rest = rest.iter().filter(|(number, _)| *number > 0);
        let mut words: Vec<String> = rest.map(|(number, unit)| format!("{number}{unit}")).collect();
        if !days.is_empty() {
            words.insert(0, days);
        }
        if words.is_empty() { "0s".to_owned() } else { format!("{sign}{}", words.join(" ")) }
    }
}

impl Capacity {
    /// Zero units.
    pub const ZERO: Capacity = Capacity(0);
}

impl Add<Seconds> for Time {
    type Output = Time;
    #[inline]
    fn add(self, length: Seconds) -> Time {
        Time(self.0.saturating_add(length.0))
    }
}

impl Sub<Seconds> for Time {
    type Output = Time;
    #[inline]
    fn sub(self, length: Seconds) -> Time {
        Time(self.0.saturating_sub(length.0))
    }
}

impl Sub for Time {
    type Output = Seconds;
    #[inline]
    fn sub(self, earlier: Time) -> Seconds {
        Seconds(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Seconds {
    type Output = Seconds;
    #[inline]
    fn add(self, other: Seconds) -> Seconds {
        Seconds(self.0.saturating_add(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Capacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A half-open interval: `begin` belongs to it, `end` does not, so one may end at the instant at which the
/// next begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Interval {
    /// The first instant inside.
    pub begin: Time,
    /// The first instant after.
    pub end: Time,
}

impl Interval {
    /// From `begin` to just before `end`. Empty if `end` is not later than `begin`.
    #[inline]
    pub const fn new(begin: Time, end: Time) -> Interval {
        Interval { begin, end }
    }

    /// From `begin`, for `length`.
    #[inline]
    pub fn starting(begin: Time, length: Seconds) -> Interval {
        Interval { begin, end: begin + length }
    }

    /// Whether it contains no instant.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.end <= self.begin
    }

    /// Its duration; zero if it is empty.
    #[inline]
    pub fn length(&self) -> Seconds {
        if self.is_empty() { Seconds::ZERO } else { self.end - self.begin }
    }

    /// Whether `instant` lies inside.
    #[inline]
    pub fn contains(&self, instant: Time) -> bool {
        self.begin <= instant && instant < self.end
    }
}

/// A capacity for an interval: a rectangle in a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span {
    /// When the capacity is taken.
    pub interval: Interval,
    /// The capacity taken.
    pub capacity: Capacity,
}

impl Span {
    /// `capacity` from `begin`, for `length`.
    #[inline]
    pub fn starting(begin: Time, length: Seconds, capacity: Capacity) -> Span {
        Span { interval: Interval::starting(begin, length), capacity }
    }

    /// `capacity` at all times, such as that of failed nodes.
    pub fn always(capacity: Capacity) -> Span {
        Span { interval: Interval::new(Time::MIN, Time::MAX), capacity }
    }

    /// Capacity times duration, in capacity-seconds. Exact: 128 bits cannot overflow.
    pub fn area(&self) -> i128 {
        i128::from(self.capacity.0) * i128::from(self.interval.length().0)
    }
}
