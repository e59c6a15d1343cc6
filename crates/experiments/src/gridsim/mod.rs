//! GridSim with advance reservation: five resources, 50 users with 100 jobs each, and the effect of 10% or 20%
//! reservations on waiting times, offsets, utilisation, rejections and parallel jobs. The resources are those of
//! [`model`]. No choice was changed to come closer to the paper.
//!
//! After A. Sulistio and R. Buyya, *A Grid simulation infrastructure supporting advance reservation* (2004).

#[cfg(test)]
mod borders;
mod case;
mod claims;
mod figures;
pub mod model;
mod results;
mod setup;

use crate::claim::judge;
use crate::{Page, Progress, Scale, Section};
use results::{Results, run_sets};
use setup::{
    AGREED_PER_HOUR, ALTERNATIVES, CHOICES, Choices, HINT_LIMIT, SITES, Site, last_arrivals, load_sets,
};

/// Jobs per user in a quick run.
const QUICK_JOBS: usize = 20;

/// Runs the experiment. A quick run has 20 jobs per user and no alternative choices.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let jobs_each = if scale.quick { QUICK_JOBS } else { CHOICES.jobs_each };
    let mut sets = vec![Choices { jobs_each, ..CHOICES }];
    if !scale.quick {
        // In this order and after ours: claims and tables find the results of an alternative by its index.
        sets.extend(ALTERNATIVES.map(|(_, choices)| choices).into_iter().chain(load_sets()));
    }
    page(&sets[0], &run_sets(&sets, scale, progress)).judged_at(scale)
}

/// Builds the sections for one of the paper's figures.
type Part = fn(&Results) -> Vec<Section>;

/// `results` has the runs with `set` first, then those with [`ALTERNATIVES`] and [`load_sets`], in their order.
fn page(set: &Choices, results: &[Results]) -> Page {
    let mut sections = vec![Section::text(what_was_run(set)), resources()];
    sections.push(Section::heading("Choices that the paper leaves open"));
    sections.extend(what_we_chose(set).map(Section::text));
    if let Some(ours) = results.first() {
        sections.push(Section::heading("Claims of the paper and our results"));
        sections.push(Section::Claims(judge(&claims::CLAIMS, results)));
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
    if let [ours, others @ ..] = results
        && let Some((alternatives, loads)) = others.split_at_checked(ALTERNATIVES.len())
    {
        sections.push(Section::heading("Algorithm 1 as printed"));
        sections.push(Section::text(AS_PRINTED));
        sections.extend(figures::as_printed(ours, &alternatives[0]));
        sections.push(Section::heading("Loads"));
        sections.push(Section::text(load_text(loads)));
        sections.extend(figures::loads(loads));
        sections.push(Section::heading("Other choices"));
        sections.push(Section::text(OTHER_CHOICES));
        sections.push(figures::choices(results));
    }
    Page { id: "gridsim", title: "GridSim with advance reservation".into(), sections }
}

fn what_was_run(set: &Choices) -> String {
    format!(
        "Five resources and {} users with {} jobs each, from 500,000 to 8,000,000 million instructions, {} jobs per hour of \
         all users together, each sent to a random resource. None, 10% or 20% of the jobs are reservations. A resource \
         serves its queue first come, first served, without backfilling; a job from the queue starts only if it ends \
         before the CPUs are reserved. The printed set-up has {:.1} times as much work as the resources can process, so \
         that queues grow until the last arrival and take days to drain. Numbers of the paper are from its text; none was \
         read off its charts.",
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

/// What the two sentences of the paper on arrivals give, measured on the jobs of the first seed.
fn arrivals() -> String {
    let last = |per_hour: u32| {
        let last = last_arrivals(&Choices { per_hour, ..CHOICES }, 1);
        last.iter().map(|at| at.0 as f64 / 60.0).sum::<f64>() / last.len() as f64
    };
    format!(
        "Arrivals: the paper states that the average for all users is 5 jobs per time unit, a minute, and that the maximum \
         arrival time is 500 minutes. With 5,000 jobs the two contradict each other if 5 is the number of jobs per minute: \
         the last job of a user then arrives after {:.0} minutes, on average over our 50 users. They agree if 5 is the mean \
         gap of each user in minutes: the last job of a user then arrives after {:.0} minutes. The figures keep the first \
         reading, which we chose before the first run; the tables of loads and of other choices have the second, with \
         {AGREED_PER_HOUR} jobs per hour. It makes the overload twice as large.",
        last(CHOICES.per_hour),
        last(AGREED_PER_HOUR),
    )
}

fn what_we_chose(set: &Choices) -> [String; 7] {
    [
        format!(
            "Requested start: uniform from the submission of an advance reservation to {} minutes later. In Figure 8, 0% \
             stands for immediate reservations; there the reserved jobs of the 10% and 20% runs request their submission \
             time.",
            set.look_ahead.0 / 60
        ),
        arrivals(),
        "Admission: a request is granted if running jobs and other reservations leave room, whatever waits in the queue. \
         Algorithm 1 of the paper, as printed, looks at reservations only and does not state what happens to a job that is \
         running at the start; we do not stop it. The section on Algorithm 1 shows both. Job sizes are exact; durations of \
         reservations are estimates of the user."
            .to_owned(),
        format!(
            "After a rejection the user retries at once, at the same resource, with a start that is later by the hint (5, \
             10, 15, 30 or 45 minutes), at most {} times, so that no start moves by more than {} minutes; then the job \
             joins the queue. Every rejected request counts as a rejection.",
            set.retries,
            HINT_LIMIT.0 / 60
        ),
        format!(
            "Durations: {}% of the run time for restartable jobs, {}% for the others. The rest of a restartable job joins \
             the end of the queue at the end of its slot. A slot lasts to its end, even if its job ends earlier. The claims \
             on Figures 7 and 8 are about restartable jobs.",
            set.under, set.over
        ),
        "Utilisation is measured while jobs arrive, because there are no reservations afterwards; a second table measures \
         it to the end. The wait is from submission to first start, of jobs without a reservation, including those that \
         failed to get one."
            .to_owned(),
        "A parallel job has four parts for one CPU each, each with its own random size. It succeeds if all parts start in \
         the same second and run to their end. Without a reservation the parts are adjacent in the queue; with one they \
         share a slot of the overestimated duration of the longest part. With 10% and 20%, success is measured among the \
         jobs that request a reservation, granted or not."
            .to_owned(),
    ]
}

const AS_PRINTED: &str = "Algorithm 1 compares a request only with the list of reservations. So it also grants slots that running \
    jobs need. A scheduler starts the job at the requested start time, as the paper says, so a job from the queue that is \
    in the way is paused: the last started first, to continue at the front of the queue. All else is as in our runs. The \
    table shows both beside the paper. This was added after the first runs.";

/// How many of the printed numbers the loads fit, and what each fit costs.
fn load_text(loads: &[Results]) -> String {
    let fits = figures::Fits::of(loads);
    let (most, all) = (fits.most, figures::PRINTED);
    let none =
        if most < all { "No load that we tried fits all of them" } else { "Some load fits all of them" };
    let late = fits.latest.map_or_else(String::new, |latest| {
        format!(
            " At the loads with a utilisation in the paper's range, reservations are late by at most {latest:.0} minutes."
        )
    });
    let busy = fits.idlest.map_or_else(String::new, |idlest| {
        format!(" At the loads with one of its offsets, {idlest:.0}% of the CPU time or more is used.")
    });
    format!(
        "The text of the paper prints {all} numbers: the growth of the wait with 10 and 20% reservations, the offsets with both, \
         and the range of the utilisation with both. {none}: the best fits {most}, by the rule for all claims.{late}{busy} \
         The loads were chosen after the first runs."
    )
}

const OTHER_CHOICES: &str = "The same experiment with one choice changed at a time. A result that is the same in every row \
    does not depend on the choices; the sizes of growth, offset and utilisation do. The rows with 15 jobs an hour and with \
    Algorithm 1 as printed were added after the first run, to show their effect.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;

    fn quick(threads: usize) -> Page {
        run(&Scale { quick: true, first_seed: 1, seeds: 2, threads }, &|_, _| ())
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
            assert_eq!(claim.verdict, Verdict::NotJudged, "{}: the run is too small", claim.id);
        }
    }
}
