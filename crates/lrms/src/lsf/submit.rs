//! Submits and cancels jobs. The script is passed on standard input, so no shell parses text of users (bsub, section
//! on the command). Options on the command line override `#BSUB` lines.

use super::jobs::CLAIMS;
use super::nodes::selection;
use super::times::minutes;
use super::{Lsf, jobs};
use crate::batch::{FactState, JobFact, JobSystem, Submission, Unit};
use crate::dialect::directives::{Directives, Style};
use crate::dialect::script::{from_home, job_script, output_file};
use crate::dialect::{Tools, denied, ended, failed, the_job, unreadable};
use crate::error::LrmsError;

/// The message that is the go-ahead of a claiming job.
const GO: &str = "bookahead_go";
/// Resources (`-R`), priority, hold and dependencies are not among them. `-M` is a limit.
const DIRECTIVES: Directives = Directives {
    prefix: "#BSUB",
    style: Style::Words,
    passed: &[&["B", "M=", "N", "e=", "u="]],
    own: &["J=", "U=", "W=", "n=", "o=", "q="],
};
/// Slot for our message. Lower numbers are used by others: the first is a job's external status (bstatus).
const MESSAGE: &str = "97";

impl JobSystem for Lsf {
    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        let tools = &self.tools;
        let input = job_script(job, self.output.as_deref(), Some(&DIRECTIVES), &has_go(tools))?;
        let command = tools.command("bsub").args(["-J", &job.name]).args(["-n", &job.amount.to_string()]);
        let mut command = command.args(["-W", &minutes(job.limit).to_string()]);
        if job.held {
            command = command.arg("-H");
        }
        if job.go_within.is_some() {
            command = command.args(["-Jd", CLAIMS]);
        }
        if let Some(queue) = &job.place.partition {
            command = command.args(["-q", queue]);
        }
        // A job can use only one reservation (bsub -U): the next to begin.
        if let Some(handle) = job.reservations.first() {
            command = command.args(["-U", &handle.0]);
        }
        if !job.place.features.is_empty() {
            command = command.args(["-R", &selection(&job.place.features)?]);
        }
        if job.place.unit == Unit::Nodes {
            // With one slot on each host, `-n` counts hosts; `-x` keeps other jobs off them.
            command = command.args(["-R", "span[ptile=1]", "-x"]);
        }
        // Without `-e`, errors go to the same file.
        command = command.args(["-o", &output_file(job, self.output.as_deref())]);
        let command = if self.output.is_none() { from_home(command) } else { command };
        let command = command.input(input).account(job.account.clone());
        let outcome = tools.run(&command)?;
        match submitted(&outcome.out) {
            Some(id) if outcome.is_success() => Ok(id),
            _ if outcome.is_success() => Err(unreadable(&command, "it does not print the id of the job")),
            _ => Err(denied(the_job(job), &command, &outcome)),
        }
    }

    /// Releases a job. If `bresume` fails, the state of the job tells whether it was on hold.
    fn release(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("bresume").arg(native);
        let outcome = tools.run(&command)?;
        if outcome.is_success() {
            return Ok(());
        }
        match jobs::one(tools, native, tools.clock()?)? {
            Some(job) if matches!(job.state, FactState::Held { .. }) => Err(failed(&command, &outcome)),
            Some(_) => Ok(()),
            None => Err(denied(format!("to release the job {native}"), &command, &outcome)),
        }
    }

    /// Lets a claiming job run: administrators of LSF may send messages to jobs of other users (bpost).
    fn go(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("bpost").args(["-i", MESSAGE, "-d", GO, native]);
        let denied = ["already finished", "is not found", "No matching job", "permission"];
        ended(&command, &tools.run(&command)?, format!("to let the job {native} run"), &[], &denied)
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        cancel(&self.tools, native)
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        jobs::outcome(&self.tools, native)
    }
}

/// Parses `Job <123> is submitted to queue <normal>.` among other lines.
fn submitted(text: &str) -> Option<String> {
    let id = text.lines().find_map(|line| {
        let (id, rest) = line.split_once("Job <")?.1.split_once('>')?;
        rest.contains("is submitted").then_some(id)
    })?;
    let is_id = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    is_id.then(|| id.to_owned())
}

/// The shell condition with which the job recognises its go-ahead (bread).
fn has_go(tools: &Tools) -> String {
    format!("{} -i {MESSAGE} \"$LSB_JOBID\" 2> /dev/null | grep -q {GO}", tools.called("bread"))
}

/// Determines which running claiming jobs have their go-ahead. It takes one command for each.
pub(super) fn read_goes(tools: &Tools, jobs: &mut [JobFact]) -> Result<(), LrmsError> {
    let claiming = jobs.iter_mut().filter(|job| job.awaits_go && job.state == FactState::Running);
    for job in claiming {
        let outcome = tools.run(&tools.command("bread").args(["-i", MESSAGE, &job.native]))?;
        job.awaits_go = !outcome.out.contains(GO);
    }
    Ok(())
}

/// Cancels a job. If `bkill` fails, the state of the job tells whether there was nothing to cancel.
pub(super) fn cancel(tools: &Tools, native: &str) -> Result<(), LrmsError> {
    let command = tools.command("bkill").arg(native);
    let outcome = tools.run(&command)?;
    if outcome.is_success() {
        return Ok(());
    }
    match jobs::one(tools, native, tools.clock()?)? {
        Some(job) if !job.state.is_over() => Err(failed(&command, &outcome)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_job_is_found_among_other_lines() {
        let text = "Note: project <x> is charged\nJob <1234> is submitted to queue <normal>.\n";
        assert_eq!(submitted(text), Some("1234".into()));
        for nothing in
            ["", "Job <12", "Job <> is submitted", "Job <1; rm> is submitted", "Job <7> is not found"]
        {
            assert_eq!(submitted(nothing), None, "{nothing}");
        }
    }
}
