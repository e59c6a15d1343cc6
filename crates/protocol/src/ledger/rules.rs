//! The rules of a site: what it offers, how much it tells, how long it holds, and how much one user may have. Fixed for the
//! life of a ledger. What each user has is kept with every event, so that checking a limit costs nothing.

use super::Ledger;
use crate::clock::{Millis, Moment};
use crate::deadline::Adaptive;
use crate::ids::Name;
use crate::message::Caller;
use crate::problem::{Limit, Why};
use crate::request::Resource;
use bookahead_plan::placement::{self, Request};
use bookahead_plan::{Capacity, Seconds, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// The rules of a site.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Its name.
    pub site: Name,
    /// What it offers; where several suit equally, the first is taken.
    pub resources: Vec<Offered>,
    /// How much one user may have.
    pub limits: Limits,
    /// How much it tells.
    pub reveal: Reveal,
    /// How long it holds.
    pub holds: HoldRules,
    /// How long it remembers what is over, and the answers that it gave.
    pub retention: Seconds,
    /// It remembers at most so many answers; the oldest go first.
    pub most_answers: usize,
    /// How long the batch system may take to grant something before it is refused. None where nobody is asked: what the
    /// book has room for is promised at once.
    pub consent: Option<Millis>,
}

/// A resource, and how requests are placed on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// What it is.
    pub resource: Resource,
    /// How slots are found and rated.
    pub placement: placement::Rules,
}

/// How much one user may have: what is said of him by name, else the most generous of what is said of his
/// roles, else what is said of everybody.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// Of everybody else.
    pub default: UserLimits,
    /// By role.
    pub roles: BTreeMap<Name, UserLimits>,
    /// By user.
    pub users: BTreeMap<Name, UserLimits>,
}

/// Limits of one user. None is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UserLimits {
    /// So many live reservations, holds included.
    pub count: Option<u32>,
    /// So many capacity-seconds in live reservations, holds included.
    pub area: Option<i64>,
    /// A reservation must have ended so long after it was asked for.
    pub horizon: Option<Seconds>,
    /// A reservation may begin only so long after it was asked for.
    pub notice: Option<Seconds>,
    /// So many hundredths of a resource at the same time.
    pub share: Option<u32>,
    /// So many jobs outside reservations, waiting or running; where it is not set, as many as `count` says.
    pub jobs: Option<u32>,
    /// So many hundredths of a resource, asked for by all of them together; else as many as `share` says.
    pub job_share: Option<u32>,
    /// None of them may run longer; else no longer than `horizon` says.
    pub longest_job: Option<Seconds>,
}

/// How much a site tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reveal {
    /// At most so many slots to a probe, and so many begins that the requester names are looked at.
    pub slots: usize,
    /// How well slots suit the site.
    pub ratings: bool,
    /// What slots would do to waiting jobs.
    pub impacts: bool,
    /// What stands in the way of a request that is refused.
    pub blockers: bool,
    /// What is free beside a slot.
    pub free: bool,
    /// How much later a slot may begin.
    pub slack: bool,
}

/// How long a site holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldRules {
    /// No hold is longer.
    pub longest: Millis,
    /// Where set, holds are as short as the share of those that are never committed demands.
    pub adaptive: Option<Adaptive>,
    /// Whether a commit that comes too late is accepted where the room is still free.
    pub late_commits: bool,
}

/// Rules that make no sense.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum RulesError {
    #[error("the site offers no resource; give at least one")]
    NoResource,
    #[error("two resources are called {0}; give each a name of its own")]
    SameName(Name),
    #[error("resource {0} has no capacity")]
    NoCapacity(Name),
    #[error("resource {resource} says that it belongs to {says}, not to {site}")]
    OtherSite { resource: Name, says: Name, site: Name },
    #[error("{0} is negative")]
    Negative(&'static str),
    #[error("the time limit for the batch system to answer must be longer than zero")]
    NoTimeToAnswer,
    #[error("the site reveals no slot; let it reveal at least one")]
    NoSlots,
}

impl Rules {
    /// The place of a resource among those that are offered.
    pub(super) fn at(&self, resource: &Name) -> Option<usize> {
        self.resources.iter().position(|offered| offered.resource.name == *resource)
    }

    /// Of a site that tells everything, limits nobody, holds for up to five minutes, accepts late commits,
    /// and remembers for a day.
    pub fn new(site: impl Into<Name>, resources: Vec<Offered>) -> Rules {
        Rules {
            site: site.into(),
            resources,
            limits: Limits::default(),
            reveal: Reveal::default(),
            holds: HoldRules::default(),
            retention: Seconds(86_400),
            most_answers: 100_000,
            consent: None,
        }
    }

    /// Says what is wrong with them.
    pub fn check(&self) -> Result<(), RulesError> {
        if self.resources.is_empty() {
            return Err(RulesError::NoResource);
        }
        for (at, Offered { resource, .. }) in self.resources.iter().enumerate() {
            let name = resource.name.clone();
            if self.resources[..at].iter().any(|other| other.resource.name == name) {
                return Err(RulesError::SameName(name));
            }
            if resource.capacity == Capacity::ZERO {
                return Err(RulesError::NoCapacity(name));
            }
            if resource.site != self.site {
                let (says, site) = (resource.site.clone(), self.site.clone());
                return Err(RulesError::OtherSite { resource: name, says, site });
            }
        }
        if self.reveal.slots == 0 {
            return Err(RulesError::NoSlots);
        }
        self.check_lengths()
    }

    fn check_lengths(&self) -> Result<(), RulesError> {
        if self.retention < Seconds::ZERO {
            return Err(RulesError::Negative("the time for which answers are remembered"));
        }
        if self.consent.is_some_and(|limit| limit <= Millis::ZERO) {
            return Err(RulesError::NoTimeToAnswer);
        }
        if self.holds.longest < Millis::ZERO {
            return Err(RulesError::Negative("the longest hold"));
        }
        let limits = [&self.limits.default].into_iter();
        let mut limits = limits.chain(self.limits.roles.values()).chain(self.limits.users.values());
        let negative = |limit: &UserLimits| {
            let lengths = [limit.horizon, limit.notice].into_iter().flatten();
            lengths.chain(limit.area.map(Seconds)).any(|length| length < Seconds::ZERO)
        };
        if limits.any(negative) { Err(RulesError::Negative("a limit of a user")) } else { Ok(()) }
    }
}

impl Limits {
    /// What holds for a caller.
    pub fn of(&self, caller: &Caller) -> UserLimits {
        if let Some(own) = self.users.get(&caller.user) {
            return *own;
        }
        let roles = caller.roles.iter().filter_map(|role| self.roles.get(role)).copied();
        roles.reduce(UserLimits::more_generous).unwrap_or(self.default)
    }

    /// Whether anybody's share of a resource is limited.
    pub(super) fn limit_shares(&self) -> bool {
        let all = [&self.default].into_iter().chain(self.roles.values()).chain(self.users.values());
        all.into_iter().any(|limits| limits.share.is_some())
    }
}

impl UserLimits {
    /// Of each limit the one that allows more.
    fn more_generous(self, other: UserLimits) -> UserLimits {
        UserLimits {
            count: larger(self.count, other.count),
            area: larger(self.area, other.area),
            horizon: larger(self.horizon, other.horizon),
            notice: self.notice.zip(other.notice).map(|(one, other)| one.min(other)),
            share: larger(self.share, other.share),
            jobs: larger(self.jobs.or(self.count), other.jobs.or(other.count)),
            job_share: larger(self.job_share.or(self.share), other.job_share.or(other.share)),
            longest_job: larger(self.longest_job.or(self.horizon), other.longest_job.or(other.horizon)),
        }
    }
}

fn larger<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.zip(other).map(|(one, other)| one.max(other))
}

impl Default for Reveal {
    /// Everything, of up to twenty slots.
    fn default() -> Reveal {
        Reveal { slots: 20, ratings: true, impacts: true, blockers: true, free: true, slack: true }
    }
}

impl Default for HoldRules {
    /// Five minutes, late commits accepted.
    fn default() -> HoldRules {
        HoldRules { longest: Millis::seconds(300), adaptive: None, late_commits: true }
    }
}

/// What one user has in live reservations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Usage {
    /// How many.
    pub count: u32,
    /// Capacity times seconds, in all.
    pub area: i128,
}

/// Jobs of one user outside reservations, on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobUsage {
    /// How many, on all resources.
    pub count: u32,
    /// The capacity that they ask for.
    pub capacity: i64,
    /// The capacity of the resource.
    pub of: Capacity,
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

    /// What a user has beside one that is to be replaced.
    pub(super) fn usage_beside(&self, user: &Name, replaced: Option<&[Span]>) -> Usage {
        let Usage { count, area } = self.usage.get(user).copied().unwrap_or_default();
        match replaced {
            None => Usage { count, area },
            Some(spans) => Usage { count: count.saturating_sub(1), area: area - super::book::area(spans) },
        }
    }
}

impl UserLimits {
    /// Whether one more reservation would be too many.
    pub(super) fn check_count(&self, usage: &Usage) -> Result<(), Why> {
        let asked = i64::from(usage.count) + 1;
        match self.count.map(i64::from) {
            Some(most) if asked > most => Err(Why::Limit { limit: Limit::Count, most, asked }),
            _ => Ok(()),
        }
    }

    /// Whether a user may have one more job outside reservations, beside those that wait or run already.
    pub fn check_job(&self, beside: &JobUsage, job: &JobUsage, time: Seconds) -> Result<(), Why> {
        let refuse = |limit, most, asked| Err(Why::Limit { limit, most, asked });
        let count = i64::from(beside.count) + i64::from(job.count);
        if let Some(most) = self.jobs.or(self.count).map(i64::from).filter(|most| count > *most) {
            return refuse(Limit::Jobs, most, count);
        }
        let (capacity, of) = (beside.capacity + job.capacity, i64::from(job.of.0.max(1)));
        let share = (capacity.saturating_mul(100) + of - 1) / of;
        if let Some(most) = self.job_share.or(self.share).map(i64::from).filter(|most| share > *most) {
            return refuse(Limit::JobShare, most, share);
        }
        match self.longest_job.or(self.horizon).filter(|most| time > *most) {
            Some(most) => refuse(Limit::JobTime, most.0, time.0),
            None => Ok(()),
        }
    }

    /// Whether so much more would be too much.
    pub(super) fn check_area(&self, usage: &Usage, more: i128) -> Result<(), Why> {
        let asked = usage.area + more;
        match self.area {
            Some(most) if asked > i128::from(most) => {
                let asked = i64::try_from(asked).unwrap_or(i64::MAX);
                Err(Why::Limit { limit: Limit::Area, most, asked })
            }
            _ => Ok(()),
        }
    }

    /// What of a window is neither too soon nor too far ahead, if it is long enough.
    pub(super) fn window(&self, now: Moment, wanted: &Request) -> Result<Request, Why> {
        let mut allowed = *wanted;
        if let Some(notice) = self.notice {
            let first = super::fold::rest_from(now + Millis::seconds(notice.0));
            allowed.earliest_start = allowed.earliest_start.max(first);
            if allowed.latest_start() < allowed.earliest_start
                && wanted.latest_start() >= wanted.earliest_start
            {
                let asked = (wanted.latest_start() - now.second()).0;
                return Err(Why::Limit { limit: Limit::Notice, most: notice.0, asked });
            }
        }
        if let Some(horizon) = self.horizon {
            let furthest = (now + Millis::seconds(horizon.0)).second();
            let soonest = allowed.earliest_start + wanted.duration;
            if furthest < soonest && soonest <= allowed.latest_end {
                let asked = (soonest - now.second()).0;
                return Err(Why::Limit { limit: Limit::Horizon, most: horizon.0, asked });
            }
            allowed.latest_end = allowed.latest_end.min(furthest);
        }
        Ok(allowed)
    }
}
