//! Searches for candidates in the slots that a survey found, in slices: one step does at most one slice of
//! work, so calls and answers are served in between. The driver of a broker calls [`Broker::tick`] again while
//! [`Broker::next_timer`] is due.

use super::survey::{Purpose, Survey, offer};
use super::{Broker, Client, Pick, Step};
use crate::candidates::{Candidate, Excluded, Progress, Search};
use crate::clock::Moment;
use crate::ids::ReservationId;
use crate::message::{Answer, Offer};
use crate::problem::{Problem, Why};
use crate::request::{Objective, Request};
use std::collections::VecDeque;

/// Work that searches may do in one step. In a release build about 1 ms, 2 ms for the hardest requests: calls
/// hardly notice it, and interrupting a search costs next to nothing. Most searches need less in total: it is
/// enough for about 8,000 slots.
pub const SLICE: u64 = 250_000;

/// State of a booking with a candidate found.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Try {
    /// The search to continue if the candidate is refused.
    pub(super) search: Option<Search>,
    /// Parts of the candidate whose peers are not asked to hold them yet, in order.
    pub(super) to_ask: VecDeque<(usize, Pick)>,
    /// The survey to repeat.
    pub(super) survey: Box<Survey>,
    /// Slots, resources and peers to exclude. Not those that a competitor took.
    pub(super) left_out: Vec<Excluded>,
    /// No new survey after this moment.
    pub(super) until: Moment,
    /// Time of the next survey.
    pub(super) again: Option<Moment>,
    pub(super) rounds: u32,
    /// Number of candidates tried.
    pub(super) attempts: u32,
    /// Surveys since the last candidate.
    pub(super) empty: u32,
    /// The last refusal of a hold by a rule of its site.
    pub(super) refusal: Option<Problem>,
}

impl Try {
    pub(super) fn new(survey: Box<Survey>, until: Moment) -> Try {
        Try {
            search: None,
            to_ask: VecDeque::new(),
            survey,
            left_out: Vec::new(),
            until,
            again: None,
            rounds: 0,
            attempts: 0,
            empty: 0,
            refusal: None,
        }
    }

    pub(super) fn left_out(&self) -> impl Iterator<Item = &Excluded> {
        self.left_out.iter()
    }
}

/// A search in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Pending {
    search: Search,
    goal: Goal,
    /// When it was started or advanced; it is due again at once.
    pub(super) due: Moment,
    /// Timeout.
    until: Moment,
}

/// The purpose of a search.
#[allow(clippy::large_enum_variant, reason = "one for each search in progress, beside its candidates")]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Goal {
    /// The first candidate of a survey: the best one, or the earliest if there is no time for the best.
    First { survey: Box<Survey>, earliest: bool },
    /// More offers for a client's probe.
    Offers { client: Client, most: u32, offers: Vec<Offer> },
    /// The next candidate for a booking, after the last one was refused.
    Next(ReservationId),
}

impl Broker {
    /// The searches in progress, the next to advance first. While there are any, call [`Broker::tick`] again
    /// at once.
    pub fn searches_under_way(&self) -> impl ExactSizeIterator<Item = &Search> {
        self.pending.iter().map(|pending| &pending.search)
    }

    /// Starts the search of a survey that has its slots.
    pub(super) fn search_found(&mut self, now: Moment, mut survey: Survey) {
        let mut search = Search::new(&survey.request, std::mem::take(&mut survey.found), self.rules.search);
        let tried = survey.booking().and_then(|id| self.tries.get(&id));
        tried.into_iter().flat_map(Try::left_out).for_each(|left_out| search.without(left_out));
        self.begin_search(now, search, Goal::First { survey: Box::new(survey), earliest: false });
    }

    /// Starts a search, first in this step. If one slice is not enough, it takes turns with the others.
    pub(super) fn begin_search(&mut self, now: Moment, search: Search, goal: Goal) {
        let until = now + self.rules.search_time;
        self.pending.push_front(Pending { search, goal, due: now, until });
    }

    /// Continues searches in turn, for one slice of work in total. The last `others` in the queue, started
    /// before this step, are skipped: they advance on ticks.
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

    /// Tries a candidate. Keeps the search, in case it is refused.
    fn try_found(&mut self, id: ReservationId, search: Search, candidate: &Candidate, step: &mut Step) {
        if let Some(tried) = self.tries.get_mut(&id) {
            (tried.search, tried.empty) = (Some(search), 0);
        }
        self.try_candidate(id, candidate, step);
    }

    /// A search ended without a candidate. `all` tells that it was exhaustive; otherwise it hit a bound.
    fn found_no_more(&mut self, pending: Pending, all: bool, step: &mut Step) {
        let Pending { search, goal, .. } = pending;
        match goal {
            Goal::First { survey, earliest } => {
                if !all && !earliest && survey.request.objective != Objective::EarliestEnd {
                    // Any candidate is better than none, and the earliest needs the least work to find.
                    let request = Request { objective: Objective::EarliestEnd, ..survey.request.clone() };
                    let search = search.again(&request, self.rules.search);
                    return self.begin_search(step.now, search, Goal::First { survey, earliest: true });
                }
                let problem = match survey.booking() {
                    Some(id) => self.no_more_candidates(id, all),
                    None => Problem::new(Why::NoCandidate { tried: 0, all }),
                };
                self.no_candidate(*survey, search.into_found(), problem, step);
            }
            Goal::Offers { client, offers, .. } => step.reply(client, Answer::Offers(offers)),
            Goal::Next(id) => {
                self.refuse(id, self.no_more_candidates(id, all), step);
            }
        }
    }

    /// Drops everything that looks for a candidate of a booking.
    pub(super) fn drop_searches(&mut self, id: ReservationId) {
        self.drop_survey(id);
        self.drop_unasked(id);
        if let Some(at) = self.tries.remove(&id).and_then(|tried| tried.again) {
            self.retries.remove(&(at, id));
        }
        self.pending.retain(|pending| pending.booking() != Some(id));
    }
}

impl Pending {
    fn booking(&self) -> Option<ReservationId> {
        match &self.goal {
            Goal::First { survey, .. } => survey.booking(),
            Goal::Offers { .. } => None,
            Goal::Next(id) => Some(*id),
        }
    }
}
