//! What one run is measured by, resource by resource: sums of whole numbers, so that no order of adding matters.
//! It relies on the pieces and returns that a resource has noted; it decides nothing.

use super::case::Placed;
use super::model::{Resource, Work};
use bookahead_plan::{Interval, Time};
use std::ops::AddAssign;

/// A sum and how many went into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum {
    /// Of all.
    pub total: i64,
    /// How many.
    pub count: i64,
}

/// Of one resource, or of several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measures {
    /// Seconds from the submission to the first start, of jobs from the queue; also of those that gave up on a
    /// reservation, not of reserved ones that joined it later.
    pub waits: Sum,
    /// Seconds from the start wanted to the start booked, of reservations.
    pub offsets: Sum,
    /// Requests that were rejected, with as many counted as jobs asked.
    pub rejections: Sum,
    /// CPU seconds used, of CPU seconds there, from the beginning to the last arrival.
    pub arrivals: Sum,
    /// The same to the end of the resource's last job.
    pub whole: Sum,
    /// Of the jobs that wanted a reservation, how many ran as wanted: all parts at the same time, to their end.
    pub reserved_success: Sum,
    /// The same of all jobs.
    pub success: Sum,
}

impl Sum {
    /// Adds one value.
    pub fn add(&mut self, value: i64) {
        self.total += value;
        self.count += 1;
    }

    /// The mean; zero of none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.total += other.total;
        self.count += other.count;
    }
}

impl Measures {
    /// Of a resource that is done.
    pub(super) fn of(
        resource: &Resource,
        placed: &[Placed<'_>],
        rejections: Sum,
        arrivals_end: Time,
    ) -> Measures {
        let last_end = resource.pieces().iter().map(|piece| piece.interval.end).max().unwrap_or(Time(0));
        let mut measures = Measures {
            rejections,
            arrivals: used(resource, arrivals_end),
            whole: used(resource, last_end),
            ..Measures::default()
        };
        let parts = placed.last().map_or(0, |last| last.parts.end);
        let fates = fates(resource, parts);
        for Placed { job, parts, wanted, offset } in placed {
            let fates = &fates[parts.clone()];
            match offset {
                Some(offset) => measures.offsets.add(offset.0),
                None => fates.iter().for_each(|fate| measures.waits.add((fate.start - job.submit).0)),
            }
            let together = fates.iter().all(|fate| fate.is_whole() && fate.start == fates[0].start);
            measures.success.add(i64::from(together));
            if *wanted {
                measures.reserved_success.add(i64::from(together));
            }
        }
        measures
    }

    /// Of several resources together.
    pub fn total<'a>(all: impl IntoIterator<Item = &'a Measures>) -> Measures {
        let mut total = Measures::default();
        for measures in all {
            total.waits += measures.waits;
            total.offsets += measures.offsets;
            total.rejections += measures.rejections;
            total.arrivals += measures.arrivals;
            total.whole += measures.whole;
            total.reserved_success += measures.reserved_success;
            total.success += measures.success;
        }
        total
    }
}

/// What became of one part.
#[derive(Clone, Copy)]
struct Fate {
    start: Time,
    pieces: u32,
    finished: bool,
}

impl Fate {
    /// It ran in one go, to its end.
    fn is_whole(&self) -> bool {
        self.pieces == 1 && self.finished
    }
}

fn fates(resource: &Resource, parts: usize) -> Vec<Fate> {
    let mut fates = vec![Fate { start: Time::MAX, pieces: 0, finished: false }; parts];
    for piece in resource.pieces() {
        let fate = &mut fates[piece.job.0 as usize];
        fate.start = fate.start.min(piece.interval.begin);
        fate.pieces += 1;
    }
    for returned in resource.returned() {
        fates[returned.job.0 as usize].finished = returned.left == Work::NONE;
    }
    fates
}

/// CPU seconds used until an instant, of those there.
fn used(resource: &Resource, until: Time) -> Sum {
    let inside = |interval: Interval| Interval::new(interval.begin, interval.end.min(until)).length().0;
    let total = resource.pieces().iter().map(|piece| inside(piece.interval)).sum();
    Sum { total, count: until.0 * i64::from(resource.capacity().0) }
}
