//! Counts the work of a search and says when it has to pause. Work is counted in elementary operations, so that the cost
//! of a unit does not depend on the request. It never reads a clock.

/// The work of one slice.
#[derive(Debug)]
pub(super) struct Meter {
    work: u64,
    pause_at: u64,
}

impl Meter {
    /// Goes on counting from `work`, up to `pause_at`.
    pub(super) fn new(work: u64, pause_at: u64) -> Meter {
        Meter { work, pause_at }
    }

    pub(super) fn charge(&mut self, operations: usize) {
        self.work = self.work.saturating_add(operations as u64);
    }

    /// Whether nothing more may be begun. What has begun is charged in full, also beyond the limit.
    pub(super) fn is_spent(&self) -> bool {
        self.work >= self.pause_at
    }

    pub(super) fn work(&self) -> u64 {
        self.work
    }
}
