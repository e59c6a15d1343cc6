//! Submits and cancels jobs with Torque. The script is passed on standard input; options on the command line override
//! `#PBS` lines. It carries extensions for Maui (`-W x=…`, guide, 13.3): the reservation of the job and, for whole
//! nodes, the exclusive use of nodes.

use super::Commands;
use super::Maui;
use super::jobs::{self, NAME_VARIABLE};
use crate::batch::{FactState, JobFact, JobSystem, Submission, Unit};
use crate::dialect::directives::{Directives, Style};
use crate::dialect::script::{from_home, job_script, output_file};
use crate::dialect::{denied, failed, is_plain, refused, submitted, the_job};
use crate::error::LrmsError;

/// Longest name of a job, in characters (qsub -N).
const LONGEST_NAME: usize = 15;

/// Resources (`-l`), priority, hold and dependencies are not among them.
const DIRECTIVES: Directives = Directives {
    prefix: "#PBS",
    style: Style::Letters,
    passed: &[&["e=", "m=", "M="]],
    own: &["N=", "S=", "j=", "o=", "q="],
};

/// Why claiming jobs are not possible with Torque.
const NO_CLAIMS: &str = "Torque offers no way to give a running job its go-ahead, so a copy of a job \
     would run without asking; submit it to this site alone";

impl JobSystem for Maui {
    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        let commands = &self.commands;
        if job.go_within.is_some() {
            return Err(refused(the_job(job), NO_CLAIMS));
        }
        let input = job_script(job, self.output.as_deref(), Some(&DIRECTIVES), "")?;
        // Torque rejects longer names; the full one is in the variable.
        let name: String = job.name.chars().take(LONGEST_NAME).collect();
        let command = commands.torque.command("qsub").args(["-N", &name, "-S", "/bin/sh"]);
        let mut command = command.args(["-l", &resources(job)?]);
        command = command.args(["-v", &format!("{NAME_VARIABLE}={}", job.name)]);
        if job.held {
            command = command.arg("-h");
        }
        if let Some(queue) = &job.place.partition {
            command = command.args(["-q", queue]);
        }
        let extensions = extensions(job);
        if !extensions.is_empty() {
            command = command.args(["-W", &format!("x={}", extensions.join(";"))]);
        }
        command = command.args(["-j", "oe", "-o", &output_file(job, self.output.as_deref())]);
        let command = if self.output.is_none() { from_home(command) } else { command };
        let command = command.input(input).account(job.account.clone());
        let outcome = commands.torque.run(&command)?;
        if !outcome.is_success() {
            return Err(denied(the_job(job), &command, &outcome));
        }
        submitted(&command, &outcome)
    }

    /// Releases a job. If `qrls` fails, the state of the job tells whether it was on hold.
    fn release(&self, native: &str) -> Result<(), LrmsError> {
        let commands = &self.commands;
        let command = commands.torque.command("qrls").args(["-h", "u", native]);
        let outcome = commands.torque.run(&command)?;
        if outcome.is_success() {
            return Ok(());
        }
        match jobs::one(commands, native)? {
            Some(job) if matches!(job.state, FactState::Held { .. }) => Err(failed(&command, &outcome)),
            Some(_) => Ok(()),
            None => Err(denied(format!("to release the job {native}"), &command, &outcome)),
        }
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        Err(refused(format!("to let the job {native} run"), NO_CLAIMS))
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        cancel(&self.commands, native)
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        jobs::one(&self.commands, native)
    }
}

/// Torque counts each processor as a node; Maui puts several of them on one machine.
fn resources(job: &Submission) -> Result<String, LrmsError> {
    // A `,` or `+` in a feature would be read as a further request.
    if let Some(odd) = job.place.features.iter().find(|feature| !is_plain(feature)) {
        return Err(refused(
            the_job(job),
            format!("{odd:?} is not a valid property of nodes; correct the features"),
        ));
    }
    let features: String = job.place.features.iter().map(|feature| format!(":{feature}")).collect();
    Ok(format!("nodes={}{features},walltime={}", job.amount, job.limit.0.max(1)))
}

/// Maui binds a job to one reservation: the next to begin.
fn extensions(job: &Submission) -> Vec<String> {
    let whole = (job.place.unit == Unit::Nodes).then(|| "NACCESSPOLICY:SINGLETASK".to_owned());
    let bound = job.reservations.first().map(|handle| format!("FLAGS:ADVRES:{handle}"));
    whole.into_iter().chain(bound).collect()
}

/// Cancels a job. If `qdel` fails, the state of the job tells whether there was nothing to cancel.
pub(super) fn cancel(commands: &Commands, native: &str) -> Result<(), LrmsError> {
    let command = commands.torque.command("qdel").arg(native);
    let outcome = commands.torque.run(&command)?;
    if outcome.is_success() || outcome.said().contains("Unknown Job") {
        return Ok(());
    }
    match jobs::one(commands, native)? {
        Some(job) if !job.state.is_over() => Err(failed(&command, &outcome)),
        _ => Ok(()),
    }
}
