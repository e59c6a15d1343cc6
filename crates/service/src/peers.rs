//! Carries the calls of a broker to its peers, and their answers back; asks peers again and again how they are ([`attend`]). Each
//! call is a task of its own with a time-out; a call that is still under way is not sent a second time, and at most so many are
//! under way to one peer, so that a peer that hangs costs a bounded amount of room. What is dropped here the head repeats.

use super::jobs::{Errand, What};
use crate::keeper::Door;
use crate::party::{Input, Origin};
use bookahead_client::{Client, ClientError, Options};
use bookahead_protocol::broker::Outgoing;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Answer, Call, Envelope, Key, Moment, Name};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::runtime::Handle;

/// So many calls may be under way to one peer.
const AT_ONCE: usize = 256;

/// How a peer is reached.
#[derive(Clone)]
pub struct Link {
    /// Its address.
    pub url: String,
    /// How.
    pub client: Client,
}

/// Carries calls to peers.
#[derive(Clone)]
pub struct Courier {
    runtime: Handle,
    door: Door,
    /// What is shown to those of whom nothing else is said.
    options: Arc<Mutex<Options>>,
    peers: Arc<Mutex<BTreeMap<Name, Way>>>,
    /// By which the broker knows a call that has come through it before.
    identity: Name,
}

struct Way {
    link: Link,
    /// Where it is and how it is spoken to was said by the operator, and nobody else may say otherwise.
    appointed: bool,
    under_way: BTreeSet<Key>,
}

impl Courier {
    /// One that knows nobody yet; answers go to a door. No other broker has the identity.
    pub fn new(runtime: Handle, door: Door, options: Options, identity: Name) -> Courier {
        Courier { runtime, door, options: Arc::new(Mutex::new(options)), peers: Arc::default(), identity }
    }

    /// By which the broker knows a call that has come through it before.
    pub fn identity(&self) -> &Name {
        &self.identity
    }

    /// The time of the broker.
    pub fn now(&self) -> Moment {
        self.door.clock().now()
    }

    fn peers(&self) -> MutexGuard<'_, BTreeMap<Name, Way>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn options(&self) -> MutexGuard<'_, Options> {
        self.options.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets to know where a peer is, unless the operator has said it.
    pub fn meet(&self, peer: &Name, url: &str) {
        if self.peers().get(peer).is_some_and(|way| way.appointed || way.link.url == url) {
            return;
        }
        let options = self.options().clone();
        if let Err(why) = self.reach(peer, url, options, false) {
            tracing::warn!(%peer, url, "cannot be reached: {why}");
        }
    }

    /// Gets to know from the operator where a peer is and how it is spoken to.
    pub fn appoint(&self, peer: &Name, url: &str, options: Options) -> Result<(), ClientError> {
        self.reach(peer, url, options, true)
    }

    /// From now on shows this to all peers of whom nothing else is said.
    pub fn show(&self, options: &Options) {
        self.options().clone_from(options);
        let met: Vec<(Name, String)> = self
            .peers()
            .iter()
            .filter(|(_, way)| !way.appointed)
            .map(|(name, way)| (name.clone(), way.link.url.clone()))
            .collect();
        for (peer, url) in met {
            if let Err(why) = self.reach(&peer, &url, options.clone(), false) {
                tracing::warn!(%peer, url, "is spoken to as before: {why}");
            }
        }
    }

    /// What is under way stays under way.
    fn reach(&self, peer: &Name, url: &str, options: Options, appointed: bool) -> Result<(), ClientError> {
        let client = Client::new(url, options)?.via(std::slice::from_ref(&self.identity));
        let link = Link { url: url.to_owned(), client };
        let mut peers = self.peers();
        let under_way = peers.remove(peer).map(|way| way.under_way).unwrap_or_default();
        peers.insert(peer.clone(), Way { link, appointed, under_way });
        Ok(())
    }

    /// All who are known.
    pub fn links(&self) -> Vec<(Name, Link)> {
        self.peers().iter().map(|(name, way)| (name.clone(), way.link.clone())).collect()
    }

    /// A client that tells through whom a call came: last through us.
    fn through(&self, client: &Client, via: &[Name]) -> Client {
        let via: Vec<Name> = via.iter().chain([&self.identity]).cloned().collect();
        client.via(&via)
    }

    /// Sends a call, and hands in the answer when it comes.
    pub(super) fn send(&self, outgoing: Outgoing, origin: Origin) {
        let Outgoing { to, envelope } = outgoing;
        let Some(client) = self.set_out(&to, envelope.key) else { return };
        let (courier, client) = (self.clone(), self.through(&client, &origin.via));
        self.runtime.spawn(async move {
            let answer = client.call(&envelope, origin.trace.as_deref()).await;
            if let Some(way) = courier.peers().get_mut(&to) {
                way.under_way.remove(&envelope.key);
            }
            if let Some(answer) = understood(&to, &envelope, answer) {
                let input = Input::Answered { from: to, key: envelope.key, answer, origin };
                courier.door.tell(input).await;
            }
        });
    }

    /// Does what is to be done for a job.
    pub(super) fn run(&self, errand: Errand) {
        let Errand { to, what, via } = errand;
        if let What::Call(envelope) = what {
            let origin = Origin { trace: None, via: via.into() };
            return self.send(Outgoing { to, envelope }, origin);
        }
        let Some((caller, id, asked)) = what.about() else { return };
        // One errand at a time for each job.
        let key = Key(id.0);
        let Some(client) = self.set_out(&to, key) else { return };
        let (courier, client) = (self.clone(), self.through(&client, &via).on_behalf_of(caller));
        self.runtime.spawn(async move {
            let answer = match &what {
                What::Submit(_, asked) => client.submit(asked, &key.to_string()).await,
                What::Look(..) | What::Call(_) => client.job(id).await,
                What::Drop(..) => client.cancel_job(id).await,
            };
            if let Some(way) = courier.peers().get_mut(&to) {
                way.under_way.remove(&key);
            }
            let answer = match answer {
                Ok(job) => Ok(Box::new(job)),
                Err(ClientError::Refused(problem)) => Err(*problem),
                Err(why) => return tracing::debug!(peer = %to, job = %id, "no answer: {why}"),
            };
            courier.door.tell(Input::JobAnswered { from: to, id, asked, answer }).await;
        });
    }

    /// Who is to be asked, unless that is under way or too much is.
    fn set_out(&self, to: &Name, key: Key) -> Option<Client> {
        let mut peers = self.peers();
        let way = peers.get_mut(to)?;
        let free = way.under_way.len() < AT_ONCE && way.under_way.insert(key);
        free.then(|| way.link.client.clone())
    }
}

/// What the head is told. Nothing where it should ask again.
fn understood(peer: &Name, envelope: &Envelope, answer: Result<Answer, ClientError>) -> Option<Answer> {
    match answer {
        Ok(answer) => Some(answer),
        Err(why) => {
            tracing::debug!(%peer, call = envelope.call.word(), "no answer: {why}");
            // Whoever cannot be reached offers nothing: nobody need wait to find out. Of everything that changes something
            // only an answer tells what became of it.
            let probe = matches!(envelope.call, Call::Probe { .. });
            (probe && why.was_not_sent()).then(|| Problem::new(Why::Silence).into())
        }
    }
}

/// How peers are looked after.
#[derive(Debug, Clone, Copy)]
pub struct Attention {
    /// How often each is asked how it is.
    pub every: Duration,
    /// After so many misses it counts as silent.
    pub misses: u32,
}

/// Asks every peer how it is, again and again, until the broker ends.
pub async fn attend(door: Door, courier: Courier, attention: Attention) {
    let mut missed: BTreeMap<Name, u32> = BTreeMap::new();
    let mut rounds = tokio::time::interval(attention.every);
    rounds.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        rounds.tick().await;
        let asked = courier.links().into_iter().map(|(name, link)| {
            tokio::spawn(async move {
                let began = std::time::Instant::now();
                let answer = link.client.sites().await;
                (name, link.url, answer, began.elapsed())
            })
        });
        for asked in asked.collect::<Vec<_>>() {
            let Ok((name, url, answer, took)) = asked.await else { continue };
            match answer.map(|sites| sites.sites.into_iter().next()) {
                Ok(Some(itself)) => {
                    missed.remove(&name);
                    let heartbeat = heartbeat(&name, url, itself);
                    let round_trip = u64::try_from(took.as_millis()).ok();
                    let heard = |reply| Input::Heard { heartbeat, round_trip, reply };
                    let told = door.ask(attention.every, heard).await;
                    if let Ok(Err(problem)) = told {
                        tracing::warn!(peer = %name, "cannot be registered: {}", problem.detail);
                    }
                }
                other => {
                    let misses = missed.entry(name.clone()).or_default();
                    *misses += 1;
                    if *misses == 1 && is_itself(&other) {
                        tracing::warn!(peer = %name, url, "is this broker itself; take it out of the peers");
                    }
                    tracing::debug!(peer = %name, misses, "did not say how it is: {:?}", other.err());
                    if *misses >= attention.misses {
                        door.tell(Input::Silent { peer: name }).await;
                    }
                }
            }
        }
    }
}

/// Whether a peer says that it has been asked by itself.
fn is_itself<T>(answer: &Result<T, ClientError>) -> bool {
    let problem = answer.as_ref().err().and_then(ClientError::problem);
    problem.is_some_and(|problem| problem.code == api::Code::Circle.word())
}

fn heartbeat(name: &Name, url: String, itself: api::Site) -> api::Heartbeat {
    if itself.name != *name {
        tracing::debug!(peer = %name, calls_itself = %itself.name, "is known here by another name");
    }
    api::Heartbeat {
        name: name.clone(),
        url,
        role: itself.role,
        resources: itself.resources,
        attributes: itself.attributes,
        loads: itself.loads,
        version: itself.version,
    }
}
