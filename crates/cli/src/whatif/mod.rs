//! `bookahead whatif`: a trace stopped at a moment, a request for a reservation, and what each slot would do to the jobs that
//! wait. Nothing is booked.

mod answer;
mod pictures;
mod request;

use crate::times::{Instant, length};
use crate::trace::{OverrunRule, TraceArguments, file_not_stdout};
use anyhow::{Context, Result};
use bookahead_plan::placement::{Admission, Method, Preference, Prober, Refusal, Rules, SlotRules, Weights};
use bookahead_plan::{Policy, Seconds};
use bookahead_sim::{Job, Overrun, Site, freeze};
use clap::{Args, ValueEnum};
use request::RequestText;
use std::path::PathBuf;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// The moment at which the request is made (seconds of the trace, or RFC 3339)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Instant,

    /// What is asked for: processors=64,duration=2h[,ahead=4h][,window=8h]; ahead is from the moment to the earliest start,
    /// window is by how much the start may be later
    #[arg(long, value_name = "REQUEST")]
    request: RequestText,

    /// How jobs are queued: fcfs, easy, conservative, or easy[promises=K]
    #[arg(long, short, value_name = "SCHEDULER", default_value = "easy")]
    scheduler: Policy,

    /// How slots are rated
    #[arg(long, short, value_enum, default_value_t = MethodName::WhatIf)]
    method: MethodName,

    /// Which slot is the best
    #[arg(long, value_enum, default_value_t = PreferenceName::Availability)]
    prefer: PreferenceName,

    /// How much the makespan counts beside the mean completion time, 0 to 1 (what-if)
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    makespan_weight: f64,

    /// Slots spread over the window at most; as many again where something ends or begins
    #[arg(long, value_name = "N", default_value_t = SlotRules::default().most)]
    slots: usize,

    /// Time between two of them at least
    #[arg(long, value_name = "LENGTH", default_value = "15m", value_parser = length)]
    gap: Seconds,

    /// Refuse slots that delay more waiting jobs than this; 0 prefers local jobs
    #[arg(long, value_name = "N")]
    max_delayed: Option<u32>,

    /// Refuse slots that delay a waiting job by more than this
    #[arg(long, value_name = "LENGTH", value_parser = length)]
    max_delay: Option<Seconds>,

    /// Print the answer as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Draw the plan as it is and with the best slot taken, delayed jobs marked: plan.svg becomes plan.before.svg and
    /// plan.after.svg
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    gantt: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MethodName {
    /// By plans of the queue with the slot taken
    WhatIf,
    /// By the approximate end of the present workload
    Load,
    /// By vacancies that running jobs and the first in the queue leave
    Earliest,
    /// By vacancies that all planned jobs leave: nobody is delayed
    LocalJobsPreferred,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PreferenceName {
    /// The best rated
    Availability,
    /// The earliest
    Earliest,
    /// The one that delays waiting jobs the least in all
    Impact,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.trace.load(false)?;
    let now =
        arguments.at.in_trace(trace.header.unix_start_time()).with_context(|| arguments.trace.name())?;
    let rules = rules(arguments)?;
    let overrun = match arguments.trace.overrun {
        OverrunRule::Extend => Overrun::Extend,
        OverrunRule::Kill | OverrunRule::Drop => Overrun::Kill,
    };
    let jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
    let frozen = freeze(Site { policy: rules.policy, capacity: trace.machine, overrun }, &jobs, now);
    let cluster = frozen.cluster();
    let request = arguments.request.at(now, trace.unit);

    let mut prober = Prober::default();
    let mut slots = prober.probe(&rules, &cluster, &request);
    for slot in slots.iter_mut().filter(|slot| slot.availability > 0.0 && slot.impact.is_none()) {
        slot.impact = Some(prober.impact(rules.policy, &cluster, &request, slot.start));
    }
    let mut ranked = slots.clone();
    preference(arguments.prefer).rank(&mut ranked);
    let best = ranked.first().map(|slot| slot.start);
    let refusal = best.is_none().then(|| Refusal::of(&mut prober, &rules, &cluster, &request));

    if let Some(path) = &arguments.gantt {
        pictures::write(path, &trace, &frozen, &request, rules.policy, best)?;
    }
    let answer = answer::Answer { trace: &trace, frozen: &frozen, request, slots, best, refusal };
    if arguments.json { answer.print_json() } else { answer.print_table() }
}

fn rules(arguments: &Arguments) -> Result<Rules> {
    let weights = Weights::new(arguments.makespan_weight)
        .with_context(|| format!("--makespan-weight {} is not between 0 and 1", arguments.makespan_weight))?;
    let method = match arguments.method {
        MethodName::WhatIf => Method::WhatIf(weights),
        MethodName::Load => Method::Load,
        MethodName::Earliest => Method::EarliestStart { local_jobs_preferred: false },
        MethodName::LocalJobsPreferred => Method::EarliestStart { local_jobs_preferred: true },
    };
    let admission = Admission {
        delayed_jobs: arguments.max_delayed,
        total_delay: None,
        longest_delay: arguments.max_delay,
    };
    let slots = SlotRules { most: arguments.slots, gap: arguments.gap, natural: true };
    Ok(Rules { policy: arguments.scheduler, method, slots, admission })
}

fn preference(name: PreferenceName) -> Preference {
    match name {
        PreferenceName::Availability => Preference::BestAvailability,
        PreferenceName::Earliest => Preference::Earliest,
        PreferenceName::Impact => Preference::LeastImpact,
    }
}
