//! `bookahead workload convert`: a trace in, a cleaned, chosen, scaled trace out.

use crate::talk::say;
use crate::trace::{TraceArguments, header};
use anyhow::Result;
use bookahead_workload::Job;
use bookahead_workload::swf::{self, Record};
use bookahead_workload::trace::Trace;
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// Where to write the trace: SWF, gzip where it ends in .gz; - is standard output
    #[arg(value_name = "OUTPUT")]
    output: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.trace.load(true)?;
    write(&arguments.output, &trace)?;
    if arguments.output.as_os_str() != "-" {
        say!("wrote {}", arguments.output.display());
    }
    Ok(())
}

/// Writes the jobs of the trace, with all that their records say and what was mended, chosen and scaled.
pub(crate) fn write(path: &std::path::Path, trace: &Trace) -> Result<()> {
    let records: Vec<Record> =
        trace.jobs.iter().zip(&trace.records).map(|(job, record)| as_cleaned(trace, job, record)).collect();
    Ok(swf::write_file(path, &header(trace), &records)?)
}

fn as_cleaned(trace: &Trace, job: &Job, record: &Record) -> Record {
    Record {
        submit: job.submit.0,
        run: job.run.0,
        requested_time: job.request.0,
        requested_processors: i64::from(job.processors.0) * i64::from(trace.unit),
        ..*record
    }
}
