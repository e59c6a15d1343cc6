//! No output of a command makes a parser panic, and damage to one record hides no other, unless the whole is refused.

use super::{Settings, clock, formats, is_elsewhere, json, nodes, outcome, picture, reservations};
use crate::batch::{Place, Unit};
use crate::dialect::damage::{loses_only_one, survives};
use crate::error::LrmsError;
use proptest::prelude::*;

const NODES: &str = include_str!("../../tests/it/slurm/fixtures/22.05/nodes.txt");
const RESERVATIONS: &str = include_str!("../../tests/it/slurm/fixtures/22.05/reservations.txt");
const QUEUE: &str = include_str!("../../tests/it/slurm/fixtures/22.05/squeue.json");

const LATER_QUEUE: &str = include_str!("../../tests/it/slurm/fixtures/25.05/squeue.json");

/// A text with one part replaced.
fn spoilt(text: &'static str) -> impl Strategy<Value = String> {
    let piece = prop_oneof![".{0,12}", "[0-9\\[\\],-]{0,20}", Just("=".to_owned()), Just("\n   ".to_owned())];
    (0..text.len(), 0..40usize, piece).prop_map(move |(at, length, piece)| {
        let (before, rest) = text.split_at(text.floor_char_boundary(at));
        let after = &rest[rest.floor_char_boundary(length.min(rest.len()))..];
        format!("{before}{piece}{after}")
    })
}

fn settings() -> Settings {
    let place = |resource: &str, partition: Option<&str>| Place {
        resource: resource.into(),
        unit: Unit::Cores,
        partition: partition.map(Into::into),
        features: vec![],
    };
    Settings::new(vec![place("cpu", Some("main")), place("all", None)])
}

#[test]
fn damaged_outputs_are_read_or_refused() {
    survives(NODES, |text| drop(nodes::read(text)));
    survives(RESERVATIONS, |text| drop(reservations::read(text)));
    survives(QUEUE, |text| drop(json::read(text)));
    survives("JobID|State\n7|COMPLETED\n7.batch|COMPLETED\n", |text| drop(outcome::read(text, &settings())));
}

/// The names of the parsed records, after a check that all others are counted; `all` if the whole is refused as
/// unreadable.
fn what_is_left<T>(
    read: Result<(Vec<T>, usize), LrmsError>,
    name: impl Fn(T) -> String,
    all: &[String],
) -> Vec<String> {
    match read {
        Ok((records, odd)) => {
            let left: Vec<String> = records.into_iter().map(name).collect();
            assert!(left.len() + odd >= all.len(), "{left:?} and {odd} more were {all:?}");
            left
        }
        Err(LrmsError::Unreadable { .. }) => all.to_vec(),
        Err(other) => panic!("{other}"),
    }
}

fn numbers(queue: &str) -> Result<Vec<String>, LrmsError> {
    Ok(json::read(queue)?.0.into_iter().map(|job| job.job_id.0.unwrap_or(0).to_string()).collect())
}

#[test]
fn damage_to_one_job_loses_no_other_job() {
    for queue in [QUEUE, LATER_QUEUE] {
        let all = numbers(queue).unwrap();
        assert!(all.len() > 9, "{all:?}");
        let refused = std::cell::Cell::new(0);
        loses_only_one(queue, |text| {
            // Damage to the beginning of the list and its first job may lose the next one, too: the key that begins
            // each job is unknown then.
            if text.lines().next() != queue.lines().next() {
                drop(json::read(text));
                return all.clone();
            }
            refused.set(refused.get() + usize::from(json::read(text).is_err()));
            // Some damage leaves nothing that looks like a job.
            let vanished = all.len().saturating_sub(text.matches("{\"job_id\":").count());
            let read = json::read(text).map(|(jobs, odd)| (jobs, odd + vanished));
            what_is_left(read, |job| job.job_id.0.unwrap_or(0).to_string(), &all)
        });
        // Only if the text around the jobs is damaged.
        assert!(refused.get() < 400, "{} of 2000 were refused", refused.get());
    }
}

#[test]
fn damage_to_a_node_is_never_taken_for_a_node_that_is_gone() {
    let nodes: Vec<String> = nodes::read(NODES).unwrap().into_iter().map(|node| node.name).collect();
    loses_only_one(NODES, |text| {
        // Some damage leaves nothing that looks like a node.
        let vanished = NODES.lines().count() - text.lines().filter(|line| line.contains("CPUTot=")).count();
        let read = nodes::read(text).map(|read| (read, vanished));
        what_is_left(read, |node| node.name, &nodes)
    });
}

proptest! {
    #![proptest_config(bookahead_tests::cases::cases(256))]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}|[n0-9\\[\\],-]{0,30}") {
        let _read = (formats::expand(&text), formats::numbers(&text, 1000), formats::version(&text), formats::time(&text), clock(&text));
        let _read = (nodes::read(&text), reservations::read(&text), json::read(&text).is_ok());
        let _read = outcome::read(&text, &settings());
    }

    #[test]
    fn spoilt_outputs_are_read_or_refused(
        nodes in spoilt(NODES),
        reservations in spoilt(RESERVATIONS),
        queue in spoilt(QUEUE),
        clock in proptest::option::of(any::<i64>()),
    ) {
        let nodes = nodes::read(&nodes).or_else(|_| nodes::read(NODES)).unwrap();
        let reservations = reservations::read(&reservations).or_else(|_| reservations::read(RESERVATIONS)).unwrap();
        let (queue, _) = json::read(&queue).or_else(|_| json::read(QUEUE)).unwrap();
        let seen = picture(&settings(), clock.map(bookahead_plan::Time), &nodes, &reservations, queue, &Default::default());
        // Each job has cores, and on the nodes where it runs.
        prop_assert!(seen.jobs.iter().all(|job| job.cores > 0 || job.state.is_over() || !job.placed.is_empty()));
        prop_assert!(seen.jobs.iter().all(|job| !job.resources.is_empty()));
    }
}

#[test]
fn only_a_controller_on_another_machine_has_another_clock() {
    let config = |hosts: &str| format!("SLURM_VERSION = 24.05.1\n{hosts}SlurmdPort = 6818\n");
    for (hosts, elsewhere) in [
        ("SlurmctldHost[0]        = head(10.0.0.1)\n", true),
        ("SlurmctldHost[0]        = head\nSlurmctldHost[1]  = spare\n", true),
        ("SlurmctldHost[0]        = login1(127.0.0.1)\n", false),
        ("SlurmctldHost[0]        = head\nSlurmctldHost[1]  = LOGIN1.example.org\n", false),
        ("SlurmctldHost[0]        = localhost\n", false),
        ("", false),
    ] {
        assert_eq!(is_elsewhere(&config(hosts), "login1.cluster\n"), elsewhere, "{hosts}");
    }
    assert!(!is_elsewhere(&config("SlurmctldHost[0] = head\n"), ""));
}
