//! Surveys. Every peer that could serve a part is probed, in parallel and bounded, until all have answered,
//! enough slots are known or the time is up. Identical parts share one probe.
//!
//! With [`Rules::probe_first`](super::Rules::probe_first) only some peers are probed at first, chosen at random for
//! each survey, so that its cost does not grow with the number of peers and requests spread over them. If these offer
//! nothing, twice as many others are probed, and so on until all have been.

use super::calls::About;
use super::trying::mixed;
use super::{Booking, Broker, Client, Outgoing, Step, name_here};
use crate::candidates::{Candidate, Found};
use crate::clock::Moment;
use crate::ids::{Key, Name, ReservationId};
use crate::level::{Permission, Probing};
use crate::message::{Answer, Caller, Envelope, Offer, Rating, Slot};
use crate::missing::Missing;
use crate::problem::{Problem, Why};
use crate::request::{Constraint, Part, Request};
use bookahead_plan::{Capacity, Seconds, Time};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The purpose of a survey.
#[allow(clippy::large_enum_variant, reason = "one for each survey in progress, beside its answers")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Purpose {
    /// A client's probe.
    Tell {
        client: Client,
        /// Most offers to return.
        most: u32,
    },
    /// A booking.
    Book(ReservationId),
    /// Replacements for lost parts of a booking.
    Heal(ReservationId),
    /// New terms for a booking.
    Change(ReservationId),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Survey {
    pub(super) purpose: Purpose,
    caller: Caller,
    permission: Permission<Probing>,
    /// The request, with equivalent constraints removed.
    pub(super) request: Request,
    /// Preferred starts of each part.
    starts: Vec<Vec<Time>>,
    /// Probes not sent yet: peer and part.
    to_ask: VecDeque<(Name, usize)>,
    under_way: usize,
    /// When its probes started; timeouts count from here.
    since: Moment,
    pub(super) found: Vec<Vec<Found>>,
    /// Reasons of refusals, by part.
    problems: Vec<(usize, Problem)>,
    /// Whether this is the second round, with starts that other parts offered.
    aligned: bool,
    /// Parts with known slots, which are not probed: when healing, the parts that still stand; in a change,
    /// the parts with fixed new terms.
    pub(super) standing: Vec<Option<Found>>,
    /// When healing: the peer and resource where a part must not go.
    pub(super) not_at: Vec<Option<(Name, Name)>>,
    /// Peers that did not answer. They are not probed again.
    pub(super) silent: BTreeSet<Name>,
    /// Seed of the order in which peers are probed, if not all at once.
    order: u64,
    /// Number of peers, in this order, that were probed for each part.
    reach: usize,
    /// Whether a part has suitable peers beyond them.
    unprobed: bool,
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

    /// Probes the first peers for each part, or again those that were probed before.
    pub(super) fn ask_around(&mut self, mut survey: Survey, step: &mut Step) {
        if survey.reach == 0 {
            // Next to parts that stand there are few possible slots, so all peers are probed.
            let first = self.rules.probe_first.filter(|_| survey.standing.iter().all(Option::is_none));
            survey.reach = first.unwrap_or(usize::MAX).max(1);
            survey.order = first.map_or(0, |_| mixed(self.rules.maker as u64 ^ mixed(self.next_survey)));
        }
        self.ask_peers(survey, 0, step);
    }

    /// Probes twice as many peers as so far, in addition to them.
    fn ask_others(&mut self, mut survey: Survey, step: &mut Step) {
        let from = survey.reach;
        survey.reach = from.saturating_mul(3);
        self.ask_peers(survey, from, step);
    }

    fn ask_peers(&mut self, mut survey: Survey, from: usize, step: &mut Step) {
        survey.since = step.now;
        survey.unprobed = false;
        for (at, part) in survey.request.parts.iter().enumerate() {
            if survey.standing[at].is_some() || survey.same_as(at).next() != Some(at) {
                continue;
            }
            let heard = |peer: &&Name| !survey.silent.contains(*peer);
            let mut peers: Vec<&Name> = self.suitable(part).filter(heard).collect();
            if peers.is_empty() {
                // Without a suitable peer for one part the whole request fails; probing for the others would
                // be a waste.
                let nobody = self.no_such_resource(&survey, at);
                let why = if survey.silent.is_empty() { nobody } else { Why::Silence };
                return self.no_offers(survey.purpose, Problem::new(why), step);
            }
            if survey.reach < peers.len() || from > 0 {
                survey.unprobed |= survey.reach < peers.len();
                first_in_order(&mut peers, survey.order, survey.reach);
                peers.drain(..from.min(peers.len()));
            }
            survey.to_ask.extend(peers.into_iter().map(|peer| (peer.clone(), at)));
        }
        let number = self.next_survey;
        self.next_survey += 1;
        if let Some(id) = survey.booking() {
            self.booking_surveys.insert(id, number);
        }
        self.surveys.insert(number, survey);
        self.go_on_asking(number, step);
    }

    /// The peers with a resource that matches a part, whether free or not.
    fn suitable<'a>(&'a self, part: &'a Part) -> impl Iterator<Item = &'a Name> {
        let peers = self.peers.iter().filter(move |(name, peer)| {
            let there = part_at(name, part);
            there.is_some_and(|there| peer.resources.iter().any(|resource| resource.suits(&there)))
        });
        peers.map(|(name, _)| name)
    }

    fn no_such_resource(&self, survey: &Survey, at: usize) -> Why {
        let known = self.peers.iter().flat_map(|(peer, known)| {
            known.resources.iter().map(|resource| (name_here(peer, &resource.name), resource))
        });
        let (parts, known) = (&survey.request.parts, known.collect::<Vec<_>>());
        Why::no_such_resource(at, parts.len(), parts[at].kind.clone(), Missing::of(&parts[at], &known))
    }

    fn go_on_asking(&mut self, number: u64, step: &mut Step) {
        let Some(survey) = self.surveys.get_mut(&number) else { return };
        while survey.under_way < self.rules.probes_at_once
            && let Some((peer, at)) = survey.to_ask.pop_front()
        {
            let Some(there) = part_at(&peer, &survey.request.parts[at]) else { continue };
            let mut there = there.into_owned();
            there.replaces = replaced_at(&self.bookings, there.replaces);
            there.changes = replaced_at(&self.bookings, there.changes);
            let request = survey.request.for_probe(there);
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

    /// Handles the answer to a probe, or its timeout.
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
                // A peer may send more slots than requested. The rest is dropped: it would only make the
                // search more expensive.
                let (known, there) = (self.peers.get(peer), part_at(peer, &survey.request.parts[part]));
                let most = known.zip(there).map(|(known, there)| known.slots_for(&there, &self.rules));
                let most = most.unwrap_or(self.rules.slots);
                let found: Vec<Found> = found.take(most as usize).collect();
                for part in survey.same_as(part).collect::<Vec<_>>() {
                    survey.found[part].extend_from_slice(&found);
                }
            }
            Some(Answer::Problem(problem)) => survey.note_problem(part, &problem.clone().of_peer(peer)),
            Some(Answer::Reservation(_)) => {}
            // Timeouts count from the start of the survey, so probes that were not sent yet have no time left
            // either.
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
            // With nothing in flight, the survey ends below; late answers are ignored.
            survey.under_way = 0;
        }
        self.go_on_asking(number, step);
    }

    fn surveyed_all(&mut self, number: u64, step: &mut Step) {
        let Some(mut survey) = self.surveys.remove(&number) else { return };
        survey.booking().and_then(|id| self.booking_surveys.remove(&id));
        self.calls.forget(About::probes(number));
        if survey.unprobed && survey.found.iter().any(Vec::is_empty) {
            return self.ask_others(survey, step);
        }
        // Among equal candidates the search prefers the first. The order must not depend on which peer
        // answers first.
        survey.found.iter_mut().for_each(|found| found.sort_by_cached_key(tie_rule));
        survey.beside_what_stands();
        if let Some(problem) = self.nothing_found(&survey) {
            return self.no_offers(survey.purpose, problem, step);
        }
        self.search_found(step.now, survey);
    }

    /// The reason why there can be no candidate: a part without any slot. Picks the most informative answer for
    /// such a part.
    fn nothing_found(&self, survey: &Survey) -> Option<Problem> {
        let found = &survey.found;
        let missing = found.iter().position(Vec::is_empty)?;
        let said = survey.problems.iter().filter(|(part, _)| found[*part].is_empty());
        let told = said.max_by_key(|(_, problem)| telling(problem));
        let (part, problem) = told.cloned().unwrap_or_else(|| (missing, Problem::new(Why::Silence)));
        // A peer that would only forward the probe back has no resource of its own for it.
        if problem.why == Why::Circle {
            return Some(Problem::new(self.no_such_resource(survey, part)));
        }
        Some(problem)
    }

    /// The search found no candidate. Surveys once more if other starts might match.
    pub(super) fn no_candidate(
        &mut self,
        mut survey: Survey,
        found: Vec<Vec<Found>>,
        problem: Problem,
        step: &mut Step,
    ) {
        if !survey.aligned && survey.align(&found, self.rules.slots as usize) {
            survey.found = found;
            return self.ask_around(survey, step);
        }
        if survey.unprobed {
            survey.found = found;
            return self.ask_others(survey, step);
        }
        self.no_offers(survey.purpose, problem, step);
    }

    fn no_offers(&mut self, purpose: Purpose, problem: Problem, step: &mut Step) {
        match purpose {
            Purpose::Tell { client, .. } => step.reply(client, problem.into()),
            Purpose::Change(id) => self.change_refused(id, problem, step),
            Purpose::Book(id) | Purpose::Heal(id) => {
                // A peer's temporary problem must not be recorded as the result of a booking, which is
                // remembered.
                let passes = problem.why.is_passing();
                let problem = if passes { Problem::new(Why::Silence) } else { problem };
                if self.tries.contains_key(&id) {
                    return self.ask_again(id, problem, step);
                }
                self.refuse(id, problem, step);
            }
        }
    }

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
            order: 0,
            reach: 0,
            unprobed: false,
        }
    }

    /// Adds parts with known slots, and places to avoid.
    pub(super) fn beside(self, standing: Vec<Option<Found>>, not_at: Vec<Option<(Name, Name)>>) -> Survey {
        let found = standing.iter().map(|found| found.iter().cloned().collect()).collect();
        Survey { found, standing, not_at, ..self }
    }

    /// Prepares slots for a search next to known slots: the search counts those against the free capacity
    /// too, so they are added to it first.
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

    /// The parts with an identical probe, in order. Each peer is probed once for all of them.
    fn same_as(&self, part: usize) -> impl Iterator<Item = usize> + '_ {
        let asked = |at: usize| (&self.request.parts[at], &self.starts[at]);
        let wanted = (0..self.request.parts.len()).filter(|at| self.standing[*at].is_none());
        wanted.filter(move |at| asked(*at) == asked(part))
    }

    fn note_problem(&mut self, part: usize, problem: &Problem) {
        let same: Vec<usize> = self.same_as(part).collect();
        self.problems.extend(same.into_iter().map(|part| (part, problem.clone())));
    }

    /// The same survey from the beginning. Peers that did not answer stay excluded.
    pub(super) fn afresh(&self) -> Survey {
        let again = Survey::new(self.purpose.clone(), &self.caller, self.permission, &self.request, &[]);
        let again = again.beside(self.standing.clone(), self.not_at.clone());
        Survey { silent: self.silent.clone(), ..again }
    }

    /// Prepares a second round. If sites rate single starts, those of one part rarely match those of another;
    /// so this requests the starts that match the others' offers. Returns false if there are none.
    fn align(&mut self, found: &[Vec<Found>], most: usize) -> bool {
        self.aligned = true;
        // Only the first starts of each part: later ones match only starts that are later still, which are
        // not requested.
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

    pub(super) fn booking(&self) -> Option<ReservationId> {
        match self.purpose {
            Purpose::Tell { .. } => None,
            Purpose::Book(id) | Purpose::Heal(id) | Purpose::Change(id) => Some(id),
        }
    }
}

/// The first `most` different times, ascending.
fn first_of(mut times: Vec<Time>, most: usize) -> Vec<Time> {
    times.sort_unstable();
    times.dedup();
    times.truncate(most);
    times
}

/// Sort key among equal slots: rating, cost, impact, start, names. Missing details count as in the search: no
/// rating is the worst, no impact is zero.
fn tie_rule(Found { peer, slot }: &Found) -> (Reverse<Rating>, u64, (Seconds, u32), Time, [Name; 3]) {
    let impact = slot.impact.unwrap_or_default();
    let names = [slot.site.clone(), peer.clone(), slot.resource.clone()];
    let rating = slot.rating.unwrap_or(Rating(0));
    (Reverse(rating), slot.cost, (impact.total_delay, impact.delayed), slot.interval.begin, names)
}

/// How informative a refusal is: a reason ranks above a temporary problem, and suggested alternatives rank
/// highest.
fn telling(problem: &Problem) -> (u8, usize) {
    let says = match problem.why {
        Why::Circle => 0,
        Why::Silence | Why::Interrupted => 1,
        Why::Busy | Why::NoBatchSystem | Why::ClockInDoubt => 2,
        _ => 3,
    };
    (says, problem.relaxations.len())
}

/// An offer from a candidate, with the slack of each part.
pub(super) fn offer(candidate: &Candidate, slack: &[Seconds]) -> Offer {
    let here = |(part, peer, slot): (usize, &Name, &Slot)| Slot {
        resource: name_here(peer, &slot.resource),
        slack: slack[part],
        ..slot.clone()
    };
    Offer { slots: candidate.slots().map(here).collect() }
}

/// A part as it is sent to a peer: the resource without the peer's prefix. None if the part names a resource
/// of another peer.
fn part_at<'a>(peer: &Name, part: &'a Part) -> Option<Cow<'a, Part>> {
    let Some(resource) = &part.resource else { return Some(Cow::Borrowed(part)) };
    let there = resource.as_str().strip_prefix(peer.as_str())?.strip_prefix('/')?;
    Some(Cow::Owned(Part { resource: Some(there.into()), ..part.clone() }))
}

/// Keeps the first `most` of these peers in the order that `seed` gives them. The order does not depend on which other
/// peers there are.
fn first_in_order(peers: &mut Vec<&Name>, seed: u64, most: usize) {
    let rank = |peer: &Name| {
        let bytes = peer.as_str().bytes();
        mixed(bytes.fold(seed, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
    };
    let mut ranked: Vec<(u64, &Name)> = peers.drain(..).map(|peer| (rank(peer), peer)).collect();
    if most < ranked.len() {
        ranked.select_nth_unstable(most);
        ranked.truncate(most);
    }
    ranked.sort_unstable();
    peers.extend(ranked.into_iter().map(|(_, peer)| peer));
}

/// The id at the peer, if the reservation to replace or change is one of this broker's bookings. The part
/// names it by the id that the client knows.
pub(super) fn replaced_at(
    bookings: &BTreeMap<ReservationId, Booking>,
    replaces: Option<ReservationId>,
) -> Option<ReservationId> {
    let ours = replaces.and_then(|id| bookings.get(&id)?.children.first());
    ours.map(|child| child.pick.child).or(replaces)
}
