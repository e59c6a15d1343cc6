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

/// How the cores of reservations that we made are spread, for as long as Slurm does not tell: by name.
pub(super) type Granted = BTreeMap<String, BTreeMap<String, u32>>;

/// What is there now.
pub(super) fn look(
    speech: &Speech,
    settings: &Settings,
    granted: &mut Granted,
) -> Result<Picture, LrmsError> {
    let config = speech.scontrol(["show", "config"]);
    let [nodes, reservations, config, jobs] =
        speech.tell_all(&[show_nodes(speech), show_reservations(speech), config, squeue(speech)]);
    let nodes = nodes::read(&nodes?)?;
    let reservations = reservations::read(&reservations?)?;
    let clock = clock(&config?);
    let jobs = json::read(&jobs?)?;
    forget_what_is_gone(granted, &reservations);
    Ok(picture(settings, clock, &nodes, &reservations, jobs, granted))
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

/// What we remember of reservations that are not there any more, or of which Slurm itself tells now.
fn forget_what_is_gone(granted: &mut Granted, reservations: &[Booked]) {
    granted.retain(|name, _| reservations.iter().any(|one| one.name == *name && one.core_ids.is_empty()));
}

/// Puts together what was read.
pub(super) fn picture(
    settings: &Settings,
    clock: Option<Time>,
    nodes: &[SlurmNode],
    reservations: &[Booked],
    jobs: Vec<json::SlurmJob>,
    granted: &Granted,
) -> Picture {
    let by_name: BTreeMap<&str, &SlurmNode> = nodes.iter().map(|node| (node.name.as_str(), node)).collect();
    let around = Surroundings { places: &settings.places, nodes: &by_name, clock };
    // One that has ended is shown for some seconds more.
    let is_over = |end: Time| clock.is_some_and(|now| end <= now);
    let told = reservations.iter().flat_map(|booked| {
        let (cores, spread) = booked.spread(&by_name, granted.get(&booked.name));
        booked.told(&cores, spread)
    });
    Picture {
        clock,
        nodes: nodes.iter().filter_map(|node| node.told(&settings.places)).collect(),
        reservations: told.filter(|reserved| !is_over(reserved.interval.end)).collect(),
        jobs: jobs::told(jobs, &around),
    }
}
