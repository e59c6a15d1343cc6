//! The side of a party that faces others, which is the same for a site and a broker: authentication, TLS, the listener, the
//! address and credentials that it shows, and the brokers that it registers with, again and again. A broker that does not
//! answer is told ever less often, and the log says when that changes.

use super::running::Running;
use super::{DaemonError, VERSION};
use crate::config::{BrokerLink, Calls, Common, url_below};
use crate::http::listener::{Listen, Listener, UNIX};
use crate::http::serve::Bounds;
use crate::http::{About, Limits, Served, Stop, answer, router, serve};
use crate::notify::{Outbox, deliver};
use crate::peer_answers::plain;
use crate::peer_clock;
use crate::security::tls::Content;
use crate::security::{Accounts, Authenticator, CallsKey, SecurityError, carries_tokens};
use crate::thread::{Outlets, PartyHandle, PartyOptions, PartyThread, ReadKind};
use bookahead_api as api;
use bookahead_client::{Client, Identity, Options};
use bookahead_lrms::command::Runner;
use bookahead_party::{Heartbeat, Party, Role};
use bookahead_protocol::{Millis, Name};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// All that can be had without listening.
struct Doorstep {
    authenticator: Authenticator,
    tls: Option<Arc<rustls::ServerConfig>>,
    brokers: Vec<(BrokerLink, Credentials)>,
}

impl Common<'_> {
    pub(super) fn check_files(&self, base: &Path) -> Result<(), DaemonError> {
        self.doorstep(base).map(drop)
    }

    fn doorstep(&self, base: &Path) -> Result<Doorstep, DaemonError> {
        let authenticator = self.security.for_service(self.name).authenticator(base)?;
        for address in self.tcp_addresses() {
            self.security.may_listen(address, &authenticator)?;
        }
        let tls = self.security.server(base)?;
        self.notify.targets(base)?;
        let mut brokers = Vec::new();
        for broker in self.brokers {
            let credentials = Credentials::new(self.calls, broker.token_file.as_ref(), base)?;
            // Certificates that cannot be used are better found now.
            let broker = BrokerLink { url: url_below(&broker.url, base), ..broker.clone() };
            credentials.client(&broker.url)?;
            brokers.push((broker, credentials));
        }
        Ok(Doorstep { authenticator, tls, brokers })
    }

    /// Makes the folder of its state, and listens; nobody is let in yet.
    pub(super) async fn listen(&self, base: &Path, state: &Path) -> Result<Front, DaemonError> {
        let Doorstep { authenticator, tls, brokers } = self.doorstep(base)?;
        state_folder(state)?;
        let mut listeners = Vec::new();
        for at in self.listeners(base) {
            let bound = at.bind(tls.clone()).await;
            listeners.push(bound.map_err(|cause| DaemonError::Listen { at: at.clone(), cause })?);
        }
        // Where it listens in several ways, others come by the network.
        let for_others = listeners.iter().find(|listener| matches!(listener, Listener::Tcp(..)));
        let for_others = for_others.or(listeners.first()).map(Listener::url).transpose();
        let url = match (self.url, for_others) {
            (Some(url), _) => url.to_owned(),
            (None, Ok(url)) => url.unwrap_or_default(),
            (None, Err(cause)) => {
                let at = self.listeners(base).swap_remove(0);
                return Err(DaemonError::Listen { at, cause });
            }
        };
        let about = Heartbeat {
            url,
            attributes: api::site::attributes_into(self.attributes.clone()),
            version: Some(VERSION.to_owned()),
            ..nothing_said(self.name, self.role)
        };
        if self.is_open_to_local_users() {
            tracing::warn!(
                event = "open_to_local_users",
                "nobody is asked who calls: every user of this machine may book, change and cancel as anybody"
            );
        }
        let (authenticator, accounts) = (Arc::new(authenticator), Arc::new(Accounts::new(self.security)));
        let (limits, heartbeat) = (self.limits.clone(), self.heartbeat.duration());
        Ok(Front { about, listeners, authenticator, accounts, limits, brokers, heartbeat, identity: None })
    }
}

/// A party of which no more is known than what it is.
pub(super) fn nothing_said(name: &str, role: Role) -> Heartbeat {
    Heartbeat {
        changes: None,
        name: name.into(),
        url: String::new(),
        registered_by: None,
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
    listeners: Vec<Listener>,
    authenticator: Arc<Authenticator>,
    accounts: Arc<Accounts>,
    limits: Limits,
    brokers: Vec<(BrokerLink, Credentials)>,
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
    /// Makes tokens for the brokers that it registers with, where they have an audience and no token file.
    pub(super) fn mint_with(&mut self, key: &Arc<CallsKey>) {
        for (broker, credentials) in &mut self.brokers {
            // On a Unix socket the account says who calls.
            let by_network = carries_tokens(&broker.url) && !broker.url.starts_with(UNIX);
            let audience = broker.audience.as_ref().filter(|_| by_network);
            if let (None, Some(audience)) = (&credentials.token_file, audience) {
                credentials.options.minter = Some(key.minter(audience));
            }
        }
    }

    /// Lets everybody in. `tasks` is what else the party does, for as long as it runs.
    pub(super) fn open(
        self,
        thread: PartyThread,
        mut tasks: JoinSet<()>,
        batch: Watched,
        outbox: Option<Arc<Outbox>>,
    ) -> Running {
        let Front { about, listeners, authenticator, accounts, limits, brokers, heartbeat, identity } = self;
        let party = thread.handle().clone();
        let addresses: Vec<Listen> = listeners.iter().filter_map(|listener| listener.local().ok()).collect();
        let (stopper, stop) = Stop::pair();
        let (url, role) = (about.url.clone(), answer::role(about.role));
        let about = About {
            name: about.name,
            role,
            version: VERSION.to_owned(),
            url: url.clone(),
            identity: identity.clone(),
        };
        let bounds = Bounds {
            connections: most_connections(limits.connections),
            connections_each: limits.connections_per_address,
            proxies: limits.trusted_proxies.iter().map(IpAddr::to_canonical).collect(),
            ..Bounds::default()
        };
        let Watched { commands, look_every } = batch;
        outbox.iter().for_each(|outbox| deliver(outbox, &mut tasks));
        let served = Served {
            party: party.clone(),
            authenticator: authenticator.clone(),
            accounts,
            limits,
            about,
            commands,
            look_every,
            outbox,
        };
        let router = router(served, stop.clone());
        let mut stopping = stop;
        let until = async move { stopping.said().await };
        let serving = tokio::spawn(serve::serve(bounds, listeners, router, until));
        for (broker, credentials) in brokers {
            let broker = Registry { url: broker.url, credentials, identity: identity.clone() };
            tasks.spawn(keep_registered(party.clone(), broker, heartbeat));
        }
        if let Some(provider) = authenticator.provider() {
            tasks.spawn(provider.clone().keep_fetching());
        }
        for at in &addresses {
            tracing::info!(event = "listening", party = %party.name(), %at, url, "listens");
        }
        Running::new(thread, role, addresses, url, authenticator, stopper, serving, tasks)
    }
}

/// Files that a service has open beside its connections: the journal with its log and copies, pipes of commands, calls to peers.
const OTHER_FILES: usize = 512;

/// How many connections the system allows: it counts files, and a service that has used up all of them can accept nobody. The
/// limit is raised as far as the system lets a process raise it.
fn most_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = u64::try_from(wanted.saturating_add(OTHER_FILES)).unwrap_or(u64::MAX);
    let Some(enough) = current.filter(|current| *current < needed) else { return wanted };
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised =
        setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).map_or(enough, |()| raised);
    let left = usize::try_from(raised).unwrap_or(usize::MAX).saturating_sub(OTHER_FILES).max(OTHER_FILES / 4);
    if left < wanted {
        let event = "file_limit_low";
        tracing::warn!(
            event,
            connections = left,
            "the system lets this service open {raised} files: raise ulimit -n"
        );
    }
    left.min(wanted)
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
fn state_folder(path: &Path) -> Result<(), DaemonError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|cause| DaemonError::State { path: path.to_owned(), cause })?;
    if let Some(why) = exposed_state(path) {
        tracing::warn!(event = "state_folder_exposed", path = %path.display(), "{why}");
    }
    Ok(())
}

/// What to do about a state folder that others can look into. One that the service makes is closed to them; one that was
/// there before is the operator's.
#[cfg(unix)]
pub fn exposed_state(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let shown = path.display();
    // Passing through is no looking into: jobs of another account have to reach their own folders.
    (mode & 0o066 != 0).then(|| {
        format!(
            "others can look into the state folder {shown} (mode {mode:o}), which has the names and jobs of users; \
             say: chmod 700 {shown}"
        )
    })
}

/// Elsewhere permissions are no three digits; they are the operator's care.
#[cfg(not(unix))]
pub fn exposed_state(_: &Path) -> Option<String> {
    None
}

/// A broker that does not answer is told at least so often.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Registry {
    pub(super) url: String,
    /// What it is shown.
    pub(super) credentials: Credentials,
    /// Who registers, where that is itself a broker: nobody becomes a peer of itself.
    pub(super) identity: Option<Name>,
}

impl Registry {
    fn client(&self) -> Option<Client> {
        let client = self.credentials.client(&self.url).ok()?;
        Some(self.identity.iter().fold(client, |client, identity| client.via(std::slice::from_ref(identity))))
    }
}

/// Tells a broker for as long as the party lives.
pub(super) async fn keep_registered(party: PartyHandle, mut broker: Registry, every: Duration) {
    let mut client = broker.client();
    let mut standing = Standing::Unknown;
    let mut pause = every;
    loop {
        if broker.credentials.renew() || client.is_none() {
            client = broker.client();
        }
        let told = match (&client, heartbeat(&party)) {
            (Some(client), Some(heartbeat)) => {
                client.heartbeat(&heartbeat).await.map_err(|why| plain(&why.to_string()))
            }
            _ => Err("the certificates cannot be used".to_owned()),
        };
        if let (Some(client), Ok(())) = (&client, &told) {
            peer_clock::compare(party.clock(), client);
        }
        pause = if told.is_ok() { every } else { (pause * 2).min(LONGEST_PAUSE.max(every)) };
        standing.note(party.name(), &broker.url, told);
        tokio::time::sleep(pause).await;
    }
}

fn heartbeat(party: &PartyHandle) -> Option<api::Heartbeat> {
    let known = party.read(ReadKind::Short, |queries, now| queries.sites(now));
    // It comes first in its own list.
    known.into_iter().next().map(|itself| answer::heartbeat(itself.said))
}

/// How the party stands with a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Unknown,
    Registered,
    Refused,
}

impl Standing {
    /// Says in the log what has changed.
    fn note(&mut self, party: &Name, broker: &str, told: Result<(), String>) {
        let now = if told.is_ok() { Standing::Registered } else { Standing::Refused };
        if now == *self {
            return;
        }
        *self = now;
        match told {
            Ok(()) => tracing::info!(event = "registered", %party, broker, "registered"),
            Err(why) => {
                let event = "registration_failed";
                tracing::warn!(event, %party, broker, "cannot register, and tries again: {why}");
            }
        }
    }
}

/// Who is in the same grid answers faster, or not at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// What is shown to one whom a party calls.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    token_file: Option<PathBuf>,
    options: Options,
}

impl Credentials {
    /// As it is configured; `own` is the token for this one alone. The token is read.
    pub(super) fn new(calls: &Calls, own: Option<&PathBuf>, base: &Path) -> Result<Credentials, DaemonError> {
        let below = |path: &PathBuf| base.join(path);
        let identity = calls.certificate.as_ref().zip(calls.key.as_ref());
        let identity =
            identity.map(|(certificate, key)| Identity { certificate: below(certificate), key: below(key) });
        let options = Options {
            ca: calls.ca.as_ref().map(below),
            identity,
            connect_timeout: CONNECT_WITHIN,
            patience: Duration::ZERO,
            ..Options::default()
        };
        let token_file = own.or(calls.token_file.as_ref()).map(below);
        let mut credentials = Credentials { token_file, options };
        credentials.options.token = credentials.token()?;
        Ok(credentials)
    }

    /// How somebody is called.
    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Fails where a token would be sent without TLS to another machine.
    pub(super) fn client(&self, url: &str) -> Result<Client, DaemonError> {
        if self.token_file.is_some() && !carries_tokens(url) {
            let why = format!(
                "the token for {url} could be read on its way; use https://, or leave out its token_file and that of [calls]"
            );
            return Err(SecurityError::Settings(why).into());
        }
        Ok(Client::new(url, self.options.clone())?)
    }

    /// Reads the token anew; whether it is another. Where it cannot be read, the old one stays in use.
    pub(super) fn renew(&mut self) -> bool {
        match self.token() {
            Ok(token) if token != self.options.token => {
                self.options.token = token;
                true
            }
            Ok(_) => false,
            Err(why) => {
                tracing::warn!("the token of before stays in use: {why}");
                false
            }
        }
    }

    fn token(&self) -> Result<Option<String>, SecurityError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let content = Content::read("the token file", path)?;
        content.must_be_private()?;
        let token = String::from_utf8_lossy(&content.bytes).trim().to_owned();
        if token.is_empty() {
            let why = format!("the token file {} is empty; put a token into it", path.display());
            return Err(SecurityError::Settings(why));
        }
        Ok(Some(token))
    }
}
