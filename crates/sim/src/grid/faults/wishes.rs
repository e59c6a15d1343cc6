//! What the clients of a random grid want, and what they do with what they are promised.

use super::draw::{Draw, Kinds};
use crate::grid::{Step, Wish};
use bookahead_party::Work;
use bookahead_plan::placement::Request as Wanted;
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::jobs::{JobRequest, Mode};
use bookahead_protocol::{Constraint, Millis, Moment, Objective, Part, Request};
use std::collections::VecDeque;

/// A wish for parts at several sites, which begin when all is well again.
pub(super) fn of_a_broker(draw: &mut Draw, kinds: &Kinds, sites: i64) -> Wish {
    let at = Moment(draw.whole(0, 30_000));
    let request = request(draw, sites);
    wish(draw, kinds, at, request)
}

/// A wish for one part, which may begin soon.
pub(super) fn of_a_site(draw: &mut Draw, kinds: &Kinds) -> Wish {
    let at = draw.whole(0, 30_000);
    let earliest = at / 1_000 + draw.whole(1, 30);
    let request = Request::single(part(draw, earliest));
    wish(draw, kinds, Moment(at), request)
}

fn wish(draw: &mut Draw, kinds: &Kinds, at: Moment, request: Request) -> Wish {
    let wait = Millis(draw.whole(0, 6_000));
    let (book, steps) = match draw.whole(0, 9) {
        0..=2 => (true, Vec::new()),
        3..=5 => (false, vec![(wait, Step::Commit)]),
        6 => (false, vec![(wait, Step::Hold), (wait, Step::Commit)]),
        7 => (false, vec![(wait, Step::Cancel)]),
        8 => (false, vec![(wait, Step::Commit), (Millis(draw.whole(0, 20_000)), Step::Cancel)]),
        _ => (false, Vec::new()),
    };
    let mut steps: VecDeque<(Millis, Step)> = steps.into();
    if book || steps.back().is_some_and(|(_, step)| *step == Step::Commit) {
        let single = request.parts.len() == 1;
        steps.extend(afterwards(draw, kinds, single.then_some(&request)));
    }
    Wish { at, request, hold_for: Millis(draw.whole(500, 20_000)), book, steps }
}

/// What is done with what is committed. Only the terms of a single part can be changed.
fn afterwards(draw: &mut Draw, kinds: &Kinds, single: Option<&Request>) -> Vec<(Millis, Step)> {
    let mut steps = Vec::new();
    for _ in 0..draw.times(60, 3) {
        let wait = Millis(draw.whole(0, 8_000));
        let step = match (draw.whole(0, 5), single) {
            (0, Some(request)) if kinds.changes => Step::Change(Box::new(changed(draw, request))),
            (1, Some(_)) if kinds.changes => Step::Extend(Seconds(draw.whole(1, 40))),
            (2, _) if kinds.changes => {
                let keep = Capacity(draw.whole(0, 2) as u32);
                Step::Release(Seconds(draw.whole(-5, 30)), keep)
            }
            (3 | 4, Some(request)) if kinds.jobs => Step::Submit(Box::new(inside(draw, request))),
            (5, Some(_)) if kinds.jobs => Step::CancelJob,
            _ => continue,
        };
        steps.push((wait, step));
    }
    steps
}

/// Other terms: later, longer or wider.
fn changed(draw: &mut Draw, request: &Request) -> Request {
    let mut request = request.clone();
    for part in &mut request.parts {
        let wanted = &mut part.wanted;
        wanted.earliest_start = wanted.earliest_start + Seconds(draw.whole(-10, 20));
        wanted.duration = Seconds((wanted.duration.0 + draw.whole(-10, 20)).max(1));
        wanted.capacity = Capacity(draw.whole(1, 3) as u32);
        wanted.latest_end = wanted.earliest_start + wanted.duration + Seconds(draw.whole(0, 60));
    }
    request
}

/// A job for a reservation.
fn inside(draw: &mut Draw, request: &Request) -> JobRequest {
    let wanted = request.parts[0].wanted;
    let capacity = Capacity(draw.whole(1, i64::from(wanted.capacity.0)) as u32);
    let limit = Seconds(draw.whole(1, wanted.duration.0));
    JobRequest { kind: request.parts[0].kind.clone(), ..job(draw, capacity, limit) }
}

/// A job for a queue, and when it is submitted.
pub(super) fn in_a_queue(draw: &mut Draw) -> (Moment, JobRequest) {
    let at = Moment(draw.whole(0, 35_000));
    let (capacity, limit) = (Capacity(draw.whole(1, 3) as u32), Seconds(draw.whole(1, 40)));
    (at, job(draw, capacity, limit))
}

/// A job for which a broker finds a place, and when it is submitted.
pub(super) fn placed(draw: &mut Draw) -> (Moment, JobRequest) {
    let (at, job) = in_a_queue(draw);
    let floods = draw.percent(70);
    let mode = Some(if floods { Mode::Flood } else { Mode::Reserve });
    let copies = (floods && draw.percent(70)).then(|| draw.whole(1, 3) as u32);
    (at, JobRequest { mode, copies, ..job })
}

/// A job.
fn job(draw: &mut Draw, capacity: Capacity, limit: Seconds) -> JobRequest {
    JobRequest {
        reservation: None,
        resource: None,
        kind: "processors".into(),
        capacity,
        limit,
        latest_end: None,
        requirements: Vec::new(),
        reference_mhz: None,
        input_bytes: None,
        work: Work::Pretended { run: Seconds(draw.whole(0, limit.0 + 5)) },
        mode: None,
        copies: None,
        claims: false,
    }
}

fn request(draw: &mut Draw, sites: i64) -> Request {
    let parts: Vec<Part> = (0..draw.whole(1, 3))
        .map(|_| {
            let earliest = draw.whole(45, 120);
            part(draw, earliest)
        })
        .collect();
    let mut constraints = Vec::new();
    for second in 1..parts.len() {
        let first = draw.place(second);
        constraints.push(match draw.whole(0, 4) {
            0 | 1 => Constraint::Offset { first, second, by: Seconds(0) },
            2 => Constraint::After { first, second, least: Seconds(0), most: None },
            3 if sites > 2 => Constraint::DifferentSites(first, second),
            _ => Constraint::EndsBefore { first, second },
        });
    }
    Request { parts, constraints, objective: Objective::EarliestEnd }
}

fn part(draw: &mut Draw, earliest: i64) -> Part {
    let duration = draw.whole(5, 60);
    let wanted = Wanted {
        earliest_start: Time(earliest),
        latest_end: Time(earliest + duration + draw.whole(0, 120)),
        duration: Seconds(duration),
        capacity: Capacity(draw.whole(1, 3) as u32),
    };
    let kind = if draw.percent(85) { "processors" } else { "bandwidth" };
    Part { wanted, kind: kind.into(), requirements: Vec::new(), resource: None }
}
