//! What a placement gets to see of a simulated cluster: who runs, who waits, what is reserved. It knows estimates only.

use crate::site::Job;
use bookahead_plan::{Capacity, Cluster, Running, Span, Time, Waiting};

/// The lists behind a [`Cluster`], kept up to date where they are wanted.
#[derive(Default)]
pub(crate) struct View {
    wanted: bool,
    running: Vec<u32>,
    waiting: Vec<u32>,
    pub(crate) reservations: Vec<Span>,
    running_now: Vec<Running>,
    waiting_now: Vec<Waiting>,
}

impl View {
    pub(crate) fn new(wanted: bool) -> View {
        View { wanted, ..View::default() }
    }

    pub(crate) fn submit(&mut self, job: u32) {
        if self.wanted {
            self.waiting.push(job);
        }
    }

    pub(crate) fn start(&mut self, job: u32) {
        if self.wanted {
            self.waiting.retain(|&waits| waits != job);
            self.running.push(job);
        }
    }

    pub(crate) fn end(&mut self, job: u32) {
        if self.wanted {
            self.running.retain(|&runs| runs != job);
        }
    }

    /// The cluster at `now`; reservations that are over are forgotten.
    pub(crate) fn cluster(
        &mut self,
        now: Time,
        capacity: Capacity,
        jobs: &[Job],
        expected_ends: &[Time],
    ) -> Cluster<'_> {
        self.reservations.retain(|span| span.interval.end > now);
        self.running_now.clear();
        self.running_now.extend(self.running.iter().map(|&job| Running {
            expected_end: expected_ends[job as usize],
            capacity: jobs[job as usize].asked.capacity,
        }));
        self.waiting_now.clear();
        self.waiting_now.extend(self.waiting.iter().map(|&job| jobs[job as usize].asked));
        Cluster {
            capacity,
            now,
            running: &self.running_now,
            waiting: &self.waiting_now,
            reservations: &self.reservations,
        }
    }
}
