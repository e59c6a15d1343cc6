//! Adds up rows of the usage history by user, project, resource, site or month. Of every row only the part within the window
//! counts.

use super::row::{JobRow, PartRow, PartState, overlap};
use bookahead_plan::{Interval, Span, Time};
use bookahead_protocol::{Name, ReservationId};
use jiff::ToSpan as _;
use jiff::tz::TimeZone;
use std::collections::BTreeMap;

/// Most rows in an answer: a few megabytes.
const MOST_ROWS: usize = 10_000;

/// Most months in a window: 100 years.
const MOST_MONTHS: usize = 1_200;

/// A column to group by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    User,
    Project,
    Site,
    Resource,
    Month,
}

/// What to add up.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) window: Interval,
    /// Only of this user.
    pub(crate) owner: Option<Name>,
    pub(crate) by: Vec<By>,
    /// Where months begin.
    pub(crate) zone: TimeZone,
    /// Running jobs are counted up to now.
    pub(crate) now: Time,
    /// Name of the service: the site of resources without one in their name.
    pub(crate) service: Name,
}

/// Values of the columns of [`Question::by`], in that order, and the kind of resource. Units of different kinds are
/// never added.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    pub(crate) values: Vec<String>,
    pub(crate) kind: String,
}

/// Sums of one group. Times of capacity are in units times seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sums {
    pub(crate) reservations: u64,
    pub(crate) cancelled: u64,
    pub(crate) expired: u64,
    pub(crate) lost: u64,
    pub(crate) jobs: u64,
    pub(crate) booked: i128,
    pub(crate) kept: i128,
    pub(crate) ran: i128,
    /// The reservation counted last. Its parts come one after the other, and it is counted once.
    last: Option<ReservationId>,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TooMuch {
    #[error(
        "the answer would have more than {MOST_ROWS} rows; ask for a shorter time, one user, or fewer columns"
    )]
    Rows,
    #[error("the window has more than {MOST_MONTHS} months; ask for a shorter time")]
    Months,
    #[error("the window is outside of the calendar")]
    Calendar,
}

/// Sums by group, and over all groups of a kind.
#[derive(Debug)]
pub(crate) struct Tally {
    question: Question,
    /// Parts of the window that are added up apart, with their labels.
    slices: Vec<(String, Interval)>,
    pub(crate) groups: BTreeMap<Group, Sums>,
    pub(crate) totals: BTreeMap<String, Sums>,
}

impl Tally {
    pub(crate) fn new(question: Question) -> Result<Tally, TooMuch> {
        let slices = if question.by.contains(&By::Month) {
            months(question.window, &question.zone)?
        } else {
            vec![(String::new(), question.window)]
        };
        Ok(Tally { question, slices, groups: BTreeMap::new(), totals: BTreeMap::new() })
    }

    pub(crate) fn question(&self) -> &Question {
        &self.question
    }

    /// Whether there are more rows than an answer may have.
    pub(crate) fn is_too_large(&self) -> Result<(), TooMuch> {
        if self.groups.len() > MOST_ROWS { Err(TooMuch::Rows) } else { Ok(()) }
    }

    pub(super) fn add_part(&mut self, row: &PartRow) {
        // A hold is not a booking; one that expired is counted.
        if !row.committed && row.state != PartState::Expired {
            return;
        }
        let add = |sums: &mut Sums, slice: Interval| {
            let touches = |spans: &[Span]| spans.iter().any(|span| area(span, slice) > 0);
            if !touches(&row.booked) && !touches(&row.kept) {
                return;
            }
            let sum = |spans: &[Span]| spans.iter().map(|span| area(span, slice)).sum::<i128>();
            if row.committed {
                sums.booked += if row.state == PartState::Replaced { 0 } else { sum(&row.booked) };
                sums.kept += sum(&row.kept);
            }
            // Parts of one reservation are counted once. Those that were replaced have a successor.
            if row.state == PartState::Replaced || sums.last == Some(row.id) {
                return;
            }
            sums.last = Some(row.id);
            sums.reservations += u64::from(row.committed);
            match row.state {
                PartState::Cancelled => sums.cancelled += 1,
                PartState::Expired => sums.expired += 1,
                PartState::Lost => sums.lost += 1,
                _ => {}
            }
        };
        let everything = super::row::extent(&row.booked, &row.kept);
        self.add([&row.owner, &row.project, &row.resource], &row.kind, everything, add);
    }

    pub(super) fn add_job(&mut self, row: &JobRow) {
        let Some(started) = row.started else { return };
        let end = row.ended.unwrap_or(self.question.now).max(started);
        let ran = Interval::new(started, end);
        let add = |sums: &mut Sums, slice: Interval| {
            let within = overlap(ran, slice);
            // A job that ended in its first second counts, too.
            if within.is_empty() && !(ran.is_empty() && slice.contains(started)) {
                return;
            }
            sums.jobs += 1;
            sums.ran += Span { interval: within, capacity: row.capacity }.area();
        };
        self.add([&row.owner, &row.project, &row.resource], &row.kind, ran, add);
    }

    fn add(
        &mut self,
        [owner, project, resource]: [&Name; 3],
        kind: &Name,
        when: Interval,
        add: impl Fn(&mut Sums, Interval),
    ) {
        if when.end < self.question.window.begin || when.begin >= self.question.window.end {
            return;
        }
        let first = self.slices.partition_point(|(_, slice)| slice.end < when.begin);
        for (label, slice) in &self.slices[first..] {
            if slice.begin > when.end {
                break;
            }
            // Tried on empty sums first, because a group without usage must not get a row.
            let mut sums = Sums::default();
            add(&mut sums, *slice);
            if sums == Sums::default() {
                continue;
            }
            let value = |by: &By| match by {
                By::User => owner.to_string(),
                By::Project => project.to_string(),
                By::Site => site(resource, &self.question.service),
                By::Resource => resource.to_string(),
                By::Month => label.clone(),
            };
            let values = self.question.by.iter().map(value).collect();
            let group = Group { values, kind: kind.to_string() };
            add(self.groups.entry(group).or_default(), *slice);
        }
        // Over the whole window and not from the groups: a reservation in several groups counts once.
        let mut sums = Sums::default();
        add(&mut sums, self.question.window);
        if sums != Sums::default() {
            add(self.totals.entry(kind.to_string()).or_default(), self.question.window);
        }
    }
}

/// A broker names resources `site/resource`.
fn site(resource: &Name, service: &Name) -> String {
    resource.as_str().split_once('/').map_or_else(|| service.to_string(), |(site, _)| site.to_owned())
}

fn area(span: &Span, slice: Interval) -> i128 {
    Span { interval: overlap(span.interval, slice), ..*span }.area()
}

/// The window cut at the beginnings of months, with labels such as `2026-11`.
fn months(window: Interval, zone: &TimeZone) -> Result<Vec<(String, Interval)>, TooMuch> {
    let mut slices = Vec::new();
    let mut begin = window.begin;
    while begin < window.end {
        if slices.len() == MOST_MONTHS {
            return Err(TooMuch::Months);
        }
        let (first, next) = month(begin, zone)?;
        let end = next.min(window.end);
        slices.push((first.strftime("%Y-%m").to_string(), Interval::new(begin, end)));
        begin = end;
    }
    Ok(slices)
}

/// The beginning of the month of an instant, and that of the next month.
fn month(at: Time, zone: &TimeZone) -> Result<(jiff::Zoned, Time), TooMuch> {
    let find = || {
        let zoned = jiff::Timestamp::from_second(at.0)?.to_zoned(zone.clone());
        // Not 00:00: in some zones clocks are put forward at midnight, and the day begins at 01:00.
        let first = zoned.first_of_month()?.start_of_day()?;
        let next = first.checked_add(1.month())?.start_of_day()?;
        Ok::<_, jiff::Error>((first, Time(next.timestamp().as_second())))
    };
    find().map_err(|_| TooMuch::Calendar)
}

/// The month of an instant.
pub(crate) fn this_month(at: Time, zone: &TimeZone) -> Result<Interval, TooMuch> {
    let (first, next) = month(at, zone)?;
    Ok(Interval::new(Time(first.timestamp().as_second()), next))
}
