//! Torque with the Maui scheduler, driven by their commands. Written from the Maui Administrator's Guide
//! (`docs.adaptivecomputing.com/maui`: setres, showres, releaseres, showq, diagnose -r, 7.1 Advance Reservations,
//! 13.3 Resource Manager Extensions), the output of the clients of Maui 3.3, and the manual pages of Torque
//! (qsub(1B), qstat(1B), qdel(1B), pbsnodes(8B)); never tested with a real Maui. Some pages of the guide show Moab,
//! its commercial successor: `showq --xml` and `mrsvctl -m` belong to Moab and are not used here.
//!
//! # Requirements
//! The account of the service is in Maui's `ADMIN1` or `ADMIN2`. Torque supports the job attribute `x` (all versions
//! do). `setres` and `showres -n` read and print times in their own time zone, which is UTC; `showres` without `-n`
//! and `diagnose` use the server's, so no absolute time is taken from them.
//!
//! # Guarantees of Maui
//! - Processors or whole nodes to the second, considering the limits of running jobs and all reservations: `TASKS==n`
//!   is granted in full or refused. A reservation cannot be changed.
//! - Maui appends a number to a reservation's name, so a name can exist twice: existing reservations are checked
//!   first.
//! - Jobs are not killed when a reservation ends; Maui starts a job bound to it only if its limit fits. All jobs of
//!   the account may use the reservation, bound or not (7.1.1.4); setres of 3.3 misreads the flag `BYNAME`.
//! - `releaseres` always exits with zero: the result is read back.

mod create;
mod examine;
mod jobs;
mod reservations;
mod submit;

use crate::batch::{BatchSystem, Finding, Picture, Place, Traits};
use crate::command::{Command, Runner};
use crate::dialect::calendar::{self, length_of_time};
use crate::dialect::xml::Element;
use crate::dialect::{self, Tools};
use crate::error::LrmsError;
use bookahead_party::Sharing;
use bookahead_plan::{Seconds, Time};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings of Maui and Torque.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The resources. A partition is a queue (Maui calls it a class), a feature is a property of nodes.
    pub places: Vec<Place>,
    /// Folder of Maui's commands; None for `PATH`.
    pub maui_bin: Option<PathBuf>,
    /// Folder of Torque's commands; None for `PATH`.
    pub torque_bin: Option<PathBuf>,
    /// Variables that the commands need, such as `MAUIHOMEDIR` and `PBS_DEFAULT`.
    pub environment: BTreeMap<String, String>,
    /// Working folder and output folder of jobs on the cluster; None for the home folder of the account.
    pub output: Option<PathBuf>,
}

/// A cluster managed by Torque and Maui.
#[derive(Debug)]
pub struct Maui {
    commands: Commands,
    places: Vec<Place>,
    output: Option<PathBuf>,
}

impl Maui {
    /// Runs no command yet.
    pub fn new(runner: Runner, settings: Settings) -> Maui {
        let commands = Commands::new(runner, &settings);
        Maui { commands, places: settings.places, output: settings.output }
    }
}

impl BatchSystem for Maui {
    fn traits(&self) -> Traits {
        Traits {
            smallest_step: Seconds(1),
            longest_name: create::LONGEST_NAME,
            moves_jobs: false,
            requeues_jobs: false,
            freed_within: Seconds::ZERO,
            // Maui cannot change a reservation, and so not its users.
            sharing: Sharing::FromTheBeginning,
            tres: false,
            attracts: false,
        }
    }

    fn look(&self) -> Result<Picture, LrmsError> {
        let commands = &self.commands.for_looks();
        let nodes = jobs::nodes(commands, &self.places)?;
        // Jobs first: the reservation of a listed job existed then, so if it is missing now, it is gone.
        let (jobs, unreadable) = jobs::all(commands)?;
        let queue = jobs::queue(commands)?;
        let seen = reservations::all(commands, &nodes)?;
        let jobs = jobs::facts(jobs, &self.places, &nodes, &queue, &seen);
        let reservations = seen.reservations;
        Ok(Picture { clock: seen.clock, nodes, reservations, jobs, unreadable, ..Picture::default() })
    }

    fn examine(&self) -> Vec<Finding> {
        examine::examine(self)
    }
}

/// Messages of commands if their daemon does not answer.
const DOWN: [&str; 7] = [
    "cannot connect to",
    "cannot request service",
    "lost connection",
    "Connection refused",
    "Connection timed out",
    "Unable to communicate with",
    "Communication failure",
];

#[derive(Debug)]
struct Commands {
    maui: Tools,
    torque: Tools,
}

impl Commands {
    fn new(runner: Runner, settings: &Settings) -> Commands {
        let tools =
            |runner, bin: &Option<_>| Tools::new(runner, bin.clone(), settings.environment.clone(), &DOWN);
        Commands {
            maui: tools(runner.clone(), &settings.maui_bin).probed_by("showq", &[]),
            torque: tools(runner, &settings.torque_bin),
        }
    }

    /// A copy that uses the slots of looks.
    fn for_looks(&self) -> Commands {
        Commands { maui: self.maui.for_looks(), torque: self.torque.for_looks() }
    }
}

/// Parses XML output of Torque; no output is an empty document.
fn document(command: &Command, out: &str) -> Result<Element, LrmsError> {
    if out.trim().is_empty() { Ok(Element::default()) } else { dialect::document(command, out) }
}

/// `HH:MM:SS_MO/DD/YY`, for `setres -s` and `-e`.
fn asked(time: Time) -> String {
    calendar::written(time, "%H:%M:%S_%m/%d/%y")
}

/// Whether a year can be expressed with two digits: Maui takes 97 and above for the last century.
fn can_be_asked(time: Time) -> bool {
    (2000..2097).contains(&calendar::date(time).year())
}

/// A duration: `[[DD:]HH:]MM:SS`; `Some(None)` if it is endless (100 days and more).
fn length(text: &str) -> Option<Option<Seconds>> {
    if text.starts_with("INFINIT") {
        return Some(None);
    }
    length_of_time(text).map(|seconds| Some(Seconds(seconds)))
}

/// A duration with a sign; None if it is endless or invalid. Maui cuts off the first digit of tens of days after a
/// minus, so durations of a day and more in the past are rejected.
fn signed(text: &str) -> Option<Seconds> {
    match text.strip_prefix('-') {
        Some(ago) => length_of_time(ago).filter(|ago| *ago < 86_400).map(|ago| Seconds(-ago)),
        None => length_of_time(text).map(Seconds),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_asked_for_with_seconds_and_a_year() {
        assert_eq!(asked(Time(1_794_700_801)), "00:00:01_11/15/26");
        assert!(can_be_asked(Time(1_794_700_801)) && !can_be_asked(Time::MAX) && !can_be_asked(Time::MIN));
    }

    #[test]
    fn lengths_are_read_with_and_without_a_sign() {
        assert_eq!(length("1:06:00:00"), Some(Some(Seconds(108_000))));
        assert_eq!((length("INFINITY"), length("INFINITE"), length("x")), (Some(None), Some(None), None));
        assert_eq!((signed("-00:05:01"), signed("2:41:39")), (Some(Seconds(-301)), Some(Seconds(9699))));
        assert_eq!((signed("-INFINITY"), signed("-1:00:00:00")), (None, None));
    }
}
