//! Checking that Torque and Maui can be used as they are configured, step by step, for an operator to read.

use super::{Maui, keep};
use crate::batch::{BatchSystem, FactState, Finding, Picture, Place, Unit, Wanted};
use crate::command::{Command, Outcome};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};

/// A reservation to try with lies so far ahead, and lasts so long.
const AHEAD: Seconds = Seconds(30 * 86_400);
const LASTS: Seconds = Seconds(600);

/// All that can be checked; it stops where nothing more can be seen.
pub(super) fn examine(maui: &mut Maui) -> Vec<Finding> {
    let mut findings = vec![version(maui)];
    let picture = match maui.look() {
        Ok(picture) => picture,
        Err(why) => {
            let advice = "run the command by hand as the account of this service, which ADMIN1 or ADMIN2 in maui.cfg must name";
            findings.push(Finding::wrong("looking at nodes, jobs and reservations", why.to_string(), advice));
            return findings;
        }
    };
    findings.push(seen(&picture));
    findings.extend(maui.places.iter().map(|place| resource(place, &picture)));
    findings.extend(endless(&picture));
    if let Some(place) = maui.places.first().cloned() {
        findings.push(may_reserve(maui, place, &picture));
    }
    findings
}

/// The first line of `showconfig` names Maui and its version.
fn version(maui: &Maui) -> Finding {
    let what = "Maui answers";
    match maui.commands.run(&maui.commands.maui("showconfig")) {
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
        Err(why) => {
            Finding::wrong(what, why.to_string(), "name the folder of Maui's commands, or start Maui")
        }
    }
}

fn seen(picture: &Picture) -> Finding {
    let Picture { nodes, jobs, reservations, .. } = picture;
    let seen = format!("{} nodes, {} jobs, {} reservations", nodes.len(), jobs.len(), reservations.len());
    Finding::well("looking at nodes, jobs and reservations", seen)
}

fn resource(place: &Place, picture: &Picture) -> Finding {
    let what = format!("the resource {}", place.resource);
    let nodes = || picture.nodes.iter().filter(|node| node.resources.contains(&place.resource));
    let (all, usable) = (nodes().count(), nodes().filter(|node| node.usable).count());
    let cores = nodes().fold(0, |sum: u32, node| sum.saturating_add(node.cores));
    let seen = format!("{cores} processors on {all} nodes, {usable} of them usable");
    if all == 0 {
        return Finding::wrong(what, seen, "check the features: they are properties of nodes, see pbsnodes");
    }
    if place.partition.is_some() && place.features.is_empty() {
        let advice =
            "if the queue uses some of the nodes only, give these a property and name it as a feature";
        return Finding::doubtful(what, seen, advice);
    }
    Finding::well(what, seen)
}

/// Jobs without a limit are in the way of every reservation.
fn endless(picture: &Picture) -> Option<Finding> {
    let endless = picture.jobs.iter().filter(|job| job.state == FactState::Running && job.limit.is_none());
    let count = endless.count();
    let advice = "set resources_default.walltime of the queues, so that room in the future can be known";
    (count > 0).then(|| Finding::doubtful("limits of jobs", format!("{count} run without one"), advice))
}

/// Makes a small reservation far ahead and releases it again.
fn may_reserve(maui: &Maui, place: Place, picture: &Picture) -> Finding {
    let what = "making and releasing a reservation";
    let Some(clock) = picture.clock.or_else(|| time(maui)) else {
        return Finding::doubtful(
            what,
            "what time it is could not be found out",
            "run date +%s where the commands run",
        );
    };
    let wanted = Wanted {
        name: "bookahead-examination".into(),
        place: Place { unit: Unit::Cores, ..place },
        interval: Interval::starting(clock + AHEAD, LASTS),
        amount: 1,
        account: said(maui, &Command::new("id").arg("-un")).unwrap_or_else(|| "root".into()),
    };
    let made = keep::create(&maui.commands, &wanted, picture);
    match made.and_then(|handle| keep::delete(&maui.commands, &handle)) {
        Ok(()) => Finding::well(what, "one processor a month ahead was reserved and released again"),
        Err(why @ LrmsError::Refused { .. }) => Finding::wrong(
            what,
            why.to_string(),
            "name this account in ADMIN1 or ADMIN2 of maui.cfg, and restart Maui",
        ),
        Err(why) => {
            Finding::wrong(what, why.to_string(), "see showres, and release bookahead-examination by hand")
        }
    }
}

fn time(maui: &Maui) -> Option<Time> {
    said(maui, &Command::new("date").arg("+%s"))?.parse().ok().map(Time)
}

fn said(maui: &Maui, command: &Command) -> Option<String> {
    let outcome = maui.commands.runner.run(command).ok().filter(Outcome::is_success)?;
    Some(outcome.out.trim().to_owned())
}
