//! The time that a party needs for its decisions. By default it needs none: virtual time stands still while the real
//! code runs. With a [`Cost`] each site and broker is a queue with one server, like the thread that owns the party in
//! a daemon: inputs are handled one after another, each occupies the party for its cost, and its output leaves after
//! that. So a party that gets more than it can handle falls behind, as it would in reality.

use super::network::Message;
use super::{Grid, Happening, Party, Role};
use bookahead_party::Input;
use bookahead_protocol::{Moment, Name};
use std::collections::{BTreeMap, VecDeque};

/// Nanoseconds of a millisecond, the unit of [`Moment`].
const MILLI: u64 = 1_000_000;

/// How long an input occupies a party.
#[derive(Debug, Clone, Copy)]
pub struct Cost {
    /// Of the decision.
    pub input: PerInput,
    /// Nanoseconds of each event that an input writes: encoding and appending it to the journal.
    pub event: u64,
}

/// Where the cost of an input comes from.
#[derive(Debug, Clone, Copy)]
pub enum PerInput {
    /// The same for every input, in nanoseconds. A run then depends only on its description and seed.
    Given {
        /// At a broker.
        broker: u64,
        /// At a site.
        site: u64,
    },
    /// What the decision itself took, by this clock.
    Measured(Clock),
}

/// A clock of the machine that runs the simulation; the simulator itself has none.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    /// Nanoseconds of processor time that this thread has used.
    pub now: fn() -> u64,
    /// Nanoseconds that reading it takes; subtracted from each measurement.
    pub reading: u64,
}

/// Number and total cost of inputs of one kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spent {
    /// Number of inputs.
    pub inputs: u64,
    /// Their cost in nanoseconds.
    pub nanos: u64,
}

/// A party as a queue with one server.
#[derive(Default)]
pub(super) struct Server {
    waiting: VecDeque<Task>,
    /// Whether an input is being handled.
    pub(super) busy: bool,
    /// Whether an [`Input::Time`] waits; more than one at a time would do nothing.
    time_waits: bool,
    longest: usize,
    spent: BTreeMap<&'static str, Spent>,
}

/// Something to handle.
enum Task {
    Message { from: Option<usize>, name: Name, message: Message },
    Input(Input),
}

/// The work of one party so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    /// Nanoseconds in which it handled inputs.
    pub busy: u64,
    /// Most inputs that waited at once.
    pub longest_queue: usize,
    /// By kind of input: the word of a call or an answer, `time`, `heartbeat`, `batch` or `other`.
    pub kinds: BTreeMap<&'static str, Spent>,
}

impl Load {
    /// Number of inputs.
    pub fn inputs(&self) -> u64 {
        self.kinds.values().map(|spent| spent.inputs).sum()
    }
}

impl Server {
    pub(super) fn is_idle(&self) -> bool {
        !self.busy && self.waiting.is_empty()
    }

    /// Loses the waiting inputs, as in a crash.
    pub(super) fn clear(&mut self) {
        (self.busy, self.time_waits) = (false, false);
        self.waiting.clear();
    }
}

impl Party {
    /// Its work so far; all zero without a [`Cost`].
    pub fn load(&self) -> Load {
        let Server { longest, spent, .. } = &self.server;
        let busy = spent.values().map(|spent| spent.nanos).sum();
        Load { busy, longest_queue: *longest, kinds: spent.clone() }
    }
}

impl Grid {
    /// Makes inputs take time from now on.
    pub fn set_cost(&mut self, cost: Cost) {
        let clock = match cost.input {
            PerInput::Measured(clock) => Some(clock),
            PerInput::Given { .. } => None,
        };
        self.cost = Some(cost);
        for party in &mut self.parties {
            party.driven().into_iter().for_each(|host| host.measure(clock));
        }
    }

    /// Queues a message for a party that is busy; returns it if the party is free.
    pub(super) fn message_waits(
        &mut self,
        to: usize,
        from: Option<usize>,
        name: &Name,
        message: Message,
    ) -> Option<Message> {
        let server = &mut self.parties[to].server;
        if !server.busy {
            return Some(message);
        }
        server.waiting.push_back(Task::Message { from, name: name.clone(), message });
        server.longest = server.longest.max(server.waiting.len());
        None
    }

    /// Queues an input for a party that is busy; returns it if the party is free.
    pub(super) fn input_waits(&mut self, at: usize, input: Input) -> Option<Input> {
        let local = self.local(at);
        if !self.parties[at].server.busy {
            return Some(input);
        }
        if matches!(input, Input::Time) {
            if std::mem::replace(&mut self.parties[at].server.time_waits, true) {
                return None;
            }
            // As in the daemons, what is due goes before waiting inputs, and a search goes after them.
            let due = self.parties[at].driven().and_then(|host| host.deadline());
            let server = &mut self.parties[at].server;
            match due.is_some_and(|due| due <= local) {
                true => server.waiting.push_front(Task::Input(input)),
                false => server.waiting.push_back(Task::Input(input)),
            }
            return None;
        }
        let server = &mut self.parties[at].server;
        server.waiting.push_back(Task::Input(input));
        server.longest = server.longest.max(server.waiting.len());
        None
    }

    /// Occupies a party for the input that it has just decided. Returns false if that takes no time.
    pub(super) fn occupy(&mut self, at: usize, kind: &'static str) -> bool {
        let Some(cost) = self.cost else { return false };
        let party = &mut self.parties[at];
        let is_broker = matches!(party.role, Role::Broker(_));
        let Some(host) = party.driven() else { return false };
        let (measured, events) = host.take_spent();
        let life = host.life();
        let input = match cost.input {
            PerInput::Given { broker, .. } if is_broker => broker,
            PerInput::Given { site, .. } => site,
            PerInput::Measured(_) => measured,
        };
        let nanos = input.saturating_add(cost.event.saturating_mul(events));
        let spent = party.server.spent.entry(kind).or_default();
        spent.inputs += 1;
        spent.nanos += nanos;
        if nanos == 0 {
            return false;
        }
        party.server.busy = true;
        let nanos = u64::from(self.nanos) + nanos;
        let ready = Moment(self.now.0.saturating_add_unsigned(nanos / MILLI));
        // Below a million, so it fits.
        self.push_at((ready, (nanos % MILLI) as u32), Happening::Handled(at, life));
        true
    }

    /// An input is handled: its output leaves, and the next input is taken.
    pub(super) fn handled(&mut self, at: usize, life: u32) {
        if self.parties[at].driven().is_none_or(|host| host.life() != life) {
            return;
        }
        self.parties[at].server.busy = false;
        self.write(at);
        // The output may have led to further inputs of the party itself, from its batch system.
        while !self.parties[at].server.busy
            && let Some(task) = self.parties[at].server.waiting.pop_front()
        {
            match task {
                Task::Message { from, name, message } => self.hand(at, from, &name, message),
                Task::Input(input) => {
                    if matches!(input, Input::Time) {
                        self.parties[at].server.time_waits = false;
                    }
                    self.give(at, input);
                }
            }
        }
    }
}

/// A short name for the kind of an input.
pub(super) fn kind_of(input: &Input) -> &'static str {
    match input {
        Input::Call { envelope, .. } => envelope.call.word(),
        Input::Answered { answer, .. } => answer.word(),
        Input::Time => "time",
        Input::Heard { .. } | Input::Silent { .. } => "heartbeat",
        Input::Batch(_) => "batch",
        _ => "other",
    }
}
