//! A simulated grid: sites, brokers and clients that exchange messages over a network that delays, loses, doubles and
//! cuts off, in virtual time. They crash and start again with nothing but what they wrote down, and the batch systems behind
//! sites go wrong. What decides is the code that the daemons run: [`bookahead_party`].
//!
//! - [`site`], [`client`]: who takes part; [`host`]: what runs a party, as the daemon's threads do, and parties broken on purpose
//! - [`batch`], [`external`], [`cluster`], `guests`: the batch system of a site, and its jobs
//! - [`network`], [`drive`]: what travels, and what becomes of it; [`trouble`]: what goes wrong
//! - [`log`]: what happened, for diagrams and tables
//! - [`witness`], `verdict`: what must always be true, held against what was said and what is there
//! - [`faults`]: random grids with random faults
//!
//! Everything is a function of the description and one seed.

pub mod batch;
pub mod client;
pub mod cluster;
pub mod drive;
pub mod external;
pub mod faults;
mod guests;
mod healing;
pub mod host;
pub mod log;
pub mod network;
pub mod site;
pub mod trouble;
mod verdict;
pub mod witness;

pub use batch::Batch;
pub use client::{Client, Record, Step, Wish};
pub use cluster::Cluster;
pub use host::{CrashPoint, Disk, Flaw, Host};
pub use log::{Kind, Log, Row, Tally, What};
pub use network::Message;
pub use site::{Broker, Site};
pub use trouble::Trouble;
pub use witness::{Violation, Witness};

use bookahead_protocol::{Millis, Moment, Name};
use external::Work;
use host::Driven;
use network::{Network, Packet};
use std::collections::BTreeMap;

/// What a party is.
pub enum Role {
    /// It owns resources.
    Site(Box<Site>),
    /// It books at others.
    Broker(Box<Broker>),
    /// It wants something.
    Client(Box<Client>),
}

/// A party.
pub struct Party {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub role: Role,
    up: bool,
    /// It crashes with the next thing that it writes down, there.
    armed: Option<CrashPoint>,
    /// When it is to be woken, as far as that is arranged.
    wakes: Option<Moment>,
    /// By how much its clock is ahead.
    ahead: Millis,
    /// The latest that its clock has shown.
    latest: Moment,
}

enum Happening {
    Arrival(Box<Packet>),
    Wake(usize),
    /// What a party decided is durable, in this life of it.
    Durable(usize, u32),
    /// Something is due in the batch system of a site.
    Batch(usize, Box<Work>),
    /// A broker asks its peers whether they are there.
    Beat(usize),
    Trouble(Trouble),
}

/// A grid.
pub struct Grid {
    now: Moment,
    parties: Vec<Party>,
    places: BTreeMap<Name, usize>,
    network: Network,
    /// Earliest first; of one instant, what was arranged first.
    to_come: BTreeMap<(Moment, u64), Happening>,
    arranged: u64,
    /// Messages on their way.
    travelling: usize,
    /// What goes wrong, counted.
    troubles: Tally,
    flaw: Option<Flaw>,
    /// What happened, if it is wanted.
    pub log: Log,
    /// What must be true.
    pub witness: Witness,
}

impl Party {
    /// One that is up.
    pub fn new(name: Name, role: Role) -> Party {
        Party { name, role, up: true, armed: None, wakes: None, ahead: Millis(0), latest: Moment(0) }
    }

    fn driven(&mut self) -> Option<&mut dyn Driven> {
        match &mut self.role {
            Role::Site(site) => Some(&mut site.host),
            Role::Broker(broker) => Some(&mut broker.host),
            Role::Client(_) => None,
        }
    }

    /// When it wants to be woken, by the time of the grid.
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

    /// Whether it has nothing under way.
    fn is_settled(&self) -> bool {
        self.up
            && match &self.role {
                Role::Site(site) => site.host.is_durable() && site.party().is_settled(),
                Role::Broker(broker) => broker.host.is_durable() && broker.head().is_settled(),
                Role::Client(client) => client.is_done(),
            }
    }
}

impl Grid {
    /// All parties are up and have said nothing yet.
    pub fn new(parties: Vec<Party>, rules: network::Rules, seed: u64) -> Grid {
        let places = parties.iter().enumerate().map(|(at, party)| (party.name.clone(), at)).collect();
        let mut grid = Grid {
            now: Moment(0),
            witness: Witness::default(),
            parties,
            places,
            network: Network::new(rules, seed),
            to_come: BTreeMap::new(),
            arranged: 0,
            travelling: 0,
            troubles: Tally::default(),
            flaw: None,
            log: Log::default(),
        };
        (0..grid.parties.len()).for_each(|at| grid.start(at));
        grid
    }

    /// Breaks the parties, or what drives them, on purpose. Without the feature `flaws` most of it stays as it is.
    pub fn break_by(&mut self, flaw: Flaw) {
        self.flaw = Some(flaw);
        for party in &mut self.parties {
            match &mut party.role {
                Role::Site(site) => site.break_by(flaw),
                Role::Broker(broker) => broker.break_by(flaw),
                Role::Client(_) => {}
            }
        }
    }

    /// The present.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Those who take part.
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

    /// A party's place.
    pub fn place(&self, name: &Name) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// The time by the clock of a party.
    fn local(&self, at: usize) -> Moment {
        self.now + self.parties[at].ahead
    }

    /// What went wrong, by name.
    pub fn injected(&self) -> Tally {
        let mut tally = self.troubles.clone();
        tally.add_all(&self.network.tally);
        self.sites().for_each(|(_, site)| tally.add_all(&site.batch.tally));
        tally
    }

    fn next_at(&self) -> Option<Moment> {
        self.to_come.first_key_value().map(|((at, _), _)| *at)
    }

    fn push(&mut self, at: Moment, what: Happening) {
        self.to_come.insert((at.max(self.now), self.arranged), what);
        self.arranged += 1;
    }

    /// Goes on until `until`, or until nothing is to come.
    pub fn run(&mut self, until: Moment) {
        while self.next_at().is_some_and(|next| next <= until) {
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Goes on until all parties are settled, at most until `until`; answers whether they are.
    pub fn settle(&mut self, until: Moment) -> bool {
        while !self.is_settled() {
            if self.next_at().is_none_or(|next| next > until) {
                return false;
            }
            self.step();
        }
        true
    }

    /// Everybody who is up looks at the time: what local jobs have done since the last message is seen.
    pub fn look_around(&mut self) {
        for at in (0..self.parties.len()).filter(|&at| self.parties[at].up).collect::<Vec<_>>() {
            self.wake(at);
        }
    }

    /// Whether nothing is on its way, all are up and nobody has anything under way.
    pub fn is_settled(&self) -> bool {
        self.travelling == 0 && self.parties.iter().all(Party::is_settled)
    }

    fn step(&mut self) {
        let Some(((at, _), next)) = self.to_come.pop_first() else { return };
        self.now = at;
        match next {
            Happening::Arrival(packet) => {
                self.travelling -= 1;
                self.arrive(*packet);
            }
            Happening::Wake(at) => {
                self.parties[at].wakes = None;
                if self.parties[at].up {
                    self.wake(at);
                }
            }
            Happening::Durable(at, life) => self.durable(at, life),
            Happening::Batch(at, work) => self.batch_works(at, *work),
            Happening::Beat(at) => self.beat(at),
            Happening::Trouble(trouble) => self.suffer(trouble),
        }
    }
}
