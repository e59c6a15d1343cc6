//! How long a request would wait if it were a job instead: the queue is planned with it at its end. It relies on the
//! planner, and on being told how long jobs take, by their estimates or as only a simulation knows.

use bookahead_plan::{Capacity, Cluster, Planner, Policy, Running, Seconds, Span, Time, Waiting};

/// Who is where at the moment, by index.
#[derive(Default)]
pub(super) struct Present {
    /// Jobs from the queue that run.
    pub(super) running: Vec<usize>,
    /// Jobs that wait, in the order of submission.
    pub(super) waiting: Vec<usize>,
    /// Reservations that are granted and not over.
    pub(super) reserved: Vec<usize>,
}

/// Plans queues, in the same memory again and again.
#[derive(Default)]
pub(super) struct AsJob {
    planner: Planner,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    reservations: Vec<Span>,
}

impl AsJob {
    /// The wait of `request` if it joined the queue now. `known` gives the start and the demand of a job; the start of
    /// one that waits is not looked at.
    pub(super) fn wait(
        &mut self,
        capacity: Capacity,
        now: Time,
        request: usize,
        present: &Present,
        known: impl Fn(usize) -> (Time, Waiting),
    ) -> Seconds {
        self.running.clear();
        self.running.extend(present.running.iter().map(|&at| {
            let (start, job) = known(at);
            Running { expected_end: start + job.estimate, capacity: job.capacity }
        }));
        self.reservations.clear();
        self.reservations.extend(present.reserved.iter().map(|&at| {
            let (start, job) = known(at);
            Span::starting(start, job.estimate, job.capacity)
        }));
        self.waiting.clear();
        self.waiting.extend(present.waiting.iter().chain([&request]).map(|&at| known(at).1));
        let cluster = Cluster {
            capacity,
            now,
            running: &self.running,
            waiting: &self.waiting,
            reservations: &self.reservations,
        };
        let starts = self.planner.plan(Policy::EASY, &cluster);
        starts.last().copied().unwrap_or(now) - now
    }
}
