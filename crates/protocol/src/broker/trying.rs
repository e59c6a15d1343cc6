//! Trying candidates, committing holds, and releasing what is no longer needed. The parts of a candidate are
//! held in parallel or one after the other. If one is refused or its peer does not answer, the others are
//! released and the next best candidate without it is tried. If a competitor was faster, all peers are
//! surveyed again after a random delay. Commits and cancels are repeated until every peer has answered; this
//! makes a booking all or nothing.

use super::booking::Child;
use super::calls::{About, Pending};
use super::searching::Goal;
use super::survey::replaced_at;
use super::{Asked, Broker, Event, LeftOut, Outcome, Outgoing, Pick, Step};
use crate::candidates::{Candidate, Excluded};
use crate::clock::{Millis, Moment};
use crate::deadline::{FIRST_PATIENCE, Scheme, technical};
use crate::flaw::Flaw;
use crate::ids::{Key, Name, ReservationId};
use crate::level::{Permission, Received, Reserving, cancel};
use crate::life_cycle::State;
use crate::message::{Answer, Call, Envelope};
use crate::problem::{Problem, Why};

/// Longest random delay before the first new survey; it doubles with every round. Competitors draw different
/// delays. A survey and a hold take a few milliseconds if no batch system is asked.
const FIRST_WAIT: Millis = Millis(10);

/// Most doublings of the delay: by then it is more than half a second, which is enough for 64 competitors to
/// come one after another.
const MOST_DOUBLINGS: u32 = 6;

/// Surveys in a row without a candidate after which the request is refused: short holds of competitors are
/// gone by then.
const MOST_EMPTY: u32 = 5;

impl Broker {
    /// Searches the next best candidate, unless the limit is reached.
    fn try_next(&mut self, id: ReservationId, step: &mut Step) {
        let tried = self.tried(id);
        let Some(search) = self.tries.get_mut(&id).and_then(|tried| tried.search.take()) else { return };
        if tried < self.rules.attempts {
            return self.begin_search(step.now, search, Goal::Next(id));
        }
        self.refuse(id, self.no_more_candidates(id, false), step);
    }

    /// Why no candidate is left: the rule of a site that refused one, or that each was taken.
    pub(super) fn no_more_candidates(&self, id: ReservationId, all: bool) -> Problem {
        let refusal = self.tries.get(&id).and_then(|tried| tried.refusal.clone());
        refusal.unwrap_or_else(|| Problem::new(Why::NoCandidate { tried: self.tried(id), all }))
    }

    /// Number of candidates tried for a booking, or for replacements of its parts.
    pub(super) fn tried(&self, id: ReservationId) -> u32 {
        self.tries.get(&id).map_or(0, |tried| tried.attempts)
    }

    /// No candidate or replacement is available.
    pub(super) fn refuse(&mut self, id: ReservationId, problem: Problem, step: &mut Step) {
        if self.healing.contains_key(&id) {
            return self.not_healed(id, problem, step);
        }
        self.close(id, Outcome::Refused(problem), step);
    }

    /// A competitor was faster. Schedules a new survey, or refuses with `problem` if a limit is reached.
    pub(super) fn ask_again(&mut self, id: ReservationId, problem: Problem, step: &mut Step) {
        let Some(tried) = self.tries.get_mut(&id) else { return };
        let longest = FIRST_WAIT.0 << tried.rounds.min(MOST_DOUBLINGS);
        let at = step.now + Millis(1 + drawn(id, tried.rounds, longest));
        if tried.attempts >= self.rules.attempts || at > tried.until || tried.empty > MOST_EMPTY {
            return self.refuse(id, problem, step);
        }
        (tried.again, tried.search) = (Some(at), None);
        tried.rounds += 1;
        tried.empty += 1;
        self.retries.insert((at, id));
    }

    /// Starts the surveys that are due.
    pub(super) fn retry(&mut self, step: &mut Step) {
        while let Some(&(at, id)) = self.retries.first().filter(|(at, _)| *at <= step.now) {
            self.retries.remove(&(at, id));
            if let Some(tried) = self.tries.get_mut(&id) {
                tried.again = None;
                let survey = tried.survey.afresh();
                self.ask_around(survey, step);
            }
        }
    }

    /// Stores the picks, then asks the peers to hold them. After a crash in between, the stored ids can be
    /// cancelled.
    pub(super) fn try_candidate(&mut self, id: ReservationId, candidate: &Candidate, step: &mut Step) {
        if let Some(tried) = self.tries.get_mut(&id) {
            tried.attempts += 1;
        }
        if self.healing.contains_key(&id) {
            return self.try_replacements(id, candidate, step);
        }
        let opened = self.opening.remove(&id);
        let known = self.bookings.get(&id).is_some_and(|booking| booking.asked.is_some());
        if opened.is_none() && !known {
            return;
        }
        let picks: Vec<Pick> = candidate
            .slots()
            .map(|(_, peer, slot)| Pick {
                peer: peer.clone(),
                child: ReservationId(self.identities.make()),
                slot: slot.clone(),
            })
            .collect();
        self.note(Event::Trying { id, at: step.now, asked: opened, picks: picks.clone() }, step);
        self.begin_holds(id, picks.into_iter().enumerate().collect(), step);
    }

    /// Asks the peers of a stored candidate to hold their parts: all of them, or the first.
    pub(super) fn begin_holds(&mut self, id: ReservationId, picks: Vec<(usize, Pick)>, step: &mut Step) {
        if let Some(tried) = self.tries.get_mut(&id) {
            tried.to_ask = picks.into();
        }
        self.send_holds(id, step);
    }

    /// Asks the next peer to hold its part, or all peers at once.
    fn send_holds(&mut self, id: ReservationId, step: &mut Step) {
        let Some(tried) = self.tries.get(&id).filter(|tried| !tried.to_ask.is_empty()) else { return };
        let Some((asked, received)) = self.asked_for_holds(id) else { return };
        let Some(permission) = Received::of(&received).reserving() else { return };
        let longest = self.candidate_hold_time(tried.to_ask.iter().map(|(_, pick)| &pick.peer));
        let Some(tried) = self.tries.get_mut(&id) else { return };
        let at_once = match self.rules.holding {
            Scheme::Parallel => tried.to_ask.len(),
            Scheme::Sequential => 1,
        };
        let picks: Vec<(usize, Pick)> = tried.to_ask.drain(..at_once).collect();
        for (part, pick) in picks {
            let Some(envelope) = self.hold_call(&asked, permission, part, &pick, longest) else { continue };
            let until = step.now + self.hold_time(&pick.peer);
            let outgoing = Outgoing { to: pick.peer, envelope };
            self.calls.send(outgoing, About::Hold { id, part }, until, step);
        }
    }

    /// The request that a candidate satisfies, and the call that permits to hold it.
    fn asked_for_holds(&self, id: ReservationId) -> Option<(Asked, Call)> {
        if self.healing.contains_key(&id) {
            return self.asked_of_lost(id);
        }
        let asked = self.bookings.get(&id)?.asked.clone()?;
        let Asked { request, hold_for, book, .. } = asked.clone();
        Some((asked, Call::Reserve { id, request, hold_for, book }))
    }

    fn hold_call(
        &mut self,
        asked: &Asked,
        permission: Permission<Reserving>,
        part: usize,
        pick: &Pick,
        longest: Millis,
    ) -> Option<Envelope> {
        let Asked { caller, request, hold_for, .. } = asked;
        let mut part = request.parts.get(part)?.fixed(pick.slot.interval.begin, pick.slot.resource.clone());
        part.replaces = replaced_at(&self.bookings, part.replaces);
        let fixed = request.for_part(part);
        let trip = self.round_trip(&pick.peer);
        let technical = technical(request.parts.len(), trip, self.rules.holding);
        // The owner's time starts when the last part is held, and the commit must still arrive.
        let hold_for = *hold_for + longest + technical;
        Some(Envelope {
            key: Key(self.identities.make()),
            caller: caller.clone(),
            call: permission.reserve(pick.child, fixed, hold_for),
        })
    }

    pub(super) fn round_trip(&self, peer: &Name) -> Millis {
        self.calls.round_trip(peer).unwrap_or(FIRST_PATIENCE)
    }

    pub(super) fn hold_ended(
        &mut self,
        id: ReservationId,
        part: usize,
        ended: &Pending,
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        let Some(booking) = self.bookings.get_mut(&id) else { return };
        let several = booking.is_trying() && booking.children.len() > 1;
        let Some(child) = booking.awaited(part) else { return };
        match answer {
            Some(Answer::Reservation(held)) if child.pick.is_held_by(held) => {
                // Counted from the moment of sending, so the hold is never assumed to last longer than it
                // does.
                child.held_until = held.held_for.map(|held_for| ended.sent + held_for);
                if booking.all_awaited().iter().all(|child| child.held_until.is_some()) {
                    self.all_held(id, step);
                } else {
                    self.send_holds(id, step);
                }
            }
            Some(_) if self.broken.is(Flaw::IgnoreRefusals) && several => {
                booking.children.remove(part);
                self.calls.forget(About::holds(id));
                self.all_held(id, step);
            }
            _ => {
                let peer = child.pick.peer.clone();
                let resource = child.pick.slot.resource.clone();
                let start = child.pick.slot.interval.begin;
                // The peer remembers this refusal, so that a late repetition of the call holds nothing either.
                if let Some(Answer::Problem(problem)) = answer {
                    if problem.why.is_final() {
                        self.given_back.insert(child.pick.child);
                    }
                    if problem.why.is_rule()
                        && let Some(tried) = self.tries.get_mut(&id)
                    {
                        tried.refusal = Some(problem.clone().of_peer(&peer));
                    }
                }
                // A timeout excludes the peer. A slot taken by a competitor excludes nothing: it may be free
                // again in a moment.
                let left_out = match (answer, self.rules.after_refusal) {
                    (None, _) => Some(Excluded::Peer(peer)),
                    (Some(_), LeftOut::Resource) => Some(Excluded::Resource { peer, resource }),
                    (Some(Answer::Problem(problem)), LeftOut::Slot) if is_taken(&problem.why) => None,
                    (Some(_), LeftOut::Slot) => Some(Excluded::Slot { peer, resource, start }),
                };
                self.give_up(id, left_out, step);
            }
        }
    }

    /// Releases the current candidate and continues without the excluded part.
    pub(super) fn give_up(&mut self, id: ReservationId, left_out: Option<Excluded>, step: &mut Step) {
        self.calls.forget(About::holds(id));
        self.calls.forget(About::commits(id));
        self.drop_unasked(id);
        let healing = self.healing.contains_key(&id);
        self.note(if healing { Event::NotReplaced { id } } else { Event::GaveUp { id } }, step);
        self.give_back(id, step);
        let Some(left_out) = left_out else {
            return self.ask_again(id, self.no_more_candidates(id, false), step);
        };
        if let Some(tried) = self.tries.get_mut(&id) {
            tried.search.iter_mut().for_each(|search| search.without(&left_out));
            if let Excluded::Peer(silent) = &left_out {
                tried.survey.silent.insert(silent.clone());
            }
            tried.left_out.push(left_out);
        }
        self.try_next(id, step);
    }

    fn all_held(&mut self, id: ReservationId, step: &mut Step) {
        if self.healing.contains_key(&id) {
            return self.commit_replacements(id, step);
        }
        let Some(booking) = self.bookings.get(&id) else { return };
        let Some(asked) = booking.asked.clone() else { return };
        let until = self.commit_by(&booking.children).min(step.now + asked.hold_for);
        let first = booking.children.iter().min_by_key(|child| child.held_until);
        let first = first.map(|child| Excluded::Resource {
            peer: child.pick.peer.clone(),
            resource: child.pick.slot.resource.clone(),
        });
        if until <= step.now && !asked.book {
            // The hold would expire before its owner hears of it. The shortest hold is to blame; try without
            // that resource.
            return match first {
                Some(shortest) => self.give_up(id, Some(shortest), step),
                None => self.close(id, Outcome::Expired, step),
            };
        }
        self.drop_searches(id);
        self.note(Event::Held { id, until }, step);
        if asked.book {
            let Asked { request, hold_for, .. } = asked;
            self.decide(id, Call::Reserve { id, request, hold_for, book: true }, step);
        } else {
            self.tell(id, step);
        }
    }

    /// Latest moment at which a commit still arrives in time everywhere.
    pub(super) fn commit_by(&self, children: &[Child]) -> Moment {
        let by = |child: &Child| child.held_until.map(|until| until - self.round_trip(&child.pick.peer));
        children.iter().filter_map(by).min().unwrap_or(Moment::MAX)
    }
}

impl Broker {
    /// The point of no return: the booking is finished or undone from here on.
    pub(super) fn decide(&mut self, id: ReservationId, call: Call, step: &mut Step) {
        self.note(Event::Decided { id, call }, step);
        self.send_commits(id, step);
    }

    pub(super) fn send_commits(&mut self, id: ReservationId, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id) else { return };
        let (Some(asked), Some(call)) = (&booking.asked, &booking.decided) else { return };
        let Some(permission) = Received::of(call).committing() else { return };
        // A peer that has not answered when the booking starts is too late.
        let begins = booking.begins().map_or(step.now, Moment::of);
        let uncommitted = booking.children.iter().enumerate().filter(|(_, child)| !child.committed);
        for (part, child) in uncommitted {
            let jobs = booking.jobs.iter().filter(|(at, _)| *at == part).map(|(_, job)| *job).collect();
            let envelope = Envelope {
                key: Key(self.identities.make()),
                caller: asked.caller.clone(),
                call: permission.commit(child.pick.child, jobs),
            };
            let outgoing = Outgoing { to: child.pick.peer.clone(), envelope };
            let until = begins.max(step.now + self.hold_time(&child.pick.peer));
            self.calls.send(outgoing, About::Commit { id, part }, until, step);
        }
    }

    pub(super) fn commit_ended(
        &mut self,
        id: ReservationId,
        part: usize,
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        let Some(booking) = self.bookings.get_mut(&id) else { return };
        let committed = matches!(answer, Some(Answer::Reservation(reservation))
            if matches!(reservation.state, State::Committed | State::Active | State::Completed));
        if self.healing.contains_key(&id) {
            return self.replacement_committed(id, part, committed, step);
        }
        if !booking.is_being_committed() {
            return;
        }
        // A part cannot be committed. All or nothing: the others are released, even if they are committed.
        if !committed {
            return self.close(id, Outcome::PartLost, step);
        }
        if let Some(child) = booking.children.get_mut(part) {
            child.committed = true;
        }
        if booking.children.iter().all(|child| child.committed) {
            self.note(Event::Committed { id }, step);
            self.tell(id, step);
        }
    }

    /// Ends a booking: answers waiting callers and releases its parts.
    pub(super) fn close(&mut self, id: ReservationId, outcome: Outcome, step: &mut Step) {
        let opened = self.opening.remove(&id);
        let asked = opened.or_else(|| self.bookings.get(&id).and_then(|booking| booking.asked.clone()));
        self.stop_healing(id);
        let refused = self.bookings.get(&id).is_none_or(|booking| booking.state == State::Requested);
        let asked = if refused { asked.map(Asked::refused) } else { asked };
        self.note(Event::Closed { id, at: step.now, asked, outcome }, step);
        self.drop_change(id, step);
        self.tell(id, step);
        self.give_back(id, step);
    }

    /// Parts of a candidate that were not requested from a peer need no release.
    pub(super) fn drop_unasked(&mut self, id: ReservationId) {
        let unasked = self.tries.get_mut(&id).map(|tried| std::mem::take(&mut tried.to_ask));
        self.given_back.extend(unasked.into_iter().flatten().map(|(_, pick)| pick.child));
    }

    /// Asks peers to release leftovers, except those that are already asked.
    pub(super) fn give_back(&mut self, id: ReservationId, step: &mut Step) {
        if self.broken.is(Flaw::ForgetToCancel) {
            return;
        }
        let Some(booking) = self.bookings.get(&id) else { return };
        let Some(asked) = &booking.asked else { return };
        // A hold that was never to be committed expires by itself, so there is no need to repeat the cancel
        // forever.
        let until = match booking.decided {
            None => {
                let longest = self.candidate_hold_time(booking.leftovers.iter().map(|pick| &pick.peer));
                step.now + asked.hold_for + asked.hold_for + longest + self.rules.longest_hold
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
            self.calls.send(outgoing, about, until, step);
        }
        self.settle(id, step);
    }

    /// Records that no leftover is at a peer any more.
    fn settle(&mut self, id: ReservationId, step: &mut Step) {
        let Some(booking) = self.bookings.get(&id).filter(|booking| !booking.leftovers.is_empty()) else {
            return;
        };
        if booking.leftovers.iter().all(|pick| self.given_back.contains(&pick.child)) {
            for pick in &booking.leftovers {
                self.given_back.remove(&pick.child);
            }
            self.note(Event::Settled { id }, step);
        }
    }

    pub(super) fn cancel_ended(
        &mut self,
        id: ReservationId,
        child: ReservationId,
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        if let Some(Answer::Problem(problem)) = answer
            && problem.why.is_passing()
        {
            // The peer did not process the call; repeat it.
            return self.give_back(id, step);
        }
        self.given_back.insert(child);
        self.settle(id, step);
    }
}

/// Whether a refusal is due to competition or load, and may be different a moment later.
fn is_taken(why: &Why) -> bool {
    why.is_full() || why.is_passing()
}

/// A pseudo-random number below `bound`. It depends only on the booking and the round, so that a broker is
/// deterministic.
fn drawn(id: ReservationId, round: u32, bound: i64) -> i64 {
    let mixed = mixed((id.0 as u64) ^ ((id.0 >> 64) as u64) ^ (u64::from(round) << 32));
    i64::try_from(mixed % bound.unsigned_abs().max(1)).unwrap_or(0)
}

/// SplitMix64: neighbouring numbers give numbers far apart.
pub(super) fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
