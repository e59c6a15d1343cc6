//! Which orders may be carried out now: orders for one reservation, and those for one job, keep their order; all others run
//! side by side. Several jobs may be submitted into a reservation at once, but not while a `Keep` for it is carried out.

use bookahead_party::BatchOrder;
use bookahead_protocol::{JobId, ReservationId};
use std::collections::{BTreeMap, VecDeque};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Reservation(ReservationId),
    Job(JobId),
}

/// Orders that wait or are being carried out. Bounded by what a site has outstanding.
#[derive(Debug, Default)]
pub(super) struct Queues {
    next: u64,
    waiting: BTreeMap<u64, BatchOrder>,
    /// The orders for each reservation and job, and whether each excludes all others.
    lines: BTreeMap<Key, VecDeque<(u64, bool)>>,
}

impl Queues {
    pub(super) fn push(&mut self, order: BatchOrder) {
        for (key, alone) in keys(&order) {
            self.lines.entry(key).or_default().push_back((self.next, alone));
        }
        self.waiting.insert(self.next, order);
        self.next += 1;
    }

    /// The first order that need not wait for another, with its number.
    pub(super) fn take(&mut self) -> Option<(u64, BatchOrder)> {
        let may_run = |(number, order): &(&u64, &BatchOrder)| {
            keys(order).into_iter().all(|(key, alone)| {
                let line = self.lines.get(&key).into_iter().flatten();
                let mut before = line.take_while(|(other, _)| other < number);
                before.all(|(_, other_alone)| !alone && !other_alone)
            })
        };
        let number = *self.waiting.iter().find(may_run)?.0;
        self.waiting.remove_entry(&number)
    }

    /// Whether none waits or is being carried out.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes an order that was taken and is carried out.
    pub(super) fn done(&mut self, number: u64, order: &BatchOrder) {
        for (key, _) in keys(order) {
            if let Some(line) = self.lines.get_mut(&key) {
                line.retain(|(other, _)| *other != number);
                if line.is_empty() {
                    self.lines.remove(&key);
                }
            }
        }
    }
}

/// What an order is for, and whether it excludes all other orders for that.
fn keys(order: &BatchOrder) -> Vec<(Key, bool)> {
    match order {
        BatchOrder::Keep { backing, .. } => vec![(Key::Reservation(backing.id), true)],
        BatchOrder::Submit { job, .. } => {
            let inside = job.reservation.map(|id| (Key::Reservation(id), false));
            inside.into_iter().chain([(Key::Job(job.id), true)]).collect()
        }
        BatchOrder::Go { job, .. } | BatchOrder::Cancel { job, .. } => vec![(Key::Job(*job), true)],
        BatchOrder::Look { .. } => Vec::new(),
    }
}
