//! How long a site holds capacity before it is committed.

use super::common::in_its_time;
use super::error::{Wrong, percentage};
use bookahead_api::Length;
use bookahead_protocol::deadline;
use bookahead_protocol::ledger::HoldRules;
use serde::{Deserialize, Serialize};

/// Duration of holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(missing_docs, reason = "reference/*.toml describes the fields")]
pub struct Holds {
    pub longest: Length,
    pub late_commits: bool,
    pub adaptive: Option<Adaptive>,
}

/// Adapts the duration of holds to the share of holds that are never committed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Adaptive {
    /// Percentage of requests that should find room.
    pub target: f64,
    /// Lower bound of the duration.
    pub shortest: Length,
}

impl Default for Holds {
    fn default() -> Holds {
        let usual = HoldRules::default();
        Holds { longest: Length(usual.longest), late_commits: usual.late_commits, adaptive: None }
    }
}

impl Holds {
    /// Converts to the rules of a ledger whose clock has this speed.
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
