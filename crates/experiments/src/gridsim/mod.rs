//! GridSim with advance reservation: five resources, 50 users with 100 jobs each, and what 10% or 20% of the jobs as
//! reservations do to waiting, offsets, utilisation, rejections and parallel jobs. It relies on [`model`] for the
//! resources; it never changes a choice to come closer to the paper.
//!
//! - [`setup`]: the paper's set-up, and what it leaves open
//! - [`workload`]: the jobs
//! - [`case`](mod@case): one run, from the users' side
//! - [`model`]: a grid resource
//! - [`measures`]: what a run is measured by
//! - [`results`]: all runs
//!
//! After A. Sulistio and R. Buyya, *A Grid simulation infrastructure supporting advance reservation* (2004).

pub mod case;
mod claims;
mod figures;
pub mod measures;
pub mod model;
mod page;
mod reasons;
pub mod results;
pub mod setup;
pub mod workload;

use crate::{Page, Progress, Scale};
use results::run_sets;
use setup::{ALTERNATIVES, CHOICES, Choices};

/// Jobs of each user in a quick run.
const QUICK_JOBS: usize = 20;

/// Runs the experiment. A quick one has 20 jobs for each user, and does without the other choices.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let jobs_each = if scale.quick { QUICK_JOBS } else { CHOICES.jobs_each };
    let mut sets = vec![Choices { jobs_each, ..CHOICES }];
    if !scale.quick {
        sets.extend(ALTERNATIVES.map(|(_, choices)| choices));
    }
    page::page(&sets[0], &run_sets(&sets, scale, progress))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(threads: usize) -> Page {
        run(&Scale { quick: true, seeds: 2, threads }, &|_, _| ())
    }

    #[test]
    fn the_page_is_the_same_on_any_number_of_threads() {
        assert_eq!(quick(1), quick(2));
    }

    #[test]
    fn every_claim_has_its_figures_and_a_reason_where_we_differ() {
        let page = quick(2);
        assert_eq!(page.claims().count(), 14);
        for claim in page.claims() {
            assert!(claim.id.starts_with("gridsim/"), "{}", claim.id);
            assert!(claim.measured.iter().all(|(_, estimate)| estimate.runs == 2), "{}", claim.id);
            assert_eq!(claim.reproduced, claim.why.is_empty(), "{}", claim.id);
        }
    }
}
