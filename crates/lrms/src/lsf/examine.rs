//! Checking that LSF can be used as it is configured, step by step, for an operator to read.

use super::commands::Commands;
use super::{Lsf, hosts, keep, times};
use crate::batch::{BatchSystem, FactState, Finding, Picture, Place, Unit, Wanted};
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};

/// A reservation to try with lies so far ahead, and lasts so long.
const AHEAD: i64 = 30 * 86_400;
const LASTS: i64 = 1200;

/// All that can be checked; it stops where nothing more can be seen.
pub(super) fn examine(lsf: &mut Lsf) -> Vec<Finding> {
    let mut findings = vec![version(&lsf.commands)];
    let clock = match lsf.commands.clock() {
        Ok(clock) => clock,
        Err(why) => {
            let advice = "make date(1) work where the commands run, or name another program for it";
            findings.push(Finding::wrong("the time", why.to_string(), advice));
            return findings;
        }
    };
    let picture = match lsf.look() {
        Ok(picture) => picture,
        Err(why) => {
            let advice =
                "LSF 10.1.0.2 or later is needed; run the command by hand as the account of this service";
            findings.push(Finding::wrong("looking at hosts, jobs and reservations", why.to_string(), advice));
            return findings;
        }
    };
    findings.push(seen(&picture));
    findings.extend(lsf.places.iter().map(|place| resource(place, &picture)));
    findings.extend(endless(&picture));
    if let Some(place) = lsf.places.first().cloned() {
        findings.push(may_reserve(lsf, place, &picture, clock));
    }
    findings
}

/// The first line of `lsid` names the product and its version.
fn version(commands: &Commands) -> Finding {
    let command = commands.command("lsid");
    let what = "LSF answers";
    match commands.run(&command) {
        Ok(outcome) if outcome.is_success() => {
            Finding::well(what, outcome.out.lines().next().unwrap_or_default())
        }
        Ok(outcome) => Finding::wrong(what, outcome.said(), "set LSF_ENVDIR as profile.lsf does"),
        Err(why) => Finding::wrong(what, why.to_string(), "name the folder of LSF's commands, or start LSF"),
    }
}

fn seen(picture: &Picture) -> Finding {
    let Picture { nodes, jobs, reservations, .. } = picture;
    let seen = format!("{} hosts, {} jobs, {} reservations", nodes.len(), jobs.len(), reservations.len());
    Finding::well("looking at hosts, jobs and reservations", seen)
}

fn resource(place: &Place, picture: &Picture) -> Finding {
    let what = format!("the resource {}", place.resource);
    if let Err(why) = hosts::selection(&place.features) {
        return Finding::wrong(what, why.to_string(), "correct the features");
    }
    let nodes = || picture.nodes.iter().filter(|node| node.resources.contains(&place.resource));
    let (all, usable) = (nodes().count(), nodes().filter(|node| node.usable).count());
    let slots = nodes().fold(0, |sum: u32, node| sum.saturating_add(node.cores));
    let seen = format!("{slots} slots on {all} hosts, {usable} of them usable");
    if all == 0 {
        return Finding::wrong(what, seen, "check the queue and the features");
    }
    if nodes().any(|node| node.cores == 0) {
        let advice =
            "some hosts have no limit of slots; set MXJ to ! in lsb.hosts, so that LSF can reserve there";
        return Finding::doubtful(what, seen, advice);
    }
    Finding::well(what, seen)
}

/// Jobs without a limit are in the way of every reservation.
fn endless(picture: &Picture) -> Option<Finding> {
    let endless = picture.jobs.iter().filter(|job| job.state == FactState::Running && job.limit.is_none());
    let count = endless.count();
    let advice = "set a default RUNLIMIT for the queues, so that room in the future can be known";
    (count > 0).then(|| Finding::doubtful("limits of jobs", format!("{count} run without one"), advice))
}

/// Makes a small reservation far ahead and deletes it again.
fn may_reserve(lsf: &mut Lsf, place: Place, picture: &Picture, clock: Time) -> Finding {
    let what = "making and deleting a reservation";
    let begin = Interval::new(clock + Seconds(AHEAD), clock + Seconds(AHEAD));
    let begin = times::widened(begin, times::PERIOD).begin;
    let wanted = Wanted {
        name: "bookahead_examination".into(),
        place: Place { unit: Unit::Cores, ..place },
        interval: Interval::starting(begin, Seconds(LASTS)),
        amount: 1,
        account: own_account(lsf),
    };
    let made = keep::create(&lsf.commands, &wanted, picture);
    match made.and_then(|handle| keep::delete(&lsf.commands, &handle)) {
        Ok(()) => Finding::well(what, "one slot a month ahead was reserved and deleted again"),
        Err(why @ LrmsError::Refused { .. }) => {
            let advice = "run as an administrator of LSF, or name this account in a ResourceReservation section of lsb.resources";
            Finding::wrong(what, why.to_string(), advice)
        }
        Err(why) => {
            Finding::wrong(what, why.to_string(), "see brsvs, and delete bookahead_examination by hand")
        }
    }
}

/// Whom the reservation to try with is for.
fn own_account(lsf: &Lsf) -> String {
    let command = crate::command::Command::new("id").arg("-un");
    let outcome = lsf.commands.runner.run(&command).ok().filter(crate::command::Outcome::is_success);
    outcome.map(|outcome| outcome.out.trim().to_owned()).unwrap_or_else(|| "root".into())
}
