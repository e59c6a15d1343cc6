//! A simulated grid: sites, brokers and clients exchange messages in virtual time over a network that delays, loses,
//! doubles and partitions. Parties crash and restart from their journals, and the batch systems behind sites fail. All
//! decisions are made by the code that the daemons run: [`bookahead_party`].
//!
//! - [`site`], [`client`]: the parties; [`host`]: runs a party like the daemon's threads, and deliberate defects
//! - [`batch`], [`external`], [`cluster`], `guests`: the batch system of a site, and its jobs
//! - `clocks`: system clocks that are wrong at a start
//! - [`network`], [`drive`]: messages and their delivery; [`trouble`]: faults
//! - [`work`]: the time that parties need for their decisions, none by default
//! - [`log`]: rows and counts for diagrams and tables
//! - [`witness`], `verdict`: the invariants, checked during and after a run
//! - [`faults`]: random grids with random faults; [`scale`]: large grids under load
//!
//! A run depends only on the description and one seed.

pub mod batch;
pub mod client;
mod clocks;
pub mod cluster;
pub mod drive;
pub mod external;
pub mod faults;
mod guests;
mod healing;
pub mod host;
pub mod log;
pub mod network;
pub mod scale;
pub mod site;
pub mod trouble;
mod verdict;
pub mod witness;
pub mod work;

pub use batch::Batch;
pub use client::{Client, Record, Step, Wish};
pub use cluster::Cluster;
pub use host::{Disk, Flaw, Host};
pub use log::{CrashPoint, Kind, Log, Row, Tally, What};
pub use network::Message;
pub use site::{Broker, Site};
pub use trouble::Trouble;
pub use witness::{Violation, Witness};
pub use work::{Clock, Cost, Load, PerInput, Spent};

use bookahead_protocol::{Millis, Moment, Name};
use clocks::WrongClock;
use external::Work;
use host::Driven;
use network::{Network, Packet};
use std::collections::BTreeMap;
use work::Server;

/// The three kinds of parties.
pub enum Role {
    /// Owns resources and runs jobs.
    Site(Box<Site>),
    /// Books at sites and other brokers.
    Broker(Box<Broker>),
    /// Requests reservations and jobs.
    Client(Box<Client>),
}

/// A party with its clock and its crash state.
pub struct Party {
    /// Unique in the grid; messages are addressed by it.
    pub name: Name,
    /// Site, broker or client.
    pub role: Role,
    up: bool,
    /// Crash point of its next write.
    armed: Option<CrashPoint>,
    /// Time of its scheduled wake-up, if any.
    wakes: Option<Moment>,
    /// Lead of its clock over the time of the grid.
    ahead: Millis,
    /// Latest time that its clock has shown.
    latest: Moment,
    /// Its system clock, if it was wrong at a start and is not followed again.
    wrong: Option<Box<WrongClock>>,
    /// Its waiting inputs, if inputs take time.
    server: Server,
}

enum Happening {
    Arrival(Box<Packet>),
    Wake(usize),
    /// The write of a party is durable; the number is the life in which it began, to ignore it after a crash.
    Durable(usize, u32),
    /// A party has spent the time that its last input takes; with the life in which it began.
    Handled(usize, u32),
    Batch(usize, Box<Work>),
    /// A broker exchanges heartbeats with its peers.
    Beat(usize),
    /// A broker gets the heartbeat of one peer, and the next one after this interval.
    Heartbeat(usize, usize, Millis),
    /// A party looks at its system clock.
    Clock(usize),
    Trouble(Trouble),
}

/// A grid and its event queue.
pub struct Grid {
    now: Moment,
    /// The time since the millisecond of `now`, in nanoseconds; zero unless inputs take time.
    nanos: u32,
    cost: Option<Cost>,
    parties: Vec<Party>,
    places: BTreeMap<Name, usize>,
    network: Network,
    /// Ordered by time, then by the order of scheduling.
    to_come: BTreeMap<((Moment, u32), u64), Happening>,
    arranged: u64,
    /// Messages in transit.
    travelling: usize,
    /// Number of executions of jobs when their programs were last counted.
    executions: u32,
    /// Whether a client has sent a call about a job.
    has_jobs: bool,
    /// Counts of injected faults.
    troubles: Tally,
    flaw: Option<Flaw>,
    /// Rows of the run, if [`Log::keep`] was called.
    pub log: Log,
    /// The checker of the invariants.
    pub witness: Witness,
}

impl Party {
    /// A party that is up, with an exact clock.
    pub fn new(name: Name, role: Role) -> Party {
        Party {
            name,
            role,
            up: true,
            armed: None,
            wakes: None,
            ahead: Millis(0),
            latest: Moment(0),
            wrong: None,
            server: Server::default(),
        }
    }

    fn driven(&mut self) -> Option<&mut dyn Driven> {
        match &mut self.role {
            Role::Site(site) => Some(&mut site.host),
            Role::Broker(broker) => Some(&mut broker.host),
            Role::Client(_) => None,
        }
    }

    /// Its next wake-up, in the time of the grid and not of its own clock.
    fn next_timer(&self) -> Option<Moment> {
        match &self.role {
            Role::Site(site) => {
                let timers = site.host.wake_at().into_iter().chain(site.batch.next_event());
                timers.min().map(|at| at - self.ahead)
            }
            Role::Broker(broker) => broker.host.wake_at().map(|at| at - self.ahead),
            Role::Client(client) => client.next_timer(),
        }
    }

    /// Whether it is up and has nothing in progress.
    fn is_settled(&self) -> bool {
        self.up
            && self.server.is_idle()
            && match &self.role {
                Role::Site(site) => site.host.is_durable() && site.party().is_settled(),
                Role::Broker(broker) => broker.host.is_durable() && broker.head().is_settled(),
                Role::Client(client) => client.is_done(),
            }
    }
}

impl Grid {
    /// A grid at time zero with all parties started. `seed` is for the network only.
    pub fn new(parties: Vec<Party>, rules: network::Rules, seed: u64) -> Grid {
        let places = parties.iter().enumerate().map(|(at, party)| (party.name.clone(), at)).collect();
        let mut grid = Grid {
            now: Moment(0),
            nanos: 0,
            cost: None,
            witness: Witness::default(),
            parties,
            places,
            network: Network::new(rules, seed),
            to_come: BTreeMap::new(),
            arranged: 0,
            travelling: 0,
            executions: 0,
            has_jobs: false,
            troubles: Tally::default(),
            flaw: None,
            log: Log::default(),
        };
        (0..grid.parties.len()).for_each(|at| grid.start(at));
        grid
    }

    /// Adds a deliberate defect. In release builds, defects of the protocol and of sites have no effect.
    pub(crate) fn break_by(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        for party in &mut self.parties {
            match &mut party.role {
                Role::Site(site) => site.break_by(flaw),
                Role::Broker(broker) => broker.break_by(flaw),
                Role::Client(_) => {}
            }
        }
    }

    /// The present time of the grid.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// All parties; their index is their place.
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    fn sites(&self) -> impl Iterator<Item = (&Party, &Site)> {
        self.parties.iter().filter_map(|party| match &party.role {
            Role::Site(site) => Some((party, &**site)),
            _ => None,
        })
    }

    fn brokers(&self) -> impl Iterator<Item = (&Party, &Broker)> {
        self.parties.iter().filter_map(|party| match &party.role {
            Role::Broker(broker) => Some((party, &**broker)),
            _ => None,
        })
    }

    fn clients(&self) -> impl Iterator<Item = (&Party, &Client)> {
        self.parties.iter().filter_map(|party| match &party.role {
            Role::Client(client) => Some((party, &**client)),
            _ => None,
        })
    }

    /// Place of the party with this name.
    pub fn place(&self, name: &Name) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The present time by the clock of a party.
    fn local(&self, at: usize) -> Moment {
        self.now + self.parties[at].ahead
    }

    /// Counts of all injected faults: by trouble, network and batch systems.
    pub fn injected(&self) -> Tally {
        let mut tally = self.troubles.clone();
        tally.add_all(&self.network.tally);
        self.sites().for_each(|(_, site)| tally.add_all(&site.batch.tally));
        tally
    }

    fn next_at(&self) -> Option<Moment> {
        self.to_come.first_key_value().map(|(((at, _), _), _)| *at)
    }

    fn push(&mut self, at: Moment, what: Happening) {
        self.push_at((at, 0), what);
    }

    /// Schedules with a fraction of a millisecond, in nanoseconds.
    fn push_at(&mut self, at: (Moment, u32), what: Happening) {
        self.to_come.insert((at.max((self.now, self.nanos)), self.arranged), what);
        self.arranged += 1;
    }

    /// Runs until `until`, or until no event is left.
    pub fn run(&mut self, until: Moment) {
        while self.next_at().is_some_and(|next| next <= until) {
            self.step();
        }
        if until > self.now {
            (self.now, self.nanos) = (until, 0);
        }
    }

    /// Runs until all parties are settled, at most until `until`; returns whether they are.
    pub fn settle(&mut self, until: Moment) -> bool {
        while !self.is_settled() {
            if self.next_at().is_none_or(|next| next > until) {
                return false;
            }
            self.step();
        }
        true
    }

    /// Wakes all parties that are up, so that they see events of local jobs since their last message.
    pub fn look_around(&mut self) {
        for at in (0..self.parties.len()).filter(|&at| self.parties[at].up).collect::<Vec<_>>() {
            self.wake(at);
        }
    }

    /// Whether no message is in transit, and all parties are up with nothing in progress.
    pub(crate) fn is_settled(&self) -> bool {
        self.travelling == 0 && self.parties.iter().all(Party::is_settled)
    }

    fn step(&mut self) {
        let Some(((at, _), next)) = self.to_come.pop_first() else { return };
        (self.now, self.nanos) = at;
        match next {
            Happening::Arrival(packet) => {
                self.travelling -= 1;
                self.arrive(*packet);
            }
            Happening::Wake(at) => {
                // Cleared first, so that the wake-up itself can arrange the next one.
                self.parties[at].wakes = None;
                if self.parties[at].up {
                    self.wake(at);
                }
            }
            Happening::Durable(at, life) => self.durable(at, life),
            Happening::Handled(at, life) => self.handled(at, life),
            Happening::Batch(at, work) => self.batch_works(at, *work),
            Happening::Beat(at) => self.beat(at),
            Happening::Heartbeat(at, peer, every) => self.heartbeat(at, peer, every),
            Happening::Clock(at) => self.look_at_clock(at),
            Happening::Trouble(trouble) => self.suffer(trouble),
        }
    }
}
