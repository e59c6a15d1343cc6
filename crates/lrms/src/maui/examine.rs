//! Checks for an operator whether Torque and Maui can be used as configured.

use super::Maui;
use crate::batch::{BatchSystem, Finding, Grade, Picture, Place, ReservationSystem, Unit};
use crate::dialect::{self, Tools, Trial};
use bookahead_plan::Seconds;

/// How far ahead the test reservation begins, and how long it lasts.
const AHEAD: Seconds = Seconds(30 * 86_400);
const LASTS: Seconds = Seconds(600);

/// All checks; stops if nothing more can be queried.
pub(super) fn examine(maui: &Maui) -> Vec<Finding> {
    let mut findings = vec![version(&maui.commands.maui)];
    let what = "reading nodes, jobs and reservations";
    let picture = match maui.look() {
        Ok(picture) => picture,
        Err(why) => {
            let advice = "run the command by hand as the account of this service, which must be in ADMIN1 or \
                          ADMIN2 of maui.cfg";
            findings.push(Finding::wrong(what, why, advice));
            return findings;
        }
    };
    findings.push(dialect::seen(what, "nodes", &picture));
    findings.extend(maui.places.iter().map(|place| resource(place, &picture)));
    let advice = "set resources_default.walltime of the queues, so that future room is known";
    findings.extend(dialect::endless(&picture, advice));
    if let Some(place) = maui.places.first().cloned() {
        findings.push(may_reserve(maui, place, &picture));
    }
    findings
}

/// The first line of `showconfig` names Maui and its version.
fn version(tools: &Tools) -> Finding {
    let what = "Maui answers";
    match tools.run(&tools.command("showconfig")) {
        Ok(outcome) if outcome.is_success() => {
            let line =
                outcome.out.lines().next().unwrap_or_default().trim_start_matches(['#', ' ']).to_owned();
            // Moab has commands of the same names, so without this check only odd output would reveal it.
            if line.to_ascii_lowercase().contains("moab") {
                return Finding::wrong(what, line, "this is Moab, whose output differs; it is not supported");
            }
            Finding::well(what, line)
        }
        Ok(outcome) => {
            Finding::wrong(what, outcome.said(), "add this account to ADMIN1 or ADMIN2 of maui.cfg")
        }
        Err(why) => Finding::wrong(what, why, "configure the folder of Maui's commands, or start Maui"),
    }
}

fn resource(place: &Place, picture: &Picture) -> Finding {
    let none = "check the features: they are properties of nodes, see pbsnodes";
    let unusable = "check pbsnodes -l";
    let finding = dialect::resource(place, &picture.nodes, ["processors", "nodes"], none, unusable);
    // Only features select nodes here, so a queue of a few nodes would be offered with all of them.
    if finding.grade == Grade::Well && place.partition.is_some() && place.features.is_empty() {
        let advice =
            "if the queue uses only some of the nodes, give these a property and configure it as a feature";
        return Finding::doubtful(finding.what, finding.seen, advice);
    }
    finding
}

/// Creates a small reservation in the future and releases it.
fn may_reserve(maui: &Maui, place: Place, picture: &Picture) -> Finding {
    // Maui's time is derived from its list of reservations, which may be empty.
    let clock = match picture.clock.map_or_else(|| maui.commands.maui.clock(), Ok) {
        Ok(clock) => clock,
        Err(why) => {
            return Finding::doubtful("the time", why, "run date +%s where the commands run");
        }
    };
    let trial = Trial {
        name: "bookahead-examination",
        place: Place { unit: Unit::Cores, ..place },
        begin: clock + AHEAD,
        lasts: LASTS,
        advice: "add this account to ADMIN1 or ADMIN2 of maui.cfg, and restart Maui".into(),
    };
    trial.finding(&maui.commands.maui, |wanted| maui.delete(&maui.create(wanted, picture)?.handle))
}
