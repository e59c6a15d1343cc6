//! What Slurm says when it does not want to, and what to do about it.

use super::config;
use super::speech::Speech;
use crate::command::{Command, Outcome};
use crate::error::LrmsError;

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

/// What a refusal of Slurm means. What begins otherwise than its refusals do is a failure that is not understood.
pub(super) fn refused(what: impl Into<String>, command: &Command, outcome: &Outcome) -> LrmsError {
    let said = outcome.said();
    let first = said.lines().next().unwrap_or_default();
    match KNOWN.iter().find(|(words, _)| said.contains(words)) {
        Some((_, advice)) => LrmsError::Refused { what: what.into(), said: format!("{first}; {advice}") },
        None if is_refusal(said) => LrmsError::Refused { what: what.into(), said: said.to_owned() },
        None => super::speech::failed(command, outcome),
    }
}

fn is_refusal(said: &str) -> bool {
    ["Error creating the reservation", "Error updating the reservation", "No reservation created"]
        .iter()
        .any(|words| said.contains(words))
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
    let first = outcome.said().lines().next().unwrap_or_default();
    let first = first.trim_start_matches("sbatch: error: ");
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
    LrmsError::Refused { what, said }
}

/// That a user is invalid means that the account is unknown, or that we are not allowed to: who we are tells which.
pub(super) fn invalid_user(speech: &Speech, what: String, account: &str, outcome: &Outcome) -> LrmsError {
    let first = outcome.said().lines().next().unwrap_or_default();
    let asked = who_we_are(speech);
    let config = speech.tell(&speech.scontrol(["show", "config"]));
    let (Ok(us), Ok(config)) = (asked, config) else {
        let said = format!("{first}; is {account} an account there, and may we make reservations?");
        return LrmsError::Refused { what, said };
    };
    let slurm = config::user(&config, "SlurmUser").unwrap_or("slurm");
    let said = if us == "root" || us == slurm {
        format!("{first}; {account} is no account that the controller knows: make it, or name another")
    } else {
        format!(
            "{first}; {us} may not make reservations, or {account} is no account that the controller knows: run the commands as \
             root or {slurm}, let an administrator say `sacctmgr modify user {us} set adminlevel=operator`, or make the account"
        )
    };
    LrmsError::Refused { what, said }
}

/// The account that commands run as.
pub(super) fn who_we_are(speech: &Speech) -> Result<String, LrmsError> {
    speech.tell(&Command::new("id").arg("-un")).map(|said| said.trim().to_owned())
}
