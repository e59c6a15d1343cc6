//! Calls of a broker to its peers, and heartbeats. Each call is a task of its own with a time-out; a call that is under way is
//! not sent a second time, and at most [`AT_ONCE`] are under way to one peer, so that a peer that hangs costs a bounded amount
//! of memory. Nothing is repeated here: what gets no answer, the broker sends again.

use crate::http::answer;
use crate::thread::{PartyHandle, ReadKind};
use bookahead_api as api;
use bookahead_client::{Client, ClientError, Options};
use bookahead_party::{Input, JobCall, Origin, PeerCall, PeerRequest};
use bookahead_protocol::jobs::JobRequest;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Caller, Envelope, JobId, Key, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Calls under way to one peer: more than any negotiation makes at once.
const AT_ONCE: usize = 256;

/// A peer says what it offers from memory; one that takes longer than this has more trouble than that.
const HEARTBEAT_WITHIN: Duration = Duration::from_secs(10);

/// Makes calls to peers. Clones share everything.
#[derive(Clone)]
pub struct PeerCalls {
    runtime: Handle,
    party: PartyHandle,
    /// For peers that the configuration does not name.
    options: Arc<Mutex<Options>>,
    peers: Arc<Mutex<BTreeMap<Name, Peer>>>,
    /// By which the broker knows a call that has come through it before.
    identity: Name,
}

struct Peer {
    url: String,
    client: Client,
    /// Whether the configuration names it: then its address and credentials stay as configured, whatever it says.
    configured: bool,
    under_way: BTreeSet<Key>,
}

impl PeerCalls {
    /// For a broker with this identity, which no other broker has. Answers go to the party.
    pub fn new(runtime: Handle, party: PartyHandle, options: Options, identity: Name) -> PeerCalls {
        PeerCalls { runtime, party, options: Arc::new(Mutex::new(options)), peers: Arc::default(), identity }
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<Name, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names a peer of the configuration, or gives it new credentials.
    pub fn configure(&self, peer: &Name, url: &str, options: Options) -> Result<(), ClientError> {
        self.connect(peer, url, options, true)
    }

    /// Gives new credentials for all peers that the configuration does not name.
    pub fn set_default_options(&self, options: &Options) {
        self.options().clone_from(options);
        let registered: Vec<(Name, String)> = self
            .peers()
            .iter()
            .filter(|(_, peer)| !peer.configured)
            .map(|(name, peer)| (name.clone(), peer.url.clone()))
            .collect();
        for (peer, url) in registered {
            if let Err(why) = self.connect(&peer, &url, options.clone(), false) {
                let event = "peer_credentials_kept";
                tracing::warn!(event, %peer, url, "the old credentials stay in use: {why}");
            }
        }
    }

    /// Learns the addresses of peers that have registered.
    fn learn_registered(&self) {
        let known = self.party.read(ReadKind::Short, |queries, now| queries.sites(now));
        // The first is the broker itself.
        for peer in known.into_iter().skip(1) {
            let (name, url) = (peer.said.name, peer.said.url);
            if self.peers().get(&name).is_some_and(|known| known.configured || known.url == url) {
                continue;
            }
            let options = self.options().clone();
            if let Err(why) = self.connect(&name, &url, options, false) {
                tracing::warn!(event = "peer_unusable", peer = %name, url, "cannot be called: {why}");
            }
        }
    }

    /// Calls that are under way stay under way.
    fn connect(&self, peer: &Name, url: &str, options: Options, configured: bool) -> Result<(), ClientError> {
        let client = Client::new(url, options)?.via(std::slice::from_ref(&self.identity));
        let mut peers = self.peers();
        let under_way = peers.remove(peer).map(|known| known.under_way).unwrap_or_default();
        peers.insert(peer.clone(), Peer { url: url.to_owned(), client, configured, under_way });
        Ok(())
    }

    /// Makes a call, and hands the answer to the party when it comes.
    pub fn send(&self, call: PeerCall) {
        let PeerCall { to, request, origin } = call;
        let key = match &request {
            PeerRequest::Call(envelope) => envelope.key,
            // One question at a time for each job.
            PeerRequest::Job { id, .. } => Key(id.0),
        };
        let Some(client) = self.begin(&to, key) else { return };
        let via: Vec<Name> = origin.via.iter().chain([&self.identity]).cloned().collect();
        let (peers, client) = (self.clone(), client.via(&via));
        self.runtime.spawn(async move {
            let input = match request {
                PeerRequest::Call(envelope) => ask(&client, &to, *envelope, origin).await,
                PeerRequest::Job { caller, id, ask, job } => {
                    ask_about_job(&client, &to, (caller, id, ask, job)).await
                }
            };
            let party = peers.party.clone();
            let ended = move || peers.ended(&to, key);
            match input {
                // While the answer waits for its turn the broker may repeat the call, which is then not sent.
                Some(input) => party.tell_answer(input, Box::new(ended)),
                None => ended(),
            }
        });
    }

    fn ended(&self, to: &Name, key: Key) {
        if let Some(peer) = self.peers().get_mut(to) {
            peer.under_way.remove(&key);
        }
    }

    /// The client of a peer, unless the call is under way already or too many are.
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

/// The answer to a call about a reservation; None where it should be sent again.
async fn ask(client: &Client, to: &Name, envelope: Envelope, origin: Origin) -> Option<Input> {
    let answer = match client.call(&envelope, origin.trace.as_deref()).await {
        Ok(answer) => answer,
        Err(why) => {
            tracing::debug!(event = "peer_call_failed", peer = %to, call = envelope.call.word(), "{why}");
            unreachable(&envelope.call, &why)?
        }
    };
    Some(Input::Answered { from: to.clone(), key: envelope.key, answer, origin })
}

/// A peer that cannot be reached offers nothing: nobody need wait to find out. Of everything that changes something only an
/// answer tells what became of it.
fn unreachable(call: &Call, why: &ClientError) -> Option<Answer> {
    let probe = matches!(call, Call::Probe { .. });
    (probe && why.was_not_sent()).then(|| Problem::new(Why::Silence).into())
}

/// The answer to a question about a job; None where it should be sent again.
async fn ask_about_job(
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
            tracing::debug!(event = "peer_call_failed", peer = %to, job = %id, "{why}");
            return None;
        }
    };
    Some(Input::JobAnswered { from: to.clone(), id, asked, answer })
}

/// A refusal as the broker understands it; None where the same call may be taken later.
fn refusal(problem: api::Problem) -> Option<Problem> {
    let (is_final, detail) = (problem.is_final(), problem.detail.clone());
    match Problem::try_from(problem) {
        Ok(problem) => Some(problem),
        Err(_) => is_final.then(|| Problem::new(Why::JobRefused(detail))),
    }
}

/// How peers are watched.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeats {
    /// How often each is asked how it is.
    pub every: Duration,
    /// After this many misses in a row it counts as silent.
    pub misses: u32,
}

/// Asks every peer how it is, again and again, until the broker ends.
pub async fn watch_peers(calls: PeerCalls, heartbeats: Heartbeats) {
    let mut missed: BTreeMap<Name, u32> = BTreeMap::new();
    let mut rounds = tokio::time::interval(heartbeats.every);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        calls.learn_registered();
        let clients: Vec<(Name, String, Client)> = calls
            .peers()
            .iter()
            .map(|(name, peer)| (name.clone(), peer.url.clone(), peer.client.clone()))
            .collect();
        let asked = clients.into_iter().map(|(name, url, client)| tokio::spawn(hear(name, url, client)));
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
                    if *misses == 1 {
                        log_miss(&name, &why);
                    }
                    if *misses >= heartbeats.misses {
                        calls.party.tell(Input::Silent { peer: name });
                    }
                }
            }
        }
    }
}

async fn hear(name: Name, url: String, client: Client) -> (Name, Result<Input, ClientError>) {
    let began = Instant::now();
    let late = || ClientError::TimedOut { url: url.clone(), after: HEARTBEAT_WITHIN };
    let answer = tokio::time::timeout(HEARTBEAT_WITHIN, client.sites()).await.unwrap_or_else(|_| Err(late()));
    let round_trip = u64::try_from(began.elapsed().as_millis()).ok();
    // A party comes first in its own list.
    let itself = answer.and_then(|sites| sites.sites.into_iter().next().ok_or_else(late));
    let heard = itself.map(|itself| {
        let heartbeat = Box::new(answer::heartbeat_of(&name, url, itself));
        Input::Heard { call: None, heartbeat, round_trip }
    });
    (name, heard)
}

fn log_miss(peer: &Name, why: &ClientError) {
    if why.problem().is_some_and(|problem| problem.code == api::Code::Circle.word()) {
        let event = "peer_is_itself";
        tracing::warn!(event, %peer, "this peer is the broker itself; take it out of the configuration");
    } else {
        tracing::debug!(event = "heartbeat_missed", %peer, "{why}");
    }
}
