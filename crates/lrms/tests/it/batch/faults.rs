//! After any sequence of orders and faults, once it is quiet again: the reservations equal the last orders, nothing
//! else of ours exists, no command runs without a change, and no job of ours is lost or duplicated.

use super::pretend::{Fault, Pretend};
use super::{Drive, batch, seen};
use crate::{at, backing, inside, job, span};
use bookahead_lrms::Batch;
use bookahead_lrms::batch::Tag;
use bookahead_plan::{Span, Time};
use bookahead_protocol::{JobId, Name, ReservationId};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NODES: usize = 4;
const CORES: u32 = 8;

#[derive(Debug, Clone)]
enum Step {
    Back { id: u128, spans: Vec<(i64, i64, u32)> },
    Submit { within: Option<u128>, cores: u32, limit: i64, run: i64 },
    Cancel { job: u128 },
    Fault(Fault),
    Node { at: usize, usable: bool },
    Foreign { node: usize, begin: i64, length: i64 },
    Vanish { at: usize },
    Restart,
    Pass(i64),
    Advance,
    Look,
}

fn step() -> impl Strategy<Value = Step> {
    let spans = prop::collection::vec((-5..60_i64, 1..40_i64, 1..4_u32), 0..3);
    let fault = prop::sample::select(vec![
        Fault::SilentBefore,
        Fault::SilentAfter,
        Fault::SilentLate,
        Fault::Refuse,
        Fault::Short,
        Fault::None,
    ]);
    prop_oneof![
        8 => (0..4_u128, spans).prop_map(|(id, spans)| Step::Back { id, spans }),
        3 => (prop::option::of(0..4_u128), 1..4_u32, 1..30_i64, 0..30_i64)
            .prop_map(|(within, cores, limit, run)| Step::Submit { within, cores, limit, run }),
        1 => (0..20_u128).prop_map(|job| Step::Cancel { job }),
        4 => fault.prop_map(Step::Fault),
        1 => (0..NODES, any::<bool>()).prop_map(|(at, usable)| Step::Node { at, usable }),
        1 => (0..NODES, 0..60_i64, 1..40_i64).prop_map(|(node, begin, length)| Step::Foreign { node, begin, length }),
        1 => (0..8_usize).prop_map(|at| Step::Vanish { at }),
        1 => Just(Step::Restart),
        2 => (1..15_i64).prop_map(Step::Pass),
        2 => Just(Step::Advance),
        2 => Just(Step::Look),
    ]
}

/// A site, reduced to the essentials, and the batch system that it drives.
struct Play {
    pretend: Pretend,
    batch: Batch,
    said: BTreeMap<u128, Vec<Span>>,
    now: i64,
    jobs: u128,
}

impl Play {
    fn new(changes: bool, moves_jobs: bool) -> Play {
        let pretend = Pretend::new(NODES, CORES);
        pretend.world().changes = changes;
        pretend.world().moves_jobs = moves_jobs;
        Play { batch: batch(&pretend), pretend, said: BTreeMap::new(), now: 0, jobs: 0 }
    }

    fn take(&mut self, step: &Step) {
        match step {
            Step::Back { id, spans } => {
                let spans = spans
                    .iter()
                    .map(|(begin, length, cores)| span(self.now + begin, self.now + begin + length, *cores));
                self.back(*id, spans.collect());
            }
            Step::Submit { within, cores, limit, run } => {
                let job = job(self.jobs, *cores, *limit, *run);
                self.jobs += 1;
                let job = within.map_or(job.clone(), |id| inside(job, id));
                let _ = self.batch.submit(at(self.now), &job);
            }
            Step::Cancel { job } => drop(self.batch.cancel(at(self.now), JobId(*job))),
            Step::Fault(fault) => self.pretend.world().faults.push_back(*fault),
            Step::Node { at, usable } => self.pretend.world().nodes[*at].usable = *usable,
            Step::Foreign { node, begin, length } => {
                let name = format!("foreign {}", self.pretend.world().reservations.len());
                let begin = self.now + begin;
                self.pretend.world().reserve_foreign(&name, &[*node], begin, begin + length);
            }
            Step::Vanish { at } => {
                let mut world = self.pretend.world();
                if *at < world.reservations.len() {
                    world.reservations.remove(*at);
                }
                world.settle();
            }
            Step::Restart => self.batch = batch(&self.pretend),
            Step::Pass(seconds) => {
                self.pretend.world().pass(*seconds);
                self.now += seconds;
            }
            Step::Advance => drop(self.batch.pass(at(self.now))),
            Step::Look => self.assert_in_bounds(),
        }
    }

    /// Orders a backing and checks the result.
    fn back(&mut self, id: u128, spans: Vec<Span>) {
        let shorted = self.pretend.world().faults.contains(&Fault::Short);
        let (before, looks) = (self.kept(id), self.pretend.world().looks);
        let said = self.batch.keep(at(self.now), &backing(id, &spans));
        match said {
            // Reservations that others deleted since the last look may be missing; after a look, it knows.
            Ok(()) if !shorted && self.pretend.world().looks > looks => self.assert_kept(id, &spans),
            Ok(()) => {}
            Err(why) if why.is_refusal() => assert_eq!(self.kept(id), before, "{why}"),
            Err(_) => {}
        }
        self.said.insert(id, spans);
    }

    /// Ends and amounts, in order.
    fn kept(&self, id: u128) -> Vec<(i64, u32)> {
        let world = self.pretend.world();
        let site = Name::from("uni-a");
        let ours = world.ours().into_iter().filter(|reserved| {
            Tag::read(&reserved.name, &site).is_some_and(|tag| tag.id == ReservationId(id))
                && reserved.interval.end > Time(self.now)
        });
        let mut kept: Vec<(i64, u32)> =
            ours.map(|reserved| (reserved.interval.end.0, reserved.cores.values().sum())).collect();
        kept.sort_unstable();
        kept
    }

    fn assert_kept(&self, id: u128, spans: &[Span]) {
        let mut added: BTreeMap<(i64, i64), u32> = BTreeMap::new();
        for span in spans.iter().filter(|span| span.interval.end > Time(self.now)) {
            *added.entry((span.interval.begin.0, span.interval.end.0)).or_default() += span.capacity.0;
        }
        let mut wanted: Vec<(i64, u32)> = added.into_iter().map(|((_, end), sum)| (end, sum)).collect();
        wanted.sort_unstable();
        assert_eq!(self.kept(id), wanted);
    }

    fn assert_in_bounds(&mut self) {
        let all = NODES as u32 * CORES;
        let seen = seen(&self.batch, self.now);
        assert!(seen.lost.0 <= all);
        assert!(seen.view.running.iter().map(|job| job.capacity.0).sum::<u32>() <= all - seen.lost.0);
        assert!(seen.view.running.iter().all(|job| job.expected_end > Time(self.now)));
        assert!(seen.view.waiting.iter().all(|job| (1..=all).contains(&job.capacity.0)));
        for instant in self.now..self.now + 110 {
            let then = seen.view.foreign.iter().filter(|span| span.interval.contains(Time(instant)));
            assert!(then.map(|span| span.capacity.0).sum::<u32>() <= all - seen.lost.0);
        }
    }

    /// No more faults, all foreign reservations are gone, and the site compares its ledger with the batch system.
    fn quiet(&mut self) {
        {
            let mut world = self.pretend.world();
            world.faults.clear();
            world.settle();
            world.nodes.iter_mut().for_each(|node| node.usable = true);
            world.reservations.retain(|reserved| !reserved.handle.0.starts_with("foreign"));
            world.pass(5);
        }
        self.now += 5;
        self.batch.look(at(self.now)).unwrap();
        self.batch.pass(at(self.now)).unwrap();
        self.assert_jobs_are_there_once();
        let live = self.batch.jobs().into_iter().filter(|status| !status.state.is_over());
        for id in live.map(|status| status.id).collect::<Vec<_>>() {
            self.batch.cancel(at(self.now), id).unwrap();
        }
        assert!(self.pretend.world().live().is_empty());
        let found: BTreeSet<u128> = seen(&self.batch, self.now).backings.keys().map(|id| id.0).collect();
        for id in found.into_iter().filter(|id| !self.said.contains_key(id)) {
            self.batch.keep(at(self.now), &backing(id, &[])).unwrap();
        }
        self.say_all();
    }

    fn say_all(&mut self) {
        for (id, spans) in &self.said {
            self.batch.keep(at(self.now), &backing(*id, spans)).unwrap();
        }
    }

    fn assert_jobs_are_there_once(&self) {
        let mut names: Vec<String> = self.pretend.world().live().iter().map(|job| job.name.clone()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn when_it_is_quiet_again_what_is_kept_is_what_was_said(
        steps in prop::collection::vec(step(), 1..40), changes in any::<bool>(), restart in any::<bool>(),
        moves_jobs in any::<bool>(),
    ) {
        let mut play = Play::new(changes, moves_jobs);
        steps.iter().for_each(|step| play.take(step));
        play.quiet();
        for (id, spans) in &play.said {
            play.assert_kept(*id, spans);
        }
        let all: usize = (0..4).map(|id| play.kept(id).len()).sum();
        prop_assert_eq!(play.pretend.world().ours().len(), all, "nothing else is there");
        let commands = play.pretend.world().log.len();
        if restart {
            play.batch = batch(&play.pretend);
        }
        play.say_all();
        play.batch.pass(at(play.now + 2)).unwrap();
        prop_assert_eq!(play.pretend.world().log.len(), commands, "nothing is done where nothing changes");
        play.assert_in_bounds();
    }
}
