//! Refusals that help: why, what stands in the way, and the smallest changes to the request with which it
//! would be granted. Each is searched for in the profile and tried on the whole book, with the limits of the
//! caller, before it is told; what is told is true at that moment.

use super::Ledger;
use super::placing::Wish;
use super::sight::Sight;
use super::slots::Search;
use super::view::Views;
use crate::problem::{Blocker, BlockerKind, Problem, Why};
use bookahead_plan::placement::relax::{Trial, busy_for, relaxations};
use bookahead_plan::placement::{Reason, Relaxation, Request};
use bookahead_plan::{Capacity, Interval, Need, Seconds, Time};

/// Of the reservations that begin before the end of the slot so many are looked at, the last first,
const LOOKED_AT: usize = 1_000;
/// and of everything in the way no more is told.
const MOST_BLOCKERS: usize = 32;
/// So many vacancies of a window are looked at to find the longest.
const VACANCIES: usize = 256;

/// What is found on one resource, and at last on all.
struct Refusal {
    reason: Reason,
    blockers: Vec<Blocker>,
    busy_for: Option<Seconds>,
    relaxations: Vec<Relaxation>,
}

/// Of a wish for which none of the `suitable` resources has a slot.
pub(super) fn refuse(ledger: &mut Ledger, wish: &Wish<'_>, views: &Views, suitable: &[usize]) -> Problem {
    let tell_blockers = ledger.rules.reveal.blockers;
    let mut all: Option<Refusal> = None;
    for &at in suitable {
        let name = ledger.rules.resources[at].resource.name.clone();
        let one = ledger.look(at, &wish.looker(true), views.on(&name), |sight| {
            Way::new(sight, wish).refusal(tell_blockers)
        });
        all = Some(match all {
            None => one,
            Some(all) => all.or(one),
        });
    }
    let Some(Refusal { reason, blockers, busy_for, relaxations }) = all else {
        return Problem::new(Why::NoSlot(Reason::NoRoom));
    };
    Problem { why: Why::NoSlot(reason), blockers, busy_for, relaxations }
}

impl Refusal {
    /// Of either of two resources: what is nearer to being granted.
    fn or(mut self, other: Refusal) -> Refusal {
        self.busy_for = [self.busy_for, other.busy_for].into_iter().flatten().min();
        if nearness(other.reason) > nearness(self.reason) {
            (self.reason, self.blockers) = (other.reason, other.blockers);
        }
        for one in other.relaxations {
            match self.relaxations.iter_mut().find(|known| same_kind(known, &one)) {
                Some(known) if size(&one) < size(known) => *known = one,
                Some(_) => {}
                None => self.relaxations.push(one),
            }
        }
        self
    }
}

fn nearness(reason: Reason) -> u8 {
    match reason {
        Reason::TooWide => 0,
        Reason::NoWindow => 1,
        Reason::NoRoom => 2,
        Reason::NotAdmitted => 3,
    }
}

fn same_kind(one: &Relaxation, other: &Relaxation) -> bool {
    std::mem::discriminant(one) == std::mem::discriminant(other)
}

/// How much is asked of the requester.
fn size(relaxation: &Relaxation) -> i64 {
    match *relaxation {
        Relaxation::Later(by) | Relaxation::Shorter(by) => by.0,
        Relaxation::Fewer(by) => i64::from(by.0),
        // The later it begins, the nearer it is to what was wanted.
        Relaxation::Earlier(start) => start.0.saturating_neg(),
    }
}

/// The search for a way out on one resource.
struct Way<'a, 's, 'w> {
    sight: &'a mut Sight<'s>,
    wish: &'a Wish<'w>,
    wanted: Request,
    from: Time,
}

impl<'a, 's, 'w> Way<'a, 's, 'w> {
    fn new(sight: &'a mut Sight<'s>, wish: &'a Wish<'w>) -> Way<'a, 's, 'w> {
        let wanted = wish.part.wanted;
        Way { sight, wish, wanted, from: wanted.earliest_start.max(wish.first_begin) }
    }

    fn refusal(&mut self, tell_blockers: bool) -> Refusal {
        let reason = self.reason();
        let possible = matches!(reason, Reason::NoRoom | Reason::NotAdmitted);
        let wanted = self.wanted;
        Refusal {
            reason,
            blockers: if possible && tell_blockers { self.blockers() } else { Vec::new() },
            busy_for: busy_for(self, &wanted),
            relaxations: relaxations(self, &wanted),
        }
    }

    fn reason(&self) -> Reason {
        if self.wanted.capacity > self.sight.capacity {
            return Reason::TooWide;
        }
        if self.wanted.latest_start() < self.from {
            return Reason::NoWindow;
        }
        let fit = self.sight.free.earliest_fit(self.from, self.wanted.need(), Some(self.wanted.latest_end));
        if fit.is_none() { Reason::NoRoom } else { Reason::NotAdmitted }
    }

    /// Whoever holds something while a slot at the beginning of the window would last.
    fn blockers(&self) -> Vec<Blocker> {
        let slot = Interval::starting(self.from, self.wanted.duration);
        let now = self.sight.now;
        let of = |kind| move |interval| Blocker { kind, interval };
        let running = self.sight.view.running.iter();
        let running = running.map(|job| Interval::new(now, job.expected_end.max(now + Seconds(1))));
        let waiting = self.sight.promised.iter().map(|span| span.interval);
        let foreign = self.sight.view.foreign.iter().map(|span| span.interval);
        let own = self.sight.reservations.before_reversed(slot.end).take(LOOKED_AT);
        let all = running.map(of(BlockerKind::RunningJob));
        let all = all.chain(own.chain(foreign).map(of(BlockerKind::Reservation)));
        let all = all.chain(waiting.map(of(BlockerKind::WaitingJob)));
        let in_the_way = all.filter(|Blocker { interval, .. }| {
            interval.begin < slot.end && slot.begin < interval.end && !interval.is_empty()
        });
        in_the_way.take(MOST_BLOCKERS).collect()
    }
}

impl Trial for Way<'_, '_, '_> {
    fn first_begin(&self) -> Time {
        self.wish.first_begin
    }

    fn gap(&self) -> Seconds {
        self.sight.offered.placement.slots.gap
    }

    fn earliest_fit(&self, from: Time, need: Need, deadline: Option<Time>) -> Option<Time> {
        self.sight.free.earliest_fit(from, need, deadline)
    }

    fn longest_vacancy(&self, window: Interval, capacity: Capacity) -> Option<Seconds> {
        let runs = self.sight.free.runs(window, Need { capacity, length: Seconds(1) }, VACANCIES);
        runs.iter().map(|run| (run.last - run.first) + Seconds(1)).max()
    }

    fn would_do(&mut self, changed: &Request) -> Option<Time> {
        let allowed = self.wish.allowed(changed).ok()?;
        self.sight.slots(&allowed, &Search::FIRST).first().map(|slot| slot.start)
    }
}
