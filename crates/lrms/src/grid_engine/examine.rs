//! Checks for an operator whether a Grid Engine can be used as configured. It creates one small reservation a year
//! ahead and deletes it; it changes nothing else.

use super::nodes::queue_of;
use super::{GridEngine, NO_WHOLE_HOSTS, Settings};
use crate::batch::{Finding, Picture, Place, ReservationSystem, Unit};
use crate::dialect::calendar;
use crate::dialect::{self, Tools, Trial};
use crate::error::LrmsError;
use bookahead_plan::{Seconds, Time};
use std::collections::BTreeSet;

const YEAR: Seconds = Seconds(365 * 86_400);
const HOUR: Seconds = Seconds(3600);
/// Longest harmless schedule interval, in seconds. Jobs in a reservation start up to one interval late.
const SLOW: i64 = 5;

pub(super) fn examine(engine: &GridEngine) -> Vec<Finding> {
    let (tools, settings) = (&engine.tools, &engine.settings);
    let (answers, mut findings) = master(tools);
    if !answers {
        return findings;
    }
    findings.push(environment(tools, &settings.parallel_environment));
    findings.extend(schedule(tools));
    findings.push(accounting(tools, settings));
    match super::look(tools, &settings.places, &Default::default()) {
        Err(error) => {
            let advice = "check that this command works here";
            findings.push(Finding::wrong("queues", error, advice));
        }
        Ok(picture) => {
            for place in &settings.places {
                findings.extend(place_findings(tools, settings, place, &picture));
            }
            let countable = settings.places.iter().find(|place| place.unit == Unit::Cores);
            findings.extend(countable.map(|place| privilege(engine, place, &picture)));
        }
    }
    findings
}

/// Whether the master answers, and its version.
fn master(tools: &Tools) -> (bool, Vec<Finding>) {
    let down = |error| {
        let advice = "check that sge_qmaster runs, and SGE_ROOT, SGE_CELL and SGE_QMASTER_PORT";
        Finding::wrong("master", error, advice)
    };
    let version = match tools.run(&tools.command("qstat").arg("-help")) {
        Ok(outcome) => outcome.out.lines().next().unwrap_or("").trim().to_owned(),
        // During an outage it is not even run.
        Err(silent @ LrmsError::Silent { .. }) => return (false, vec![down(silent)]),
        Err(error) => {
            let advice = "install the client commands (Debian: gridengine-client), or configure their folder";
            return (false, vec![Finding::wrong("commands", error, advice)]);
        }
    };
    let commands = if version.contains("8.1") {
        Finding::well("version", version)
    } else {
        let advice = "only 8.1.9 was tested; check the first reservations by hand";
        Finding::doubtful("version", version, advice)
    };
    match tools.ask(&tools.command("qconf").arg("-sss")) {
        Ok(host) => {
            (true, vec![commands, Finding::well("master", format!("it answers, on {}", host.trim()))])
        }
        Err(error) => (false, vec![commands, down(error)]),
    }
}

/// The parallel environment must let jobs and reservations use any slots of the queue.
fn environment(tools: &Tools, name: &str) -> Finding {
    let what = format!("parallel environment {name}");
    let text = match tools.ask(&tools.command("qconf").arg("-sp").arg(name)) {
        Ok(text) => text,
        Err(error) => return Finding::wrong(what, error, "create one: qconf -ap, see sge_pe(5)"),
    };
    let rule = value(&text, "allocation_rule").unwrap_or("");
    let slots = value(&text, "slots").unwrap_or("");
    let seen = format!("{slots} slots, allocation rule {rule}");
    if matches!(rule, "$fill_up" | "$round_robin") {
        Finding::well(what, seen)
    } else {
        let advice = "set allocation_rule $fill_up: other rules grant only slots of one host, or multiples of a number";
        Finding::doubtful(what, seen, advice)
    }
}

fn schedule(tools: &Tools) -> Vec<Finding> {
    let text = match tools.ask(&tools.command("qconf").arg("-ssconf")) {
        Ok(text) => text,
        Err(error) => return vec![Finding::doubtful("scheduler", error, "check qconf -ssconf")],
    };
    let interval = value(&text, "schedule_interval").unwrap_or("");
    let seen = format!("schedule_interval is {interval}");
    let soon = calendar::length_of_time(interval).is_some_and(|seconds| seconds <= SLOW);
    let advice =
        "jobs start up to this much later than their reservation; set it to 0:0:2 or less with qconf -msconf";
    let pace =
        if soon { Finding::well("scheduler", seen) } else { Finding::doubtful("scheduler", seen, advice) };
    let default = value(&text, "default_duration").unwrap_or("");
    let seen = format!("default_duration is {default}");
    let endless = default.eq_ignore_ascii_case("infinity");
    let advice = "jobs without h_rt are planned with this length but run on, even into reservations; set it to \
                  INFINITY, and give \
         the queue a limit or all jobs an h_rt";
    let limits = if endless {
        Finding::well("jobs without a limit", format!("{seen}: no reservation is granted where one runs"))
    } else {
        Finding::doubtful("jobs without a limit", seen, advice)
    };
    vec![pace, limits]
}

fn accounting(tools: &Tools, settings: &Settings) -> Finding {
    let what = "accounting";
    let advice = "the results of jobs will be unknown; set accounting=true in reporting_params and \
                  finished_jobs to 100 or more \
         with qconf -mconf";
    let Ok(text) = tools.ask(&tools.command("qconf").arg("-sconf")) else {
        return Finding::doubtful(what, "qconf -sconf failed", advice);
    };
    let kept = value(&text, "reporting_params").unwrap_or("").contains("accounting=true");
    let finished = value(&text, "finished_jobs").and_then(|number| number.parse::<u32>().ok()).unwrap_or(0);
    let readable = tools.run(&tools.command("qacct").args(["-j", "0"]));
    let seen = readable.map_or_else(|error| error.to_string(), |outcome| outcome.said().to_owned());
    // Job 0 never exists, so `not found` proves that the file can be read. It is missing until the first job has
    // ended.
    let readable = seen.contains("not found") || seen.contains("No such file");
    if settings.accounting.is_none() {
        Finding::doubtful(what, "it is not used", "the results of jobs will be unknown; configure it")
    } else if kept && finished > 0 && readable {
        Finding::well(what, format!("it is on; the last {finished} jobs are remembered"))
    } else {
        Finding::doubtful(what, format!("accounting={kept}, finished_jobs={finished}; qacct: {seen}"), advice)
    }
}

fn place_findings(tools: &Tools, settings: &Settings, place: &Place, picture: &Picture) -> Vec<Finding> {
    if place.unit == Unit::Nodes {
        let what = format!("the resource {}", place.resource);
        return vec![Finding::wrong(what, "it is counted in nodes", NO_WHOLE_HOSTS)];
    }
    let none = "check qselect -q QUEUE, and correct queue and features";
    let unusable = "check qstat -f -explain aE";
    let slots = dialect::resource(place, &picture.nodes, ["slots", "queue instances"], none, unusable);
    let nodes = picture.nodes.iter().filter(|node| node.resources.contains(&place.resource));
    let queues: BTreeSet<&str> = nodes.map(|node| queue_of(&node.name)).collect();
    let lists = queues.into_iter().map(|queue| pe_list(tools, queue, &settings.parallel_environment));
    std::iter::once(slots).chain(lists).collect()
}

fn pe_list(tools: &Tools, queue: &str, environment: &str) -> Finding {
    let what = format!("queue {queue}");
    match tools.ask(&tools.command("qconf").arg("-sq").arg(queue)) {
        Err(error) => Finding::wrong(what, error, "check qconf -sql"),
        Ok(text) => {
            let list = value(&text, "pe_list").unwrap_or("");
            let has = list.split([' ', ',', '[', ']', '=']).any(|name| name == environment);
            if has {
                Finding::well(what, format!("it has the parallel environment {environment}"))
            } else {
                let advice = format!("run: qconf -aattr queue pe_list {environment} {queue}");
                Finding::wrong(what, format!("its pe_list is {list}"), advice)
            }
        }
    }
}

/// Creates a reservation of one slot a year ahead, and deletes it.
fn privilege(engine: &GridEngine, place: &Place, picture: &Picture) -> Finding {
    let trial = Trial {
        name: "bookahead.examination",
        place: place.clone(),
        begin: picture.clock.unwrap_or(Time(0)) + YEAR,
        lasts: HOUR,
        advice: "have an administrator run: qconf -au ACCOUNT arusers; or make it a manager: qconf -am"
            .into(),
    };
    trial.finding(&engine.tools, |wanted| engine.delete(&engine.create(wanted, picture)?.handle))
}

/// The value in a line `name   value`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let lines = text.lines().filter_map(|line| line.trim().split_once(char::is_whitespace));
    lines.filter(|(known, _)| *known == name).map(|(_, value)| value.trim()).next()
}
