//! Choosing nodes for a reservation, where Slurm is not left the choice: it would give fewer whole nodes than are wanted and say
//! nothing. What is chosen here by a picture is checked by Slurm once more.

use crate::batch::{FactState, JobFact, Node, Picture, Share, Wanted};
use bookahead_plan::{Interval, Time};

/// Whole nodes that nobody else has in that time, in Slurm's order; an error says how many there are.
pub(super) fn whole_nodes(wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, String> {
    let free = room(wanted, picture).filter(|(node, free)| *free == node.cores && node.cores > 0);
    let free: Vec<Share> = free.map(|(node, free)| (node.name.clone(), free)).collect();
    let amount = wanted.amount as usize;
    if free.len() < amount {
        return Err(format!(
            "only {} nodes of {} are usable and free in that time; take another time, or fewer",
            free.len(),
            wanted.place.resource
        ));
    }
    Ok(free.into_iter().take(amount).collect())
}

/// Cores on as few nodes as possible, in Slurm's order; an error says how many there are.
pub(super) fn cores(wanted: &Wanted, picture: &Picture) -> Result<Vec<Share>, String> {
    let mut free: Vec<(usize, Share)> =
        room(wanted, picture).map(|(node, free)| (node.name.clone(), free)).enumerate().collect();
    free.sort_by_key(|(_, (_, free))| std::cmp::Reverse(*free));
    let mut left = wanted.amount;
    let mut chosen = Vec::new();
    for (at, (node, free)) in free {
        let share = free.min(left);
        left -= share;
        if share > 0 {
            chosen.push((at, (node, share)));
        }
    }
    if left > 0 {
        return Err(format!(
            "only {} cores of {} are usable and free in that time; take another time, or fewer",
            wanted.amount - left,
            wanted.place.resource
        ));
    }
    chosen.sort();
    Ok(chosen.into_iter().map(|(_, share)| share).collect())
}

/// The usable nodes of the place, and how many of their cores nobody has in that time.
fn room<'a>(wanted: &'a Wanted, picture: &'a Picture) -> impl Iterator<Item = (&'a Node, u32)> {
    let ours = |node: &&Node| node.usable && node.resources.contains(&wanted.place.resource);
    picture
        .nodes
        .iter()
        .filter(ours)
        .map(|node| (node, node.cores.saturating_sub(taken(node, wanted, picture))))
}

/// How many cores of a node others have in that time. What is wanted may be there already, and is not in its own way.
fn taken(node: &Node, wanted: &Wanted, picture: &Picture) -> u32 {
    let interval = wanted.interval;
    let others = picture.reservations.iter().filter(|one| one.name != wanted.name);
    let overlapping = others.filter(|one| overlap(one.interval, interval));
    let reserved = overlapping.filter_map(|one| one.cores.get(&node.name));
    let outside = |job: &&JobFact| !is_inside(job, node, interval, picture);
    let jobs = picture.jobs.iter().filter(|job| reaches(job, interval.begin)).filter(outside);
    let running = jobs.filter_map(|job| job.placed.get(&node.name));
    reserved.chain(running).fold(0, |sum, cores| sum.saturating_add(*cores))
}

/// Whether a job runs that may still run at that time.
fn reaches(job: &JobFact, time: Time) -> bool {
    let end = job.started.zip(job.limit).map(|(started, limit)| started + limit);
    job.state == FactState::Running && end.is_none_or(|end| end > time)
}

/// Whether a job has its cores of a node by a reservation that is counted already. One that was given another reservation
/// while it ran may run on nodes that this does not have.
fn is_inside(job: &JobFact, node: &Node, interval: Interval, picture: &Picture) -> bool {
    let mut counted = picture.reservations.iter().filter(|one| overlap(one.interval, interval));
    counted.any(|one| job.reservations.contains(&one.handle) && one.cores.contains_key(&node.name))
}

pub(super) fn overlap(one: Interval, other: Interval) -> bool {
    one.begin < other.end && other.begin < one.end
}
