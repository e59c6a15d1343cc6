//! All orders of events: one broker and two sites negotiate a pair of reservations, while one message is
//! lost, one party crashes, and timers fire early. The model checker runs the same values as the daemons. At
//! the end both parts are committed or none is, all answers are consistent, and no caller waits forever.

use crate::negotiation::town::{name, offered, part};
use bookahead_plan::Seconds;
use bookahead_protocol::broker::{self, Broker};
use bookahead_protocol::deadline::Scheme;
use bookahead_protocol::ledger::{self, Ledger, Views};
use bookahead_protocol::{
    Answer, Call, Caller, Constraint, Envelope, Key, Millis, Moment, Part, Request, Requirement,
    ReservationId, Resource, State, Test, Value,
};
use bookahead_tests::cases::quick;
use stateright::{Checker, Model, Property};
use std::hash::{DefaultHasher, Hash, Hasher};

const SITES: [&str; 2] = ["north", "south"];
const ID: ReservationId = ReservationId(1);
/// End of the model: parts start after 600 seconds, and nothing of interest happens later.
const END: Moment = Moment(500_000);

/// Number of faults of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Budget {
    lost: u8,
    crashes: u8,
    /// How often a timer may fire although messages are in flight or a party is down.
    early: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Party {
    Client,
    Broker,
    Site(usize),
}

/// Messages in flight. A sorted list, because the order of equal messages makes no difference.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Mail {
    from: Party,
    to: Party,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum What {
    Call(Envelope),
    Answer(Key, Answer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Client {
    /// Waits for the hold.
    Asked,
    /// Waits for the commit.
    Committing,
    /// Was told that it is committed.
    Committed,
    /// Was told that it is refused.
    Refused,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    now: Moment,
    client: Client,
    /// When the client repeats its call.
    repeats: Moment,
    broker: Option<Broker>,
    broker_journal: Vec<broker::Event>,
    sites: Vec<Option<Ledger>>,
    site_journals: Vec<Vec<ledger::Event>>,
    mail: Vec<Mail>,
    budget: Budget,
    holding: Scheme,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Deliver(usize),
    Lose(usize),
    /// The receiver stores its events and crashes before it sends anything.
    DeliverAndCrash(usize),
    Crash(Party),
    Restart(Party),
    /// Time advances to the next timer.
    Time,
}

struct Negotiation {
    budget: Budget,
    holding: Scheme,
}

fn at_site(site: &str) -> Part {
    let test = Test::Is(Value::Text(site.into()));
    let requirements = vec![Requirement { attribute: "site".into(), test }];
    Part { requirements, ..part("processors", 4, 600, 700, 100) }
}

fn request() -> Request {
    let constraints = vec![Constraint::Offset { first: 0, second: 1, by: Seconds(0) }];
    let parts = SITES.map(at_site).to_vec();
    Request::new(parts, constraints)
}

fn resource(site: &str) -> Resource {
    Resource::new(site, "cluster", "processors", 4)
}

fn new_site(at: usize) -> Ledger {
    let mut rules = ledger::Rules::new(SITES[at], vec![offered(resource(SITES[at]))]);
    rules.holds.late_commits = false;
    rules.holds.longest = Millis::seconds(20);
    rules.reveal.slots = 1;
    Ledger::new(rules).unwrap()
}

fn new_broker(holding: Scheme) -> Broker {
    // Watching starts after the negotiation.
    let rules =
        broker::Rules { maker: 9, attempts: 1, holding, watch_every: None, ..broker::Rules::default() };
    let mut broker = Broker::new(rules);
    SITES.iter().for_each(|site| broker.register(name(site), vec![resource(site)], None));
    broker
}

impl Client {
    fn call(self) -> Option<Envelope> {
        let caller = Caller { user: name("ada"), roles: vec![] };
        let (key, call) = match self {
            Client::Asked => {
                let hold_for = Millis::seconds(8);
                (Key(1), Call::Reserve { id: ID, request: request(), hold_for, book: false })
            }
            Client::Committing => (Key(2), Call::Commit { id: ID, jobs: vec![] }),
            Client::Committed | Client::Refused => return None,
        };
        Some(Envelope { key, caller, call })
    }
}

impl World {
    fn new(budget: Budget, holding: Scheme) -> World {
        let mut world = World {
            now: Moment(0),
            client: Client::Asked,
            repeats: Moment(30_000),
            broker: Some(new_broker(holding)),
            broker_journal: Vec::new(),
            sites: vec![Some(new_site(0)), Some(new_site(1))],
            site_journals: vec![Vec::new(), Vec::new()],
            mail: Vec::new(),
            budget,
            holding,
        };
        let effects = world.broker.as_mut().unwrap().resume(Moment(0));
        world.broker_journal.extend(effects.events);
        world.client_calls();
        world
    }

    fn client_calls(&mut self) {
        if let Some(envelope) = self.client.call() {
            self.repeats = self.now + Millis(30_000);
            self.post(Mail { from: Party::Client, to: Party::Broker, what: What::Call(envelope) });
        }
    }

    /// One equal message in flight is enough: a duplicate is the same as a later repetition.
    fn post(&mut self, mail: Mail) {
        if !self.mail.contains(&mail) {
            self.mail.push(mail);
            self.mail.sort_by_cached_key(fingerprint);
        }
    }

    fn send(&mut self, effects: broker::Effects) {
        self.broker_journal.extend(effects.events);
        for call in effects.send {
            let to = SITES.iter().position(|site| name(site) == call.to).map(Party::Site).unwrap();
            self.post(Mail { from: Party::Broker, to, what: What::Call(call.envelope) });
        }
        for reply in effects.replies {
            let what = What::Answer(reply.key, reply.answer);
            self.post(Mail { from: Party::Broker, to: Party::Client, what });
        }
    }

    fn is_up(&self, party: &Party) -> bool {
        match party {
            Party::Client => true,
            Party::Broker => self.broker.is_some(),
            Party::Site(at) => self.sites[*at].is_some(),
        }
    }

    fn deliver(&mut self, mail: Mail) {
        match (mail.to, mail.what) {
            (Party::Client, What::Answer(key, answer)) => self.client_hears(key, &answer),
            (Party::Broker, what) => {
                let Some(broker) = &mut self.broker else { return };
                let from = |party: &Party| match party {
                    Party::Site(at) => name(SITES[*at]),
                    _ => name("client"),
                };
                let effects = match what {
                    What::Call(envelope) => broker.handle(self.now, &from(&mail.from), &envelope),
                    What::Answer(key, answer) => broker.on_answer(self.now, &from(&mail.from), key, &answer),
                };
                self.send(effects);
            }
            (Party::Site(at), What::Call(envelope)) => {
                let Some(ledger) = &mut self.sites[at] else { return };
                let handled = ledger.handle(self.now, &envelope, &Views::default());
                self.site_journals[at].extend(handled.events);
                let what = What::Answer(envelope.key, handled.answer);
                self.post(Mail { from: Party::Site(at), to: mail.from, what });
            }
            (Party::Client, What::Call(_)) | (Party::Site(_), What::Answer(..)) => {}
        }
    }

    fn client_hears(&mut self, key: Key, answer: &Answer) {
        let waits_for = self.client.call().map(|envelope| envelope.key);
        if waits_for != Some(key) {
            return;
        }
        self.client = match answer {
            Answer::Reservation(held) if held.state == State::Held => Client::Committing,
            Answer::Reservation(held) if held.state == State::Committed => Client::Committed,
            _ => Client::Refused,
        };
        self.client_calls();
    }

    fn crash(&mut self, party: &Party) {
        match party {
            Party::Client => {}
            Party::Broker => self.broker = None,
            Party::Site(at) => self.sites[*at] = None,
        }
    }

    fn restart(&mut self, party: &Party) {
        match party {
            Party::Client => {}
            Party::Broker => {
                let mut broker = new_broker(self.holding);
                self.broker_journal.iter().for_each(|event| broker.apply(event));
                let effects = broker.resume(self.now);
                self.broker = Some(broker);
                self.send(effects);
            }
            Party::Site(at) => {
                let mut ledger = new_site(*at);
                for event in &self.site_journals[*at] {
                    ledger.apply(event);
                }
                self.sites[*at] = Some(ledger);
            }
        }
    }

    fn next_timer(&self) -> Option<Moment> {
        let broker = self.broker.as_ref().and_then(Broker::next_timer);
        let sites = self.sites.iter().flatten().filter_map(Ledger::next_deadline);
        let client = self.client.call().map(|_| self.repeats);
        let timers = sites.chain(broker).chain(client);
        timers.map(|timer| timer.max(self.now)).min().filter(|timer| *timer < END)
    }

    fn pass_time(&mut self, to: Moment) {
        self.now = to;
        for at in 0..SITES.len() {
            if let Some(ledger) = &mut self.sites[at] {
                let ticked = ledger.tick(to);
                self.site_journals[at].extend(ticked.events);
            }
        }
        if let Some(broker) = &mut self.broker {
            let effects = broker.tick(to);
            self.send(effects);
        }
        if self.repeats <= to {
            self.client_calls();
        }
    }

    fn is_settled(&self) -> bool {
        let all_up = self.sites.iter().all(Option::is_some);
        let broker = self.broker.as_ref().is_some_and(Broker::is_settled);
        all_up && broker && self.mail.is_empty() && self.client.call().is_none()
    }

    /// Whether only time can make progress.
    fn is_quiet(&self) -> bool {
        let all_up = [Party::Broker, Party::Site(0), Party::Site(1)].iter().all(|party| self.is_up(party));
        all_up && self.mail.is_empty()
    }

    fn both_committed(&self) -> bool {
        self.committed() == [true, true]
    }

    /// Whether each site has a committed reservation.
    fn committed(&self) -> Vec<bool> {
        let committed = |ledger: &Ledger| ledger.entries().any(|(_, entry)| entry.state == State::Committed);
        self.sites.iter().flatten().map(committed).collect()
    }
}

fn fingerprint(mail: &Mail) -> u64 {
    let mut hasher = DefaultHasher::new();
    mail.hash(&mut hasher);
    hasher.finish()
}

impl Model for Negotiation {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World::new(self.budget, self.holding)]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (at, mail) in world.mail.iter().enumerate() {
            if world.is_up(&mail.to) {
                actions.push(Action::Deliver(at));
                if world.budget.crashes > 0 && mail.to != Party::Client {
                    actions.push(Action::DeliverAndCrash(at));
                }
            }
            if world.budget.lost > 0 {
                actions.push(Action::Lose(at));
            }
        }
        for party in [Party::Broker, Party::Site(0), Party::Site(1)] {
            if !world.is_up(&party) {
                actions.push(Action::Restart(party));
            } else if world.budget.crashes > 0 && !world.is_settled() {
                actions.push(Action::Crash(party));
            }
        }
        let may_pass = world.is_quiet() || world.budget.early > 0;
        if !world.is_settled() && may_pass && world.next_timer().is_some() {
            actions.push(Action::Time);
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Deliver(at) => {
                let mail = world.mail.remove(at);
                world.deliver(mail);
            }
            Action::Lose(at) => {
                world.mail.remove(at);
                world.budget.lost -= 1;
            }
            Action::DeliverAndCrash(at) => {
                let mail = world.mail.remove(at);
                let (party, under_way) = (mail.to.clone(), world.mail.clone());
                world.deliver(mail);
                world.mail = under_way;
                world.crash(&party);
                world.budget.crashes -= 1;
            }
            Action::Crash(party) => {
                world.crash(&party);
                world.budget.crashes -= 1;
            }
            Action::Restart(party) => world.restart(&party),
            Action::Time => {
                let timer = world.next_timer()?;
                if !world.is_quiet() {
                    world.budget.early -= 1;
                }
                world.pass_time(timer);
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Negotiation>> {
        vec![
            Property::always("all or nothing", |_, world: &World| {
                !world.is_settled() || world.both_committed() || world.committed() == [false, false]
            }),
            Property::always("told the truth", |_, world: &World| {
                !world.is_settled() || (world.client == Client::Committed) == world.both_committed()
            }),
            Property::always("no deadlock", |model: &Negotiation, world: &World| {
                let mut actions = Vec::new();
                model.actions(world, &mut actions);
                world.is_settled() || !actions.is_empty()
            }),
            Property::sometimes("committed", |_, world: &World| world.is_settled() && world.both_committed()),
            Property::sometimes("refused", |_, world: &World| {
                world.is_settled() && world.client == Client::Refused
            }),
            Property::sometimes("one part is committed and undone", |_, world: &World| {
                world.is_settled()
                    && world.broker.as_ref().is_some_and(|broker| {
                        broker.bookings().any(|booking| booking.outcome == Some(broker::Outcome::PartLost))
                    })
            }),
        ]
    }
}

fn check(budget: Budget, holding: Scheme) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let checker = Negotiation { budget, holding }.checker().threads(threads).spawn_bfs().join();
    let found = checker.discoveries();
    for property in ["all or nothing", "told the truth", "no deadlock"] {
        assert!(!found.contains_key(property), "{property} is violated:\n{:?}", found[property]);
    }
    assert!(found.contains_key("committed"));
    println!(
        "{budget:?}, {holding:?}: {} states, {} deep",
        checker.unique_state_count(),
        checker.max_depth()
    );
    checker.unique_state_count()
}

#[test]
fn the_negotiation_is_all_or_nothing_in_every_order_of_events() {
    let budget = |lost, crashes, early| Budget { lost, crashes, early };
    // The counts are pinned: another count means that the protocol or the model has changed.
    for (holding, counts) in
        [(Scheme::Parallel, [29, 6_886, 325_621]), (Scheme::Sequential, [25, 6_122, 250_785])]
    {
        assert_eq!(check(budget(0, 0, 0), holding), counts[0]);
        assert_eq!(check(budget(1, 1, 0), holding), counts[1]);
        if !quick() {
            assert_eq!(check(budget(1, 1, 1), holding), counts[2]);
        }
    }
}
