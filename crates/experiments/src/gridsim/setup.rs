//! The set-up of the paper (Table 1 and Section 5.1) and, in [`Choices`], everything that the paper leaves open.
//! [`CHOICES`] were made before the first run and never changed; [`ALTERNATIVES`] show the effect of other choices.
//!
//! Jobs are drawn from a seed. Each property has its own random stream, so that runs with more or fewer reservations
//! have the same jobs, and the jobs reserved at 10% are a subset of those at 20%.

use super::model::{Work, Zone};
use bookahead_plan::{Seconds, Time};
use bookahead_workload::streams::Stream;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Site {
    pub(super) name: &'static str,
    /// The SPEC rating of its CPUs, taken as MIPS.
    pub(super) mips: u32,
    pub(super) cpus: u32,
    /// Hours ahead of UTC, including daylight saving time.
    pub(super) zone: i64,
}

/// Table 1. The text once mentions four resources; the table and the list of the set-up have five.
pub(super) const SITES: [Site; 5] = [
    Site { name: "R0", mips: 515, cpus: 4, zone: 10 },
    Site { name: "R1", mips: 684, cpus: 13, zone: 10 },
    Site { name: "R2", mips: 410, cpus: 16, zone: 2 },
    Site { name: "R3", mips: 410, cpus: 6, zone: 2 },
    Site { name: "R4", mips: 377, cpus: 8, zone: -5 },
];

/// The smallest and the largest job, in million instructions.
pub(super) const SIZES: (i64, i64) = (500_000, 8_000_000);
/// CPUs of a parallel job (Section 5.2.5).
pub(super) const PARALLEL: u32 = 4;

/// Parameters of the experiment, including those that the paper does not state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choices {
    /// 50 in the paper.
    pub(super) users: usize,
    /// Jobs per user: 100 in the paper.
    pub(super) jobs_each: usize,
    /// Jobs per hour of all users together: 300 (5 per minute) in the paper. The submissions of each user are a Poisson
    /// process. The paper also states a last arrival at 500 minutes, but 5,000 jobs at this rate take 1,000 minutes.
    pub(super) per_hour: u32,
    /// Maximum time from submission to the requested start of an advance reservation, uniformly distributed.
    pub(super) look_ahead: Seconds,
    /// Maximum number of retries after a rejection, at once and at the same resource, with a start that is later by the
    /// hint. Then the job joins the queue.
    pub(super) retries: u32,
    /// Unit of the hints, which are 5 to 45 of it.
    pub(super) hint_unit: Seconds,
    /// Slot of a restartable job, in percent of its run time: underestimated.
    pub(super) under: i64,
    /// Slot of a non-restartable job, in percent of its run time: overestimated.
    pub(super) over: i64,
    /// Whether all parts of a parallel job have the same size; otherwise each has its own, like jobs.
    pub(super) equal_parts: bool,
}

impl Choices {
    /// Arriving work divided by the work that the five resources can process in the same time.
    pub(super) fn overload(&self) -> f64 {
        let mean_size = (SIZES.0 + SIZES.1) as f64 / 2.0;
        let speed: u32 = SITES.iter().map(|site| site.mips * site.cpus).sum();
        f64::from(self.per_hour) * mean_size / 3600.0 / f64::from(speed)
    }
}

/// The choices behind the figures of the page.
pub(super) const CHOICES: Choices = Choices {
    users: 50,
    jobs_each: 100,
    per_hour: 300,
    look_ahead: Seconds(2 * 3600),
    retries: 5,
    hint_unit: Seconds(60),
    under: 80,
    over: 125,
    equal_parts: false,
};

/// Maximum delay of a start by retries: every hint is the longest.
pub(super) const HINT_LIMIT: Seconds = Seconds(CHOICES.retries as i64 * 45 * CHOICES.hint_unit.0);

/// Other choices, each with one change, to show their effect. The lighter load of 15 jobs an hour was added after the
/// first run, to check whether the overload explains the differences; the others were there before.
pub(super) const ALTERNATIVES: [(&str, Choices); 8] = [
    ("booked up to 12 hours ahead", Choices { look_ahead: Seconds(12 * 3600), ..CHOICES }),
    ("no retry", Choices { retries: 0, ..CHOICES }),
    ("20 retries", Choices { retries: 20, ..CHOICES }),
    ("hints in hours", Choices { hint_unit: Seconds(3600), ..CHOICES }),
    ("slots of 50 and 200% of the run time", Choices { under: 50, over: 200, ..CHOICES }),
    ("10 jobs a minute: last arrival at 500 minutes", Choices { per_hour: 600, ..CHOICES }),
    ("15 jobs an hour: within the capacity of the resources", Choices { per_hour: 15, ..CHOICES }),
    ("parts of a parallel job of one size", Choices { equal_parts: true, ..CHOICES }),
];

/// Numbers from the text of the paper; none was read off its charts.
pub(super) mod published {
    use crate::check::{Printed, printed};

    /// Section 5.2.1: growth of the waiting time with 10% reservations, in percent.
    pub(in super::super) const WAITING_10: Printed = printed(20.0, 1.0);
    /// The same with 20%.
    pub(in super::super) const WAITING_20: Printed = printed(71.0, 1.0);
    /// Section 5.2.2: mean offset with 10% reservations, in minutes.
    pub(in super::super) const OFFSET_10: Printed = printed(48.0, 1.0);
    /// The same with 20%.
    pub(in super::super) const OFFSET_20: Printed = printed(62.0, 1.0);
    /// How much larger the second is than the first, in percent.
    pub(in super::super) const OFFSET_GROWTH: Printed = printed(29.0, 1.0);
    /// Section 5.2.3: range of utilisation with reservations, in percent.
    pub(in super::super) const UTILISATION: (Printed, Printed) = (printed(60.0, 1.0), printed(80.0, 1.0));
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Drawn {
    pub(super) submit: Time,
    /// Index of its resource in [`SITES`].
    pub(super) site: usize,
    /// Time zone of its user, which is that of one of the resources.
    pub(super) zone: Zone,
    /// Sizes of its parts; a job that is not parallel uses only the first.
    pub(super) parts: [Work; PARALLEL as usize],
    /// Uniform in 0 to 100: it is a reservation if this is below the share.
    pub(super) rank: f64,
    /// Time from submission to the requested start.
    pub(super) ahead: Seconds,
}

/// All jobs in the order of submission; ties by user.
pub(super) fn draw(choices: &Choices, seed: u64) -> Vec<Drawn> {
    let mut jobs: Vec<Drawn> = (0..choices.users).flat_map(|user| draw_user(choices, seed, user)).collect();
    // The sort must be stable: it keeps jobs of one second in the order of their users.
    jobs.sort_by_key(|job| job.submit);
    jobs
}

fn draw_user(choices: &Choices, seed: u64, user: usize) -> impl Iterator<Item = Drawn> {
    // One stream per property and user: a changed choice, such as the load, leaves all other draws as they
    // are.
    let stream = |what: &str| Stream::new(seed, &format!("gridsim/{what}/{user}"));
    let [mut gaps, mut sites, mut sizes, mut ranks, mut aheads] =
        ["gaps", "sites", "sizes", "ranks", "aheads"].map(stream);
    let mean_gap = 3600.0 * choices.users as f64 / f64::from(choices.per_hour.max(1));
    let zone = Zone::hours(SITES[user % SITES.len()].zone);
    let equal_parts = choices.equal_parts;
    let look_ahead = choices.look_ahead.0;
    let mut clock = 0.0;
    (0..choices.jobs_each).map(move |_| {
        clock += gaps.exponential(mean_gap);
        let mut parts = [Work::NONE; PARALLEL as usize];
        // All sizes are drawn even if only one is used, so that single and parallel runs have the same jobs.
        for part in &mut parts {
            *part = Work(sizes.whole(SIZES.0, SIZES.1).cast_unsigned());
        }
        if equal_parts {
            parts = [parts[0]; PARALLEL as usize];
        }
        Drawn {
            submit: Time(clock as i64),
            site: sites.whole(0, SITES.len() as i64 - 1) as usize,
            zone,
            parts,
            rank: ranks.uniform(0.0, 100.0),
            ahead: Seconds(aheads.whole(0, look_ahead)),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_come_at_the_paper_s_rate_in_its_sizes_to_all_resources_alike() {
        let jobs = draw(&CHOICES, 1);
        assert_eq!(jobs.len(), 5000);
        let last = jobs.last().unwrap().submit.0 / 60;
        assert!((900..1400).contains(&last), "the last comes after {last} minutes");
        let mean = jobs.iter().map(|job| job.parts[0].0 as f64).sum::<f64>() / 5000.0;
        assert!((mean / 4_250_000.0 - 1.0).abs() < 0.03, "{mean}");
        for site in 0..SITES.len() {
            let count = jobs.iter().filter(|job| job.site == site).count();
            assert!((850..1150).contains(&count), "{count}");
        }
        let reserved = jobs.iter().filter(|job| job.rank < 10.0).count();
        assert!((420..580).contains(&reserved), "{reserved}");
    }

    #[test]
    fn a_seed_gives_the_same_jobs_again_and_another_seed_others() {
        assert_eq!(draw(&CHOICES, 3), draw(&CHOICES, 3));
        assert_ne!(draw(&CHOICES, 3), draw(&CHOICES, 4));
    }
}
