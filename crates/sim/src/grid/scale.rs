//! Large generated grids under load: equal sites under one broker or a hierarchy of brokers, clients that book at the
//! root at a given rate, and parties that need time for their decisions ([`super::work`]). Shows what saturates first.
//! There are no faults; the witness checks the invariants as always.

use super::network::Rules as NetworkRules;
use super::{Broker, Client, Cost, Grid, Load, Party, Role, Site, Violation, Wish};
use bookahead_plan::placement::{Admission, Method, Request as Wanted, Rules as Placement, SlotRules};
use bookahead_plan::{Capacity, Policy, Seconds};
use bookahead_protocol::broker::Rules;
use bookahead_protocol::ledger::{self, Offered, RulesError};
use bookahead_protocol::{Answer, Constraint, Millis, Moment, Name, Part, Request, Resource, State};
use bookahead_workload::streams::Stream;
use std::collections::{BTreeMap, VecDeque};

/// Processors of each site.
const PROCESSORS: u32 = 256;
/// Processors that a part may ask for.
const SIZES: [u32; 5] = [1, 2, 4, 8, 16];
/// Shortest and longest duration of a request, in minutes.
const MINUTES: (i64, i64) = (5, 30);
/// How much later than its earliest start a request may begin, in seconds.
const LATER: i64 = 4 * 3_600;
/// Clients that share the requests: each repeats its own unanswered calls, which it has to look through.
const CLIENTS: usize = 100;
/// Finished reservations are remembered longer than any run, for the witness.
const REMEMBERED: Seconds = Seconds(1_000_000_000_000);
/// Default interval of the heartbeats of a daemon.
const HEARTBEAT: Millis = Millis::seconds(5);
/// Virtual time after the end for outstanding work to finish.
const TO_SETTLE: Millis = Millis::seconds(3_600);

/// A grid to generate.
#[derive(Debug, Clone)]
pub struct Scale {
    /// Number of sites.
    pub sites: usize,
    /// Number of brokers on each level below the root, from the top; empty for one broker over all sites.
    pub brokers: Vec<usize>,
    /// Mean number of requests an hour; they arrive at random.
    pub requests_per_hour: f64,
    /// Requests arrive for this long.
    pub duration: Millis,
    /// The earliest start of a request is at most this long after the request; zero for a start at once.
    pub ahead: Millis,
    /// Parts of each request. They start together.
    pub parts: usize,
    /// Rules of all brokers; each gets its own maker.
    pub rules: Rules,
    /// Shortest and longest delay of a message.
    pub latency: (Millis, Millis),
    /// How long inputs take; None for no time.
    pub cost: Option<Cost>,
    /// Seed of everything random.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Number of requests.
    pub requests: usize,
    /// Requests that were booked.
    pub booked: usize,
    /// Requests that were refused.
    pub refused: usize,
    /// Time from a request to its answer, ascending; requests without an answer are left out.
    pub took: Vec<Millis>,
    /// Candidates that the root tried to hold.
    pub attempts: u64,
    /// All messages, those of the clients included.
    pub messages: u64,
    /// Work of the brokers while requests arrived, level by level from the root.
    pub brokers: Vec<Vec<Load>>,
    /// Work of the sites in the same time.
    pub sites: Vec<Load>,
    /// When everything was finished; None if it was not.
    pub settled_at: Option<Moment>,
    /// Violated invariants.
    pub violations: Vec<Violation>,
}

impl Scale {
    /// Runs the grid until everything that began is finished.
    pub fn run(&self) -> Result<Outcome, RulesError> {
        let mut grid = self.grid()?;
        if let Some(cost) = self.cost {
            grid.set_cost(cost);
        }
        grid.begin_heartbeats(HEARTBEAT);
        let end = Moment(0) + self.duration;
        grid.run(end);
        let (brokers, sites) =
            (self.broker_loads(&grid), grid.sites().map(|(party, _)| party.load()).collect());
        let settled = grid.settle(end + TO_SETTLE);
        let settled_at = settled.then(|| grid.now());
        grid.look_around();
        let violations = grid.verdict(settled);
        let mut outcome = Outcome {
            requests: 0,
            booked: 0,
            refused: 0,
            took: Vec::new(),
            attempts: 0,
            messages: grid.injected().of("messages"),
            brokers,
            sites,
            settled_at,
            violations,
        };
        grid.clients().for_each(|(_, client)| outcome.count(client));
        let root = grid.brokers().next().map(|(_, root)| root.head().bookings());
        outcome.attempts = root.into_iter().flatten().map(|booking| u64::from(booking.attempts)).sum();
        Ok(outcome)
    }

    fn broker_loads(&self, grid: &Grid) -> Vec<Vec<Load>> {
        let mut loads = grid.brokers().map(|(party, _)| party.load());
        let levels = std::iter::once(1).chain(self.brokers.iter().copied());
        levels.map(|number| loads.by_ref().take(number).collect()).collect()
    }

    /// Clients, then brokers from the root down, then sites.
    fn grid(&self) -> Result<Grid, RulesError> {
        let mut below: Vec<(Name, Vec<Resource>)> = Vec::new();
        let mut sites = Vec::new();
        for at in 0..self.sites {
            let name = Name::from(format!("s{at:05}").as_str());
            let resource = Resource::new(name.as_str(), "cluster", "processors", PROCESSORS);
            below.push((name.clone(), vec![resource.clone()]));
            sites.push(Party::new(name.clone(), Role::Site(Box::new(site(&name, resource)?))));
        }
        let mut brokers = Vec::new();
        let levels = std::iter::once(1).chain(self.brokers.iter().copied());
        for (level, number) in levels.enumerate().collect::<Vec<_>>().into_iter().rev() {
            let mut built = Vec::new();
            let peers = below.len();
            let mut rest = below.into_iter();
            below = Vec::new();
            for at in 0..number {
                // Shares that differ by one at most.
                let share = (at + 1) * peers / number - at * peers / number;
                let name = Name::from(format!("b{level}-{at:05}").as_str());
                let maker = ((level as u128) << 32) + at as u128 + 1;
                let rules = Rules { maker, retention: REMEMBERED, ..self.rules.clone() };
                let broker = Broker::new(&name, rules, rest.by_ref().take(share).collect());
                below.push((name.clone(), broker.resources()));
                built.push(Party::new(name, Role::Broker(Box::new(broker))));
            }
            built.append(&mut brokers);
            brokers = built;
        }
        let root = brokers.first().map_or_else(|| Name::from("b0-00000"), |root| root.name.clone());
        let mut parties = self.clients(&root);
        parties.extend(brokers);
        parties.extend(sites);
        let (fastest, slowest) = self.latency;
        let network = NetworkRules { fastest, slowest, lost: 0, twice: 0, delayed: 0 };
        Ok(Grid::new(parties, network, self.seed))
    }

    fn clients(&self, root: &Name) -> Vec<Party> {
        let mut wishes: Vec<Vec<Wish>> = vec![Vec::new(); CLIENTS];
        let mut chance = Stream::new(self.seed, "requests at scale");
        let (mut at, gap) = (0.0, 3_600_000.0 / self.requests_per_hour);
        for number in 0.. {
            at += chance.exponential(gap);
            let at = Moment(at as i64);
            if at >= Moment(0) + self.duration {
                break;
            }
            wishes[number % CLIENTS].push(self.wish(at, &mut chance));
        }
        let client = |(at, wishes): (usize, Vec<Wish>)| {
            let name = format!("c{at:05}");
            let client = Client::new(root.clone(), &name, (1 << 64) + at as u128, wishes);
            Party::new(Name::from(name.as_str()), Role::Client(Box::new(client)))
        };
        wishes.into_iter().enumerate().map(client).collect()
    }

    fn wish(&self, at: Moment, chance: &mut Stream) -> Wish {
        let duration = Seconds(60 * chance.whole(MINUTES.0, MINUTES.1));
        let earliest_start = at.second() + Seconds(chance.whole(0, self.ahead.0 / 1_000));
        let latest_end = earliest_start + duration + Seconds(LATER);
        let mut part = || {
            let size = SIZES[chance.whole(0, SIZES.len() as i64 - 1) as usize];
            let wanted = Wanted { earliest_start, latest_end, duration, capacity: Capacity(size) };
            Part::new(wanted, "processors")
        };
        let parts: Vec<Part> = (0..self.parts).map(|_| part()).collect();
        let together = |second| Constraint::Offset { first: 0, second, by: Seconds::ZERO };
        let constraints = (1..self.parts).map(together).collect();
        let request = Request::new(parts, constraints);
        Wish { at, request, hold_for: Millis::seconds(120), book: true, steps: VecDeque::new() }
    }
}

fn site(name: &Name, resource: Resource) -> Result<Site, RulesError> {
    let placement = Placement {
        policy: Policy::EASY,
        method: Method::EarliestStart { local_jobs_preferred: false },
        slots: SlotRules::default(),
        admission: Admission::default(),
    };
    let rules = ledger::Rules::new(name.as_str(), vec![Offered { resource, placement }]);
    Site::new(ledger::Rules { retention: REMEMBERED, ..rules }, BTreeMap::new())
}

impl Outcome {
    fn count(&mut self, client: &Client) {
        self.requests += client.records().len();
        for record in client.records() {
            let Some((at, _, answer)) = record.answers.first() else { continue };
            self.took.push(*at - record.asked);
            match answer {
                Answer::Reservation(told) if told.state == State::Committed => self.booked += 1,
                _ => self.refused += 1,
            }
        }
        self.took.sort_unstable();
    }

    /// The time within which this share of the answered requests was answered; None without any.
    pub fn took_at(&self, share: f64) -> Option<Millis> {
        let last = self.took.len().checked_sub(1)?;
        Some(self.took[((last as f64) * share).round() as usize])
    }
}
