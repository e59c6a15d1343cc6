//! What each owner has used, for fair share: capacity-seconds of jobs outside reservations, from their start to
//! their end. All usage is halved every seven days, so that older use counts less.

use crate::policy::{Owner, Waiting};
use crate::units::{Capacity, Seconds, Time};
use std::collections::BTreeMap;

/// Time after which usage is halved: a week, Slurm's default. It is halved at whole multiples since the
/// epoch, so that it does not matter how often usage is read.
pub const HALVED_EVERY: Seconds = Seconds(7 * 86_400);

/// Number of halvings after which nothing is left of any usage.
const ALL_GONE: i64 = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Account {
    used: u64,
    /// Capacity of its running jobs.
    running: u64,
}

/// Usage by owner. Owners without usage and running jobs take no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    now: Time,
    accounts: BTreeMap<u32, Account>,
}

impl Usage {
    /// No usage yet.
    pub fn new(now: Time) -> Usage {
        Usage { now, accounts: BTreeMap::new() }
    }

    /// Capacity-seconds of an owner until now, halved as described.
    pub fn of(&self, owner: u32) -> u64 {
        self.accounts.get(&owner).map_or(0, |account| account.used)
    }

    /// The job with its owner's usage, for a copy of the queue.
    pub fn told(&self, job: Waiting) -> Waiting {
        Waiting { owner: Owner { used: self.of(job.owner.id), ..job.owner }, ..job }
    }

    /// Forgets which jobs run. They must be told again.
    pub(crate) fn forget_running(&mut self) {
        self.accounts.values_mut().for_each(|account| account.running = 0);
    }

    /// Takes over the usage that the caller knows of an owner, if it is larger than the one stored here.
    pub(crate) fn learn(&mut self, owner: Owner) {
        if owner.used > self.of(owner.id) {
            self.accounts.entry(owner.id).or_default().used = owner.used;
        }
    }

    /// A job of this owner starts.
    pub fn start(&mut self, owner: u32, capacity: Capacity) {
        let account = self.accounts.entry(owner).or_default();
        account.running = account.running.saturating_add(u64::from(capacity.0));
    }

    /// A job of this owner ends.
    pub fn end(&mut self, owner: u32, capacity: Capacity) {
        if let Some(account) = self.accounts.get_mut(&owner) {
            account.running = account.running.saturating_sub(u64::from(capacity.0));
        }
    }

    /// Adds what running jobs use until `now`.
    pub fn advance(&mut self, now: Time) {
        if now <= self.now {
            return;
        }
        let period = |time: Time| time.0.div_euclid(HALVED_EVERY.0);
        let (first, last) = (period(self.now), period(now));
        // What was used before is gone by then, and only the last periods count.
        if last - first > ALL_GONE {
            self.accounts.values_mut().for_each(|account| account.used = 0);
            self.now = Time((last - ALL_GONE) * HALVED_EVERY.0);
        }
        for ended in period(self.now)..last {
            self.run_until(Time((ended + 1) * HALVED_EVERY.0));
            self.accounts.values_mut().for_each(|account| account.used /= 2);
            self.accounts.retain(|_, account| account.used > 0 || account.running > 0);
        }
        self.run_until(now);
    }

    fn run_until(&mut self, time: Time) {
        let seconds = (time - self.now).0.max(0) as u64;
        for account in self.accounts.values_mut() {
            account.used = account.used.saturating_add(account.running.saturating_mul(seconds));
        }
        self.now = time;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn running_jobs_are_charged_as_time_passes_and_halved_each_week() {
        let week = HALVED_EVERY.0;
        let mut usage = Usage::new(Time(week - 100));
        usage.start(1, Capacity(4));
        usage.advance(Time(week - 50));
        assert_eq!(usage.of(1), 200);
        usage.end(1, Capacity(4));
        usage.start(2, Capacity(1));
        usage.advance(Time(week + 10));
        assert_eq!((usage.of(1), usage.of(2)), (100, 35), "200 / 2, 50 / 2 + 10");
        let mut in_steps = usage.clone();
        usage.advance(Time(3 * week + 7));
        (week + 11..week + 20).chain([2 * week, 3 * week + 7]).for_each(|at| in_steps.advance(Time(at)));
        assert_eq!(usage, in_steps, "it does not matter how often it is read");
        usage.advance(Time(i64::MAX / 2));
        assert_eq!(usage.of(1), 0);
        assert!(usage.of(2) > 0, "still running");
    }
}
