//! A simulated grid: sites, brokers and clients that exchange messages over a network that delays, loses, doubles and
//! cuts off, in virtual time. They crash and start again with nothing but what they wrote down. What decides is the code
//! that the daemons run: [`bookahead_protocol`].
//!
//! - [`party`], [`site`], [`broker`], [`client`]: who takes part; [`cluster`]: the local jobs of a site
//! - [`network`], [`message`]: what travels, and what becomes of it
//! - [`log`]: what happened, for diagrams and tables
//! - [`witness`]: what must always be true, held against what was said and what is there
//! - [`faults`]: random grids with random faults
//!
//! Everything is a function of the description and one seed.

pub mod broker;
pub mod client;
pub mod cluster;
pub mod faults;
pub mod log;
pub mod message;
pub mod network;
pub mod party;
pub mod site;
mod verdict;
pub mod witness;

pub use broker::Broker;
pub use client::{Client, Intent, Record, Wish};
pub use cluster::Cluster;
pub use log::{Kind, Log, Row};
pub use message::Message;
pub use party::{CrashPoint, Flaw, Party, Role};
pub use site::Site;
pub use witness::{Violation, Witness};

use bookahead_plan::Capacity;
use bookahead_protocol::{Moment, Name};
use message::Packet;
use network::{Fate, Network};
use party::{Input, Output};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap};

/// Something that goes wrong, or is put right again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trouble {
    /// A party crashes, at once or in the middle of its next input.
    Crash(usize, CrashPoint),
    /// It starts again.
    Restart(usize),
    /// These parties are cut off from all others.
    CutOff(Vec<usize>),
    /// Everybody hears everybody again.
    Reunite,
    /// Part of a site's resource fails.
    Lose(usize, Name, Capacity),
    /// It comes back.
    Restore(usize, Name, Capacity),
    /// The network treats messages differently from now on.
    Network(network::Rules),
}

/// Counts of what went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Troubles {
    /// Crashes, by where in an input.
    pub crashes: [u64; 4],
    /// Starts after a crash.
    pub restarts: u64,
    /// Times that parties were cut off.
    pub partitions: u64,
    /// Times that capacity failed.
    pub failures: u64,
}

enum Happening {
    Arrival(Packet),
    Wake(usize),
    Trouble(Trouble),
}

/// Earliest first; of one instant, what was arranged first.
struct Arranged {
    at: Moment,
    number: u64,
    what: Happening,
}

/// A grid.
pub struct Grid {
    now: Moment,
    parties: Vec<Party>,
    places: BTreeMap<Name, usize>,
    network: Network,
    to_come: BinaryHeap<Arranged>,
    arranged: u64,
    /// Messages on their way.
    travelling: usize,
    troubles: Troubles,
    /// What happened, if it is wanted.
    pub log: Log,
    /// What must be true.
    pub witness: Witness,
}

impl Grid {
    /// All parties are up and have said nothing yet.
    pub fn new(parties: Vec<Party>, rules: network::Rules, seed: u64) -> Grid {
        let places = parties.iter().enumerate().map(|(at, party)| (party.name.clone(), at)).collect();
        let mut grid = Grid {
            now: Moment(0),
            witness: Witness::new(parties.len()),
            parties,
            places,
            network: Network::new(rules, seed),
            to_come: BinaryHeap::new(),
            arranged: 0,
            travelling: 0,
            troubles: Troubles::default(),
            log: Log::default(),
        };
        for at in 0..grid.parties.len() {
            let output = grid.parties[at].take(Moment(0), &Input::Start);
            grid.carry_out(at, output);
        }
        grid
    }

    /// Breaks the protocol at every party, on purpose. Without the feature `flaws` most of it stays as it is.
    pub fn break_by(&mut self, flaw: Flaw) {
        self.parties.iter_mut().for_each(|party| party.break_by(flaw));
    }

    /// The present.
    pub fn now(&self) -> Moment {
        self.now
    }

    /// Those who take part.
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    /// A party's place.
    pub fn place(&self, name: &Name) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// What the network did.
    pub fn network_counts(&self) -> network::Counts {
        self.network.counts
    }

    /// What went wrong.
    pub fn troubles(&self) -> Troubles {
        self.troubles
    }

    /// Something will go wrong, or be put right.
    pub fn arrange(&mut self, at: Moment, trouble: Trouble) {
        self.push(at, Happening::Trouble(trouble));
    }

    fn push(&mut self, at: Moment, what: Happening) {
        let number = self.arranged;
        self.arranged += 1;
        self.to_come.push(Arranged { at: at.max(self.now), number, what });
    }

    /// Goes on until `until`, or until nothing is to come.
    pub fn run(&mut self, until: Moment) {
        while self.to_come.peek().is_some_and(|next| next.at <= until) {
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Goes on until all parties are settled, at most until `until`; answers whether they are.
    pub fn settle(&mut self, until: Moment) -> bool {
        while !self.is_settled() {
            if self.to_come.peek().is_none_or(|next| next.at > until) {
                return false;
            }
            self.step();
        }
        true
    }

    /// Everybody who is up looks at the time: what local jobs have done since the last message is seen.
    pub fn look_around(&mut self) {
        for at in (0..self.parties.len()).filter(|&at| self.parties[at].up).collect::<Vec<_>>() {
            self.give(at, &Input::Time);
        }
    }

    /// Whether nothing is on its way, all are up and nobody has anything under way.
    pub fn is_settled(&self) -> bool {
        self.travelling == 0
            && self.parties.iter().all(|party| {
                party.up
                    && match &party.role {
                        Role::Site(_) => true,
                        Role::Broker(broker) => broker.head().is_settled(),
                        Role::Client(client) => client.is_done(),
                    }
            })
    }

    fn step(&mut self) {
        let Some(next) = self.to_come.pop() else { return };
        self.now = next.at;
        match next.what {
            Happening::Arrival(packet) => {
                self.travelling -= 1;
                self.arrive(packet);
            }
            Happening::Wake(at) => {
                self.parties[at].wakes = None;
                if self.parties[at].up {
                    self.give(at, &Input::Time);
                }
            }
            Happening::Trouble(trouble) => self.suffer(trouble),
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let kind = packet.kind();
        let Packet { from, to, sent, message, .. } = packet;
        if !self.parties[to].up {
            self.log.row(|| Row::Unheard { from, to, sent, at: self.now, word: message.word() });
            return;
        }
        self.log.row(|| Row::Message { from, to, sent, at: self.now, word: message.word(), kind });
        self.witness.heard(to, &message);
        let name = self.parties[from].name.clone();
        self.give(to, &Input::Message { from: &name, message: &message });
    }

    fn give(&mut self, at: usize, input: &Input<'_>) {
        let output = self.parties[at].take(self.now, input);
        self.carry_out(at, output);
    }

    /// Sends what is to be sent, and arranges to be woken.
    fn carry_out(&mut self, at: usize, output: Output) {
        let Output { written, send, crashed } = output;
        for written in written {
            self.witness.written(&written);
            self.log.row(|| Row::Written { party: at, at: self.now, word: written.word, id: written.id });
        }
        for (to, message) in send {
            self.witness.said(self.now, at, &message);
            if let Some(to) = self.place(&to) {
                self.send(at, to, &message);
            }
        }
        if let Some(point) = crashed {
            self.crashed(at, point);
        }
        self.witness.look(self.now, &self.parties[at], at);
        self.arrange_waking(at);
    }

    fn send(&mut self, from: usize, to: usize, message: &Message) {
        match self.network.carry(self.now, from, to) {
            Fate::Arrives(arrivals) => {
                for (nth, at) in arrivals.into_iter().enumerate() {
                    self.travelling += 1;
                    let (sent, message) = (self.now, message.clone());
                    let packet = Packet { from, to, sent, message, copy: nth > 0 };
                    self.push(at, Happening::Arrival(packet));
                }
            }
            Fate::Lost | Fate::CutOff => {
                self.log.row(|| Row::Lost { from, to, at: self.now, word: message.word() });
            }
        }
    }

    fn arrange_waking(&mut self, at: usize) {
        let party = &mut self.parties[at];
        if !party.up {
            return;
        }
        let Some(timer) = party.next_timer() else { return };
        let timer = timer.max(self.now);
        if timer < Moment::MAX && party.wakes.is_none_or(|wakes| timer < wakes) {
            party.wakes = Some(timer);
            self.push(timer, Happening::Wake(at));
        }
    }

    fn crashed(&mut self, at: usize, point: CrashPoint) {
        self.troubles.crashes[point as usize] += 1;
        self.log.row(|| Row::Crash { party: at, at: self.now, point });
    }

    fn suffer(&mut self, trouble: Trouble) {
        match trouble {
            Trouble::Crash(at, CrashPoint::Idle) => {
                if self.parties[at].up {
                    self.parties[at].up = false;
                    self.crashed(at, CrashPoint::Idle);
                }
            }
            Trouble::Crash(at, point) => self.parties[at].armed = Some(point),
            Trouble::Restart(at) => {
                // Whatever it was going to crash of is over.
                self.parties[at].armed = None;
                if !self.parties[at].up {
                    self.parties[at].up = true;
                    self.troubles.restarts += 1;
                    self.log.row(|| Row::Restart { party: at, at: self.now });
                    self.give(at, &Input::Start);
                    self.witness.restarted(self.now, &self.parties[at], at);
                }
            }
            Trouble::CutOff(parties) => {
                self.troubles.partitions += 1;
                self.log.row(|| Row::CutOff { parties: parties.clone(), at: self.now });
                self.network.cut_off(&parties, self.parties.len());
            }
            Trouble::Reunite => {
                self.log.row(|| Row::Reunited { at: self.now });
                self.network.reunite();
            }
            Trouble::Lose(at, resource, capacity) => {
                self.troubles.failures += 1;
                self.witness.failed(at);
                self.change_capacity(at, &resource, capacity, false);
            }
            Trouble::Restore(at, resource, capacity) => self.change_capacity(at, &resource, capacity, true),
            Trouble::Network(rules) => self.network.rules = rules,
        }
    }

    /// A site that is down notices when it starts.
    fn change_capacity(&mut self, at: usize, resource: &Name, capacity: Capacity, back: bool) {
        let Role::Site(site) = &mut self.parties[at].role else { return };
        site.fail(self.now, resource, capacity, back);
        if self.parties[at].up {
            self.give(at, &Input::Failure);
        }
    }
}

impl PartialEq for Arranged {
    fn eq(&self, other: &Arranged) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Arranged {}

impl PartialOrd for Arranged {
    fn partial_cmp(&self, other: &Arranged) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Arranged {
    fn cmp(&self, other: &Arranged) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}
