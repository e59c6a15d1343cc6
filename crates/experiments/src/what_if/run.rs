//! One run: a simulation of jobs and requests with one placement method, compared with a simulation of the same jobs
//! without reservations. Two contenders are the methods of the paper; the others go beyond it.

use super::workload::Workload;
use bookahead_plan::placement::{Admission, Method, Preference, Rules, SlotRules, Weights};
use bookahead_plan::{Capacity, Cluster, Policy, Profile, Seconds, Time};
use bookahead_sim::{EarliestFit, Fate, Job, Outcome, Overrun, Placement, Rated, Site, simulate};
use bookahead_workload::requests::{Request, Selection, select};
use bookahead_workload::trace::Estimates;

/// Book-ahead times of the paper's 36 workloads, in hours.
pub(super) const BOOK_AHEAD: [i64; 6] = [0, 2, 4, 6, 12, 24];
/// Start windows of the paper's 36 workloads, in hours.
pub(super) const WINDOWS: [i64; 6] = [0, 1, 2, 5, 10, 30];
/// The fifth of the requests with the highest backlog counts as made under high load, as in the paper.
const HIGH_LOAD_ONE_IN: usize = 5;

/// A placement method for reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Contender {
    /// The paper's earlier method.
    Load,
    /// The paper's new method.
    WhatIf,
    /// Vacancies around all planned jobs.
    LocalJobsPreferred,
    /// Vacancies around running jobs and the first in the queue.
    ReservationsFirst,
    /// What-if, where no waiting job may be delayed by more than an hour.
    WhatIfWithinAnHour,
}

impl Contender {
    /// The two methods that the paper compares.
    pub(crate) const PAPER: [Contender; 2] = [Contender::Load, Contender::WhatIf];
    /// All methods, those of the paper first.
    pub const ALL: [Contender; 5] = [
        Contender::Load,
        Contender::WhatIf,
        Contender::LocalJobsPreferred,
        Contender::ReservationsFirst,
        Contender::WhatIfWithinAnHour,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Load => "load",
            Contender::WhatIf => "what-if",
            Contender::LocalJobsPreferred => "earliest start, local jobs preferred",
            Contender::ReservationsFirst => "earliest start, reservations first",
            Contender::WhatIfWithinAnHour => "what-if, delays of an hour at most",
        }
    }

    /// Its name in files: one word.
    pub fn word(self) -> &'static str {
        match self {
            Contender::Load => "load",
            Contender::WhatIf => "what-if",
            Contender::LocalJobsPreferred => "local-jobs-preferred",
            Contender::ReservationsFirst => "reservations-first",
            Contender::WhatIfWithinAnHour => "what-if-within-an-hour",
        }
    }

    /// The placement with EASY backfilling and the slot rules of the experiment.
    pub fn placement(self) -> Rated {
        let what_if = Method::WhatIf(Weights::EVEN);
        let hour = Admission { longest_delay: Some(Seconds(3_600)), ..Admission::default() };
        let earliest = |local_jobs_preferred| Method::EarliestStart { local_jobs_preferred };
        let any = Admission::default();
        let (method, admission, preference) = match self {
            Contender::Load => (Method::Load, any, Preference::BestAvailability),
            Contender::WhatIf => (what_if, any, Preference::BestAvailability),
            Contender::LocalJobsPreferred => (earliest(true), any, Preference::Earliest),
            Contender::ReservationsFirst => (earliest(false), any, Preference::Earliest),
            Contender::WhatIfWithinAnHour => (what_if, hour, Preference::BestAvailability),
        };
        // The paper bounds the number of slots and their gap, and adds the start as a job, but states no numbers.
        let slots = SlotRules { most: 20, gap: Seconds(900), natural: false };
        Rated::new(Rules { policy: Policy::EASY, method, slots, admission }, preference)
    }
}

/// Parameters of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Setting {
    /// Placement method.
    pub contender: Contender,
    /// Time from request to earliest start, in hours.
    pub book_ahead: i64,
    /// How much later the start may be, in hours.
    pub window: i64,
    /// Run-time estimates that the scheduler gets.
    pub estimates: Estimates,
    /// Seed for the choice of the jobs that become requests.
    pub seed: u64,
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Finding {
    /// Share of requests granted, in percent.
    pub success: f64,
    /// The same for the fifth of the requests with the highest backlog.
    pub success_under_high_load: f64,
    /// Growth of the makespan, in percent of that of the same jobs without requests, from the first submission on.
    pub makespan_change: f64,
    /// The same in seconds.
    pub makespan_added: f64,
    /// Jobs that wait longer than without reservations.
    pub delayed: usize,
    /// Mean wait of the delayed jobs without reservations, in seconds.
    pub original_wait: f64,
    /// Mean wait of the delayed jobs with reservations, in seconds.
    pub affected_wait: f64,
    /// Start and added wait of each delayed job, ordered by start.
    pub added: Vec<(Time, Seconds)>,
}

/// Runs one setting on a workload.
pub fn run(workload: &Workload, setting: &Setting) -> Finding {
    Schedules::new(workload, setting).finding(workload)
}

/// The jobs and requests of a setting, and their schedules.
pub(super) struct Schedules {
    pub(super) jobs: Vec<Job>,
    pub(super) requests: Vec<Request>,
    /// The jobs alone.
    pub(super) without: Outcome,
    /// Jobs and requests.
    pub(super) with: Outcome,
    backlogs: Vec<i128>,
}

impl Schedules {
    pub(super) fn new(workload: &Workload, setting: &Setting) -> Schedules {
        let mut jobs = workload.jobs.clone();
        // Cannot fail or cut a job: exact and longer estimates cause no overruns.
        let _ = setting.estimates.apply(&mut jobs, Overrun::Kill);
        let selection = Selection {
            book_ahead: Seconds(setting.book_ahead * 3_600),
            window: Seconds(setting.window * 3_600),
            seed: setting.seed,
            ..Selection::default()
        };
        // Fails only for a negative book-ahead time or window, or one above 2^40 s.
        let requests = select(&mut jobs, &selection).unwrap_or_default();
        let jobs: Vec<Job> = jobs.iter().map(Job::from).collect();
        let without = alone(workload, &jobs);
        let mut placement = Watched { placement: setting.contender.placement(), backlogs: Vec::new() };
        let with = simulate(site(workload), &jobs, &requests, &mut placement, |_| {});
        Schedules { jobs, requests, without, with, backlogs: placement.backlogs }
    }
}

fn site(workload: &Workload) -> Site {
    Site { policy: Policy::EASY, capacity: workload.machine, overrun: Overrun::Kill }
}

/// The schedule of jobs without requests.
pub(super) fn alone(workload: &Workload, jobs: &[Job]) -> Outcome {
    simulate(site(workload), jobs, &[], &mut EarliestFit, |_| {})
}

/// Records the backlog of jobs and reservations at each request.
struct Watched {
    placement: Rated,
    backlogs: Vec<i128>,
}

impl Placement for Watched {
    fn place(&mut self, request: &Request, cluster: &Cluster<'_>, profile: &Profile) -> Option<Time> {
        // The simulator places each request once, in order, so the index of a backlog is that of its request.
        self.backlogs.push(backlog(cluster));
        self.placement.place(request, cluster, profile)
    }
}

/// Remaining work of running and waiting jobs and of reservations, in capacity-seconds.
fn backlog(cluster: &Cluster<'_>) -> i128 {
    let area = |capacity: Capacity, length: Seconds| i128::from(capacity.0) * i128::from(length.0.max(0));
    let running = cluster.running.iter().map(|job| area(job.capacity, job.expected_end - cluster.now));
    let waiting = cluster.waiting.iter().map(|job| area(job.capacity, job.estimate));
    let reserved = cluster.reservations.iter();
    let reserved =
        reserved.map(|span| area(span.capacity, span.interval.end - span.interval.begin.max(cluster.now)));
    running.chain(waiting).chain(reserved).sum()
}

impl Schedules {
    fn finding(&self, workload: &Workload) -> Finding {
        let Schedules { jobs, requests, without, with, backlogs } = self;
        let mut by_backlog: Vec<usize> = (0..requests.len()).collect();
        // Ties go to the earlier request, so that the result does not depend on the sorting algorithm.
        by_backlog.sort_by_key(|&at| (std::cmp::Reverse(backlogs[at]), at));
        by_backlog.truncate(requests.len() / HIGH_LOAD_ONE_IN);
        let granted = |at: &&usize| with.requests[**at].is_some();
        let all: Vec<usize> = (0..requests.len()).collect();
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let mut added: Vec<(Time, Seconds)> = Vec::new();
        let (mut original, mut affected) = (0i64, 0i64);
        for (job, (before, after)) in jobs.iter().zip(without.jobs.iter().zip(&with.jobs)) {
            // A job wider than the machine runs in neither simulation and has no wait.
            let (Fate::Ran(before), Fate::Ran(after)) = (before, after) else { continue };
            // Jobs that start earlier than without reservations are not subtracted: Table 1 of the paper is about
            // delayed jobs only.
            if after.start > before.start {
                original += (before.start - job.asked.submit).0;
                affected += (after.start - job.asked.submit).0;
                added.push((after.start, after.start - before.start));
            }
        }
        added.sort_unstable();
        let makespan = |outcome: &Outcome| (last_end(outcome, requests) - workload.begin()).0 as f64;
        Finding {
            success: percent(all.iter().filter(granted).count(), all.len()),
            success_under_high_load: percent(by_backlog.iter().filter(granted).count(), by_backlog.len()),
            makespan_change: 100.0 * (makespan(with) / makespan(without).max(1.0) - 1.0),
            makespan_added: makespan(with) - makespan(without),
            delayed: added.len(),
            original_wait: original as f64 / added.len().max(1) as f64,
            affected_wait: affected as f64 / added.len().max(1) as f64,
            added,
        }
    }
}

/// The last end of a job or a reservation.
fn last_end(outcome: &Outcome, requests: &[Request]) -> Time {
    let jobs = outcome.jobs.iter().filter_map(|fate| match fate {
        Fate::Ran(ran) => Some(ran.end),
        Fate::TooWide => None,
    });
    let granted = outcome.requests.iter().zip(requests);
    let reserved = granted.filter_map(|(start, request)| Some((*start)? + request.duration));
    jobs.chain(reserved).max().unwrap_or_default()
}
