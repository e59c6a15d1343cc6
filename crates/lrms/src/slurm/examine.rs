//! Checks for an operator whether a cluster can be used as configured. Slurm calls a project an account, and the
//! membership of a user an association; slurmdbd keeps both.

use super::commands::{is_about_projects, reader, scontrol, squeue};
use super::formats::{field, setting, setting_number, setting_user};
use super::{Settings, Slurm, clock, delete, json, nodes};
use crate::batch::{BatchSystem, Finding, Grade, Node, Place, ReservationSystem, Wanted};
use crate::dialect::{Tools, Trial, resource};
use bookahead_plan::{Seconds, Time};
use std::collections::BTreeSet;
use std::time::Duration;

/// The oldest version that was tested.
const OLDEST: (u32, u32) = (22, 5);

/// Largest harmless clock skew, in seconds. With more, jobs start late and reservations begin in the past.
const MOST_SKEW: i64 = 2;

/// Advice if reservations are not permitted.
const OPERATOR: &str = "run the commands as root, SlurmUser or an operator";

/// How far ahead to test a reservation: far enough to conflict with no other.
const A_YEAR: Seconds = Seconds(365 * 86_400);

pub(super) fn examine(slurm: &Slurm) -> Vec<Finding> {
    let (tools, settings) = (&slurm.tools, &slurm.settings);
    let mut findings = vec![version(slurm)];
    let config = match tools.ask(&scontrol(tools, ["show", "config"])) {
        Ok(config) => config,
        Err(why) => {
            let advice = "start slurmctld, and configure the path of its slurm.conf";
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
            let advice = "install slurm-client, or configure the folder of the commands";
            return Finding::wrong(what, why, advice);
        }
    };
    let seen = format!("version {year}.{month:02}");
    if (year, month) < OLDEST {
        return Finding::doubtful(what, seen, "use 22.05 or later; earlier versions are untested");
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

/// Compares the clock where commands run with that of the controller.
fn clocks(tools: &Tools, config: &str) -> Finding {
    let what = "the clock of the controller";
    let (Some(there), Ok(here)) = (clock(config), tools.clock()) else {
        return Finding::doubtful(what, "it could not be read", "check that all clocks agree");
    };
    match (there - here).0 {
        by if by.abs() <= MOST_SKEW => Finding::well(what, "same as the clock where commands run"),
        by => {
            let seen = format!("{by} s ahead of the clock where commands run");
            Finding::wrong(what, seen, "synchronise both clocks with NTP")
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

/// Reservations are made in cores; they do not reserve memory.
fn cores_and_memory(config: &str) -> Finding {
    let what = "resource selection";
    let plugin = setting(config, "SelectType").unwrap_or("unknown");
    let how = setting(config, "SelectTypeParameters").unwrap_or("unknown");
    let seen = format!("{plugin}, {how}");
    // `cons_res` and `cons_tres` allocate cores; `linear` allocates only whole nodes.
    if !plugin.contains("cons_") {
        let advice = "set SelectType=select/cons_tres; reservations in cores require it";
        return Finding::wrong(what, seen, advice);
    }
    if how.to_ascii_uppercase().contains("MEMORY") {
        let advice = "reservations reserve cores, not memory: set DefMemPerCPU, so that jobs on other cores of \
                      a node leave some";
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
            return vec![Finding::wrong(
                "partitions and nodes",
                why,
                "run scontrol by hand to find the cause",
            )];
        }
    };
    let nodes: Vec<Node> = nodes.iter().filter_map(|node| node.told(&settings.places)).collect();
    settings.places.iter().flat_map(|place| self::place(place, &shown, &nodes)).collect()
}

fn place(place: &Place, partitions: &str, nodes: &[Node]) -> Vec<Finding> {
    let what = format!("the resource {}", place.resource);
    let none = "no node belongs to it: correct its partition and features";
    let unusable = "run `sinfo -R` for the reasons";
    let capacity = resource(place, nodes, ["cores", "nodes"], none, unusable);
    let Some(partition) = &place.partition else { return vec![capacity] };
    let line = partitions.lines().find(|line| field(line, "PartitionName") == Some(partition));
    let Some(line) = line else {
        let names: Vec<&str> = partitions.lines().filter_map(|line| field(line, "PartitionName")).collect();
        let advice = format!("use one of: {}", names.join(", "));
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
            format!("jobs in {partition} without a limit never end, and block every reservation"),
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
                "jobs may continue after it (ResvOverRun={})",
                setting(config, "ResvOverRun").unwrap_or("unknown")
            );
            Finding::doubtful(what, seen, "set ResvOverRun=0, so that the next reservation begins in time")
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
        None => Finding::doubtful(what, "the account of slurmd is unknown", "check SlurmdUser in slurm.conf"),
    }
}

fn privacy(config: &str) -> Option<Finding> {
    let hidden = setting(config, "PrivateData")?;
    let advice = "run the commands as root, SlurmUser or an operator, to see all jobs and reservations";
    Some(Finding::doubtful("private data", format!("PrivateData={hidden}"), advice))
}

fn accounting(tools: &Tools, config: &str, settings: &Settings) -> Finding {
    let what = "accounting";
    if !settings.accounting {
        let age = setting(config, "MinJobAge").unwrap_or("a while");
        return Finding::well(what, format!("not used; the controller remembers finished jobs for {age}"));
    }
    // This lists hardly any jobs, but fails if slurmdbd does not answer.
    let asked = tools.ask(&reader(tools, "sacct").args(["-X", "-n", "-P", "-S", "now", "-o", "JobID"]));
    match asked {
        Ok(_) => Finding::well(what, "sacct answers"),
        Err(why) => Finding::wrong(what, why, "start slurmdbd, or set accounting = false"),
    }
}

/// Creates a reservation of one core or node, a year ahead, and deletes it. It is for an account with a project, if
/// one is configured.
fn privilege(slurm: &Slurm) -> Finding {
    let (tools, settings) = (&slurm.tools, &slurm.settings);
    let what = "making and deleting reservations";
    let picture = match slurm.look() {
        Ok(picture) => picture,
        Err(why) => return Finding::wrong(what, why, OPERATOR),
    };
    let begin = picture.clock.unwrap_or(Time(0)) + A_YEAR;
    let Some(place) = settings.places.first().cloned() else {
        return Finding::doubtful(what, "there is no resource to test it with", "configure one");
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
        // No jobs can be in it, so Slurm releases it at once.
        delete::delete(tools, &made.handle, Duration::from_secs(5))
    });
    // Reservations are permitted then; only this account is missing in its project.
    if finding.grade == Grade::Wrong && is_about_projects(&finding.seen) {
        let advice = "check that the accounts of all owners are in their projects; others get no reservation";
        return Finding::doubtful(what, format!("it is allowed, but {}", finding.seen), advice);
    }
    finding
}

/// Each of these makes Slurm refuse jobs for unknown projects.
const ENFORCING: [&str; 6] = ["associations", "limits", "qos", "safe", "wckeys", "all"];

/// Checks nothing if no project is configured.
pub(super) fn projects(tools: &Tools, config: &str, settings: &Settings) -> Vec<Finding> {
    let what = "projects";
    if settings.projects.is_empty() {
        return Vec::new();
    }
    let storage = setting(config, "AccountingStorageType").unwrap_or("none");
    if !storage.ends_with("slurmdbd") {
        let seen = format!(
            "AccountingStorageType={storage}: any name is accepted as a project, and no one is charged"
        );
        let advice = "set AccountingStorageType=accounting_storage/slurmdbd, or remove project and projects";
        return vec![Finding::doubtful(what, seen, advice)];
    }
    let cluster = setting(config, "ClusterName").unwrap_or_default();
    let filters = [format!("cluster={cluster}"), "format=account,user".into()];
    let command = tools.command("sacctmgr").args(["-n", "-P", "show", "assoc"]).args(filters);
    let known = match tools.ask(&command) {
        Ok(printed) => associations(&printed),
        Err(why) => {
            let advice = "start slurmdbd, and check that `sacctmgr show assoc` works for this account";
            return vec![Finding::wrong(what, why, advice)];
        }
    };
    let mut findings: Vec<Finding> =
        settings.projects.iter().map(|(project, accounts)| one(project, accounts, &known)).collect();
    findings.extend(enforcement(config));
    findings
}

/// Parses `physics|ada`; the user is empty for the project itself.
fn associations(printed: &str) -> BTreeSet<(String, String)> {
    let pairs = printed.lines().filter_map(|line| line.split_once('|'));
    pairs.map(|(project, user)| (project.to_ascii_lowercase(), user.to_owned())).collect()
}

fn one(project: &str, accounts: &BTreeSet<String>, known: &BTreeSet<(String, String)>) -> Finding {
    let what = format!("the project {project}");
    // Slurm stores project names in lower case.
    let slurms = project.to_ascii_lowercase();
    if !known.iter().any(|(project, _)| *project == slurms) {
        let advice = format!("correct project and projects, or run `sacctmgr add account {project}`");
        return Finding::wrong(what, "Slurm does not know it (it calls a project an account)", advice);
    }
    let is_in = |account: &&String| known.contains(&(slurms.clone(), (*account).clone()));
    let missing: Vec<&str> = accounts.iter().filter(|account| !is_in(account)).map(String::as_str).collect();
    if missing.is_empty() {
        let members = known.iter().filter(|(project, user)| *project == slurms && !user.is_empty());
        return Finding::well(what, format!("known, with {} users in it", members.count()));
    }
    let advice = format!("run `sacctmgr add user {} account={project}`", missing.join(","));
    Finding::wrong(what, format!("not in it: {}", missing.join(", ")), advice)
}

/// Without enforcement, Slurm accepts a job for an unknown project and charges it to another.
fn enforcement(config: &str) -> Option<Finding> {
    let enforced = setting(config, "AccountingStorageEnforce").unwrap_or("none");
    let enforces = |word: &str| ENFORCING.contains(&word.trim());
    if enforced.split(',').any(enforces) {
        return None;
    }
    let seen = format!(
        "AccountingStorageEnforce={enforced}: jobs for an unknown project are charged to another one"
    );
    Some(Finding::doubtful("projects", seen, "set AccountingStorageEnforce=associations"))
}
