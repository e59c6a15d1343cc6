//! Seeing whether a cluster can be used as it is configured, step by step, for an operator to read.

use super::fields::field;
use super::look::{self, Granted, show_nodes, squeue};
use super::nodes::{self, SlurmNode};
use super::speech::Speech;
use super::{Settings, config, create, delete, json, membership, refusal};
use crate::batch::{Finding, Place, Wanted};
use crate::command::Command;
use crate::error::LrmsError;
use bookahead_plan::{Interval, Seconds, Time};
use std::time::Duration;

/// The first version that was tried.
const OLDEST: (u32, u32) = (22, 5);

/// Clocks that differ more make jobs start late, or reservations begin in the past.
const MOST_SKEW: i64 = 2;

/// So far ahead a reservation is tried: nobody else has one there.
const A_YEAR: Seconds = Seconds(365 * 86_400);

pub(super) fn examine(speech: &Speech, settings: &Settings) -> Vec<Finding> {
    let mut findings = vec![commands(speech)];
    let config = match speech.tell(&speech.scontrol(["show", "config"])) {
        Ok(config) => config,
        Err(why) => {
            findings.push(cannot("the controller", &why, "start slurmctld, and say where its slurm.conf is"));
            return findings;
        }
    };
    findings.push(controller(speech, &config));
    findings.push(clocks(speech, &config));
    findings.push(queue(speech));
    findings.push(cores_and_memory(&config));
    findings.extend(partitions(speech, settings));
    findings.push(overrun(&config));
    findings.push(users(&config));
    findings.extend(privacy(&config));
    findings.push(accounting(speech, &config, settings));
    findings.extend(membership::projects(speech, &config, settings));
    findings.push(privilege(speech, settings));
    findings
}

fn cannot(what: &str, why: &LrmsError, advice: &str) -> Finding {
    Finding::wrong(what, why.to_string(), advice)
}

fn commands(speech: &Speech) -> Finding {
    let what = "Slurm's commands";
    match speech.version() {
        Err(why) => cannot(what, &why, "install slurm-client, or say in which folder the commands are"),
        Ok((year, month)) if (year, month) < OLDEST => Finding::doubtful(
            what,
            format!("version {year}.{month:02}"),
            "take 22.05 or later; earlier ones were never tried",
        ),
        Ok((year, month)) => Finding::well(what, format!("version {year}.{month:02}")),
    }
}

fn controller(speech: &Speech, config: &str) -> Finding {
    let what = "the controller";
    let version = config::value(config, "SLURM_VERSION").unwrap_or("unknown");
    match speech.tell(&speech.scontrol(["ping"])) {
        Ok(said) if said.contains(" UP") => {
            Finding::well(what, format!("{}, version {version}", said.trim().replace('\n', "; ")))
        }
        Ok(said) => Finding::wrong(what, said.trim().to_owned(), "start slurmctld"),
        Err(why) => cannot(what, &why, "start slurmctld"),
    }
}

/// The clock where commands run against that of the controller.
fn clocks(speech: &Speech, config: &str) -> Finding {
    let what = "the clock of the controller";
    let here = speech.tell(&Command::new("date").arg("+%s"));
    let here = here.ok().and_then(|said| said.trim().parse::<i64>().ok());
    match (look::clock(config), here) {
        (Some(Time(there)), Some(here)) if there.saturating_sub(here).abs() <= MOST_SKEW => {
            Finding::well(what, "as the clock where commands run")
        }
        (Some(Time(there)), Some(here)) => {
            let by = there.saturating_sub(here);
            Finding::wrong(
                what,
                format!("{by} s ahead of the clock where commands run"),
                "set both clocks by NTP",
            )
        }
        _ => Finding::doubtful(what, "it is not told", "see yourself that all clocks agree"),
    }
}

fn queue(speech: &Speech) -> Finding {
    let what = "the queue";
    match speech.tell(&squeue(speech)).and_then(|printed| json::read(&printed)) {
        Ok(jobs) => Finding::well(what, format!("squeue --json shows {} jobs", jobs.len())),
        Err(why) => cannot(
            what,
            &why,
            "install Slurm's JSON plugin (Debian: slurm-wlm-basic-plugins), so that squeue --json works",
        ),
    }
}

/// Reservations are made in cores; they keep no memory free.
fn cores_and_memory(config: &str) -> Finding {
    let what = "what Slurm shares out";
    let plugin = config::value(config, "SelectType").unwrap_or("unknown");
    let how = config::value(config, "SelectTypeParameters").unwrap_or("unknown");
    let seen = format!("{plugin}, {how}");
    if !plugin.contains("cons_") {
        let advice = "set SelectType=select/cons_tres: without it reservations cannot be made in cores";
        return Finding::wrong(what, seen, advice);
    }
    if how.to_ascii_uppercase().contains("MEMORY") {
        let advice = "reservations keep cores free, not memory: set DefMemPerCPU, so that jobs on other cores of a node leave some";
        return Finding::doubtful(what, seen, advice);
    }
    Finding::well(what, seen)
}

fn partitions(speech: &Speech, settings: &Settings) -> Vec<Finding> {
    let [shown, nodes] =
        speech.tell_all(&[speech.scontrol(["-o", "show", "partitions"]), show_nodes(speech)]);
    let (shown, nodes) = match (shown, nodes.and_then(|printed| nodes::read(&printed))) {
        (Ok(shown), Ok(nodes)) => (shown, nodes),
        (Err(why), _) | (_, Err(why)) => {
            return vec![cannot("partitions and nodes", &why, "see what scontrol says")];
        }
    };
    settings.places.iter().flat_map(|place| self::place(place, &shown, &nodes)).collect()
}

fn place(place: &Place, partitions: &str, nodes: &[SlurmNode]) -> Vec<Finding> {
    let what = format!("the resource {}", place.resource);
    let Some(partition) = &place.partition else { return vec![capacity(place, &what, nodes)] };
    let line = partitions.lines().find(|line| field(line, "PartitionName") == Some(partition));
    let Some(line) = line else {
        let names: Vec<&str> = partitions.lines().filter_map(|line| field(line, "PartitionName")).collect();
        let advice = format!("name one of: {}", names.join(", "));
        return vec![Finding::wrong(what, format!("there is no partition {partition}"), advice)];
    };
    let mut findings = vec![capacity(place, &what, nodes)];
    let state = field(line, "State").unwrap_or("unknown");
    if state != "UP" {
        let advice = format!("scontrol update PartitionName={partition} State=UP");
        findings.push(Finding::wrong(what.clone(), format!("the partition {partition} is {state}"), advice));
    }
    let endless = field(line, "MaxTime") == Some("UNLIMITED");
    if endless && field(line, "DefaultTime").is_none_or(|time| time == "NONE" || time == "UNLIMITED") {
        findings.push(Finding::doubtful(
            what,
            format!("jobs in {partition} that name no limit run without end, and are in the way of every reservation"),
            "set DefaultTime for the partition, or MaxTime",
        ));
    }
    findings
}

fn capacity(place: &Place, what: &str, nodes: &[SlurmNode]) -> Finding {
    let ours: Vec<_> = nodes.iter().filter_map(|node| node.told(std::slice::from_ref(place))).collect();
    let cores = |usable: bool| {
        let counted = ours.iter().filter(|node| node.usable || !usable);
        counted.fold(0u32, |sum, node| sum.saturating_add(node.cores))
    };
    let usable = ours.iter().filter(|node| node.usable).count();
    let seen = format!(
        "{} nodes with {} cores, of which {usable} with {} are usable",
        ours.len(),
        cores(false),
        cores(true)
    );
    if ours.is_empty() {
        return Finding::wrong(what, "no node belongs to it", "correct its partition and features");
    }
    if usable < ours.len() {
        let advice = "see `sinfo -R` for what is wrong with the others";
        return Finding::doubtful(what, seen, advice);
    }
    Finding::well(what, seen)
}

fn overrun(config: &str) -> Finding {
    let what = "the end of reservations";
    match config::number(config, "ResvOverRun") {
        Some(0) => Finding::well(what, "jobs end with their reservation (ResvOverRun=0)"),
        _ => {
            let seen = format!(
                "jobs may run on after it (ResvOverRun={})",
                config::value(config, "ResvOverRun").unwrap_or("unknown")
            );
            Finding::doubtful(what, seen, "set ResvOverRun=0, so that what follows begins in time")
        }
    }
}

fn users(config: &str) -> Finding {
    let what = "jobs of others";
    match config::user(config, "SlurmdUser") {
        Some("root") => Finding::well(what, "jobs of all users can run"),
        Some(user) => Finding::doubtful(
            what,
            format!("only jobs of {user} can run: slurmd runs as {user}"),
            "run slurmd as root",
        ),
        None => Finding::doubtful(what, "it is not told as whom slurmd runs", "see SlurmdUser in slurm.conf"),
    }
}

fn privacy(config: &str) -> Option<Finding> {
    let hidden = config::value(config, "PrivateData")?;
    let advice =
        "run the commands as root, SlurmUser or an operator, so that all jobs and reservations are seen";
    Some(Finding::doubtful("what is hidden", format!("PrivateData={hidden}"), advice))
}

fn accounting(speech: &Speech, config: &str, settings: &Settings) -> Finding {
    let what = "accounting";
    if !settings.accounting {
        let age = config::value(config, "MinJobAge").unwrap_or("a while");
        return Finding::well(
            what,
            format!("not used; the controller remembers jobs that are over for {age}"),
        );
    }
    let asked = speech.tell(&speech.reader("sacct").args(["-X", "-n", "-P", "-S", "now", "-o", "JobID"]));
    match asked {
        Ok(_) => Finding::well(what, "sacct answers"),
        Err(why) => cannot(what, &why, "start slurmdbd, or set accounting = false"),
    }
}

/// Makes a reservation for one core or node, a year ahead, and deletes it.
fn privilege(speech: &Speech, settings: &Settings) -> Finding {
    let what = "making and deleting reservations";
    match try_a_reservation(speech, settings) {
        Ok(()) => Finding::well(what, "one was made a year ahead, and deleted"),
        Err(why) if refusal::is_about_projects(&why.to_string()) => {
            let advice = "see that the accounts of all owners are in their projects; those of others get no reservation";
            Finding::doubtful(what, format!("that is allowed, but {why}"), advice)
        }
        Err(why) => cannot(what, &why, "run the commands as root, SlurmUser or an operator"),
    }
}

fn try_a_reservation(speech: &Speech, settings: &Settings) -> Result<(), LrmsError> {
    let picture = look::look(speech, settings, &Granted::default())?;
    let Some(place) = settings.places.first() else { return Ok(()) };
    let (account, project) = match membership::first(settings) {
        Some((account, project)) => (account, Some(project)),
        None => (refusal::who_we_are(speech)?, None),
    };
    let begin = picture.clock.unwrap_or(Time(0)) + A_YEAR;
    let wanted = Wanted {
        name: format!("bookahead-examines-{}", begin.0),
        place: place.clone(),
        interval: Interval::starting(begin, Seconds(60)),
        amount: 1,
        account,
        project,
        nodes: Vec::new(),
    };
    let made = create::create(speech, &wanted, &picture, &Granted::default())?;
    delete::delete(speech, &made.handle, Duration::from_secs(5))
}
