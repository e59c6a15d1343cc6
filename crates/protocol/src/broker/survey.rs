//! Surveys and searches. Every peer that could serve a part is probed for it, in parallel and bounded, until all have answered,
//! enough is known or the time is up; for parts that are the same it is probed once. What they reveal is searched for candidates in slices: a step does at most one slice of
//! work, so that calls and answers are served in between. Whoever drives a broker calls [`Broker::tick`] again while
//! [`Broker::next_timer`] is due.

use super::calls::About;
use super::trying::Try;
use super::{Booking, Broker, Client, Outgoing, Step, name_here};
use crate::candidates::{Candidate, Found, Progress, Search};
use crate::clock::Moment;
use crate::ids::{Key, Name, ReservationId};
use crate::level::{Permission, Probing};
use crate::message::{Answer, Caller, Envelope, Offer, Rating, Slot};
use crate::problem::{Problem, Why};
use crate::request::{Constraint, Objective, Part, Request};
use bookahead_plan::{Capacity, Seconds, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

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
    /// Replacements for lost parts of a booking.
    Heal(ReservationId),
    /// Other terms for a booking.
    Change(ReservationId),
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
    /// When it began to ask.
    since: Moment,
    pub(super) found: Vec<Vec<Found>>,
    /// Why there is nothing for a part, by those who were asked for it.
    problems: Vec<(usize, Problem)>,
    /// Whether this is the second time, with begins that others offered.
    aligned: bool,
    /// Of a search for replacements: the parts that stand, and where a lost part must not be. Of a change: the parts of which it is
    /// known what they will have. Nobody is asked for those.
    pub(super) standing: Vec<Option<Found>>,
    pub(super) not_at: Vec<Option<(Name, Name)>>,
    /// Who did not answer: they are not asked again.
    pub(super) silent: BTreeSet<Name>,
}

impl Broker {
    pub(super) fn begin_survey(&mut self, mut survey: Survey, step: &mut Step) {
        if let Purpose::Tell { client, .. } = &survey.purpose {
            if let Err(malformed) = survey.request.check() {
                return step.refuse(client.clone(), malformed);
            }
            if self.surveys.len() + self.pending.len() >= self.rules.under_way {
                return step.refuse(client.clone(), Why::Busy);
            }
        }
        survey.request.constraints = survey.request.different_constraints();
        self.ask_around(survey, step);
    }

    pub(super) fn ask_around(&mut self, mut survey: Survey, step: &mut Step) {
        survey.since = step.now;
        for (at, part) in survey.request.parts.iter().enumerate() {
            if survey.standing[at].is_some() || survey.same_as(at).next() != Some(at) {
                continue;
            }
            let before = survey.to_ask.len();
            let heard = |peer: &&Name| !survey.silent.contains(*peer);
            survey.to_ask.extend(self.suitable(part).filter(heard).map(|peer| (peer.clone(), at)));
            if survey.to_ask.len() == before {
                let nobody = Why::NoSuchResource { part: at, kind: part.kind.clone() };
                let why = if survey.silent.is_empty() { nobody } else { Why::Silence };
                return self.no_offers(survey.purpose, Problem::new(why), step);
            }
        }
        let number = self.next_survey;
        self.next_survey += 1;
        if let Some(id) = survey.booking() {
            self.booking_surveys.insert(id, number);
        }
        self.surveys.insert(number, survey);
        self.go_on_asking(number, step);
    }

    /// The peers that could serve a part, if they had the time.
    fn suitable<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = &'a Name> {
        let peers = self.peers.iter().filter(move |(name, peer)| {
            let there = part_at(name, part);
            there.is_some_and(|there| peer.resources.iter().any(|resource| resource.suits(&there)))
        });
        peers.map(|(name, _)| name)
    }

    fn go_on_asking(&mut self, number: u64, step: &mut Step) {
        let Some(survey) = self.surveys.get_mut(&number) else { return };
        while survey.under_way < self.rules.probes_at_once
            && let Some((peer, at)) = survey.to_ask.pop_front()
        {
            let Some(mut there) = part_at(&peer, &survey.request.parts[at]) else { continue };
            there.replaces = replaced_at(&self.bookings, there.replaces);
            there.changes = replaced_at(&self.bookings, there.changes);
            let request = Request { objective: survey.request.objective, ..Request::single(there) };
            let Some(known) = self.peers.get(&peer) else { continue };
            let slots = known.slots_for(&request.parts[0], &self.rules);
            let until = survey.since + known.survey_time(&self.rules);
            let call = survey.permission.probe(request, slots, survey.starts[at].clone());
            let key = Key(self.identities.make());
            let envelope = Envelope { key, caller: survey.caller.clone(), call };
            let about = About::Probe { survey: number, part: at };
            survey.under_way += 1;
            self.calls.send(Outgoing { to: peer, envelope }, about, until, step);
        }
        if survey.under_way == 0 {
            self.surveyed_all(number, step);
        }
    }

    /// A peer has answered, or will not in time.
    pub(super) fn surveyed(
        &mut self,
        number: u64,
        part: usize,
        peer: &Name,
        answer: Option<&Answer>,
        step: &mut Step,
    ) {
        let Some(survey) = self.surveys.get_mut(&number) else { return };
        survey.under_way -= 1;
        match answer {
            Some(Answer::Offers(offers)) => {
                let slots = offers.iter().filter_map(|offer| offer.slots.first());
                let found = slots.map(|slot| Found { peer: peer.clone(), slot: slot.clone() });
                let (known, there) = (self.peers.get(peer), part_at(peer, &survey.request.parts[part]));
                let most = known.zip(there).map(|(known, there)| known.slots_for(&there, &self.rules));
                let most = most.unwrap_or(self.rules.slots);
                let found: Vec<Found> = found.take(most as usize).collect();
                for part in survey.same_as(part).collect::<Vec<_>>() {
                    survey.found[part].extend_from_slice(&found);
                }
            }
            Some(Answer::Problem(problem)) => survey.note_problem(part, problem),
            Some(Answer::Reservation(_)) => {}
            // The time is up for all.
            None => {
                survey.silent.insert(peer.clone());
                let unheard: Vec<usize> = survey.to_ask.drain(..).map(|(_, part)| part).collect();
                let silence = Problem::new(Why::Silence);
                unheard.into_iter().chain([part]).for_each(|part| survey.note_problem(part, &silence));
            }
        }
        let enough = self.rules.enough_slots;
        if enough.is_some_and(|enough| survey.found.iter().all(|found| found.len() >= enough)) {
            survey.to_ask.clear();
            survey.under_way = 0;
        }
        self.go_on_asking(number, step);
    }

    fn surveyed_all(&mut self, number: u64, step: &mut Step) {
        let Some(mut survey) = self.surveys.remove(&number) else { return };
        // Of equals the search prefers what comes first: that must not depend on which peer answers first.
        survey.found.iter_mut().for_each(|found| found.sort_by_cached_key(tie_rule));
        survey.beside_what_stands();
        survey.booking().and_then(|id| self.booking_surveys.remove(&id));
        self.calls.forget(About::probes(number));
        if let Some(problem) = nothing_found(&survey) {
            return self.no_offers(survey.purpose, problem, step);
        }
        self.search_found(step.now, survey);
    }

    /// Nothing that was `found` goes together. Asks once more where other begins might.
    pub(super) fn no_candidate(
        &mut self,
        mut survey: Survey,
        found: Vec<Vec<Found>>,
        problem: Problem,
        step: &mut Step,
    ) {
        if survey.aligned || !survey.align(&found, self.rules.slots as usize) {
            return self.no_offers(survey.purpose, problem, step);
        }
        survey.found = found;
        self.ask_around(survey, step);
    }

    fn no_offers(&mut self, purpose: Purpose, problem: Problem, step: &mut Step) {
        match purpose {
            Purpose::Tell { client, .. } => step.reply(client, problem.into()),
            Purpose::Change(id) => self.change_refused(id, problem, step),
            Purpose::Book(id) | Purpose::Heal(id) => {
                // What a peer says that cannot answer now passes; what is said of a booking is remembered.
                let passes = problem.why.is_passing();
                let problem = if passes { Problem::new(Why::Silence) } else { problem };
                if self.tries.contains_key(&id) {
                    return self.ask_again(id, problem, step);
                }
                self.refuse(id, problem, step);
            }
        }
    }

    /// Nobody wants to know any more.
    pub(super) fn drop_survey(&mut self, id: ReservationId) {
        if let Some(number) = self.booking_surveys.remove(&id) {
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
            since: Moment::MAX,
            found: vec![Vec::new(); parts],
            problems: Vec::new(),
            aligned: false,
            standing: vec![None; parts],
            not_at: vec![None; parts],
            silent: BTreeSet::new(),
        }
    }

    /// One for parts that are lost, the others being where they stand.
    pub(super) fn beside(self, standing: Vec<Option<Found>>, not_at: Vec<Option<(Name, Name)>>) -> Survey {
        let found = standing.iter().map(|found| found.iter().cloned().collect()).collect();
        Survey { found, standing, not_at, ..self }
    }

    /// What stands is not free, but a search counts it like what is still to be had.
    fn beside_what_stands(&mut self) {
        let standing = || self.standing.iter().flatten();
        for (at, found) in self.found.iter_mut().enumerate().filter(|(at, _)| self.standing[*at].is_none()) {
            let not_at = self.not_at[at].as_ref();
            found.retain(|Found { peer, slot }| not_at != Some(&(peer.clone(), slot.resource.clone())));
            for Found { peer, slot } in found {
                let here = |there: &&Found| (&there.peer, &there.slot.resource) == (&*peer, &slot.resource);
                let taken: u32 = standing().filter(here).map(|there| there.slot.capacity.0).sum();
                slot.free = slot.free.map(|Capacity(free)| Capacity(free.saturating_add(taken)));
            }
        }
    }

    /// The parts for which the same is asked, the first first: each peer is asked once for all of them.
    fn same_as(&self, part: usize) -> impl Iterator<Item = usize> + '_ {
        let asked = |at: usize| (&self.request.parts[at], &self.starts[at]);
        let wanted = (0..self.request.parts.len()).filter(|at| self.standing[*at].is_none());
        wanted.filter(move |at| asked(*at) == asked(part))
    }

    fn note_problem(&mut self, part: usize, problem: &Problem) {
        let same: Vec<usize> = self.same_as(part).collect();
        self.problems.extend(same.into_iter().map(|part| (part, problem.clone())));
    }

    /// The same again, from the beginning.
    pub(super) fn afresh(&self) -> Survey {
        let again = Survey::new(self.purpose.clone(), &self.caller, self.permission, &self.request, &[]);
        let again = again.beside(self.standing.clone(), self.not_at.clone());
        Survey { silent: self.silent.clone(), ..again }
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
            Purpose::Book(id) | Purpose::Heal(id) | Purpose::Change(id) => Some(id),
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

/// Better rating, lower cost, less impact, earlier, name. What a site does not tell counts as in the search: no rating is the
/// worst, no impact is none.
fn tie_rule(Found { peer, slot }: &Found) -> (Reverse<Rating>, u64, (Seconds, u32), Time, [Name; 3]) {
    let impact = slot.impact.unwrap_or_default();
    let names = [slot.site.clone(), peer.clone(), slot.resource.clone()];
    let rating = slot.rating.unwrap_or(Rating(0));
    (Reverse(rating), slot.cost, (impact.total_delay, impact.delayed), slot.interval.begin, names)
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

/// A candidate whose parts may begin later by so much.
fn offer(candidate: &Candidate, slack: &[Seconds]) -> Offer {
    let here = |(part, peer, slot): (usize, &Name, &Slot)| Slot {
        resource: name_here(peer, &slot.resource),
        slack: slack[part],
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

/// The id that a peer knows what is replaced or changed by, where it is a part of ours.
pub(super) fn replaced_at(
    bookings: &BTreeMap<ReservationId, Booking>,
    replaces: Option<ReservationId>,
) -> Option<ReservationId> {
    let ours = replaces.and_then(|id| bookings.get(&id)?.children.first());
    ours.map(|child| child.pick.child).or(replaces)
}

/// The work that searches may do in one step. Measured in a release build, that is about one millisecond, and two for the
/// hardest requests: calls hardly notice it, and being put off and taken up again costs a search next to nothing. Most
/// searches need less in all: it is enough for some 8,000 slots.
pub const SLICE: u64 = 250_000;

/// A search under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    search: Search,
    goal: Goal,
    /// When it was begun or advanced; it is due again at once.
    pub(super) due: Moment,
    /// It is stopped then.
    until: Moment,
}

/// What a search is for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// The first candidate of what a survey found: the best, or the earliest where there is no time for the best.
    First { survey: Box<Survey>, earliest: bool },
    /// More offers for a client that only asks.
    Offers { client: Client, most: u32, offers: Vec<Offer> },
    /// The next candidate for a booking, the last one having been refused.
    Next(ReservationId),
}

impl Broker {
    /// The searches under way, the next to be advanced first. While there are any, call [`Broker::tick`] again at once.
    pub fn searches_under_way(&self) -> impl ExactSizeIterator<Item = &Search> {
        self.pending.iter().map(|pending| &pending.search)
    }

    /// Searches what a survey found.
    fn search_found(&mut self, now: Moment, mut survey: Survey) {
        let mut search = Search::new(&survey.request, std::mem::take(&mut survey.found), self.rules.search);
        let tried = survey.booking().and_then(|id| self.tries.get(&id));
        tried.into_iter().flat_map(Try::left_out).for_each(|left_out| search.without(left_out));
        self.begin_search(now, search, Goal::First { survey: Box::new(survey), earliest: false });
    }

    /// The search comes first in this step; if that is not enough, it takes turns with the others.
    pub(super) fn begin_search(&mut self, now: Moment, search: Search, goal: Goal) {
        let until = now + self.rules.search_time;
        self.pending.push_front(Pending { search, goal, due: now, until });
    }

    /// Goes on with the searches in turn, for one slice of work in all. The `others`, which were there before this step,
    /// are left alone.
    pub(super) fn advance_searches(&mut self, others: usize, step: &mut Step) {
        let mut left = SLICE;
        while left > 0
            && self.pending.len() > others
            && let Some(mut pending) = self.pending.pop_front()
        {
            let before = pending.search.work();
            let progress = pending.search.advance(left);
            left = left.saturating_sub(pending.search.work() - before);
            pending.due = step.now;
            match progress {
                Progress::More if pending.until <= step.now => self.found_no_more(pending, false, step),
                Progress::More => self.pending.push_back(pending),
                Progress::Found(candidate) => self.found(pending, &candidate, step),
                Progress::Exhausted => self.found_no_more(pending, true, step),
                Progress::OutOfBudget => self.found_no_more(pending, false, step),
            }
        }
    }

    fn found(&mut self, mut pending: Pending, candidate: &Candidate, step: &mut Step) {
        let (client, most, mut offers) = match pending.goal {
            Goal::First { survey, .. } => match survey.purpose.clone() {
                Purpose::Tell { client, most } => (client, most, Vec::new()),
                Purpose::Change(id) => return self.change_found(id, survey.request, candidate, step),
                Purpose::Book(id) | Purpose::Heal(id) => {
                    let until = step.now + self.rules.retry_time;
                    match self.tries.get_mut(&id) {
                        Some(tried) => tried.survey = survey,
                        None => drop(self.tries.insert(id, Try::new(survey, until))),
                    }
                    return self.try_found(id, pending.search, candidate, step);
                }
            },
            Goal::Offers { client, most, offers } => (client, most, offers),
            Goal::Next(id) => return self.try_found(id, pending.search, candidate, step),
        };
        let slack = pending.search.slack(candidate);
        offers.push(offer(candidate, &slack));
        if offers.len() < most as usize {
            pending.goal = Goal::Offers { client, most, offers };
            self.pending.push_front(pending);
        } else {
            step.reply(client, Answer::Offers(offers));
        }
    }

    /// Tries a candidate, and keeps the search for the case that it is refused.
    fn try_found(&mut self, id: ReservationId, search: Search, candidate: &Candidate, step: &mut Step) {
        if let Some(tried) = self.tries.get_mut(&id) {
            (tried.search, tried.empty) = (Some(search), 0);
        }
        self.try_candidate(id, candidate, step);
    }

    /// There are no more candidates, or the search was stopped at a bound.
    fn found_no_more(&mut self, pending: Pending, all: bool, step: &mut Step) {
        let Pending { search, goal, .. } = pending;
        match goal {
            Goal::First { survey, earliest } => {
                if !all && !earliest && survey.request.objective != Objective::EarliestEnd {
                    // Any candidate is better than none, and the earliest is found with the least work.
                    let request = Request { objective: Objective::EarliestEnd, ..survey.request.clone() };
                    let search = search.again(&request, self.rules.search);
                    return self.begin_search(step.now, search, Goal::First { survey, earliest: true });
                }
                let why = Problem::new(Why::NoCandidate { tried: 0, all });
                self.no_candidate(*survey, search.into_found(), why, step);
            }
            Goal::Offers { client, offers, .. } => step.reply(client, Answer::Offers(offers)),
            Goal::Next(id) => {
                let why = Why::NoCandidate { tried: self.tried(id), all };
                self.refuse(id, Problem::new(why), step);
            }
        }
    }

    /// Nobody needs a candidate for a booking any more.
    pub(super) fn drop_searches(&mut self, id: ReservationId) {
        self.drop_survey(id);
        if let Some(at) = self.tries.remove(&id).and_then(|tried| tried.again) {
            self.retries.remove(&(at, id));
        }
        self.pending.retain(|pending| pending.booking() != Some(id));
    }
}

impl Pending {
    /// The booking that it is for.
    fn booking(&self) -> Option<ReservationId> {
        match &self.goal {
            Goal::First { survey, .. } => survey.booking(),
            Goal::Offers { .. } => None,
            Goal::Next(id) => Some(*id),
        }
    }
}
