//! The state of a ledger, and queries of it. Reservations change only by events, in `fold`.

use super::book::Book;
use super::entry::{AnsweredCall, Denied, Entry};
use super::rules::{Offered, Rules, RulesError, Usage};
use super::spans;
use crate::clock::{Millis, Moment};
use crate::deadline::{HoldCounts, Observed};
use crate::flaw::Broken;
use crate::ids::{Key, Name, ReservationId};
use crate::life_cycle::State;
use crate::message::{Answer, Reservation};
use crate::per_user::PerUser;
use bookahead_plan::placement::Prober;
use bookahead_plan::{Capacity, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The reservations of a site and the answers it gave. Two ledgers are equal if they answer every future
/// sequence of commands alike.
#[derive(Clone)]
pub struct Ledger {
    pub(super) rules: Arc<Rules>,
    pub(super) entries: BTreeMap<ReservationId, Entry>,
    pub(super) denied: PerUser<(ReservationId, Name), Denied>,
    pub(super) answers: PerUser<Key, Answered>,
    /// Entries that are over. Derived from the entries, like their texts.
    pub(super) ended: PerUser<ReservationId, ()>,
    pub(super) ended_texts: PerUser<ReservationId, ()>,
    pub(super) observed: Observed,
    pub(super) holds: Granted,
    /// Not part of the state that equality compares, nor of snapshots.
    pub(super) hold_counts: HoldCounts,
    /// Number of reservations ever accepted; gives each entry its serial.
    pub(super) accepted: u64,
    /// Same order as `rules.resources`.
    pub(super) books: Vec<Book>,
    /// Derived from the entries.
    pub(super) usage: BTreeMap<Name, Usage>,
    /// When each entry needs its next event. Derived from the entries.
    pub(super) agenda: BTreeSet<(Moment, ReservationId)>,
    /// The latest moment seen. Not part of the state that equality compares: a query leaves no trace.
    pub(super) latest: Moment,
    pub(super) memory: Memory,
    pub(super) broken: Broken,
}

impl Ledger {
    /// An empty ledger. Fails if the rules contradict themselves.
    pub fn new(rules: Rules) -> Result<Ledger, RulesError> {
        rules.check()?;
        let limit_shares = rules.limits.limit_shares();
        let book =
            |offered: &Offered| Book::new(offered.resource.capacity, &offered.resource.tres, limit_shares);
        Ok(Ledger {
            books: rules.resources.iter().map(book).collect(),
            rules: Arc::new(rules),
            entries: BTreeMap::new(),
            denied: PerUser::default(),
            answers: PerUser::default(),
            ended: PerUser::default(),
            ended_texts: PerUser::default(),
            observed: Observed::default(),
            holds: Granted::default(),
            hold_counts: HoldCounts::default(),
            accepted: 0,
            usage: BTreeMap::new(),
            agenda: BTreeSet::new(),
            latest: Moment(i64::MIN),
            memory: Memory::default(),
            broken: Broken::default(),
        })
    }

    /// Breaks the ledger on purpose, so that tests can prove they would notice. Call it before the first
    /// command.
    pub fn break_by(&mut self, flaw: crate::flaw::Flaw) {
        self.broken = Broken::by(flaw);
    }

    pub(super) fn at(&self, resource: &Name) -> Option<usize> {
        self.rules.at(resource)
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Replaces the rules. Promises that were made stay as they are; the new rules hold for all later decisions.
    /// Fails, and changes nothing, if the rules contradict themselves or differ in something that cannot change.
    pub fn set_rules(&mut self, rules: Rules) -> Result<(), RulesError> {
        rules.check()?;
        rules.check_change(&self.rules)?;
        let (limited, limit) = (self.rules.limits.limit_shares(), rules.limits.limit_shares());
        if limited != limit {
            self.books.iter_mut().for_each(|book| book.limit_shares(limit));
        }
        if limit && !limited {
            for entry in self.entries.values().filter(|entry| entry.is_live()) {
                if let Some(at) = self.rules.at(&entry.resource) {
                    self.books[at].add_to_share(&entry.owner, entry.promised());
                }
            }
        }
        self.rules = Arc::new(rules);
        Ok(())
    }

    /// Capacity of a resource that live reservations take at an instant that is not in the past. Zero for an unknown
    /// resource.
    pub fn taken_at(&self, resource: &Name, instant: Time) -> Capacity {
        let taken = self.at(resource).map_or(0, |at| {
            let book = &self.books[at];
            i64::from(book.standing().0) - book.profile.free_at(instant)
        });
        Capacity(u32::try_from(taken.max(0)).unwrap_or(u32::MAX))
    }

    /// A reservation in any state, as long as it is remembered.
    pub fn entry(&self, id: ReservationId) -> Option<&Entry> {
        self.entries.get(&id)
    }

    /// A reservation as its owner may see it at `now`.
    pub fn reservation(&self, now: Moment, id: ReservationId) -> Option<Reservation> {
        self.entries.get(&id).map(|entry| self.view(now, id, entry))
    }

    /// The ids of all remembered reservations, ascending, starting after `after`. For paging.
    pub fn ids_after(&self, after: Option<ReservationId>) -> impl Iterator<Item = ReservationId> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.entries.range((from, Bound::Unbounded)).map(|(id, _)| *id)
    }

    /// All remembered reservations, by ascending id.
    pub fn entries(&self) -> impl Iterator<Item = (ReservationId, &Entry)> {
        self.entries.iter().map(|(id, entry)| (*id, entry))
    }

    /// All remembered ids that were refused, or cancelled before they were reserved.
    pub fn denied(&self) -> impl Iterator<Item = (ReservationId, &Denied)> {
        self.denied.all().map(|((id, _), denied)| (*id, denied))
    }

    /// Number of reservations by state. States without a reservation are left out.
    pub fn counts(&self) -> BTreeMap<State, usize> {
        let mut counts = BTreeMap::new();
        self.entries.values().for_each(|entry| *counts.entry(entry.state).or_default() += 1);
        counts
    }

    /// Drops the recorded answers. A read-only copy of the ledger does not need them.
    pub fn forget_answers(&mut self) {
        self.answers = PerUser::default();
    }

    /// Number of recorded answers, for metrics.
    pub fn answers_remembered(&self) -> usize {
        self.answers.len()
    }

    /// Usage of each user that has live reservations.
    pub fn usage(&self) -> impl Iterator<Item = (&Name, &Usage)> {
        self.usage.iter()
    }

    /// Statistics about holds, input of [`crate::deadline`].
    pub fn observed(&self) -> &Observed {
        &self.observed
    }

    /// Holds by outcome since the start, or since [`Ledger::count_anew`].
    pub fn hold_counts(&self) -> HoldCounts {
        self.hold_counts
    }

    /// Sets [`Ledger::hold_counts`] to zero. A replay of events is not to be counted.
    pub fn count_anew(&mut self) {
        self.hold_counts = HoldCounts::default();
    }

    /// Capacity of a resource that has failed and not come back. Zero for an unknown resource.
    pub fn lost_capacity(&self, resource: &Name) -> Capacity {
        self.at(resource).map_or(Capacity::ZERO, |at| self.books[at].lost)
    }

    /// The spans that live reservations take on a resource, by start: the capacity that its scheduler must
    /// keep free.
    pub fn reserved<'a>(&'a self, resource: &Name) -> impl Iterator<Item = (ReservationId, Span)> + 'a {
        self.reserved_before(resource, Time::MAX)
    }

    /// The same for reservations that begin before an instant.
    pub fn reserved_before<'a>(
        &'a self,
        resource: &Name,
        end: Time,
    ) -> impl Iterator<Item = (ReservationId, Span)> + 'a {
        let book = self.at(resource).map(|at| &self.books[at]);
        let begins = book.into_iter().flat_map(move |book| book.begins.range(..(end, ReservationId(0))));
        let ids = begins.map(|(_, id)| *id);
        let entries = ids.filter_map(|id| Some((id, self.entries.get(&id)?)));
        entries.flat_map(|(id, entry)| entry.takes().into_iter().map(move |span| (id, span)))
    }
}

impl Ledger {
    pub(super) fn add_usage(&mut self, owner: &Name, count: i32, area: i128) {
        if count == 0 && area == 0 {
            return;
        }
        let usage = self.usage.entry(owner.clone()).or_default();
        usage.count = usage.count.saturating_add_signed(count);
        usage.area += area;
        if *usage == Usage::default() {
            self.usage.remove(owner);
        }
    }

    /// Usage without the reservation that a request would replace.
    pub(super) fn usage_beside(&self, user: &Name, replaced: Option<&[Span]>) -> Usage {
        let Usage { count, area } = self.usage.get(user).copied().unwrap_or_default();
        match replaced {
            None => Usage { count, area },
            Some(spans) => Usage { count: count.saturating_sub(1), area: area - spans::area(spans) },
        }
    }
}

/// A call and its answer, recorded for repetitions.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Answered {
    pub(super) at: Moment,
    #[serde(alias = "envelope")]
    pub(super) call: AnsweredCall,
    pub(super) answer: Arc<Answer>,
}

/// Statistics of granted hold times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub(super) struct Granted {
    pub(super) holds: u64,
    pub(super) in_all: Millis,
}

impl Granted {
    pub(super) fn mean(&self) -> Millis {
        Millis(self.in_all.0.checked_div(i64::try_from(self.holds).unwrap_or(i64::MAX)).unwrap_or(0))
    }
}

/// Buffers for planning, without state. A clone starts empty.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) prober: Prober,
    pub(super) spans: Vec<Span>,
    pub(super) begins: Vec<Time>,
}

impl Clone for Memory {
    fn clone(&self) -> Memory {
        Memory::default()
    }
}
