//! The answer of `bookahead whatif`: the slots as a table or JSON, or a refusal with alternatives.

use crate::output::{count, length, plural, print_json};
use crate::table::Table;
use crate::trace::instant;
use anyhow::Result;
use bookahead_plan::placement::{Blocker, Reason, Refusal, Relaxation, Request, Slot};
use bookahead_plan::{Seconds, Time};
use bookahead_sim::Frozen;
use bookahead_workload::trace::Trace;
use serde::Serialize;
use std::io::{Write, stdout};

pub(crate) struct Answer<'a> {
    pub(crate) trace: &'a Trace,
    pub(crate) frozen: &'a Frozen,
    pub(crate) request: Request,
    pub(crate) slots: Vec<Slot>,
    pub(crate) best: Option<Time>,
    pub(crate) refusal: Option<Refusal>,
}

/// Printed below the table.
const LEGEND: &str = "\
in all, at most: sum and longest of the delays of waiting jobs
last end: how much later (+) or earlier (-) the last waiting job would end
idle processor-h: processor-hours that are unused until then";

impl Answer<'_> {
    pub(crate) fn print_table(&self) -> Result<()> {
        let mut out = stdout().lock();
        let Frozen { now, running, waiting, .. } = self.frozen;
        writeln!(
            out,
            "at {}: {} running, {} waiting; {} wanted for {} between {} and {}",
            self.instant(*now),
            plural(running.len() as u64, "job"),
            count(waiting.len() as u64),
            self.request.capacity,
            length(self.request.duration.0 as f64),
            self.instant(self.request.earliest_start),
            self.instant(self.request.latest_end),
        )?;
        let head = [
            "start",
            "",
            "availability",
            "delayed jobs",
            "in all",
            "at most",
            "last end",
            "idle processor-h",
        ];
        let mut table = Table::figures(head.map(str::to_owned).to_vec());
        let (good, bad): (Vec<&Slot>, Vec<&Slot>) =
            self.slots.iter().partition(|slot| slot.availability > 0.0);
        for slot in &good {
            table.named_row(&self.instant(slot.start), self.cells(slot));
        }
        if !good.is_empty() {
            write!(out, "{table}")?;
            writeln!(out, "{LEGEND}")?;
        }
        if !bad.is_empty() {
            writeln!(out, "{} examined but not available", plural(bad.len() as u64, "slot"))?;
        }
        if let Some(refusal) = &self.refusal {
            self.print_refusal(&mut out, refusal)?;
        }
        Ok(())
    }

    fn cells(&self, slot: &Slot) -> Vec<String> {
        let best = if Some(slot.start) == self.best { "best" } else { "" };
        let mut cells = vec![best.to_owned(), format!("{:.3}", slot.availability)];
        match &slot.impact {
            Some(impact) => cells.extend([
                count(impact.delayed.len() as u64),
                length(impact.total_delay.0 as f64),
                length(impact.longest_delay.0 as f64),
                signed(impact.makespan_change),
                count((impact.idle.max(0) * i128::from(self.trace.unit) / 3_600) as u64),
            ]),
            None => cells.extend(["-"; 5].map(str::to_owned)),
        }
        cells
    }

    fn print_refusal(&self, out: &mut impl Write, refusal: &Refusal) -> Result<()> {
        writeln!(out, "refused ({}): {}", refusal.reason.code(), sentence(refusal.reason))?;
        let blockers: Vec<String> = refusal.blockers.iter().map(|blocker| self.blocker(*blocker)).collect();
        if !blockers.is_empty() {
            writeln!(out, "blocked at the start of the window by: {}", blockers.join(", "))?;
        }
        if let Some(step) = refusal.busy_for {
            writeln!(out, "busy: request a start {} later", length(step.0 as f64))?;
        }
        for relaxation in &refusal.relaxations {
            writeln!(out, "would fit: {}", self.relaxation(*relaxation))?;
        }
        Ok(())
    }

    fn blocker(&self, blocker: Blocker) -> String {
        let number = |at: usize| self.trace.jobs[at].number;
        match blocker {
            Blocker::Running(at) => format!("running job {}", number(self.frozen.running[at].0)),
            Blocker::Waiting(at) => format!("waiting job {}", number(self.frozen.waiting[at])),
            Blocker::Reservation(at) => format!("reservation {at}"),
        }
    }

    fn relaxation(&self, relaxation: Relaxation) -> String {
        match relaxation {
            Relaxation::Later(by) => format!("if it may end {} later", length(by.0 as f64)),
            Relaxation::Shorter(by) => format!("if it is {} shorter", length(by.0 as f64)),
            Relaxation::Fewer(by) => format!("with {by} fewer"),
            Relaxation::Earlier(start) => format!("earlier, at {}", self.instant(start)),
        }
    }

    fn instant(&self, time: Time) -> String {
        instant(self.trace, time)
    }

    pub(crate) fn print_json(&self) -> Result<()> {
        let number = |at: &u32| self.trace.jobs[self.frozen.waiting[*at as usize]].number;
        let slot = |slot: &Slot| SlotJson {
            start: slot.start.0,
            end: (slot.start + self.request.duration).0,
            availability: slot.availability,
            best: Some(slot.start) == self.best,
            impact: slot.impact.as_ref().map(|impact| ImpactJson {
                delayed_jobs: impact.delayed.iter().map(number).collect(),
                total_delay: impact.total_delay.0,
                longest_delay: impact.longest_delay.0,
                makespan_change: impact.makespan_change.0,
                idle: impact.idle.to_string(),
            }),
        };
        let refusal = self.refusal.as_ref().map(|refusal| RefusalJson {
            reason: refusal.reason.code(),
            blockers: refusal.blockers.iter().map(|blocker| self.blocker(*blocker)).collect(),
            busy_for: refusal.busy_for.map(|step| step.0),
            relaxations: refusal.relaxations.iter().map(RelaxationJson::of).collect(),
        });
        let answer = AnswerJson {
            at: self.frozen.now.0,
            running: self.frozen.running.len(),
            waiting: self.frozen.waiting.len(),
            slots: self.slots.iter().map(slot).collect(),
            refusal,
        };
        Ok(print_json(&answer)?)
    }
}

fn signed(change: Seconds) -> String {
    match change.0 {
        0 => "0s".to_owned(),
        later if later > 0 => format!("+{}", length(later as f64)),
        // Negated as a float: the smallest integer has no positive counterpart.
        earlier => format!("-{}", length(-(earlier as f64))),
    }
}

fn sentence(reason: Reason) -> &'static str {
    match reason {
        Reason::TooWide => "the machine is smaller than the request",
        Reason::NoWindow => "the window is in the past or shorter than the duration",
        Reason::NoRoom => "there is no room in the window",
        Reason::NotAdmitted => "there is room, but every slot exceeds the allowed delay or is rated too low",
    }
}

/// All times in seconds of the trace.
#[derive(Serialize)]
struct AnswerJson {
    at: i64,
    running: usize,
    waiting: usize,
    slots: Vec<SlotJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<RefusalJson>,
}

#[derive(Serialize)]
struct SlotJson {
    start: i64,
    end: i64,
    availability: f64,
    best: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    impact: Option<ImpactJson>,
}

#[derive(Serialize)]
struct ImpactJson {
    delayed_jobs: Vec<i64>,
    total_delay: i64,
    longest_delay: i64,
    makespan_change: i64,
    /// Capacity-seconds; a string, because it may exceed the integers that JSON readers represent exactly.
    idle: String,
}

#[derive(Serialize)]
struct RefusalJson {
    reason: &'static str,
    blockers: Vec<String>,
    busy_for: Option<i64>,
    relaxations: Vec<RelaxationJson>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum RelaxationJson {
    LaterBy(i64),
    ShorterBy(i64),
    FewerBy(u32),
    EarlierAt(i64),
}

impl RelaxationJson {
    fn of(relaxation: &Relaxation) -> RelaxationJson {
        match *relaxation {
            Relaxation::Later(by) => RelaxationJson::LaterBy(by.0),
            Relaxation::Shorter(by) => RelaxationJson::ShorterBy(by.0),
            Relaxation::Fewer(by) => RelaxationJson::FewerBy(by.0),
            Relaxation::Earlier(start) => RelaxationJson::EarlierAt(start.0),
        }
    }
}
