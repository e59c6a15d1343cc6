//! Submits and cancels jobs. A job is a script on standard input in which Grid Engine looks for no options (`-C ''`):
//! a script with `-sync y` or `-t 1-1000` would change the request.

use super::{GridEngine, NO_WHOLE_HOSTS, Settings, outcome, reservations};
use crate::batch::{JobFact, JobSystem, Submission, Unit};
use crate::command::{Command, Outcome};
use crate::dialect::script::{job_script, output_file};
use crate::dialect::{Tools, ended, failed, refused, said, submitted, the_job};
use crate::error::LrmsError;
use bookahead_plan::Seconds;

/// Context variable of a claiming job: whether it waits for its go-ahead or has it.
pub(super) const CONTEXT: &str = "bookahead";
pub(super) const CLAIMS: &str = "claims";
const GO: &str = "go";

impl JobSystem for GridEngine {
    /// Submits a job. A limit longer than its reservation is reduced to it: Grid Engine would refuse the job, which
    /// ends with the reservation anyway.
    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        let (tools, settings) = (&self.tools, &self.settings);
        if job.place.unit == Unit::Nodes {
            return Err(refused(the_job(job), NO_WHOLE_HOSTS));
        }
        let script = job_script(job, settings.output.as_deref(), None, &has_go(tools))?;
        let attempt = |limit| {
            let command = command(tools, settings, job, limit).input(script.clone());
            tools.run(&command).map(|outcome| (command, outcome))
        };
        // With the full limit first: most fit, and reading the reservation costs another command.
        let (mut command, mut outcome) = attempt(job.limit)?;
        if let Some(handle) = job.reservations.first().filter(|_| is_too_long(&outcome))
            && let Some(reserved) = reservations::one(tools, handle)?
        {
            (command, outcome) = attempt(reserved.interval.length())?;
        }
        if outcome.is_success() {
            submitted(&command, &outcome)
        } else {
            Err(denied(job, &command, &outcome))
        }
    }

    fn release(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("qrls").arg(native);
        let denied = ["does not exist", "denied", "privileges"];
        ended(&command, &tools.run(&command)?, format!("to release the job {native}"), &[], &denied)
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("qalter").args(["-ac", &format!("{CONTEXT}={GO}"), native]);
        let denied = ["does not exist", "denied", "privileges"];
        ended(&command, &tools.run(&command)?, format!("to let the job {native} run"), &[], &denied)
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("qdel").arg(native);
        let outcome = tools.run(&command)?;
        let over = ["does not exist", "already in deletion", "not found"];
        ended(&command, &outcome, format!("cancelling the job {native}"), &over, &["privileges", "denied"])
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        outcome::outcome(&self.tools, &self.settings, &self.memory, native)
    }
}

fn command(tools: &Tools, settings: &Settings, job: &Submission, limit: Seconds) -> Command {
    // Defaults are set explicitly, as the cluster's `sge_request` may change them. `-r n`: a job runs
    // at most once, also after its host has failed.
    let mut command = tools.command("qsub").account(job.account.clone());
    command =
        command.args(["-terse", "-C", "", "-S", "/bin/sh", "-b", "n", "-r", "n", "-sync", "n", "-now", "n"]);
    command = command.args(["-N", &job.name, "-l", &format!("h_rt={}", limit.0.max(1))]);
    command = command.args(["-pe", &settings.parallel_environment, &job.amount.to_string()]);
    if job.held {
        command = command.arg("-h");
    }
    if job.go_within.is_some() {
        command = command.args(["-ac", &format!("{CONTEXT}={CLAIMS}")]);
    }
    // Without a folder it is relative to the home folder, where Grid Engine starts jobs.
    command = command.args(["-j", "y", "-o", &output_file(job, settings.output.as_deref())]);
    match job.reservations.first() {
        // The reservation already has its queue instances; a queue or feature could only exclude some.
        Some(handle) => command.args(["-ar", &handle.0]),
        None => {
            if let Some(queue) = &job.place.partition {
                command = command.args(["-q", queue]);
            }
            for feature in &job.place.features {
                command = command.args(["-l", feature]);
            }
            command
        }
    }
}

fn is_too_long(outcome: &Outcome) -> bool {
    outcome.said().contains("longer than duration of the advance reservation")
}

fn denied(job: &Submission, command: &Command, outcome: &Outcome) -> LrmsError {
    let said = said(outcome);
    let known = ["Unable to run job", "denied", "rejected", "does not exist"];
    // Killed by a signal, `qsub` may have submitted the job; after a refusal it would count as not started.
    if outcome.code.is_none() || !known.iter().any(|words| said.contains(words)) {
        return failed(command, outcome);
    }
    if !job.reservations.is_empty() && said.contains("no suitable queues") {
        let advice = "it is larger than its reservation, or its account may not use it";
        return refused(the_job(job), format!("{said} ({advice})"));
    }
    refused(the_job(job), said)
}

/// The shell condition with which the job recognises its go-ahead. Its host must be a submit host.
fn has_go(tools: &Tools) -> String {
    format!("{} -j \"$JOB_ID\" 2> /dev/null | grep -q '^context:.*{CONTEXT}={GO}'", tools.called("qstat"))
}
