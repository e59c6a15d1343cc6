//! Reserving several machines at once: what probing saves and costs a broker, and what the time-out of holds does to those
//! who mean it. It relies on [`bookahead_protocol`] for sites and brokers, which are the real ones; nothing is tuned to
//! match.
//!
//! After J. Schneider, J. Gehr, B. Linnert and T. Röblitz, "An efficient protocol for reserving multiple grid resources
//! in advance".

mod claims;
mod desk;
mod figures;
mod holds;
mod negotiations;
mod page;
mod results;
mod setup;
mod workload;

use crate::{Page, Progress, Scale};

/// Runs the experiment. A quick one has fewer requests, points and choices.
pub fn run(scale: &Scale, progress: Progress<'_>) -> Page {
    let extent = if scale.quick { setup::QUICK } else { setup::FULL };
    page::page(&results::run(extent, scale, progress))
}
