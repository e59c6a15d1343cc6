//! What parties tell of themselves and of each other (what they offer, how busy they are, how long a hold takes them), and the
//! register of a broker: who can be asked, where, what they offer, and when they were last heard of. Some are named in the
//! configuration, others introduce themselves. A register is not journalled: whoever is there says so again.

use bookahead_plan::Time;
use bookahead_protocol::broker::name_here;
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{Millis, Moment, Name, ReservationId, Resource, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a party is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// An owner of resources.
    Site,
    /// Books at others, and is asked like a site.
    Broker,
}

/// What a party says of itself, to those who register it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// Its name.
    pub name: Name,
    /// Where it can be asked.
    pub url: String,
    /// At a broker that authenticates its callers: the subject of the token, or the account, with which a peer registered itself at this
    /// address. The broker's tokens for it are for this subject. It is never sent.
    pub registered_by: Option<Name>,
    /// What it is.
    pub role: Role,
    /// What it offers.
    pub resources: Vec<OfferedResource>,
    /// What else there is to know of it.
    pub attributes: BTreeMap<Name, Value>,
    /// How much is asked of its resources at the moment.
    pub loads: Vec<Load>,
    /// How long a hold takes it of late, where it tells.
    pub hold_takes: Option<Millis>,
    /// What has changed of what it promised, where it tells.
    pub changes: Option<Arc<Changes>>,
    /// The version of its software.
    pub version: Option<String>,
}

/// What has changed of what a party promised, in this life of it: brokers that booked it ask how it is now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// When this life began, which tells it from others.
    pub epoch: Moment,
    /// How many changes there were.
    pub number: u64,
    /// The reservations that were changed last, the newest last; at most [`MOST_CHANGES`].
    pub recent: VecDeque<ReservationId>,
}

/// As many changes are told one by one: more than happen between two heartbeats of a busy site, in a few kilobytes.
pub const MOST_CHANGES: usize = 256;

impl Changes {
    /// In a life that begins now.
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

    /// What has changed since `before` was told; None where that cannot be said.
    pub(crate) fn since(&self, before: Option<&Changes>) -> Option<Vec<ReservationId>> {
        let before = before.filter(|before| before.epoch == self.epoch)?;
        let new = usize::try_from(self.number.checked_sub(before.number)?).ok()?;
        let first = self.recent.len().checked_sub(new)?;
        Some(self.recent.range(first..).copied().collect())
    }
}

/// A resource, and the brokers through which it is reached from whoever tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OfferedResource {
    /// What it is.
    pub resource: Resource,
    /// The identities of those brokers, the nearest first; none of a site's own.
    pub through: Vec<Name>,
}

/// How much is asked of a resource at the moment: what a job broker chooses by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Which resource.
    pub resource: Name,
    /// How many jobs run.
    pub running_jobs: u32,
    /// How many jobs wait.
    pub waiting_jobs: u32,
    /// The capacity that all of them have asked for together.
    pub requested: u64,
    /// The longest that any of them may still run, in seconds.
    pub longest_wall_time_seconds: i64,
}

/// A party as another knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// What it says of itself.
    pub said: Heartbeat,
    /// When it was last heard of.
    pub last_heard: Option<Time>,
    /// How long a call there and back took of late.
    pub round_trip: Option<Millis>,
    /// Whether it can be asked.
    pub up: bool,
}

/// A broker has at most this many peers: enough for any grid, and few enough that a stranger cannot fill the memory.
const MOST_PEERS: usize = 10_000;

/// A call comes through at most eight brokers, so that nothing further away can be reached.
const MOST_THROUGH: usize = 8;

/// What a broker's own work adds to the hold of a peer: a search and a few events of its journal.
const OWN_WORK: Millis = Millis(50);

/// All peers of a broker.
#[derive(Debug, Clone)]
pub(super) struct Register {
    /// By which the broker knows a call that has come through it before.
    identity: Name,
    peers: BTreeMap<Name, Arc<Known>>,
    /// Those that the configuration names.
    named: BTreeSet<Name>,
    /// Whether others may introduce themselves.
    open: bool,
}

impl Register {
    pub(super) fn new(identity: Name, named: BTreeSet<Name>, open: bool) -> Register {
        Register { identity, peers: BTreeMap::new(), named, open }
    }

    /// All of them, in the order of their names.
    pub(super) fn all(&self) -> impl Iterator<Item = &Known> {
        self.peers.values().map(|known| &**known)
    }

    /// Those that can be asked.
    pub(super) fn up(&self) -> impl Iterator<Item = &Known> {
        self.all().filter(|known| known.up)
    }

    pub(super) fn get(&self, peer: &Name) -> Option<&Known> {
        self.peers.get(peer).map(|known| &**known)
    }

    /// What the broker offers, by names that begin with those of its peers, and through whom that is reached.
    pub(super) fn offered(&self) -> impl Iterator<Item = OfferedResource> {
        let all = self.up().flat_map(|known| known.said.resources.iter().map(|one| (&known.said.name, one)));
        all.map(|(peer, one)| OfferedResource {
            resource: Resource { name: name_here(peer, &one.resource.name), ..one.resource.clone() },
            through: std::iter::once(&self.identity).chain(&one.through).cloned().collect(),
        })
    }

    /// How long a hold takes the broker: as long as the slowest of its peers that tells, and its own work and two round trips
    /// on top, of the probe and of the hold.
    pub(super) fn hold_takes(&self) -> Option<Millis> {
        let takes = |known: &Known| {
            let trip = known.round_trip.unwrap_or(Millis::ZERO);
            known.said.hold_takes.map(|takes| takes + trip + trip)
        };
        self.up().filter_map(takes).max().map(|longest| longest + OWN_WORK)
    }

    /// A peer says that it is there. Whether it can be asked from now on, and could not before.
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
                "{name} is not named in this broker's configuration, and others may not register"
            ));
        }
        let before = self.peers.get(&name);
        if before.is_none() && self.peers.len() >= MOST_PEERS {
            return refused(format!("there are {MOST_PEERS} peers already"));
        }
        let was_up = before.map(|known| known.up);
        // One that is silent when it is asked must answer again before it counts as up, whatever it says of itself.
        let up = round_trip.is_some() || was_up.unwrap_or(true);
        let took = round_trip.and_then(|took| i64::try_from(took).ok()).map(Millis);
        let round_trip = took.or(before.and_then(|known| known.round_trip));
        let said = self.without_circles(said);
        let known = Known { said, last_heard: Some(now.second()), round_trip, up };
        self.peers.insert(name, Arc::new(known));
        Ok(up && was_up != Some(true))
    }

    /// A peer has not answered for too long. Whether it could be asked until now.
    pub(super) fn silent(&mut self, peer: &Name) -> bool {
        match self.peers.get_mut(peer).filter(|known| known.up) {
            Some(known) => {
                Arc::make_mut(known).up = false;
                true
            }
            None => false,
        }
    }

    /// What a peer says, without what would be reached through this broker: brokers that know each other would otherwise tell
    /// each other of their own resources, under ever longer names.
    fn without_circles(&self, mut said: Heartbeat) -> Heartbeat {
        said.resources
            .retain(|one| !one.through.contains(&self.identity) && one.through.len() < MOST_THROUGH);
        let offered: BTreeSet<&Name> = said.resources.iter().map(|one| &one.resource.name).collect();
        said.loads.retain(|load| offered.contains(&load.resource));
        said
    }
}
