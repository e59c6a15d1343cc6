//! Measures healing: for every booking with a lost part that was not replaced, an exhaustive search decides whether a
//! replacement existed.

use super::{Grid, Tally};
use bookahead_party::{Party, Queries};
use bookahead_plan::{Interval, Time};
use bookahead_protocol::broker::{Booking, Child};
use bookahead_protocol::{Answer, Call, Constraint, Lost, Name, Part, Slot, State};

impl Grid {
    /// Counts replaced parts, and bookings that were not healed, separately for those that could be healed and those
    /// that could not.
    pub(super) fn count_healing(&mut self) {
        let mut counts = Tally::default();
        for (_, broker) in self.brokers() {
            for booking in broker.head().bookings() {
                counts.add("parts_replaced", booking.replaced.len() as u64);
                let heals = booking.asked.as_ref().is_some_and(|asked| asked.request.on_loss.heals());
                let stands = matches!(booking.state, State::Committed | State::Active);
                let lost = || booking.children.iter().filter(|child| is_lost(child));
                // A part that has begun is replaced only for the rest of its time, which this search does not model.
                let ahead = lost().all(|child| child.pick.slot.interval.begin > self.now.second());
                if !heals || !stands || !ahead || lost().next().is_none() {
                    continue;
                }
                let all = self.places_of_all(booking);
                let healed = combinations(&all, &mut Vec::new(), &mut |slots| keeps(booking, slots));
                counts.add("bookings_not_healed_that_could_be", u64::from(healed));
                counts.add("bookings_that_cannot_be_healed", u64::from(!healed));
            }
        }
        self.witness.reached.add_all(&counts);
    }

    /// Possible slots of each part: its present one, or, if it is lost, every slot that a site would grant at the same
    /// times.
    fn places_of_all(&self, booking: &Booking) -> Vec<Vec<Slot>> {
        let Some(asked) = &booking.asked else { return Vec::new() };
        let mut all = Vec::new();
        for (part, child) in asked.request.parts.iter().zip(&booking.children) {
            if !is_lost(child) {
                all.push(vec![child.pick.slot.clone()]);
                continue;
            }
            let slot = &child.pick.slot;
            let mut part = part.fixed(slot.interval.begin, slot.resource.clone());
            part.wanted.latest_end = slot.interval.end;
            part.wanted.duration = slot.interval.end - slot.interval.begin;
            part.wanted.capacity = slot.capacity;
            all.push(self.places(booking, &part, child));
        }
        all
    }

    fn places(&self, booking: &Booking, part: &Part, child: &Child) -> Vec<Slot> {
        let Some(asked) = &booking.asked else { return Vec::new() };
        let mut places = Vec::new();
        for (party, site) in self.sites() {
            for offered in &site.rules().resources {
                let resource = &offered.resource.name;
                let part = Part { resource: Some(resource.clone()), ..part.clone() };
                let was_here =
                    child.pick.slot.site == party.name && is_of(&child.pick.slot.resource, resource);
                // A broker does not put a part back on a resource whose operator cancelled it.
                let revoked = child.loss.is_some_and(|loss| loss.why == Lost::Revoked);
                if !offered.resource.suits(&part) || was_here && revoked {
                    continue;
                }
                let request = bookahead_protocol::Request::single(part);
                let call = Call::Probe { request, most: 1, starts: Vec::new() };
                let local = self.now + party.ahead;
                if let Some(Answer::Offers(offers)) =
                    site.party().read_copy().ask(local, &asked.caller, &call)
                {
                    places.extend(offers.into_iter().flat_map(|offer| offer.slots));
                }
            }
        }
        places
    }
}

fn is_lost(child: &Child) -> bool {
    child.loss.is_some_and(|loss| loss.why != Lost::GivenUp)
}

/// Whether a broker's name of a resource (`site/resource`) refers to this resource.
fn is_of(named: &Name, resource: &Name) -> bool {
    named.as_str().rsplit('/').next() == Some(resource.as_str())
}

/// Whether any choice of one slot per part is accepted by `will_do`.
fn combinations(
    all: &[Vec<Slot>],
    chosen: &mut Vec<Slot>,
    will_do: &mut impl FnMut(&[Slot]) -> bool,
) -> bool {
    let Some(choices) = all.get(chosen.len()) else { return will_do(chosen) };
    choices.iter().any(|slot| {
        chosen.push(slot.clone());
        let found = combinations(all, chosen, will_do);
        chosen.pop();
        found
    })
}

/// Whether slots meet the place constraints, and lost parts on one resource fit together. Time constraints hold,
/// because the times stay the same.
fn keeps(booking: &Booking, slots: &[Slot]) -> bool {
    let Some(asked) = &booking.asked else { return false };
    let given_up = |part: &usize| !booking.has_part(*part) && !is_lost(&booking.children[*part]);
    let site = |part: usize| &slots[part].site;
    let keeps = |constraint: &Constraint| match constraint {
        constraint if constraint.parts().iter().any(given_up) => true,
        Constraint::SameSite(one, other) => site(*one) == site(*other),
        Constraint::DifferentSites(one, other) => site(*one) != site(*other),
        Constraint::Joins { link, ends: [one, other] } => slots[*link].joins.as_ref().is_some_and(|joins| {
            let ends = [site(*one), site(*other)];
            ends == [&joins[0], &joins[1]] || ends == [&joins[1], &joins[0]]
        }),
        Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. } => true,
    };
    asked.request.constraints.iter().all(keeps) && fit_together(booking, slots)
}

fn fit_together(booking: &Booking, slots: &[Slot]) -> bool {
    let lost: Vec<&Slot> = slots
        .iter()
        .zip(&booking.children)
        .filter(|(_, child)| is_lost(child))
        .map(|(slot, _)| slot)
        .collect();
    let overlap = |one: Interval, at: Time| one.begin <= at && at < one.end;
    lost.iter().all(|slot| {
        let here = |other: &&&Slot| (&other.site, &other.resource) == (&slot.site, &slot.resource);
        let at_once = lost.iter().filter(here).filter(|other| overlap(other.interval, slot.interval.begin));
        let taken: u64 = at_once.map(|other| u64::from(other.capacity.0)).sum();
        slot.free.is_none_or(|free| taken <= u64::from(free.0))
    })
}
