//! The blocking pattern of the paper's Figure 5, found in our runs: a very wide job is planned after a sequence of
//! reservations, the nodes before it stay idle, and the jobs behind it wait.

use super::run::{Contender, Schedules, Setting};
use super::workload::Workload;
use super::{WIDE_WINDOW, WIDEST};
use bookahead_figure::{Bar, BarKind, Clock, Gantt};
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_sim::{Fate, Ran};
use bookahead_workload::trace::Estimates;

/// Part of the time before and after the blocked stretch that is drawn.
const AROUND: f64 = 0.25;

/// A wide job that blocks others.
pub(super) struct Pattern {
    setting: Setting,
    schedules: Schedules,
    /// Index of the wide job.
    wide: usize,
    /// From its submission to its start.
    blocked: Interval,
    /// Indices of the jobs that came after it, before it started, and started later than without reservations.
    behind: Vec<usize>,
    /// Total wait that they have more than without reservations.
    pub(super) added: Seconds,
}

/// The wide job behind which jobs wait longest, over the book-ahead times of `aheads` and the methods of the paper.
pub(super) fn find(workload: &Workload, aheads: &[i64]) -> Option<Pattern> {
    let mut worst: Option<Pattern> = None;
    for &book_ahead in aheads {
        for contender in Contender::PAPER {
            let estimates = Estimates::Requested;
            let setting = Setting { contender, book_ahead, window: WIDE_WINDOW, estimates, seed: 1 };
            let found = in_run(Schedules::new(workload, &setting), setting);
            let added = |pattern: &Option<Pattern>| pattern.as_ref().map_or(Seconds(0), |found| found.added);
            if added(&found) > added(&worst) {
                worst = found;
            }
        }
    }
    worst
}

fn in_run(schedules: Schedules, setting: Setting) -> Option<Pattern> {
    let wide = |at: &usize| schedules.jobs[*at].asked.capacity > WIDEST;
    let candidates = (0..schedules.jobs.len()).filter(wide);
    let behind = |at: usize| -> Option<(usize, Interval, Vec<usize>, Seconds)> {
        let [_, after] = schedules.runs(at)?;
        let blocked = Interval::new(schedules.jobs[at].asked.submit, after.start);
        let waits = |other: &usize| {
            let submit = schedules.jobs[*other].asked.submit;
            let delayed = schedules
                .runs(*other)
                .is_some_and(|[before, after]| after.start > before.start && after.start >= blocked.end);
            delayed && *other != at && blocked.contains(submit)
        };
        let behind: Vec<usize> = (0..schedules.jobs.len()).filter(waits).collect();
        let added = behind.iter().filter_map(|&other| schedules.runs(other));
        let added = added.map(|[before, after]| (after.start - before.start).0).sum();
        Some((at, blocked, behind, Seconds(added)))
    };
    // A tie goes to the earlier job.
    let worst = candidates.filter_map(behind).rev().max_by_key(|found| found.3);
    worst.map(|(wide, blocked, behind, added)| Pattern { setting, schedules, wide, blocked, behind, added })
}

impl Schedules {
    /// When a job ran without and with requests.
    fn runs(&self, at: usize) -> Option<[Ran; 2]> {
        match (&self.without.jobs[at], &self.with.jobs[at]) {
            (Fate::Ran(before), Fate::Ran(after)) => Some([*before, *after]),
            _ => None,
        }
    }
}

impl Pattern {
    /// The schedule around the blocked stretch.
    pub(super) fn gantt(&self, workload: &Workload) -> Gantt {
        let Schedules { jobs, requests, with, .. } = &self.schedules;
        let bar = |at: usize| {
            let [before, after] = self.schedules.runs(at)?;
            let kind = if after.start > before.start { BarKind::Delayed } else { BarKind::Job };
            let label =
                if at == self.wide { format!("{} nodes", jobs[at].asked.capacity) } else { String::new() };
            let interval = Interval::new(after.start, after.end);
            Some(Bar { interval, capacity: jobs[at].asked.capacity, label, kind })
        };
        let granted = with.requests.iter().zip(requests);
        let reserved = granted.filter_map(|(start, request)| {
            let interval = Interval::starting((*start)?, request.duration);
            let kind = BarKind::Reservation;
            Some(Bar { interval, capacity: request.processors, label: String::new(), kind })
        });
        let bars = (0..jobs.len()).filter_map(bar).chain(reserved).collect();
        let title = format!("A job of {} nodes blocks others", jobs[self.wide].asked.capacity);
        let around = (self.blocked.length().0 as f64 * AROUND) as i64 + 3_600;
        let range = Interval::new(Time(self.blocked.begin.0 - around), Time(self.blocked.end.0 + around));
        Gantt {
            unit: "nodes".to_owned(),
            range: Some(range),
            clock: Clock::Since(Time(0)),
            now: Some(self.blocked.begin),
            now_label: "submitted".to_owned(),
            ..Gantt::new(title, workload.machine, bars)
        }
    }

    /// What the figure shows, in numbers.
    pub(super) fn caption(&self) -> String {
        let reserved = self.schedules.with.requests.iter().zip(&self.schedules.requests);
        let reserved = reserved.filter(|(start, request)| {
            start.is_some_and(|start| {
                let end = start + request.duration;
                start < self.blocked.end && self.blocked.begin < end
            })
        });
        format!(
            "The blocking pattern, found under the {} method with {} h ahead and a window of {WIDE_WINDOW} h (seed 1): \
             a job of {} nodes is submitted at the line and starts after {:.1} h, past {} reservations; {} jobs that came \
             after it start later than without reservations, by {:.0} h in all",
            self.setting.contender.name(),
            self.setting.book_ahead,
            self.schedules.jobs[self.wide].asked.capacity,
            self.blocked.length().0 as f64 / 3_600.0,
            reserved.count(),
            self.behind.len(),
            self.added.0 as f64 / 3_600.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wide_job_is_found_that_starts_before_the_jobs_behind_it() {
        let workload = Workload::draw(1).expect("the tables are sound");
        let found = find(&workload, &[12, 24]).expect("wide jobs block others");
        let wide = found.schedules.jobs[found.wide].asked;
        assert!(wide.capacity > WIDEST && wide.submit == found.blocked.begin && !found.blocked.is_empty());
        assert!(!found.behind.is_empty() && found.added > Seconds(0));
        for &other in &found.behind {
            let [before, after] = found.schedules.runs(other).expect("it ran");
            assert!(after.start >= found.blocked.end && after.start > before.start);
            assert!(found.schedules.jobs[other].asked.submit >= wide.submit);
        }
        assert!(found.caption().contains("nodes is submitted at the line"));
        assert!(found.gantt(&workload).to_svg().starts_with("<svg"));
    }
}
