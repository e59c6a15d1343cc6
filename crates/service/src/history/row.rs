//! Rows of the usage history, and how they follow from what a party shows. A row of a reservation has two lists of
//! spans: the capacity that was agreed (`booked`), and the capacity that it really had (`kept`).
//!
//! Giving something back, an early end or a failure lowers `kept` only. New terms that are not contained in the old
//! ones, such as an extension or a move, replace `booked`.

use bookahead_party::BookedPart;
use bookahead_plan::{Capacity, Interval, Span, Time};
use bookahead_protocol::jobs::{JobView, JobWord};
use bookahead_protocol::ledger::{less, taken};
use bookahead_protocol::{JobId, Moment, Name, ReservationId, State};

/// Most spans in one row. More than that needs hundreds of failures during one reservation; the row is then as the
/// party shows it at last.
const MOST_SPANS: usize = 1_024;

/// How a reservation stands, or how it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartState {
    Held,
    Booked,
    Completed,
    /// Given up by its owner or an operator, before the start or after it.
    Cancelled,
    /// A hold that was not committed.
    Expired,
    /// Its site lost it.
    Lost,
    /// A broker has moved the part to another resource.
    Replaced,
}

/// One part of a reservation on one resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartRow {
    pub(super) id: ReservationId,
    pub(super) part: u32,
    pub(super) resource: Name,
    pub(super) kind: Name,
    pub(super) owner: Name,
    /// Empty if there is none.
    pub(super) project: Name,
    pub(super) state: PartState,
    /// Whether it was ever committed.
    pub(super) committed: bool,
    /// Whether `kept` is pieced together from what was seen over time, because the party does not know the past.
    pub(super) pieced: bool,
    /// Whether the reservation has ended.
    pub(super) over: bool,
    pub(super) booked: Vec<Span>,
    pub(super) kept: Vec<Span>,
    /// When it was accepted, if that is known.
    pub(super) accepted: Option<Time>,
    /// When it ended.
    pub(super) ended: Option<Time>,
    /// Window of the request, if it is known.
    pub(super) window: Option<Interval>,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobRow {
    pub(super) id: JobId,
    pub(super) resource: Name,
    pub(super) kind: Name,
    pub(super) owner: Name,
    /// Empty if there is none.
    pub(super) project: Name,
    pub(super) reservation: Option<ReservationId>,
    pub(super) state: String,
    pub(super) over: bool,
    pub(super) capacity: Capacity,
    pub(super) submitted: Time,
    pub(super) started: Option<Time>,
    pub(super) ended: Option<Time>,
    /// End by its time limit, for a job whose end is never learned.
    pub(super) latest: Option<Time>,
}

/// The effect on a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Edit {
    Nothing,
    Write(PartRow),
    Delete,
}

impl PartState {
    pub(super) const ALL: [PartState; 7] = [
        PartState::Held,
        PartState::Booked,
        PartState::Completed,
        PartState::Cancelled,
        PartState::Expired,
        PartState::Lost,
        PartState::Replaced,
    ];

    /// Name in the file.
    pub(super) fn word(self) -> &'static str {
        match self {
            PartState::Held => "held",
            PartState::Booked => "booked",
            PartState::Completed => "completed",
            PartState::Cancelled => "cancelled",
            PartState::Expired => "expired",
            PartState::Lost => "lost",
            PartState::Replaced => "replaced",
        }
    }

    fn of(seen: &BookedPart) -> PartState {
        match seen.state {
            _ if seen.lost => PartState::Lost,
            State::Requested | State::Rejected | State::Held => PartState::Held,
            State::Expired => PartState::Expired,
            State::Committed | State::ChangeRequested | State::Active => PartState::Booked,
            State::Completed => PartState::Completed,
            State::Cancelled | State::Terminated => PartState::Cancelled,
        }
    }
}

/// What the party shows of a part, in addition to the part itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sighting<'a> {
    pub(super) id: ReservationId,
    /// Empty if it is not known at present.
    pub(super) kind: &'a Name,
    pub(super) project: &'a Name,
    /// Whether an event committed it since the last sighting.
    pub(super) committed: bool,
    pub(super) now: Time,
}

/// The row of a part after it was seen again.
pub(super) fn seen_again(old: Option<&PartRow>, sighting: Sighting<'_>, seen: &BookedPart) -> Edit {
    let Sighting { id, kind, project, committed, now } = sighting;
    let was_committed = old.is_some_and(|old| old.committed);
    let state = PartState::of(seen);
    let must_have_been = matches!(
        seen.state,
        State::Committed | State::ChangeRequested | State::Active | State::Completed | State::Terminated
    );
    let committed = was_committed || committed || must_have_been;
    match seen.state {
        // A candidate, or a late commit: nothing is promised yet.
        State::Requested => return Edit::Nothing,
        // Only holds that expired are worth a row; others were given back in time.
        State::Rejected | State::Cancelled if !committed => return Edit::Delete,
        _ => {}
    }
    let ended = seen.ended.map(whole_second);
    let current = less(&seen.spans, seen.missing);
    let current = if committed { until(&current, ended.unwrap_or(Time::MAX)) } else { Vec::new() };
    let before = old.filter(|old| old.committed);
    let pieced = !seen.with_past || seen.missing > Capacity::ZERO || before.is_some_and(|old| old.pieced);
    let kept = match before {
        Some(old) if pieced => spliced(&old.kept, &current, now.min(ended.unwrap_or(now))),
        _ => current,
    };
    let over = seen.state.is_over();
    let booked = match before {
        Some(old) if over || contains(&old.booked, &seen.spans) => old.booked.clone(),
        _ => seen.spans.clone(),
    };
    Edit::Write(PartRow {
        id,
        part: u32::try_from(seen.part).unwrap_or(u32::MAX),
        resource: seen.resource.clone(),
        kind: old.filter(|_| kind.as_str().is_empty()).map_or(kind, |old| &old.kind).clone(),
        owner: seen.owner.clone(),
        // That of the booking: projects of owners may change.
        project: old.map_or(project, |old| &old.project).clone(),
        state,
        committed,
        pieced,
        over,
        booked,
        kept,
        accepted: seen.accepted.map(Moment::second),
        ended,
        window: seen.window,
    })
}

/// The row of a part that is no longer shown. If the party still has the reservation, the part was replaced;
/// otherwise the party forgot it, or its journal was lost.
pub(super) fn gone(old: &PartRow, party_has_it: bool, now: Time) -> Edit {
    if old.over {
        return Edit::Nothing;
    }
    if !old.committed {
        return Edit::Delete;
    }
    let end = old.booked.iter().map(|span| span.interval.end).max();
    let state = match (party_has_it, end.is_some_and(|end| end <= now)) {
        (true, _) => PartState::Replaced,
        (false, true) => PartState::Completed,
        (false, false) => PartState::Lost,
    };
    Edit::Write(PartRow { state, over: true, kept: until(&old.kept, now), ended: Some(now), ..old.clone() })
}

impl JobRow {
    /// From what the party shows.
    pub(super) fn of(job: &JobView, project: Name, resource: Name, kind: Name) -> JobRow {
        JobRow {
            id: job.id,
            resource,
            kind,
            owner: job.owner.clone(),
            project,
            reservation: job.reservation,
            state: job_word(job.state).to_owned(),
            over: !matches!(
                job.state,
                JobWord::Placing | JobWord::Waiting | JobWord::Claiming | JobWord::Running
            ),
            capacity: job.capacity,
            submitted: job.submitted,
            started: job.started,
            ended: job.ended,
            latest: job.started.map(|started| started + job.limit),
        }
    }
}

/// Name in the file.
fn job_word(state: JobWord) -> &'static str {
    match state {
        JobWord::Placing => "placing",
        JobWord::Waiting => "waiting",
        JobWord::Claiming => "claiming",
        JobWord::Running => "running",
        JobWord::Done => "done",
        JobWord::Cancelled => "cancelled",
        JobWord::OutOfTime => "out-of-time",
        JobWord::ReservationOver => "reservation-over",
        JobWord::Lost => "lost",
        JobWord::CouldNotStart => "could-not-start",
    }
}

/// Start and end of everything in the lists.
pub(super) fn extent(booked: &[Span], kept: &[Span]) -> Interval {
    let all = || booked.iter().chain(kept).map(|span| span.interval);
    let begin = all().map(|interval| interval.begin).min().unwrap_or(Time(0));
    Interval::new(begin, all().map(|interval| interval.end).max().unwrap_or(begin))
}

/// The second from which capacity is free again after an end.
fn whole_second(at: Moment) -> Time {
    Moment(at.0.saturating_add(999)).second()
}

fn within(spans: &[Span], window: Interval) -> Vec<Span> {
    let cut = spans.iter().map(|span| Span { interval: overlap(span.interval, window), ..*span });
    cut.filter(|span| !span.interval.is_empty()).collect()
}

/// The common part of two intervals; empty if there is none.
pub(super) fn overlap(one: Interval, other: Interval) -> Interval {
    let begin = one.begin.max(other.begin);
    Interval::new(begin, one.end.min(other.end).max(begin))
}

fn until(spans: &[Span], end: Time) -> Vec<Span> {
    within(spans, Interval::new(Time::MIN, end))
}

/// The old spans before `at`, and the new ones from then on.
fn spliced(old: &[Span], new: &[Span], at: Time) -> Vec<Span> {
    let mut all = until(old, at);
    for span in within(new, Interval::new(at, Time::MAX)) {
        match all.last_mut() {
            Some(last) if last.interval.end == span.interval.begin && last.capacity == span.capacity => {
                last.interval.end = span.interval.end;
            }
            _ => all.push(span),
        }
    }
    if all.len() > MOST_SPANS { new.to_vec() } else { all }
}

/// Whether one list has at least the capacity of the other at every instant.
fn contains(outer: &[Span], inner: &[Span]) -> bool {
    let edges = || outer.iter().flat_map(|span| [span.interval.begin, span.interval.end]);
    inner.iter().all(|span| {
        let inside = edges().filter(|edge| span.interval.begin < *edge && *edge < span.interval.end);
        inside.chain([span.interval.begin]).all(|at| taken(outer, at) >= span.capacity)
    })
}
