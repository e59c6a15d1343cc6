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
/// The least time that every command takes.
const LATE: Duration = Duration::from_secs(1);

/// A site that drives a cluster with slow commands.
struct Slow {
    site: Site,
    worker: Worker,
    reports: Receiver<BatchReport>,
    runner: Runner,
    _fakes: Fakes,
}

fn slow(place: &Place) -> Slow {
    let site = start(place, |settings| (settings.nodes, settings.cores_per_node) = (3, 2));
    let fakes = Fakes::of(&site.cluster);
    COMMANDS.iter().for_each(|command| fakes.put(command, &format!("sleep {}", LATE.as_secs())));
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
    Slow { site, worker, reports, runner, _fakes: fakes }
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
            spans,
            replaces: false,
        };
        self.worker.order(BatchOrder::Keep { order: OrderId(order), backing });
    }

    /// The time until this many orders are executed.
    fn until_kept(&self, mut count: u64) -> Duration {
        let began = Instant::now();
        while count > 0 {
            match self.reports.recv_timeout(Duration::from_secs(60)).unwrap() {
                BatchReport::Kept { outcome, .. } => {
                    assert_eq!(outcome, Ok(()) as Result<(), BatchError>);
                    count -= 1;
                }
                BatchReport::Looked { outcome, .. } => drop(outcome.unwrap()),
                other => panic!("{other:?}"),
            }
        }
        began.elapsed()
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
        let made = slow.until_kept(MANY);
        let sequential = LATE * 2 * u32::try_from(MANY).unwrap();
        println!("{MANY} in {:?} were made in {made:?}, {} commands", place.unit, slow.runs());
        assert!(made < sequential / 2, "{made:?}");
        // Three of a look, perhaps two looks, and the version once.
        let creations = 2 * MANY;
        assert!((creations..=creations + 7).contains(&slow.runs()), "{}", slow.runs());
        assert_eq!(slow.site.look().reservations.len(), MANY as usize);
        (MANY..2 * MANY).for_each(|order| slow.keep(order, &place, 0));
        let gone = slow.until_kept(MANY);
        println!("they were given back in {gone:?}");
        assert!(gone < sequential / 4, "{gone:?}");
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
