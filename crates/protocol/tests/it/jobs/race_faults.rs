//! A race of copies while questions and answers are lost, repeated and overtake one another, sites refuse, forget or are cut
//! off, and the broker crashes and restarts from its journal, also between two events of one step. Once all is well again no
//! copy is left anywhere, one outcome was told, and whatever else ran is known to have run in vain.

use super::race::{JOB, PACE, entries};
use super::{Chance, seeds};
use bookahead_plan::{Seconds, Time};
use bookahead_protocol::jobs::flooding::Ending;
use bookahead_protocol::jobs::race::{Ask, Effects, Event, Outcome, Outgoing, Race, Told};
use bookahead_protocol::{Moment, Name};

const SITES: [&str; 4] = ["a", "b", "c", "d"];
const STEPS: usize = 20_000;

/// The copy at a site.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Copy {
    Waits,
    Runs(Time),
    /// Since when it ran, if it did; until when; whether to its end.
    Over(Option<Time>, Time, bool),
}

struct Node {
    name: Name,
    copy: Option<Copy>,
    refuses: bool,
    /// Whether it has ever lost what it knew.
    forgot: bool,
}

enum Letter {
    Question { out: Outgoing, sent: Moment },
    Answer { from: Name, out: Outgoing, told: Told },
}

struct World {
    now: Moment,
    chance: Chance,
    race: Race,
    journal: Vec<Event>,
    nodes: Vec<Node>,
    letters: Vec<Letter>,
    cut_off: Option<usize>,
    faulty: bool,
    told: Vec<Outcome>,
}

impl World {
    fn new(seed: u64) -> World {
        let mut chance = Chance(seed);
        let node = |name: &&str| {
            let (copy, refuses, forgot) = (None, chance.percent(15), false);
            Node { name: (*name).into(), copy, refuses, forgot }
        };
        let nodes = SITES.iter().map(node).collect();
        World {
            now: Moment(0),
            chance,
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
        // What was decided is told when it is on disk, and may be told by whoever reads the journal.
        if whole {
            self.told.extend(effects.outcome);
        }
        if crash {
            return self.restart_broker(!whole);
        }
        let sent = self.now;
        self.letters.extend(effects.send.into_iter().map(|out| Letter::Question { out, sent }));
    }

    fn restart_broker(&mut self, untold: bool) {
        self.race = Race::default();
        self.journal.iter().for_each(|event| self.race.apply(event));
        if let Some(outcome) = self.race.outcome().filter(|_| untold && self.told.is_empty()) {
            self.told.push(outcome.clone());
        }
        // It may have been away for long.
        self.now = Moment(self.now.0 + self.chance.below(40_000) as i64);
        let effects = self.race.resume(self.now, &PACE);
        self.broker_does(effects);
    }

    fn answer(&mut self, at: usize, out: &Outgoing) -> Told {
        let second = self.now.second();
        let node = &mut self.nodes[at];
        match (out.ask, node.copy) {
            (Ask::Submit, None) if node.refuses => return Told::Refused("closed".into()),
            (Ask::Submit, None) => node.copy = Some(Copy::Waits),
            (_, None) => return Told::Unknown,
            (Ask::Drop, Some(Copy::Waits)) => node.copy = Some(Copy::Over(None, second, false)),
            (Ask::Drop, Some(Copy::Runs(since))) => node.copy = Some(Copy::Over(Some(since), second, false)),
            _ => {}
        }
        match node.copy {
            None | Some(Copy::Waits) => Told::Waits,
            Some(Copy::Runs(since)) => Told::Runs { since },
            Some(Copy::Over(None, ..)) => Told::NeverRan("ended".into()),
            Some(Copy::Over(Some(since), until, finished)) => {
                let how = if finished { Ending::Finished } else { Ending::Failed };
                Told::Ran { since, until, how }
            }
        }
    }

    fn deliver(&mut self) {
        let at = self.chance.below(self.letters.len());
        let letter = self.letters.swap_remove(at);
        let lost = self.faulty && self.chance.percent(20);
        match letter {
            Letter::Question { out, sent } => {
                let node = self.nodes.iter().position(|node| node.name == out.to).unwrap();
                // No call is under way for longer than that.
                let stale = sent + PACE.doubt <= self.now;
                if lost || stale || self.cut_off == Some(node) {
                    return;
                }
                if self.faulty && self.chance.percent(10) {
                    self.letters.push(Letter::Question { out: out.clone(), sent });
                }
                let told = self.answer(node, &out);
                self.letters.push(Letter::Answer { from: out.to.clone(), out, told });
            }
            Letter::Answer { from, out, told } => {
                if !lost {
                    let effects = self.race.on_answer(self.now, &from, (out.copy, out.ask), told, &PACE);
                    self.broker_does(effects);
                }
            }
        }
    }

    /// The batch system of a site goes on.
    fn schedule(&mut self) {
        let at = self.chance.below(SITES.len());
        let second = self.now.second();
        let node = &mut self.nodes[at];
        match node.copy {
            Some(Copy::Waits) => node.copy = Some(Copy::Runs(second)),
            Some(Copy::Runs(since)) => node.copy = Some(Copy::Over(Some(since), second, true)),
            Some(Copy::Over(..)) | None => {}
        }
    }

    fn misfortune(&mut self) {
        match self.chance.below(8) {
            0 => self.restart_broker(false),
            1 => self.cut_off = Some(self.chance.below(SITES.len())),
            2 => self.cut_off = None,
            3 if self.chance.percent(5) => {
                let at = self.chance.below(SITES.len());
                let node = &mut self.nodes[at];
                (node.copy, node.forgot) = (None, true);
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

    fn run(mut self, withdraws: bool) -> World {
        // A broker that crashed before anything was journalled never had the job.
        let effects = self.race.start(self.now, entries(&SITES), 3, &PACE);
        self.journal.extend(effects.events.iter().take(1).cloned());
        self.broker_does(Effects { events: effects.events[1..].to_vec(), ..effects });
        for step in 0..STEPS {
            self.faulty = step < 300;
            if withdraws && step == 150 {
                let effects = self.race.withdraw(self.now, &PACE);
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

    fn is_left(&self) -> bool {
        self.nodes.iter().any(|node| matches!(node.copy, Some(Copy::Waits | Copy::Runs(_))))
    }

    /// Whatever ran and did not win is known to have run in vain.
    fn check_account(&self, seed: u64) {
        for node in self.nodes.iter().filter(|node| !node.forgot) {
            let Some(Copy::Over(Some(since), until, _)) = node.copy else { continue };
            let told = self.race.wasted().find(|(site, _)| **site == node.name).map(|(_, ran)| ran);
            let ran = until - since;
            if self.race.winner() == Some(&node.name) {
                assert_eq!(told, None, "seed {seed}: {}", node.name);
            } else {
                assert_eq!(told.unwrap_or(Seconds(0)), ran, "seed {seed}: {}", node.name);
            }
        }
    }
}

#[test]
fn whatever_goes_wrong_no_copy_is_left_and_one_outcome_is_told() {
    let (mut ran, mut nowhere) = (0, 0);
    for seed in seeds(4_000) {
        let world = World::new(seed).run(false);
        assert!(!world.is_left(), "seed {seed}");
        assert_eq!(world.told.len(), 1, "seed {seed}: {:?}", world.told);
        assert_eq!(world.race.outcome(), world.told.first(), "seed {seed}");
        world.check_account(seed);
        match world.race.outcome().unwrap() {
            Outcome::Ended { site, how } => {
                let node = world.nodes.iter().find(|node| node.name == *site).unwrap();
                let finished = matches!(node.copy, Some(Copy::Over(Some(_), _, true)));
                assert!(finished == (*how == Ending::Finished) || node.forgot, "seed {seed}: {how:?}");
                assert!(*how != Ending::Failed, "seed {seed}: nobody ended the one that won");
                ran += 1;
            }
            Outcome::NowhereLeft => {
                let why = |node: &Node| node.refuses || node.forgot;
                assert!(world.nodes.iter().all(why), "seed {seed}: somebody could have run it");
                nowhere += 1;
            }
            Outcome::Withdrawn => panic!("seed {seed}: nobody took it back"),
        }
    }
    assert!(ran > 100 * nowhere.max(1), "{ran} {nowhere}");
}

#[test]
fn whatever_goes_wrong_no_copy_is_left_of_a_job_that_was_taken_back() {
    let mut withdrawn = 0;
    for seed in seeds(2_000) {
        let world = World::new(seed).run(true);
        assert!(!world.is_left(), "seed {seed}");
        assert_eq!(world.told.len(), 1, "seed {seed}: {:?}", world.told);
        world.check_account(seed);
        withdrawn += usize::from(world.told == [Outcome::Withdrawn]);
    }
    assert!(withdrawn > 10, "some were taken back before they ran: {withdrawn}");
}

#[test]
fn a_journal_leads_to_what_its_owner_knew() {
    for seed in seeds(200) {
        let world = World::new(seed).run(false);
        let mut race = Race::default();
        world.journal.iter().for_each(|event| race.apply(event));
        assert_eq!((race.outcome(), race.winner()), (world.race.outcome(), world.race.winner()), "{seed}");
        assert!(race.is_over(), "seed {seed}");
        let written = serde_json::to_string(&world.journal).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Event>>(&written).unwrap(), world.journal);
    }
    assert_eq!(entries(&SITES)[0].copy, bookahead_protocol::jobs::race::copy_of(JOB, 0));
}
