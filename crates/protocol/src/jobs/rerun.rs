//! Running a job again: in the queue of its site after its reservation is over, or at another site after the first
//! lost it. Both only if its owner said so, and never two runs at the same time.

use crate::ids::Name;
use bookahead_plan::{Seconds, Time};
use serde::{Deserialize, Serialize};

/// Most attempts after the first. Each needs a loss that a site reported, so more would hide a fault.
pub const MOST_RETRIES: u32 = 16;

/// What the owner allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Rerun {
    /// Whether it goes back to the queue of its site if its reservation ends or is cancelled before it, or if capacity
    /// fails under it.
    #[serde(default)]
    pub restartable: bool,
    /// How long before the end of its reservation or its time limit it gets a signal.
    #[serde(default)]
    pub warn_seconds: Option<Seconds>,
    /// How often it is submitted again after a site lost it. Broker only.
    #[serde(default)]
    pub retry: Option<u32>,
}

impl Rerun {
    /// Whether nothing is said.
    pub fn is_empty(&self) -> bool {
        *self == Rerun::default()
    }

    /// Why this cannot be meant, if so.
    pub fn problem(&self) -> Option<String> {
        if self.warn_seconds.is_some_and(|warn| warn < Seconds(1)) {
            return Some("the warning must come at least 1s before the end".to_owned());
        }
        let retry = self.retry.filter(|retry| *retry > MOST_RETRIES);
        retry.map(|retry| format!("retry is {retry}; give at most {MOST_RETRIES}"))
    }
}

/// What happened to a job before its present run.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Runs {
    /// How often it went back to the queue of its site.
    #[serde(default)]
    pub restarts: u32,
    /// Attempts that sites lost, oldest first. Broker only.
    #[serde(default)]
    pub attempts: Vec<LostAttempt>,
    /// Whether its last run ended because a node or other capacity of the site failed.
    #[serde(default)]
    pub node_failed: bool,
}

impl Runs {
    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        *self == Runs::default()
    }
}

/// An attempt that was lost with its site.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LostAttempt {
    /// The site.
    pub site: Name,
    /// How the broker knows.
    pub why: String,
    /// When the broker learned it.
    pub at: Time,
}
