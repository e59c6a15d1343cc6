//! Shortening the journal of a party that does not run: its events are folded by the party itself, since nobody else knows
//! what they mean, and a snapshot takes their place. The party is not woken, nothing starts and nobody is called.

use super::broker::register;
use super::resources::idle;
use super::{DaemonError, JOURNAL};
use crate::broker::{Broker, Courier};
use crate::config::{BrokerConfig, SiteConfig};
use crate::journal::JournalError;
use crate::keeper::{KeeperError, Keeping};
use crate::site::Site;
use bookahead_api as api;
use bookahead_client::Options;
use std::path::{Path, PathBuf};
use tokio::runtime::Handle;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// The journal.
    pub journal: PathBuf,
    /// A snapshot stands for all records up to this one.
    pub up_to: u64,
    /// So many records were dropped.
    pub dropped: u64,
}

/// Shortens the journal of a site. Fails where the site runs.
pub fn compact_site(config: &SiteConfig, base: &Path) -> Result<Compacted, DaemonError> {
    config.check()?;
    let journal = existing(config.state(base).join(JOURNAL))?;
    let clock = config.clock.clock();
    let about = about(&config.name, api::Role::Site);
    let site = Site::new(config.rules()?, about, Box::new(idle(config, clock.now())?))?;
    let keeping = Keeping::new(config.name.as_str().into(), journal.clone(), clock);
    let (up_to, dropped) = keeping.compact(|_| site)?;
    Ok(Compacted { journal, up_to, dropped })
}

/// Shortens the journal of a broker. Fails where the broker runs. Nothing is sent, but a runtime must be there.
pub fn compact_broker(
    config: &BrokerConfig,
    base: &Path,
    runtime: &Handle,
) -> Result<Compacted, DaemonError> {
    config.check()?;
    let journal = existing(config.state(base).join(JOURNAL))?;
    let about = about(&config.name, api::Role::Broker);
    let keeping = Keeping::new(config.name.as_str().into(), journal.clone(), config.clock.clock());
    let (up_to, dropped) = keeping.compact(|door| {
        let courier = Courier::new(runtime.clone(), door.clone(), Options::default(), "".into());
        // The number makes identities, and none is made here.
        Broker::new(config.rules(0), config.job_rules(), about, register(config), courier)
    })?;
    Ok(Compacted { journal, up_to, dropped })
}

/// A journal that is there: opening one makes it.
fn existing(path: PathBuf) -> Result<PathBuf, DaemonError> {
    if path.exists() {
        return Ok(path);
    }
    Err(KeeperError::from(JournalError::Missing { path }).into())
}

fn about(name: &str, role: api::Role) -> api::Site {
    api::Site {
        name: name.into(),
        url: String::new(),
        role,
        resources: Vec::new(),
        attributes: Default::default(),
        loads: Vec::new(),
        last_heard: None,
        round_trip_ms: None,
        state: api::Reachability::Up,
        version: None,
    }
}
