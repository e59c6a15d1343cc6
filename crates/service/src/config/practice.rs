//! What a site lays down besides its resources: how long it holds, how much it tells, and how much one user may have.

use super::clock::in_its_time;
use super::length::Length;
use super::wrong::{Wrong, percentage};
use bookahead_protocol::deadline;
use bookahead_protocol::ledger::{self, HoldRules, UserLimits};
use serde::Deserialize;
use std::collections::BTreeMap;

/// How long a site holds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Holds {
    /// No hold is longer.
    pub longest: Length,
    /// Whether a commit that comes too late is accepted where the room is still free.
    pub late_commits: bool,
    /// Holds as short as the share of those that are never committed demands.
    pub adaptive: Option<Adaptive>,
}

/// Holds as short as the share of those that are never committed demands.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// The percentage of requests that should find room.
    pub target: f64,
    /// No hold is shorter.
    pub shortest: Length,
}

impl Default for Holds {
    fn default() -> Holds {
        let usual = HoldRules::default();
        Holds { longest: Length(usual.longest), late_commits: usual.late_commits, adaptive: None }
    }
}

impl Holds {
    /// As a ledger wants them whose clock has this speed.
    pub fn rules(&self, speed: u32) -> Result<HoldRules, Wrong> {
        let longest = in_its_time(self.longest, speed);
        let adaptive = self.adaptive.as_ref().map(|adaptive| {
            let target = percentage("holds.adaptive.target", adaptive.target)?;
            let target = (target * 10_000.0).round() as u32;
            Ok(deadline::Adaptive { target, shortest: in_its_time(adaptive.shortest, speed), longest })
        });
        Ok(HoldRules { longest, adaptive: adaptive.transpose()?, late_commits: self.late_commits })
    }
}

/// How much a site tells.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reveal {
    /// At most so many slots to a probe.
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

impl Default for Reveal {
    fn default() -> Reveal {
        let ledger::Reveal { slots, ratings, impacts, blockers, free, slack } = ledger::Reveal::default();
        Reveal { slots, ratings, impacts, blockers, free, slack }
    }
}

impl From<&Reveal> for ledger::Reveal {
    fn from(described: &Reveal) -> ledger::Reveal {
        let Reveal { slots, ratings, impacts, blockers, free, slack } = *described;
        ledger::Reveal { slots, ratings, impacts, blockers, free, slack }
    }
}

/// What one user may have; what is not said is not limited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// So many live reservations.
    pub count: Option<u32>,
    /// So many hours of one unit, in all of them.
    pub unit_hours: Option<u32>,
    /// They must end so long after they were asked for.
    pub horizon: Option<Length>,
    /// They may begin only so long after they were asked for.
    pub notice: Option<Length>,
    /// A percentage of a resource at the same time.
    pub share: Option<u32>,
}

impl Limits {
    /// As a ledger wants them.
    pub fn user_limits(&self) -> UserLimits {
        UserLimits {
            count: self.count,
            area: self.unit_hours.map(|hours| i64::from(hours) * 3_600),
            horizon: self.horizon.map(Length::seconds),
            notice: self.notice.map(Length::seconds),
            share: self.share,
        }
    }

    /// Those of several users or roles, by name.
    pub fn by_name(described: &BTreeMap<String, Limits>) -> BTreeMap<bookahead_protocol::Name, UserLimits> {
        described.iter().map(|(name, limits)| (name.as_str().into(), limits.user_limits())).collect()
    }
}
