//! Whether something would fit if some of our own reservations were not there: asked before one is deleted to make room
//! for its successor, so that what is kept is not given up for nothing.

use super::system::{FactState, Handle, JobFact, Node, Picture, Place, Unit};
use bookahead_plan::{Interval, Seconds, Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Whether there is room for all spans at once, as far as the picture tells.
pub(super) fn is_there(
    picture: &Picture,
    place: &Place,
    now: Time,
    without: &BTreeSet<Handle>,
    wanted: &[Span],
) -> bool {
    let others = picture.reservations.iter().filter(|reserved| !without.contains(&reserved.handle));
    let begins = others.map(|reserved| reserved.interval.begin);
    let begins = begins.chain(wanted.iter().map(|span| span.interval.begin)).map(|begin| begin.max(now));
    // Less is free only from where something begins.
    let instants: BTreeSet<Time> = begins.collect();
    instants.into_iter().all(|at| {
        let then = wanted.iter().filter(|span| span.interval.end > at && span.interval.begin.max(now) <= at);
        let needed = then.fold(0_u64, |sum, span| sum.saturating_add(u64::from(span.capacity.0)));
        needed == 0 || free(picture, place, at, now, without) >= needed
    })
}

fn free(picture: &Picture, place: &Place, at: Time, now: Time, without: &BTreeSet<Handle>) -> u64 {
    let taken = taken(picture, at, now, without);
    let here = |node: &&Node| node.usable && node.resources.contains(&place.resource);
    let nodes = picture.nodes.iter().filter(here);
    let nodes = nodes.map(|node| (node.cores, taken.get(node.name.as_str()).copied().unwrap_or(0)));
    match place.unit {
        Unit::Cores => nodes.map(|(cores, taken)| u64::from(cores).saturating_sub(taken)).sum(),
        Unit::Nodes => nodes.filter(|(_, taken)| *taken == 0).count() as u64,
    }
}

/// What others' reservations and running jobs take of each node at an instant.
fn taken<'a>(
    picture: &'a Picture,
    at: Time,
    now: Time,
    without: &BTreeSet<Handle>,
) -> BTreeMap<&'a str, u64> {
    let others = picture.reservations.iter().filter(|reserved| !without.contains(&reserved.handle));
    let reserved =
        others.filter(|reserved| covers(reserved.interval, at, now)).map(|reserved| &reserved.cores);
    let running = picture.jobs.iter().filter(|job| job.state == FactState::Running && job.runs_at(at, now));
    let outside = running.flat_map(|job| {
        let inside = picture.reservations.iter().filter(|one| job.reservations.contains(&one.handle));
        let inside: Vec<_> = inside.collect();
        // One that was given another reservation while it ran may run on nodes that this does not have.
        job.placed.iter().filter(move |(node, _)| !inside.iter().any(|one| one.cores.contains_key(*node)))
    });
    let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
    for (node, cores) in reserved.flatten().chain(outside) {
        let sum = taken.entry(node.as_str()).or_default();
        *sum = sum.saturating_add(u64::from(*cores));
    }
    taken
}

fn covers(interval: Interval, at: Time, now: Time) -> bool {
    interval.begin.max(now) <= at && at < interval.end
}

impl JobFact {
    /// Whether it is expected to run still, if it runs now.
    fn runs_at(&self, at: Time, now: Time) -> bool {
        let end = self.limit.map(|limit| self.started.unwrap_or(now) + limit);
        end.is_none_or(|end| end.max(now + Seconds(1)) > at)
    }
}
