//! Every job's times in a file: CSV with a line for each job, or the trace again as SWF with the simulated waits.

use super::Run;
use crate::trace;
use anyhow::Result;
use bookahead_sim::{Fate, Ran};
use bookahead_workload::Job;
use bookahead_workload::files::{self, Packing};
use bookahead_workload::swf::{self, Record};
use bookahead_workload::trace::Trace;
use std::io::{self, Write};
use std::path::Path;

const COLUMNS: &str = "job,submit,start,end,processors,wait,request";

/// Whether the name asks for SWF.
pub(crate) fn is_swf(path: &Path) -> bool {
    let name = path.to_string_lossy();
    name.strip_suffix(".gz").unwrap_or(&name).ends_with(".swf")
}

pub(crate) fn write(path: &Path, trace: &Trace, run: &Run) -> Result<()> {
    if is_swf(path) {
        let mut header = trace::header(trace);
        header.push_comment(&format!("Note: waits and run times are simulated, scheduler {}", run.policy));
        let records: Vec<Record> = trace
            .records
            .iter()
            .zip(ran(trace, run))
            .filter_map(|(record, (job, ran))| Some(simulated(record, job, ran?)))
            .collect();
        swf::write_file(path, &header, &records)?;
        return Ok(());
    }
    files::write(path, Packing::of_name(path), |out| write_csv(out, trace, run))?;
    Ok(())
}

fn ran<'a>(trace: &'a Trace, run: &'a Run) -> impl Iterator<Item = (&'a Job, Option<Ran>)> {
    trace.jobs.iter().zip(&run.outcome.jobs).map(|(job, fate)| match fate {
        Fate::Ran(ran) => (job, Some(*ran)),
        Fate::TooWide => (job, None),
    })
}

fn simulated(record: &Record, job: &Job, ran: Ran) -> Record {
    Record { submit: job.submit.0, wait: (ran.start - job.submit).0, run: (ran.end - ran.start).0, ..*record }
}

fn write_csv(out: &mut dyn Write, trace: &Trace, run: &Run) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")?;
    for (job, ran) in ran(trace, run) {
        let Some(ran) = ran else { continue };
        let processors = u64::from(job.processors.0) * u64::from(trace.unit);
        let wait = ran.start - job.submit;
        writeln!(
            out,
            "{},{},{},{},{processors},{wait},{}",
            job.number, job.submit, ran.start, ran.end, job.request
        )?;
    }
    Ok(())
}
