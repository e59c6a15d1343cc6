//! Seeing whether Slurm knows the projects that a site names, and who is in them, for an operator to read. Slurm calls a project
//! an account, and that a user is in it an association; both are kept by slurmdbd.

use super::speech::Speech;
use super::{Settings, config};
use crate::batch::Finding;
use std::collections::BTreeSet;

/// Each of them makes Slurm refuse jobs for projects that it does not know.
const ENFORCING: [&str; 6] = ["associations", "limits", "qos", "safe", "wckeys", "all"];

/// An account that uses a project, if one is known.
pub(super) fn first(settings: &Settings) -> Option<(String, String)> {
    let mut members = settings.projects.iter();
    members.find_map(|(project, accounts)| Some((accounts.first()?.clone(), project.clone())))
}

/// Nothing is asked where no project is named.
pub(super) fn projects(speech: &Speech, config: &str, settings: &Settings) -> Vec<Finding> {
    let what = "projects";
    if settings.projects.is_empty() {
        return Vec::new();
    }
    let storage = config::value(config, "AccountingStorageType").unwrap_or("none");
    if !storage.ends_with("slurmdbd") {
        let seen = format!(
            "AccountingStorageType={storage}: any name is taken for a project, and nobody is charged"
        );
        let advice =
            "set AccountingStorageType=accounting_storage/slurmdbd, or leave out project and projects";
        return vec![Finding::doubtful(what, seen, advice)];
    }
    let cluster = config::value(config, "ClusterName").unwrap_or_default();
    let filters = [format!("cluster={cluster}"), "format=account,user".into()];
    let command = speech.command("sacctmgr").args(["-n", "-P", "show", "assoc"]).args(filters);
    let known = match speech.tell(&command) {
        Ok(printed) => associations(&printed),
        Err(why) => {
            let advice = "start slurmdbd, and see that `sacctmgr show assoc` works for this account";
            return vec![Finding::wrong(what, why.to_string(), advice)];
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
    let enforced = config::value(config, "AccountingStorageEnforce").unwrap_or("none");
    let enforces = |word: &str| ENFORCING.contains(&word.trim());
    if enforced.split(',').any(enforces) {
        return None;
    }
    let seen =
        format!("AccountingStorageEnforce={enforced}: jobs for an unknown project run for another one");
    Some(Finding::doubtful("projects", seen, "set AccountingStorageEnforce=associations"))
}
