//! Slurm's commands: which messages mean that the controller does not answer, and what its refusals mean. Queries
//! print times as seconds since the epoch.

use super::{Settings, formats};
use crate::command::{Command, Outcome, Runner};
use crate::dialect::{self, Tools, failed, unreadable};
use crate::error::LrmsError;

/// Messages of commands that get no answer. They take about nine seconds to give up. A controller that is being stopped
/// answers with something else than it was asked for.
const SILENCE: [&str; 13] = [
    "Unable to contact slurm controller",
    "Unable to connect to slurm daemon",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "Zero Bytes were transmitted or received",
    "backup controller in standby mode",
    "Slurm temporarily unable to accept job",
    "Unexpected message received",
    "Communication connection failure",
    "Communication shutdown failure",
    "Message send failure",
    "Message receive failure",
];

/// Slurm's message, and our explanation with advice.
const KNOWN: [(&str, &str); 11] = [
    (
        "Requested nodes are busy",
        "running jobs or other reservations use cores there at that time; choose another time, or request less",
    ),
    (
        "overlaps with another reservation",
        "another reservation has nodes there at that time; choose another time, or request less",
    ),
    (
        "Invalid time specified",
        "that time is in the past for the controller; compare its clock with the one here",
    ),
    ("Invalid partition name", "correct the partition of the resource"),
    (
        "Invalid license specification",
        "Slurm does not have that licence, or other reservations have too many of it at that time; choose another time",
    ),
    ("Invalid feature specification", "correct the features of the resource"),
    ("Invalid node name", "a node was removed from Slurm; try again"),
    ("Duplicate reservation name", "another reservation has that name; delete it first"),
    ("reservation is invalid", "the reservation no longer exists; try again"),
    (
        "Access denied to requested reservation",
        "the reservation is for another account or project; submit as the account and for the project \
         of the reservation",
    ),
    ("Requested reservation is in use", "its jobs do not end; check what keeps them on their nodes"),
];

/// The commands with their probe: `scontrol ping` fails at once where other commands wait nine seconds for an answer.
pub(super) fn tools(runner: Runner, settings: &Settings) -> Tools {
    let conf = settings.conf.iter().map(|conf| ("SLURM_CONF".to_owned(), conf.display().to_string()));
    Tools::new(runner, settings.bin.clone(), conf.collect(), &SILENCE).probed_by("scontrol", &["ping"])
}

/// A query that prints times as seconds since the epoch.
pub(super) fn reader(tools: &Tools, name: &str) -> Command {
    // Otherwise Slurm truncates the list of tasks of an array.
    tools.command(name).env("SLURM_TIME_FORMAT", "%s").env("SLURM_BITSTR_LEN", "0")
}

pub(super) fn scontrol<S: Into<String>>(tools: &Tools, words: impl IntoIterator<Item = S>) -> Command {
    reader(tools, "scontrol").args(words)
}

/// All jobs, including finished ones and those in hidden partitions. (22.05 always shows all of them.)
pub(super) fn squeue(tools: &Tools) -> Command {
    reader(tools, "squeue").args(["--json", "--all", "--states=all"])
}

pub(super) fn version(tools: &Tools) -> Result<(u32, u32), LrmsError> {
    let command = tools.command("scontrol").arg("--version");
    let said = tools.ask(&command)?;
    formats::version(&said).ok_or_else(|| unreadable(&command, format!("{:?} is not a version", said.trim())))
}

/// Interprets a refusal of Slurm. A message that does not look like one is a failure of unknown cause.
pub(super) fn refused(what: impl Into<String>, command: &Command, outcome: &Outcome) -> LrmsError {
    let said = outcome.said();
    let refusals =
        ["Error creating the reservation", "Error updating the reservation", "No reservation created"];
    match KNOWN.iter().find(|(words, _)| said.contains(words)) {
        Some((_, advice)) => dialect::refused(what, format!("{}; {advice}", first_line(outcome))),
        None if refusals.iter().any(|words| said.contains(words)) => dialect::refused(what, said),
        None => failed(command, outcome),
    }
}

/// Whether a refusal may concern our own account or that of the reservation. Later versions report an unknown account
/// as "Unspecified error".
pub(super) fn is_about_users(outcome: &Outcome) -> bool {
    ["Invalid user id", "Unspecified error"].iter().any(|words| outcome.said().contains(words))
}

/// Whether a refusal may concern a project, which Slurm calls an account.
pub(super) fn is_about_projects(said: &str) -> bool {
    ["Invalid account or account/partition", "Invalid bank account"].iter().any(|words| said.contains(words))
}

/// The error for an invalid project: Slurm does not know it, or the user is not in it. With enforced associations,
/// Slurm also reports it for a user without any project.
pub(super) fn invalid_project(
    what: String,
    user: &str,
    project: Option<&str>,
    outcome: &Outcome,
) -> LrmsError {
    let first = first_line(outcome).trim_start_matches("sbatch: error: ");
    let see = format!("check `sacctmgr show assoc user={user}`");
    let said = match project {
        Some(project) => format!(
            "{first}; in Slurm, {user} is not in the project (which it calls account) {project}: {see}; an \
             administrator can add it with \
             `sacctmgr add user {user} account={project}`, or correct the project in the site's configuration"
        ),
        None => format!(
            "{first}; Slurm requires a project (which it calls account), and {user} is in none: {see}; an \
             administrator can add it with \
             `sacctmgr add user {user} account=…`"
        ),
    };
    dialect::refused(what, said)
}

/// The error for an invalid user: the account is unknown, or we lack the permission. Our own account tells which.
pub(super) fn invalid_user(tools: &Tools, what: String, account: &str, outcome: &Outcome) -> LrmsError {
    let first = first_line(outcome);
    let (Some(us), Ok(config)) = (tools.account(), tools.ask(&scontrol(tools, ["show", "config"]))) else {
        let said = format!(
            "{first}; check that {account} is an account there, and that this account may create reservations"
        );
        return dialect::refused(what, said);
    };
    let slurm = formats::setting_user(&config, "SlurmUser").unwrap_or("slurm");
    let said = if us == "root" || us == slurm {
        format!("{first}; the controller does not know the account {account}: create it, or use another")
    } else {
        format!(
            "{first}; {us} may not create reservations, or the controller does not know the account {account}: \
             run the commands as \
             root or {slurm}, have an administrator run `sacctmgr modify user {us} set adminlevel=operator`, or \
             create the account"
        )
    };
    dialect::refused(what, said)
}

fn first_line(outcome: &Outcome) -> &str {
    outcome.said().lines().next().unwrap_or_default()
}
