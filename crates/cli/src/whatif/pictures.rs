//! The plan as it is, and with the best slot taken: two Gantt charts of the same stretch of time, delayed jobs marked.

use crate::output::{named_for, save_and_tell};
use crate::trace::{clock, unit_name};
use anyhow::Result;
use bookahead_figure::{Bar, BarKind, Gantt};
use bookahead_plan::placement::Request;
use bookahead_plan::{Capacity, Cluster, Interval, Planner, Policy, Span, Time};
use bookahead_sim::Frozen;
use bookahead_workload::trace::Trace;
use std::path::Path;

pub(crate) fn write(
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

/// The same stretch of time in both pictures: to the last end of either plan.
fn last_end(frozen: &Frozen, plans: &[&[Time]], taken: &[Span]) -> Time {
    let cluster = frozen.cluster();
    let running = cluster.running.iter().map(|job| job.expected_end);
    let planned = plans.iter().flat_map(|starts| starts.iter().zip(cluster.waiting));
    let planned = planned.map(|(&start, job)| start + job.estimate).filter(|&end| end < Time::MAX);
    running.chain(planned).chain(taken.iter().map(|span| span.interval.end)).max().unwrap_or(frozen.now)
}
