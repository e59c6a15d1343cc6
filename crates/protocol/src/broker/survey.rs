//! Asking around: every peer that could serve a part is probed for it, in parallel and bounded, until all have
//! answered, enough is known or the time is up. What they reveal is searched for candidates.

use super::calls::{About, Outgoing};
use super::{Broker, Client, Effects, Outcome, name_here};
use crate::candidates::{Candidate, Found};
use crate::clock::Moment;
use crate::ids::{Key, Name, ReservationId};
use crate::level::{Permission, Probing};
use crate::message::{Answer, Caller, Envelope, Offer, Slot};
use crate::problem::{Problem, Why};
use crate::request::{Constraint, Part, Request};
use bookahead_plan::Time;
use std::collections::VecDeque;

/// What a survey is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// Somebody only asks.
    Tell {
        /// Who.
        client: Client,
        /// At most so many offers.
        most: u32,
    },
    /// A booking.
    Book(ReservationId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Survey {
    pub(super) purpose: Purpose,
    caller: Caller,
    permission: Permission<Probing>,
    /// Without constraints that say the same as others.
    pub(super) request: Request,
    /// Begins of special interest, for each part.
    starts: Vec<Vec<Time>>,
    /// Whom to ask for which part, yet.
    to_ask: VecDeque<(Name, usize)>,
    under_way: usize,
    until: Moment,
    pub(super) found: Vec<Vec<Found>>,
    /// Why there is nothing for a part, by those who were asked for it.
    problems: Vec<(usize, Problem)>,
    /// Whether this is the second time, with begins that others offered.
    aligned: bool,
}

impl Broker {
    pub(super) fn begin_survey(&mut self, now: Moment, mut survey: Survey, effects: &mut Effects) {
        if let Purpose::Tell { client, .. } = &survey.purpose {
            if let Err(malformed) = survey.request.check() {
                return effects.reply(client.clone(), Problem::new(malformed).into());
            }
            if self.surveys.len() + self.pending.len() >= self.rules.under_way {
                return effects.reply(client.clone(), Problem::new(Why::Busy).into());
            }
        }
        survey.request.constraints = survey.request.different_constraints();
        self.ask_around(now, survey, effects);
    }

    fn ask_around(&mut self, now: Moment, mut survey: Survey, effects: &mut Effects) {
        survey.until = now + self.rules.survey_time;
        for (at, part) in survey.request.parts.iter().enumerate() {
            let before = survey.to_ask.len();
            survey.to_ask.extend(self.suitable(part).map(|peer| (peer.clone(), at)));
            if survey.to_ask.len() == before {
                let why = Why::NoSuchResource { part: at, kind: part.kind.clone() };
                return self.no_offers(now, survey.purpose, Problem::new(why), effects);
            }
        }
        let number = self.next_survey;
        self.next_survey += 1;
        if let Purpose::Book(id) = &survey.purpose
            && let Some(opening) = self.opening.get_mut(id)
        {
            opening.survey = Some(number);
        }
        self.surveys.insert(number, survey);
        self.go_on_asking(now, number, effects);
    }

    /// The peers that could serve a part, if they had the time.
    fn suitable<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = &'a Name> {
        let peers = self.peers.iter().filter(move |(name, peer)| {
            let there = part_at(name, part);
            there.is_some_and(|there| peer.resources.iter().any(|resource| resource.suits(&there)))
        });
        peers.map(|(name, _)| name)
    }

    fn go_on_asking(&mut self, now: Moment, number: u64, effects: &mut Effects) {
        let Some(survey) = self.surveys.get_mut(&number) else { return };
        while survey.under_way < self.rules.probes_at_once
            && let Some((peer, at)) = survey.to_ask.pop_front()
        {
            let Some(there) = part_at(&peer, &survey.request.parts[at]) else { continue };
            let request = Request { objective: survey.request.objective, ..Request::single(there) };
            let call = survey.permission.probe(request, self.rules.slots, survey.starts[at].clone());
            let key = Key(self.identities.make());
            let envelope = Envelope { key, caller: survey.caller.clone(), call };
            let about = About::Probe { survey: number, part: at };
            survey.under_way += 1;
            let sent = self.calls.send(now, Outgoing { to: peer, envelope }, about, survey.until);
            effects.send.push(sent);
        }
        if survey.under_way == 0 {
            self.surveyed_all(now, number, effects);
        }
    }

    /// A peer has answered, or will not in time.
    pub(super) fn surveyed(
        &mut self,
        now: Moment,
        number: u64,
        part: usize,
        peer: &Name,
        answer: Option<&Answer>,
        effects: &mut Effects,
    ) {
        let Some(survey) = self.surveys.get_mut(&number) else { return };
        survey.under_way -= 1;
        match answer {
            Some(Answer::Offers(offers)) => {
                let slots = offers.iter().filter_map(|offer| offer.slots.first());
                let found = slots.map(|slot| Found { peer: peer.clone(), slot: slot.clone() });
                survey.found[part].extend(found.take(self.rules.slots as usize));
            }
            Some(Answer::Problem(problem)) => survey.problems.push((part, (**problem).clone())),
            Some(Answer::Reservation(_)) => {}
            // The time is up for all.
            None => {
                let unheard = survey.to_ask.drain(..).map(|(_, part)| part).chain([part]);
                survey.problems.extend(unheard.map(|part| (part, Problem::new(Why::Silence))));
            }
        }
        let enough = self.rules.enough_slots;
        if enough.is_some_and(|enough| survey.found.iter().all(|found| found.len() >= enough)) {
            survey.to_ask.clear();
            survey.under_way = 0;
        }
        self.go_on_asking(now, number, effects);
    }

    fn surveyed_all(&mut self, now: Moment, number: u64, effects: &mut Effects) {
        let Some(survey) = self.surveys.remove(&number) else { return };
        self.calls.forget(About::probes(number));
        if let Some(problem) = nothing_found(&survey) {
            return self.no_offers(now, survey.purpose, problem, effects);
        }
        self.search_found(now, survey);
    }

    /// Nothing that was `found` goes together. Asks once more where other begins might.
    pub(super) fn no_candidate(
        &mut self,
        now: Moment,
        mut survey: Survey,
        found: Vec<Vec<Found>>,
        problem: Problem,
        effects: &mut Effects,
    ) {
        if survey.aligned || !survey.align(&found, self.rules.slots as usize) {
            return self.no_offers(now, survey.purpose, problem, effects);
        }
        survey.found = found;
        self.ask_around(now, survey, effects);
    }

    fn no_offers(&mut self, now: Moment, purpose: Purpose, problem: Problem, effects: &mut Effects) {
        match purpose {
            Purpose::Tell { client, .. } => effects.reply(client, problem.into()),
            Purpose::Book(id) => {
                // What a peer says that cannot answer now passes; what is said of a booking is remembered.
                let passes = problem.why.is_passing();
                let problem = if passes { Problem::new(Why::Silence) } else { problem };
                self.close(now, id, Outcome::Refused(problem), effects);
            }
        }
    }

    /// Nobody wants to know any more.
    pub(super) fn drop_survey(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.surveys.remove(&number);
            self.calls.forget(About::probes(number));
        }
    }
}

impl Survey {
    pub(super) fn new(
        purpose: Purpose,
        caller: &Caller,
        permission: Permission<Probing>,
        request: &Request,
        starts: &[Time],
    ) -> Survey {
        let parts = request.parts.len();
        Survey {
            purpose,
            caller: caller.clone(),
            permission,
            request: request.clone(),
            starts: vec![starts.to_vec(); parts],
            to_ask: VecDeque::new(),
            under_way: 0,
            until: Moment::MAX,
            found: vec![Vec::new(); parts],
            problems: Vec::new(),
            aligned: false,
        }
    }

    /// Where sites rate single begins, those of one part rarely meet those of another. Asks for the begins that would
    /// match what the others offered; false where there is none.
    fn align(&mut self, found: &[Vec<Found>], most: usize) -> bool {
        self.aligned = true;
        // Later begins of a part match only what is later still, and is not asked for.
        let first =
            |found: &Vec<Found>| first_of(found.iter().map(|one| one.slot.interval.begin).collect(), most);
        let first: Vec<Vec<Time>> = found.iter().map(first).collect();
        let begins = |part: usize| first[part].iter().copied();
        let length = |part: usize| self.request.parts[part].wanted.duration;
        let mut starts: Vec<Vec<Time>> = vec![Vec::new(); self.request.parts.len()];
        for constraint in &self.request.constraints {
            match *constraint {
                Constraint::Offset { first, second, by } => {
                    starts[second].extend(begins(first).map(|begin| begin + by));
                    starts[first].extend(begins(second).map(|begin| begin - by));
                }
                Constraint::After { first, second, least, .. } => {
                    starts[second].extend(begins(first).map(|begin| begin + length(first) + least));
                    starts[first].extend(begins(second).map(|begin| begin - least - length(first)));
                }
                Constraint::EndsBefore { first, second } => {
                    starts[first].extend(begins(second).map(|begin| begin + length(second) - length(first)));
                    starts[second].extend(begins(first).map(|begin| begin + length(first) - length(second)));
                }
                Constraint::SameSite(..) | Constraint::DifferentSites(..) | Constraint::Joins { .. } => {}
            }
        }
        self.starts = starts.into_iter().map(|starts| first_of(starts, most)).collect();
        self.starts.iter().any(|starts| !starts.is_empty())
    }

    /// The booking that it is for.
    pub(super) fn booking(&self) -> Option<ReservationId> {
        match self.purpose {
            Purpose::Tell { .. } => None,
            Purpose::Book(id) => Some(id),
        }
    }
}

/// The first few of different times, in order.
fn first_of(mut times: Vec<Time>, most: usize) -> Vec<Time> {
    times.sort_unstable();
    times.dedup();
    times.truncate(most);
    times
}

/// Why there can be no candidate: a part that nobody has a slot for. Of all that was said of such a part the most telling
/// answer is told.
fn nothing_found(survey: &Survey) -> Option<Problem> {
    let found = &survey.found;
    let missing = found.iter().position(Vec::is_empty)?;
    let said = survey.problems.iter().filter(|(part, _)| found[*part].is_empty());
    let told = said.max_by_key(|(_, problem)| telling(problem));
    let (part, problem) = told.cloned().unwrap_or_else(|| (missing, Problem::new(Why::Silence)));
    // Whoever would only ask us in turn has nothing of its own for it.
    if problem.why == Why::Circle {
        let kind = survey.request.parts[part].kind.clone();
        return Some(Problem::new(Why::NoSuchResource { part, kind }));
    }
    Some(problem)
}

/// How much an answer helps whoever gets it: one that says why not more than one that says nothing, and one that says what
/// would do instead most.
fn telling(problem: &Problem) -> (u8, usize) {
    let says = match problem.why {
        Why::Circle => 0,
        Why::Silence | Why::Interrupted => 1,
        Why::Busy | Why::NoBatchSystem => 2,
        _ => 3,
    };
    (says, problem.relaxations.len())
}

pub(super) fn offer(candidate: &Candidate) -> Offer {
    let here = |(_, peer, slot): (usize, &Name, &Slot)| Slot {
        resource: name_here(peer, &slot.resource),
        ..slot.clone()
    };
    Offer { slots: candidate.slots().map(here).collect() }
}

/// A part as a peer is asked for it: without the peer's name in front of the resource's. None where it is meant for
/// another peer.
fn part_at(peer: &Name, part: &Part) -> Option<Part> {
    let Some(resource) = &part.resource else { return Some(part.clone()) };
    let there = resource.as_str().strip_prefix(peer.as_str())?.strip_prefix('/')?;
    Some(Part { resource: Some(there.into()), ..part.clone() })
}
