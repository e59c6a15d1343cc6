//! A site or a broker from its configuration, whichever was asked for: what both have in common for whoever runs one.

use anyhow::{Context, Result, anyhow};
use bookahead_lrms::batch::Finding;
use bookahead_service::config::{BrokerConfig, SiteConfig, print_broker, print_site};
use bookahead_service::daemon::{self, Compacted, DaemonError, OnLostJournal, Running};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Site,
    Broker,
}

/// A configuration, and the folder that its paths begin at.
pub(super) struct Party {
    config: Config,
    base: PathBuf,
}

enum Config {
    Site(Box<SiteConfig>),
    Broker(Box<BrokerConfig>),
}

impl Party {
    pub(super) fn read(role: Role, path: &Path) -> Result<Party> {
        let config = match role {
            Role::Site => Config::Site(Box::new(SiteConfig::read(path)?)),
            Role::Broker => Config::Broker(Box::new(BrokerConfig::read(path)?)),
        };
        let base = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Party { config, base })
    }

    /// Reads a configuration that may be of either: one that describes resources is a site's.
    pub(super) fn read_either(path: &Path) -> Result<Party> {
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| {
            format!("{} cannot be read; give the configuration of a site or broker", path.display())
        })?;
        let table: Option<toml::Table> = toml::from_str(&text).ok();
        let broker = table.is_some_and(|table| !table.contains_key("resource"));
        Party::read(if broker { Role::Broker } else { Role::Site }, path)
    }

    pub(super) fn listen(&mut self, address: SocketAddr) {
        match &mut self.config {
            Config::Site(config) => config.listen = address,
            Config::Broker(config) => config.listen = address,
        }
    }

    /// Keeps its state elsewhere; a path that the user gave begins where he is.
    pub(super) fn keep_in(&mut self, folder: &Path) -> Result<()> {
        let folder =
            std::path::absolute(folder).with_context(|| format!("{} is no folder", folder.display()))?;
        match &mut self.config {
            Config::Site(config) => config.state = Some(folder),
            Config::Broker(config) => config.state = Some(folder),
        }
        Ok(())
    }

    pub(super) fn name(&self) -> &str {
        match &self.config {
            Config::Site(config) => &config.name,
            Config::Broker(config) => &config.name,
        }
    }

    pub(super) fn check(&self) -> Result<(), DaemonError> {
        match &self.config {
            Config::Site(config) => daemon::check_site(config, &self.base),
            Config::Broker(config) => daemon::check_broker(config, &self.base),
        }
    }

    /// Everything that it needs, looked at. A broker is examined by its sites.
    pub(super) async fn examine(&self) -> Vec<Finding> {
        match &self.config {
            Config::Site(config) => daemon::examine_site(config, &self.base).await,
            Config::Broker(_) => Vec::new(),
        }
    }

    pub(super) fn print(&self) -> String {
        match &self.config {
            Config::Site(config) => print_site(config),
            Config::Broker(config) => print_broker(config),
        }
    }

    pub(super) async fn start(&self, on_lost_journal: OnLostJournal) -> Result<Running, DaemonError> {
        match &self.config {
            Config::Site(config) => daemon::site(config, &self.base, on_lost_journal).await,
            Config::Broker(config) => daemon::broker(config, &self.base).await,
        }
    }

    pub(super) fn compact(&self) -> Result<Compacted, DaemonError> {
        match &self.config {
            Config::Site(config) => daemon::compact_site(config, &self.base),
            Config::Broker(config) => daemon::compact_broker(config, &self.base),
        }
    }
}

/// An error with what can be done about it. It says itself what caused it.
pub(super) fn told(why: &DaemonError) -> anyhow::Error {
    match why.hint() {
        Some(hint) => anyhow!("{why}; {hint}"),
        None => anyhow!("{why}"),
    }
}
