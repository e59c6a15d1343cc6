//! Checking that LSF can be used as it is configured, step by step, for an operator to read.

use super::{Lsf, nodes, times};
use crate::batch::{BatchSystem, Finding, Picture, Place, ReservationSystem, Unit};
use crate::dialect::{self, Tools, Trial};
use bookahead_plan::{Interval, Seconds, Time};

/// A reservation to try with lies so far ahead, and lasts so long.
const AHEAD: Seconds = Seconds(30 * 86_400);
const LASTS: Seconds = Seconds(1200);

/// All that can be checked; it stops where nothing more can be seen.
pub(super) fn examine(lsf: &Lsf) -> Vec<Finding> {
    let mut findings = vec![version(&lsf.tools)];
    let clock = match lsf.tools.clock() {
        Ok(clock) => clock,
        Err(why) => {
            let advice = "make date(1) work where the commands run, or name another program for it";
            findings.push(Finding::wrong("the time", why, advice));
            return findings;
        }
    };
    let what = "looking at hosts, jobs and reservations";
    let picture = match lsf.look() {
        Ok(picture) => picture,
        Err(why) => {
            let advice =
                "LSF 10.1.0.2 or later is needed; run the command by hand as the account of this service";
            findings.push(Finding::wrong(what, why, advice));
            return findings;
        }
    };
    findings.push(dialect::seen(what, "hosts", &picture));
    findings.extend(lsf.places.iter().map(|place| resource(place, &picture)));
    let advice = "set a default RUNLIMIT for the queues, so that room in the future can be known";
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
        Ok(outcome) => Finding::wrong(what, outcome.said(), "set LSF_ENVDIR as profile.lsf does"),
        Err(why) => Finding::wrong(what, why, "name the folder of LSF's commands, or start LSF"),
    }
}

fn resource(place: &Place, picture: &Picture) -> Finding {
    if let Err(why) = nodes::selection(&place.features) {
        return Finding::wrong(format!("the resource {}", place.resource), why, "correct the features");
    }
    let unusable = "see bhosts -l for what is wrong with the others";
    let none = "check the queue and the features";
    let finding = dialect::resource(place, &picture.nodes, ["slots", "hosts"], none, unusable);
    let mut mine = picture.nodes.iter().filter(|node| node.resources.contains(&place.resource));
    if mine.any(|node| node.cores == 0) {
        let advice =
            "some hosts have no limit of slots; set MXJ to ! in lsb.hosts, so that LSF can reserve there";
        return Finding::doubtful(finding.what, finding.seen, advice);
    }
    finding
}

/// Makes a small reservation far ahead and deletes it again.
fn may_reserve(lsf: &Lsf, place: Place, picture: &Picture, clock: Time) -> Finding {
    let begin = Interval::new(clock + AHEAD, clock + AHEAD);
    let trial = Trial {
        name: "bookahead_examination",
        place: Place { unit: Unit::Cores, ..place },
        begin: times::widened(begin, times::PERIOD).begin,
        lasts: LASTS,
        advice: "run as an administrator of LSF, or name this account in a ResourceReservation section of lsb.resources".into(),
    };
    trial.finding(&lsf.tools, |wanted| lsf.delete(&lsf.create(wanted, picture)?.handle))
}
