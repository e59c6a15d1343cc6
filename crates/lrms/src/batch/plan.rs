//! Computes the steps that turn the present pieces of a reservation into the wanted ones. It only compares; it runs
//! nothing.

use super::pieces::{Now, Piece};
use super::system::{FactState, Handle, JobFact, Node, Picture, Place, Unit};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::Tres;
use std::collections::{BTreeMap, BTreeSet};

/// Differences between the present and the wanted pieces.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Already as wanted.
    pub(super) same: Vec<(Handle, Span)>,
    /// Get new terms.
    pub(super) changes: Vec<(Piece, Span)>,
    /// Missing.
    pub(super) creates: Vec<Span>,
    /// Not wanted.
    pub(super) deletes: Vec<Piece>,
}

impl Plan {
    /// Keeps pieces as they are if possible; others become the wanted span with which they overlap longest.
    pub(super) fn of(mut there: Vec<Piece>, wanted: Vec<Span>, tres: &Tres, now: Now) -> Plan {
        let mut plan = Plan::default();
        for span in wanted {
            match there.iter().position(|piece| now.does_for(piece.span, span) && piece.tres == *tres) {
                Some(at) => plan.same.push((there.remove(at).handle, span)),
                None => plan.creates.push(span),
            }
        }
        for span in std::mem::take(&mut plan.creates) {
            let closest =
                (0..there.len()).rev().max_by_key(|at| shared(there[*at].span.interval, span.interval));
            match closest {
                Some(at) => plan.changes.push((there.remove(at), span)),
                None => plan.creates.push(span),
            }
        }
        plan.deletes = there;
        plan
    }

    /// Whether there is nothing to do, or only deletions.
    pub(super) fn only_deletes(&self) -> bool {
        self.changes.is_empty() && self.creates.is_empty()
    }

    /// Whether pieces are created and all present ones stay as they are.
    pub(super) fn only_creates(&self) -> bool {
        self.changes.is_empty() && self.deletes.is_empty()
    }

    /// Present pieces that will change or go.
    pub(super) fn old(&self) -> Vec<Piece> {
        self.changes.iter().map(|(piece, _)| piece).chain(&self.deletes).cloned().collect()
    }

    /// Wanted spans that are not there yet.
    pub(super) fn missing(&self) -> Vec<Span> {
        self.changes.iter().map(|(_, span)| span).chain(&self.creates).copied().collect()
    }

    /// Whether a changed piece loses some time or capacity.
    pub(super) fn gives_up(&self) -> bool {
        self.changes.iter().any(|(piece, span)| !is_less(piece.span, *span))
    }

    /// Changes first, then creations. Room that a piece gives up can be used at once.
    pub(super) fn steps(self) -> Steps {
        let changes = self.changes.into_iter().map(|(piece, span)| (Some(piece), span));
        let new = changes.chain(self.creates.into_iter().map(|span| (None, span))).collect();
        Steps { same: self.same, new, deletes: self.deletes }
    }

    /// Creations first, and last the pieces that only shrink: nothing is given up before everything else exists.
    pub(super) fn creates_first(self) -> Steps {
        let mut steps = self.steps();
        steps.new.sort_by_key(|(piece, span)| match piece {
            None => 0,
            Some(piece) => 1 + u8::from(is_less(*span, piece.span)),
        });
        steps
    }

    /// Whether an old piece overlaps a new one in time and so may be in its way.
    pub(super) fn is_in_its_own_way(&self) -> bool {
        let new = self.missing();
        let meets = |old: &Piece| new.iter().any(|new| shared(old.span.interval, new.interval) > 0);
        self.old().iter().any(meets)
    }
}

pub(super) struct Steps {
    pub(super) same: Vec<(Handle, Span)>,
    /// The wanted span, and the piece that becomes it, if any.
    pub(super) new: Vec<(Option<Piece>, Span)>,
    /// Done last.
    pub(super) deletes: Vec<Piece>,
}

/// Overlap in seconds.
pub(super) fn shared(one: Interval, other: Interval) -> i64 {
    Interval::new(one.begin.max(other.begin), one.end.min(other.end)).length().0
}

/// Whether one lies within the other, in time and in capacity.
fn is_less(one: Span, other: Span) -> bool {
    shared(one.interval, other.interval) == one.interval.length().0 && one.capacity <= other.capacity
}

/// Whether all spans fit at the same time, as far as the picture shows.
pub(super) fn is_there(
    picture: &Picture,
    place: &Place,
    now: Time,
    without: &BTreeSet<Handle>,
    wanted: &[Span],
) -> bool {
    let others = picture.reservations.iter().filter(|reserved| !without.contains(&reserved.handle));
    let begins = others.map(|reserved| reserved.interval.begin);
    let begins = begins.chain(wanted.iter().map(|span| span.interval.begin)).map(|begin| begin.max(now));
    // The free capacity falls only at the begin of something, so other instants need no check.
    let instants: BTreeSet<Time> = begins.collect();
    instants.into_iter().all(|at| {
        let then = wanted.iter().filter(|span| span.interval.end > at && span.interval.begin.max(now) <= at);
        let needed = then.fold(0_u64, |sum, span| sum.saturating_add(u64::from(span.capacity.0)));
        needed == 0 || free(picture, place, at, now, without) >= needed
    })
}

fn free(picture: &Picture, place: &Place, at: Time, now: Time, without: &BTreeSet<Handle>) -> u64 {
    let taken = taken(picture, at, now, without);
    let here = |node: &&Node| node.usable && node.resources.contains(&place.resource);
    let nodes = picture.nodes.iter().filter(here);
    let nodes = nodes.map(|node| (node.cores, taken.get(node.name.as_str()).copied().unwrap_or(0)));
    match place.unit {
        Unit::Cores => nodes.map(|(cores, taken)| u64::from(cores).saturating_sub(taken)).sum(),
        Unit::Nodes => nodes.filter(|(_, taken)| *taken == 0).count() as u64,
    }
}

/// Cores of each node that other reservations and running jobs occupy at an instant.
fn taken<'a>(
    picture: &'a Picture,
    at: Time,
    now: Time,
    without: &BTreeSet<Handle>,
) -> BTreeMap<&'a str, u64> {
    let others = picture.reservations.iter().filter(|reserved| !without.contains(&reserved.handle));
    let reserved =
        others.filter(|reserved| covers(reserved.interval, at, now)).map(|reserved| &reserved.cores);
    let running = picture.jobs.iter().filter(|job| job.state == FactState::Running && job.runs_at(at, now));
    let outside = running.flat_map(|job| {
        let inside = picture.reservations.iter().filter(|one| job.reservations.contains(&one.handle));
        let inside: Vec<_> = inside.collect();
        // A job that was moved to another reservation may still run on nodes outside of it.
        job.placed.iter().filter(move |(node, _)| !inside.iter().any(|one| one.cores.contains_key(*node)))
    });
    let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
    for (node, cores) in reserved.flatten().chain(outside) {
        let sum = taken.entry(node.as_str()).or_default();
        *sum = sum.saturating_add(u64::from(*cores));
    }
    taken
}

fn covers(interval: Interval, at: Time, now: Time) -> bool {
    interval.begin.max(now) <= at && at < interval.end
}

impl JobFact {
    /// Whether a job that runs now is expected to run still at `at`.
    pub(super) fn runs_at(&self, at: Time, now: Time) -> bool {
        let end = self.limit.map(|limit| self.started.unwrap_or(now) + limit);
        end.is_none_or(|end| end.max(now + Seconds(1)) > at)
    }
}

/// The reservations that cover these spans from now on, in order.
pub(super) fn of(spans: &[Span], now: Now) -> Vec<Span> {
    let real = |span: &&Span| !span.interval.is_empty() && span.capacity > Capacity::ZERO;
    let to_come = spans.iter().filter(real).filter(|span| !now.is_over(span.interval));
    let mut added: BTreeMap<Interval, u32> = BTreeMap::new();
    for span in to_come {
        let sum = added.entry(span.interval).or_default();
        *sum = sum.saturating_add(span.capacity.0);
    }
    let added = added.into_iter();
    let added: Vec<Span> = added.map(|(interval, sum)| Span { interval, capacity: Capacity(sum) }).collect();
    if now.step > Seconds(1) { widened(&added, now.step) } else { added }
}

/// Time between a release and its order: a release takes effect at the next second, and some more pass until it is
/// ordered.
const A_MOMENT: Seconds = Seconds(2);

/// If less is wanted in a moment, order it now. Otherwise the reservation with the jobs would end together with its
/// jobs, and be followed by one to which they cannot move.
pub(super) fn lasting(mut spans: Vec<Span>, now: Time) -> Vec<Span> {
    let ends = |span: &Span| span.interval.begin <= now && span.interval.end <= now + A_MOMENT;
    let follows =
        |one: &Span, next: &Span| next.interval.begin == one.interval.end && next.capacity <= one.capacity;
    // Backwards, as `remove` shifts later elements.
    for at in (0..spans.len()).rev() {
        let Some(one) = spans.get(at).copied().filter(ends) else { continue };
        if let Some(next) = spans.iter_mut().find(|next| follows(&one, next)) {
            next.interval.begin = one.interval.begin;
            spans.remove(at);
        }
    }
    spans
}

/// Rounds spans outward to whole steps. Each step gets the peak demand within it, so consecutive spans that meet
/// inside a step do not add up.
fn widened(spans: &[Span], step: Seconds) -> Vec<Span> {
    let times = spans.iter().flat_map(|span| [span.interval.begin, span.interval.end]);
    // Both neighbours of each time: a peak that covers part of a step is reserved for that step and no longer.
    let mut edges: Vec<Time> = times.flat_map(|time| [floor(time, step), ceiling(time, step)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let mut wide: Vec<Span> = Vec::new();
    for edges in edges.windows(2) {
        let interval = Interval::new(edges[0], edges[1]);
        let capacity = most_taken(spans, interval);
        match wide.last_mut() {
            Some(last) if last.capacity == capacity && last.interval.end == interval.begin => {
                last.interval.end = interval.end;
            }
            _ if capacity > Capacity::ZERO => wide.push(Span { interval, capacity }),
            _ => {}
        }
    }
    wide
}

/// Peak demand within an interval. Demand rises only at the begin of a span.
fn most_taken(spans: &[Span], within: Interval) -> Capacity {
    let begins = spans.iter().map(|span| span.interval.begin).filter(|begin| within.contains(*begin));
    let taken = |at: Time| {
        let then = spans.iter().filter(|span| span.interval.contains(at));
        then.fold(0_u32, |sum, span| sum.saturating_add(span.capacity.0))
    };
    Capacity(begins.chain([within.begin]).map(taken).max().unwrap_or(0))
}

fn floor(time: Time, step: Seconds) -> Time {
    Time(time.0.saturating_sub(time.0.rem_euclid(step.0)))
}

fn ceiling(time: Time, step: Seconds) -> Time {
    let down = floor(time, step);
    if down == time { time } else { down + step }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_in_a_moment_is_less_now_and_later_is_later() {
        let span = |begin, end, capacity| Span {
            interval: Interval::new(Time(begin), Time(end)),
            capacity: Capacity(capacity),
        };
        let lasting = |spans: &[Span]| lasting(spans.to_vec(), Time(100));
        assert_eq!(lasting(&[span(50, 101, 8), span(101, 900, 4)]), [span(50, 900, 4)]);
        for other in [
            &[span(50, 110, 8), span(110, 900, 4)][..],
            &[span(50, 101, 4), span(101, 900, 8)],
            &[span(50, 101, 8), span(105, 900, 4)],
            &[span(50, 101, 8)],
            &[],
        ] {
            assert_eq!(lasting(other), other);
        }
    }

    fn span(begin: i64, end: i64, capacity: u32) -> Span {
        Span { interval: Interval::new(Time(begin), Time(end)), capacity: Capacity(capacity) }
    }

    fn now(time: i64, step: i64) -> Now {
        Now { time: Time(time), step: Seconds(step) }
    }

    #[test]
    fn spans_of_the_same_time_add_up_and_others_stay_apart() {
        let spans = [span(5, 9, 2), span(0, 9, 1), span(5, 9, 3), span(7, 7, 4), span(7, 8, 0)];
        assert_eq!(of(&spans, now(0, 1)), [span(0, 9, 1), span(5, 9, 5)]);
        let most = [span(0, 9, u32::MAX), span(0, 9, 1)];
        assert_eq!(of(&most, now(0, 1)), [span(0, 9, u32::MAX)]);
    }

    #[test]
    fn what_is_over_is_left_out_and_what_has_begun_stays() {
        assert_eq!(of(&[span(0, 10, 1), span(5, 11, 2)], now(10, 1)), [span(5, 11, 2)]);
    }

    #[test]
    fn what_is_widened_to_minutes_covers_what_was_asked_and_does_not_add_up_at_the_seams() {
        assert_eq!(of(&[span(61, 119, 3)], now(0, 60)), [span(60, 120, 3)]);
        assert_eq!(of(&[span(0, 90, 4), span(90, 240, 2)], now(0, 60)), [span(0, 120, 4), span(120, 240, 2)]);
        assert_eq!(of(&[span(0, 90, 2), span(90, 240, 4)], now(0, 60)), [span(0, 60, 2), span(60, 240, 4)]);
        assert_eq!(of(&[span(0, 70, 2), span(80, 130, 2)], now(0, 60)), [span(0, 180, 2)]);
        assert_eq!(of(&[span(0, 300, 1), span(70, 80, 3)], now(0, 60)).len(), 3);
        let far = [span(i64::MIN, i64::MAX, 1)];
        assert_eq!(of(&far, now(0, 60)).len(), 1);
    }

    #[test]
    fn of_what_has_begun_only_the_rest_counts() {
        assert!(now(10, 1).does_for(span(12, 20, 2), span(3, 20, 2)));
        assert!(now(10, 1).does_for(span(0, 20, 2), span(3, 20, 2)));
        assert!(!now(10, 1).does_for(span(16, 20, 2), span(3, 20, 2)));
        assert!(!now(10, 1).does_for(span(12, 20, 2), span(11, 20, 2)));
        assert!(!now(10, 1).does_for(span(3, 21, 2), span(3, 20, 2)));
        assert!(!now(10, 1).does_for(span(3, 20, 1), span(3, 20, 2)));
        assert!(now(10, 60).does_for(span(60, 120, 1), span(0, 120, 1)));
    }
}
