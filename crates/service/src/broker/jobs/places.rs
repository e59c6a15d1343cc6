//! What peers offer, as the ranking of sites wants it.

use crate::broker::Peer;
use bookahead_api as api;
use bookahead_protocol::broker::name_here;
use bookahead_protocol::jobs::ranking;
use bookahead_protocol::{Millis, Name, Resource, Value};

/// What a peer offers, as the ranking wants it: where the job names a resource, that one only. A peer that is itself a broker
/// is ranked as one site.
pub(super) fn sites_of(peer: &Peer, asked: &api::SubmitJob) -> Vec<ranking::Site> {
    let number = |resource: &Resource, name: &str| match resource.attributes.get(&Name::from(name)) {
        Some(Value::Number(number)) => u64::try_from(*number).ok(),
        _ => None,
    };
    let site = |resource: &Resource| {
        let load = peer.about.loads.iter().find(|load| load.resource == resource.name);
        let mhz = number(resource, "mhz").and_then(|mhz| u32::try_from(mhz).ok());
        // Without a reference, or without a rate, the job takes as long there as its owner says.
        let rate = asked.reference_mhz.map_or(1, |reference| mhz.unwrap_or(reference));
        ranking::Site {
            resource: Resource { site: peer.name.clone(), ..resource.clone() },
            rates: vec![rate],
            requested: load.map_or(0, |load| load.requested),
            longest_wall_time: Millis::seconds(load.map_or(0, |load| load.longest_wall_time_seconds)),
            bandwidth: number(resource, "bytes-per-second"),
        }
    };
    let named = |resource: &&Resource| {
        asked.resource.as_ref().is_none_or(|wanted| *wanted == name_here(&peer.name, &resource.name))
    };
    peer.resources.iter().filter(named).map(site).collect()
}
