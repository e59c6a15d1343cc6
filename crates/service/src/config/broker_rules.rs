//! How a broker works, as it is described: its waits, how many peers it asks, and how often it tries.

use super::clock::in_its_time;
use super::length::Length;
use super::wrong::Wrong;
use bookahead_plan::Seconds;
use bookahead_protocol::broker::{self, Rules};
use bookahead_protocol::candidates::Budget;
use serde::Deserialize;

/// How a broker works. What is not said is as brokers usually do it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BrokerRules {
    /// Peers that have not answered a survey after this time are left out.
    pub survey_time: Length,
    /// A peer that has not answered a hold after this time counts as having refused.
    pub hold_time: Length,
    /// The longest hold that an owner gets.
    pub longest_hold: Length,
    /// At most so many candidates are tried for one request.
    pub attempts: u32,
    /// What is left out after a refusal.
    pub after_refusal: LeftOut,
    /// At most so many probes of one survey are under way at once.
    pub probes_at_once: usize,
    /// So many slots for each part are enough to stop a survey early.
    pub enough_slots: Option<usize>,
    /// Asks each peer for at most so many slots.
    pub slots: u32,
    /// How much work a search for candidates may take, in elementary operations.
    pub search_work: u64,
    /// How long a search for candidates may take.
    pub search_time: Length,
}

/// What is left out after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeftOut {
    /// The slot.
    #[default]
    Slot,
    /// The resource.
    Resource,
}

impl LeftOut {
    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            LeftOut::Slot => "slot",
            LeftOut::Resource => "resource",
        }
    }
}

impl Default for BrokerRules {
    fn default() -> BrokerRules {
        let usual = Rules::default();
        BrokerRules {
            survey_time: Length(usual.survey_time),
            hold_time: Length(usual.hold_time),
            longest_hold: Length(usual.longest_hold),
            attempts: usual.attempts,
            after_refusal: LeftOut::default(),
            probes_at_once: usual.probes_at_once,
            enough_slots: usual.enough_slots,
            slots: usual.slots,
            search_work: usual.search.work,
            search_time: Length(usual.search_time),
        }
    }
}

impl BrokerRules {
    /// As a party wants them whose clock has this speed. `maker` is the number of the broker; no two parties have the same.
    pub fn rules(&self, maker: u64, retention: Seconds, speed: u32) -> Rules {
        Rules {
            maker,
            probes_at_once: self.probes_at_once,
            survey_time: in_its_time(self.survey_time, speed),
            enough_slots: self.enough_slots,
            slots: self.slots,
            hold_time: in_its_time(self.hold_time, speed),
            attempts: self.attempts,
            after_refusal: match self.after_refusal {
                LeftOut::Slot => broker::LeftOut::Slot,
                LeftOut::Resource => broker::LeftOut::Resource,
            },
            longest_hold: in_its_time(self.longest_hold, speed),
            under_way: Rules::default().under_way,
            retention,
            search: Budget { work: self.search_work },
            search_time: in_its_time(self.search_time, speed),
        }
    }

    /// Says what makes no sense.
    pub fn check(&self) -> Result<(), Wrong> {
        let nothing = |field: &'static str, does: &str| {
            Err(Wrong::new(field, format!("{field} = 0 {does}; give 1 or more")))
        };
        match self {
            BrokerRules { probes_at_once: 0, .. } => nothing("probes_at_once", "asks nobody"),
            BrokerRules { slots: 0, .. } => nothing("slots", "asks for nothing"),
            BrokerRules { attempts: 0, .. } => nothing("attempts", "tries nothing"),
            _ => Ok(()),
        }
    }
}
