//! A site from its configuration.

use super::batch::{Driven, driven};
use super::front::{Common, start, state_folder};
use super::resources::{idle, scheduler};
use super::{DaemonError, JOURNAL, Running};
use crate::config::SiteConfig;
use crate::keeper::Keeping;
use crate::site::{Found, Site};
use bookahead_lrms::Lrms;
use std::path::Path;
use tokio::task::JoinSet;

/// Starts a site. `base` is the folder that its paths begin at. `found` is what becomes of what its batch system keeps for
/// it while its book is new.
pub async fn site(config: &SiteConfig, base: &Path, found: Found) -> Result<Running, DaemonError> {
    config.check()?;
    let front = Common::from(config).listen(base).await?;
    let state = config.state(base);
    state_folder(&state)?;
    let clock = config.clock.clock();
    let (lrms, commands): (Box<dyn Lrms>, _) = match &config.batch {
        None => (Box::new(scheduler(config, base, &state, clock.now())?), None),
        Some(batch) => {
            let Driven { batch, runner } = driven(config, batch, base, &state).await?;
            (Box::new(batch), Some(runner))
        }
    };
    let site = Site::new(config.rules()?, front.about.clone(), lrms)?;
    let site = match &config.batch {
        None => site,
        Some(batch) => site.finding(found).looking_every(batch.look_every.0),
    };
    let keeping = Keeping::new(config.name.as_str().into(), state.join(JOURNAL), clock);
    let keeper = start(keeping, move |_| site).await?;
    Ok(front.open(keeper, JoinSet::new(), commands))
}

/// Whether a site could start with this configuration: files that it names are read, and nothing is written or opened.
pub fn check_site(config: &SiteConfig, base: &Path) -> Result<(), DaemonError> {
    config.check()?;
    Common::from(config).check(base)?;
    let now = config.clock.clock().now();
    idle(config, now)?;
    for (at, resource) in config.resources.iter().enumerate() {
        if let Some(jobs) = &resource.jobs {
            let source = jobs.source(resource.capacity, now.second(), base);
            source.map_err(|wrong| wrong.within("jobs").within(at).within("resource"))?;
        }
    }
    Ok(())
}
