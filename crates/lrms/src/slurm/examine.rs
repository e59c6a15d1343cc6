//! Seeing whether a cluster can be used as it is configured, step by step, for an operator to read. Slurm calls a
//! project an account, and that a user is in it an association; both are kept by slurmdbd.

use super::commands::{is_about_projects, reader, scontrol, squeue};
use super::formats::{field, setting, setting_number, setting_user};
use super::{Settings, Slurm, clock, delete, json, nodes};
use crate::batch::{BatchSystem, Finding, Grade, Node, Place, ReservationSystem, Wanted};
use crate::dialect::{Tools, Trial, resource};
use bookahead_plan::{Seconds, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// The first version that was tried.
const OLDEST: (u32, u32) = (22, 5);

/// Clocks that differ more make jobs start late, or reservations begin in the past.
const MOST_SKEW: i64 = 2;

/// Who may make reservations.
const OPERATOR: &str = "run the commands as root, SlurmUser or an operator";

/// So far ahead a reservation is tried: nobody else has one there.
const A_YEAR: Seconds = Seconds(365 * 86_400);

pub(super) fn examine(slurm: &Slurm) -> Vec<Finding> {
    let (tools, settings) = (&slurm.tools, &slurm.settings);
    let mut findings = vec![version(slurm)];
    let config = match tools.ask(&scontrol(tools, ["show", "config"])) {
        Ok(config) => config,
        Err(why) => {
            let advice = "start slurmctld, and say where its slurm.conf is";
            findings.push(Finding::wrong("the controller", why, advice));
            return findings;
        }
    };
    findings.push(controller(tools, &config));
    findings.push(clocks(tools, &config));
    findings.push(queue(tools));
    findings.push(cores_and_memory(&config));
    findings.extend(partitions(tools, settings));
    findings.push(overrun(&config));
    findings.push(users(&config));
    findings.extend(privacy(&config));
    findings.push(accounting(tools, &config, settings));
    findings.extend(projects(tools, &config, settings));
    findings.push(privilege(slurm));
    findings
}

fn version(slurm: &Slurm) -> Finding {
    let what = "Slurm's commands";
    let (year, month) = match slurm.version() {
        Ok(version) => version,
        Err(why) => {
            let advice = "install slurm-client, or say in which folder the commands are";
            return Finding::wrong(what, why, advice);
        }
    };
    let seen = format!("version {year}.{month:02}");
    if (year, month) < OLDEST {
        return Finding::doubtful(what, seen, "take 22.05 or later; earlier ones were never tried");
    }
    Finding::well(what, seen)
}

fn controller(tools: &Tools, config: &str) -> Finding {
    let what = "the controller";
    let version = setting(config, "SLURM_VERSION").unwrap_or("unknown");
    match tools.ask(&scontrol(tools, ["ping"])) {
        Ok(said) if said.contains(" UP") => {
            Finding::well(what, format!("{}, version {version}", said.trim().replace('\n', "; ")))
        }
        Ok(said) => Finding::wrong(what, said.trim().to_owned(), "start slurmctld"),
        Err(why) => Finding::wrong(what, why, "start slurmctld"),
    }
}

/// The clock where commands run against that of the controller.
fn clocks(tools: &Tools, config: &str) -> Finding {
    let what = "the clock of the controller";
    let (Some(there), Ok(here)) = (clock(config), tools.clock()) else {
        return Finding::doubtful(what, "it is not told", "see yourself that all clocks agree");
    };
    match (there - here).0 {
        by if by.abs() <= MOST_SKEW => Finding::well(what, "as the clock where commands run"),
        by => {
            let seen = format!("{by} s ahead of the clock where commands run");
            Finding::wrong(what, seen, "set both clocks by NTP")
        }
    }
}

fn queue(tools: &Tools) -> Finding {
    let what = "the queue";
    match tools.ask(&squeue(tools)).and_then(|printed| json::read(&printed)) {
        Ok((jobs, _)) => Finding::well(what, format!("squeue --json shows {} jobs", jobs.len())),
        Err(why) => Finding::wrong(
            what,
            why,
            "install Slurm's JSON plugin (Debian: slurm-wlm-basic-plugins), so that squeue --json works",
        ),
    }
}

/// Reservations are made in cores; they keep no memory free.
fn cores_and_memory(config: &str) -> Finding {
    let what = "what Slurm shares out";
    let plugin = setting(config, "SelectType").unwrap_or("unknown");
    let how = setting(config, "SelectTypeParameters").unwrap_or("unknown");
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

fn partitions(tools: &Tools, settings: &Settings) -> Vec<Finding> {
    let asked = [scontrol(tools, ["-o", "show", "partitions"]), scontrol(tools, ["-o", "show", "nodes"])];
    let [shown, nodes] = tools.ask_each(&asked);
    let (shown, nodes) = match (shown, nodes.and_then(|printed| nodes::read(&printed))) {
        (Ok(shown), Ok(nodes)) => (shown, nodes),
        (Err(why), _) | (_, Err(why)) => {
            return vec![Finding::wrong("partitions and nodes", why, "see what scontrol says")];
        }
    };
    let nodes: Vec<Node> = nodes.iter().filter_map(|node| node.told(&settings.places)).collect();
    settings.places.iter().flat_map(|place| self::place(place, &shown, &nodes)).collect()
}

fn place(place: &Place, partitions: &str, nodes: &[Node]) -> Vec<Finding> {
    let what = format!("the resource {}", place.resource);
    let none = "no node belongs to it: correct its partition and features";
    let unusable = "see `sinfo -R` for what is wrong with the others";
    let capacity = resource(place, nodes, ["cores", "nodes"], none, unusable);
    let Some(partition) = &place.partition else { return vec![capacity] };
    let line = partitions.lines().find(|line| field(line, "PartitionName") == Some(partition));
    let Some(line) = line else {
        let names: Vec<&str> = partitions.lines().filter_map(|line| field(line, "PartitionName")).collect();
        let advice = format!("name one of: {}", names.join(", "));
        return vec![Finding::wrong(what, format!("there is no partition {partition}"), advice)];
    };
    let mut findings = vec![capacity];
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

fn overrun(config: &str) -> Finding {
    let what = "the end of reservations";
    match setting_number(config, "ResvOverRun") {
        Some(0) => Finding::well(what, "jobs end with their reservation (ResvOverRun=0)"),
        _ => {
            let seen = format!(
                "jobs may run on after it (ResvOverRun={})",
                setting(config, "ResvOverRun").unwrap_or("unknown")
            );
            Finding::doubtful(what, seen, "set ResvOverRun=0, so that what follows begins in time")
        }
    }
}

fn users(config: &str) -> Finding {
    let what = "jobs of others";
    match setting_user(config, "SlurmdUser") {
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
    let hidden = setting(config, "PrivateData")?;
    let advice =
        "run the commands as root, SlurmUser or an operator, so that all jobs and reservations are seen";
    Some(Finding::doubtful("what is hidden", format!("PrivateData={hidden}"), advice))
}

fn accounting(tools: &Tools, config: &str, settings: &Settings) -> Finding {
    let what = "accounting";
    if !settings.accounting {
        let age = setting(config, "MinJobAge").unwrap_or("a while");
        return Finding::well(
            what,
            format!("not used; the controller remembers jobs that are over for {age}"),
        );
    }
    let asked = tools.ask(&reader(tools, "sacct").args(["-X", "-n", "-P", "-S", "now", "-o", "JobID"]));
    match asked {
        Ok(_) => Finding::well(what, "sacct answers"),
        Err(why) => Finding::wrong(what, why, "start slurmdbd, or set accounting = false"),
    }
}

/// Makes a reservation for one core or node, a year ahead, and deletes it. It is for an account that uses a project, if one is
/// known.
fn privilege(slurm: &Slurm) -> Finding {
    let (tools, settings) = (&slurm.tools, &slurm.settings);
    let what = "making and deleting reservations";
    let picture = match slurm.look() {
        Ok(picture) => picture,
        Err(why) => return Finding::wrong(what, why, OPERATOR),
    };
    let begin = picture.clock.unwrap_or(Time(0)) + A_YEAR;
    let Some(place) = settings.places.first().cloned() else {
        return Finding::doubtful(what, "there is no resource to try it with", "name one");
    };
    let name = format!("bookahead-examines-{}", begin.0);
    let trial = Trial { name: &name, place, begin, lasts: Seconds(60), advice: OPERATOR.into() };
    let member = settings.projects.iter().find_map(|(project, users)| Some((users.first()?, project)));
    let finding = trial.finding(tools, |wanted| {
        let mut wanted = wanted.clone();
        if let Some((account, project)) = member {
            wanted = Wanted { account: account.clone(), project: Some(project.clone()), ..wanted };
        }
        let made = slurm.create(&wanted, &picture)?;
        delete::delete(tools, &made.handle, Duration::from_secs(5))
    });
    if finding.grade == Grade::Wrong && is_about_projects(&finding.seen) {
        let advice =
            "see that the accounts of all owners are in their projects; those of others get no reservation";
        return Finding::doubtful(what, format!("that is allowed, but {}", finding.seen), advice);
    }
    finding
}

/// Each of them makes Slurm refuse jobs for projects that it does not know.
const ENFORCING: [&str; 6] = ["associations", "limits", "qos", "safe", "wckeys", "all"];

/// Nothing is asked where no project is named.
pub(super) fn projects(tools: &Tools, config: &str, settings: &Settings) -> Vec<Finding> {
    let what = "projects";
    if settings.projects.is_empty() {
        return Vec::new();
    }
    let storage = setting(config, "AccountingStorageType").unwrap_or("none");
    if !storage.ends_with("slurmdbd") {
        let seen = format!(
            "AccountingStorageType={storage}: any name is taken for a project, and nobody is charged"
        );
        let advice =
            "set AccountingStorageType=accounting_storage/slurmdbd, or leave out project and projects";
        return vec![Finding::doubtful(what, seen, advice)];
    }
    let cluster = setting(config, "ClusterName").unwrap_or_default();
    let filters = [format!("cluster={cluster}"), "format=account,user".into()];
    let command = tools.command("sacctmgr").args(["-n", "-P", "show", "assoc"]).args(filters);
    let known = match tools.ask(&command) {
        Ok(printed) => associations(&printed),
        Err(why) => {
            let advice = "start slurmdbd, and see that `sacctmgr show assoc` works for this account";
            return vec![Finding::wrong(what, why, advice)];
        }
    };
    let mut findings: Vec<Finding> =
        settings.projects.iter().map(|(project, accounts)| one(project, accounts, &known)).collect();
    findings.extend(enforcement(config));
    findings
}

/// `physics|ada`, with nobody for the project itself.
fn associations(printed: &str) -> BTreeSet<(String, String)> {
    let pairs = printed.lines().filter_map(|line| line.split_once('|'));
    pairs.map(|(project, user)| (project.to_ascii_lowercase(), user.to_owned())).collect()
}

fn one(project: &str, accounts: &BTreeSet<String>, known: &BTreeSet<(String, String)>) -> Finding {
    let what = format!("the project {project}");
    // Slurm keeps them in small letters.
    let slurms = project.to_ascii_lowercase();
    if !known.iter().any(|(project, _)| *project == slurms) {
        let advice = format!("correct project and projects, or say `sacctmgr add account {project}`");
        return Finding::wrong(what, "Slurm does not know it (it calls a project an account)", advice);
    }
    let is_in = |account: &&String| known.contains(&(slurms.clone(), (*account).clone()));
    let missing: Vec<&str> = accounts.iter().filter(|account| !is_in(account)).map(String::as_str).collect();
    if missing.is_empty() {
        let members = known.iter().filter(|(project, user)| *project == slurms && !user.is_empty());
        return Finding::well(what, format!("known, with {} users in it", members.count()));
    }
    let advice = format!("say `sacctmgr add user {} account={project}`", missing.join(","));
    Finding::wrong(what, format!("not in it: {}", missing.join(", ")), advice)
}

/// Without it Slurm takes a job for a project that it does not know, and charges it to another.
fn enforcement(config: &str) -> Option<Finding> {
    let enforced = setting(config, "AccountingStorageEnforce").unwrap_or("none");
    let enforces = |word: &str| ENFORCING.contains(&word.trim());
    if enforced.split(',').any(enforces) {
        return None;
    }
    let seen =
        format!("AccountingStorageEnforce={enforced}: jobs for an unknown project run for another one");
    Some(Finding::doubtful("projects", seen, "set AccountingStorageEnforce=associations"))
}
