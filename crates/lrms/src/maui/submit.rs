//! Submitting and ending jobs with Torque. The script goes in by standard input; what is said on the command line wins over `#PBS`
//! lines in it. For Maui it carries extensions (`-W x=…`, guide, 13.3): the reservation that the job is bound to, and that a node is
//! for one task only where whole nodes are wanted.

use super::commands::{Commands, failed, refused, start, unreadable};
use super::jobs::{self, NAME_VARIABLE};
use crate::batch::{Submission, Unit};
use crate::error::LrmsError;
use crate::text::script::script;
use std::path::Path;

/// Names of jobs have at most so many characters (qsub -N).
const LONGEST_NAME: usize = 15;

/// Submits a job.
pub(super) fn submit(
    commands: &Commands,
    job: &Submission,
    output: Option<&Path>,
) -> Result<String, LrmsError> {
    let input = script(&job.work, "#PBS")?;
    let name: String = job.name.chars().take(LONGEST_NAME).collect();
    let command = commands.torque("qsub").args(["-N", &name, "-S", "/bin/sh"]);
    let mut command = command.args(["-l", &resources(job)?]);
    command = command.args(["-v", &format!("{NAME_VARIABLE}={}", job.name)]);
    if let Some(queue) = &job.place.partition {
        command = command.args(["-q", queue]);
    }
    let extensions = extensions(job);
    if !extensions.is_empty() {
        command = command.args(["-W", &format!("x={}", extensions.join(";"))]);
    }
    if let Some(folder) = output {
        let file = |end: &str| folder.join(format!("{}.{end}", job.name)).to_string_lossy().into_owned();
        command = command.args(["-o", &file("out"), "-e", &file("err")]);
    }
    let command = command.input(input).account(job.account.clone());
    let outcome = commands.run(&command)?;
    if !outcome.is_success() {
        return Err(refused(format!("the job {}", job.name), start(outcome.said())));
    }
    submitted(&outcome.out).ok_or_else(|| unreadable(&command, "it does not say the number of the job"))
}

/// A processor is a node of its own for Torque; Maui puts several of them on one machine.
fn resources(job: &Submission) -> Result<String, LrmsError> {
    let odd = |byte: u8| !byte.is_ascii_alphanumeric() && !b"_-.".contains(&byte);
    if let Some(feature) = job.place.features.iter().find(|feature| feature.bytes().any(odd)) {
        return Err(refused(format!("the job {}", job.name), format!("{feature:?} is no property of nodes")));
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

/// `123.server`, the last line that is printed.
fn submitted(text: &str) -> Option<String> {
    let id = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    let is_id = id.starts_with(|first: char| first.is_ascii_digit()) && !id.contains(char::is_whitespace);
    is_id.then(|| id.to_owned())
}

/// Ends a job. Whether `qdel` had nothing to end is seen from the job.
pub(super) fn cancel(commands: &Commands, native: &str) -> Result<(), LrmsError> {
    let command = commands.torque("qdel").arg(native);
    let outcome = commands.run(&command)?;
    if outcome.is_success() || outcome.said().contains("Unknown Job") {
        return Ok(());
    }
    match jobs::one(commands, native)? {
        Some(job) if !job.state.is_over() => Err(failed(&command, &outcome)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_job_is_the_last_line() {
        assert_eq!(submitted("welcome\n\n123.srv.example\n"), Some("123.srv.example".into()));
        assert_eq!((submitted(""), submitted("qsub: x"), submitted("1 2")), (None, None, None));
    }
}
