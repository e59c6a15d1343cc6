//! A race of copies under faults: messages are lost, repeated and reordered; sites refuse, lose running jobs,
//! forget or are cut off; the broker crashes and restarts from its journal, also between two events of one
//! step. No job runs twice. After recovery no copy is left anywhere, and one outcome was reported.

use super::race::{PACE, order};
use super::{Chance, seeds};
use bookahead_plan::Time;
use bookahead_protocol::jobs::Ending;
use bookahead_protocol::jobs::race::{
    Ask, Effects, Event, Incoming, Order, Outcome, Outgoing, Race, SiteReport,
};
use bookahead_protocol::{JobId, Millis, Moment, Name};
use std::collections::BTreeMap;

const SITES: [&str; 4] = ["a", "b", "c", "d"];
const STEPS: usize = 20_000;
/// How long a site waits for a go.
const GO_WITHIN: Millis = Millis::seconds(20);

/// A copy at a site.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Copy {
    Waits,
    Claims {
        until: Moment,
    },
    /// It has its go, but there was no room at that moment.
    MayRun,
    Runs(Time),
    Over {
        since: Option<Time>,
        until: Time,
        how: Ending,
    },
    NoGo,
    Cancelled,
}

/// A site that remembers its copies, unless it loses its journal.
struct Node {
    name: Name,
    copies: BTreeMap<JobId, Copy>,
    refuses: bool,
    /// Whether it has ever lost its journal.
    forgot: bool,
    /// Number of copies started.
    runs: usize,
    /// Number of copies that ran to the end.
    finished: usize,
}

enum Letter {
    Question { out: Outgoing, sent: Moment },
    Answer(Incoming),
}

/// Possible faults, besides lost messages and broker crashes.
#[derive(Debug, Clone, Copy, Default)]
struct Faults {
    /// Sites lose their journals.
    forgetting: bool,
    /// The broker sends before its events are durable.
    sends_first: bool,
    /// The job is itself a copy, and gets its go after a while.
    claims: bool,
    /// The owner cancels the job.
    withdraws: bool,
}

struct World {
    now: Moment,
    chance: Chance,
    faults: Faults,
    race: Race,
    journal: Vec<Event>,
    nodes: Vec<Node>,
    letters: Vec<Letter>,
    cut_off: Option<usize>,
    faulty: bool,
    told: Vec<Outcome>,
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let mut chance = Chance(seed);
        let node = |name: &&str| {
            let (name, refuses) = ((*name).into(), chance.percent(15));
            Node { name, copies: BTreeMap::new(), refuses, forgot: false, runs: 0, finished: 0 }
        };
        let nodes = SITES.iter().map(node).collect();
        World {
            now: Moment(0),
            chance,
            faults,
            race: Race::default(),
            journal: Vec::new(),
            nodes,
            letters: Vec::new(),
            cut_off: None,
            faulty: true,
            told: Vec::new(),
        }
    }

    fn broker_does(&mut self, effects: Effects) {
        let crash = self.faulty && self.chance.percent(4);
        let kept = if crash { self.chance.below(effects.events.len() + 1) } else { effects.events.len() };
        let whole = kept == effects.events.len();
        self.journal.extend(effects.events.into_iter().take(kept));
        // An outcome is reported once it is durable; after a crash it is found in the journal.
        if whole {
            self.told.extend(effects.outcome);
        }
        if !crash || self.faults.sends_first {
            let sent = self.now;
            self.letters.extend(effects.send.into_iter().map(|out| Letter::Question { out, sent }));
        }
        if crash {
            self.restart_broker(!whole);
        }
    }

    fn restart_broker(&mut self, untold: bool) {
        self.race = Race::default();
        self.journal.iter().for_each(|event| self.race.apply(event));
        if let Some(outcome) = self.race.outcome().filter(|_| untold && self.told.is_empty()) {
            self.told.push(outcome.clone());
        }
        // The broker may have been away for long.
        self.now = Moment(self.now.0 + self.chance.below(40_000) as i64);
        let effects = self.race.resume(self.now, &PACE);
        self.broker_does(effects);
    }

    fn answer(&mut self, at: usize, out: &Outgoing) -> SiteReport {
        let second = self.now.second();
        let has_room = self.chance.percent(70);
        let node = &mut self.nodes[at];
        let copy = match (out.ask, node.copies.get(&out.copy).copied()) {
            (Ask::Submit, None) if node.refuses => return SiteReport::Refused("closed".into()),
            (Ask::Submit, None) => Copy::Waits,
            (_, None) => return SiteReport::Unknown,
            (Ask::Drop, Some(Copy::Waits | Copy::Claims { .. } | Copy::MayRun)) => Copy::Cancelled,
            (Ask::Drop, Some(Copy::Runs(since))) => {
                Copy::Over { since: Some(since), until: second, how: Ending::Failed }
            }
            (Ask::Go, Some(Copy::Waits | Copy::Claims { .. })) if has_room => {
                node.runs += 1;
                Copy::Runs(second)
            }
            (Ask::Go, Some(Copy::Waits | Copy::Claims { .. })) => Copy::MayRun,
            (_, Some(copy)) => copy,
        };
        node.copies.insert(out.copy, copy);
        match copy {
            Copy::Waits | Copy::MayRun => SiteReport::Waits,
            Copy::Claims { .. } => SiteReport::Claims,
            Copy::Runs(since) => SiteReport::Runs { since },
            Copy::Over { since, until, how } => SiteReport::Ran { since, until, how },
            Copy::NoGo => SiteReport::NeverRan { why: "no go".into(), again: true },
            Copy::Cancelled => SiteReport::NeverRan { why: "cancelled".into(), again: false },
        }
    }

    fn deliver(&mut self) {
        let at = self.chance.below(self.letters.len());
        let letter = self.letters.swap_remove(at);
        let lost = self.faulty && self.chance.percent(20);
        match letter {
            Letter::Question { out, sent } => {
                let node = self.nodes.iter().position(|node| node.name == out.to).unwrap();
                // No call is in flight for longer than that.
                let stale = sent + PACE.doubt <= self.now;
                if lost || stale || self.cut_off == Some(node) {
                    return;
                }
                if self.faulty && self.chance.percent(10) {
                    self.letters.push(Letter::Question { out: out.clone(), sent });
                }
                let report = self.answer(node, &out);
                let Outgoing { to, copy, ask } = out;
                self.letters.push(Letter::Answer(Incoming { from: to, copy, asked: ask, report }));
            }
            Letter::Answer(answer) => {
                if lost {
                    return;
                }
                if self.faulty && self.chance.percent(10) {
                    self.letters.push(Letter::Answer(answer.clone()));
                }
                let effects = self.race.on_answer(self.now, answer, &PACE);
                self.broker_does(effects);
            }
        }
    }

    /// Advances the batch system of a site.
    fn schedule(&mut self) {
        let at = self.chance.below(SITES.len());
        let (now, second) = (self.now, self.now.second());
        let node = &mut self.nodes[at];
        for copy in node.copies.values_mut() {
            *copy = match *copy {
                Copy::Waits => Copy::Claims { until: now + GO_WITHIN },
                Copy::Claims { until } if until <= now => Copy::NoGo,
                Copy::MayRun => {
                    node.runs += 1;
                    Copy::Runs(second)
                }
                Copy::Runs(since) => {
                    node.finished += 1;
                    Copy::Over { since: Some(since), until: second, how: Ending::Finished }
                }
                other => other,
            };
        }
    }

    fn misfortune(&mut self) {
        let at = self.chance.below(SITES.len());
        match self.chance.below(8) {
            0 => self.restart_broker(false),
            1 => self.cut_off = Some(at),
            2 => self.cut_off = None,
            // The machines go down: running jobs are lost, and it is unknown whether granted ones started.
            3 if self.chance.percent(20) => {
                let until = self.now.second();
                for copy in self.nodes[at].copies.values_mut() {
                    match *copy {
                        Copy::Runs(since) => {
                            *copy = Copy::Over { since: Some(since), until, how: Ending::Lost };
                        }
                        Copy::MayRun => *copy = Copy::Over { since: None, until, how: Ending::Lost },
                        _ => {}
                    }
                }
            }
            4 if self.faults.forgetting && self.chance.percent(5) => {
                self.nodes[at].copies.clear();
                self.nodes[at].forgot = true;
            }
            _ => {}
        }
    }

    fn let_time_pass(&mut self) {
        self.now = Moment(self.now.0 + 1 + self.chance.below(3_000) as i64);
        if self.race.next_timer(&PACE).is_some_and(|due| due <= self.now) {
            let effects = self.race.tick(self.now, &PACE);
            self.broker_does(effects);
            let stuck = self.race.next_timer(&PACE).is_some_and(|due| due <= self.now);
            assert!(!stuck, "a timer that is due after its tick: {:?}", self.race);
        }
    }

    fn run(mut self) -> World {
        let order = Order { claims: self.faults.claims, ..order(&SITES, 3) };
        let effects = self.race.start(self.now, order, &PACE);
        // A broker that crashed before the first event never had the job.
        self.journal.extend(effects.events.iter().take(1).cloned());
        self.broker_does(Effects { events: effects.events[1..].to_vec(), ..effects });
        for step in 0..STEPS {
            self.faulty = step < 300;
            if self.faults.withdraws && step == 60 {
                let effects = self.race.withdraw(self.now, &PACE);
                self.broker_does(effects);
            }
            // A go is repeated, as brokers do.
            if self.faults.claims && step % 50 == 0 && self.race.is_claiming() {
                let effects = self.race.go(self.now, &PACE);
                self.broker_does(effects);
            }
            if !self.faulty {
                self.cut_off = None;
            }
            match self.chance.below(10) {
                0 => self.let_time_pass(),
                1 if self.chance.percent(30) => self.schedule(),
                2 if self.faulty => self.misfortune(),
                _ if self.letters.is_empty() => self.let_time_pass(),
                _ => self.deliver(),
            }
            if !self.faulty && self.letters.is_empty() && self.race.is_over() {
                return self;
            }
        }
        panic!("it did not come to an end: {:?}", self.race);
    }

    fn runs(&self) -> usize {
        self.nodes.iter().map(|node| node.runs).sum()
    }

    /// Whether a copy is left anywhere.
    fn is_left(&self) -> bool {
        let left = |copy: &Copy| !matches!(copy, Copy::Over { .. } | Copy::NoGo | Copy::Cancelled);
        self.nodes.iter().flat_map(|node| node.copies.values()).any(left)
    }

    /// Checks the outcome against the runs.
    fn check_outcome(&self, seed: u64) {
        let finished: usize = self.nodes.iter().map(|node| node.finished).sum();
        assert_eq!(self.told.len(), 1, "seed {seed}: {:?}", self.told);
        assert_eq!(self.race.outcome(), self.told.first(), "seed {seed}");
        match &self.told[0] {
            Outcome::Ended { site, how: Ending::Finished } => {
                let node = self.nodes.iter().find(|node| node.name == *site).unwrap();
                assert_eq!((node.runs, node.finished), (1, 1), "seed {seed}");
            }
            Outcome::Ended { how: Ending::Lost, .. } => assert_eq!(finished, 0, "seed {seed}"),
            Outcome::Ended { how: Ending::Failed, .. } => {
                assert!(self.faults.withdraws, "seed {seed}: it was not cancelled");
            }
            Outcome::NowhereLeft | Outcome::Withdrawn => assert_eq!(self.runs(), 0, "seed {seed}"),
        }
        if self.told[0] == Outcome::NowhereLeft {
            assert!(self.nodes.iter().all(|node| node.refuses || !node.copies.is_empty()), "seed {seed}");
        }
    }
}

#[test]
fn whatever_goes_wrong_a_job_runs_once_and_no_copy_is_left() {
    let (mut finished, mut lost, mut nowhere, mut granted_again) = (0, 0, 0, 0);
    for seed in seeds(4_000) {
        let world = World::new(seed, Faults::default()).run();
        assert!(world.runs() <= 1, "seed {seed}: it ran {} times", world.runs());
        assert!(!world.is_left(), "seed {seed}");
        world.check_outcome(seed);
        let grants = world.journal.iter().filter(|event| matches!(event, Event::Granted(_))).count();
        granted_again += usize::from(grants > 1);
        match world.told[0] {
            Outcome::Ended { how: Ending::Finished, .. } => finished += 1,
            Outcome::NowhereLeft => nowhere += 1,
            _ => lost += 1,
        }
    }
    assert!(finished > 10 * lost && lost > 0 && finished > 100 * nowhere, "{finished} {lost} {nowhere}");
    assert!(granted_again > 10, "where the first was over without having run: {granted_again}");
}

#[test]
fn a_job_that_is_itself_a_copy_runs_once_and_not_before_its_go() {
    let mut finished = 0;
    for seed in seeds(1_000) {
        let world = World::new(seed, Faults { claims: true, ..Faults::default() }).run();
        assert!(world.runs() <= 1 && !world.is_left(), "seed {seed}");
        world.check_outcome(seed);
        let allowed = world.journal.iter().position(|event| *event == Event::Allowed);
        let granted = world.journal.iter().position(|event| matches!(event, Event::Granted(_)));
        assert!(granted.is_none_or(|granted| allowed.unwrap() < granted), "seed {seed}");
        finished += usize::from(matches!(world.told[0], Outcome::Ended { how: Ending::Finished, .. }));
    }
    assert!(finished > 200, "{finished}");
}

#[test]
fn whatever_goes_wrong_no_copy_is_left_of_a_job_that_was_taken_back() {
    let (mut withdrawn, mut ended) = (0, 0);
    for seed in seeds(2_000) {
        let world = World::new(seed, Faults { withdraws: true, ..Faults::default() }).run();
        assert!(world.runs() <= 1 && !world.is_left(), "seed {seed}");
        world.check_outcome(seed);
        withdrawn += usize::from(world.told[0] == Outcome::Withdrawn);
        ended += usize::from(matches!(world.told[0], Outcome::Ended { .. }));
    }
    assert!(withdrawn > 100 && ended > 100, "before and after the go: {withdrawn} {ended}");
}

#[test]
fn sites_that_lose_their_journals_end_every_job_and_no_site_that_keeps_its_own_runs_one_twice() {
    let mut forgot = 0;
    for seed in seeds(1_000) {
        let world = World::new(seed, Faults { forgetting: true, ..Faults::default() }).run();
        assert!(!world.is_left() && world.told.len() == 1, "seed {seed}");
        let keeping = world.nodes.iter().filter(|node| !node.forgot).map(|node| node.runs).sum::<usize>();
        assert!(keeping <= 1, "seed {seed}");
        forgot += usize::from(world.nodes.iter().any(|node| node.forgot));
    }
    assert!(forgot > seeds(1_000).count() / 10, "{forgot}");
}

#[test]
fn a_broker_that_sends_before_it_writes_is_caught() {
    let faults = Faults { sends_first: true, ..Faults::default() };
    assert!((0..4_000).any(|seed| World::new(seed, faults).run().runs() > 1));
}

#[test]
fn a_journal_leads_to_what_its_owner_knew() {
    for seed in seeds(200) {
        let world = World::new(seed, Faults::default()).run();
        let mut race = Race::default();
        world.journal.iter().for_each(|event| race.apply(event));
        assert_eq!((race.outcome(), race.granted()), (world.race.outcome(), world.race.granted()), "{seed}");
        assert!(race.is_over(), "seed {seed}");
        let written = serde_json::to_string(&world.journal).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Event>>(&written).unwrap(), world.journal);
    }
}
