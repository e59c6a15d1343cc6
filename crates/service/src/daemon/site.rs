//! A site from its configuration.

use super::batch::{Driven, driven};
use super::front::{Common, Watched, start, state_folder};
use super::resources::{idle, scheduler};
use super::{DaemonError, JOURNAL, Running};
use crate::config::SiteConfig;
use crate::thread::{BatchSide, Liveness, Outlets, PartyHandle, PartyOptions, ReadKind};
use bookahead_lrms::worker::Worker;
use bookahead_party::queries::BatchState;
use bookahead_party::site::{OnLostJournal, Site, SiteOptions};
use bookahead_party::{BatchOrder, Input, Queries};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// A site says that it is ready after this time, whatever its batch system does: longer than the usual time-out of a command.
const FIRST_LOOK: Duration = Duration::from_secs(15);

/// Starts a site. `base` is the folder that its paths begin at. `on_lost_journal` is what becomes of what its batch system
/// keeps for it while its book is new.
pub async fn site(
    config: &SiteConfig,
    base: &Path,
    on_lost_journal: OnLostJournal,
) -> Result<Running, DaemonError> {
    config.check()?;
    let front = Common::from(config).listen(base).await?;
    let state = config.state(base);
    state_folder(&state)?;
    let options = PartyOptions::new(config.name.as_str().into(), state.join(JOURNAL), config.clock.clock());
    let (thread, watched) = match &config.batch {
        None => {
            let site = Site::new(config.rules()?, front.about.clone(), SiteOptions::default())?;
            let scheduler = scheduler(config, base, &state, options.clock.now())?;
            let batch = BatchSide::Inline(Box::new(scheduler));
            (start(options, site, move |_| Outlets::only(batch)).await?, Watched::default())
        }
        Some(batch) => {
            let (look_every, at_once) = (batch.look_every.0, batch.at_once);
            let site_options = SiteOptions { on_lost_journal: Some(on_lost_journal), look_every };
            let site = Site::new(config.rules()?, front.about.clone(), site_options)?;
            let Driven { batch, runner } = driven(config, batch, base, &state).await?;
            let connect = move |party: &PartyHandle| {
                let (party, clock) = (party.clone(), party.clock());
                let report = move |report| party.tell(Input::Batch(report));
                let worker = Worker::start(batch, at_once, Arc::new(move || clock.now()), Arc::new(report));
                let sink =
                    move |orders: Vec<BatchOrder>| orders.into_iter().for_each(|order| worker.order(order));
                Outlets::only(BatchSide::Worker(Box::new(sink)))
            };
            let watched = Watched { commands: Some(runner), look_every: Some(look_every) };
            let thread = start(options, site, connect).await?;
            first_look(thread.handle()).await;
            (thread, watched)
        }
    };
    Ok(front.open(thread, JoinSet::new(), watched))
}

/// Waits until the batch system was looked at, or is known not to answer: a site that says it is ready knows what is kept.
async fn first_look(party: &PartyHandle) {
    let begun = Instant::now();
    let unknown = |queries: &mut dyn Queries, now| {
        let health = queries.batch_health(now);
        health.is_some_and(|health| health.look_age.is_none() && health.state != BatchState::Silent)
    };
    while begun.elapsed() < FIRST_LOOK
        && party.liveness() == Liveness::Alive
        && party.read(ReadKind::Short, unknown)
    {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
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
