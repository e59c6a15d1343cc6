//! `bookahead whatif`: simulates a trace up to a moment and rates the slots for a reservation request
//! (`processors=64,duration=2h,window=8h`) by their effect on the waiting jobs. Nothing is booked.

use crate::output::{named_for, save_and_tell};
use crate::placement::PlacementArguments;
use crate::times::{Instant, length};
use crate::trace::{TraceArguments, clock, file_not_stdout, unit_name};
use anyhow::{Context, Result};
use bookahead_figure::{Bar, BarKind, Gantt};
use bookahead_plan::placement::{Prober, Refusal, Request};
use bookahead_plan::{Capacity, Cluster, Interval, Planner, Policy, Seconds, Span, Time};
use bookahead_sim::{Frozen, Job, Site, freeze};
use bookahead_workload::trace::Trace;
use clap::Args;
use std::path::{Path, PathBuf};
use std::str::FromStr;

mod answer;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    trace: TraceArguments,

    /// Time of the request (seconds of the trace, or RFC 3339)
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    at: Instant,

    /// Reservation request: `processors=64,duration=2h[,ahead=4h][,window=8h]`; ahead is the time to the earliest
    /// start, window is how much later it may start
    #[arg(long, value_name = "REQUEST")]
    request: RequestText,

    /// Scheduler: fcfs, easy, conservative, easy[promises=K], or one with an order of the queue, such as easy[order=sjf]
    #[arg(long, short, value_name = "SCHEDULER", default_value = "easy")]
    scheduler: Policy,

    #[command(flatten)]
    placement: PlacementArguments,

    /// Print the answer as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Write Gantt charts of the plan without and with the best slot, with delayed jobs marked: plan.svg becomes
    /// plan.before.svg and plan.after.svg
    #[arg(long, value_name = "FILE", value_parser = file_not_stdout(), help_heading = "Output")]
    gantt: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let trace = arguments.trace.load(false)?;
    let now =
        arguments.at.in_trace(trace.header.unix_start_time()).with_context(|| arguments.trace.name())?;
    let rules = arguments.placement.rules(arguments.scheduler)?;
    let overrun = arguments.trace.overrun;
    let jobs: Vec<Job> = trace.jobs.iter().map(Job::from).collect();
    let frozen = freeze(Site { policy: rules.policy, capacity: trace.machine, overrun }, &jobs, now);
    let cluster = frozen.cluster();
    let request = arguments.request.at(now, trace.unit);

    let mut prober = Prober::default();
    let mut slots = prober.probe(&rules, &cluster, &request);
    // Some methods rate slots without impacts, but the table always shows them.
    prober.add_impacts(rules.policy, &cluster, &request, &mut slots);
    // A copy: the answer lists the slots by time, also those that the ranking removes.
    let mut ranked = slots.clone();
    arguments.placement.preference().rank(&mut ranked);
    let best = ranked.first().map(|slot| slot.start);
    let refusal = best.is_none().then(|| Refusal::of(&mut prober, &rules, &cluster, &request));

    if let Some(path) = &arguments.gantt {
        draw(path, &trace, &frozen, &request, rules.policy, best)?;
    }
    let answer = answer::Answer { trace: &trace, frozen: &frozen, request, slots, best, refusal };
    if arguments.json { answer.print_json() } else { answer.print_table() }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestText {
    processors: u32,
    duration: Seconds,
    ahead: Seconds,
    window: Seconds,
}

#[derive(Debug, thiserror::Error)]
#[error("{0}; write a request as processors=64,duration=2h, optionally with ahead=4h and window=8h")]
pub(crate) struct BadRequest(String);

impl FromStr for RequestText {
    type Err = BadRequest;

    fn from_str(text: &str) -> Result<RequestText, BadRequest> {
        let (mut processors, mut duration) = (None, None);
        let (mut ahead, mut window) = (Seconds::ZERO, Seconds::ZERO);
        for part in text.split(',') {
            let Some((key, value)) = part.split_once('=') else {
                return Err(BadRequest(format!("'{part}' has no value")));
            };
            let time = || length(value.trim()).map_err(|error| BadRequest(error.to_string()));
            match key.trim() {
                "processors" => {
                    let number = value.trim().parse().ok().filter(|&number| number > 0);
                    processors = Some(
                        number
                            .ok_or_else(|| BadRequest(format!("invalid number of processors '{value}'")))?,
                    );
                }
                "duration" => duration = Some(time()?),
                "ahead" => ahead = time()?,
                "window" => window = time()?,
                other => return Err(BadRequest(format!("'{other}' is unknown"))),
            }
        }
        let missing = |what: &str| BadRequest(format!("'{what}' is missing"));
        let duration = duration.ok_or_else(|| missing("duration"))?;
        if duration <= Seconds::ZERO {
            return Err(BadRequest("the duration must be at least 1s".to_owned()));
        }
        Ok(RequestText {
            processors: processors.ok_or_else(|| missing("processors"))?,
            duration,
            ahead,
            window,
        })
    }
}

impl RequestText {
    /// The request made at `now`, in whole nodes of `unit` processors.
    pub(crate) fn at(&self, now: Time, unit: u32) -> Request {
        let earliest_start = now + self.ahead;
        Request {
            earliest_start,
            latest_end: earliest_start + self.duration + self.window,
            duration: self.duration,
            // Rounded up: part of a node cannot be reserved.
            capacity: Capacity(self.processors.div_ceil(unit)),
        }
    }
}

/// Writes Gantt charts of the plan without and with the best slot, over the same interval so that they can be compared.
fn draw(
    path: &Path,
    trace: &Trace,
    frozen: &Frozen,
    request: &Request,
    policy: Policy,
    best: Option<Time>,
) -> Result<()> {
    let cluster = frozen.cluster();
    let before = Planner::new().plan(policy, &cluster).to_vec();
    let taken: Vec<Span> =
        best.map(|start| Span::starting(start, request.duration, request.capacity)).into_iter().collect();
    let with = Cluster { reservations: &taken, ..cluster };
    let after = Planner::new().plan(policy, &with).to_vec();
    let drawing = Drawing { trace, frozen, end: last_end(frozen, &[&before, &after], &taken) };
    save_and_tell(&named_for(path, "before"), &drawing.gantt("The plan as it is", &before, &before, &[]))?;
    match best {
        Some(_) => save_and_tell(
            &named_for(path, "after"),
            &drawing.gantt("With the slot taken", &after, &before, &taken),
        ),
        None => Ok(()),
    }
}

struct Drawing<'a> {
    trace: &'a Trace,
    frozen: &'a Frozen,
    end: Time,
}

impl Drawing<'_> {
    fn gantt(&self, title: &str, starts: &[Time], before: &[Time], reserved: &[Span]) -> String {
        let number = |at: usize| self.trace.jobs[at].number.to_string();
        let bar = |begin: Time, end: Time, capacity: Capacity, label: String, kind: BarKind| Bar {
            interval: Interval::new(begin, end),
            capacity,
            label,
            kind,
        };
        let running = self.frozen.running.iter().map(|(at, start, running)| {
            bar(*start, running.expected_end, running.capacity, number(*at), BarKind::Job)
        });
        let planned =
            self.frozen.waiting.iter().zip(self.frozen.cluster().waiting).zip(starts.iter().zip(before));
        let planned =
            planned.filter(|(_, (start, _))| **start < Time::MAX).map(|((at, job), (start, before))| {
                let kind = if start > before { BarKind::Delayed } else { BarKind::Job };
                bar(*start, *start + job.estimate, job.capacity, number(*at), kind)
            });
        let reserved = reserved.iter().map(|span| {
            bar(
                span.interval.begin,
                span.interval.end,
                span.capacity,
                "request".to_owned(),
                BarKind::Reservation,
            )
        });
        let bars: Vec<Bar> = running.chain(planned).chain(reserved).collect();
        let (clock, unit) = (clock(self.trace), unit_name(self.trace).to_owned());
        let range = Some(Interval::new(self.frozen.now, self.end));
        let gantt = Gantt::new(title, self.trace.machine, bars);
        Gantt { clock, range, unit, now: Some(self.frozen.now), ..gantt }.to_svg()
    }
}

/// The latest end in either plan. Jobs that can never start are planned at `Time::MAX` and left out.
fn last_end(frozen: &Frozen, plans: &[&[Time]], taken: &[Span]) -> Time {
    let cluster = frozen.cluster();
    let running = cluster.running.iter().map(|job| job.expected_end);
    let planned = plans.iter().flat_map(|starts| starts.iter().zip(cluster.waiting));
    let planned = planned.map(|(&start, job)| start + job.estimate).filter(|&end| end < Time::MAX);
    running.chain(planned).chain(taken.iter().map(|span| span.interval.end)).max().unwrap_or(frozen.now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_they_are_written() {
        let request: RequestText = "processors=60, duration=2h,window=30m".parse().expect("a request");
        let expected = Request {
            earliest_start: Time(100),
            latest_end: Time(100 + 7_200 + 1_800),
            duration: Seconds(7_200),
            capacity: Capacity(8),
        };
        assert_eq!(request.at(Time(100), 8), expected);
        for text in [
            "",
            "processors=4",
            "duration=2h",
            "processors=0,duration=2h",
            "processors=4,duration=0",
            "cpus=4",
        ] {
            assert!(text.parse::<RequestText>().is_err(), "{text}");
        }
    }
}
