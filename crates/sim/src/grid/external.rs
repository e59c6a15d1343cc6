//! A simulated external batch system, which can fail: it is slow, silent, refuses, grants something else, carries out
//! an order late after its timeout, or loses backings. Orders for one reservation or one job are carried out in order,
//! others overlap. Faults are drawn from a seed.

use super::batch::Batch;
use bookahead_party::{Backing, BatchError, BatchOrder, BatchReport, Clocks, Look, OrderId, Seen};
use bookahead_plan::{Capacity, Interval, Seconds, Span, Time};
use bookahead_protocol::ledger::{less, shortfall};
use bookahead_protocol::{JobId, Millis, Moment, Name, ReservationId};
use bookahead_workload::streams::Stream;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Delays and error rates. Shares are per thousand orders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Temper {
    /// Shortest duration of an order.
    pub fastest: Millis,
    /// Longest duration; durations are distributed uniformly.
    pub slowest: Millis,
    /// Share of orders that take seconds.
    pub slow: u32,
    /// Share of orders that are refused without a foreseeable reason.
    pub refuses: u32,
    /// Share of grants that are smaller than requested; the adapter notices half of them and undoes these.
    pub less: u32,
    /// Share of orders without a usable answer; they are carried out before, later, or never.
    pub unknown: u32,
    /// The adapter gives up an order after this time.
    pub timeout: Millis,
}

impl Temper {
    /// No faults, and short delays.
    pub(crate) const CALM: Temper = Temper {
        fastest: Millis(5),
        slowest: Millis(50),
        slow: 0,
        refuses: 0,
        less: 0,
        unknown: 0,
        timeout: Millis(10_000),
    };
}

/// Longest duration of slow orders and longest lateness of late ones: longer than many holds, shorter than a schedule.
const SLOWEST: Millis = Millis(12_000);

/// The drawn outcome of one order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Refused,
    LessUndone,
    LessKept,
    UnknownDone,
    UnknownNever,
    UnknownLate(Millis),
}

/// Work in progress.
#[derive(Debug)]
pub(super) enum Work {
    /// An order comes due. `life` is the life of the site that gave it, `by` its timeout.
    Due { order: BatchOrder, life: u32, by: Moment, fate: Fate },
    /// An order is carried out after the adapter gave up on it.
    Late(BatchOrder),
    /// A poll ends.
    Looked { order: OrderId, life: u32, at: Moment, seen: BTreeMap<Name, Arc<Seen>> },
}

/// Result of a piece of work: a report for one life of the site, and follow-up work.
#[derive(Default)]
pub(super) struct Worked {
    pub(super) report: Option<(u32, BatchReport)>,
    pub(super) later: Option<(Moment, Work)>,
}

/// State of an external batch system.
pub(super) struct External {
    pub(super) temper: Temper,
    chance: Stream,
    /// Time at which the last order of a lane is done; orders of one lane run one after the other.
    busy: BTreeMap<Lane, Moment>,
    pub(super) silent_until: Moment,
    /// Silence without a timeout: the adapter hangs, and the site gets no report.
    pub(super) mute: bool,
    newest: OrderId,
    /// Quirk of some adapters: a poll reports the number of the newest order before it instead of its own.
    by_newest: bool,
    /// Quirk of some batch systems: a poll shows backings in pieces and omits ended ones.
    in_pieces: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Lane {
    Reservation(ReservationId),
    Job(JobId),
    Look,
}

impl External {
    pub(super) fn new(temper: Temper, mut chance: Stream) -> External {
        let (by_newest, in_pieces) = (chance.whole(0, 1) == 0, chance.whole(0, 2) == 0);
        let (silent_until, newest, busy) = (Moment(0), OrderId(0), BTreeMap::new());
        External { temper, chance, busy, silent_until, mute: false, newest, by_newest, in_pieces }
    }

    fn happens(&mut self, per_thousand: u32) -> bool {
        per_thousand > 0 && self.chance.whole(0, 999) < i64::from(per_thousand)
    }

    fn coin(&mut self) -> bool {
        self.chance.whole(0, 1) == 0
    }

    /// Accepts an order and draws its duration and outcome.
    pub(super) fn take(
        &mut self,
        now: Moment,
        life: u32,
        order: BatchOrder,
    ) -> (Moment, Work, Option<&'static str>) {
        let Temper { fastest, slowest, slow, timeout, .. } = self.temper;
        let mut takes = Millis(self.chance.whole(fastest.0, slowest.0));
        let mut what = None;
        if self.happens(slow) {
            (takes, what) = (Millis(self.chance.whole(1_000, SLOWEST.0)), Some("batch_slow"));
        }
        let lane = match &order {
            BatchOrder::Keep { backing, .. } => Lane::Reservation(backing.id),
            BatchOrder::Submit { job, .. } | BatchOrder::Bind { job, .. } => Lane::Job(job.id),
            BatchOrder::Go { job, .. } | BatchOrder::Cancel { job, .. } => Lane::Job(*job),
            BatchOrder::Look { .. } => Lane::Look,
        };
        // Like the worker of a site: orders of one lane wait for each other, others overlap.
        let free = self.busy.get(&lane).copied().unwrap_or(now).max(now);
        self.newest = order.order();
        let (by, fate) = (now + timeout, self.fate(&order));
        let due = free + takes;
        self.busy.insert(lane, due);
        (due, Work::Due { order, life, by, fate }, what)
    }

    fn fate(&mut self, order: &BatchOrder) -> Fate {
        let Temper { refuses, less, unknown, .. } = self.temper;
        let gives_back = matches!(order, BatchOrder::Keep { backing, .. } if backing.spans.is_empty());
        let looks = matches!(order, BatchOrder::Look { .. });
        if self.happens(unknown) {
            return match self.chance.whole(0, 2) {
                0 => Fate::UnknownDone,
                1 => Fate::UnknownNever,
                _ => Fate::UnknownLate(Millis(self.chance.whole(500, SLOWEST.0))),
            };
        }
        // A poll is never refused; it can only stay without an answer.
        if !looks && self.happens(refuses) {
            return Fate::Refused;
        }
        if matches!(order, BatchOrder::Keep { .. }) && !gives_back && self.happens(less) {
            return if self.coin() { Fate::LessUndone } else { Fate::LessKept };
        }
        Fate::Done
    }

    /// Delays or fails a due order while the batch system is silent. Half of the failed orders are carried out when the
    /// silence ends.
    #[allow(clippy::result_large_err, reason = "both are moved on at once")]
    fn stall(&mut self, now: Moment, work: Work) -> Result<Work, Worked> {
        let Work::Due { order, life, by, fate } = work else { return Ok(work) };
        let until = self.silent_until;
        if until <= now {
            return Ok(Work::Due { order, life, by, fate });
        }
        if !self.mute && by > now {
            let again = until.min(by);
            return Err(Worked { later: Some((again, Work::Due { order, life, by, fate })), report: None });
        }
        let done = self.coin();
        let report = (!self.mute).then(|| (life, failed(&order, &unknown())));
        Err(Worked { report, later: done.then_some((until, Work::Late(order))) })
    }

    /// Backings as a poll shows them.
    fn shown(&self, mut seen: BTreeMap<Name, Arc<Seen>>, now: Time) -> BTreeMap<Name, Arc<Seen>> {
        if self.in_pieces {
            for seen in seen.values_mut() {
                for spans in Arc::make_mut(seen).backings.values_mut() {
                    *spans = spans.iter().filter(|span| span.interval.end > now).flat_map(halves).collect();
                }
            }
        }
        seen
    }
}

/// Splits a span into two pieces with half of the capacity each.
fn halves(span: &Span) -> Vec<Span> {
    let half = span.capacity.0 / 2;
    [half, span.capacity.0 - half]
        .into_iter()
        .filter(|capacity| *capacity > 0)
        .map(|capacity| Span { capacity: Capacity(capacity), ..*span })
        .collect()
}

fn unknown() -> BatchError {
    BatchError::Unknown("no answer".to_owned())
}

/// The report of a failed order.
fn failed(order: &BatchOrder, why: &BatchError) -> BatchReport {
    let (number, why) = (order.order(), why.clone());
    match order {
        BatchOrder::Keep { order, backing } => {
            BatchReport::Kept { order: *order, id: backing.id, outcome: Err(why) }
        }
        BatchOrder::Submit { job, .. } | BatchOrder::Bind { job, .. } => {
            BatchReport::Job { order: number, job: job.id, outcome: Err(why) }
        }
        BatchOrder::Go { job, .. } | BatchOrder::Cancel { job, .. } => {
            BatchReport::Job { order: number, job: *job, outcome: Err(why) }
        }
        BatchOrder::Look { order } => {
            BatchReport::Looked { order: Some(*order), at: Moment(0), outcome: Err(why) }
        }
    }
}

impl Batch {
    /// Handles due work. `site_now` is the time by the clock of the site; `life` is None while the site is down.
    pub(super) fn work(&mut self, now: Moment, site_now: Moment, life: Option<u32>, work: Work) -> Worked {
        self.advance(now);
        let Some(external) = &mut self.external else { return Worked::default() };
        // The site has crashed since it gave the order; a coin decides whether the order had left it before.
        let stale = matches!(&work, Work::Due { life: given_in, .. } if life != Some(*given_in));
        if stale && external.coin() {
            return Worked::default();
        }
        let work = match external.stall(now, work) {
            Ok(work) => work,
            Err(stalled) => {
                self.tally.count("batch_stalled");
                return stalled;
            }
        };
        match work {
            Work::Late(order) => {
                self.tally.count("batch_carried_out_late");
                self.carry_out(&order, true);
                Worked::default()
            }
            Work::Looked { order, life, at, seen } => {
                let (jobs, tagged) = (self.jobs(), self.tagged());
                let clocks = Some(Clocks { ours: site_now.second(), theirs: self.time(now) });
                let look = Look { resources: seen, jobs, tagged, clocks, ..Look::default() };
                let report = BatchReport::Looked { order: Some(order), at, outcome: Ok(look) };
                Worked { report: Some((life, report)), later: None }
            }
            Work::Due {
                order: BatchOrder::Look { order },
                life,
                fate: Fate::Done | Fate::UnknownDone,
                ..
            } => {
                // The poll sees the present state and is reported later, so that it can miss orders carried out in
                // between.
                let order = if external.by_newest { external.newest.max(order) } else { order };
                let takes = Millis(external.chance.whole(0, external.temper.slowest.0));
                let seen = self.resources();
                let seen = self.external.as_ref().map(|external| external.shown(seen, self.time(now)));
                let seen = seen.unwrap_or_default();
                let looked = Work::Looked { order, life, at: site_now, seen };
                Worked { report: None, later: Some((now + takes, looked)) }
            }
            Work::Due { order, .. } if stale => {
                self.carry_out(&order, true);
                Worked::default()
            }
            Work::Due { order, life, fate, .. } => {
                let (report, late) = self.fulfil(&order, fate);
                let later = late.map(|late| (now + late, Work::Late(order)));
                Worked { report: Some((life, report)), later }
            }
        }
    }

    /// Applies the drawn outcome; returns the report, and the delay after which the order is carried out late.
    fn fulfil(&mut self, order: &BatchOrder, fate: Fate) -> (BatchReport, Option<Millis>) {
        let why = BatchError::Refused("not today".to_owned());
        match fate {
            Fate::Done => (self.carry_out(order, false), None),
            Fate::Refused | Fate::LessUndone => {
                self.tally.count(if fate == Fate::Refused { "batch_refused" } else { "batch_granted_less" });
                (failed(order, &why), None)
            }
            Fate::LessKept => {
                let BatchOrder::Keep { order: number, backing } = order else {
                    return (self.carry_out(order, false), None);
                };
                self.tally.count("batch_granted_less_unnoticed");
                // The adapter has not noticed, so the site cannot know before its next poll.
                self.touched.insert(backing.id);
                let lowered = less(&backing.spans, Capacity(1));
                let other = Backing { spans: lowered, ..backing.clone() };
                (self.carry_out(&BatchOrder::Keep { order: *number, backing: other }, false), None)
            }
            Fate::UnknownDone | Fate::UnknownNever | Fate::UnknownLate(_) => {
                self.tally.count("batch_unanswered");
                if fate == Fate::UnknownDone {
                    self.carry_out(order, false);
                }
                let late = if let Fate::UnknownLate(late) = fate { Some(late) } else { None };
                (failed(order, &unknown()), late)
            }
        }
    }

    /// Carries out an order if there is room. `late` if a newer order may have been carried out before.
    fn carry_out(&mut self, order: &BatchOrder, late: bool) -> BatchReport {
        let BatchOrder::Keep { order: number, backing } = order else { return self.about_a_job(order) };
        let Backing { resource, id, spans, replaces, .. } = backing;
        let (order, id) = (*number, *id);
        let Some(cluster) = self.clusters.get_mut(resource) else {
            let why = BatchError::Refused("there is no such resource".to_owned());
            return BatchReport::Kept { order, id, outcome: Err(why) };
        };
        // A late order can undo a newer one. The site cannot prevent that, only correct it after its next poll.
        if late {
            self.touched.insert(id);
        }
        let native = cluster.reserved.get(&id).cloned().unwrap_or_default();
        let same = covers(spans, &native, cluster.now()) && covers(&native, spans, cluster.now());
        *self.needless.entry(id).or_default() += 1;
        if !same || *replaces {
            self.needless.remove(&id);
        }
        if *replaces {
            self.tally.count("moves_ordered");
        }
        let fits =
            if same { !replaces || cluster.try_move(id) } else { cluster.try_reserve(id, spans.clone()) };
        let outcome = if fits { Ok(()) } else { Err(BatchError::Refused("there is no room".to_owned())) };
        BatchReport::Kept { order, id, outcome }
    }

    /// Whether an order would give up a promised backing while its nodes are away.
    pub(super) fn is_given_away(&self, backing: &Backing, promised: &[Span]) -> bool {
        let Some(cluster) = self.clusters.get(&backing.resource) else { return false };
        let native = cluster.reserved.get(&backing.id).map_or(&[][..], Vec::as_slice);
        let away = cluster.hits.get(&backing.id).is_some_and(|hit| *hit > 0);
        let kept = covers(native, promised, cluster.now());
        away && kept && !covers(&backing.spans, promised, cluster.now())
    }

    /// Restarts without the backings that have no jobs.
    pub(super) fn forget(&mut self, now: Moment) {
        self.advance(now);
        for cluster in self.clusters.values_mut() {
            let in_use = cluster.in_use();
            let idle = cluster.reserved.keys().copied().filter(|id| !in_use.contains(id));
            for id in idle.collect::<Vec<_>>() {
                cluster.reserve(id, Vec::new());
                self.touched.insert(id);
                self.tally.count("backings_forgotten");
            }
        }
    }

    /// An operator of the batch system deletes a backing of the site.
    pub(super) fn delete_one(&mut self, now: Moment, which: usize) {
        self.advance(now);
        for cluster in self.clusters.values_mut() {
            let ids: Vec<ReservationId> = cluster.reserved.keys().copied().collect();
            if let Some(id) = ids.get(which % ids.len().max(1)) {
                cluster.reserve(*id, Vec::new());
                self.touched.insert(*id);
                self.tally.count("backings_deleted");
            }
        }
    }

    /// Another client reserves on all clusters that have room, `after` from now.
    pub(super) fn reserve_foreign(
        &mut self,
        now: Moment,
        after: Seconds,
        length: Seconds,
        capacity: Capacity,
    ) {
        self.advance(now);
        let begin = self.time(now) + after;
        let span = Span { interval: Interval::new(begin, begin + length), capacity };
        for cluster in self.clusters.values_mut() {
            if cluster.reserve_foreign(span) {
                self.tally.count("foreign_reservations");
            }
        }
    }
}

/// Whether `kept` has at least the capacity of `wanted` at every instant from now on.
pub(super) fn covers(kept: &[Span], wanted: &[Span], now: Time) -> bool {
    shortfall(wanted, kept, now) == 0
}
