//! Checks for an operator whether LSF can be used as configured.

use super::{Lsf, nodes, times};
use crate::batch::{BatchSystem, Finding, Picture, Place, ReservationSystem, Unit};
use crate::dialect::{self, Tools, Trial};
use bookahead_plan::{Interval, Seconds, Time};

/// How far ahead the test reservation begins, and how long it lasts.
const AHEAD: Seconds = Seconds(30 * 86_400);
const LASTS: Seconds = Seconds(1200);

/// All checks; stops if nothing more can be queried.
pub(super) fn examine(lsf: &Lsf) -> Vec<Finding> {
    let mut findings = vec![version(&lsf.tools)];
    // Before the look, which needs the time as well and would blame LSF if `date` fails.
    let clock = match lsf.tools.clock() {
        Ok(clock) => clock,
        Err(why) => {
            let advice = "make date(1) work where the commands run, or configure another program";
            findings.push(Finding::wrong("the time", why, advice));
            return findings;
        }
    };
    let what = "reading hosts, jobs and reservations";
    let picture = match lsf.look() {
        Ok(picture) => picture,
        Err(why) => {
            let advice =
                "LSF 10.1.0.2 or later is required; run the command by hand as the account of this service";
            findings.push(Finding::wrong(what, why, advice));
            return findings;
        }
    };
    findings.push(dialect::seen(what, "hosts", &picture));
    findings.extend(lsf.places.iter().map(|place| resource(place, &picture)));
    let advice = "set a default RUNLIMIT for the queues, so that future room is known";
    findings.extend(dialect::endless(&picture, advice));
    if let Some(place) = lsf.places.first().cloned() {
        findings.push(may_reserve(lsf, place, &picture, clock));
    }
    findings
}

/// The first line of `lsid` names the product and its version.
fn version(tools: &Tools) -> Finding {
    let command = tools.command("lsid");
    let what = "LSF answers";
    match tools.run(&command) {
        Ok(outcome) if outcome.is_success() => {
            Finding::well(what, outcome.out.lines().next().unwrap_or_default())
        }
        Ok(outcome) => Finding::wrong(what, outcome.said(), "set LSF_ENVDIR as in profile.lsf"),
        Err(why) => Finding::wrong(what, why, "configure the folder of LSF's commands, or start LSF"),
    }
}

fn resource(place: &Place, picture: &Picture) -> Finding {
    if let Err(why) = nodes::selection(&place.features) {
        return Finding::wrong(format!("the resource {}", place.resource), why, "correct the features");
    }
    let unusable = "run bhosts -l for the reasons";
    let none = "check the queue and the features";
    let finding = dialect::resource(place, &picture.nodes, ["slots", "hosts"], none, unusable);
    let mut mine = picture.nodes.iter().filter(|node| node.resources.contains(&place.resource));
    // A host without a slot limit has zero slots here, so the capacity above is too low.
    if mine.any(|node| node.cores == 0) {
        let advice =
            "some hosts have no slot limit; set MXJ to ! in lsb.hosts, so that LSF can reserve there";
        return Finding::doubtful(finding.what, finding.seen, advice);
    }
    finding
}

/// Creates a small reservation in the future and deletes it.
fn may_reserve(lsf: &Lsf, place: Place, picture: &Picture, clock: Time) -> Finding {
    let begin = Interval::new(clock + AHEAD, clock + AHEAD);
    let trial = Trial {
        name: "bookahead_examination",
        // One slot is enough to test the permission; a whole host may be busy with an endless job.
        place: Place { unit: Unit::Cores, ..place },
        // On the edge of a period, so that it takes two whole periods and no part of a third.
        begin: times::widened(begin, times::PERIOD).begin,
        lasts: LASTS,
        advice: "run as an administrator of LSF, or name this account in a ResourceReservation section of lsb.resources".into(),
    };
    trial.finding(&lsf.tools, |wanted| lsf.delete(&lsf.create(wanted, picture)?.handle))
}
