//! Changes the configuration of a running service. Everything that can fail is done first; then keys, certificates,
//! limits and rules are replaced together, and no connection, hold or call is lost. If anything fails, nothing changes.

use super::broker::{configure, for_unnamed, peers};
use super::front::{Credentials, Doorstep, bounds, mint_with};
use super::site::projects_of;
use super::{DaemonError, Running};
use crate::config::{BrokerConfig, BrokerLink, Changes, Common, FileDigests, PeerLink, SiteConfig};
use crate::http::serve::Live;
use crate::http::{Projects, Routes, Settings};
use crate::peers::PeerCalls;
use crate::security::{Accounts, Authenticator, CallsKey, Security};
use crate::thread::PartyHandle;
use bookahead_party::{Input, NewRules, Role};
use rustls::ServerConfig;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

/// Everything of a running service that a new configuration can change.
pub(super) struct Reload {
    pub(super) base: PathBuf,
    /// Files of the configuration in use.
    pub(super) files: FileDigests,
    pub(super) config: Current,
    pub(super) party: PartyHandle,
    pub(super) routes: Routes,
    pub(super) live: watch::Sender<Live>,
    pub(super) authenticator: Arc<Authenticator>,
    /// Brokers that the service registers with, in the order of the configuration.
    pub(super) registrations: watch::Sender<Vec<(BrokerLink, Credentials)>>,
    /// Signs tokens for brokers without a token file.
    pub(super) key: Option<Arc<CallsKey>>,
}

/// The configuration in use.
pub(super) enum Current {
    Site(Box<SiteConfig>),
    Broker {
        config: Box<BrokerConfig>,
        calls: PeerCalls,
        /// Peers of the configuration, with their credentials.
        peers: watch::Sender<Vec<(PeerLink, Credentials)>>,
    },
}

/// What was built from a new configuration, and only has to be put in place.
struct Prepared {
    settings: Settings,
    tls: Option<Arc<ServerConfig>>,
    brokers: Vec<(BrokerLink, Credentials)>,
    files: FileDigests,
}

impl Running {
    /// Takes over a new configuration of this site. Returns the changed fields and files. If that fails, nothing has changed.
    pub fn reload_site(&mut self, new: &SiteConfig) -> Result<Vec<String>, DaemonError> {
        let done = self.reload.site(new);
        self.reload.routes.note_reload(done.is_ok());
        done
    }

    /// Takes over a new configuration of this broker. Returns the changed fields and files. If that fails, nothing has changed.
    pub fn reload_broker(&mut self, new: &BrokerConfig) -> Result<Vec<String>, DaemonError> {
        let done = self.reload.broker(new);
        self.reload.routes.note_reload(done.is_ok());
        done
    }

    /// Records for the metrics that a new configuration could not be read.
    pub fn note_failed_reload(&self) {
        self.reload.routes.note_reload(false);
    }
}

impl Reload {
    fn site(&mut self, new: &SiteConfig) -> Result<Vec<String>, DaemonError> {
        let Current::Site(old) = &self.config else { return Err(DaemonError::Fixed("the role".into())) };
        let changes = changes(Role::Site, &**old, new)?;
        let fixed = fixed_security(&old.security, &new.security);
        refuse(changes.fixed.into_iter().chain(fixed))?;
        new.check()?;
        let rules = new.rules()?;
        let prepared = self.prepare(&Common::from(new), projects_of(new))?;
        self.party.tell(Input::Rules(NewRules::Site(Box::new(rules))));
        let files = self.put_in_place(prepared);
        self.config = Current::Site(Box::new(new.clone()));
        Ok(changes.changed.into_iter().chain(files).collect())
    }

    fn broker(&mut self, new: &BrokerConfig) -> Result<Vec<String>, DaemonError> {
        let Current::Broker { config: old, .. } = &self.config else {
            return Err(DaemonError::Fixed("the role".into()));
        };
        let changes = changes(Role::Broker, &**old, new)?;
        let fixed = fixed_security(&old.security, &new.security);
        // The key for tokens is made at the start.
        let vouches = |config: &BrokerConfig| config.calls.mints() && config.knows_callers();
        let minting = (vouches(old) != vouches(new)).then(|| "calls.mint".to_owned());
        let open = (old.is_open() != new.is_open()).then(|| "open".to_owned());
        refuse(changes.fixed.into_iter().chain(fixed).chain(minting).chain(open))?;
        new.check()?;
        let (unnamed, with_credentials) = (for_unnamed(new, &self.base)?, peers(new, &self.base)?);
        let prepared = self.prepare(&Common::from(new), new.security.projects.clone())?;
        // The broker keeps its own seed of identities.
        self.party.tell(Input::Rules(NewRules::Broker(Box::new(new.rules(0)))));
        let files = self.put_in_place(prepared);
        if let Current::Broker { config, calls, peers } = &mut self.config {
            configure(calls, &with_credentials);
            calls.set_options(&unnamed);
            peers.send_replace(with_credentials);
            **config = new.clone();
        }
        Ok(changes.changed.into_iter().chain(files).collect())
    }

    fn prepare(&self, new: &Common<'_>, projects: Projects) -> Result<Prepared, DaemonError> {
        let Doorstep { authenticator, tls, mut brokers, files } = new.doorstep(&self.base)?;
        let authenticator = Arc::new(authenticator.succeeding(&self.authenticator)?);
        if let Some(key) = &self.key {
            mint_with(&mut brokers, key);
        }
        let accounts = Arc::new(Accounts::new(new.security));
        let settings = Settings { authenticator, accounts, limits: new.limits.clone(), projects };
        Ok(Prepared { settings, tls, brokers, files })
    }

    /// Returns the files with a new content.
    fn put_in_place(&mut self, prepared: Prepared) -> Vec<String> {
        let Prepared { settings, tls, brokers, files } = prepared;
        self.authenticator = settings.authenticator.clone();
        let bounds = Arc::new(bounds(&settings.limits));
        self.routes = self.routes.with(settings);
        self.live.send_replace(Live { router: self.routes.router(), bounds, tls });
        self.registrations.send_replace(brokers);
        let changed = files.changed_since(&self.files).collect();
        self.files = files;
        changed
    }
}

fn changes<C: serde::Serialize>(role: Role, old: &C, new: &C) -> Result<Changes, DaemonError> {
    Changes::between(role, old, new).map_err(|why| DaemonError::Unwritable(why.to_string()))
}

/// Switches in `[security]` that depend on more than one field.
fn fixed_security(old: &Security, new: &Security) -> impl Iterator<Item = String> {
    let tls = (old.tls.is_some() != new.tls.is_some()).then(|| "security.tls on or off".to_owned());
    let guarded = old.is_guarded() != new.is_guarded();
    let guarded = guarded.then(|| "authentication on or off in security".to_owned());
    tls.into_iter().chain(guarded)
}

fn refuse(fixed: impl Iterator<Item = String>) -> Result<(), DaemonError> {
    let fixed: Vec<String> = fixed.collect();
    if fixed.is_empty() { Ok(()) } else { Err(DaemonError::Fixed(fixed.join(", "))) }
}
