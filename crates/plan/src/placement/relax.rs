//! The smallest changes with which a request would be granted, each tried before it is told. What it is tried on is a
//! [`Trial`]: a cluster that was stopped at a moment, or the book of a site.

use super::Request;
use crate::profile::Need;
use crate::units::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};

/// The steps in which a busy resource says how much later to ask for, in seconds.
pub const BUSY_STEPS: [Seconds; 5] =
    [Seconds(300), Seconds(600), Seconds(900), Seconds(1_800), Seconds(2_700)];

/// A request is not put off further than this beyond the first room.
const FURTHEST: Seconds = Seconds(30 * 86_400);

/// A change with which the request would be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relaxation {
    /// If it might end later by so much.
    Later(Seconds),
    /// If it took so much less time.
    Shorter(Seconds),
    /// If it took so much less capacity.
    Fewer(Capacity),
    /// If its window were earlier: it could begin then.
    Earlier(Time),
}

/// Where changed requests are tried.
pub trait Trial {
    /// The first instant at which anything may begin.
    fn first_begin(&self) -> Time;
    /// How far apart two slots are at least.
    fn gap(&self) -> Seconds;
    /// The earliest start of a need in the room that reservations may take.
    fn earliest_fit(&self, from: Time, need: Need, deadline: Option<Time>) -> Option<Time>;
    /// The longest time for which a capacity is free in a window.
    fn longest_vacancy(&self, window: Interval, capacity: Capacity) -> Option<Seconds>;
    /// The first begin with which a changed request would be granted.
    fn would_do(&mut self, changed: &Request) -> Option<Time>;
}

/// What would do instead of `request`, each on its own.
pub fn relaxations(trial: &mut impl Trial, request: &Request) -> Vec<Relaxation> {
    let from = request.earliest_start.max(trial.first_begin());
    let found = [
        later(trial, request, from),
        shorter(trial, request, from),
        fewer(trial, request, from),
        earlier(trial, request, from),
    ];
    found.into_iter().flatten().collect()
}

/// The first step by which a later begin would do.
pub fn busy_for(trial: &mut impl Trial, request: &Request) -> Option<Seconds> {
    let from = request.earliest_start.max(trial.first_begin());
    BUSY_STEPS.into_iter().find(|&step| {
        let earliest_start = from + step;
        let latest_end = earliest_start + request.duration;
        trial.would_do(&Request { earliest_start, latest_end, ..*request }).is_some()
    })
}

/// Where there is room only later, the first room; where there is room that is not admitted, the first slot found in
/// windows that are widened again and again.
fn later(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    let room = trial.earliest_fit(from, request.need(), None)?;
    let mut latest_end = (room + request.duration).max(request.latest_end);
    let furthest = latest_end + FURTHEST;
    let mut step = trial.gap().max(Seconds(1));
    while latest_end <= furthest {
        if let Some(start) = trial.would_do(&Request { latest_end, ..*request }) {
            let by = start + request.duration - request.latest_end;
            let changed = Request { latest_end: request.latest_end + by, ..*request };
            let does = by > Seconds::ZERO && trial.would_do(&changed).is_some();
            return does.then_some(Relaxation::Later(by));
        }
        latest_end = latest_end + step;
        step = step + step;
    }
    None
}

fn shorter(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    let longest = trial.longest_vacancy(Interval::new(from, request.latest_end), request.capacity)?;
    let duration = longest.min(Seconds(request.duration.0 - 1));
    let by = Seconds(request.duration.0 - duration.0);
    let changed = Request { duration, ..*request };
    let does = duration > Seconds::ZERO && trial.would_do(&changed).is_some();
    does.then_some(Relaxation::Shorter(by))
}

fn fewer(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    let fits = |capacity: u32| {
        let need = Need { capacity: Capacity(capacity), length: request.duration };
        trial.earliest_fit(from, need, Some(request.latest_end)).is_some()
    };
    let (mut fitting, mut too_much) = (0, request.capacity.0);
    while too_much - fitting > 1 {
        let middle = fitting + (too_much - fitting) / 2;
        if fits(middle) { fitting = middle } else { too_much = middle }
    }
    let by = Capacity(request.capacity.0 - fitting);
    let changed = Request { capacity: Capacity(fitting), ..*request };
    let does = fitting > 0 && trial.would_do(&changed).is_some();
    does.then_some(Relaxation::Fewer(by))
}

fn earlier(trial: &mut impl Trial, request: &Request, from: Time) -> Option<Relaxation> {
    let deadline = from + request.duration - Seconds(1);
    let start = trial.earliest_fit(trial.first_begin(), request.need(), Some(deadline))?;
    let latest_end = start + request.duration;
    let changed = Request { earliest_start: start, latest_end, ..*request };
    trial.would_do(&changed).map(|_| Relaxation::Earlier(start))
}
