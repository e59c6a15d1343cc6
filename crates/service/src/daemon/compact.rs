//! Shortening the journal of a party that does not run: its events are folded by the party itself, since nobody else knows
//! what they mean, and a snapshot takes their place. The party is not started, and nobody is called.

use super::broker::broker_value;
use super::front::nothing_said;
use super::{DaemonError, JOURNAL};
use crate::config::{BrokerConfig, SiteConfig};
use crate::journal::JournalError;
use crate::thread::{PartyError, PartyOptions};
use bookahead_party::Role;
use bookahead_party::site::{Site, SiteOptions};
use std::path::{Path, PathBuf};

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
    let about = nothing_said(&config.name, Role::Site);
    let site = Site::new(config.rules()?, about, SiteOptions::default())?;
    let options = PartyOptions::new(config.name.as_str().into(), journal.clone(), config.clock.clock());
    let (up_to, dropped) = options.compact(site)?;
    Ok(Compacted { journal, up_to, dropped })
}

/// Shortens the journal of a broker. Fails where the broker runs.
pub fn compact_broker(config: &BrokerConfig, base: &Path) -> Result<Compacted, DaemonError> {
    config.check()?;
    let journal = existing(config.state(base).join(JOURNAL))?;
    let about = nothing_said(&config.name, Role::Broker);
    // The number makes identities, and none is made here.
    let broker = broker_value(config, about, 0, "".into());
    let options = PartyOptions::new(config.name.as_str().into(), journal.clone(), config.clock.clock());
    let (up_to, dropped) = options.compact(broker)?;
    Ok(Compacted { journal, up_to, dropped })
}

/// A journal that is there: opening one makes it.
fn existing(path: PathBuf) -> Result<PathBuf, DaemonError> {
    if path.exists() {
        return Ok(path);
    }
    Err(PartyError::from(JournalError::Missing { path }).into())
}
