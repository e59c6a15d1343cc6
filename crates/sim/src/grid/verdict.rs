//! The last look at a grid, when all should be settled: bookings that stand in part, what is held for nobody, and clients
//! that were told something else. It relies on the books of the parties and on what the witness heard.

use super::Grid;
use super::party::Role;
use super::witness::{Rule, Violation, is_standing};
use bookahead_protocol::broker::{Booking, Event, Outcome, Pick};
use bookahead_protocol::{Answer, Moment, Name, ReservationId, State};
use std::collections::BTreeSet;

impl Grid {
    /// Looks at everything once more, when all should be settled; gives all that was seen that must not be.
    pub fn verdict(&mut self, settled: bool) -> Vec<Violation> {
        let now = self.now;
        if !settled {
            let busy: Vec<String> = self.unsettled();
            let what = format!("not settled: {}", busy.join(", "));
            self.witness.violated(Rule::Settled, now, what);
        }
        for (at, party) in self.parties.iter().enumerate() {
            self.witness.check_promises(now, party, at);
        }
        for what in self.broken_bookings().into_iter().chain(self.orphans()) {
            self.witness.violated(Rule::AllOrNothing, now, what);
        }
        for what in self.deceived_clients() {
            self.witness.violated(Rule::KeptPromises, now, what);
        }
        for party in &self.parties {
            if let Role::Broker(broker) = &party.role {
                for booking in broker.head().bookings() {
                    let reached = &mut self.witness.reached;
                    reached.commits += u64::from(is_standing(booking.state));
                    reached.cancels += u64::from(booking.outcome == Some(Outcome::Cancelled));
                    reached.refusals += u64::from(matches!(booking.outcome, Some(Outcome::Refused(_))));
                }
            }
        }
        std::mem::take(&mut self.witness.violations)
    }

    fn unsettled(&self) -> Vec<String> {
        let busy = self.parties.iter().filter_map(|party| match &party.role {
            _ if !party.up => Some(format!("{} is down", party.name)),
            Role::Broker(broker) if !broker.head().is_settled() => Some(format!("{} is busy", party.name)),
            Role::Client(client) if !client.is_done() => Some(format!("{} waits", party.name)),
            _ => None,
        });
        let travelling = format!("{} messages travel", self.travelling);
        busy.chain((self.travelling > 0).then_some(travelling)).collect()
    }

    /// How a reservation is at a party; None where it is not known there.
    fn state_at(&self, party: &Name, id: ReservationId) -> Option<State> {
        match &self.parties[self.place(party)?].role {
            Role::Site(site) => site.ledger().entry(id).map(|entry| entry.state),
            Role::Broker(broker) => {
                broker.head().bookings().find(|booking| booking.id == id).map(|booking| booking.state)
            }
            Role::Client(_) => None,
        }
    }

    /// Bookings of which some parts stand and others do not.
    fn broken_bookings(&self) -> Vec<String> {
        let mut broken = Vec::new();
        for party in &self.parties {
            let Role::Broker(broker) = &party.role else { continue };
            for booking in broker.head().bookings() {
                let standing = is_standing(booking.state);
                let parts = booking.asked.as_ref().map_or(0, |asked| asked.request.parts.len());
                if standing && booking.children.len() != parts {
                    broken.push(format!("{}: {} stands with parts missing", party.name, booking.id));
                }
                if !standing {
                    broken.extend(self.standing_parts(&party.name, booking, broker.journal()));
                }
                for child in booking.children.iter().filter(|_| standing) {
                    let state = self.state_at(&child.pick.peer, child.pick.child);
                    if !state.is_some_and(is_standing) {
                        let what = format!("{}: {} stands, its part at", party.name, booking.id);
                        broken.push(format!("{what} {} is {state:?}", child.pick.peer));
                    }
                }
            }
        }
        broken
    }

    /// Parts that stand although the booking does not.
    fn standing_parts(&self, party: &Name, booking: &Booking, journal: &[Event]) -> Vec<String> {
        let picks = journal.iter().filter_map(|event| match event {
            Event::Trying { id, picks, .. } if *id == booking.id => Some(picks),
            _ => None,
        });
        let stands = |pick: &&Pick| match self.state_at(&pick.peer, pick.child) {
            // What had ended when the rest was given up, or before its site could be told, cannot be given back.
            Some(State::Completed) => {
                let asked = self.witness.given_up.contains(&pick.child);
                !asked && booking.ended.is_none_or(|ended| ended < Moment::of(pick.slot.interval.end))
            }
            state => state.is_some_and(is_standing),
        };
        let standing = picks.flatten().filter(stands);
        let what = |pick: &Pick| {
            let Booking { id, state, .. } = booking;
            format!("{party}: {id} is {state}, its part {} at {} stands", pick.child, pick.peer)
        };
        standing.map(what).collect()
    }

    /// What is held or stands and belongs to nothing that does.
    fn orphans(&self) -> Vec<String> {
        let mut wanted: BTreeSet<(Name, ReservationId)> = BTreeSet::new();
        for party in &self.parties {
            match &party.role {
                Role::Broker(broker) => {
                    let live = broker.head().bookings().filter(|booking| booking.state.holds_capacity());
                    let children = live.flat_map(|booking| &booking.children);
                    wanted.extend(children.map(|child| (child.pick.peer.clone(), child.pick.child)));
                }
                Role::Client(client) => {
                    let ids = client.records().iter().map(|record| (client.asks().clone(), record.id));
                    wanted.extend(ids);
                }
                Role::Site(_) => {}
            }
        }
        let mut orphans = Vec::new();
        for party in &self.parties {
            let live: Vec<ReservationId> = match &party.role {
                Role::Site(site) => {
                    site.ledger().entries().filter(|(_, entry)| entry.is_live()).map(|(id, _)| id).collect()
                }
                Role::Broker(broker) => {
                    let live = broker.head().bookings().filter(|booking| booking.state.holds_capacity());
                    live.map(|booking| booking.id).collect()
                }
                Role::Client(_) => Vec::new(),
            };
            let orphaned = live.into_iter().filter(|id| !wanted.contains(&(party.name.clone(), *id)));
            orphans.extend(orphaned.map(|id| format!("{}: {id} is held for nobody", party.name)));
        }
        orphans
    }

    /// Clients that were told something which is not so.
    fn deceived_clients(&self) -> Vec<String> {
        let mut deceived = Vec::new();
        for party in &self.parties {
            let Role::Client(client) = &party.role else { continue };
            for record in client.records().iter().filter(|record| !record.cancelled) {
                let state = self.state_at(client.asks(), record.id);
                let stands = state.is_some_and(is_standing);
                let told = record.was_told_committed();
                if told != stands && (told || record.was_told_no()) {
                    let said = record.last().map_or("nothing", Answer::word);
                    deceived
                        .push(format!("{} was told {said} of {}, it is {state:?}", party.name, record.id));
                }
            }
        }
        deceived
    }
}
