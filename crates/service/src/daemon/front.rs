//! The side of a party that faces others, which is the same for a site and a broker: who is let in, TLS, the listener, the
//! address that it tells, and the brokers that it registers with.

use super::credentials::Credentials;
use super::registration::{Registry, keep_registered};
use super::running::Running;
use super::{DaemonError, VERSION};
use crate::config::{BrokerConfig, BrokerLink, Calls, Server, SiteConfig};
use crate::http::{About, Served, Stop, router_until, serve};
use crate::keeper::{Door, Keeper, Keeping};
use crate::party::Party;
use crate::security::{Gate, Security};
use bookahead_api as api;
use bookahead_lrms::command::Runner;
use bookahead_protocol::Name;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// What the configurations of a site and of a broker have in common.
pub(super) struct Common<'a> {
    role: api::Role,
    name: &'a str,
    listen: SocketAddr,
    url: Option<&'a str>,
    attributes: &'a BTreeMap<Name, api::AttributeValue>,
    security: &'a Security,
    server: &'a Server,
    brokers: &'a [BrokerLink],
    calls: &'a Calls,
    heartbeat: std::time::Duration,
}

impl<'a> From<&'a SiteConfig> for Common<'a> {
    fn from(config: &'a SiteConfig) -> Common<'a> {
        Common {
            role: api::Role::Site,
            name: &config.name,
            listen: config.listen,
            url: config.url.as_deref(),
            attributes: &config.attributes,
            security: &config.security,
            server: &config.server,
            brokers: &config.brokers,
            calls: &config.calls,
            heartbeat: config.heartbeat.duration(),
        }
    }
}

impl<'a> From<&'a BrokerConfig> for Common<'a> {
    fn from(config: &'a BrokerConfig) -> Common<'a> {
        Common {
            role: api::Role::Broker,
            name: &config.name,
            listen: config.listen,
            url: config.url.as_deref(),
            attributes: &config.attributes,
            security: &config.security,
            server: &config.server,
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
        let about = api::Site {
            name: self.name.into(),
            url,
            role: self.role,
            resources: Vec::new(),
            attributes: self.attributes.clone(),
            loads: Vec::new(),
            last_heard: None,
            round_trip_ms: None,
            state: api::Reachability::Up,
            version: Some(VERSION.to_owned()),
        };
        let (gate, server, heartbeat) = (Arc::new(gate), self.server.clone(), self.heartbeat);
        Ok(Front { about, address, listener, gate, tls, server, brokers, heartbeat, identity: None })
    }
}

/// A party that listens and lets nobody in yet.
pub(super) struct Front {
    /// What the party says of itself, but for what it offers.
    pub(super) about: api::Site,
    address: SocketAddr,
    listener: TcpListener,
    gate: Arc<Gate>,
    tls: Option<Arc<rustls::ServerConfig>>,
    server: Server,
    brokers: Vec<(String, Credentials)>,
    heartbeat: std::time::Duration,
    /// Of a broker: the name by which it knows a call that has come through it before.
    pub(super) identity: Option<Name>,
}

impl Front {
    /// Lets everybody in. `tasks` is what else the party does, for as long as it runs.
    pub(super) fn open(self, keeper: Keeper, mut tasks: JoinSet<()>, commands: Option<Runner>) -> Running {
        let Front { about, address, listener, gate, tls, server, brokers, heartbeat, identity } = self;
        let door = keeper.door().clone();
        let (stopper, stop) = Stop::pair();
        let url = about.url.clone();
        let role = about.role;
        let name = about.name;
        let about =
            About { name, role, version: VERSION.to_owned(), url: url.clone(), identity: identity.clone() };
        let served =
            Served { door: door.clone(), gate: gate.clone(), limits: server.limits(), about, commands };
        let router = router_until(served, stop.clone());
        let mut stopping = stop;
        let until = async move { stopping.said().await };
        let serving = tokio::spawn(serve::serve_within(server.bounds(), listener, tls, router, until));
        for (broker, credentials) in brokers {
            let broker = Registry { url: broker, credentials, identity: identity.clone() };
            tasks.spawn(keep_registered(door.clone(), broker, heartbeat));
        }
        tracing::info!(party = %door.name(), %address, url, "listens");
        Running::new(keeper, role, address, url, gate, stopper, serving, tasks)
    }
}

/// Opens the journal and takes over what is in it. That may take a while, and blocks.
pub(super) async fn start<P: Party>(
    keeping: Keeping,
    make: impl FnOnce(&Door) -> P + Send + 'static,
) -> Result<Keeper, DaemonError> {
    let started = tokio::task::spawn_blocking(move || keeping.start(make)).await;
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
