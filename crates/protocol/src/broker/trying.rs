//! Trying candidates: the parts of one are held all at once; if one is refused or silent, the others are given back and
//! the next best candidate without it is tried.

use super::booking::Child;
use super::calls::{About, Ended, Outgoing};
use super::{Asked, Broker, Effects, Event, LeftOut, Outcome, Pick};
use crate::candidates::{Candidate, Excluded};
use crate::clock::{Millis, Moment};
use crate::deadline::{FIRST_PATIENCE, Scheme, technical};
use crate::flaw::Flaw;
use crate::ids::{Key, Name, ReservationId};
use crate::level::Received;
use crate::message::{Answer, Call, Envelope};
use crate::problem::{Problem, Why};
use crate::request::Request;

impl Broker {
    /// Looks for the next best candidate, unless enough were tried.
    pub(super) fn try_next(&mut self, now: Moment, id: ReservationId, effects: &mut Effects) {
        let tried = self.bookings.get(&id).map_or(0, |booking| booking.attempts);
        if tried < self.rules.attempts {
            return self.search_next(now, id);
        }
        if self.searches.contains_key(&id) {
            let why = Why::NoCandidate { tried, all: false };
            self.close(now, id, Outcome::Refused(Problem::new(why)), effects);
        }
    }

    /// Writes down who will be asked for what, then asks.
    pub(super) fn try_candidate(
        &mut self,
        now: Moment,
        id: ReservationId,
        candidate: &Candidate,
        effects: &mut Effects,
    ) {
        let known = self.bookings.get(&id).and_then(|booking| booking.asked.clone());
        let opened = self.opening.remove(&id).map(|opening| opening.asked);
        let Some(asked) = opened.or(known) else { return };
        let picks: Vec<Pick> = candidate
            .slots()
            .map(|(_, peer, slot)| Pick {
                peer: peer.clone(),
                child: ReservationId(self.identities.make()),
                slot: slot.clone(),
            })
            .collect();
        self.note(effects, Event::Trying { id, at: now, asked: asked.clone(), picks: picks.clone() });
        let longest = self.longest_hold_time(picks.iter().map(|pick| &pick.peer));
        for (part, pick) in picks.into_iter().enumerate() {
            let Some(envelope) = self.hold_call(id, &asked, part, &pick, longest) else { continue };
            let until = now + self.hold_time(&pick.peer);
            let outgoing = Outgoing { to: pick.peer, envelope };
            effects.send.push(self.calls.send(now, outgoing, About::Hold { id, part }, until));
        }
    }

    fn hold_call(
        &mut self,
        id: ReservationId,
        asked: &Asked,
        part: usize,
        pick: &Pick,
        longest: Millis,
    ) -> Option<Envelope> {
        let Asked { caller, request, hold_for, book } = asked;
        let received = Call::Reserve { id, request: request.clone(), hold_for: *hold_for, book: *book };
        let permission = Received::of(&received).reserving()?;
        let part = request.parts.get(part)?.fixed(pick.slot.interval.begin, pick.slot.resource.clone());
        let fixed = Request { objective: request.objective, ..Request::single(part) };
        let trip = self.round_trip(&pick.peer);
        let technical = technical(request.parts.len(), trip, Scheme::Parallel);
        // The owner's time begins when the last part is held, and the commit must still arrive.
        let hold_for = *hold_for + longest + technical;
        Some(Envelope {
            key: Key(self.identities.make()),
            caller: caller.clone(),
            call: permission.reserve(pick.child, fixed, hold_for),
        })
    }

    fn round_trip(&self, peer: &Name) -> Millis {
        self.calls.round_trip(peer).unwrap_or(FIRST_PATIENCE)
    }

    pub(super) fn hold_ended(
        &mut self,
        now: Moment,
        id: ReservationId,
        part: usize,
        ended: &Ended,
        answer: Option<&Answer>,
        effects: &mut Effects,
    ) {
        let Some(booking) = self.bookings.get_mut(&id).filter(|booking| booking.is_trying()) else { return };
        let several = booking.children.len() > 1;
        let Some(child) = booking.children.get_mut(part) else { return };
        match answer {
            Some(Answer::Reservation(held)) if child.pick.is_held_by(held) => {
                child.held_until = held.held_for.map(|held_for| ended.sent + held_for);
                if booking.children.iter().all(|child| child.held_until.is_some()) {
                    self.all_held(now, id, effects);
                }
            }
            Some(_) if self.broken.is(Flaw::IgnoreRefusals) && several => {
                booking.children.remove(part);
                self.calls.forget(About::holds(id));
                self.all_held(now, id, effects);
            }
            _ => {
                let peer = child.pick.peer.clone();
                let resource = child.pick.slot.resource.clone();
                let start = child.pick.slot.interval.begin;
                let left_out = match (answer, self.rules.after_refusal) {
                    (None, _) => Excluded::Peer(peer),
                    (Some(_), LeftOut::Resource) => Excluded::Resource { peer, resource },
                    (Some(_), LeftOut::Slot) => Excluded::Slot { peer, resource, start },
                };
                self.give_up(now, id, &left_out, effects);
            }
        }
    }

    fn give_up(&mut self, now: Moment, id: ReservationId, left_out: &Excluded, effects: &mut Effects) {
        self.calls.forget(About::holds(id));
        self.note(effects, Event::GaveUp { id });
        self.give_back(now, id, effects);
        if let Some(search) = self.searches.get_mut(&id) {
            search.without(left_out);
        }
        self.try_next(now, id, effects);
    }

    fn all_held(&mut self, now: Moment, id: ReservationId, effects: &mut Effects) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let Some(asked) = booking.asked.clone() else { return };
        let until = self.commit_by(&booking.children).min(now + asked.hold_for);
        let first = booking.children.iter().min_by_key(|child| child.held_until);
        let first = first.map(|child| Excluded::Resource {
            peer: child.pick.peer.clone(),
            resource: child.pick.slot.resource.clone(),
        });
        if until <= now && !asked.book {
            // It would be over before the owner could hear of it.
            return match first {
                Some(shortest) => self.give_up(now, id, &shortest, effects),
                None => self.close(now, id, Outcome::Expired, effects),
            };
        }
        self.searches.remove(&id);
        self.note(effects, Event::Held { id, until });
        if asked.book {
            let Asked { request, hold_for, .. } = asked;
            self.decide(now, id, Call::Reserve { id, request, hold_for, book: true }, effects);
        } else {
            self.tell(now, id, effects);
        }
    }

    /// Until when a commit would still arrive in time everywhere, as far as was told.
    pub(super) fn commit_by(&self, children: &[Child]) -> Moment {
        let by = |child: &Child| child.held_until.map(|until| until - self.round_trip(&child.pick.peer));
        children.iter().filter_map(by).min().unwrap_or(Moment::MAX)
    }
}
