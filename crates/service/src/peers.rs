//! Calls of a broker to its peers, and heartbeats. Each call is a task with a timeout. A call in progress is not
//! sent again, and at most [`AT_ONCE`] calls to one peer are in progress, so that a hanging peer costs a bounded
//! amount of memory. Nothing is repeated here: the broker repeats calls without an answer.

use crate::clock::Clock;
use crate::daemon::numbered;
use crate::http::answer;
use crate::http::listener::UNIX;
use crate::peer_answers::{self, MOST_CALL_BYTES, MOST_LIST_BYTES, Unfit, plain};
use crate::peer_clock;
use crate::security::{CallsKey, carries_tokens};
use crate::thread::{PartyHandle, ReadKind};
use bookahead_api as api;
use bookahead_client::{Client, ClientError, JobOutput, Options, TokenMinter, internal_host};
use bookahead_party::{Heartbeat, Input, JobCall, Origin, PeerCall, PeerRequest};
use bookahead_protocol::jobs::JobRequest;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Caller, Envelope, JobId, Key, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::timeout;

/// Calls in progress to one peer: more than any negotiation needs at once.
const AT_ONCE: usize = 256;

/// Timeout of a heartbeat. A peer answers it from memory, so a slower one has problems.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(10);

/// How long a broker waits for the schedules of its peers: a picture without one of them is better than none.
const PICTURE_WITHIN: Duration = Duration::from_secs(2);

/// Rejected answers within this time of each other are logged once.
const REFUSAL_SPELL: Duration = Duration::from_secs(600);

/// Makes calls to peers. Clones share their state.
#[derive(Clone)]
pub struct PeerCalls {
    runtime: Handle,
    party: PartyHandle,
    /// For peers that are not in the configuration: without a token.
    options: Arc<Mutex<Options>>,
    /// Signs tokens for peers without a token file.
    key: Option<Arc<CallsKey>>,
    peers: Arc<Mutex<BTreeMap<Name, Peer>>>,
    /// Identity of the broker in the `via` list of calls.
    identity: Name,
}

struct Peer {
    url: String,
    client: Client,
    named: NamedBy,
    under_way: BTreeSet<Key>,
    /// When an answer of this peer was last rejected.
    refused: Option<Instant>,
}

/// How a broker knows a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
enum NamedBy {
    /// From the configuration. Its address and credentials stay as configured, regardless of its registrations.
    /// Tokens are minted for this audience.
    Configuration { audience: String },
    /// By its registration, with the token or certificate of this subject, if the broker authenticates. Tokens are
    /// minted for that subject only.
    Itself { subject: Option<Name> },
}

impl PeerCalls {
    /// `identity` is the unique identity of the broker. Answers go to the party. Peers that are not in the
    /// configuration are called with `options`; `key` signs the tokens for peers without a token file.
    pub fn new(
        runtime: Handle,
        party: PartyHandle,
        options: Options,
        identity: Name,
        key: Option<Arc<CallsKey>>,
    ) -> PeerCalls {
        PeerCalls {
            runtime,
            party,
            options: Arc::new(Mutex::new(options)),
            key,
            peers: Arc::default(),
            identity,
        }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<Name, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a configured peer, or changes its credentials.
    pub(crate) fn configure(
        &self,
        peer: &Name,
        url: &str,
        options: Options,
        audience: &str,
    ) -> Result<(), ClientError> {
        self.connect(peer, url, options, NamedBy::Configuration { audience: audience.to_owned() })
    }

    fn options(&self) -> Options {
        self.options.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the options for peers that are not in the configuration, also of those that are known.
    pub(crate) fn set_options(&self, options: &Options) {
        *self.options.lock().unwrap_or_else(PoisonError::into_inner) = options.clone();
        let registered = |(name, peer): (&Name, &Peer)| {
            let itself = matches!(peer.named, NamedBy::Itself { .. });
            itself.then(|| (name.clone(), peer.url.clone(), peer.named.clone()))
        };
        let known: Vec<_> = self.peers().iter().filter_map(registered).collect();
        for (name, url, named) in known {
            if let Err(why) = self.connect(&name, &url, options.clone(), named) {
                tracing::warn!(event = "peer_unusable", peer = %name, url, "cannot call this peer: {why}");
            }
        }
    }

    /// Refuses the address of a party that registers itself, if it may not have an internal one. A name is checked
    /// whenever it is resolved for a connection.
    pub(crate) fn admit(&self, name: &Name, url: &str) -> Result<(), Problem> {
        let configured = |peer: &Peer| matches!(peer.named, NamedBy::Configuration { .. });
        if !self.options().outside_only || self.peers().get(name).is_some_and(configured) {
            return Ok(());
        }
        let Some(address) = url.split(',').find_map(internal_host) else { return Ok(()) };
        Err(Problem::new(Why::NotAdmittedAsPeer(format!(
            "{name} registers {address}, an address of this machine or a private network; set its url to another one, \
             or, at the broker, open_to_private_addresses = true or a [[peer]]"
        ))))
    }

    /// Learns the addresses of registered peers.
    fn learn_registered(&self) {
        let known = self.party.read(ReadKind::Short, |queries, now| queries.sites(now));
        // The first entry is the broker itself.
        for peer in known.into_iter().skip(1) {
            let (name, url) = (peer.said.name, peer.said.url);
            let named = NamedBy::Itself { subject: peer.said.registered_by };
            let is_known = |known: &Peer| {
                matches!(known.named, NamedBy::Configuration { .. })
                    || (known.url == url && known.named == named)
            };
            if self.peers().get(&name).is_some_and(is_known) {
                continue;
            }
            if let Err(why) = self.connect(&name, &url, self.options(), named) {
                tracing::warn!(event = "peer_unusable", peer = %name, url, "cannot call this peer: {why}");
            }
        }
    }

    /// Creates or replaces the client of a peer. Calls in progress stay in progress.
    fn connect(
        &self,
        peer: &Name,
        url: &str,
        mut options: Options,
        named: NamedBy,
    ) -> Result<(), ClientError> {
        options.minter = self.minter(peer, url, &named);
        options.most_bytes = MOST_CALL_BYTES;
        let lease = self.party.lease();
        if lease.epoch() > 0 {
            // No call may outlast the lease; the broker repeats those without an answer.
            options.timeout = options.timeout.min(lease.longest_effect());
        }
        let client =
            numbered(Client::new(url, options)?, &self.party).via(std::slice::from_ref(&self.identity));
        let mut peers = self.peers();
        // New credentials must not let a call in progress be sent twice.
        let known = peers.remove(peer).map(|known| (known.under_way, known.refused));
        let (under_way, refused) = known.unwrap_or_default();
        peers.insert(peer.clone(), Peer { url: url.to_owned(), client, named, under_way, refused });
        Ok(())
    }

    /// Minter of the tokens for a peer. `None` if it gets none.
    fn minter(&self, peer: &Name, url: &str, named: &NamedBy) -> Option<TokenMinter> {
        let key = self.key.as_ref()?;
        // On a Unix socket the account of the broker identifies it.
        if url.starts_with(UNIX) {
            return None;
        }
        let audience = match named {
            NamedBy::Configuration { audience } => audience.as_str(),
            NamedBy::Itself { subject } => subject.as_ref().unwrap_or(peer).as_str(),
        };
        if !carries_tokens(url) {
            let event = "peer_without_token";
            tracing::warn!(event, %peer, url, "no token is sent, because it would be unencrypted; use https");
            return None;
        }
        // A peer must not get tokens for a configured peer by registering under another name.
        let is_anothers = |known: &Peer| matches!(&known.named, NamedBy::Configuration { audience: its } if its == audience);
        if matches!(named, NamedBy::Itself { .. }) && self.peers().values().any(is_anothers) {
            let event = "peer_without_token";
            tracing::warn!(event, %peer, audience, "no token is sent, because its audience is that of a configured peer");
            return None;
        }
        Some(key.minter(audience))
    }

    /// Makes a call, and passes the answer to the party.
    pub fn send(&self, call: PeerCall) {
        let PeerCall { to, request, origin } = call;
        if !self.party.lease().allows(self.party.lease().longest_effect()) {
            // The broker repeats it once the lease is renewed. Without a lease, the next process does.
            return;
        }
        let key = match &request {
            PeerRequest::Call(envelope) => envelope.key,
            // One call at a time for each job.
            PeerRequest::Job { id, .. } => Key(id.0),
        };
        let Some(client) = self.begin(&to, key) else { return };
        let via: Vec<Name> = origin.via.iter().chain([&self.identity]).cloned().collect();
        let (peers, client) = (self.clone(), client.via(&via));
        self.runtime.spawn(async move {
            let input = match request {
                PeerRequest::Call(envelope) => peers.ask(&client, &to, *envelope, origin).await,
                PeerRequest::Job { caller, id, ask, job } => {
                    peers.ask_about_job(&client, &to, (caller, id, ask, job)).await
                }
            };
            let party = peers.party.clone();
            let ended = move || peers.ended(&to, key);
            match input {
                // While the answer waits in the inbox, the broker may repeat the call. The key stays in use, so the
                // repetition is not sent.
                Some(input) => party.tell_answer(input, Box::new(ended)),
                None => ended(),
            }
        });
    }

    /// Reads the output of a job at a peer. None if the peer is not known.
    pub async fn job_output(
        &self,
        to: &Name,
        caller: &Caller,
        origin: &Origin,
        (id, stream, from): (JobId, api::OutputStream, u64),
    ) -> Option<Result<JobOutput, ClientError>> {
        let client = self.asking(to, caller, origin)?;
        Some(client.job_output(id, stream, from).await)
    }

    /// A client for a query on behalf of a caller. None if the peer is not known.
    fn asking(&self, to: &Name, caller: &Caller, origin: &Origin) -> Option<Client> {
        if !self.peers().contains_key(to) {
            self.learn_registered();
        }
        let client = self.peers().get(to)?.client.clone();
        let via: Vec<Name> = origin.via.iter().chain([&self.identity]).cloned().collect();
        Some(client.via(&via).on_behalf_of(caller))
    }

    /// Schedules of these resources, from the peers that answer soon enough.
    pub async fn schedules(
        &self,
        resources: &[Name],
        caller: &Caller,
        origin: &Origin,
        query: &api::ScheduleQuery,
    ) -> BTreeMap<Name, api::ResourceSchedule> {
        let peers: BTreeSet<Name> =
            resources.iter().filter_map(|name| Some(name.as_str().split_once('/')?.0.into())).collect();
        let mut asked = JoinSet::new();
        for peer in peers {
            let Some(client) = self.asking(&peer, caller, origin) else { continue };
            let (client, query) = (client.with_most_bytes(MOST_LIST_BYTES), query.clone());
            asked.spawn(async move {
                let answer = timeout(PICTURE_WITHIN, client.schedule(&query)).await;
                (peer, answer.ok().and_then(Result::ok))
            });
        }
        let mut schedules = BTreeMap::new();
        while let Some(answered) = asked.join_next().await {
            let Ok((peer, Some(schedule))) = answered else { continue };
            for mut one in schedule.resources {
                let name = Name::from(format!("{peer}/{}", one.resource));
                // A peer answers for its own resources only.
                if resources.contains(&name) {
                    one.blocks.iter_mut().for_each(|block| block.name = block.name.as_deref().map(plain));
                    schedules.insert(name, one);
                }
            }
        }
        schedules
    }

    /// What a slot would do to the waiting jobs at the peer that owns the resource. None if it is not known.
    pub async fn what_if(
        &self,
        caller: &Caller,
        origin: &Origin,
        slot: &api::TrySlot,
    ) -> Option<Result<api::WhatIf, ClientError>> {
        let (peer, there) = slot.resource.as_str().split_once('/')?;
        let client = self.asking(&peer.into(), caller, origin)?.with_most_bytes(MOST_LIST_BYTES);
        let asked = api::TrySlot { resource: there.into(), ..slot.clone() };
        let answer = client.what_if(&asked).await;
        Some(answer.map(|plans| api::WhatIf { resource: slot.resource.clone(), ..plans }))
    }

    fn ended(&self, to: &Name, key: Key) {
        if let Some(peer) = self.peers().get_mut(to) {
            peer.under_way.remove(&key);
        }
    }

    /// The client of a peer, unless the call is in progress or too many are.
    fn begin(&self, to: &Name, key: Key) -> Option<Client> {
        if !self.peers().contains_key(to) {
            self.learn_registered();
        }
        let mut peers = self.peers();
        let peer = peers.get_mut(to)?;
        let free = peer.under_way.len() < AT_ONCE && peer.under_way.insert(key);
        free.then(|| peer.client.clone())
    }
}

impl PeerCalls {
    /// The answer to a call about a reservation. `None` if the broker should repeat the call.
    async fn ask(&self, client: &Client, to: &Name, envelope: Envelope, origin: Origin) -> Option<Input> {
        let call = &envelope.call;
        let answer = match client.call(&envelope, origin.trace.as_deref()).await {
            Ok(answer) => match peer_answers::checked(answer) {
                Ok(answer) => answer,
                Err(unfit) => {
                    self.refuse(to, &unfit);
                    no_answer(call, true)?
                }
            },
            Err(why) => {
                self.note_failure(to, call.word(), &why);
                no_answer(call, why.was_not_sent() || is_too_large(&why))?
            }
        };
        Some(Input::Answered { from: to.clone(), key: envelope.key, answer, origin })
    }

    /// The answer to a call about a job. `None` if the broker should repeat the call.
    async fn ask_about_job(
        &self,
        client: &Client,
        to: &Name,
        (caller, id, asked, job): (Caller, JobId, JobCall, Option<Box<JobRequest>>),
    ) -> Option<Input> {
        let client = client.on_behalf_of(&caller);
        let answer = match asked {
            JobCall::Submit => {
                let document = api::SubmitJob { id: Some(id), ..api::SubmitJob::try_from(*job?).ok()? };
                client.submit(&document, &Key(id.0).to_string()).await
            }
            JobCall::Look => client.job(id).await,
            JobCall::Go => client.go(id).await,
            JobCall::Drop => client.cancel_job(id).await,
        };
        let answer = match answer {
            Ok(job) => Ok(Box::new(job.into())),
            Err(ClientError::Refused(problem)) => Err(refusal(*problem)?),
            Err(why) => {
                self.note_failure(to, "job", &why);
                return None;
            }
        };
        let answer = peer_answers::checked_job(answer).map_err(|unfit| self.refuse(to, &unfit)).ok()?;
        Some(Input::JobAnswered { from: to.clone(), id, asked, answer })
    }

    fn note_failure(&self, peer: &Name, call: &str, why: &ClientError) {
        if is_too_large(why) {
            return self.refuse(peer, &why.to_string());
        }
        let why = peer_answers::plain(&why.to_string());
        tracing::debug!(event = "peer_call_failed", %peer, call, "{why}");
    }

    /// Logs a rejected answer, once for a series of them, so that a peer cannot fill the log.
    fn refuse(&self, peer: &Name, why: &str) {
        let mut peers = self.peers();
        let Some(known) = peers.get_mut(peer) else { return };
        let before = known.refused.replace(Instant::now());
        let why = peer_answers::plain(why);
        if before.is_none_or(|before| before.elapsed() > REFUSAL_SPELL) {
            let event = "peer_answer_refused";
            tracing::warn!(event, %peer, "answer rejected: {why}; check the software of this peer");
        } else {
            tracing::debug!(event = "peer_answer_refused_again", %peer, "{why}");
        }
    }
}

fn is_too_large(why: &ClientError) -> bool {
    matches!(why, ClientError::TooLarge { .. })
}

/// Substitute for an answer that is unusable or cannot arrive. A probe without an answer offers nothing, and the
/// survey need not wait. After a call that changes something, only a real answer tells its outcome.
fn no_answer(call: &Call, is_known: bool) -> Option<Answer> {
    let probe = matches!(call, Call::Probe { .. });
    (probe && is_known).then(|| Problem::new(Why::Silence).into())
}

/// A refusal in terms of the protocol. `None` if a repetition may succeed.
fn refusal(problem: api::Problem) -> Option<Problem> {
    let (is_final, detail) = (problem.is_final(), problem.detail.clone());
    match Problem::try_from(problem) {
        Ok(problem) => Some(problem),
        Err(_) => is_final.then(|| Problem::new(Why::JobRefused(detail))),
    }
}

/// How peers are watched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Heartbeats {
    /// Interval of heartbeats.
    pub(crate) every: Duration,
    /// Consecutive misses after which a peer counts as silent.
    pub(crate) misses: u32,
}

/// Queries every peer periodically until the broker ends.
pub(crate) async fn watch_peers(calls: PeerCalls, heartbeats: Heartbeats) {
    let mut missed: BTreeMap<Name, u32> = BTreeMap::new();
    let mut rounds = tokio::time::interval(heartbeats.every);
    // A slow round must not be followed by a burst of others.
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        calls.learn_registered();
        let clients: Vec<(Name, Contact)> = calls
            .peers()
            .iter()
            .map(|(name, peer)| (name.clone(), peer.contact(calls.party.clock())))
            .collect();
        let asked = clients.into_iter().map(|(name, contact)| tokio::spawn(hear(name, contact)));
        for asked in asked.collect::<Vec<_>>() {
            let Ok((name, heard)) = asked.await else { continue };
            let misses = missed.entry(name.clone()).or_default();
            match heard {
                Ok(heard) => {
                    *misses = 0;
                    calls.party.tell(heard);
                }
                Err(why) => {
                    *misses += 1;
                    match why {
                        Missed::Unfit(unfit) => calls.refuse(&name, &unfit),
                        // Only the first miss: a peer that is down for days would fill the log.
                        Missed::Failed(why) if *misses == 1 => log_miss(&name, &why),
                        Missed::Failed(_) => {}
                    }
                    if *misses >= heartbeats.misses {
                        calls.party.tell(Input::Silent { peer: name });
                    }
                }
            }
        }
    }
}

/// Everything needed for a heartbeat of a peer.
struct Contact {
    url: String,
    client: Client,
    /// Clock to compare with. A self-registered peer must not confirm it.
    clock: Option<Clock>,
    /// Kept with the address: tokens for one subject must never be sent to the address of another.
    registered_by: Option<Name>,
}

impl Peer {
    fn contact(&self, clock: Clock) -> Contact {
        let (registered_by, clock) = match &self.named {
            NamedBy::Configuration { .. } => (None, Some(clock)),
            NamedBy::Itself { subject } => (subject.clone(), None),
        };
        Contact { url: self.url.clone(), client: self.client.clone(), clock, registered_by }
    }
}

/// Why there was no heartbeat.
enum Missed {
    Failed(ClientError),
    /// It answered, but the answer was rejected.
    Unfit(Unfit),
}

async fn hear(name: Name, contact: Contact) -> (Name, Result<Input, Missed>) {
    let Contact { url, client, clock, registered_by } = contact;
    let began = Instant::now();
    let late = || ClientError::TimedOut { url: url.clone(), after: HEARTBEAT_WITHIN };
    let client = client.with_most_bytes(MOST_LIST_BYTES);
    let answer = tokio::time::timeout(HEARTBEAT_WITHIN, client.sites()).await.unwrap_or_else(|_| Err(late()));
    let round_trip = u64::try_from(began.elapsed().as_millis()).ok();
    // A party comes first in its own list.
    let itself = match answer {
        Ok(sites) => sites.sites.into_iter().next().ok_or_else(|| Missed::Failed(late())),
        Err(why) if is_too_large(&why) => Err(Missed::Unfit(why.to_string())),
        Err(why) => Err(Missed::Failed(why)),
    };
    let heard = itself.and_then(|itself| {
        let said = answer::heartbeat_of(&name, url, itself);
        peer_answers::check_heartbeat(&said).map_err(Missed::Unfit)?;
        clock.iter().for_each(|clock| peer_clock::compare(*clock, &client));
        let heartbeat = Box::new(Heartbeat { registered_by, ..answer::heartbeat_from(said) });
        Ok(Input::Heard { call: None, heartbeat, round_trip })
    });
    (name, heard)
}

fn log_miss(peer: &Name, why: &ClientError) {
    if why.problem().is_some_and(|problem| problem.code == api::Code::Circle.word()) {
        let event = "peer_is_itself";
        tracing::warn!(event, %peer, "this peer is the broker itself; remove it from the configuration");
    } else {
        let why = peer_answers::plain(&why.to_string());
        tracing::debug!(event = "heartbeat_missed", %peer, "{why}");
    }
}
