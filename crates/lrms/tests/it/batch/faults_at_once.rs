//! As `faults`, with parallel orders: once it is quiet again, the reservations equal the last orders, nothing else of
//! ours exists, no job of ours is duplicated, and no command runs without a change.

use super::pretend::{Fault, Pretend};
use super::settings;
use crate::{backing, inside, job, span};
use bookahead_lrms::batch::{Settings, Tag, Unit};
use bookahead_lrms::{Batch, Worker};
use bookahead_party::{BatchError, BatchOrder, BatchReport, Look, OrderId};
use bookahead_plan::{Span, Time};
use bookahead_protocol::{JobId, Millis, Moment, Name};
use bookahead_tests::cases::cases;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const NODES: usize = 4;
const CORES: u32 = 8;

#[derive(Debug, Clone)]
enum Step {
    Keep {
        id: u128,
        spans: Vec<(i64, i64, u32)>,
    },
    Submit {
        within: Option<u128>,
        cores: u32,
        limit: i64,
        run: i64,
    },
    Cancel {
        job: u128,
    },
    Fault(Fault),
    Node {
        at: usize,
        usable: bool,
    },
    Vanish {
        at: usize,
    },
    Pass(i64),
    Look,
    /// All orders are executed before the next.
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let spans = prop::collection::vec((-5..60_i64, 1..40_i64, 1..4_u32), 0..3);
    let fault = prop::sample::select(vec![
        Fault::SilentBefore,
        Fault::SilentAfter,
        Fault::SilentLate,
        Fault::Refuse,
        Fault::None,
    ]);
    prop_oneof![
        10 => (0..4_u128, spans).prop_map(|(id, spans)| Step::Keep { id, spans }),
        3 => (prop::option::of(0..4_u128), 1..4_u32, 1..30_i64, 0..30_i64)
            .prop_map(|(within, cores, limit, run)| Step::Submit { within, cores, limit, run }),
        1 => (0..20_u128).prop_map(|job| Step::Cancel { job }),
        4 => fault.prop_map(Step::Fault),
        1 => (0..NODES, any::<bool>()).prop_map(|(at, usable)| Step::Node { at, usable }),
        1 => (0..8_usize).prop_map(|at| Step::Vanish { at }),
        2 => (1..15_i64).prop_map(Step::Pass),
        2 => Just(Step::Look),
        2 => Just(Step::Wait),
    ]
}

/// A site, reduced to the essentials, and its worker.
struct Play {
    pretend: Pretend,
    worker: Worker,
    reports: Receiver<BatchReport>,
    said: BTreeMap<u128, Vec<Span>>,
    orders: u64,
    outstanding: u64,
    jobs: u128,
}

impl Play {
    fn new(changes: bool, moves_jobs: bool) -> Play {
        let pretend = Pretend::new(NODES, CORES);
        {
            let mut world = pretend.world();
            (world.changes, world.moves_jobs, world.one_at_a_time) = (changes, moves_jobs, false);
        }
        let capacity = NODES as u32 * CORES;
        let settings = Settings { follow_every: Millis(1), ..settings(Unit::Cores, capacity) };
        let batch = Batch::new(Box::new(pretend.clone()), settings).unwrap();
        let (report, reports) = channel();
        let report = Arc::new(move |reported| drop(report.send(reported)));
        let world = pretend.clone();
        let now = Arc::new(move || Moment::of(Time(world.world().clock)));
        let worker = Worker::start(batch, 4, now, report);
        Play { pretend, worker, reports, said: BTreeMap::new(), orders: 0, outstanding: 0, jobs: 0 }
    }

    fn next(&mut self) -> OrderId {
        self.orders += 1;
        OrderId(self.orders)
    }

    fn order(&mut self, order: BatchOrder) {
        self.outstanding += 1;
        self.worker.order(order);
    }

    fn keep(&mut self, id: u128, spans: &[Span]) {
        let order = self.next();
        self.order(BatchOrder::Keep { order, backing: backing(id, spans) });
    }

    /// Waits for all orders and returns their outcomes.
    fn wait(&mut self) -> Vec<Result<(), BatchError>> {
        let mut outcomes = Vec::new();
        while self.outstanding > 0 {
            match self.reports.recv_timeout(Duration::from_secs(20)).unwrap() {
                BatchReport::Kept { outcome, .. } | BatchReport::Job { outcome, .. } => {
                    self.outstanding -= 1;
                    outcomes.push(outcome);
                }
                _ => {}
            }
        }
        outcomes
    }

    fn look(&mut self) -> Look {
        let wanted = self.next();
        self.worker.order(BatchOrder::Look { order: wanted });
        loop {
            match self.reports.recv_timeout(Duration::from_secs(20)).unwrap() {
                BatchReport::Looked { order: Some(order), outcome, .. } if order == wanted => {
                    return outcome.unwrap();
                }
                BatchReport::Kept { .. } | BatchReport::Job { .. } => panic!("nothing was ordered"),
                _ => {}
            }
        }
    }

    fn take(&mut self, step: &Step) {
        let now = self.pretend.world().clock;
        match step {
            Step::Keep { id, spans } => {
                let spans = spans
                    .iter()
                    .map(|(begin, length, cores)| span(now + begin, now + begin + length, *cores));
                let spans: Vec<Span> = spans.collect();
                self.keep(*id, &spans);
                self.said.insert(*id, spans);
            }
            Step::Submit { within, cores, limit, run } => {
                let job = job(self.jobs, *cores, *limit, *run);
                self.jobs += 1;
                let job = Box::new(within.map_or(job.clone(), |id| inside(job, id)));
                let order = self.next();
                self.order(BatchOrder::Submit { order, job });
            }
            Step::Cancel { job } => {
                let order = self.next();
                self.order(BatchOrder::Cancel { order, job: JobId(*job) });
            }
            Step::Fault(fault) => self.pretend.world().faults.push_back(*fault),
            Step::Node { at, usable } => self.pretend.world().nodes[*at].usable = *usable,
            Step::Vanish { at } => {
                let mut world = self.pretend.world();
                if *at < world.reservations.len() {
                    world.reservations.remove(*at);
                }
                world.settle();
            }
            Step::Pass(seconds) => self.pretend.world().pass(*seconds),
            Step::Look => {
                let order = self.next();
                self.worker.order(BatchOrder::Look { order });
            }
            Step::Wait => drop(self.wait()),
        }
    }

    /// No more faults, and the site compares its ledger with the batch system.
    fn quiet(&mut self) {
        self.wait();
        {
            let mut world = self.pretend.world();
            world.faults.clear();
            world.settle();
            world.nodes.iter_mut().for_each(|node| node.usable = true);
            world.pass(5);
        }
        // Duplicates are cancelled after a look, at least one each time.
        for _ in 0..1_000 {
            if self.has_doubles() {
                self.look();
            }
        }
        let look = self.look();
        for id in look.jobs.iter().filter(|job| !job.state.is_over()).map(|job| job.id) {
            let order = self.next();
            self.order(BatchOrder::Cancel { order, job: id });
        }
        self.wait();
        let found = look.tagged.iter().map(|tagged| tagged.id.0);
        for id in found.filter(|id| !self.said.contains_key(id)).collect::<Vec<_>>() {
            self.keep(id, &[]);
        }
        self.say_all();
    }

    fn has_doubles(&self) -> bool {
        let mut names: Vec<String> = self.pretend.world().live().iter().map(|job| job.name.clone()).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        names.len() < all
    }

    fn say_all(&mut self) {
        for (id, spans) in self.said.clone() {
            self.keep(id, &spans);
        }
        let outcomes = self.wait();
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    }

    /// Ends and amounts, in order.
    fn kept(&self, id: u128) -> Vec<(i64, u32)> {
        let world = self.pretend.world();
        let site = Name::from("uni-a");
        let ours = world.ours().into_iter().filter(|reserved| {
            let tag = Tag::read(&reserved.name, &site);
            tag.is_some_and(|tag| tag.id.0 == id) && reserved.interval.end > Time(world.clock)
        });
        let mut kept: Vec<(i64, u32)> =
            ours.map(|reserved| (reserved.interval.end.0, reserved.cores.values().sum())).collect();
        kept.sort_unstable();
        kept
    }

    fn assert_kept(&self, id: u128, spans: &[Span]) {
        let now = Time(self.pretend.world().clock);
        let mut added: BTreeMap<(i64, i64), u32> = BTreeMap::new();
        for span in spans.iter().filter(|span| span.interval.end > now) {
            *added.entry((span.interval.begin.0, span.interval.end.0)).or_default() += span.capacity.0;
        }
        let mut wanted: Vec<(i64, u32)> = added.into_iter().map(|((_, end), sum)| (end, sum)).collect();
        wanted.sort_unstable();
        assert_eq!(self.kept(id), wanted);
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn when_it_is_quiet_again_what_is_kept_is_what_was_ordered(
        steps in prop::collection::vec(step(), 1..40), changes in any::<bool>(), moves_jobs in any::<bool>(),
    ) {
        let mut play = Play::new(changes, moves_jobs);
        steps.iter().for_each(|step| play.take(step));
        play.quiet();
        for (id, spans) in &play.said {
            play.assert_kept(*id, spans);
        }
        let all: usize = (0..4).map(|id| play.kept(id).len()).sum();
        prop_assert_eq!(play.pretend.world().ours().len(), all, "nothing else is there");
        prop_assert!(play.pretend.world().live().is_empty(), "{:?}", play.pretend.world().live());
        let commands = play.pretend.world().log.len();
        play.say_all();
        prop_assert_eq!(play.pretend.world().log.len(), commands, "nothing is done where nothing changes");
    }
}
