//! The shortest notice time for reservations, after J. Cao and F. Zimmermann, "Queue scheduling and advance
//! reservations with COSY", IPDPS 2004: a reservation is granted only if it is requested at least as long ahead as it
//! would wait in the queue, predicted by the mean wait so far. Uses [`bookahead_plan::notice`]; nothing is tuned to
//! match.
//!
//! Our copy has only the first page of the paper, so the details of the experiment are our choice; every choice is
//! stated on the page.

mod claims;
mod measures;
mod page;
mod site;

use crate::{Page, Progress, Scale};

/// Runs the experiment. A quick run has fewer jobs.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    page::page(scale, &measures::run(scale, progress)).judged_at(scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quick(threads: usize) -> Page {
        run(&Scale { quick: true, first_seed: 1, seeds: 2, threads }, &|_, _| {})
    }

    #[test]
    fn a_page_is_the_same_on_one_thread_and_on_two() {
        assert_eq!(quick(1), quick(2));
    }

    #[test]
    fn every_claim_has_figures_and_every_row_of_a_table_its_cells() {
        let page = quick(2);
        assert!(page.claims().all(|claim| claim.id.starts_with("cosy/") && !claim.measured.is_empty()));
        assert_eq!(page.claims().count(), 3);
        for section in &page.sections {
            if let crate::Section::Table(table) = section {
                assert!(table.rows.iter().all(|row| row.len() == table.head.len()), "{}", table.file);
            }
        }
    }
}
