//! The maintenance windows that a site configures itself: on which days, from when to when on the clock of a time zone.
//!
//! The days follow a subset of RFC 5545 ([`Rule`]). A window ends on the next day if its end is not after its begin.
//! Where the clocks of the zone change, a window keeps its times on the clock, so it may last an hour more or less than
//! usual. If its begin or end is in the hour that the clocks skip or repeat, the window covers both readings.

mod rule;

pub use rule::Rule;

use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::Name;
use bookahead_protocol::ledger::Maintenance;
use jiff::Timestamp;
use jiff::civil::{self, Date};
use jiff::tz::TimeZone;

/// How far ahead windows are known, at least. Bookings beyond it are refused, because they could meet a window. Two
/// years are more than sites let users book ahead, and few enough windows to plan with.
pub const KNOWN_AHEAD: Seconds = Seconds(730 * DAY);

/// How often the windows of a scheduler are computed anew.
pub(crate) const RENEWED_EVERY: Seconds = Seconds(DAY);

const DAY: i64 = 86_400;

/// A recurring maintenance window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Shown to users.
    pub name: Name,
    /// The only resource that it concerns; None for all.
    pub resource: Option<Name>,
    /// Its days.
    pub rule: Rule,
    /// Begin on the clock.
    pub from: civil::Time,
    /// End on the clock. On the next day unless it is later than `from`.
    pub to: civil::Time,
    /// Zone of the clock.
    pub zone: TimeZone,
}

impl Window {
    /// The occurrences that have at least a part within an interval, by begin.
    pub fn within(&self, interval: Interval) -> Vec<Interval> {
        let (Some(first), Some(last)) = (self.date(interval.begin), self.date(interval.end)) else {
            return Vec::new();
        };
        // One that began the day before may reach into the interval.
        let first = first.yesterday().unwrap_or(first);
        let days = first.series(jiff::Span::new().days(1)).take_while(|day| *day <= last);
        let occurrences = days.filter(|day| self.rule.includes(*day)).filter_map(|day| self.on(day));
        occurrences.filter(|one| one.begin < interval.end && interval.begin < one.end).collect()
    }

    fn date(&self, time: Time) -> Option<Date> {
        Some(Timestamp::from_second(time.0).ok()?.to_zoned(self.zone.clone()).date())
    }

    fn on(&self, day: Date) -> Option<Interval> {
        let last = if self.to > self.from { day } else { day.tomorrow().ok()? };
        let begin = self.zone.to_ambiguous_timestamp(day.to_datetime(self.from)).earlier().ok()?;
        let end = self.zone.to_ambiguous_timestamp(last.to_datetime(self.to)).later().ok()?;
        Some(Interval::new(Time(begin.as_second()), Time(end.as_second())))
    }
}

/// The maintenance of a resource that is not over, as far ahead as it is planned. Each takes the whole resource.
pub(crate) fn planned(
    windows: &[Window],
    resource: &Name,
    capacity: Capacity,
    now: Time,
) -> Vec<Maintenance> {
    let ahead = Interval::new(now, now + KNOWN_AHEAD + RENEWED_EVERY);
    let here = windows.iter().filter(|window| window.resource.as_ref().is_none_or(|only| only == resource));
    let each = here.flat_map(|window| {
        let named =
            move |interval| Maintenance { name: window.name.clone(), span: Span { interval, capacity } };
        window.within(ahead).into_iter().map(named)
    });
    let mut all: Vec<Maintenance> = each.collect();
    all.sort_by_key(|one| (one.span.interval.begin, one.span.interval.end));
    all
}

/// The spans of maintenance that may overlap, as the capacity taken at every instant.
pub(crate) fn taken(maintenance: &[Maintenance]) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for Span { interval, capacity } in maintenance.iter().map(|one| one.span) {
        match spans.last_mut() {
            // All take the whole resource, so two that overlap take no more than one.
            Some(last) if interval.begin <= last.interval.end => {
                last.interval.end = last.interval.end.max(interval.end);
            }
            _ => spans.push(Span { interval, capacity }),
        }
    }
    spans
}

#[cfg(test)]
mod tests;
