//! Checking that Torque and Maui can be used as they are configured, step by step, for an operator to read.

use super::Maui;
use crate::batch::{BatchSystem, Finding, Grade, Picture, Place, ReservationSystem, Unit};
use crate::dialect::{self, Tools, Trial};
use bookahead_plan::Seconds;

/// A reservation to try with lies so far ahead, and lasts so long.
const AHEAD: Seconds = Seconds(30 * 86_400);
const LASTS: Seconds = Seconds(600);

/// All that can be checked; it stops where nothing more can be seen.
pub(super) fn examine(maui: &Maui) -> Vec<Finding> {
    let mut findings = vec![version(&maui.commands.maui)];
    let what = "looking at nodes, jobs and reservations";
    let picture = match maui.look() {
        Ok(picture) => picture,
        Err(why) => {
            let advice = "run the command by hand as the account of this service, which ADMIN1 or ADMIN2 in maui.cfg must name";
            findings.push(Finding::wrong(what, why, advice));
            return findings;
        }
    };
    findings.push(dialect::seen(what, "nodes", &picture));
    findings.extend(maui.places.iter().map(|place| resource(place, &picture)));
    let advice = "set resources_default.walltime of the queues, so that room in the future can be known";
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
            if line.to_ascii_lowercase().contains("moab") {
                return Finding::wrong(
                    what,
                    line,
                    "this is Moab, which prints other things; it is not supported",
                );
            }
            Finding::well(what, line)
        }
        Ok(outcome) => {
            Finding::wrong(what, outcome.said(), "name this account in ADMIN1 or ADMIN2 of maui.cfg")
        }
        Err(why) => Finding::wrong(what, why, "name the folder of Maui's commands, or start Maui"),
    }
}

fn resource(place: &Place, picture: &Picture) -> Finding {
    let none = "check the features: they are properties of nodes, see pbsnodes";
    let unusable = "see pbsnodes -l";
    let finding = dialect::resource(place, &picture.nodes, ["processors", "nodes"], none, unusable);
    if finding.grade == Grade::Well && place.partition.is_some() && place.features.is_empty() {
        let advice =
            "if the queue uses some of the nodes only, give these a property and name it as a feature";
        return Finding::doubtful(finding.what, finding.seen, advice);
    }
    finding
}

/// Makes a small reservation far ahead and releases it again.
fn may_reserve(maui: &Maui, place: Place, picture: &Picture) -> Finding {
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
        advice: "name this account in ADMIN1 or ADMIN2 of maui.cfg, and restart Maui".into(),
    };
    trial.finding(&maui.commands.maui, |wanted| maui.delete(&maui.create(wanted, picture)?.handle))
}
