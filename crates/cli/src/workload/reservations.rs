//! `bookahead workload reservations`: some jobs of a trace become reservation requests, the others stay.

use super::convert;
use crate::numbers::{count, plural};
use crate::talk::say;
use crate::times::length;
use crate::trace::{TraceArguments, file_not_stdout};
use anyhow::Result;
use bookahead_plan::Seconds;
use bookahead_workload::requests::{self, Selection, select};
use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// One job of each block of N becomes a request
    #[arg(long, value_name = "N", default_value_t = Selection::default().block)]
    block: usize,

    /// How long before its earliest start a request is made (2h, 90m)
    #[arg(long, value_name = "LENGTH", default_value = "1h", value_parser = length)]
    book_ahead: Seconds,

    /// By how much the start may be later
    #[arg(long, value_name = "LENGTH", default_value = "0", value_parser = length)]
    window: Seconds,

    /// Chooses the job of each block
    #[arg(long, value_name = "SEED", default_value_t = Selection::default().seed)]
    seed: u64,

    /// Where to write the requests: CSV, gzip where it ends in .gz; - is standard output
    #[arg(long, short, value_name = "FILE", default_value = "-")]
    output: PathBuf,

    /// Where to write the jobs that stay, as SWF
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout())]
    jobs_out: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let mut trace = arguments.trace.load(arguments.jobs_out.is_some())?;
    let selection = Selection {
        block: arguments.block,
        book_ahead: arguments.book_ahead,
        window: arguments.window,
        seed: arguments.seed,
    };
    let all = trace.jobs.clone();
    let requests = select(&mut trace.jobs, &selection)?;
    requests::write_file(&arguments.output, &requests)?;
    say!("{} of {} became requests", count(requests.len() as u64), plural(all.len() as u64, "job"));
    if let Some(path) = &arguments.jobs_out {
        // The jobs that stay are in their old order, and so are the records.
        let (mut all, mut stay) = (all.iter(), trace.jobs.iter().peekable());
        trace.records.retain(|_| all.next().is_some_and(|job| stay.next_if(|next| *next == job).is_some()));
        convert::write(path, &trace)?;
        say!("wrote {}", path.display());
    }
    Ok(())
}
