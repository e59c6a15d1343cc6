//! The words of parties as documents of the API, and back: what parties say of themselves, schedules, jobs, health. Nothing
//! is decided here; an instant that has no date is left out.

use bookahead_api as api;
use bookahead_party::queries::{BatchHealth, BatchState, Block, BlockKind, ResourceSchedule};
use bookahead_party::{Heartbeat, Known, Load, OfferedResource, Role};
use bookahead_plan::Time;
use bookahead_protocol::{Millis, Name};

pub(crate) fn role(role: Role) -> api::Role {
    match role {
        Role::Site => api::Role::Site,
        Role::Broker => api::Role::Broker,
    }
}

fn role_from(role: api::Role) -> Role {
    match role {
        api::Role::Site => Role::Site,
        api::Role::Broker => Role::Broker,
    }
}

/// What a party says of itself, as it tells it to a broker.
pub(crate) fn heartbeat(said: Heartbeat) -> api::Heartbeat {
    api::Heartbeat {
        name: said.name,
        url: said.url,
        role: role(said.role),
        resources: said.resources.into_iter().map(resource).collect(),
        attributes: api::resource::attributes_from(said.attributes),
        loads: said.loads.into_iter().map(load).collect(),
        hold_takes_ms: said.hold_takes.and_then(|takes| u64::try_from(takes.0).ok()),
        version: said.version,
    }
}

pub(crate) fn heartbeat_from(document: api::Heartbeat) -> Heartbeat {
    Heartbeat {
        name: document.name,
        url: document.url,
        role: role_from(document.role),
        resources: document.resources.into_iter().map(resource_from).collect(),
        attributes: api::resource::attributes_into(document.attributes),
        loads: document.loads.into_iter().map(load_from).collect(),
        hold_takes: document.hold_takes_ms.map(millis),
        version: document.version,
    }
}

/// What a party says of itself, where it was asked; it is known here by this name and address.
pub(crate) fn heartbeat_of(name: &Name, url: String, itself: api::Site) -> Heartbeat {
    let api::Site { role, resources, attributes, loads, hold_takes_ms, version, .. } = itself;
    let name = name.clone();
    heartbeat_from(api::Heartbeat { name, url, role, resources, attributes, loads, hold_takes_ms, version })
}

/// A party as another knows it.
pub(crate) fn site(known: Known) -> api::Site {
    let Known { said, last_heard, round_trip, up } = known;
    let api::Heartbeat { name, url, role, resources, attributes, loads, hold_takes_ms, version } =
        heartbeat(said);
    api::Site {
        name,
        url,
        role,
        resources,
        attributes,
        loads,
        last_heard: last_heard.map(api::Timestamp::nearest),
        round_trip_ms: round_trip.and_then(|took| u64::try_from(took.0).ok()),
        hold_takes_ms,
        state: if up { api::Reachability::Up } else { api::Reachability::Silent },
        version,
    }
}

fn millis(ms: u64) -> Millis {
    Millis(i64::try_from(ms).unwrap_or(i64::MAX))
}

fn resource(offered: OfferedResource) -> api::Resource {
    api::Resource { through: offered.through, ..offered.resource.into() }
}

fn resource_from(mut document: api::Resource) -> OfferedResource {
    let through = std::mem::take(&mut document.through);
    OfferedResource { resource: document.into(), through }
}

fn load(load: Load) -> api::Load {
    let Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds } = load;
    api::Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds }
}

fn load_from(document: api::Load) -> Load {
    let api::Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds } = document;
    Load { resource, running_jobs, waiting_jobs, requested, longest_wall_time_seconds }
}

pub(crate) fn schedule(resources: Vec<ResourceSchedule>) -> api::Schedule {
    let of_one = |one: ResourceSchedule| api::ResourceSchedule {
        resource: one.resource,
        capacity: one.capacity.0,
        now: api::Timestamp::nearest(one.now),
        lost: one.lost.0,
        blocks: one.blocks.into_iter().filter_map(block).collect(),
    };
    api::Schedule { resources: resources.into_iter().map(of_one).collect() }
}

fn block(block: Block) -> Option<api::Block> {
    let stamp = |time: Time| api::Timestamp::try_from(time).ok();
    let (id, owner, state) = match block.reservation {
        Some((id, owner, state)) => (Some(id.to_string()), Some(owner), Some(state.into())),
        None => (None, None, None),
    };
    Some(api::Block {
        kind: match block.kind {
            BlockKind::RunningJob => api::BlockKind::RunningJob,
            BlockKind::WaitingJob => api::BlockKind::WaitingJob,
            BlockKind::Hold => api::BlockKind::Hold,
            BlockKind::Reservation => api::BlockKind::Reservation,
            BlockKind::Foreign => api::BlockKind::Foreign,
        },
        begin: stamp(block.span.interval.begin)?,
        end: stamp(block.span.interval.end)?,
        capacity: block.span.capacity.0,
        id,
        owner,
        state,
    })
}

pub(crate) fn batch_health(health: BatchHealth) -> api::BatchHealth {
    api::BatchHealth {
        state: match health.state {
            BatchState::Ok => api::BatchState::Ok,
            BatchState::Slow => api::BatchState::Slow,
            BatchState::Silent => api::BatchState::Silent,
        },
        since: health.since.map(|since| api::Timestamp::nearest(since.second())),
        looked_seconds_ago: health.look_age.map(seconds),
    }
}

/// Whole seconds, rounded down.
pub(crate) fn seconds(age: Millis) -> u64 {
    u64::try_from(age.0 / 1_000).unwrap_or(0)
}
