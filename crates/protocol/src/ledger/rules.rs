//! The rules of a site: its resources, its limits for users, how long it holds, and how much it reveals. An
//! operator may change all but the resources and the times while the ledger is in use. The usage of each user is
//! updated with every event, so a limit check needs no search.

use super::ended::Bounds;
use super::notice::ResourceNotice;
use super::priorities::Priorities;
use super::spans::rest_from;
use crate::clock::{Millis, Moment};
use crate::deadline::Adaptive;
use crate::ids::Name;
use crate::message::Caller;
use crate::problem::{Limit, Why};
use crate::request::Resource;
use bookahead_plan::placement::{self, Request};
use bookahead_plan::{Capacity, Seconds};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use thiserror::Error;

/// The rules of a site. [`Rules::check`] finds contradictions.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Name of the site.
    pub site: Name,
    /// The resources on offer. If several suit equally well, the first one wins.
    pub resources: Vec<Offered>,
    /// The shortest notice on a resource, by its name, in addition to the notice in the limits of a user.
    pub notices: BTreeMap<Name, ResourceNotice>,
    /// Limits for one user.
    pub limits: Limits,
    /// Priority classes, and who may use them.
    pub priorities: Priorities,
    /// Which details answers contain.
    pub reveal: Reveal,
    /// Limits for holds.
    pub holds: HoldRules,
    /// How long finished reservations and recorded answers are remembered.
    pub retention: Seconds,
    /// Most answers remembered for repeated calls; the oldest are dropped first.
    pub most_answers: usize,
    /// Bounds in bytes on what is remembered.
    pub bounds: Bounds,
    /// How long the batch system may take to grant a reservation before the request is refused. None: the
    /// site has no batch system to ask, and promises whatever the ledger has room for.
    pub consent: Option<Millis>,
}

/// A resource and the rules by which requests are placed on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Offered {
    /// Name, site, kind, capacity and price.
    pub resource: Resource,
    /// How slots are found and rated.
    pub placement: placement::Rules,
}

/// Limits for one user. A limit by user name wins. Otherwise the most generous limit among the user's roles
/// applies, and without one the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Limits {
    /// For users without an entry of their own or of one of their roles.
    pub default: UserLimits,
    /// By role.
    pub roles: BTreeMap<Name, UserLimits>,
    /// By user name.
    pub users: BTreeMap<Name, UserLimits>,
}

/// Limits of one user. None means unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct UserLimits {
    /// Most live reservations, holds included.
    pub count: Option<u32>,
    /// Most capacity-seconds in live reservations, holds included.
    pub area: Option<i64>,
    /// How far in the future a reservation may end, counted from the request.
    pub horizon: Option<Seconds>,
    /// Shortest time between the request and the start of a reservation.
    pub notice: Option<Seconds>,
    /// Largest share of a resource at any instant, in percent.
    pub share: Option<u32>,
    /// Most jobs outside reservations, waiting or running. Default: `count`.
    pub jobs: Option<u32>,
    /// Largest share of a resource that these jobs may request together, in percent. Default: `share`.
    pub job_share: Option<u32>,
    /// Longest run time of one such job. Default: `horizon`.
    pub longest_job: Option<Seconds>,
}

/// Which details a site puts into its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reveal {
    /// Most slots in the answer to a probe; also the most starts named by the requester that are tried.
    pub slots: usize,
    /// How well slots suit the site.
    pub ratings: bool,
    /// How much slots would delay waiting jobs.
    pub impacts: bool,
    /// The jobs and reservations that block a refused request.
    pub blockers: bool,
    /// The capacity that is free throughout a slot.
    pub free: bool,
    /// How much later a slot may start.
    pub slack: bool,
}

/// How long a site holds capacity for an uncommitted reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HoldRules {
    /// Longest hold, whatever the requester asks for.
    pub longest: Millis,
    /// If set, holds get shorter the more of them are never committed.
    pub adaptive: Option<Adaptive>,
    /// Whether an expired hold may still be committed if its capacity is free.
    pub late_commits: bool,
}

/// A contradiction in the rules.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error)]
pub enum RulesError {
    #[error("the site offers no resource; give at least one")]
    NoResource,
    #[error("two resources are called {0}; give each a name of its own")]
    SameName(Name),
    #[error("resource {0} has a capacity of 0")]
    NoCapacity(Name),
    #[error("resource {resource} belongs to site {says}, not to {site}")]
    OtherSite { resource: Name, says: Name, site: Name },
    #[error("{0} is negative")]
    Negative(&'static str),
    #[error("the time limit for the batch system to answer must be longer than zero")]
    NoTimeToAnswer,
    #[error("a probe may reveal 0 slots; set it to at least 1")]
    NoSlots,
    #[error("{0} cannot change while the site runs; restart it")]
    Fixed(&'static str),
}

impl Rules {
    pub(super) fn at(&self, resource: &Name) -> Option<usize> {
        self.resources.iter().position(|offered| offered.resource.name == *resource)
    }

    /// A site that reveals everything, sets no limits, holds for up to five minutes, accepts late commits and
    /// remembers for one day. At most 100,000 answers are remembered.
    pub fn new(site: impl Into<Name>, resources: Vec<Offered>) -> Rules {
        Rules {
            site: site.into(),
            resources,
            notices: BTreeMap::new(),
            limits: Limits::default(),
            priorities: Priorities::default(),
            reveal: Reveal::default(),
            holds: HoldRules::default(),
            retention: Seconds(86_400),
            most_answers: 100_000,
            bounds: Bounds::default(),
            consent: None,
        }
    }

    /// Finds the first contradiction.
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

    /// Finds the first rule that differs from `old` and cannot change while a ledger is in use: state is derived
    /// from it.
    pub(super) fn check_change(&self, old: &Rules) -> Result<(), RulesError> {
        let fixed = [
            ("the site", self.site == old.site),
            ("a resource", self.resources == old.resources && self.notices == old.notices),
            ("the retention", self.retention == old.retention),
            ("a bound on what is remembered", self.bounds == old.bounds),
            ("the time limit for the batch system to answer", self.consent == old.consent),
        ];
        fixed.into_iter().find(|(_, same)| !same).map_or(Ok(()), |(what, _)| Err(RulesError::Fixed(what)))
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
        let fixed = |notice: &ResourceNotice| matches!(notice, ResourceNotice::Fixed(Seconds(..0)));
        if self.notices.values().any(fixed) {
            return Err(RulesError::Negative("the notice of a resource"));
        }
        if limits.any(negative) { Err(RulesError::Negative("a limit of a user")) } else { Ok(()) }
    }
}

impl Limits {
    /// The limits that apply to a caller.
    pub fn of(&self, caller: &Caller) -> UserLimits {
        if let Some(own) = self.users.get(&caller.user) {
            return *own;
        }
        let roles = caller.roles.iter().filter_map(|role| self.roles.get(role)).copied();
        roles.reduce(UserLimits::more_generous).unwrap_or(self.default)
    }

    /// Whether any user has a limited share of a resource. If not, no per-user profiles are kept.
    pub(super) fn limit_shares(&self) -> bool {
        let all = [&self.default].into_iter().chain(self.roles.values()).chain(self.users.values());
        all.into_iter().any(|limits| limits.share.is_some())
    }
}

impl UserLimits {
    /// The more generous value of each limit. No limit is the most generous.
    fn more_generous(self, other: UserLimits) -> UserLimits {
        UserLimits {
            count: larger(self.count, other.count),
            area: larger(self.area, other.area),
            horizon: larger(self.horizon, other.horizon),
            notice: self.notice.zip(other.notice).map(|(one, other)| one.min(other)),
            share: larger(self.share, other.share),
            // Defaults are filled in first: otherwise a role without `jobs` but with a `count` would count as
            // unlimited.
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
    /// Reveals everything, for up to 20 slots.
    fn default() -> Reveal {
        Reveal { slots: 20, ratings: true, impacts: true, blockers: true, free: true, slack: true }
    }
}

impl Default for HoldRules {
    /// Five minutes; late commits accepted.
    fn default() -> HoldRules {
        HoldRules { longest: Millis::seconds(300), adaptive: None, late_commits: true }
    }
}

/// Live reservations of one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Usage {
    /// Number of live reservations, holds included.
    pub count: u32,
    /// Capacity-seconds.
    pub area: i128,
}

/// Jobs of one user outside reservations, on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JobUsage {
    /// Number of jobs on all resources.
    pub count: u32,
    /// Capacity that the jobs request.
    pub capacity: i64,
    /// Capacity of the resource.
    pub of: Capacity,
}

impl UserLimits {
    pub(super) fn check_count(&self, usage: &Usage) -> Result<(), Why> {
        let asked = i64::from(usage.count) + 1;
        match self.count.map(i64::from) {
            Some(most) if asked > most => Err(Why::Limit { limit: Limit::Count, most, asked }),
            _ => Ok(()),
        }
    }

    /// Whether a user may submit one more job outside reservations. `beside` counts the jobs that already
    /// wait or run.
    pub fn check_job(&self, beside: &JobUsage, job: &JobUsage, time: Seconds) -> Result<(), Why> {
        let refuse = |limit, most, asked| Err(Why::Limit { limit, most, asked });
        let count = i64::from(beside.count) + i64::from(job.count);
        if let Some(most) = self.jobs.or(self.count).map(i64::from).filter(|most| count > *most) {
            return refuse(Limit::Jobs, most, count);
        }
        let (capacity, of) = (beside.capacity + job.capacity, i64::from(job.of.0.max(1)));
        // Rounded up: 1 of 3 nodes is 34 %, so it does not pass a limit of 33 %.
        let share = (capacity.saturating_mul(100) + of - 1) / of;
        if let Some(most) = self.job_share.or(self.share).map(i64::from).filter(|most| share > *most) {
            return refuse(Limit::JobShare, most, share);
        }
        match self.longest_job.or(self.horizon).filter(|most| time > *most) {
            Some(most) => refuse(Limit::JobTime, most.0, time.0),
            None => Ok(()),
        }
    }

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

    /// The part of a request's window that is neither too soon nor too far ahead. Refuses if the rest is too
    /// short.
    pub(super) fn window(&self, now: Moment, wanted: &Request) -> Result<Request, Why> {
        let mut allowed = *wanted;
        if let Some(notice) = self.notice {
            let first = rest_from(now + Millis::seconds(notice.0));
            allowed.earliest_start = allowed.earliest_start.max(first);
            // A window that was too short from the beginning is not the fault of the notice limit; its own
            // error comes later.
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
