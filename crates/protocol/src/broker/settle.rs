//! Committing what is held, and giving back what is not wanted any more. Both go on until every peer has answered: that
//! is what makes it all or nothing.

use super::calls::{About, Outgoing};
use super::{Broker, Effects, Event, Outcome};
use crate::clock::Moment;
use crate::flaw::Flaw;
use crate::ids::{Key, ReservationId};
use crate::level::{Received, cancel};
use crate::life_cycle::State;
use crate::message::{Answer, Call, Envelope};

impl Broker {
    /// Decides to commit: from here on it is finished or undone.
    pub(super) fn decide(&mut self, now: Moment, id: ReservationId, call: Call, effects: &mut Effects) {
        self.note(effects, Event::Decided { id, call });
        self.send_commits(now, id, effects);
    }

    pub(super) fn send_commits(&mut self, now: Moment, id: ReservationId, effects: &mut Effects) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let (Some(asked), Some(call)) = (&booking.asked, &booking.decided) else { return };
        let Some(permission) = Received::of(call).committing() else { return };
        // Who has not answered by the time it begins is too late.
        let begins = booking.begins().map_or(now, Moment::of);
        let uncommitted = booking.children.iter().enumerate().filter(|(_, child)| !child.committed);
        for (part, child) in uncommitted {
            let jobs = booking.jobs.iter().filter(|(at, _)| *at == part).map(|(_, job)| *job).collect();
            let envelope = Envelope {
                key: Key(self.identities.make()),
                caller: asked.caller.clone(),
                call: permission.commit(child.pick.child, jobs),
            };
            let outgoing = Outgoing { to: child.pick.peer.clone(), envelope };
            let until = begins.max(now + self.hold_time(&child.pick.peer));
            effects.send.push(self.calls.send(now, outgoing, About::Commit { id, part }, until));
        }
    }

    pub(super) fn commit_ended(
        &mut self,
        now: Moment,
        id: ReservationId,
        part: usize,
        answer: Option<&Answer>,
        effects: &mut Effects,
    ) {
        let Some(booking) = self.bookings.get_mut(&id) else { return };
        if !booking.is_being_committed() {
            return;
        }
        let committed = matches!(answer, Some(Answer::Reservation(reservation))
            if matches!(reservation.state, State::Committed | State::Active | State::Completed));
        if !committed {
            return self.close(now, id, Outcome::PartLost, effects);
        }
        if let Some(child) = booking.children.get_mut(part) {
            child.committed = true;
        }
        if booking.children.iter().all(|child| child.committed) {
            self.note(effects, Event::Committed { id });
            self.tell(now, id, effects);
        }
    }

    /// It is over: says so to whoever waits, and gives back what there is.
    pub(super) fn close(&mut self, now: Moment, id: ReservationId, outcome: Outcome, effects: &mut Effects) {
        let opened = self.opening.remove(&id).map(|opening| {
            self.drop_survey(opening.survey);
            opening.asked
        });
        let asked = opened.or_else(|| self.bookings.get(&id).and_then(|booking| booking.asked.clone()));
        self.drop_searches(id);
        self.calls.forget(About::holds(id));
        self.calls.forget(About::commits(id));
        self.note(effects, Event::Closed { id, at: now, asked, outcome });
        self.tell(now, id, effects);
        self.give_back(now, id, effects);
    }

    /// Asks the peers to take back what is left over, as far as they are not asked already.
    pub(super) fn give_back(&mut self, now: Moment, id: ReservationId, effects: &mut Effects) {
        if self.broken.is(Flaw::ForgetToCancel) {
            return;
        }
        let Some(booking) = self.bookings.get(&id) else { return };
        let Some(asked) = &booking.asked else { return };
        // What was never to be committed evaporates by itself, so that nobody needs to be asked for ever.
        let until = match booking.decided {
            None => {
                let longest = self.longest_hold_time(booking.leftovers.iter().map(|pick| &pick.peer));
                now + asked.hold_for + asked.hold_for + longest + self.rules.longest_hold
            }
            Some(_) => Moment::MAX,
        };
        for pick in &booking.leftovers {
            let about = About::Cancel { id, child: pick.child };
            if self.given_back.contains(&pick.child) || self.calls.is_under_way(about) {
                continue;
            }
            let envelope = Envelope {
                key: Key(self.identities.make()),
                caller: asked.caller.clone(),
                call: cancel(pick.child),
            };
            let outgoing = Outgoing { to: pick.peer.clone(), envelope };
            effects.send.push(self.calls.send(now, outgoing, about, until));
        }
    }

    pub(super) fn cancel_ended(
        &mut self,
        now: Moment,
        id: ReservationId,
        child: ReservationId,
        answer: Option<&Answer>,
        effects: &mut Effects,
    ) {
        if let Some(Answer::Problem(problem)) = answer
            && problem.why.is_passing()
        {
            // It was not even looked at.
            return self.give_back(now, id, effects);
        }
        self.given_back.insert(child);
        let Some(booking) = self.bookings.get(&id) else { return };
        if booking.leftovers.iter().all(|pick| self.given_back.contains(&pick.child)) {
            for pick in &booking.leftovers {
                self.given_back.remove(&pick.child);
            }
            self.note(effects, Event::Settled { id });
        }
    }
}
