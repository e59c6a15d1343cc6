//! The network side of a site or broker: authentication, TLS, listeners, its URL and credentials, and periodic
//! registration with brokers. A broker that does not answer is tried less often, and the log reports changes.

use super::own_keys::{check_keys, needed, sessions_key};
use super::reload::{Current, Reload};
use super::running::Running;
use super::{DaemonError, VERSION};
use crate::config::{BrokerLink, Calls, Common, FileDigests, url_below};
use crate::http::listener::{Listen, Listener, UNIX};
use crate::http::serve::{Bounds, Live};
use crate::http::{
    About, Epochs, JobOutputs, Limits, Projects, Routes, Served, Stop, Stopper, answer, serve,
};
use crate::journal::Store;
use crate::notify::{Outbox, deliver};
use crate::peer_answers::plain;
use crate::security::tls::Content;
use crate::security::{Accounts, Authenticator, CallsKey, SecurityError, UserLists, carries_tokens};
use crate::thread::{OpenParty, Outlets, PartyHandle, PartyOptions, PartyThread, ReadKind};
use crate::{kernel_clock, peer_clock};
use axum::Router;
use bookahead_api as api;
use bookahead_client::{Client, Identity, Options};
use bookahead_lrms::command::Runner;
use bookahead_party::broker::Broker;
use bookahead_party::site::Site;
use bookahead_party::{Heartbeat, Party, Role};
use bookahead_protocol::{Millis, Name};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Everything that can be prepared without listening.
pub(super) struct Doorstep {
    pub(super) authenticator: Authenticator,
    pub(super) tls: Option<Arc<rustls::ServerConfig>>,
    pub(super) brokers: Vec<(BrokerLink, Credentials)>,
    /// Of the files that were read.
    pub(super) files: FileDigests,
}

impl Common<'_> {
    pub(super) fn check_files(&self, base: &Path) -> Result<(), DaemonError> {
        self.doorstep(base).map(drop)
    }

    pub(super) fn doorstep(&self, base: &Path) -> Result<Doorstep, DaemonError> {
        self.store(base)?;
        // First: a file that changes meanwhile differs at the next reload.
        let files = FileDigests::of(self, base);
        let authenticator = self.security.for_service(self.name).authenticator(base)?;
        for address in self.tcp_addresses() {
            self.security.may_listen(address, &authenticator)?;
        }
        let tls = self.security.server(base)?;
        self.notify.targets(base)?;
        let mut brokers = Vec::new();
        for broker in self.brokers {
            let credentials = Credentials::new(self.calls, broker.token_file.as_ref(), base)?;
            // Fails now instead of at the first call if a certificate cannot be used.
            let broker = BrokerLink { url: url_below(&broker.url, base), ..broker.clone() };
            credentials.client(&broker.url)?;
            brokers.push((broker, credentials));
        }
        Ok(Doorstep { authenticator, tls, brokers, files })
    }

    async fn check_keys(&self, base: &Path, state: &Path, signs_in: bool) -> Result<(), DaemonError> {
        let Store::Postgres(database) = self.store(base)? else { return Ok(()) };
        let what = if self.role == Role::Site { Site::KIND } else { Broker::KIND };
        let (owner, state, needed) = (self.name.to_owned(), state.to_owned(), needed(self.role, signs_in));
        let check = move || check_keys(&database, (what, &owner), &state, &needed);
        tokio::task::spawn_blocking(check).await.map_err(|_| DaemonError::Task)?
    }

    /// Creates the state folder and listens, but accepts no connections yet.
    pub(super) async fn listen(&self, base: &Path, state: &Path) -> Result<Front, DaemonError> {
        let Doorstep { mut authenticator, tls, brokers, files } = self.doorstep(base)?;
        state_folder(state)?;
        self.check_keys(base, state, authenticator.sign_in_mut().is_some()).await?;
        if let Some(sign_in) = authenticator.sign_in_mut() {
            sign_in.set_key(sessions_key(state)?);
        }
        let mut listeners = Vec::new();
        for at in self.listeners(base) {
            // The state folder lets other accounts pass if jobs run under one (`jobs.account`).
            let bound = match self.has_default_socket() {
                true => at.bind_private(tls.clone()).await,
                false => at.bind(tls.clone()).await,
            };
            listeners.push(bound.map_err(|cause| DaemonError::Listen { at: at.clone(), cause })?);
        }
        // With several listeners, other services use the network.
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
                "no authentication: every user of this machine can book, change and cancel as any user"
            );
        }
        let (authenticator, accounts) = (Arc::new(authenticator), Arc::new(Accounts::new(self.security)));
        let (limits, heartbeat) = (self.limits.clone(), self.heartbeat.duration());
        let addresses = listeners.iter().filter_map(|listener| listener.local().ok()).collect();
        Ok(Front {
            about,
            listeners,
            authenticator,
            accounts,
            limits,
            brokers,
            heartbeat,
            identity: None,
            projects: self.security.projects.clone(),
            base: base.to_owned(),
            files,
            key: None,
            epochs: Arc::default(),
            addresses,
            stopping: Stop::pair(),
            serving: None,
        })
    }
}

/// A heartbeat with name and role only.
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
        batch: None,
        version: None,
    }
}

/// Listeners that do not accept connections yet.
pub(super) struct Front {
    /// The party's own heartbeat, without resources.
    pub(super) about: Heartbeat,
    listeners: Vec<Listener>,
    authenticator: Arc<Authenticator>,
    accounts: Arc<Accounts>,
    limits: Limits,
    brokers: Vec<(BrokerLink, Credentials)>,
    heartbeat: std::time::Duration,
    /// Brokers only: identity in the `via` list of calls.
    pub(super) identity: Option<Name>,
    /// Users of projects.
    pub(super) projects: Projects,
    /// Folder that paths are relative to.
    base: PathBuf,
    files: FileDigests,
    /// Signs tokens for brokers without a token file.
    key: Option<Arc<CallsKey>>,
    /// Processes of callers.
    pub(super) epochs: Arc<Epochs>,
    /// Where it listens.
    addresses: Vec<Listen>,
    stopping: (Stopper, Stop),
    /// The server, once it accepts connections.
    serving: Option<(watch::Sender<Live>, JoinHandle<()>)>,
}

/// Information about the batch system of a site, or the peers of a broker, for the routes.
#[derive(Default)]
pub(super) struct Watched {
    /// Runner of its commands, for metrics.
    pub(super) commands: Option<Runner>,
    /// How often the site polls it.
    pub(super) look_every: Option<Millis>,
    /// Where the output of jobs is read.
    pub(super) outputs: JobOutputs,
}

impl Front {
    /// Mints tokens for brokers with an audience and without a token file.
    pub(super) fn mint_with(&mut self, key: &Arc<CallsKey>) {
        mint_with(&mut self.brokers, key);
        self.key = Some(key.clone());
    }

    pub(super) fn set_user_lists(&self, lists: UserLists) {
        self.authenticator.set_lists(lists);
    }

    /// Name, role and URL of the service.
    pub(super) fn about(&self) -> About {
        About {
            name: self.about.name.clone(),
            role: answer::role(self.about.role),
            version: VERSION.to_owned(),
            url: self.about.url.clone(),
            identity: self.identity.clone(),
        }
    }

    /// Serves these routes from now on.
    pub(super) fn serve(&mut self, router: Router) -> watch::Sender<Live> {
        let bounds = Arc::new(bounds(&self.limits));
        let live = Live { router, bounds, tls: None };
        if let Some((sender, _)) = &self.serving {
            sender.send_replace(live);
            return sender.clone();
        }
        let (sender, changing) = watch::channel(live);
        let mut stopping = self.stopping.1.clone();
        let until = async move { stopping.said().await };
        let serving = tokio::spawn(serve::serve_live(changing, std::mem::take(&mut self.listeners), until));
        self.serving = Some((sender.clone(), serving));
        sender
    }

    /// Starts serving. `tasks` are further tasks of the party, which run as long as it does.
    pub(super) fn open(
        mut self,
        thread: PartyThread,
        mut tasks: JoinSet<()>,
        batch: Watched,
        outbox: Option<Arc<Outbox>>,
        config: Current,
    ) -> Running {
        let party = thread.handle().clone();
        let about = self.about();
        let (url, role) = (about.url.clone(), about.role);
        let Watched { commands, look_every, outputs } = batch;
        outbox.iter().for_each(|outbox| deliver(outbox, &mut tasks));
        let served = Served {
            party: party.clone(),
            authenticator: self.authenticator.clone(),
            accounts: self.accounts.clone(),
            limits: self.limits.clone(),
            about,
            commands,
            look_every,
            outbox,
            outputs,
            projects: self.projects.clone(),
            epochs: self.epochs.clone(),
        };
        let routes = Routes::new(served, self.stopping.1.clone());
        let live = self.serve(routes.router());
        let Front {
            authenticator,
            brokers,
            heartbeat,
            identity,
            base,
            files,
            key,
            addresses,
            stopping,
            serving,
            ..
        } = self;
        let (registrations, renewed) = watch::channel(brokers.clone());
        for (at, (broker, credentials)) in brokers.into_iter().enumerate() {
            let (identity, renewed) = (identity.clone(), (at, renewed.clone()));
            let broker = Registry { url: broker.url, credentials, identity, renewed };
            tasks.spawn(keep_registered(party.clone(), broker, heartbeat));
        }
        tasks.spawn(kernel_clock::keep_asking());
        if let Some(provider) = authenticator.provider() {
            tasks.spawn(provider.clone().keep_fetching());
        }
        for at in &addresses {
            tracing::info!(event = "listening", party = %party.name(), %at, url, "listening");
        }
        let reload = Reload { base, files, config, party, routes, live, authenticator, registrations, key };
        // `serve` has set it.
        let serving = serving.map_or_else(|| tokio::spawn(async {}), |(_, serving)| serving);
        Running::new(thread, role, addresses, url, reload, stopping.0, serving, tasks)
    }
}

/// Mints tokens for brokers with an audience and without a token file.
pub(super) fn mint_with(brokers: &mut [(BrokerLink, Credentials)], key: &Arc<CallsKey>) {
    for (broker, credentials) in brokers {
        // On a Unix socket the account identifies the caller.
        let by_network = carries_tokens(&broker.url) && !broker.url.starts_with(UNIX);
        let audience = broker.audience.as_ref().filter(|_| by_network);
        if let (None, Some(audience)) = (&credentials.token_file, audience) {
            credentials.options.minter = Some(key.minter(audience));
        }
    }
}

/// Bounds of connections by the limits of the configuration and of the system.
pub(super) fn bounds(limits: &Limits) -> Bounds {
    Bounds {
        connections: most_connections(limits.connections),
        connections_each: limits.connections_per_address,
        proxies: limits.trusted_proxies.iter().map(IpAddr::to_canonical).collect(),
        ..Bounds::default()
    }
}

/// File descriptors other than connections: the journal with its log and copies, pipes of commands, calls to peers.
const OTHER_FILES: usize = 512;

/// Number of connections that the file descriptor limit allows. A service without free descriptors cannot accept
/// connections. Raises the soft limit as far as permitted.
fn most_connections(wanted: usize) -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let needed = u64::try_from(wanted.saturating_add(OTHER_FILES)).unwrap_or(u64::MAX);
    let Some(enough) = current.filter(|current| *current < needed) else { return wanted };
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    let raised =
        setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }).map_or(enough, |()| raised);
    // With a very low limit a quarter of the reserve still serves connections: a service without any is useless.
    let left = usize::try_from(raised).unwrap_or(usize::MAX).saturating_sub(OTHER_FILES).max(OTHER_FILES / 4);
    if left < wanted {
        let event = "file_limit_low";
        tracing::warn!(event, connections = left, "the limit of open files is {raised}; raise ulimit -n");
    }
    left.min(wanted)
}

/// Opens the journal and restores the state. Blocking, and may take a while.
pub(super) async fn open<P: Party>(options: PartyOptions, party: P) -> Result<OpenParty<P>, DaemonError> {
    let opened = tokio::task::spawn_blocking(move || options.open(party)).await;
    Ok(opened.map_err(|_| DaemonError::Task)??)
}

/// Starts a party.
pub(super) async fn start<P: Party>(
    party: OpenParty<P>,
    connect: impl FnOnce(&PartyHandle) -> Outlets + Send + 'static,
) -> Result<PartyThread, DaemonError> {
    let started = tokio::task::spawn_blocking(move || party.start(connect)).await;
    Ok(started.map_err(|_| DaemonError::Task)??)
}

/// Creates the state folder, private to the account of the service.
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

/// A warning if others can read the state folder. A folder that the service creates is private; an existing one is
/// the responsibility of the operator.
#[cfg(unix)]
pub fn exposed_state(path: &Path) -> Option<String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
    let shown = path.display();
    // Execute permission alone is fine: jobs of another account must reach their own folders.
    (mode & 0o066 != 0).then(|| {
        format!(
            "others can read the state folder {shown} (mode {mode:o}), which contains the names and jobs of users; \
             run: chmod 700 {shown}"
        )
    })
}

/// Other systems have no such permission bits.
#[cfg(not(unix))]
pub fn exposed_state(_: &Path) -> Option<String> {
    None
}

/// Longest pause between registrations at a broker that does not answer.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

pub(super) struct Registry {
    pub(super) url: String,
    pub(super) credentials: Credentials,
    /// Identity of the registering party, if it is a broker: a broker must not become a peer of itself.
    pub(super) identity: Option<Name>,
    /// Its place among the brokers of the configuration, and the credentials of all if they were read again.
    pub(super) renewed: (usize, watch::Receiver<Vec<(BrokerLink, Credentials)>>),
}

impl Registry {
    /// Takes over credentials that were read again. Returns whether there were any.
    fn renew(&mut self) -> bool {
        let (at, renewed) = &mut self.renewed;
        if renewed.has_changed().unwrap_or(false)
            && let Some((_, credentials)) = renewed.borrow_and_update().get(*at)
        {
            self.credentials = credentials.clone();
            return true;
        }
        self.credentials.renew()
    }

    fn client(&self, party: &PartyHandle) -> Option<Client> {
        let client = self.credentials.client(&self.url).ok()?;
        let client = numbered(client, party);
        Some(self.identity.iter().fold(client, |client, identity| client.via(std::slice::from_ref(identity))))
    }
}

/// The client with the number of this process, if the party has several.
pub(crate) fn numbered(client: Client, party: &PartyHandle) -> Client {
    match party.lease().epoch() {
        0 => client,
        epoch => client.with_epoch(party.name(), epoch),
    }
}

/// Registers with a broker periodically, as long as the party lives.
pub(super) async fn keep_registered(party: PartyHandle, mut broker: Registry, every: Duration) {
    let mut client = broker.client(&party);
    let mut standing = Standing::Unknown;
    let mut pause = every;
    loop {
        if broker.renew() || client.is_none() {
            client = broker.client(&party);
        }
        if !party.lease().is_held() {
            // Another process registers.
            return;
        }
        let told = match (&client, heartbeat(&party)) {
            (Some(client), Some(heartbeat)) => {
                client.heartbeat(&heartbeat).await.map_err(|why| plain(&why.to_string()))
            }
            _ => Err("cannot use the certificates".to_owned()),
        };
        if let (Some(client), Ok(())) = (&client, &told) {
            peer_clock::compare(party.clock(), client);
        }
        // Brokers that are down should not be flooded, but found again within a minute.
        pause = if told.is_ok() { every } else { (pause * 2).min(LONGEST_PAUSE.max(every)) };
        standing.note(party.name(), &broker.url, told);
        tokio::time::sleep(pause).await;
    }
}

fn heartbeat(party: &PartyHandle) -> Option<api::Heartbeat> {
    let known = party.read(ReadKind::Short, |queries, now| queries.sites(now));
    // The party comes first in its own list.
    known.into_iter().next().map(|itself| answer::heartbeat(itself.said))
}

/// State of the registration at a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Unknown,
    Registered,
    Refused,
}

impl Standing {
    /// Logs changes of the state only.
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
                tracing::warn!(event, %party, broker, "cannot register, retrying: {why}");
            }
        }
    }
}

/// Connect timeout. Services of one grid answer faster, or not at all.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Credentials for calls to one service.
#[derive(Debug, Clone)]
pub(super) struct Credentials {
    token_file: Option<PathBuf>,
    options: Options,
}

impl Credentials {
    /// `own` is the token file for this service alone. Reads the token.
    pub(super) fn new(calls: &Calls, own: Option<&PathBuf>, base: &Path) -> Result<Credentials, DaemonError> {
        let below = |path: &PathBuf| base.join(path);
        let identity = calls.certificate.as_ref().zip(calls.key.as_ref());
        let identity =
            identity.map(|(certificate, key)| Identity { certificate: below(certificate), key: below(key) });
        let options = Options {
            ca: calls.ca.as_ref().map(below),
            identity,
            connect_timeout: CONNECT_WITHIN,
            // The broker and the heartbeats repeat their calls themselves.
            patience: Duration::ZERO,
            ..Options::default()
        };
        let token_file = own.or(calls.token_file.as_ref()).map(below);
        let mut credentials = Credentials { token_file, options };
        credentials.options.token = credentials.token()?;
        Ok(credentials)
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// Fails if a token would be sent to another machine without TLS.
    pub(super) fn client(&self, url: &str) -> Result<Client, DaemonError> {
        if self.token_file.is_some() && !carries_tokens(url) {
            let why = format!(
                "the token for {url} would be sent unencrypted; use https://, or remove its token_file and that of [calls]"
            );
            return Err(SecurityError::Settings(why).into());
        }
        Ok(Client::new(url, self.options.clone())?)
    }

    /// Reads the token file again. Returns whether the token changed. If it cannot be read, the old token stays in
    /// use.
    pub(super) fn renew(&mut self) -> bool {
        match self.token() {
            Ok(token) if token != self.options.token => {
                self.options.token = token;
                true
            }
            Ok(_) => false,
            Err(why) => {
                tracing::warn!(event = "token_not_reloaded", "keeping the old token: {why}");
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
            let why = format!("the token file {} is empty; write a token to it", path.display());
            return Err(SecurityError::Settings(why));
        }
        Ok(Some(token))
    }
}
