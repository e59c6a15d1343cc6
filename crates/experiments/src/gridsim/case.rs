//! One run of the experiment, from the side of the users: they submit jobs, request reservations, follow the hints of
//! the resource, and give up. They see only the answers of a resource and their jobs, never its state.

use super::model::{Booked, Job, JobId, Rating, Refusal, Request, Resource, Rules, Start, Stopped, Work};
use super::results::{Measures, Sum};
use super::setup::{Choices, Drawn, PARALLEL, SITES, Site};
use bookahead_plan::{Seconds, Time};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Case {
    /// Percent of the jobs that are reservations.
    pub(super) share: u32,
    /// What happens to reserved jobs at the end of their slot. The slots of restartable jobs are too short, those of
    /// the others too long.
    pub(super) stopped: Stopped,
    /// Whether reservations start at once instead of ahead.
    pub(super) immediate: bool,
    /// Whether every job has four parts.
    pub(super) parallel: bool,
}

impl Case {
    /// Single jobs, advance reservations.
    pub(super) const fn advance(share: u32, stopped: Stopped) -> Case {
        Case { share, stopped, immediate: false, parallel: false }
    }

    /// Single restartable jobs, immediate reservations.
    pub(super) const fn immediate(share: u32) -> Case {
        Case { share, stopped: Stopped::Queue, immediate: true, parallel: false }
    }

    /// Parallel jobs. They cannot be restarted, because their parts would not continue together.
    pub(super) const fn parallel(share: u32) -> Case {
        Case { share, stopped: Stopped::Return, immediate: false, parallel: true }
    }

    fn width(self) -> usize {
        if self.parallel { PARALLEL as usize } else { 1 }
    }
}

/// The outcome of a job's request.
pub(super) struct Placed<'a> {
    pub(super) job: &'a Drawn,
    /// Job numbers of its parts.
    pub(super) parts: std::ops::Range<usize>,
    /// Whether it requested a reservation.
    pub(super) wanted: bool,
    /// Delay of the reservation against the requested start; None without a reservation.
    pub(super) offset: Option<Seconds>,
}

/// Runs all jobs of a workload and returns the measures of each resource.
pub(super) fn run(case: Case, choices: &Choices, jobs: &[Drawn]) -> Vec<Measures> {
    // One end for all resources, so that their utilisations cover the same time.
    let arrivals_end = jobs.last().map_or(Time(0), |job| job.submit);
    let run_site = |(at, site): (usize, &Site)| {
        let here: Vec<&Drawn> = jobs.iter().filter(|job| job.site == at).collect();
        run_resource(case, choices, site, &here, arrivals_end)
    };
    SITES.iter().enumerate().map(run_site).collect()
}

fn run_resource(case: Case, choices: &Choices, site: &Site, jobs: &[&Drawn], arrivals_end: Time) -> Measures {
    let rules = Rules { hint_unit: choices.hint_unit, counted: choices.counted, ..Rules::default() };
    let ratings = vec![Rating(site.mips); site.cpus as usize];
    let Some(mut resource) = Resource::new(ratings, rules, Time(0)) else { return Measures::default() };
    let mut rejections = Sum::default();
    let mut placed = Vec::with_capacity(jobs.len());
    for (at, &job) in jobs.iter().enumerate() {
        let parts = at * case.width()..(at + 1) * case.width();
        let tasks: Vec<Job> = parts
            .clone()
            .zip(job.parts)
            .map(|(id, work)| Job { id: JobId(id as u32), work, stopped: case.stopped })
            .collect();
        // A job that requests a reservation at 10% also does at 20%: runs differ only in the added ones.
        let wanted = job.rank < f64::from(case.share);
        let booked =
            if wanted { ask(&mut resource, case, choices, site, job, &mut rejections) } else { None };
        let offset = booked.map(|(_, offset)| offset);
        match booked {
            // Cannot fail: it was accepted at this instant and so has not expired.
            Some((booked, _)) => {
                let _ = resource.commit(job.submit, booked.id, tasks);
            }
            None => tasks.into_iter().for_each(|task| resource.submit(job.submit, task)),
        }
        placed.push(Placed { job, parts, wanted, offset });
    }
    resource.finish();
    Measures::of(&resource, &placed, rejections, arrivals_end)
}

/// Requests a reservation, with retries by the hints. Returns the booking and its delay against the requested start.
fn ask(
    resource: &mut Resource,
    case: Case,
    choices: &Choices,
    site: &Site,
    job: &Drawn,
    rejections: &mut Sum,
) -> Option<(Booked, Seconds)> {
    let wanted = if case.immediate { job.submit } else { job.submit + job.ahead };
    let duration = slot_length(case, choices, site, job);
    let cpus = case.width() as u32;
    let mut start = wanted;
    let mut refused = 0;
    let mut answer = None;
    for _ in 0..=choices.retries {
        // Only the first attempt is immediate: a retry has a later start.
        let at_once = case.immediate && start == wanted;
        let start_shown = if at_once { Start::Now } else { Start::At(job.zone.local(start)) };
        let request = Request { zone: job.zone, start: start_shown, duration, cpus };
        match resource.create(job.submit, &request) {
            Ok(booked) => {
                answer = Some((booked, booked.slot.begin - wanted));
                break;
            }
            Err(Refusal::Busy { hint }) => {
                refused += 1;
                start = start + hint;
            }
            // Cannot happen: every resource has at least the four CPUs of a parallel job, and no start is in
            // the past.
            Err(_) => break,
        }
    }
    rejections.add(refused);
    answer
}

/// The slot length that a user requests: an estimate of the run time of the longest part.
fn slot_length(case: Case, choices: &Choices, site: &Site, job: &Drawn) -> Seconds {
    let longest = job.parts[..case.width()].iter().copied().max().unwrap_or(Work::NONE);
    let percent = match case.stopped {
        Stopped::Queue => choices.under,
        Stopped::Return => choices.over,
    };
    let run = longest.run_time(Rating(site.mips)).0;
    Seconds((run * percent).unsigned_abs().div_ceil(100).cast_signed().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gridsim::model::Zone;
    use crate::gridsim::results::{CASES, RESTARTABLE};
    use crate::gridsim::setup::{ADMISSIONS, CHOICES, HINT_LIMIT, draw};

    const FEW: Choices = Choices { jobs_each: 10, ..CHOICES };

    #[test]
    fn every_job_waits_in_the_queue_or_has_a_reservation_within_the_hints() {
        let jobs = draw(&FEW, 1);
        for case in CASES {
            let total = Measures::total(&run(case, &FEW, &jobs));
            let width = case.width() as i64;
            assert_eq!(total.success.count, 500, "{case:?}");
            assert_eq!(total.waits.count + width * total.offsets.count, width * 500, "{case:?}");
            assert!(total.offsets.total <= total.offsets.count * HINT_LIMIT.0, "{case:?}");
            assert!(total.whole.total <= total.whole.count && total.arrivals.total <= total.arrivals.count);
        }
    }

    #[test]
    fn as_printed_more_is_granted_and_jobs_are_paused() {
        let jobs = draw(&FEW, 1);
        let total = |counted, case| Measures::total(&run(case, &Choices { counted, ..FEW }, &jobs));
        for case in CASES.into_iter().filter(|case| case.share > 0 && !case.parallel) {
            let [ours, printed] = ADMISSIONS.map(|counted| total(counted, case));
            assert!(printed.offsets.count > ours.offsets.count, "{case:?}");
            assert!(printed.rejections.total < ours.rejections.total, "{case:?}");
            assert!(ours.paused.total == 0 && printed.paused.total > 0, "{case:?}");
        }
        assert_eq!(total(ADMISSIONS[0], CASES[0]), total(ADMISSIONS[1], CASES[0]), "without reservations");
    }

    #[test]
    fn where_a_user_lives_changes_nothing() {
        let jobs = draw(&FEW, 1);
        let moved: Vec<Drawn> = jobs.iter().map(|job| Drawn { zone: Zone::hours(-9), ..*job }).collect();
        let case = Case::advance(20, RESTARTABLE);
        assert_eq!(run(case, &FEW, &jobs), run(case, &FEW, &moved));
    }
}
