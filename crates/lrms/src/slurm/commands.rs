//! Slurm's commands: with which words they say that there is no controller to speak to, and what their refusals mean and what to
//! do about it. Those that print times print them as seconds since the epoch.

use super::{Settings, formats};
use crate::command::{Command, Outcome, Runner};
use crate::dialect::{self, Tools, failed, unreadable};
use crate::error::LrmsError;

/// What commands say when they hear nothing. They wait about nine seconds for it.
const SILENCE: [&str; 8] = [
    "Unable to contact slurm controller",
    "Unable to connect to slurm daemon",
    "Socket timed out",
    "Connection refused",
    "Connection timed out",
    "Zero Bytes were transmitted or received",
    "backup controller in standby mode",
    "Slurm temporarily unable to accept job",
];

/// What it says, and what to do.
const KNOWN: [(&str, &str); 10] = [
    (
        "Requested nodes are busy",
        "running jobs or other reservations have cores there in that time; take another time, or less",
    ),
    (
        "overlaps with another reservation",
        "another reservation has nodes there in that time; take another time, or less",
    ),
    ("Invalid time specified", "that time is over at the controller; compare its clock with this one"),
    ("Invalid partition name", "correct the partition of the resource"),
    ("Invalid feature specification", "correct the features of the resource"),
    ("Invalid node name", "a node is gone; look again"),
    ("Duplicate reservation name", "another reservation has that name; delete that one"),
    ("reservation is invalid", "there is no such reservation any more; look again"),
    (
        "Access denied to requested reservation",
        "the reservation is not for that account, or not for the project of the job; submit as the account, and for the project, \
         that it was made for",
    ),
    ("Requested reservation is in use", "jobs in it do not end; see what keeps them on their nodes"),
];

/// How the commands are run. `scontrol ping` answers at once where others wait for nine seconds to hear nothing.
pub(super) fn tools(runner: Runner, settings: &Settings) -> Tools {
    let conf = settings.conf.iter().map(|conf| ("SLURM_CONF".to_owned(), conf.display().to_string()));
    Tools::new(runner, settings.bin.clone(), conf.collect(), &SILENCE).probed_by("scontrol", &["ping"])
}

/// A command that prints times, which are to be seconds since the epoch.
pub(super) fn reader(tools: &Tools, name: &str) -> Command {
    // Lists of the tasks of arrays are cut otherwise.
    tools.command(name).env("SLURM_TIME_FORMAT", "%s").env("SLURM_BITSTR_LEN", "0")
}

pub(super) fn scontrol<S: Into<String>>(tools: &Tools, words: impl IntoIterator<Item = S>) -> Command {
    reader(tools, "scontrol").args(words)
}

/// All jobs, also those that are over, in hidden partitions too. (22.05 shows all of them whatever is asked for.)
pub(super) fn squeue(tools: &Tools) -> Command {
    reader(tools, "squeue").args(["--json", "--all", "--states=all"])
}

pub(super) fn version(tools: &Tools) -> Result<(u32, u32), LrmsError> {
    let command = tools.command("scontrol").arg("--version");
    let said = tools.ask(&command)?;
    formats::version(&said).ok_or_else(|| unreadable(&command, format!("{:?} is no version", said.trim())))
}

/// What a refusal of Slurm means. What begins otherwise than its refusals do is a failure that is not understood.
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

/// Whether it may be about who asks, or for whom. Later versions say of an unknown account that the error is not specified.
pub(super) fn is_about_users(outcome: &Outcome) -> bool {
    ["Invalid user id", "Unspecified error"].iter().any(|words| outcome.said().contains(words))
}

/// Whether it may be about a project: Slurm calls it an account.
pub(super) fn is_about_projects(said: &str) -> bool {
    ["Invalid account or account/partition", "Invalid bank account"].iter().any(|words| said.contains(words))
}

/// That a project is invalid means that Slurm does not know it, or that the user is not in it. Where associations are enforced
/// it is said also of a user who is in none.
pub(super) fn invalid_project(
    what: String,
    user: &str,
    project: Option<&str>,
    outcome: &Outcome,
) -> LrmsError {
    let first = first_line(outcome).trim_start_matches("sbatch: error: ");
    let see = format!("see `sacctmgr show assoc user={user}`");
    let said = match project {
        Some(project) => format!(
            "{first}; Slurm knows no project (which it calls account) {project} with {user} in it: {see}, and let an administrator \
             say `sacctmgr add user {user} account={project}`, or correct the project in the site's configuration"
        ),
        None => format!(
            "{first}; Slurm wants a project (which it calls account), and {user} is in none: {see}, and let an administrator say \
             `sacctmgr add user {user} account=…`"
        ),
    };
    dialect::refused(what, said)
}

/// That a user is invalid means that the account is unknown, or that we are not allowed to: who we are tells which.
pub(super) fn invalid_user(tools: &Tools, what: String, account: &str, outcome: &Outcome) -> LrmsError {
    let first = first_line(outcome);
    let (Some(us), Ok(config)) = (tools.account(), tools.ask(&scontrol(tools, ["show", "config"]))) else {
        let said = format!("{first}; is {account} an account there, and may we make reservations?");
        return dialect::refused(what, said);
    };
    let slurm = formats::setting_user(&config, "SlurmUser").unwrap_or("slurm");
    let said = if us == "root" || us == slurm {
        format!("{first}; {account} is no account that the controller knows: make it, or name another")
    } else {
        format!(
            "{first}; {us} may not make reservations, or {account} is no account that the controller knows: run the commands as \
             root or {slurm}, let an administrator say `sacctmgr modify user {us} set adminlevel=operator`, or make the account"
        )
    };
    dialect::refused(what, said)
}

fn first_line(outcome: &Outcome) -> &str {
    outcome.said().lines().next().unwrap_or_default()
}
