//! Heartbeats of parties (their resources, load and hold times), and the register of a broker: its peers,
//! their addresses and resources, and when they were last heard. Some peers are named in the configuration,
//! others register themselves. The register is not journalled, because peers repeat their heartbeats.

use bookahead_plan::{Seconds, Time};
use bookahead_protocol::broker::name_here;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Millis, Moment, Name, Part, ReservationId, Resource, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Kinds of parties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Owns resources.
    Site,
    /// Books at peers; answers the same calls as a site.
    Broker,
}

/// A party's description of itself, sent to brokers that register it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its name.
    pub name: Name,
    /// Its address.
    pub url: String,
    /// At a broker that authenticates its callers: the token subject or account with which the peer
    /// registered this address. The broker's tokens for the peer are issued for this subject. Never sent.
    pub registered_by: Option<Name>,
    /// Site or broker.
    pub role: Role,
    /// The resources that it offers.
    pub resources: Vec<OfferedResource>,
    /// Further properties.
    pub attributes: BTreeMap<Name, Value>,
    /// Current load of its resources.
    pub loads: Vec<Load>,
    /// How long a hold takes it recently, if it reports that.
    pub hold_takes: Option<Millis>,
    /// Whether its batch system answers, if it has one.
    pub batch: Option<BatchState>,
    /// Recent changes of its reservations, if it reports them.
    pub changes: Option<Arc<Changes>>,
    /// Software version.
    pub version: Option<String>,
}

/// State of a batch system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BatchState {
    /// It answers.
    Ok,
    /// It takes long to answer.
    Slow,
    /// It does not answer.
    Silent,
}

impl Heartbeat {
    /// Site attribute that says that it runs no programs: its jobs only occupy their slots.
    pub const PROGRAMS: &'static str = "programs";
    /// Value of [`Heartbeat::PROGRAMS`] at such a site.
    pub const NO_PROGRAMS: &'static str = "none";

    /// Whether the sender says that it runs no programs.
    pub(crate) fn runs_no_programs(&self) -> bool {
        let said = self.attributes.get(&Name::from(Heartbeat::PROGRAMS));
        said == Some(&Value::Text(Heartbeat::NO_PROGRAMS.into()))
    }
}

/// Changes of a party's reservations since its start. Brokers query the reservations that they booked there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Start of the party. Numbers of different starts cannot be compared.
    pub epoch: Moment,
    /// Number of changes.
    pub number: u64,
    /// The reservations changed last, newest last; at most [`MOST_CHANGES`].
    pub recent: VecDeque<ReservationId>,
}

/// Most changes listed one by one: more than happen between two heartbeats of a busy site, in a few
/// kilobytes.
pub const MOST_CHANGES: usize = 256;

impl Changes {
    /// For a party that starts now.
    pub(crate) fn new(epoch: Moment) -> Changes {
        Changes { epoch, ..Changes::default() }
    }

    pub(crate) fn note(&mut self, id: ReservationId) {
        self.number += 1;
        if self.recent.len() == MOST_CHANGES {
            self.recent.pop_front();
        }
        self.recent.push_back(id);
    }

    /// The reservations changed since `before`. None if that is unknown: after a restart, or after too many
    /// changes.
    pub(crate) fn since(&self, before: Option<&Changes>) -> Option<Vec<ReservationId>> {
        let before = before.filter(|before| before.epoch == self.epoch)?;
        // A smaller number is an older heartbeat that arrived late; its list may lack newer changes.
        let new = usize::try_from(self.number.checked_sub(before.number)?).ok()?;
        let first = self.recent.len().checked_sub(new)?;
        Some(self.recent.range(first..).copied().collect())
    }
}

/// A resource and the brokers between it and the party that reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedResource {
    /// The resource.
    pub resource: Resource,
    /// Identities of these brokers, nearest first. Empty for a site's own resource.
    pub through: Vec<Name>,
}

/// Current load of a resource. Input of the ranking of sites for jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// The resource.
    pub resource: Name,
    /// Number of running jobs.
    pub running_jobs: u32,
    /// Number of waiting jobs.
    pub waiting_jobs: u32,
    /// Capacity requested by all of them together.
    pub requested: u64,
    /// The longest remaining time limit of these jobs, in seconds.
    pub longest_wall_time_seconds: i64,
}

/// A party as another one knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its last heartbeat.
    pub said: Heartbeat,
    /// When it was last heard.
    pub last_heard: Option<Time>,
    /// Last measured round trip.
    pub round_trip: Option<Millis>,
    /// Whether calls can be sent to it.
    pub up: bool,
}

/// Most peers of a broker: enough for any grid, and few enough that strangers cannot fill the memory.
const MOST_PEERS: usize = 10_000;

/// Most brokers between a broker and a resource. A call passes at most eight brokers, so resources further
/// away cannot be reached.
const MOST_THROUGH: usize = 8;

/// A broker's own share of a hold: one search and a few journal entries.
const OWN_WORK: Millis = Millis(50);

/// The peers of a broker.
#[derive(Debug, Clone)]
pub(super) struct Register {
    /// Identifies calls that already passed through this broker.
    identity: Name,
    peers: BTreeMap<Name, Arc<Known>>,
    /// Peers named in the configuration.
    named: BTreeSet<Name>,
    /// Whether other peers may register.
    open: bool,
}

impl Register {
    pub(super) fn new(identity: Name, named: BTreeSet<Name>, open: bool) -> Register {
        Register { identity, peers: BTreeMap::new(), named, open }
    }

    /// All peers by name.
    pub(super) fn all(&self) -> impl Iterator<Item = &Known> {
        self.peers.values().map(|known| &**known)
    }

    /// Peers that can be called.
    pub(super) fn up(&self) -> impl Iterator<Item = &Known> {
        self.all().filter(|known| known.up)
    }

    pub(super) fn get(&self, peer: &Name) -> Option<&Known> {
        self.peers.get(peer).map(|known| &**known)
    }

    /// The duration of a part on the slowest resource that suits it, whether its peer answers or not: a repeated request
    /// must stay the same.
    pub(super) fn longest(&self, part: &Part) -> Option<Seconds> {
        let all = self.all().flat_map(|known| known.said.resources.iter().map(move |one| (known, one)));
        let here = all.map(|(known, one)| Resource {
            name: name_here(&known.said.name, &one.resource.name),
            ..one.resource.clone()
        });
        here.filter(|resource| resource.suits(part)).filter_map(|resource| resource.duration(part)).max()
    }

    /// The resources of all peers, prefixed with the peer's name, and the brokers on the way.
    pub(super) fn offered(&self) -> impl Iterator<Item = OfferedResource> {
        let all = self.up().flat_map(|known| known.said.resources.iter().map(|one| (&known.said.name, one)));
        all.map(|(peer, one)| OfferedResource {
            resource: Resource { name: name_here(peer, &one.resource.name), ..one.resource.clone() },
            through: std::iter::once(&self.identity).chain(&one.through).cloned().collect(),
        })
    }

    /// How long a hold takes the broker: the slowest peer that reports it, plus two round trips (probe and
    /// hold), plus its own work.
    pub(super) fn hold_takes(&self) -> Option<Millis> {
        let takes = |known: &Known| {
            let trip = known.round_trip.unwrap_or(Millis::ZERO);
            known.said.hold_takes.map(|takes| takes + trip + trip)
        };
        // The slowest: a hold waits for all of its parts, and it is not known in advance who gets them.
        self.up().filter_map(takes).max().map(|longest| longest + OWN_WORK)
    }

    /// Handles a heartbeat. Returns whether the peer can be called now and could not before.
    pub(super) fn heard(
        &mut self,
        now: Moment,
        said: Heartbeat,
        round_trip: Option<u64>,
    ) -> Result<bool, Problem> {
        let name = said.name.clone();
        let refused = |why: String| Err(Problem::new(Why::NotAdmittedAsPeer(why)));
        if !self.named.contains(&name) && !self.open {
            return refused(format!(
                "{name} is not a peer in this broker's configuration, and registration is closed to others"
            ));
        }
        let before = self.peers.get(&name);
        if before.is_none() && self.peers.len() >= MOST_PEERS {
            return refused(format!("this broker already has the maximum of {MOST_PEERS} peers"));
        }
        let was_up = before.map(|known| known.up);
        // A silent peer must answer a query before it counts as up again: its heartbeats show only that it
        // can send.
        let up = round_trip.is_some() || was_up.unwrap_or(true);
        let took = round_trip.and_then(|took| i64::try_from(took).ok()).map(Millis);
        // A heartbeat that the peer sends by itself measures nothing, so the last measurement stays.
        let round_trip = took.or(before.and_then(|known| known.round_trip));
        let said = self.without_circles(said);
        let known = Known { said, last_heard: Some(now.second()), round_trip, up };
        self.peers.insert(name, Arc::new(known));
        Ok(up && was_up != Some(true))
    }

    /// Marks a peer as silent. Returns whether it was up.
    pub(super) fn silent(&mut self, peer: &Name) -> bool {
        match self.peers.get_mut(peer).filter(|known| known.up) {
            Some(known) => {
                // Copies for readers share the entry, so a shared one is cloned before it changes.
                Arc::make_mut(known).up = false;
                true
            }
            None => false,
        }
    }

    /// A heartbeat without resources that are reached through this broker. Otherwise brokers that are peers
    /// of each other would offer each other their own resources, under ever longer names.
    fn without_circles(&self, mut said: Heartbeat) -> Heartbeat {
        said.resources
            .retain(|one| !one.through.contains(&self.identity) && one.through.len() < MOST_THROUGH);
        let offered: BTreeSet<&Name> = said.resources.iter().map(|one| &one.resource.name).collect();
        said.loads.retain(|load| offered.contains(&load.resource));
        said
    }
}
