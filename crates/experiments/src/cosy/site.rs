//! One run: a cluster whose reservations need a shortest notice. A refused reservation joins the queue at the same
//! instant. This module drives the scheduler itself, because `bookahead_sim::Site` drops refused requests, and the
//! offered work would then depend on the rule. Decisions never depend on real run times.
//!
//! The jobs and their wish for a reservation depend only on the seed: a job that requests a reservation at a small
//! share requests the same one at every larger share.

use bookahead_plan::notice::{Notice, NoticeRule};
use bookahead_plan::{
    Capacity, Cluster, JobKey, Need, Planner, Policy, Running, Scheduler, Seconds, Span, Time, Waiting,
};
use bookahead_sim::Job;
use bookahead_sim::site::{Event, Events};
use bookahead_workload::models::{Cirne, Setting};

/// Size of the machine, typical for the systems in the archive that the model is fitted to.
pub(super) const MACHINE: Capacity = Capacity(128);
/// Offered load by real run times: high enough that jobs wait most of the day.
const LOAD: f64 = 0.7;
/// Maximum time from request to start, uniformly distributed: reservations for the next day.
const LONGEST_BOOK_AHEAD: Seconds = Seconds(24 * 3600);
/// Percentages of jobs that request a reservation, starting with 0.
pub(super) const SHARES: [u32; 6] = [0, 5, 10, 20, 30, 40];
/// The largest share. Jobs beyond it never request a reservation: their wait is compared between runs.
const LARGEST_SHARE: u32 = SHARES[SHARES.len() - 1];

/// A job, and the reservation that its owner might request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The job with its real run time.
    pub(super) job: Job,
    /// Time from submission to the start of the reservation.
    pub(super) book_ahead: Seconds,
    /// Uniform in 0 to 1: it requests a reservation if the share is above this.
    chance: f64,
}

impl Asked {
    /// Whether it requests a reservation at this share, in percent.
    pub(super) fn wants_reservation(&self, share: u32) -> bool {
        self.chance < f64::from(share) / 100.0
    }

    /// Whether it never requests a reservation, at any share.
    pub(super) fn always_queues(&self) -> bool {
        !self.wants_reservation(LARGEST_SHARE)
    }
}

pub(super) fn draw(seed: u64, jobs: usize) -> Vec<Asked> {
    let setting = Setting { jobs, processors: MACHINE, load: Some(LOAD), seed };
    let drawn = Cirne { setting, ..Cirne::default() }.generate();
    let drawn = drawn.expect("the model draws from the constants above");
    drawn.iter().zip(0..).map(|(job, number)| ask(seed, number, job.into())).collect()
}

fn ask(seed: u64, number: u64, job: Job) -> Asked {
    let ahead = unit(seed, number, 1) * LONGEST_BOOK_AHEAD.0 as f64;
    Asked { job, book_ahead: Seconds(ahead as i64), chance: unit(seed, number, 0) }
}

/// A uniform number in [0, 1) for each seed, job and purpose, by the mixing function of SplitMix64 (G. Steele, D. Lea,
/// C. Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
fn unit(seed: u64, number: u64, purpose: u64) -> f64 {
    let mixed = mix(mix(mix(seed) ^ number) ^ purpose);
    (mixed >> 11) as f64 / (1u64 << 53) as f64
}

fn mix(state: u64) -> u64 {
    let state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    /// When it started, from the queue or as a reservation.
    pub(super) start: Time,
    /// The decision, if it requested a reservation.
    pub(super) asked: Option<Decision>,
}

/// The decision on a reservation request, and the wait of the same request as a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decision {
    pub(super) answer: Answer,
    pub(super) needed: Seconds,
    /// Planned wait as a job by estimated run times, which the site knows.
    pub(super) planned_wait: Seconds,
    /// Planned wait as a job by real run times, which only the simulation knows.
    pub(super) informed_wait: Seconds,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Granted, at exactly the requested start.
    Granted,
    /// Refused: too short a notice.
    TooShort,
    /// Refused: not enough free capacity.
    NoRoom,
}

/// Runs all jobs to their end and returns the fate of each.
pub(super) fn simulate(capacity: Capacity, jobs: &[Asked], share: u32, rule: NoticeRule) -> Vec<Fate> {
    let begin = jobs.first().map_or(Time(0), |asked| asked.job.asked.submit);
    let mut site = Site {
        capacity,
        jobs,
        share,
        scheduler: Scheduler::new(Policy::EASY, capacity, begin),
        notice: Notice::new(rule),
        as_job: AsJob::default(),
        events: Events::default(),
        started: Vec::new(),
        present: Present::default(),
        fates: vec![Fate { start: Time::MAX, asked: None }; jobs.len()],
    };
    let mut submitted = 0;
    loop {
        let submit = jobs.get(submitted).map_or(Time::MAX, |asked| asked.job.asked.submit);
        let now = site.events.next_time().unwrap_or(Time::MAX).min(submit);
        if now == Time::MAX {
            return site.fates;
        }
        let arrived = jobs[submitted..].iter().take_while(|asked| asked.job.asked.submit == now).count();
        site.instant(now, submitted..submitted + arrived);
        submitted += arrived;
    }
}

struct Site<'a> {
    capacity: Capacity,
    jobs: &'a [Asked],
    share: u32,
    scheduler: Scheduler,
    notice: Notice,
    as_job: AsJob,
    events: Events,
    started: Vec<JobKey>,
    present: Present,
    fates: Vec<Fate>,
}

impl Site<'_> {
    /// Handles all events of one instant: ends, submissions, then a scheduling pass. Requests are decided within the
    /// pass, after the first waiting job has its promise, so that no reservation can delay it.
    fn instant(&mut self, now: Time, arrived: std::ops::Range<usize>) {
        self.scheduler.advance(now);
        while let Some(event) = self.events.pop_at(now) {
            if let Event::End(job) = event {
                self.end(job as usize, now);
            }
        }
        let (requests, jobs): (Vec<usize>, Vec<usize>) =
            arrived.partition(|&at| self.jobs[at].wants_reservation(self.share));
        jobs.into_iter().for_each(|at| self.submit(at));
        if requests.is_empty() {
            self.scheduler.schedule(|key| self.started.push(key));
        } else {
            // Each decision may change the queue, so the promise of the first waiting job is renewed before each.
            for at in requests {
                self.scheduler.place_first(|key| self.started.push(key));
                self.start(now);
                self.decide(at, now);
            }
            self.scheduler.place_rest(|key| self.started.push(key));
        }
        self.start(now);
    }

    fn submit(&mut self, at: usize) {
        // Always succeeds: the model draws no job that is wider than the machine.
        if self.scheduler.submit(JobKey(at as u32), self.jobs[at].job.asked).is_ok() {
            self.present.waiting.push(at);
        }
    }

    /// Runs the jobs that the pass has started.
    fn start(&mut self, now: Time) {
        for JobKey(key) in self.started.drain(..) {
            let at = key as usize;
            // Only jobs from the queue come here. The time to the start of a reservation was chosen by its
            // owner and would distort the history of waits.
            self.notice.job_started(&self.jobs[at].job.asked, now);
            self.fates[at].start = now;
            self.events.push(now + self.jobs[at].job.run, Event::End(key));
            self.present.waiting.retain(|&other| other != at);
            self.present.running.push(at);
        }
    }

    /// Ends a job and releases the rest of its time, or of its reservation.
    fn end(&mut self, at: usize, now: Time) {
        let Waiting { estimate, capacity, .. } = self.jobs[at].job.asked;
        let expected_end = self.fates[at].start + estimate;
        if self.is_granted(at) {
            // Jobs use about a third of their requested time; if the rest stayed reserved, the queue would
            // wait for nothing.
            let rest = Span::starting(now, expected_end - now, capacity);
            self.scheduler.release(rest);
            self.present.reserved.retain(|&other| other != at);
        } else {
            self.scheduler.end(Running { expected_end, capacity, owner: 0 });
            self.present.running.retain(|&other| other != at);
        }
    }

    fn is_granted(&self, at: usize) -> bool {
        self.fates[at].asked.is_some_and(|decision| decision.answer == Answer::Granted)
    }

    /// Grants a request, or submits it to the queue.
    fn decide(&mut self, at: usize, now: Time) {
        let asked = self.jobs[at];
        let Waiting { estimate, capacity, .. } = asked.job.asked;
        let start = now + asked.book_ahead;
        let need = Need { capacity, length: estimate };
        let (answer, needed) = match self.notice.check(asked.book_ahead, capacity, estimate) {
            Err(refusal) => (Answer::TooShort, refusal.needed),
            Ok(rests_on) => {
                let fits = self.scheduler.profile().fits(start, need);
                let answer = if fits { Answer::Granted } else { Answer::NoRoom };
                (answer, self.notice.rule().notice(rests_on.wait))
            }
        };
        let mut wait = |length: fn(&Job) -> Seconds| {
            let (jobs, fates) = (self.jobs, &self.fates);
            self.as_job.wait(self.capacity, now, at, &self.present, |at| {
                let job = &jobs[at].job;
                (fates[at].start, Waiting { estimate: length(job), ..job.asked })
            })
        };
        // Planned before the decision takes effect: a granted reservation would compete with itself as a job.
        let planned_wait = wait(|job| job.asked.estimate);
        let informed_wait = wait(|job| job.run);
        self.fates[at].asked = Some(Decision { answer, needed, planned_wait, informed_wait });
        if answer == Answer::Granted {
            self.scheduler.reserve(Span::starting(start, estimate, capacity));
            self.fates[at].start = start;
            self.events.push(start + asked.job.run, Event::End(at as u32));
            self.present.reserved.push(at);
        } else {
            self.submit(at);
        }
    }
}

/// Indices of the jobs in each state.
#[derive(Default)]
struct Present {
    /// Running jobs from the queue.
    running: Vec<usize>,
    /// Waiting jobs, in the order of submission.
    waiting: Vec<usize>,
    /// Granted reservations that have not ended.
    reserved: Vec<usize>,
}

/// Plans how long a request would wait as a job, by estimated or real run times. Reuses its buffers between plans.
#[derive(Default)]
struct AsJob {
    planner: Planner,
    running: Vec<Running>,
    waiting: Vec<Waiting>,
    reservations: Vec<Span>,
}

impl AsJob {
    /// The wait of `request` if it joined the queue now. `known` returns start and demand of a job; the start of a
    /// waiting job is ignored.
    fn wait(
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
            Running { expected_end: start + job.estimate, capacity: job.capacity, owner: job.owner.id }
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

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::notice::Predictor;
    use bookahead_sim::{EarliestFit, Overrun};
    use std::collections::BTreeMap;

    const RULE: NoticeRule = NoticeRule { predictor: Predictor::Mean, percent: 100 };

    #[test]
    fn without_reservations_a_run_equals_the_simulated_site() {
        let jobs = draw(1, 2000);
        let plain: Vec<Job> = jobs.iter().map(|asked| asked.job).collect();
        let site = bookahead_sim::Site { policy: Policy::EASY, capacity: MACHINE, overrun: Overrun::Kill };
        let outcome = bookahead_sim::simulate(site, &plain, &[], &mut EarliestFit, |_| {});
        for (fate, expected) in simulate(MACHINE, &jobs, 0, RULE).iter().zip(outcome.jobs) {
            let bookahead_sim::Fate::Ran(ran) = expected else { panic!("all jobs run") };
            assert_eq!(fate.start, ran.start);
        }
    }

    #[test]
    fn every_job_runs_once_and_the_machine_is_never_overfull() {
        let jobs = draw(1, 2000);
        let fates = simulate(MACHINE, &jobs, 40, RULE);
        let mut steps = BTreeMap::new();
        for (asked, fate) in jobs.iter().zip(&fates) {
            assert!(asked.job.asked.submit <= fate.start && fate.start < Time::MAX);
            let size = i64::from(asked.job.asked.capacity.0);
            *steps.entry(fate.start).or_insert(0) += size;
            *steps.entry(fate.start + asked.job.run).or_insert(0) -= size;
        }
        let mut used = 0;
        for step in steps.values() {
            used += step;
            assert!((0..=i64::from(MACHINE.0)).contains(&used));
        }
    }

    #[test]
    fn a_granted_reservation_starts_as_asked_and_had_the_notice() {
        let jobs = draw(2, 2000);
        let fates = simulate(MACHINE, &jobs, 40, RULE);
        let asked = || jobs.iter().zip(&fates).filter_map(|(asked, fate)| Some((asked, fate, fate.asked?)));
        for (asked, fate, decision) in asked() {
            let enough = asked.book_ahead >= decision.needed;
            assert_eq!(enough, decision.answer != Answer::TooShort);
            if decision.answer == Answer::Granted {
                assert_eq!(fate.start, asked.job.asked.submit + asked.book_ahead);
            }
        }
        for answer in [Answer::Granted, Answer::TooShort, Answer::NoRoom] {
            assert!(asked().any(|(.., decision)| decision.answer == answer), "{answer:?}");
        }
    }

    #[test]
    fn the_mixing_function_is_the_published_one() {
        // The first number of the generator that begins with the state 0.
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
    }

    #[test]
    fn shares_are_kept_and_nested_and_book_ahead_times_fill_their_range() {
        let asked = draw(1, 10_000);
        for share in SHARES {
            let count = asked.iter().filter(|asked| asked.wants_reservation(share)).count();
            assert!((count as f64 / 100.0 - f64::from(share)).abs() < 1.5, "{share}: {count}");
        }
        assert!(asked.iter().all(|asked| !asked.wants_reservation(5) || asked.wants_reservation(10)));
        let mean = asked.iter().map(|asked| asked.book_ahead.0).sum::<i64>() / 10_000;
        assert!((mean - LONGEST_BOOK_AHEAD.0 / 2).abs() < 1000, "{mean}");
        assert!(asked.iter().all(|asked| asked.book_ahead < LONGEST_BOOK_AHEAD));
    }
}
