//! Flooded jobs at a broker under faults. Some copies go through a second broker; messages are lost, repeated
//! and reordered, and both brokers crash and restart from their journals, also between two events of one
//! step. No job runs twice, every job ends, and its owner learns the result.

use super::desk::{ada, flooded, heartbeat, job_rules, name, site};
use bookahead_party::broker::{Broker, BrokerEvent};
use bookahead_party::{
    CallId, Heartbeat, Input, JobCall as Ask, Origin, Output, Party, PeerRequest, Queries, Reply, Role,
};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::broker::Rules;
use bookahead_protocol::jobs::{JobView, JobWord};
use bookahead_protocol::problem::{Problem, Why};
use bookahead_protocol::{JobId, Key, Millis, Moment, Name, Resource};
use bookahead_tests::cases::fewer;
use std::collections::{BTreeMap, BTreeSet};

const JOBS: u128 = 3;
const STEPS: usize = 60_000;
/// How long a site waits for a go.
const GO_WITHIN: Millis = Millis::seconds(20);

/// Random numbers from a seed (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % count.max(1) as u64) as usize
    }

    fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }
}

/// A broker and its journal.
struct Hub {
    broker: Broker,
    peers: Vec<Heartbeat>,
    journal: Vec<String>,
    /// Calls of the other broker that wait for a reply.
    waiting: BTreeMap<CallId, (JobId, Ask)>,
    calls: u64,
}

/// A copy at a site, and until when it waits for its go.
#[derive(Clone)]
struct Copy {
    view: JobView,
    until: Moment,
}

#[derive(Clone)]
enum Letter {
    Ask { from: Name, to: Name, id: JobId, request: PeerRequest, sent: Moment },
    Tell { from: Name, to: Name, id: JobId, asked: Ask, answer: Result<Box<JobView>, Problem> },
}

struct World {
    now: Moment,
    chance: Chance,
    hubs: BTreeMap<Name, Hub>,
    sites: BTreeMap<Name, BTreeMap<JobId, Copy>>,
    letters: Vec<Letter>,
    faulty: bool,
    /// Number of copies started, and number of those that ran to the end. The run time of all copies is their
    /// job's number.
    runs: BTreeMap<Seconds, (usize, usize)>,
}

fn fresh(hub: &Name) -> Broker {
    let about = Heartbeat { role: Role::Broker, ..heartbeat(hub.as_str(), Vec::new()) };
    let maker = if hub.as_str() == "outer" { 1 } else { 2 };
    let rules = Rules { maker, ..Rules::default() };
    Broker::new(rules, job_rules(), about, hub.clone(), BTreeSet::new(), true)
}

impl Hub {
    fn restart(&mut self, hub: &Name, now: Moment) -> Output<BrokerEvent> {
        self.broker = fresh(hub);
        self.waiting.clear();
        self.journal.iter().for_each(|line| self.broker.apply(&serde_json::from_str(line).unwrap()));
        let out = self.broker.start(now).unwrap();
        for peer in self.peers.clone() {
            self.broker
                .step(now, Input::Heard { call: None, heartbeat: Box::new(peer), round_trip: Some(1) });
        }
        out
    }
}

impl World {
    fn new(seed: u64) -> World {
        let mut world = World {
            now: Moment(0),
            chance: Chance(seed),
            hubs: BTreeMap::new(),
            sites: ["a", "b", "c"].map(|site| (name(site), BTreeMap::new())).into(),
            letters: Vec::new(),
            faulty: true,
            runs: BTreeMap::new(),
        };
        let through = ["a", "b"].map(|at| Resource::new(at, &format!("{at}/cluster"), "processors", 8));
        let inner = Heartbeat { role: Role::Broker, ..heartbeat("inner", through.into()) };
        for (hub, peers) in
            [("inner", vec![site("a", 0), site("b", 0)]), ("outer", vec![inner, site("c", 0)])]
        {
            let hub = name(hub);
            let (journal, waiting) = (Vec::new(), BTreeMap::new());
            let mut new = Hub { broker: fresh(&hub), peers, journal, waiting, calls: 0 };
            let out = new.restart(&hub, Moment(0));
            world.hubs.insert(hub.clone(), new);
            world.did(&hub, out);
        }
        world
    }

    fn did(&mut self, name: &Name, out: Output<BrokerEvent>) {
        let crash = self.faulty && self.chance.percent(4);
        let kept = if crash { self.chance.below(out.events.len() + 1) } else { out.events.len() };
        let hub = self.hubs.get_mut(name).unwrap();
        let written = out.events.iter().take(kept).map(|event| serde_json::to_string(event).unwrap());
        hub.journal.extend(written);
        if crash {
            return self.restart(&name.clone());
        }
        for (call, reply) in out.replies {
            let (Some((id, asked)), Reply::Job(answer)) = (hub.waiting.remove(&call), reply) else {
                continue;
            };
            let (from, to) = (name.clone(), Name::from("outer"));
            self.letters.push(Letter::Tell { from, to, id, asked, answer });
        }
        for call in out.calls {
            let PeerRequest::Job { id, .. } = &call.request else { panic!("{call:?}") };
            let (from, id) = (name.clone(), *id);
            let (to, request, sent) = (call.to, call.request, self.now);
            self.letters.push(Letter::Ask { from, to, id, request, sent });
        }
    }

    fn restart(&mut self, name: &Name) {
        // The broker may have been away for long.
        self.now = Moment(self.now.0 + self.chance.below(40_000) as i64);
        let out = self.hubs.get_mut(name).unwrap().restart(name, self.now);
        self.did(name, out);
    }

    fn step(&mut self, name: &Name, input: Input) {
        let out = self.hubs.get_mut(name).unwrap().broker.step(self.now, input);
        self.did(name, out);
    }

    fn deliver(&mut self) {
        let at = self.chance.below(self.letters.len());
        let letter = self.letters.swap_remove(at);
        if self.faulty && self.chance.percent(15) {
            return;
        }
        if self.faulty && self.chance.percent(10) {
            self.letters.push(letter.clone());
        }
        match letter {
            Letter::Tell { from, to, id, asked, answer } => {
                self.step(&to, Input::JobAnswered { from, id, asked, answer });
            }
            // No call is in flight for longer than that.
            Letter::Ask { sent, .. } if sent + job_rules().flood.doubt <= self.now => {}
            Letter::Ask { from, to, id, request, .. } => {
                let PeerRequest::Job { ask, .. } = request else { return };
                if self.sites.contains_key(&to) {
                    let answer = self.site_answers(&to, id, request);
                    self.letters.push(Letter::Tell { from: to, to: from, id, asked: ask, answer });
                } else {
                    self.hub_is_asked(&to, from, id, request);
                }
            }
        }
    }

    /// The inner broker is called like a site.
    fn hub_is_asked(&mut self, at: &Name, from: Name, id: JobId, request: PeerRequest) {
        let PeerRequest::Job { caller, ask, job, .. } = request else { return };
        let hub = self.hubs.get_mut(at).unwrap();
        hub.calls += 1;
        let call = CallId(hub.calls);
        let input = match (ask, job) {
            (Ask::Submit, Some(job)) => {
                Input::Submit { call, caller, key: Key(id.0), id, job, origin: Origin::default() }
            }
            (Ask::Go, _) => Input::Go { call, caller, id },
            (Ask::Drop, _) => Input::CancelJob { call, caller, id },
            _ => {
                let view = hub.broker.job(id).map(Box::new);
                let answer = view.ok_or_else(|| Problem::new(Why::UnknownJob(id)));
                return self.letters.push(Letter::Tell {
                    from: at.clone(),
                    to: from,
                    id,
                    asked: ask,
                    answer,
                });
            }
        };
        hub.waiting.insert(call, (id, ask));
        self.step(at, input);
    }

    /// A site that remembers its copies.
    fn site_answers(&mut self, at: &Name, id: JobId, request: PeerRequest) -> Result<Box<JobView>, Problem> {
        let now = self.now.second();
        let copies = self.sites.get_mut(at).unwrap();
        let PeerRequest::Job { ask, job, .. } = request else { panic!("{request:?}") };
        if let (Ask::Submit, Some(job)) = (ask, job) {
            assert!(job.claims, "a copy that would run by itself");
            let view = waiting(id, job.limit, now);
            copies.entry(id).or_insert(Copy { view, until: Moment::MAX });
        }
        let Some(copy) = copies.get_mut(&id) else { return Err(Problem::new(Why::UnknownJob(id))) };
        let view = &mut copy.view;
        match ask {
            Ask::Go if view.state == JobWord::Claiming => {
                (view.state, view.started) = (JobWord::Running, Some(now));
                let runs = self.runs.entry(view.limit).or_default();
                runs.0 += 1;
                assert!(runs.0 <= 1, "job {} runs a second time", view.limit.0);
            }
            Ask::Drop if !view.state.is_over() => {
                (view.state, view.ended) = (JobWord::Cancelled, Some(now));
            }
            _ => {}
        }
        Ok(Box::new(view.clone()))
    }

    /// Advances the batch system of a site.
    fn schedule(&mut self) {
        let (now, site) = (self.now, self.chance.below(self.sites.len()));
        for copy in self.sites.values_mut().nth(site).unwrap().values_mut() {
            let view = &mut copy.view;
            match view.state {
                JobWord::Waiting => {
                    (view.state, copy.until) = (JobWord::Claiming, now + GO_WITHIN);
                }
                JobWord::Claiming if copy.until <= now => {
                    (view.state, view.ended) = (JobWord::CouldNotStart, Some(now.second()));
                }
                JobWord::Running => {
                    (view.state, view.ended, view.exit) = (JobWord::Done, Some(now.second()), Some(0));
                    self.runs.entry(view.limit).or_default().1 += 1;
                }
                _ => {}
            }
        }
    }

    fn let_time_pass(&mut self) {
        self.now = Moment(self.now.0 + 1 + self.chance.below(2_000) as i64);
        for hub in [name("inner"), name("outer")] {
            if self.hubs[&hub].broker.wake_at().is_some_and(|due| due <= self.now) {
                self.step(&hub, Input::Time);
                let next = self.hubs[&hub].broker.wake_at();
                assert!(next.is_none_or(|due| due > self.now), "a timer that is due after its time");
            }
        }
    }

    fn is_settled(&self) -> bool {
        let idle = self.hubs.values().all(|hub| hub.broker.wake_at().is_none());
        !self.faulty && idle && self.letters.is_empty()
    }

    fn submit(&mut self) {
        for number in 1..=JOBS {
            let job = Box::new(bookahead_protocol::jobs::JobRequest {
                limit: Seconds(number as i64),
                copies: Some(2),
                ..flooded()
            });
            let (call, caller, origin) = (CallId(0), ada(), Origin::default());
            let (key, id) = (Key(number), JobId(number));
            let outer = name("outer");
            // A client without an answer submits again.
            while self.hubs[&outer].broker.job(id).is_none() {
                let (caller, job, origin) = (caller.clone(), job.clone(), origin.clone());
                self.step(&outer, Input::Submit { call, caller, key, id, job, origin });
            }
        }
    }

    fn run(mut self) -> World {
        self.submit();
        for step in 0..STEPS {
            self.faulty = step < 400;
            match self.chance.below(12) {
                0 => self.let_time_pass(),
                1 if self.chance.percent(40) => self.schedule(),
                2 if self.faulty && self.chance.percent(10) => {
                    let hub = name(["inner", "outer"][self.chance.below(2)]);
                    self.restart(&hub);
                }
                _ if self.letters.is_empty() => self.let_time_pass(),
                _ => self.deliver(),
            }
            if self.is_settled() {
                return self;
            }
        }
        panic!("it did not come to an end");
    }
}

fn waiting(id: JobId, limit: Seconds, now: Time) -> JobView {
    JobView {
        rerun: Default::default(),
        runs: Default::default(),
        id,
        owner: name("ada"),
        site: None,
        resource: Some(name("cluster")),
        reservation: None,
        capacity: Capacity(4),
        limit,
        state: JobWord::Waiting,
        submitted: now,
        started: None,
        ended: None,
        expected_start: None,
        exit: None,
        native_id: None,
        detail: None,
        description: Default::default(),
    }
}

#[test]
fn whatever_goes_wrong_every_job_ends_and_none_runs_twice() {
    let seeds = fewer(400);
    let (mut done, mut interrupted, mut through_both) = (0, 0, 0);
    for seed in 0..seeds {
        let world = World::new(seed).run();
        for number in 1..=JOBS {
            let view = world.hubs[&name("outer")].broker.job(JobId(number)).unwrap();
            let runs = world.runs.get(&Seconds(number as i64)).copied().unwrap_or_default();
            match view.state {
                JobWord::Done => assert_eq!(runs, (1, 1), "seed {seed}, job {number}"),
                // The broker stopped before it had recorded the places.
                JobWord::CouldNotStart => assert_eq!(runs, (0, 0), "seed {seed}, job {number}: {view:?}"),
                other => panic!("seed {seed}, job {number}: {other:?} {view:?}"),
            }
            done += usize::from(view.state == JobWord::Done);
            interrupted += usize::from(view.state != JobWord::Done);
            through_both += usize::from(view.site == Some(name("inner")));
        }
        let left = world.sites.values().flat_map(BTreeMap::values).find(|copy| !copy.view.state.is_over());
        assert!(left.is_none(), "seed {seed}: {:?}", left.map(|copy| &copy.view));
    }
    assert!(done > 20 * interrupted && through_both > done / 10, "{done} {interrupted} {through_both}");
}
