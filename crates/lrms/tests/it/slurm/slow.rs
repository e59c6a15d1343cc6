//! A slow controller, and many parallel orders.

use super::fake::{COMMANDS, Fakes};
use super::{Place, Site, Slurm, cores, nodes, start};
use crate::claiming::now;
use bookahead_lrms::batch::{Accounts, Settings, Unit};
use bookahead_lrms::command::{MOST_AT_ONCE, Runner};
use bookahead_lrms::{Batch, Worker, slurm};
use bookahead_party::{Backing, BatchError, BatchOrder, BatchReport, OrderId};
use bookahead_plan::{Capacity, Interval, Seconds, Span};
use bookahead_protocol::ReservationId;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const MANY: u64 = 24;
/// What every command does first: it takes a second, and notes when it begins and ends to wait.
const LATE: &str = r#"echo begin >> "$(dirname "$0")/waits"; sleep 1; echo end >> "$(dirname "$0")/waits""#;

/// A site that drives a cluster with slow commands.
struct Slow {
    site: Site,
    worker: Worker,
    reports: Receiver<BatchReport>,
    runner: Runner,
    fakes: Fakes,
}

fn slow(place: &Place) -> Slow {
    let site = start(place, |settings| (settings.nodes, settings.cores_per_node) = (3, 2));
    let fakes = Fakes::of(&site.cluster);
    COMMANDS.iter().for_each(|command| fakes.put(command, LATE));
    let runner = Runner::local(Duration::from_secs(30));
    let settings = slurm::Settings {
        conf: Some(site.cluster.conf()),
        bin: Some(fakes.bin().into()),
        output: Some(site.cluster.folder().into()),
        ..slurm::Settings::new(vec![place.clone()])
    };
    let system = Box::new(Slurm::new(runner.clone(), settings));
    let capacity = Capacity(if place.unit == Unit::Nodes { 3 } else { 6 });
    let accounts = Accounts::Service(site.account());
    let batch = Batch::new(system, Settings::new("uni".into(), vec![(place.clone(), capacity)], accounts));
    let (report, reports) = channel();
    let report = Arc::new(move |reported| drop(report.send(reported)));
    let worker = Worker::start(batch.unwrap(), MOST_AT_ONCE, Arc::new(now), report);
    Slow { site, worker, reports, runner, fakes }
}

impl Slow {
    /// Three reservations at a time, each with a third of the capacity.
    fn keep(&self, order: u64, place: &Place, amount: u32) {
        let begin = now().second() + Seconds(1000 * (1 + i64::try_from(order / 3).unwrap()));
        let span = Span { interval: Interval::starting(begin, Seconds(600)), capacity: Capacity(amount) };
        let spans = if amount > 0 { vec![span] } else { Vec::new() };
        let (resource, id) = (place.resource.clone(), ReservationId(u128::from(order % MANY)));
        let backing = Backing {
            resource,
            id,
            owner: "ann".into(),
            shared_with: Default::default(),
            tres: Default::default(),
            attract: false,
            spans,
            replaces: false,
        };
        self.worker.order(BatchOrder::Keep { order: OrderId(order), backing });
    }

    /// Waits until this many orders are executed.
    fn until_kept(&self, mut count: u64) {
        while count > 0 {
            match self.reports.recv_timeout(Duration::from_secs(120)).unwrap() {
                BatchReport::Kept { outcome, .. } => {
                    assert_eq!(outcome, Ok(()) as Result<(), BatchError>);
                    count -= 1;
                }
                BatchReport::Looked { outcome, .. } => drop(outcome.unwrap()),
                other => panic!("{other:?}"),
            }
        }
    }

    /// The greatest number of commands that waited at the same time since the last call of this.
    fn at_once(&self) -> i64 {
        let path = self.fakes.bin().join("waits");
        let waits = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        let count = |now: &mut i64, line: &str| {
            *now = if line == "begin" { *now + 1 } else { *now - 1 };
            Some(*now)
        };
        waits.lines().scan(0, count).max().unwrap()
    }

    fn runs(&self) -> u64 {
        self.runner.usage().programs["scontrol"].runs
    }
}

#[test]
fn many_reservations_are_made_and_given_back_at_once_by_two_commands_each_and_one() {
    for (place, each) in [(cores(), 2), (nodes(), 1)] {
        let mut slow = slow(&place);
        (0..MANY).for_each(|order| slow.keep(order, &place, each));
        slow.until_kept(MANY);
        assert!(slow.at_once() >= MOST_AT_ONCE as i64 / 2);
        // Three of a look, perhaps two looks, and the version once.
        let creations = 2 * MANY;
        assert!((creations..=creations + 7).contains(&slow.runs()), "{}", slow.runs());
        assert_eq!(slow.site.look().reservations.len(), MANY as usize);
        (MANY..2 * MANY).for_each(|order| slow.keep(order, &place, 0));
        slow.until_kept(MANY);
        assert!(slow.at_once() >= MOST_AT_ONCE as i64 / 2);
        assert_eq!(slow.site.look().reservations, []);
    }
}

#[test]
fn a_look_is_answered_while_many_reservations_are_made() {
    let slow = slow(&cores());
    (0..MANY).for_each(|order| slow.keep(order, &cores(), 2));
    let began = Instant::now();
    slow.worker.order(BatchOrder::Look { order: OrderId(1000) });
    let mut kept = 0;
    loop {
        match slow.reports.recv_timeout(Duration::from_secs(60)).unwrap() {
            BatchReport::Looked { order: Some(OrderId(1000)), outcome, .. } => break drop(outcome.unwrap()),
            BatchReport::Kept { outcome, .. } => {
                outcome.unwrap();
                kept += 1;
            }
            _ => {}
        }
    }
    let took = began.elapsed();
    println!("a look was answered after {took:?}, when {kept} reservations were made");
    assert!(kept < MANY, "it did not wait for them");
    slow.until_kept(MANY - kept);
}
