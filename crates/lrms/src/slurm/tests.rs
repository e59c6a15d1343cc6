//! Whatever commands print, reading it never panics.

use super::{Settings, clock, formats, json, nodes, outcome, picture, reservations};
use crate::batch::{Place, Unit};
use crate::dialect::damage::survives;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

const NODES: &str = include_str!("../../tests/it/slurm/fixtures/22.05/nodes.txt");
const RESERVATIONS: &str = include_str!("../../tests/it/slurm/fixtures/22.05/reservations.txt");
const QUEUE: &str = include_str!("../../tests/it/slurm/fixtures/22.05/squeue.json");

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 256,
        rng_seed: RngSeed::Fixed(2000),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// A text with a piece of it replaced by another.
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

proptest! {
    #![proptest_config(config())]

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
        // Each job has cores, and has them where it runs.
        prop_assert!(seen.jobs.iter().all(|job| job.cores > 0 || job.state.is_over() || !job.placed.is_empty()));
        prop_assert!(seen.jobs.iter().all(|job| !job.resources.is_empty()));
    }
}
