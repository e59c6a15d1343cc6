//! The batch system of a configured site: the built-in scheduler, with the local jobs that the configuration describes, or
//! with real programs.

use super::DaemonError;
use crate::config::{LocalJobs, Resource, SiteConfig};
use bookahead_lrms::builtin::sources::{Nothing, Source};
use bookahead_lrms::builtin::{Hosted, Processes};
use bookahead_lrms::{Builtin, LrmsError};
use bookahead_plan::{Capacity, Seconds};
use bookahead_protocol::Moment;
use std::path::Path;

/// The batch system as it runs jobs from now on; `state` is the folder for programs.
pub(super) fn scheduler(
    config: &SiteConfig,
    base: &Path,
    state: &Path,
    now: Moment,
) -> Result<Builtin, DaemonError> {
    let processes = config.jobs.processes.then(|| Processes::open(state)).transpose()?;
    // Local jobs come from an earlier moment on, so that the machines are not empty.
    let warm_ups = config.resources.iter().filter_map(|resource| resource.jobs.as_ref());
    let earliest = warm_ups.map(|jobs| jobs.warm_up.seconds()).max().unwrap_or(Seconds::ZERO);
    let start = Moment::of(now.second() - earliest);
    let hosted = config.resources.iter().enumerate().map(|(at, resource)| {
        let source = source(resource, base, now).map_err(|wrong| wrong.within(at).within("resource"))?;
        host(resource, source)
    });
    Ok(Builtin::new(hosted.collect::<Result<_, DaemonError>>()?, start.min(now), processes)?)
}

/// One that runs nothing, for whoever only wants to look into the book.
pub(super) fn idle(config: &SiteConfig, now: Moment) -> Result<Builtin, DaemonError> {
    let hosted = config.resources.iter().map(|resource| host(resource, Box::new(Nothing)));
    let hosted = hosted.collect::<Result<_, DaemonError>>()?;
    Builtin::new(hosted, now, None).map_err(|why: LrmsError| why.into())
}

fn host(resource: &Resource<LocalJobs>, source: Box<dyn Source>) -> Result<Hosted, DaemonError> {
    let name = resource.name.as_str().into();
    let (capacity, policy) = (Capacity(resource.capacity), resource.queue_policy()?);
    Ok(Hosted { name, capacity, policy, source })
}

fn source(
    resource: &Resource<LocalJobs>,
    base: &Path,
    now: Moment,
) -> Result<Box<dyn Source>, crate::config::Wrong> {
    let Some(jobs) = &resource.jobs else { return Ok(Box::new(Nothing)) };
    let start = now.second() - jobs.warm_up.seconds();
    jobs.source(resource.capacity, start, base).map_err(|wrong| wrong.within("jobs"))
}
