//! Commands that do not end while the test wants it so, and many parallel orders.

use super::fake::{COMMANDS, Fakes};
use super::{Place, Site, Slurm, cores, nodes, start};
use crate::claiming::now;
use bookahead_lrms::batch::{Accounts, Settings, Unit};
use bookahead_lrms::command::{MOST_AT_ONCE, Runner};
use bookahead_lrms::{Batch, Worker, slurm};
use bookahead_party::{Backing, BatchError, BatchOrder, BatchReport, OrderId};
use bookahead_plan::{Capacity, Interval, Seconds, Span};
use bookahead_protocol::ReservationId;
use bookahead_tests::polling::until_true;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const MANY: u64 = 24;

/// What every command does first: one that makes or deletes a reservation waits while the test has the lock, and notes
/// when it begins and ends to wait.
const WAIT: &str = r#"case "$1" in create|delete)
    cd "$(dirname "$0")"; echo begin >> waits; flock -s gate true; echo end >> waits;; esac"#;

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
    COMMANDS.iter().for_each(|command| fakes.put(command, WAIT));
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
            terms: Default::default(),
            tres: Default::default(),
            spans,
            replaces: false,
        };
        self.worker.order(BatchOrder::Keep { order: OrderId(order), backing });
    }

    /// From now on such commands wait, until the file is dropped.
    #[must_use]
    fn stand_still(&self) -> File {
        let gate = File::create(self.fakes.bin().join("gate")).unwrap();
        gate.lock().unwrap();
        gate
    }

    /// Waits until as many commands wait as may run at the same time.
    fn until_full(&self) {
        until_true("as many wait as may", || self.waiting() == MOST_AT_ONCE);
    }

    /// Number of commands that wait.
    fn waiting(&self) -> usize {
        let waits = std::fs::read_to_string(self.fakes.bin().join("waits")).unwrap_or_default();
        let count = |word| waits.lines().filter(|line| *line == word).count();
        count("begin") - count("end")
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

    /// Number of commands beside those of looks, each of which runs `squeue` and three others.
    fn runs(&self) -> u64 {
        let usage = self.runner.usage();
        usage.programs["scontrol"].runs.saturating_sub(3 * usage.programs["squeue"].runs)
    }
}

#[test]
fn many_reservations_are_made_and_given_back_at_once_by_two_commands_each_and_one() {
    for (place, each) in [(cores(), 2), (nodes(), 1)] {
        let mut slow = slow(&place);
        let gate = slow.stand_still();
        (0..MANY).for_each(|order| slow.keep(order, &place, each));
        slow.until_full();
        drop(gate);
        slow.until_kept(MANY);
        // The version once, and of a look that is under way perhaps not all.
        let (runs, creations) = (slow.runs(), 2 * MANY);
        assert!((creations - 3..=creations + 4).contains(&runs), "{runs}");
        assert_eq!(slow.site.look().reservations.len(), MANY as usize);
        let gate = slow.stand_still();
        (MANY..2 * MANY).for_each(|order| slow.keep(order, &place, 0));
        slow.until_full();
        drop(gate);
        slow.until_kept(MANY);
        assert_eq!(slow.site.look().reservations, []);
    }
}

#[test]
fn a_look_is_answered_while_many_reservations_are_made() {
    let slow = slow(&cores());
    let gate = slow.stand_still();
    (0..MANY).for_each(|order| slow.keep(order, &cores(), 2));
    slow.until_full();
    slow.worker.order(BatchOrder::Look { order: OrderId(1000) });
    loop {
        match slow.reports.recv_timeout(Duration::from_secs(120)).unwrap() {
            BatchReport::Looked { order: Some(OrderId(1000)), outcome, .. } => break drop(outcome.unwrap()),
            BatchReport::Looked { .. } => {}
            other => panic!("no reservation can be made yet: {other:?}"),
        }
    }
    assert_eq!(slow.waiting(), MOST_AT_ONCE, "it did not wait for them");
    drop(gate);
    slow.until_kept(MANY);
}
