//! The scheduler and the simulated site in the simplest form: free counts are recomputed from lists second by second,
//! and everything is replanned at every event. Slow, and easy to check against the rules.

use bookahead_plan::order::{Factors, Order, Rank, Score, Standing};
use bookahead_plan::{Policy, Time, Waiting};
use bookahead_sim::{Job, Overrun, Site};
use bookahead_workload::requests::Request;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Occupied from `begin` to just before `end`.
#[derive(Clone, Copy)]
struct Taken {
    begin: i64,
    end: i64,
    amount: i64,
}

struct Runs {
    job: usize,
    start: i64,
    expected_end: i64,
    end: i64,
}

/// Result of the reference simulation.
pub(crate) struct Found {
    /// Start and end of each job; None if it is too wide.
    pub(crate) jobs: Vec<Option<(i64, i64)>>,
    /// The start of each granted request.
    pub(crate) requests: Vec<Option<i64>>,
}

struct Plain<'a> {
    site: Site,
    jobs: &'a [Job],
    now: i64,
    running: Vec<Runs>,
    waiting: Vec<usize>,
    reservations: Vec<Taken>,
    /// Capacity-seconds of each owner. The tests take less than a week, so nothing is halved.
    used: BTreeMap<u32, u64>,
    found: Found,
}

pub(crate) fn simulate(site: Site, jobs: &[Job], requests: &[Request]) -> Found {
    let found = Found { jobs: vec![None; jobs.len()], requests: vec![None; requests.len()] };
    let (running, waiting, reservations) = (Vec::new(), Vec::new(), Vec::new());
    let used = BTreeMap::new();
    let mut plain = Plain { site, jobs, now: i64::MIN, running, waiting, reservations, used, found };
    while let Some(now) = plain.next_instant(requests) {
        plain.use_until(now);
        plain.now = now;
        plain.end_jobs();
        plain.extend_jobs();
        plain.submit_jobs();
        plain.pass(requests);
    }
    plain.found
}

impl Plain<'_> {
    fn capacity(&self) -> i64 {
        i64::from(self.site.capacity.0)
    }

    fn amount(&self, job: usize) -> i64 {
        i64::from(self.jobs[job].asked.capacity.0)
    }

    fn estimate(&self, job: usize) -> i64 {
        self.jobs[job].asked.estimate.0.max(1)
    }

    fn next_instant(&self, requests: &[Request]) -> Option<i64> {
        let submits =
            self.jobs.iter().map(|job| job.asked.submit.0).chain(requests.iter().map(|r| r.submit.0));
        let runs = self.running.iter().map(|run| run.end.min(run.expected_end));
        let reservations = self.reservations.iter().flat_map(|taken| [taken.begin, taken.end]);
        submits.chain(runs).chain(reservations).filter(|&time| time > self.now).min()
    }

    fn end_jobs(&mut self) {
        let now = self.now;
        for run in self.running.extract_if(.., |run| run.end == now) {
            self.found.jobs[run.job] = Some((run.start, run.end));
        }
    }

    fn extend_jobs(&mut self) {
        // Extended in the order of the jobs, so that each one sees the extensions before it.
        self.running.sort_by_key(|run| run.job);
        let mut at = 0;
        while at < self.running.len() {
            let Runs { job, start, expected_end, .. } = self.running[at];
            if expected_end > self.now {
                at += 1;
                continue;
            }
            let late = self.now - (start + self.estimate(job));
            let wanted = self.now + late.max(60);
            let taken = self.taken(&[]);
            let room = (self.now..wanted).take_while(|&t| self.free(&taken, t) >= self.amount(job)).count();
            if room == 0 {
                self.found.jobs[job] = Some((start, self.now));
                self.running.remove(at);
            } else {
                self.running[at].expected_end = self.now + room as i64;
                at += 1;
            }
        }
    }

    fn submit_jobs(&mut self) {
        for (at, job) in self.jobs.iter().enumerate() {
            if job.asked.submit.0 == self.now && job.asked.capacity <= self.site.capacity {
                self.waiting.push(at);
            }
        }
        let used = |job: usize| self.used.get(&self.jobs[job].asked.owner.id).copied().unwrap_or(0);
        let most_used = self.waiting.iter().map(|&job| used(job)).max().unwrap_or(0);
        let (now, capacity, order) = (Time(self.now), self.site.capacity, self.site.policy.order());
        self.waiting.sort_by_key(|&at| {
            let asked = &self.jobs[at].asked;
            let score = order.score(asked, &Standing { now, capacity, used: used(at), most_used });
            (Reverse((asked.priority, score)), asked.submit, at)
        });
    }

    fn use_until(&mut self, now: i64) {
        for run in &self.running {
            let asked = &self.jobs[run.job].asked;
            let seconds = u64::try_from(now - self.now).unwrap();
            *self.used.entry(asked.owner.id).or_default() += u64::from(asked.capacity.0) * seconds;
        }
    }

    fn pass(&mut self, requests: &[Request]) {
        let mut promised: Vec<Taken> = Vec::new();
        let mut first = true;
        let mut granted = requests.iter().all(|request| request.submit.0 != self.now);
        let mut waiting = std::mem::take(&mut self.waiting).into_iter();
        let mut stay = Vec::new();
        while let Some(job) = waiting.next() {
            if !first && !granted {
                self.grant(requests, &promised);
                granted = true;
            }
            first = false;
            let start = if promised.len() < self.site.policy.promises() {
                self.earliest(&promised, self.now, self.amount(job), self.estimate(job))
            } else if self.fits(&promised, self.now, self.amount(job), self.estimate(job)) {
                self.now
            } else {
                i64::MAX
            };
            if start == self.now {
                self.start(job);
                continue;
            }
            stay.push(job);
            if promised.len() < self.site.policy.promises() {
                promised.push(Taken {
                    begin: start,
                    end: start + self.estimate(job),
                    amount: self.amount(job),
                });
            }
            if !self.site.policy.backfills() {
                if !granted {
                    self.grant(requests, &promised);
                    granted = true;
                }
                stay.extend(waiting.by_ref());
            }
        }
        if !granted {
            self.grant(requests, &promised);
        }
        self.waiting = stay;
    }

    fn grant(&mut self, requests: &[Request], promised: &[Taken]) {
        for (at, request) in requests.iter().enumerate().filter(|(_, request)| request.submit.0 == self.now) {
            let amount = i64::from(request.processors.0);
            let last = request.latest_end.0 - request.duration.0;
            let mut starts = request.earliest_start.0.max(self.now)..=last;
            let start = starts.find(|&start| self.fits(promised, start, amount, request.duration.0));
            if let Some(begin) = start {
                self.reservations.push(Taken { begin, end: begin + request.duration.0, amount });
            }
            self.found.requests[at] = start;
        }
    }

    fn start(&mut self, job: usize) {
        let estimate = self.estimate(job);
        let run = self.jobs[job].run.0.max(1);
        let run = if self.site.overrun == Overrun::Kill { run.min(estimate) } else { run };
        let (start, end, expected_end) = (self.now, self.now + run, self.now + estimate);
        self.running.push(Runs { job, start, expected_end, end });
    }

    fn earliest(&self, promised: &[Taken], from: i64, amount: i64, length: i64) -> i64 {
        (from..).find(|&start| self.fits(promised, start, amount, length)).unwrap()
    }

    fn fits(&self, promised: &[Taken], start: i64, amount: i64, length: i64) -> bool {
        let taken = self.taken(promised);
        (start..start + length).all(|instant| self.free(&taken, instant) >= amount)
    }

    fn taken(&self, promised: &[Taken]) -> Vec<Taken> {
        let running = self.running.iter().map(|run| Taken {
            begin: self.now,
            end: run.expected_end,
            amount: self.amount(run.job),
        });
        running.chain(self.reservations.iter().copied()).chain(promised.iter().copied()).collect()
    }

    fn free(&self, taken: &[Taken], instant: i64) -> i64 {
        let held = taken.iter().filter(|taken| taken.begin <= instant && instant < taken.end);
        self.capacity() - held.map(|taken| taken.amount).sum::<i64>()
    }
}

/// The policies under test.
pub(crate) fn policies() -> [Policy; 4] {
    [Policy::FCFS, Policy::EASY, Policy::CONSERVATIVE, Policy::backfilling(3).unwrap()]
}

/// Widest job first: an order of the tests' own.
struct Widest;

impl Rank for Widest {
    fn name(&self) -> &'static str {
        "widest"
    }

    fn score(&self, job: &Waiting, _: &Standing) -> Score {
        Score::new(u128::from(job.capacity.0), 1)
    }
}

/// The orders under test.
pub(crate) fn orders() -> Vec<Order> {
    let uneven = Order::Multifactor(Factors { age: 600_000, size: 2, fairshare: 3 });
    Order::NAMED.into_iter().chain([uneven, Order::Own(&Widest)]).collect()
}
