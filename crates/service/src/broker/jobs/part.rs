//! The part of a reservation that a job is to run in, where its owner names a reservation that he has. Relies on the booking
//! alone, and on what peers offer only where the job requires something of the resource; refuses as a site refuses, and changes
//! nothing.

use super::words::PartThere;
use crate::broker::Peer;
use bookahead_api as api;
use bookahead_protocol::broker::{Booking, Child, name_here};
use bookahead_protocol::life_cycle::{IllegalMove, Move};
use bookahead_protocol::problem::{Impossible, Problem, Why};
use bookahead_protocol::{Caller, Moment, Name, Requirement, ReservationId, Resource, State};

/// A part, which of them it is, and what its resource is called here.
struct Candidate<'a> {
    number: usize,
    child: &'a Child,
    resource: Name,
}

/// The one part of a reservation that suits a job, and where it is.
pub(super) fn find(
    now: Moment,
    caller: &Caller,
    asked: &api::SubmitJob,
    (id, booking): (ReservationId, Option<&Booking>),
    peers: impl Iterator<Item = Peer>,
) -> Result<PartThere, api::Problem> {
    let booking = standing(caller, id, booking).map_err(|why| api::Problem::from(Problem::new(why)))?;
    let required = required(asked, peers);
    let suiting: Vec<Candidate> = candidates(booking)
        .filter(|part| suits(asked, booking, part))
        .filter(|part| required.as_ref().is_none_or(|having| having.contains(&part.resource)))
        .collect();
    let lasting = |part: &&Candidate| Moment::of(part.child.pick.slot.interval.end) > now;
    match suiting.iter().filter(lasting).collect::<Vec<_>>()[..] {
        [part] => Ok(there(part)),
        [] if suiting.is_empty() => Err(none(booking)),
        [] => {
            let over = IllegalMove { from: State::Completed, attempted: Move::Commit };
            Err(Problem::new(over).into())
        }
        ref several => Err(which(id, several)),
    }
}

/// What was said that has no meaning for a job whose reservation is there already.
pub(super) fn without_sense(asked: &api::SubmitJob) -> Option<&'static str> {
    let said = [
        ("mode", asked.mode.is_some()),
        ("copies", asked.copies.is_some()),
        ("latest_end", asked.latest_end.is_some()),
        ("reference_mhz", asked.reference_mhz.is_some()),
        ("input_bytes", asked.input_bytes.is_some()),
    ];
    said.into_iter().find_map(|(field, is_said)| is_said.then_some(field))
}

/// The reservation, if it is the caller's and takes jobs.
fn standing<'a>(
    caller: &Caller,
    id: ReservationId,
    booking: Option<&'a Booking>,
) -> Result<&'a Booking, Why> {
    let booking = booking.filter(|booking| booking.asked.is_some()).ok_or(Why::Unknown(id))?;
    if !caller.may_act_for(&booking.owner()) {
        return Err(Why::NotOwner(id));
    }
    if matches!(booking.state, State::Requested | State::Held | State::Rejected) {
        return Err(Why::Unsupported(Impossible::JobsOfAHold));
    }
    booking.state.after(Move::Commit)?;
    Ok(booking)
}

fn candidates(booking: &Booking) -> impl Iterator<Item = Candidate<'_>> {
    booking.children.iter().enumerate().map(|(number, child)| {
        let resource = name_here(&child.pick.peer, &child.pick.slot.resource);
        Candidate { number, child, resource }
    })
}

/// By the resource where one is named, else by its kind; and the job must fit.
fn suits(asked: &api::SubmitJob, booking: &Booking, part: &Candidate) -> bool {
    let wanted = booking.asked.as_ref().and_then(|asked| asked.request.parts.get(part.number));
    let is_meant = match &asked.resource {
        Some(named) => *named == part.resource,
        None => wanted.is_some_and(|wanted| wanted.kind == asked.kind),
    };
    is_meant && asked.capacity <= part.child.pick.slot.capacity.0
}

/// The resources that have what the job requires; None where it requires nothing.
fn required(asked: &api::SubmitJob, peers: impl Iterator<Item = Peer>) -> Option<Vec<Name>> {
    let requirements: Vec<Requirement> = asked.requirements.iter().cloned().map(Into::into).collect();
    let here = |peer: Peer| {
        let named = move |one: Resource| Resource { name: name_here(&peer.name, &one.name), ..one };
        peer.resources.into_iter().map(named)
    };
    let has = |resource: &Resource| requirements.iter().all(|requirement| resource.meets(requirement));
    let having = || peers.flat_map(here).filter(has).map(|resource| resource.name).collect();
    (!requirements.is_empty()).then(having)
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

fn none(booking: &Booking) -> api::Problem {
    let all: Vec<Candidate> = candidates(booking).collect();
    let listed = listed(&all.iter().collect::<Vec<_>>());
    let why = format!(
        "no part of {} has the resource or kind, the capacity and the attributes that the job wants; it has {listed}: \
         name one of them as the resource (--resource), and take no more than it has",
        booking.id
    );
    api::Problem::new(api::Code::JobRefused, why)
}

fn which(id: ReservationId, several: &[&Candidate]) -> api::Problem {
    let names: std::collections::BTreeSet<&Name> = several.iter().map(|part| &part.resource).collect();
    // A name does not tell parts apart that are on one resource.
    let remedy = match names.len() == several.len() {
        true => "name one as the resource (--resource)",
        false => "where several are on one resource, submit it at the site that holds them",
    };
    let why = format!("the job could run in several parts of {id}: {}; {remedy}", listed(several));
    api::Problem::new(api::Code::JobRefused, why)
}

fn listed(parts: &[&Candidate]) -> String {
    let one = |part: &&Candidate| format!("{} with {}", part.resource, part.child.pick.slot.capacity.0);
    parts.iter().map(one).collect::<Vec<_>>().join(", ")
}
