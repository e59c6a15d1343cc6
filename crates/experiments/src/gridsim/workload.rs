//! The jobs of the experiment, drawn from a seed. Every property has its own stream, so that runs with more or fewer
//! reservations have the same jobs, and those reserved with 10% are among those with 20%.

use super::model::{Work, Zone};
use super::setup::{Choices, PARALLEL, SITES, SIZES};
use bookahead_plan::{Seconds, Time};
use bookahead_workload::streams::Stream;

/// A job as its user sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawn {
    /// When it is submitted.
    pub submit: Time,
    /// The place of its resource in [`SITES`].
    pub site: usize,
    /// Where its user is: at one of the resources.
    pub zone: Zone,
    /// The sizes of its parts; a job that is not parallel has only the first.
    pub parts: [Work; PARALLEL as usize],
    /// It is a reservation where this, from 0 to 100, is below the share.
    pub rank: f64,
    /// How long after its submission it would be wanted.
    pub ahead: Seconds,
}

/// All jobs in the order of submission, of equals by user.
pub fn draw(choices: &Choices, seed: u64) -> Vec<Drawn> {
    let mut jobs: Vec<Drawn> = (0..choices.users).flat_map(|user| draw_user(choices, seed, user)).collect();
    jobs.sort_by_key(|job| job.submit);
    jobs
}

fn draw_user(choices: &Choices, seed: u64, user: usize) -> impl Iterator<Item = Drawn> {
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
    use crate::gridsim::setup::CHOICES;

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
