//! Compacts the journal of a stopped service: a snapshot replaces its events.

use super::broker::broker_value;
use super::front::nothing_said;
use super::running::DaemonError;
use crate::config::{BrokerConfig, Common, SiteConfig};
use crate::journal::{JournalError, Options, Store};
use crate::thread::{PartyError, PartyOptions};
use bookahead_party::broker::Broker;
use bookahead_party::site::{Site, SiteOptions};
use bookahead_party::{Party, Role};
use std::path::Path;

/// Result of a compaction.
#[derive(Debug, Clone)]
pub struct Compacted {
    /// Path or address of the journal.
    pub journal: Store,
    /// A snapshot replaces all records up to this one.
    pub up_to: u64,
    /// Number of dropped records.
    pub dropped: u64,
}

/// Compacts the journal of a site. Fails if the site is running.
pub fn compact_site(config: &SiteConfig, base: &Path) -> Result<Compacted, DaemonError> {
    config.check()?;
    let journal = existing(Common::from(config).store(base)?)?;
    let about = nothing_said(&config.name, Role::Site);
    let site = Site::new(config.rules()?, about, SiteOptions::default())?;
    let options = Options::default();
    let (whose, place) = ((Site::KIND, config.name.as_str()), (&journal, &options.lease));
    let options = PartyOptions {
        outbox: config.notify.outbox(whose, base, &config.state(base), place)?,
        options: options.clone(),
        ..PartyOptions::new(config.name.as_str().into(), journal.clone(), config.clock.clock())
    };
    let (up_to, dropped) = options.compact(site)?;
    Ok(Compacted { journal, up_to, dropped })
}

/// Compacts the journal of a broker. Fails if the broker is running.
pub fn compact_broker(config: &BrokerConfig, base: &Path) -> Result<Compacted, DaemonError> {
    config.check()?;
    let journal = existing(Common::from(config).store(base)?)?;
    let about = nothing_said(&config.name, Role::Broker);
    // The number is only used to derive ids, and none is derived here.
    let broker = broker_value(config, about, 0, "".into());
    let options = Options::default();
    let (whose, place) = ((Broker::KIND, config.name.as_str()), (&journal, &options.lease));
    let options = PartyOptions {
        outbox: config.notify.outbox(whose, base, &config.state(base), place)?,
        options: options.clone(),
        ..PartyOptions::new(config.name.as_str().into(), journal.clone(), config.clock.clock())
    };
    let (up_to, dropped) = options.compact(broker)?;
    Ok(Compacted { journal, up_to, dropped })
}

/// Fails if there is no journal: opening would create one.
fn existing(store: Store) -> Result<Store, DaemonError> {
    match &store {
        Store::File(path) if !path.exists() => {
            Err(PartyError::from(JournalError::Missing { path: path.clone() }).into())
        }
        _ => Ok(store),
    }
}
