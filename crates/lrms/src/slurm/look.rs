//! Taking a picture of a cluster: four commands side by side. `squeue --json` of 22.05 takes a fifth of a second with a thousand
//! jobs, and all others together a tenth of that.

use super::jobs::{self, Surroundings};
use super::nodes::{self, SlurmNode};
use super::reservations::{self, Booked};
use super::speech::Speech;
use super::{Settings, json, times};
use crate::batch::Picture;
use crate::error::LrmsError;
use bookahead_plan::Time;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// How the cores of a reservation are spread over nodes.
type Spread = BTreeMap<String, u32>;

/// How those of reservations that we made are spread, by name, for the first seconds until Slurm tells; and since when.
#[derive(Debug, Default)]
pub(super) struct Granted(Mutex<BTreeMap<String, (Instant, Spread)>>);

impl Granted {
    pub(super) fn note(&self, name: &str, spread: Spread) {
        self.known().insert(name.to_owned(), (Instant::now(), spread));
    }

    /// What is known, after what is not there any more, or what Slurm tells itself now, is forgotten. A look that began before
    /// one was made says nothing of it.
    fn compare(&self, reservations: &[Booked], began: Instant) -> BTreeMap<String, Spread> {
        let untold =
            |name: &String| reservations.iter().any(|one| one.name == *name && one.core_ids.is_empty());
        let mut known = self.known();
        known.retain(|name, (since, _)| *since > began || untold(name));
        known.iter().map(|(name, (_, spread))| (name.clone(), spread.clone())).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Spread)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is there now.
pub(super) fn look(speech: &Speech, settings: &Settings, granted: &Granted) -> Result<Picture, LrmsError> {
    let began = Instant::now();
    let config = speech.scontrol(["show", "config"]);
    let [nodes, reservations, config, jobs] =
        speech.tell_all(&[show_nodes(speech), show_reservations(speech), config, squeue(speech)]);
    let nodes = nodes::read(&nodes?)?;
    let reservations = reservations::read(&reservations?)?;
    let clock = clock(&config?);
    let jobs = json::read(&jobs?)?;
    let granted = granted.compare(&reservations, began);
    Ok(picture(settings, clock, &nodes, &reservations, jobs, &granted))
}

pub(super) fn show_nodes(speech: &Speech) -> crate::command::Command {
    speech.scontrol(["-o", "show", "nodes"])
}

pub(super) fn show_reservations(speech: &Speech) -> crate::command::Command {
    speech.scontrol(["show", "res"])
}

/// All jobs, also those that are over, in hidden partitions too. (22.05 shows all of them whatever is asked for.)
pub(super) fn squeue(speech: &Speech) -> crate::command::Command {
    speech.reader("squeue").args(["--json", "--all", "--states=all"])
}

/// The time at the controller, which stands in the first line of `scontrol show config`.
pub(super) fn clock(config: &str) -> Option<Time> {
    config.lines().find_map(|line| times::read(line.strip_prefix("Configuration data as of ")?.trim()))
}

/// Puts together what was read.
pub(super) fn picture(
    settings: &Settings,
    clock: Option<Time>,
    nodes: &[SlurmNode],
    reservations: &[Booked],
    jobs: Vec<json::SlurmJob>,
    granted: &BTreeMap<String, Spread>,
) -> Picture {
    let by_name: BTreeMap<&str, &SlurmNode> = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let around = Surroundings { places: &settings.places, nodes: &by_name, clock };
    // One that has ended is shown for some seconds more.
    let is_over = |end: Time| clock.is_some_and(|now| end <= now);
    let told = reservations.iter().flat_map(|booked| {
        let cores_of = |name: &str| by_name.get(name).map(|node| node.cores);
        let (cores, spread) = booked.spread(cores_of, granted.get(&booked.name));
        booked.told(&cores, spread)
    });
    Picture {
        clock,
        nodes: nodes.iter().filter_map(|node| node.told(&settings.places)).collect(),
        reservations: told.filter(|reserved| !is_over(reserved.interval.end)).collect(),
        jobs: jobs::told(jobs, &around),
    }
}
