//! Queries of a broker: its bookings as reservations on its peers' resources, its peers, and its jobs.
//! Answered from events and published data only, so a copy for readers gives the same answers.

use super::Broker;
use crate::queries::{BookedPart, Figures, Filter, Page, Queries, Viewer};
use crate::register::{Heartbeat, Known, Role};
use crate::schedule::{Block, BlockKind, ResourceSchedule, ScheduleWindow};
use bookahead_plan::{Capacity, Span};
use bookahead_protocol::broker::{Booking, Outcome};
use bookahead_protocol::jobs::JobView;
use bookahead_protocol::{
    Answer, Call, Caller, JobId, Moment, Name, Reservation, ReservationId, Resource, Slot, State,
};
use std::collections::BTreeMap;

impl Queries for Broker {
    fn role(&self) -> Role {
        Role::Broker
    }

    fn resources(&self) -> Vec<Resource> {
        self.register.offered().map(|offered| offered.resource).collect()
    }

    fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        // Without a request it was cancelled before it was received: only its id is known.
        self.head.booking(id).filter(|booking| booking.asked.is_some()).map(|booking| booking.view(now))
    }

    fn figures(&self, _now: Moment) -> Figures {
        let peers = self.register.all().map(|known| (known.said.name.clone(), known.up));
        Figures { peers: peers.collect(), ..Figures::default() }
    }

    fn list(&self, now: Moment, filter: &Filter) -> Page {
        let known = self.head.bookings().filter(|booking| booking.asked.is_some());
        let seen = known.filter(|booking| filter.may_want(&booking.owner(), booking.guests()));
        filter.page(seen.map(|booking| booking.view(now)))
    }

    fn schedule(
        &self,
        now: Moment,
        viewer: &Viewer,
        window: &ScheduleWindow,
        resource: Option<&Name>,
    ) -> Vec<ResourceSchedule> {
        let wanted = |name: &Name| resource.is_none_or(|wanted| wanted == name);
        let offered: Vec<Resource> =
            self.resources().into_iter().filter(|resource| wanted(&resource.name)).collect();
        let mut blocks: BTreeMap<Name, Vec<Block>> =
            offered.iter().map(|resource| (resource.name.clone(), Vec::new())).collect();
        // A candidate takes no capacity yet: its peers may refuse it.
        let takes_room =
            |booking: &&Booking| booking.state.holds_capacity() && booking.state != State::Requested;
        for booking in self.head.bookings().filter(takes_room) {
            let there = |part: &usize| booking.has_part(*part);
            for (_, child) in booking.children.iter().enumerate().filter(|(part, _)| there(part)) {
                let slot = child.pick.slot_here();
                let within =
                    slot.interval.begin < window.interval.end && window.interval.begin < slot.interval.end;
                if let Some(blocks) = blocks.get_mut(&slot.resource).filter(|_| within) {
                    let missing = child.loss.map_or(Capacity::ZERO, |loss| loss.missing);
                    blocks.push(block(booking, &slot, missing.min(slot.capacity), viewer));
                }
            }
        }
        let count = offered.len();
        let drawn = offered.into_iter().map(|Resource { name, capacity, .. }| {
            let blocks = blocks.remove(&name).unwrap_or_default();
            ResourceSchedule::new(name, capacity, now.second(), Capacity::ZERO)
                .with_blocks(blocks, window, count)
        });
        let mut drawn: Vec<ResourceSchedule> = drawn.collect();
        drawn.sort_by(|one, other| one.resource.cmp(&other.resource));
        drawn
    }

    fn sites(&self, now: Moment) -> Vec<Known> {
        let said = Heartbeat {
            resources: self.register.offered().collect(),
            hold_takes: self.register.hold_takes(),
            changes: Some(self.changes.clone()),
            ..self.about.clone()
        };
        let itself = Known { said, last_heard: Some(now.second()), round_trip: None, up: true };
        let told = |known: &Known| {
            let mut known = known.clone();
            // These ids belong to reservations at the peer, which only this broker queries there.
            known.said.changes = None;
            known
        };
        std::iter::once(itself).chain(self.register.all().map(told)).collect()
    }

    fn job_place(&self, id: JobId) -> Option<(Name, JobId)> {
        self.jobs.place_of(id)
    }

    fn job(&self, id: JobId) -> Option<JobView> {
        self.jobs.job(id)
    }

    fn jobs(&self, viewer: &Viewer) -> Vec<JobView> {
        self.jobs.shown(viewer)
    }

    fn booked(&self, id: ReservationId) -> Vec<BookedPart> {
        let Some(booking) = self.head.booking(id).filter(|booking| booking.asked.is_some()) else {
            return Vec::new();
        };
        let (state, over) = (booking.state, booking.ended.filter(|_| booking.state.is_over()));
        let failed = matches!(booking.outcome, Some(Outcome::PartLost | Outcome::Lost));
        let parts = booking.children.iter().enumerate().map(|(part, child)| {
            let slot = child.pick.slot_here();
            let gone = child.loss.filter(|loss| loss.why.is_gone()).map(|loss| loss.since);
            BookedPart {
                part,
                owner: booking.owner(),
                resource: slot.resource,
                state,
                spans: vec![Span { interval: slot.interval, capacity: slot.capacity }],
                with_past: false,
                missing: child.loss.filter(|_| gone.is_none()).map_or(Capacity::ZERO, |loss| loss.missing),
                accepted: None,
                window: None,
                ended: gone.into_iter().chain(over).min(),
                lost: failed || gone.is_some_and(|gone| over.is_none_or(|over| gone < over)),
            }
        });
        parts.collect()
    }

    fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        self.head.bookings().for_each(|booking| *counts.entry(booking.state).or_default() += 1);
        counts
    }

    fn ask(&mut self, now: Moment, caller: &Caller, call: &Call) -> Option<Answer> {
        match call {
            Call::Show { id } => Some(self.head.show(now, *id, caller)),
            // A probe has to ask peers.
            _ => None,
        }
    }
}

fn block(booking: &Booking, slot: &Slot, missing: Capacity, viewer: &Viewer) -> Block {
    let owner = booking.owner();
    let seen = viewer.sees_shared(&owner, booking.guests());
    let is_named = seen && !booking.guests().is_invited(&viewer.user);
    Block {
        kind: if booking.state == State::Held { BlockKind::Hold } else { BlockKind::Reservation },
        span: Span { interval: slot.interval, capacity: Capacity(slot.capacity.0 - missing.0) },
        reservation: seen.then_some((booking.id, owner, booking.state)),
        name: booking.request().and_then(|request| request.description.name.clone()).filter(|_| is_named),
        missing,
    }
}
