//! Submits a job as a script on the standard input of `sbatch`, in which no text of the user has a meaning for the
//! shell. `#SBATCH` lines of a user's script are honoured, except for partition, reservation, project, name, time and
//! size.
//!
//! A job gets `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL` and `LANG` of the submitting account, the job's own
//! variables, Slurm's, and those of its reservation; nothing else of our environment.
//!
//! A claiming job polls its own comment with `squeue` and runs once it contains the go-ahead. Operators may change
//! comments of jobs.

use super::commands::{self, invalid_project, is_about_projects, scontrol};
use super::delete::{self, JOB_OVER, named};
use super::jobs::{CLAIMS, GO, INSIDE, LEFT};
use super::{Slurm, outcome};
use crate::batch::accounts::is_project;
use crate::batch::{Files, Handle, JobFact, JobSystem, Submission, Unit};
use crate::command::{Command, Outcome};
use crate::dialect::directives::{Directives, Style};
use crate::dialect::script::{by_shell, from_home, job_script, lines, output_file};
use crate::dialect::{Tools, ended, refused, submitted, the_job};
use crate::environment::Within;
use crate::error::LrmsError;
use bookahead_party::Work;
use std::path::Path;

/// Variables of our environment that a job gets.
const EXPORTED: &str = "PATH,HOME,USER,LOGNAME,SHELL,LANG";

/// Options that cannot take more than the job was given.
const PASSED: &[&str] = &[
    "C/constraint=",
    "D/chdir=",
    "L/licenses=",
    "Q/quiet",
    "acctg-freq=",
    "comment=",
    "contiguous",
    "c/cpus-per-task=",
    "m/distribution=",
    "e/error=",
    "x/exclude=",
    "hint=",
    "i/input=",
    "mail-type=",
    "mail-user=",
    "w/nodelist=",
    "ntasks-per-core=",
    "ntasks-per-node=",
    "open-mode=",
    "signal=",
    "threads-per-core=",
    "v/verbose",
    "wckey=",
];
const OWN: &[&str] = &[
    "A/account=",
    "J/job-name=",
    "N/nodes=",
    "export=",
    "n/ntasks=",
    "no-requeue",
    "o/output=",
    "p/partition=",
    "parsable",
    "requeue",
    "reservation=",
    "t/time=",
    "time-min=",
];
/// Options that divide what a job has on whole nodes anyway: their memory and GPUs.
const OF_WHOLE_NODES: &[&str] = &[
    "G/gpus=",
    "cpus-per-gpu=",
    "gpu-bind=",
    "gpus-per-node=",
    "gpus-per-socket=",
    "gpus-per-task=",
    "gres=",
    "gres-flags=",
    "mem=",
    "mem-bind=",
    "mem-per-cpu=",
    "mem-per-gpu=",
    "ntasks-per-gpu=",
    "ntasks-per-socket=",
    "tmp=",
];
const CORES: Directives = Directives { prefix: "#SBATCH", style: Style::Long, passed: &[PASSED], own: OWN };
const NODES: Directives = Directives { passed: &[PASSED, OF_WHOLE_NODES], ..CORES };

impl JobSystem for Slurm {
    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        let tools = &self.tools;
        // The shell condition with which the job recognises its go-ahead.
        let squeue = tools.called("squeue");
        let has_go = format!("[ \"$({squeue} -h -j \"$SLURM_JOB_ID\" -o %k)\" = '{GO}' ]");
        check(job)?;
        let directives = match job.place.unit {
            Unit::Cores => &CORES,
            Unit::Nodes => &NODES,
        };
        let script = job_script(job, self.settings.output.as_deref(), Some(directives), &has_go)?;
        let command = command(tools, job, self.settings.output.as_deref(), script);
        let outcome = tools.run(&command)?;
        if !outcome.is_success() {
            return Err(denied(tools, job, &command, &outcome));
        }
        // `17`, or `17;cluster`.
        let id = submitted(&command, &outcome)?;
        Ok(id.split(';').next().unwrap_or_default().to_owned())
    }

    fn bind(&self, native: &str, reservations: &[Handle]) -> Result<(), LrmsError> {
        let what = format!("to put the job {native} into a reservation");
        let native = number(native, &what)?;
        let names = reservations.iter().map(|handle| handle.0.as_str()).collect::<Vec<_>>().join(",");
        let words = [
            "update".to_owned(),
            format!("JobId={native}"),
            format!("ReservationName={names}"),
            format!("Comment={INSIDE}{names}"),
        ];
        let command = scontrol(&self.tools, words);
        ended(&command, &self.tools.run(&command)?, what, &[], &[&JOB_OVER[..], &["eservation"]].concat())
    }

    fn release(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let what = format!("to release the job {native}");
        let native = number(native, &what)?;
        let command = scontrol(tools, ["release", native]);
        // After a lost answer it may run already.
        let already = ["no longer pending"];
        ended(&command, &tools.run(&command)?, what, &already, &JOB_OVER)
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let what = format!("to let the job {native} run");
        let native = number(native, &what)?;
        let command = scontrol(tools, ["update", &format!("JobId={native}"), &format!("Comment={GO}")]);
        ended(&command, &tools.run(&command)?, what, &[], &JOB_OVER)
    }

    fn requeue(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let what = format!("to put the job {native} back into the queue");
        let native = number(native, &what)?;
        let command = scontrol(tools, ["requeue", native]);
        // After a lost answer it may be in the queue already.
        let already = ["Job is pending execution"];
        let never = [&JOB_OVER[..1], &["disabled", "Access/permission"]].concat();
        ended(&command, &tools.run(&command)?, what.clone(), &already, &never)?;
        // Slurm lets a job wait for two minutes before it runs again, and it keeps its reservation. While the job is still
        // completing, Slurm sets the two minutes after this; then it does wait. Some seconds are needed: a node refuses a
        // run that was granted in the second in which it ended the last one ("already killed"), and the job fails.
        let words = ["update", &format!("JobId={native}"), "StartTime=now+5", "ReservationName="];
        let command = scontrol(tools, words.into_iter().chain([&*format!("Comment={LEFT}")]));
        ended(&command, &tools.run(&command)?, what, &[], &JOB_OVER[..1])
    }

    fn warn(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let what = format!("to send a signal to the job {native}");
        let native = number(native, &what)?;
        let command = tools.command("scancel").args(["--batch", "--signal=USR1", native]);
        ended(&command, &tools.run(&command)?, what, &[], &JOB_OVER)
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        delete::cancel(&self.tools, native)
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        outcome::outcome(&self.tools, native, &self.settings)
    }

    fn output(&self, native: &str) -> Result<Option<Files>, LrmsError> {
        outcome::files(&self.tools, native)
    }
}

/// The id of a job. `what` is refused for other text, which must not reach a command line.
fn number<'a>(native: &'a str, what: &str) -> Result<&'a str, LrmsError> {
    named(native).ok_or_else(|| refused(what.to_owned(), "this is not the id of a Slurm job"))
}

fn denied(tools: &Tools, job: &Submission, command: &Command, outcome: &Outcome) -> LrmsError {
    if is_about_projects(outcome.said()) {
        let us = || tools.account().unwrap_or_else(|| "the account of the service".into());
        let user = job.account.clone().unwrap_or_else(us);
        return invalid_project(the_job(job), &user, job.project.as_deref(), outcome);
    }
    match commands::refused(the_job(job), command, outcome) {
        LrmsError::Failed { .. } if outcome.said().contains("sbatch: error:") => {
            let lines = outcome.said().lines().map(|line| line.trim_start_matches("sbatch: error: "));
            refused(the_job(job), lines.collect::<Vec<_>>().join(" "))
        }
        other => other,
    }
}

fn check(job: &Submission) -> Result<(), LrmsError> {
    let malformed = |why: String| Err(LrmsError::Malformed(why));
    let text = if let Work::Script { text, .. } = &job.work { text } else { "" };
    if text.contains("\r\n") {
        return malformed("its lines end with CR LF; use Unix line breaks".into());
    }
    if let Some(line) = lines(text, "#SBATCH").find(|line| is_several_jobs(line)) {
        return malformed(format!("{line:?} requests several jobs; submit each one separately"));
    }
    if let Some(line) = lines(text, "#SBATCH").find(|line| holds_or_leaves(line)) {
        let why =
            "makes sbatch wait for the job or submit it to another cluster; remove --wait and --clusters";
        return malformed(format!("{line:?} {why}"));
    }
    let reservations = job.reservations.iter().map(|handle| &handle.0);
    let mut words = [&job.name].into_iter().chain(&job.place.partition).chain(reservations);
    if let Some(word) = words.find(|word| word.is_empty() || word.contains([',', ' ', '\0', '\n'])) {
        return malformed(format!("{word:?} is not a valid name"));
    }
    if let Some(project) = job.project.as_ref().filter(|project| !is_project(project)) {
        return malformed(format!(
            "{project:?} is not a valid project; use letters, digits, `.`, `_` and `-`"
        ));
    }
    Ok(())
}

/// Whether a line of a script makes it a heterogeneous job, or an array in the usual spelling. Arrays in other
/// spellings become one job.
fn is_several_jobs(line: &str) -> bool {
    let Some(options) = line.strip_prefix("#SBATCH") else { return false };
    let mut words = options.split_whitespace();
    words.any(|word| {
        let short = word.starts_with("-a") && !word.starts_with("--");
        let lower = word.to_ascii_lowercase();
        let heterogeneous = lower.starts_with("hetjob") || lower.starts_with("packjob");
        short || heterogeneous || word == "--array" || word.starts_with("--array=")
    })
}

/// Whether a line of a script makes `sbatch` wait until the job is over, or send it to another cluster. Neither can be
/// overridden on the command line. An abbreviation that is not recognised costs one timeout: the job is then found by
/// its name.
fn holds_or_leaves(line: &str) -> bool {
    let Some(options) = line.strip_prefix("#SBATCH") else { return false };
    let mut words = options.split_whitespace().take_while(|word| !word.starts_with('#'));
    words.any(|word| {
        let long = ["--wait", "--clusters", "--cluster"].contains(&word.split('=').next().unwrap_or(word));
        long || word == "-W" || word.starts_with("-M")
    })
}

/// Whether a script has its own comment, which is kept.
fn has_comment(script: &str) -> bool {
    script.lines().any(|line| line.starts_with("#SBATCH") && line.contains("--comment"))
}

fn command(tools: &Tools, job: &Submission, folder: Option<&Path>, script: String) -> Command {
    // Slurm expands `%` in file names.
    let output = output_file(job, folder).replace('%', "%%");
    // Slurm's limits are in minutes; round up.
    let minutes = job.limit.0.max(1).saturating_add(59) / 60;
    let mut options = vec![
        "--parsable".to_owned(),
        format!("--job-name={}", job.name),
        format!("--time={minutes}"),
        format!("--output={output}"),
        exported(job),
        if job.restartable { "--requeue" } else { "--no-requeue" }.to_owned(),
        // Overrides a script's own array, in any spelling: an array would be many jobs under one id.
        "--array=".to_owned(),
    ];
    if job.held {
        options.push("--hold".to_owned());
    }
    if job.restartable {
        // Otherwise each run would overwrite the output of the last.
        options.push("--open-mode=append".to_owned());
    }
    options.extend(folder.map(|folder| format!("--chdir={}", folder.display())));
    options.extend(job.project.iter().map(|project| format!("--account={project}")));
    options.extend(job.qos.iter().map(|qos| format!("--qos={qos}")));
    options.extend(job.place.partition.iter().map(|partition| format!("--partition={partition}")));
    if !job.place.features.is_empty() {
        options.push(format!("--constraint={}", job.place.features.join("&")));
    }
    options.extend(size(job));
    // Empty if there is none: it overrides a reservation in the script.
    let reservations: Vec<&str> = job.reservations.iter().map(|handle| handle.0.as_str()).collect();
    options.push(format!("--reservation={}", reservations.join(",")));
    let inside = match reservations.is_empty() {
        true => "bookahead: ".to_owned(),
        false => format!("{INSIDE}{} ", reservations.join(",")),
    };
    if job.go_within.is_some() {
        options.push(format!("--comment={inside}{CLAIMS}"));
    } else if !reservations.is_empty() && !has_comment(&script) {
        options.push(format!("--comment={}", inside.trim_end()));
    }
    let command = tools.command("sbatch").args(options).arg("/dev/stdin").input(script);
    let command = if folder.is_none() { from_home(command) } else { command };
    match &job.account {
        None => command,
        // `sbatch` opens `/dev/stdin` by name, which fails for our pipe under another account; a pipe from `cat`
        // belongs to that account.
        Some(account) => by_shell(command, "cat | \"$@\"").account(Some(account.clone())),
    }
}

/// Job steps started by `srun` get only the variables that are named here, so those of the reservation are as well.
fn exported(job: &Submission) -> String {
    let within = job.within.iter().flat_map(Within::variables);
    let within: String = within.map(|(name, value)| format!(",{name}={value}")).collect();
    format!("--export={EXPORTED}{within}")
}

/// One task for each core, on any number of nodes; or whole nodes, exclusively.
fn size(job: &Submission) -> Vec<String> {
    let amount = job.amount.max(1);
    match job.place.unit {
        Unit::Cores => vec![
            format!("--ntasks={amount}"),
            format!("--nodes=1-{amount}"),
            "--cpus-per-task=1".into(),
            "--ntasks-per-core=1".into(),
        ],
        Unit::Nodes => vec![format!("--nodes={amount}"), format!("--ntasks={amount}"), "--exclusive".into()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_make_sbatch_wait_or_go_elsewhere_are_found() {
        for line in ["--wait", "-W", "--clusters=west", "-Mwest", "-n 4 --wait # and more"] {
            assert!(holds_or_leaves(&format!("#SBATCH {line}")), "{line}");
        }
        for line in ["--wait-all-nodes=1", "--wckey=x", "-n 4 # --wait", "--mem=4G"] {
            assert!(!holds_or_leaves(&format!("#SBATCH {line}")), "{line}");
        }
        assert!(!holds_or_leaves("sbatch --wait"), "not a directive");
    }
}
