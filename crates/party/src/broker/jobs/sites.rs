//! Where a job can run. Without a reservation: on any resource of the peers, as input of the ranking. With a
//! reservation that its owner names: in one of its parts. Uses the booking, and the peers' resources only if
//! the job requires attributes. Refuses in the same way as a site, and changes nothing.

use super::{Around, JobRules};
use crate::broker::event::PartThere;
use crate::register::Known;
use bookahead_protocol::broker::{Booking, Child, name_here};
use bookahead_protocol::jobs::{JobRequest, Ranked, Site, Task, rank};
use bookahead_protocol::life_cycle::{IllegalMove, Move};
use bookahead_protocol::problem::{Impossible, Why};
use bookahead_protocol::{Caller, Millis, Moment, Name, ReservationId, Resource, State, Value};
use std::collections::BTreeSet;

/// A job's needs, and the suitable resources, shortest expected delay first.
pub(super) fn ranked(job: &JobRequest, around: Around<'_>, rules: &JobRules) -> (Task, Vec<Ranked>) {
    let task = Task {
        cores: job.capacity,
        run: Millis::seconds(job.limit.0),
        rate: job.reference_mhz.unwrap_or(1),
        files: job.input_bytes.into_iter().collect(),
        kind: job.kind.clone(),
        requirements: job.requirements.clone(),
        description: job.description.for_placement(),
    };
    let sites = around.register.up().flat_map(|known| sites_of(known, job, around, rules));
    let ranked = rank(&task, &sites.collect::<Vec<_>>());
    (task, ranked)
}

/// The resources of a peer; only the named one, if the job names one. A peer that is a broker is ranked like
/// one site.
fn sites_of<'a>(
    known: &'a Known,
    job: &'a JobRequest,
    around: Around<'_>,
    rules: &JobRules,
) -> impl Iterator<Item = Site> + use<'a> {
    let said = &known.said;
    let hold_time = around.head.hold_time(&said.name);
    let notice = around.head.told_hold_time(&said.name).unwrap_or(rules.notice);
    let offered = said.resources.iter().map(|offered| &offered.resource);
    let named = |resource: &&Resource| {
        job.resource.as_ref().is_none_or(|wanted| *wanted == name_here(&said.name, &resource.name))
    };
    offered.filter(named).map(move |resource| {
        let load = said.loads.iter().find(|load| load.resource == resource.name);
        let mhz = number(resource, "mhz").and_then(|mhz| u32::try_from(mhz).ok());
        // Without a reference machine or a known clock rate, the owner's run time is used unscaled.
        let rate = job.reference_mhz.map_or(1, |reference| mhz.unwrap_or(reference));
        Site {
            resource: Resource { site: said.name.clone(), ..resource.clone() },
            rates: vec![rate],
            requested: load.map_or(0, |load| load.requested),
            longest_wall_time: Millis::seconds(load.map_or(0, |load| load.longest_wall_time_seconds)),
            bandwidth: number(resource, "bytes-per-second"),
            hold_time,
            notice,
        }
    })
}

fn number(resource: &Resource, attribute: &str) -> Option<u64> {
    match resource.attributes.get(&Name::from(attribute)) {
        Some(Value::Number(number)) => u64::try_from(*number).ok(),
        _ => None,
    }
}

/// A part, its index, and the broker's name for its resource.
struct Candidate<'a> {
    number: usize,
    child: &'a Child,
    resource: Name,
}

/// The only part of a reservation that suits a job.
pub(super) fn find<'a>(
    now: Moment,
    caller: &Caller,
    job: &JobRequest,
    (id, booking): (ReservationId, Option<&Booking>),
    peers: impl Iterator<Item = &'a Known>,
) -> Result<PartThere, Why> {
    let booking = standing(caller, id, booking)?;
    let required = required(job, peers);
    let suiting: Vec<Candidate> = candidates(booking)
        .filter(|part| suits(job, booking, part))
        .filter(|part| required.as_ref().is_none_or(|having| having.contains(&part.resource)))
        .collect();
    let lasting = |part: &&Candidate| Moment::of(part.child.pick.slot.interval.end) > now;
    match suiting.iter().filter(lasting).collect::<Vec<_>>()[..] {
        [part] => Ok(there(part)),
        [] if suiting.is_empty() => Err(none(booking)),
        // As a site answers about a reservation that is over; the other parts may still go on.
        [] => Err(IllegalMove { from: State::Completed, attempted: Move::Commit }.into()),
        ref several => Err(which(id, several)),
    }
}

/// The first field that has no meaning for a job with a reservation.
pub(super) fn without_sense(job: &JobRequest) -> Option<&'static str> {
    let said = [
        ("mode", job.mode.is_some()),
        ("copies", job.copies.is_some()),
        ("latest_end", job.latest_end.is_some()),
        ("reference_mhz", job.reference_mhz.is_some()),
        ("input_bytes", job.input_bytes.is_some()),
        ("retry", job.rerun.retry.is_some()),
    ];
    said.into_iter().find_map(|(field, is_said)| is_said.then_some(field))
}

/// The reservation, if it belongs to the caller and accepts jobs.
fn standing<'a>(
    caller: &Caller,
    id: ReservationId,
    booking: Option<&'a Booking>,
) -> Result<&'a Booking, Why> {
    // Without a request it was cancelled before it was received, and has no owner or parts.
    let booking = booking.filter(|booking| booking.asked.is_some()).ok_or(Why::Unknown(id))?;
    if !caller.may_use(&booking.owner(), booking.guests()) {
        return Err(Why::NotOwner(id));
    }
    if booking.request().is_some_and(|request| request.must_accept(&caller.user)) {
        return Err(Why::Unsupported(Impossible::InvitationOpen));
    }
    if matches!(booking.state, State::Requested | State::Held | State::Rejected) {
        return Err(Why::Unsupported(Impossible::JobsOfAHold));
    }
    if booking.state == State::Expired {
        // A site could still commit it late, but a broker has released its parts.
        return Err(Why::Expired);
    }
    booking.state.after(Move::Commit)?;
    Ok(booking)
}

fn candidates(booking: &Booking) -> impl Iterator<Item = Candidate<'_>> {
    let there = booking.children.iter().enumerate().filter(|(number, _)| booking.has_part(*number));
    there.map(|(number, child)| {
        let resource = name_here(&child.pick.peer, &child.pick.slot.resource);
        Candidate { number, child, resource }
    })
}

/// By the named resource, otherwise by its kind; and the job must fit.
fn suits(job: &JobRequest, booking: &Booking, part: &Candidate) -> bool {
    let wanted = booking.asked.as_ref().and_then(|asked| asked.request.parts.get(part.number));
    let is_meant = match &job.resource {
        Some(named) => *named == part.resource,
        None => wanted.is_some_and(|wanted| wanted.kind == job.kind),
    };
    is_meant && job.capacity <= part.child.pick.slot.capacity
}

/// The resources with the attributes that the job requires. None if it requires none.
fn required<'a>(job: &JobRequest, peers: impl Iterator<Item = &'a Known>) -> Option<BTreeSet<Name>> {
    let has = |resource: &Resource| job.requirements.iter().all(|requirement| resource.meets(requirement));
    let here = |known: &'a Known| {
        let having = known.said.resources.iter().map(|one| &one.resource).filter(move |one| has(one));
        having.map(|one| name_here(&known.said.name, &one.name))
    };
    (!job.requirements.is_empty()).then(|| peers.flat_map(here).collect())
}

fn there(part: &Candidate) -> PartThere {
    let pick = &part.child.pick;
    PartThere {
        site: pick.peer.clone(),
        reservation: pick.child,
        resource: pick.slot.resource.clone(),
        number: part.number,
        when: pick.slot.interval,
    }
}

fn none(booking: &Booking) -> Why {
    let all: Vec<Candidate> = candidates(booking).collect();
    let listed = listed(&all.iter().collect::<Vec<_>>());
    Why::JobRefused(format!(
        "no part of {} has the resource or kind, capacity and attributes that the job needs; it has {listed}: \
         name one of them as the resource, and request no more than it has",
        booking.id
    ))
}

fn which(id: ReservationId, several: &[&Candidate]) -> Why {
    let names: BTreeSet<&Name> = several.iter().map(|part| &part.resource).collect();
    // Parts on the same resource cannot be told apart by its name.
    let remedy = match names.len() == several.len() {
        true => "name one as the resource",
        false => "where several are on one resource, submit it at the site that holds them",
    };
    Why::JobRefused(format!("the job could run in several parts of {id}: {}; {remedy}", listed(several)))
}

fn listed(parts: &[&Candidate]) -> String {
    let one = |part: &&Candidate| format!("{} with {}", part.resource, part.child.pick.slot.capacity.0);
    parts.iter().map(one).collect::<Vec<_>>().join(", ")
}
