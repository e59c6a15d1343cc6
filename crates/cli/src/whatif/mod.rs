//! `bookahead whatif`: a trace stopped at a moment, a request for a reservation, and what each slot would do to the jobs that
//! wait. Nothing is booked.

mod answer;
mod pictures;
mod request;

use crate::placement::PlacementArguments;
use crate::times::Instant;
use crate::trace::{TraceArguments, file_not_stdout};
use anyhow::{Context, Result};
use bookahead_plan::Policy;
use bookahead_plan::placement::{Prober, Refusal};
use bookahead_sim::{Job, Site, freeze};
use clap::Args;
use request::RequestText;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// The moment at which the request is made (seconds of the trace, or RFC 3339)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Instant,

    /// What is asked for: `processors=64,duration=2h[,ahead=4h][,window=8h]`; ahead is from the moment to the earliest start,
    /// window is by how much the start may be later
    #[arg(long, value_name = "REQUEST")]
    request: RequestText,

    /// How jobs are queued: fcfs, easy, conservative, or easy[promises=K]
    #[arg(long, short, value_name = "SCHEDULER", default_value = "easy")]
    scheduler: Policy,

    #[command(flatten)]
    placement: PlacementArguments,

    /// Print the answer as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Draw the plan as it is and with the best slot taken, delayed jobs marked: plan.svg becomes plan.before.svg and
    /// plan.after.svg
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    gantt: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.trace.load(false)?;
    let now =
        arguments.at.in_trace(trace.header.unix_start_time()).with_context(|| arguments.trace.name())?;
    let rules = arguments.placement.rules(arguments.scheduler)?;
    let overrun = arguments.trace.overrun.into();
    let jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
    let frozen = freeze(Site { policy: rules.policy, capacity: trace.machine, overrun }, &jobs, now);
    let cluster = frozen.cluster();
    let request = arguments.request.at(now, trace.unit);

    let mut prober = Prober::default();
    let mut slots = prober.probe(&rules, &cluster, &request);
    prober.add_impacts(rules.policy, &cluster, &request, &mut slots);
    let mut ranked = slots.clone();
    arguments.placement.preference().rank(&mut ranked);
    let best = ranked.first().map(|slot| slot.start);
    let refusal = best.is_none().then(|| Refusal::of(&mut prober, &rules, &cluster, &request));

    if let Some(path) = &arguments.gantt {
        pictures::write(path, &trace, &frozen, &request, rules.policy, best)?;
    }
    let answer = answer::Answer { trace: &trace, frozen: &frozen, request, slots, best, refusal };
    if arguments.json { answer.print_json() } else { answer.print_table() }
}
