//! Jobs inside a reservation that gives back capacity. A call that leaves them no room is refused, or ends them first
//! if the caller asks for that. A batch system counts a job until it is gone, so the call then waits for a look
//! without these jobs.

use super::{LOOK_AGAIN, MOST_EARLY, Record, Site, Step};
use crate::batch::{Look, OrderId};
use crate::step::CallId;
use bookahead_plan::{Span, Time};
use bookahead_protocol::ledger::taken;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Call, Envelope, JobId, Key, Millis, Moment};
use std::collections::BTreeSet;

/// Most jobs that a refusal names: enough to find them in a list.
const MOST_NAMED: usize = 5;

/// A call that waits for the end of jobs.
#[derive(Debug, Clone)]
pub(super) struct Shrinking {
    pub(super) until: Moment,
    call: CallId,
    envelope: Envelope,
    jobs: Vec<JobId>,
}

impl Site {
    /// Makes sure that all jobs of a reservation have room after a call: ends those without room if the call says so.
    /// Returns whether the call can go on now; otherwise it is refused, or waits.
    pub(super) fn clear_jobs(&mut self, call: CallId, envelope: &Envelope, step: &mut Step) -> bool {
        // A repetition waits with the first call, and gets the same answer.
        let again = self.shrinking.iter().any(|waits| waits.envelope == *envelope);
        let jobs = if again { Vec::new() } else { self.jobs_without_room(step.now, envelope) };
        if jobs.is_empty() && !again {
            return true;
        }
        if !again && !matches!(envelope.call, Call::Release { end_jobs: true, .. }) {
            let more = u32::try_from(jobs.len().saturating_sub(MOST_NAMED)).unwrap_or(u32::MAX);
            let jobs = jobs.into_iter().take(MOST_NAMED).collect();
            step.out.answer(call, Problem::new(Why::JobsInside { jobs, more }));
            return false;
        }
        if self.asks() && self.shrinking.len() >= MOST_EARLY {
            step.out.answer(call, Problem::new(Why::Busy));
            return false;
        }
        jobs.iter().for_each(|id| self.end_job(*id, step));
        if self.asks() {
            let until = step.now + self.rules.consent.unwrap_or(Millis::ZERO);
            self.wait_for_jobs(Shrinking { until, call, envelope: envelope.clone(), jobs }, step);
        }
        !self.asks()
    }

    fn wait_for_jobs(&mut self, waits: Shrinking, step: &Step) {
        self.shrinking.push(waits);
        self.next_look = self.next_look.min(step.now + LOOK_AGAIN);
    }

    /// Handles the calls whose jobs are gone in this look.
    pub(super) fn note_jobs_gone(&mut self, order: OrderId, look: &Look, step: &mut Step) {
        let there: BTreeSet<JobId> =
            look.jobs.iter().filter(|status| !status.state.is_over()).map(|status| status.id).collect();
        let gone = |site: &Site, id: &JobId| !there.contains(id) && site.orders.is_job_shown_by(*id, order);
        // All repetitions of a call wait for the jobs of the first.
        let unfinished = self.shrinking.iter().filter(|waits| !waits.jobs.iter().all(|id| gone(self, id)));
        let unfinished: BTreeSet<Key> = unfinished.map(|waits| waits.envelope.key).collect();
        for waits in std::mem::take(&mut self.shrinking) {
            if unfinished.contains(&waits.envelope.key) {
                self.wait_for_jobs(waits, step);
            } else {
                self.call(waits.call, waits.envelope, step);
            }
        }
    }

    /// Answers calls whose jobs did not end in time. A repetition waits again.
    pub(super) fn answer_overdue_shrinking(&mut self, step: &mut Step) {
        for waits in self.shrinking.extract_if(.., |waits| waits.until <= step.now) {
            step.out.answer(waits.call, Problem::new(Why::Busy));
        }
    }

    /// The jobs in the reservation of a call that would not have room after it, in order of their ids. Those that
    /// started first keep their room.
    fn jobs_without_room(&self, now: Moment, envelope: &Envelope) -> Vec<JobId> {
        let Some((entry, spans)) = self.ledger.lowered_by(now, envelope) else { return Vec::new() };
        let id = envelope.call.id();
        let live = entry.jobs.iter().filter_map(|job| self.jobs.get(*job));
        let mut inside: Vec<&Record> =
            live.filter(|record| record.over.is_none() && record.job.reservation == id).collect();
        inside.sort_by_key(|record| (record.started.is_none(), record.started, record.job.id));
        let lowered = Lowered::new(&entry.spans, &spans, now.second());
        let mut without = BTreeSet::new();
        for at in &lowered.instants {
            let mut used = 0_u64;
            for record in &inside {
                if without.contains(&record.job.id) || lowered.end_of(record) <= *at {
                    continue;
                }
                // Waiting jobs take turns; each must fit by itself.
                let needs = u64::from(record.job.capacity.0);
                let runs = record.started.is_some() || record.claims;
                let needs = if runs { used + needs } else { needs };
                if needs > u64::from(taken(&spans, *at).0) {
                    without.insert(record.job.id);
                } else if runs {
                    used = needs;
                }
            }
        }
        without.into_iter().collect()
    }
}

/// The instants from which a reservation has less than before.
struct Lowered {
    instants: Vec<Time>,
    first_start: Time,
}

impl Lowered {
    fn new(before: &[Span], after: &[Span], now: Time) -> Lowered {
        let begins = after.iter().map(|span| span.interval.begin.max(now));
        let less = |at: &Time| taken(after, *at) < taken(before, *at);
        let instants: BTreeSet<Time> = begins.chain([now]).filter(less).collect();
        let begin = before.first().map_or(now, |span| span.interval.begin);
        Lowered { instants: instants.into_iter().collect(), first_start: begin.max(now) }
    }

    /// The latest end of a job by its limit, if a waiting one started as soon as possible.
    fn end_of(&self, record: &Record) -> Time {
        let start = record.started.unwrap_or(self.first_start);
        Time(start.0.saturating_add(record.job.limit.0))
    }
}
