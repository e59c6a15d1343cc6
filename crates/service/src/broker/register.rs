//! The register of a broker: who can be asked, where, what they offer, and when they were last heard of. Some are named in
//! the configuration, others introduce themselves; from then on all are looked after alike ([`attend`]).

use super::courier::Courier;
use crate::keeper::Door;
use crate::party::Input;
use bookahead_api as api;
use bookahead_client::ClientError;
use bookahead_protocol::broker::name_here;
use bookahead_protocol::{Moment, Name, Resource};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A broker has at most so many peers.
const MOST_PEERS: usize = 10_000;

/// A peer.
#[derive(Debug, Clone)]
pub struct Peer {
    /// Its name.
    pub name: Name,
    /// Where it is.
    pub url: String,
    /// What it offers.
    pub resources: Vec<Resource>,
    /// What it says of itself.
    pub about: api::Heartbeat,
    /// When it was last heard of.
    pub heard: Moment,
    /// How long it took to ask it, in milliseconds.
    pub round_trip: Option<u64>,
    /// Whether it can be asked.
    pub up: bool,
}

/// All peers.
#[derive(Debug, Default)]
pub struct Register {
    peers: BTreeMap<Name, Peer>,
    /// Those that the configuration names.
    named: BTreeSet<Name>,
    /// Whether others may introduce themselves.
    open: bool,
}

impl Register {
    /// Without peers; where it is not open only those that the configuration names may be in it.
    pub fn new(named: BTreeSet<Name>, open: bool) -> Register {
        Register { peers: BTreeMap::new(), named, open }
    }

    /// Those that can be asked, with what they offer.
    pub(super) fn up(&self) -> impl Iterator<Item = (&Name, &[Resource])> {
        self.peers.values().filter(|peer| peer.up).map(|peer| (&peer.name, peer.resources.as_slice()))
    }

    /// What the broker offers, by names that begin with those of its peers, and through whom that is reached.
    pub(super) fn offered(&self, broker: &Name) -> Vec<api::Resource> {
        let up = self.peers.values().filter(|peer| peer.up);
        let offered = up.flat_map(|peer| peer.about.resources.iter().map(move |one| (peer, one)));
        let here = offered.map(|(peer, one)| api::Resource {
            name: name_here(&peer.name, &one.name),
            through: std::iter::once(broker).chain(&one.through).cloned().collect(),
            ..one.clone()
        });
        here.collect()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    /// A peer says that it is there.
    pub(super) fn heard(
        &mut self,
        now: Moment,
        said: api::Heartbeat,
        round_trip: Option<u64>,
    ) -> Result<&Peer, api::Problem> {
        let name = said.name.clone();
        if !self.named.contains(&name) && !self.open {
            let why =
                format!("{name} is not named in this broker's configuration, and others may not register");
            return Err(api::Problem::new(api::Code::Forbidden, why));
        }
        if !self.peers.contains_key(&name) && self.peers.len() >= MOST_PEERS {
            return Err(api::Problem::new(
                api::Code::Forbidden,
                format!("there are {MOST_PEERS} peers already"),
            ));
        }
        let resources = said.resources.iter().cloned().map(Resource::from).collect();
        let url = said.url.clone();
        // One that is silent when it is asked must answer again before it counts as up, whatever it says of itself.
        let up = round_trip.is_some() || self.peers.get(&name).is_none_or(|known| known.up);
        let peer = Peer { name: name.clone(), url, resources, about: said, heard: now, round_trip, up };
        Ok(self.peers.entry(name).insert_entry(peer).into_mut())
    }

    /// A peer has not been heard of for too long.
    pub(super) fn silent(&mut self, peer: &Name) {
        if let Some(peer) = self.peers.get_mut(peer) {
            if peer.up {
                tracing::warn!(peer = %peer.name, "is silent, and is asked nothing new");
            }
            peer.up = false;
        }
    }
}

/// What a peer says, without what would be reached through the broker that hears it: brokers that know each other would else
/// tell each other of their own resources, under ever longer names.
pub(super) fn without_circles(mut said: api::Heartbeat, broker: &Name) -> api::Heartbeat {
    said.resources.retain(|resource| {
        !resource.through.contains(broker) && resource.through.len() < api::header::MOST_VIA
    });
    let offered: BTreeSet<&Name> = said.resources.iter().map(|resource| &resource.name).collect();
    said.loads.retain(|load| offered.contains(&load.resource));
    said
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
