//! What can be seen of a broker: its bookings, as reservations on its peers' resources, and its peers.

use super::{Broker, Peer};
use crate::party::{Filter, Sight, Viewer};
use bookahead_api as api;
use bookahead_plan::{Interval, Time};
use bookahead_protocol::broker::Booking;
use bookahead_protocol::{Moment, Name, Reservation, ReservationId, Resource, Slot, State};
use std::collections::BTreeMap;

/// Of one resource at most so much is drawn.
const MOST_BLOCKS: usize = 10_000;

impl Sight for Broker {
    fn role(&self) -> api::Role {
        api::Role::Broker
    }

    fn resources(&self) -> Vec<Resource> {
        self.head.resources()
    }

    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        self.head.booking(id).filter(|booking| booking.asked.is_some()).map(|booking| booking.view(now))
    }

    fn list(&self, now: Moment, filter: &Filter) -> (Vec<Reservation>, bool) {
        let known = self.head.bookings_after(filter.after).filter(|booking| booking.asked.is_some());
        filter.page(known.map(|booking| booking.view(now)))
    }

    fn schedule(
        &mut self,
        now: Moment,
        viewer: &Viewer,
        window: Interval,
        resource: Option<&Name>,
    ) -> api::Schedule {
        let wanted = |name: &Name| resource.is_none_or(|wanted| wanted == name);
        let offered = self.resources().into_iter().filter(|resource| wanted(&resource.name));
        let mut drawn: BTreeMap<Name, api::ResourceSchedule> = offered
            .map(|resource| {
                let schedule = api::ResourceSchedule {
                    resource: resource.name.clone(),
                    capacity: resource.capacity.0,
                    now: api::Timestamp::nearest(now.second()),
                    lost: 0,
                    blocks: Vec::new(),
                };
                (resource.name, schedule)
            })
            .collect();
        for booking in self.head.bookings().filter(|booking| booking.state.holds_capacity()) {
            for slot in booking.children.iter().map(|child| child.pick.slot_here()) {
                let within = slot.interval.begin < window.end && window.begin < slot.interval.end;
                if let Some(schedule) = drawn.get_mut(&slot.resource).filter(|_| within)
                    && schedule.blocks.len() < MOST_BLOCKS
                {
                    schedule.blocks.extend(block(booking, &slot, viewer));
                }
            }
        }
        drawn.values_mut().for_each(|schedule| schedule.blocks.sort_by_key(|block| (block.begin, block.end)));
        api::Schedule { resources: drawn.into_values().collect() }
    }

    fn sites(&mut self, now: Moment) -> Vec<api::Site> {
        let resources = self.register.offered(self.courier.identity());
        let last_heard = Some(api::Timestamp::nearest(now.second()));
        let itself = api::Site { resources, last_heard, ..self.about.clone() };
        std::iter::once(itself).chain(self.register.all().map(shown)).collect()
    }

    fn jobs(&self, viewer: &Viewer) -> Vec<api::Job> {
        self.jobs.shown(viewer)
    }

    fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        self.head.bookings().for_each(|booking| *counts.entry(booking.state).or_default() += 1);
        counts
    }
}

fn block(booking: &Booking, slot: &Slot, viewer: &Viewer) -> Option<api::Block> {
    let stamp = |time: Time| api::Timestamp::try_from(time).ok();
    let held = booking.state == State::Held;
    let owner = booking.owner();
    let seen = viewer.sees(&owner);
    Some(api::Block {
        kind: if held { api::BlockKind::Hold } else { api::BlockKind::Reservation },
        begin: stamp(slot.interval.begin)?,
        end: stamp(slot.interval.end)?,
        capacity: slot.capacity.0,
        id: seen.then(|| booking.id.to_string()),
        owner: seen.then_some(owner),
        state: seen.then(|| booking.state.into()),
    })
}

fn shown(peer: &Peer) -> api::Site {
    let state = if peer.up { api::Reachability::Up } else { api::Reachability::Silent };
    api::Site {
        name: peer.name.clone(),
        url: peer.url.clone(),
        role: peer.about.role,
        resources: peer.about.resources.clone(),
        attributes: peer.about.attributes.clone(),
        loads: peer.about.loads.clone(),
        last_heard: Some(api::Timestamp::nearest(peer.heard.second())),
        round_trip_ms: peer.round_trip,
        state,
        version: peer.about.version.clone(),
    }
}
