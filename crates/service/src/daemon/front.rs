//! The side of a party that faces others, which is the same for a site and a broker: who is let in, TLS, the listener, the
//! address that it tells, and the brokers that it registers with.

use super::credentials::Credentials;
use super::registration::{Registry, keep_registered};
use super::running::Running;
use super::{DaemonError, VERSION};
use crate::config::{BrokerConfig, BrokerLink, Calls, SiteConfig};
use crate::http::serve::Bounds;
use crate::http::{About, Limits, Served, Stop, documents, router_until, serve};
use crate::security::{Gate, Security};
use crate::thread::{Outlets, PartyHandle, PartyOptions, PartyThread};
use bookahead_api as api;
use bookahead_lrms::command::Runner;
use bookahead_party::{Heartbeat, Party, Role};
use bookahead_protocol::{Millis, Name};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What the configurations of a site and of a broker have in common.
pub(super) struct Common<'a> {
    role: Role,
    name: &'a str,
    listen: SocketAddr,
    url: Option<&'a str>,
    attributes: &'a BTreeMap<Name, api::AttributeValue>,
    security: &'a Security,
    limits: Limits,
    brokers: &'a [BrokerLink],
    calls: &'a Calls,
    heartbeat: std::time::Duration,
}

impl<'a> From<&'a SiteConfig> for Common<'a> {
    fn from(config: &'a SiteConfig) -> Common<'a> {
        Common {
            role: Role::Site,
            name: &config.name,
            listen: config.listen,
            url: config.url.as_deref(),
            attributes: &config.attributes,
            security: &config.security,
            limits: config.server_limits(),
            brokers: &config.brokers,
            calls: &config.calls,
            heartbeat: config.heartbeat.duration(),
        }
    }
}

impl<'a> From<&'a BrokerConfig> for Common<'a> {
    fn from(config: &'a BrokerConfig) -> Common<'a> {
        Common {
            role: Role::Broker,
            name: &config.name,
            listen: config.listen,
            url: config.url.as_deref(),
            attributes: &config.attributes,
            security: &config.security,
            limits: config.server.clone(),
            brokers: &config.brokers,
            calls: &config.calls,
            heartbeat: config.heartbeat.duration(),
        }
    }
}

/// All that can be had without listening.
struct Doorstep {
    gate: Gate,
    tls: Option<Arc<rustls::ServerConfig>>,
    brokers: Vec<(String, Credentials)>,
}

impl Common<'_> {
    /// Whether it could start.
    pub(super) fn check(&self, base: &Path) -> Result<(), DaemonError> {
        self.doorstep(base).map(drop)
    }

    fn doorstep(&self, base: &Path) -> Result<Doorstep, DaemonError> {
        let gate = self.security.gate(base)?;
        self.security.may_listen(self.listen, &gate)?;
        let tls = self.security.server(base)?;
        let mut brokers = Vec::new();
        for broker in self.brokers {
            let credentials = Credentials::new(self.calls, broker.token_file.as_ref(), base)?;
            // Certificates that cannot be used are better found now.
            credentials.client(&broker.url)?;
            brokers.push((broker.url.clone(), credentials));
        }
        Ok(Doorstep { gate, tls, brokers })
    }

    /// Listens; nobody is let in yet.
    pub(super) async fn listen(&self, base: &Path) -> Result<Front, DaemonError> {
        let Doorstep { gate, tls, brokers } = self.doorstep(base)?;
        let failed = |cause| DaemonError::Listen { address: self.listen, cause };
        let listener = TcpListener::bind(self.listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let scheme = if tls.is_some() { "https" } else { "http" };
        let url = self.url.map_or_else(|| format!("{scheme}://{address}"), ToOwned::to_owned);
        let about = Heartbeat {
            url,
            attributes: api::resource::attributes_into(self.attributes.clone()),
            version: Some(VERSION.to_owned()),
            ..nothing_said(self.name, self.role)
        };
        let (gate, limits, heartbeat) = (Arc::new(gate), self.limits.clone(), self.heartbeat);
        Ok(Front { about, address, listener, gate, tls, limits, brokers, heartbeat, identity: None })
    }
}

/// A party of which no more is known than what it is.
pub(super) fn nothing_said(name: &str, role: Role) -> Heartbeat {
    Heartbeat {
        name: name.into(),
        url: String::new(),
        role,
        resources: Vec::new(),
        attributes: BTreeMap::new(),
        loads: Vec::new(),
        hold_takes: None,
        version: None,
    }
}

/// A party that listens and lets nobody in yet.
pub(super) struct Front {
    /// What the party says of itself, but for what it offers.
    pub(super) about: Heartbeat,
    address: SocketAddr,
    listener: TcpListener,
    gate: Arc<Gate>,
    tls: Option<Arc<rustls::ServerConfig>>,
    limits: Limits,
    brokers: Vec<(String, Credentials)>,
    heartbeat: std::time::Duration,
    /// Of a broker: the name by which it knows a call that has come through it before.
    pub(super) identity: Option<Name>,
}

/// What the routes need to know of a site's batch system.
#[derive(Default)]
pub(super) struct Watched {
    /// What runs its commands, for metrics.
    pub(super) commands: Option<Runner>,
    /// How often the site looks at it.
    pub(super) look_every: Option<Millis>,
}

impl Front {
    /// Lets everybody in. `tasks` is what else the party does, for as long as it runs.
    pub(super) fn open(self, thread: PartyThread, mut tasks: JoinSet<()>, batch: Watched) -> Running {
        let Front { about, address, listener, gate, tls, limits, brokers, heartbeat, identity } = self;
        let party = thread.handle().clone();
        let (stopper, stop) = Stop::pair();
        let (url, role) = (about.url.clone(), documents::role(about.role));
        let about = About {
            name: about.name,
            role,
            version: VERSION.to_owned(),
            url: url.clone(),
            identity: identity.clone(),
        };
        let bounds = Bounds { connections: limits.connections, ..Bounds::default() };
        let Watched { commands, look_every } = batch;
        let served = Served { party: party.clone(), gate: gate.clone(), limits, about, commands, look_every };
        let router = router_until(served, stop.clone());
        let mut stopping = stop;
        let until = async move { stopping.said().await };
        let serving = tokio::spawn(serve::serve_within(bounds, listener, tls, router, until));
        for (broker, credentials) in brokers {
            let broker = Registry { url: broker, credentials, identity: identity.clone() };
            tasks.spawn(keep_registered(party.clone(), broker, heartbeat));
        }
        tracing::info!(event = "listening", party = %party.name(), %address, url, "listens");
        Running::new(thread, role, address, url, gate, stopper, serving, tasks)
    }
}

/// Opens the journal and takes over what is in it. That may take a while, and blocks.
pub(super) async fn start<P: Party>(
    options: PartyOptions,
    party: P,
    connect: impl FnOnce(&PartyHandle) -> Outlets + Send + 'static,
) -> Result<PartyThread, DaemonError> {
    let started = tokio::task::spawn_blocking(move || options.start(party, connect)).await;
    Ok(started.map_err(|_| DaemonError::Task)??)
}

/// The folder of a party's state, which nobody else needs to look into.
pub(super) fn state_folder(path: &Path) -> Result<(), DaemonError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|cause| DaemonError::State { path: path.to_owned(), cause })
}
