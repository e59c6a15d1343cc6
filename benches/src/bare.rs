//! Baselines of the simulation bench, without reservations, as one would write them in an hour: EASY backfilling as a
//! plain loop over lists, and conservative backfilling that plans everything again. They find the same starts.

use bookahead_plan::profile::Frontier;
use bookahead_plan::{Capacity, Interval, Profile, Span, Time};
use bookahead_sim::Job;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Running jobs: end by request, processors.
type Running = Vec<(i64, i64)>;

/// Returns the start of every job.
pub fn bare_easy(capacity: u32, jobs: &[Job]) -> Vec<i64> {
    let mut starts = vec![0; jobs.len()];
    let mut ends: BinaryHeap<Reverse<(i64, usize)>> = BinaryHeap::new();
    let mut running: Running = Vec::new();
    let mut waiting: Vec<usize> = Vec::new();
    let mut free = i64::from(capacity);
    let mut next = 0;
    while next < jobs.len() || !ends.is_empty() {
        let submit = jobs.get(next).map_or(i64::MAX, |job| job.asked.submit.0);
        let now = ends.peek().map_or(submit, |Reverse((end, _))| submit.min(*end));
        while let Some(&Reverse((end, job))) = ends.peek()
            && end == now
        {
            ends.pop();
            let (by_request, processors) = (starts[job] + jobs[job].asked.estimate.0, size(&jobs[job]));
            let at = running.iter().position(|&ran| ran == (by_request, processors)).expect("it ran");
            running.swap_remove(at);
            free += processors;
        }
        while jobs.get(next).is_some_and(|job| job.asked.submit.0 == now) {
            waiting.push(next);
            next += 1;
        }
        let started = pass(now, free, jobs, &waiting, &mut running);
        for &job in &started {
            starts[job] = now;
            free -= size(&jobs[job]);
            ends.push(Reverse((now + jobs[job].run.0.min(jobs[job].asked.estimate.0), job)));
        }
        waiting.retain(|job| !started.contains(job));
    }
    starts
}

fn size(job: &Job) -> i64 {
    i64::from(job.asked.capacity.0)
}

/// Jobs that start now.
fn pass(now: i64, mut free: i64, jobs: &[Job], waiting: &[usize], running: &mut Running) -> Vec<usize> {
    let mut started = Vec::new();
    let mut rest = waiting.iter();
    let mut head = None;
    for &job in rest.by_ref() {
        if size(&jobs[job]) > free {
            head = Some(job);
            break;
        }
        free -= size(&jobs[job]);
        running.push((now + jobs[job].asked.estimate.0, size(&jobs[job])));
        started.push(job);
    }
    let Some(head) = head else { return started };
    running.sort_unstable();
    let (mut available, mut shadow) = (free, now);
    for &(end, processors) in running.iter() {
        available += processors;
        shadow = end;
        if available >= size(&jobs[head]) {
            break;
        }
    }
    // Jobs that end exactly at the shadow are free by then too.
    available = free
        + running.iter().filter(|(end, _)| *end <= shadow).map(|(_, processors)| processors).sum::<i64>();
    let mut extra = available - size(&jobs[head]);
    for &job in rest {
        let (processors, end) = (size(&jobs[job]), now + jobs[job].asked.estimate.0);
        if processors <= free && (end <= shadow || processors <= extra) {
            if end > shadow {
                extra -= processors;
            }
            free -= processors;
            running.push((end, processors));
            started.push(job);
        }
    }
    started
}

/// Conservative backfilling that plans all waiting jobs again whenever one ends early, on the same profile as ours.
/// Returns the start of every job.
pub fn replanned_conservative(capacity: u32, jobs: &[Job]) -> Vec<i64> {
    let mut starts = vec![0; jobs.len()];
    let begin = jobs.first().map_or(Time(0), |job| job.asked.submit);
    let (mut profile, mut frontier) = (Profile::new(Capacity(capacity), begin), Frontier::new());
    let mut ends: BinaryHeap<Reverse<(Time, usize)>> = BinaryHeap::new();
    let mut waiting: Vec<(usize, Time)> = Vec::new();
    let mut next = 0;
    while next < jobs.len() || !ends.is_empty() {
        let submit = jobs.get(next).map_or(Time::MAX, |job| job.asked.submit);
        let now = ends.peek().map_or(submit, |Reverse((end, _))| submit.min(*end));
        profile.advance(now);
        let mut early = Vec::new();
        while let Some(&Reverse((end, job))) = ends.peek()
            && end == now
        {
            ends.pop();
            let planned = planned(jobs, job, Time(starts[job]));
            if planned.interval.end > now {
                early.push(Span { interval: Interval::new(now, planned.interval.end), ..planned });
            }
        }
        if !early.is_empty() {
            waiting.iter().for_each(|&(job, start)| profile.remove(planned(jobs, job, start)));
            early.into_iter().for_each(|span| profile.remove(span));
            frontier.forget();
            for (job, start) in &mut waiting {
                *start = frontier.place(&mut profile, now, jobs[*job].asked.need()).expect("it fits");
            }
        }
        while jobs.get(next).is_some_and(|job| job.asked.submit == now) {
            let start = frontier.place(&mut profile, now, jobs[next].asked.need()).expect("it fits");
            waiting.push((next, start));
            next += 1;
        }
        for (job, start) in waiting.extract_if(.., |(_, start)| *start == now) {
            starts[job] = start.0;
            ends.push(Reverse((now + jobs[job].run.min(jobs[job].asked.estimate), job)));
        }
    }
    starts
}

fn planned(jobs: &[Job], job: usize, start: Time) -> Span {
    Span::starting(start, jobs[job].asked.estimate, jobs[job].asked.capacity)
}
