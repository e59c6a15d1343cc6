//! A simulated external batch system, which can fail: it is slow, silent, refuses, grants something else, carries out
//! an order late after its timeout, or loses backings. Orders for one reservation or one job are carried out in order,
//! others overlap. Faults are drawn from a seed. [`super::batch`] carries out what is drawn here.

use bookahead_party::{BatchError, BatchOrder, BatchReport, OrderId, Seen};
use bookahead_plan::{Capacity, Span, Time};
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
    pub(super) chance: Stream,
    /// Time at which the last order of a lane is done; orders of one lane run one after the other.
    busy: BTreeMap<Lane, Moment>,
    pub(super) silent_until: Moment,
    /// Silence without a timeout: the adapter hangs, and the site gets no report.
    pub(super) mute: bool,
    pub(super) newest: OrderId,
    /// Quirk of some adapters: a poll reports the number of the newest order before it instead of its own.
    pub(super) by_newest: bool,
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

    pub(super) fn coin(&mut self) -> bool {
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
            BatchOrder::Submit { job, .. }
            | BatchOrder::Bind { job, .. }
            | BatchOrder::Requeue { job, .. } => Lane::Job(job.id),
            BatchOrder::Release { job, .. }
            | BatchOrder::Go { job, .. }
            | BatchOrder::Warn { job, .. }
            | BatchOrder::Cancel { job, .. } => Lane::Job(*job),
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
    pub(super) fn stall(&mut self, now: Moment, work: Work) -> Result<Work, Worked> {
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
    pub(super) fn shown(&self, mut seen: BTreeMap<Name, Arc<Seen>>, now: Time) -> BTreeMap<Name, Arc<Seen>> {
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

pub(super) fn unknown() -> BatchError {
    BatchError::Unknown("no answer".to_owned())
}

/// The report of a failed order.
pub(super) fn failed(order: &BatchOrder, why: &BatchError) -> BatchReport {
    let (number, why) = (order.order(), why.clone());
    match order {
        BatchOrder::Keep { order, backing } => {
            BatchReport::Kept { order: *order, id: backing.id, outcome: Err(why) }
        }
        BatchOrder::Submit { job, .. } | BatchOrder::Bind { job, .. } | BatchOrder::Requeue { job, .. } => {
            BatchReport::Job { order: number, job: job.id, outcome: Err(why) }
        }
        BatchOrder::Release { job, .. }
        | BatchOrder::Go { job, .. }
        | BatchOrder::Warn { job, .. }
        | BatchOrder::Cancel { job, .. } => BatchReport::Job { order: number, job: *job, outcome: Err(why) },
        BatchOrder::Look { order } => {
            BatchReport::Looked { order: Some(*order), at: Moment(0), outcome: Err(why) }
        }
    }
}
