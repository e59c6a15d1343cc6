//! GridSim with advance reservation: five resources, 50 users with 100 jobs each, and what 10% or 20% of the jobs as
//! reservations do to waiting, offsets, utilisation, rejections and parallel jobs. It relies on [`model`] for the
//! resources; it never changes a choice to come closer to the paper.
//!
//! After A. Sulistio and R. Buyya, *A Grid simulation infrastructure supporting advance reservation* (2004).

mod case;
mod claims;
mod figures;
pub mod model;
mod results;
mod setup;

use crate::{Page, Progress, Scale, Section};
use results::{Results, run_sets};
use setup::{ALTERNATIVES, CHOICES, Choices, HINT_LIMIT, SITES, Site};

/// Jobs of each user in a quick run.
const QUICK_JOBS: usize = 20;

/// Runs the experiment. A quick one has 20 jobs for each user, and does without the other choices.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let jobs_each = if scale.quick { QUICK_JOBS } else { CHOICES.jobs_each };
    let mut sets = vec![Choices { jobs_each, ..CHOICES }];
    if !scale.quick {
        sets.extend(ALTERNATIVES.map(|(_, choices)| choices));
    }
    page(&sets[0], &run_sets(&sets, scale, progress))
}

/// The part of the page for one of the paper's figures.
type Part = fn(&Results) -> Vec<Section>;

/// Of the runs under `set`, and, in their order, those under other choices.
fn page(set: &Choices, results: &[Results]) -> Page {
    let mut sections = vec![Section::text(what_was_run(set)), resources()];
    sections.push(Section::heading("What the paper leaves open"));
    sections.extend(what_we_chose(set).map(Section::text));
    if let Some(ours) = results.first() {
        sections.push(Section::heading("What the paper says beside ours"));
        sections.push(Section::Claims(claims::claims(results)));
        let parts: [(&str, Part); 5] = [
            ("Figure 7: mean waiting time", figures::waiting),
            ("Figure 8: mean offset", figures::offsets),
            ("Figure 9: utilisation", figures::utilisations),
            ("Figure 10: rejections", figures::rejected),
            ("Figure 11: parallel jobs", figures::parallel),
        ];
        for (title, part) in parts {
            sections.push(Section::heading(title));
            sections.extend(part(ours));
        }
    }
    if results.len() > 1 {
        sections.push(Section::heading("Other choices"));
        sections.push(Section::text(OTHER_CHOICES));
        sections.push(figures::choices(results));
    }
    Page { id: "gridsim", title: "GridSim with advance reservation".into(), sections }
}

fn what_was_run(set: &Choices) -> String {
    format!(
        "Five resources and {} users with {} jobs each, from 500,000 to 8,000,000 million instructions, {} an hour of all \
         users together, each sent to any of the resources alike. None, 10% or 20% of the jobs are reservations. A \
         resource serves its queue first come, first served, without backfilling; a job from the queue starts only if \
         it ends before the CPUs are promised to a reservation. The printed set-up brings {:.1} times as much work as the \
         resources can do in the same time, so that queues grow until the last arrival and are drained for days. Numbers \
         of the paper are those of its text; nothing was read off its charts.",
        set.users,
        set.jobs_each,
        set.per_hour,
        set.overload()
    )
}

fn resources() -> Section {
    let row = |site: &Site| {
        vec![site.name.to_owned(), site.mips.to_string(), site.cpus.to_string(), format!("{:+}", site.zone)]
    };
    let head = ["resource", "MIPS", "CPUs", "hours from Greenwich"];
    Section::table("gridsim-table1-resources.csv", "Table 1: the resources", head, SITES.iter().map(row))
}

fn what_we_chose(set: &Choices) -> [String; 6] {
    [
        format!(
            "When reservations are wanted: an advance reservation any second from its submission to {} minutes later. In \
             Figure 8, 0% stands for immediate reservations; we let the jobs of the 10% and of the 20% runs ask for the \
             moment of their submission. The paper gives 5 arrivals a minute and a last arrival at 500 minutes, which \
             5,000 jobs cannot both meet; we keep the rate.",
            set.look_ahead.0 / 60
        ),
        "Room: a request is granted where running jobs and other reservations leave it, whoever waits in the queue. The \
         paper's Algorithm 1 looks at reservations only and does not say what becomes of a job that runs at the start; we do \
         not stop it. Sizes are exact, durations of reservations are what the user guesses."
            .to_owned(),
        format!(
            "After a rejection the user asks at once, at the same resource, for a start that is later by the hint (5, 10, \
             15, 30 or 45 minutes), {} times at most, so that no start moves by more than {} minutes; then the job joins \
             the queue. Every rejected request counts as a rejection.",
            set.retries,
            HINT_LIMIT.0 / 60
        ),
        format!(
            "Durations: {}% of the run time for restartable jobs, {}% for the others. What is left of a restartable job at \
             the end of its slot joins the end of the queue. A slot is kept to its end, also by a job that is done \
             earlier. The claims on Figures 7 and 8 are about restartable jobs.",
            set.under, set.over
        ),
        "Utilisation is counted while jobs arrive, since no reservations come afterwards; a second table counts it to the \
         end. Waiting is from the submission to the first start, of jobs that have no reservation, also of those that \
         gave up on one."
            .to_owned(),
        "A parallel job has four parts for one CPU each, every one with a size of its own, drawn like a job's. It runs as \
         wanted if all parts start at the same second and run to their end. Without a reservation the parts stand in the queue \
         one behind the other; with one they share a slot as long as the longest needs, overestimated. With 10% and 20%, \
         success is counted among the jobs that want a reservation, got or not."
            .to_owned(),
    ]
}

const OTHER_CHOICES: &str = "The same experiment with one choice changed at a time. What holds in every row does not depend \
    on it; the sizes of growth, offset and utilisation do. The row with 15 jobs an hour was added after the first run, to \
    see what the overload does.";

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
