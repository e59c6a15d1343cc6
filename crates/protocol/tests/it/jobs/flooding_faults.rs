//! Copies of a job while messages are lost, repeated and overtake one another, and broker and sites crash and restart from
//! their journals, also between two events of one step. Never do two copies run; once all is well again no copy is left
//! anywhere; and the job ran exactly once, unless its site went down between its start and its end.

use super::flooding::{JOB, ROOM_FOR, copies_for};
use super::{Chance, seeds};
use bookahead_protocol::jobs::flooding::{
    Action, CopyEvent, Ending, FloodEffects, FloodEvent, FloodOutcome, SiteEffects,
};
use bookahead_protocol::jobs::{Copies, Flood, JobMessage, Patience};
use bookahead_protocol::{Moment, Name};

const SITES: [&str; 3] = ["a", "b", "c"];
const STEPS: usize = 6_000;

/// A site, its journal, and what it does with its scheduler.
struct Node {
    name: Name,
    copies: Copies,
    journal: Vec<CopyEvent>,
    /// Whether the copy is in the queue of its scheduler.
    queued: bool,
    /// Whether the copy runs at this moment.
    runs: bool,
}

struct World {
    now: Moment,
    chance: Chance,
    flood: Flood,
    journal: Vec<FloodEvent>,
    nodes: Vec<Node>,
    /// From, to, what.
    letters: Vec<(Name, Name, JobMessage)>,
    faulty: bool,
    /// How often a copy was run, at any site.
    runs: usize,
    /// How often a run came to its end.
    finished: usize,
    /// How often a site went down with the job started.
    lost: usize,
    told: Vec<FloodOutcome>,
}

fn fresh_copies() -> Copies {
    Copies::new(Patience::default(), ROOM_FOR)
}

impl World {
    fn new(seed: u64) -> World {
        let node = |name: &str| Node {
            name: name.into(),
            copies: fresh_copies(),
            journal: Vec::new(),
            queued: false,
            runs: false,
        };
        World {
            now: Moment(0),
            chance: Chance(seed),
            flood: Flood::new(JOB),
            journal: Vec::new(),
            nodes: SITES.iter().map(|name| node(name)).collect(),
            letters: Vec::new(),
            faulty: true,
            runs: 0,
            finished: 0,
            lost: 0,
            told: Vec::new(),
        }
    }

    /// How many of `events` are on disk when the machine goes down, if it goes down now.
    fn crash_after(&mut self, events: usize) -> Option<usize> {
        (self.faulty && self.chance.percent(4)).then(|| self.chance.below(events + 1))
    }

    fn broker_does(&mut self, effects: FloodEffects) {
        let crash = self.crash_after(effects.events.len());
        let kept = crash.unwrap_or(effects.events.len());
        self.journal.extend(effects.events.into_iter().take(kept));
        if crash.is_some() {
            return self.restart_broker();
        }
        let letter =
            |out: bookahead_protocol::jobs::flooding::Outgoing| ("broker".into(), out.to, out.message);
        self.letters.extend(effects.send.into_iter().map(letter));
        self.told.extend(effects.outcome);
    }

    fn restart_broker(&mut self) {
        self.flood = Flood::new(JOB);
        self.journal.iter().for_each(|event| self.flood.apply(event));
        let effects = self.flood.resume(self.now);
        self.broker_does(effects);
    }

    fn site_does(&mut self, at: usize, effects: SiteEffects) {
        let crash = self.crash_after(effects.events.len());
        let kept = crash.unwrap_or(effects.events.len());
        self.nodes[at].journal.extend(effects.events.into_iter().take(kept));
        if crash.is_some() {
            return self.restart_site(at);
        }
        let from = self.nodes[at].name.clone();
        self.letters.extend(effects.send.into_iter().map(|out| (from.clone(), out.to, out.message)));
        for action in effects.actions {
            self.act(at, &action);
        }
    }

    fn act(&mut self, at: usize, action: &Action) {
        match action {
            Action::Queue { .. } => self.nodes[at].queued = true,
            Action::Remove(_) => self.nodes[at].queued = false,
            Action::PassOver(_) => {}
            Action::MayRun(_) => {
                // There may be no room at the moment.
                if self.chance.percent(70) {
                    self.turn(at);
                }
            }
            Action::Run(_) => {
                self.runs += 1;
                (self.nodes[at].queued, self.nodes[at].runs) = (false, true);
                assert!(self.runs <= 1, "a second copy runs");
            }
        }
    }

    fn restart_site(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        let started = node.journal.iter().rfind(|event| !matches!(event, CopyEvent::Noted(_)));
        self.lost += usize::from(matches!(started, Some(CopyEvent::Started(_))));
        (node.queued, node.runs) = (false, false);
        node.copies = fresh_copies();
        node.journal.iter().for_each(|event| node.copies.apply(event));
        let effects = node.copies.resume(self.now);
        self.site_does(at, effects);
    }

    fn turn(&mut self, at: usize) {
        let effects = self.nodes[at].copies.turn_came(self.now, JOB);
        self.site_does(at, effects);
    }

    /// The scheduler of a site looks at its queue, or what runs there ends.
    fn schedule(&mut self, at: usize) {
        if self.nodes[at].runs {
            self.nodes[at].runs = false;
            self.finished += 1;
            let effects = self.nodes[at].copies.ended(self.now, JOB, Ending::Finished);
            self.site_does(at, effects);
        } else if self.nodes[at].queued {
            self.turn(at);
        }
    }

    fn deliver(&mut self) {
        let at = self.chance.below(self.letters.len());
        let letter = self.letters.swap_remove(at);
        if self.faulty && self.chance.percent(20) {
            return;
        }
        if self.faulty && self.chance.percent(20) {
            self.letters.push(letter.clone());
        }
        let (from, to, message) = letter;
        match self.nodes.iter().position(|node| node.name == to) {
            Some(at) => {
                let effects = self.nodes[at].copies.on_message(self.now, &from, &message);
                self.site_does(at, effects);
            }
            None => {
                let effects = self.flood.on_message(self.now, &from, &message);
                self.broker_does(effects);
            }
        }
    }

    fn let_time_pass(&mut self) {
        self.now = Moment(self.now.0 + 1 + self.chance.below(3_000) as i64);
        let effects = self.flood.tick(self.now);
        self.broker_does(effects);
        for at in 0..self.nodes.len() {
            let effects = self.nodes[at].copies.tick(self.now);
            self.site_does(at, effects);
        }
    }

    fn crash_somebody(&mut self) {
        match self.chance.below(SITES.len() + 1) {
            at if at < SITES.len() => self.restart_site(at),
            _ => self.restart_broker(),
        }
    }

    fn is_settled(&self) -> bool {
        let at_peace = |node: &Node| !node.queued && !node.runs && node.copies.is_over(JOB);
        self.letters.is_empty() && self.flood.is_over() && self.nodes.iter().all(at_peace)
    }

    fn run(mut self) -> World {
        let effects = self.flood.start(self.now, copies_for(&SITES), Patience::default());
        // A broker that crashed before anything was journalled never had the job.
        self.journal.extend(effects.events.iter().cloned());
        let letter =
            |out: bookahead_protocol::jobs::flooding::Outgoing| ("broker".into(), out.to, out.message);
        self.letters.extend(effects.send.into_iter().map(letter));
        for step in 0..STEPS {
            self.faulty = step < 200;
            match self.chance.below(8) {
                0 => self.let_time_pass(),
                1 | 2 => {
                    let at = self.chance.below(SITES.len());
                    self.schedule(at);
                }
                3 if self.faulty && self.chance.percent(10) => self.crash_somebody(),
                _ if self.letters.is_empty() => self.let_time_pass(),
                _ => self.deliver(),
            }
            if !self.faulty && self.is_settled() {
                return self;
            }
        }
        panic!("it did not come to an end: {:?}", self.flood);
    }
}

#[test]
fn whatever_goes_wrong_no_two_copies_run_and_no_copy_is_left() {
    let (mut ran, mut lost) = (0, 0);
    for seed in seeds(2_000) {
        let world = World::new(seed).run();
        assert!(world.nodes.iter().all(|node| node.copies.queued().count() == 0), "seed {seed}");
        assert!(world.told.len() <= 1, "seed {seed}: the outcome is told once");
        let outcome = world.flood.outcome().unwrap();
        if world.lost == 0 {
            assert_eq!((world.runs, world.finished), (1, 1), "seed {seed}");
            assert!(matches!(outcome, FloodOutcome::Ended { how: Ending::Finished, .. }), "seed {seed}");
            ran += 1;
        } else {
            // The job may have run to its end and its site gone down before that was on disk.
            assert!(
                matches!(outcome, FloodOutcome::Ended { how: Ending::Lost, .. }),
                "seed {seed}: {outcome:?}"
            );
            lost += 1;
        }
    }
    assert!(ran > lost && lost > 0, "both were seen: {ran} {lost}");
}

#[test]
fn a_journal_leads_to_what_its_owner_knew() {
    for seed in seeds(200) {
        let world = World::new(seed).run();
        let mut flood = Flood::new(JOB);
        world.journal.iter().for_each(|event| flood.apply(event));
        assert_eq!((flood.outcome(), flood.granted()), (world.flood.outcome(), world.flood.granted()));
        assert!(flood.is_over(), "seed {seed}");
    }
}
