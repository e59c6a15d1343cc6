//! Submits and cancels jobs. A job is a script on standard input in which PBS looks for no directives (`-C ''`),
//! since they could change the request.

use super::create::{arrangement, chunks};
use super::jobs::{CLAIMS, GO};
use super::nodes::Vnodes;
use super::{Pbs, jobs, reservations};
use crate::batch::{JobFact, JobSystem, Submission, Unit};
use crate::command::{Command, Outcome};
use crate::dialect::script::{from_home, job_script, output_file};
use crate::dialect::{self, Tools, ended, refused, submitted, the_job};
use crate::error::LrmsError;

impl JobSystem for Pbs {
    /// Submits a job, into the queue of its reservation if it has one.
    fn submit(&self, job: &Submission) -> Result<String, LrmsError> {
        let (tools, settings) = (&self.tools, &self.settings);
        let script = job_script(job, settings.output.as_deref(), None, &has_go(tools))?;
        let (queue, cores, place) = whereto(self, job)?;
        let limit = job.limit.0.max(1);
        let walltime = format!("walltime={:02}:{:02}:{:02}", limit / 3600, limit / 60 % 60, limit % 60);
        // `-r n`: PBS would otherwise run the job again after a failed node, and a job runs at most once.
        let mut command = tools.command("qsub").account(job.account.clone());
        command = command.args(["-C", "", "-S", "/bin/sh", "-r", "n", "-m", "n", "-N", &job.name]);
        command = command.args(["-l", &format!("select={}", chunks(job.amount, cores, &job.place.features))]);
        command = command.args(["-l", &format!("place={place}"), "-l", &walltime]);
        if job.held {
            command = command.arg("-h");
        }
        if job.go_within.is_some() {
            command = command.args(["-v", &format!("{CLAIMS}=yes")]);
        }
        command = command.args(["-j", "oe", "-o", &output_file(job, settings.output.as_deref())]);
        if let Some(queue) = queue {
            command = command.arg("-q").arg(queue);
        }
        let command = if settings.output.is_none() { from_home(command) } else { command };
        let command = command.input(script);
        let outcome = tools.run(&command)?;
        if outcome.is_success() {
            submitted(&command, &outcome)
        } else {
            Err(denied(job, &command, &outcome))
        }
    }

    fn release(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("qrls").args(["-h", "u", native]);
        // After a lost answer it may run already.
        let already = ["invalid for state"];
        let denied = ["Unauthorized", "Unknown Job Id", "Job has finished"];
        ended(&command, &tools.run(&command)?, format!("to release the job {native}"), &already, &denied)
    }

    fn go(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("qalter").args(["-W", &format!("comment={GO}"), native]);
        let denied = ["Unauthorized", "Unknown Job Id", "Job has finished", "invalid for state"];
        let what = format!("to let the job {native} run, which only operators of PBS may");
        ended(&command, &tools.run(&command)?, what, &[], &denied)
    }

    fn cancel(&self, native: &str) -> Result<(), LrmsError> {
        let tools = &self.tools;
        let command = tools.command("qdel").arg(native);
        let outcome = tools.run(&command)?;
        let over = ["Unknown Job Id", "Job has finished", "Request invalid for state of job"];
        ended(&command, &outcome, format!("cancelling the job {native}"), &over, &["Unauthorized"])
    }

    fn outcome(&self, native: &str) -> Result<Option<JobFact>, LrmsError> {
        jobs::outcome(&self.tools, native)
    }
}

/// The queue to submit to, the cores of a chunk, and the placement of chunks.
fn whereto(pbs: &Pbs, job: &Submission) -> Result<(Option<String>, u32, String), LrmsError> {
    let (tools, whole) = (&pbs.tools, job.place.unit == Unit::Nodes);
    let Some(handle) = job.reservations.first() else {
        let queue = job.place.partition.clone();
        if !whole {
            return Ok((queue, 1, arrangement(Unit::Cores, false).into()));
        }
        let (vnodes, _) = Vnodes::ask(tools, &pbs.settings.places)?;
        let mine = vnodes.nodes().filter(|node| node.resources.contains(&job.place.resource));
        // The cores of the smallest vnode that it could get.
        let cores = mine.map(|node| node.cores).min().unwrap_or(1);
        let place = arrangement(Unit::Nodes, vnodes.share_hosts(&job.place.resource));
        return Ok((queue, cores, place.into()));
    };
    // Only its queue and chunks are needed, so the vnodes need not be queried.
    let Some(known) = reservations::one(tools, handle, &Vnodes::default())? else {
        return Err(refused(the_job(job), format!("its reservation {handle} no longer exists")));
    };
    // The cores of each chunk of the reservation.
    let cores = reservations::asked(&known.select).map_or(1, |(_, cores)| cores);
    let place = if whole { known.place } else { arrangement(Unit::Cores, false).into() };
    // Chunks of one core fit into the reservation however its cores are spread over vnodes.
    Ok((Some(known.queue), if whole { cores } else { 1 }, place))
}

fn denied(job: &Submission, command: &Command, outcome: &Outcome) -> LrmsError {
    match dialect::denied(the_job(job), command, outcome) {
        LrmsError::Refused { what, said }
            if said.contains("violates queue") && !job.reservations.is_empty() =>
        {
            refused(what, format!("{said} (it is larger than its reservation)"))
        }
        other => other,
    }
}

/// The shell condition with which the job recognises its go-ahead.
fn has_go(tools: &Tools) -> String {
    format!("{} -f \"$PBS_JOBID\" 2> /dev/null | grep -q 'comment = {GO}'", tools.called("qstat"))
}
