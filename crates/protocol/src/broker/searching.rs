//! Searches for candidates, under way in slices: a step does at most one slice of work, however many searches there are
//! and however hard they are, so that calls and answers are served in between. Whoever drives a broker calls
//! [`Broker::tick`] again while [`Broker::next_timer`] is due. It relies on [`Search`] and never waits.

use super::survey::{Purpose, Survey, offer};
use super::{Broker, Client, Effects, Outcome};
use crate::candidates::{Candidate, Progress, Search};
use crate::clock::Moment;
use crate::ids::ReservationId;
use crate::message::{Answer, Offer};
use crate::problem::{Problem, Why};
use crate::request::{Objective, Request};

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
enum Goal {
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
    pub(super) fn search_found(&mut self, now: Moment, mut survey: Survey) {
        let search = Search::new(&survey.request, std::mem::take(&mut survey.found), self.rules.search);
        self.begin_search(now, search, Goal::First { survey: Box::new(survey), earliest: false });
    }

    /// Searches for the next candidate for a booking.
    pub(super) fn search_next(&mut self, now: Moment, id: ReservationId) {
        if let Some(search) = self.searches.remove(&id) {
            self.begin_search(now, search, Goal::Next(id));
        }
    }

    /// The search comes first in this step; if that is not enough, it takes turns with the others.
    fn begin_search(&mut self, now: Moment, search: Search, goal: Goal) {
        let until = now + self.rules.search_time;
        self.pending.push_front(Pending { search, goal, due: now, until });
    }

    /// Goes on with the searches in turn, for one slice of work in all. The `others`, which were there before this step,
    /// are left alone.
    pub(super) fn advance_searches(&mut self, now: Moment, others: usize, effects: &mut Effects) {
        let mut left = SLICE;
        while left > 0
            && self.pending.len() > others
            && let Some(mut pending) = self.pending.pop_front()
        {
            let before = pending.search.work();
            let progress = pending.search.advance(left);
            left = left.saturating_sub(pending.search.work() - before);
            pending.due = now;
            match progress {
                Progress::More if pending.until <= now => self.found_no_more(now, pending, false, effects),
                Progress::More => self.pending.push_back(pending),
                Progress::Found(candidate) => self.found(now, pending, &candidate, effects),
                Progress::Exhausted => self.found_no_more(now, pending, true, effects),
                Progress::OutOfBudget => self.found_no_more(now, pending, false, effects),
            }
        }
    }

    fn found(&mut self, now: Moment, mut pending: Pending, candidate: &Candidate, effects: &mut Effects) {
        let (client, most, mut offers) = match pending.goal {
            Goal::First { survey, .. } => match survey.purpose {
                Purpose::Tell { client, most } => (client, most, Vec::new()),
                Purpose::Book(id) => return self.try_found(now, id, pending.search, candidate, effects),
            },
            Goal::Offers { client, most, offers } => (client, most, offers),
            Goal::Next(id) => return self.try_found(now, id, pending.search, candidate, effects),
        };
        offers.push(offer(candidate));
        if offers.len() < most as usize {
            pending.goal = Goal::Offers { client, most, offers };
            self.pending.push_front(pending);
        } else {
            effects.reply(client, Answer::Offers(offers));
        }
    }

    /// Tries a candidate, and keeps the search for the case that it is refused.
    fn try_found(
        &mut self,
        now: Moment,
        id: ReservationId,
        search: Search,
        candidate: &Candidate,
        effects: &mut Effects,
    ) {
        self.searches.insert(id, search);
        self.try_candidate(now, id, candidate, effects);
    }

    /// There are no more candidates, or the search was stopped at a bound.
    fn found_no_more(&mut self, now: Moment, pending: Pending, all: bool, effects: &mut Effects) {
        let Pending { search, goal, .. } = pending;
        match goal {
            Goal::First { survey, earliest } => {
                if !all && !earliest && survey.request.objective != Objective::EarliestEnd {
                    // Any candidate is better than none, and the earliest is found with the least work.
                    let request = Request { objective: Objective::EarliestEnd, ..survey.request.clone() };
                    let search = search.again(&request, self.rules.search);
                    return self.begin_search(now, search, Goal::First { survey, earliest: true });
                }
                let why = Problem::new(Why::NoCandidate { tried: 0, all });
                self.no_candidate(now, *survey, search.into_found(), why, effects);
            }
            Goal::Offers { client, offers, .. } => effects.reply(client, Answer::Offers(offers)),
            Goal::Next(id) => {
                let tried = self.bookings.get(&id).map_or(0, |booking| booking.attempts);
                let why = Why::NoCandidate { tried, all };
                self.close(now, id, Outcome::Refused(Problem::new(why)), effects);
            }
        }
    }

    /// A booking is over: nobody needs a candidate for it any more.
    pub(super) fn drop_searches(&mut self, id: ReservationId) {
        self.searches.remove(&id);
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
