//! Asking what could be had, and the answer: offers of rated slots. Nothing is booked by it.

use crate::convert::{converted, same_fields};
use crate::description::NameText;
use crate::request::Request;
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_plan::{Capacity, Interval, Seconds};
use bookahead_protocol as protocol;
use bookahead_protocol::{Call, Name, Rating};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// So many offers, where nobody says how many.
pub const MOST_OFFERS: u32 = 16;

/// What could be had?
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// What is wanted.
    pub request: Request,
    /// At most so many offers; 16 where nothing is said. A site may answer with fewer.
    #[schema(example = 16)]
    pub most: Option<u32>,
    /// Begins that are of special interest, since something elsewhere could begin then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<Timestamp>,
}

/// What could be had.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offers {
    /// The best first. None of them is held.
    pub offers: Vec<Offer>,
    /// Of a site with a batch system: age in seconds of the look at it that the offers rest on. Changes there since then are
    /// not in the offers.
    #[schema(example = 4)]
    pub looked_seconds_ago: Option<u64>,
}

/// A way to fulfil a request: one slot for each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// In the order of the parts.
    pub slots: Vec<Slot>,
}

/// A concrete begin, end and capacity on one resource, with ratings as far as the site reveals them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "resource": "cluster", "site": "north", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z",
    "capacity": 64, "slack_seconds": 900, "rating_millionths": 970000,
    "impact": {"delayed_jobs": 1, "total_delay_seconds": 120, "longest_delay_seconds": 120},
    "cost_thousandths": 3200
}))]
pub struct Slot {
    /// The resource, by its name at whoever answers.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// The site of the resource.
    #[schema(value_type = NameText)]
    pub site: Name,
    /// Of a link: the sites that it joins.
    #[schema(value_type = Option<[String; 2]>, min_items = 2, max_items = 2)]
    pub joins: Option<[Name; 2]>,
    /// From then.
    pub begin: Timestamp,
    /// Until just before then.
    pub end: Timestamp,
    /// How much.
    pub capacity: u32,
    /// It may also begin later, by up to so much, as far as is known at this moment. Ratings are those of the begin. In an
    /// offer of several parts the others may have to begin later too: for each begin of one part in its range there are begins of
    /// the others in theirs with which the offer fulfils the request.
    #[serde(default)]
    pub slack_seconds: i64,
    /// What is free throughout, also if it begins later, where the site tells.
    pub free: Option<u32>,
    /// How well it suits the site, where the site tells: from 0 to a million.
    pub rating_millionths: Option<u32>,
    /// What it would do to waiting jobs, where the site tells.
    pub impact: Option<Impact>,
    /// What it costs, in thousandths.
    #[serde(default)]
    pub cost_thousandths: u64,
}

/// What a slot would do to waiting jobs, without saying whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Impact {
    /// How many would start later.
    pub delayed_jobs: u32,
    /// By how much in all.
    pub total_delay_seconds: i64,
    /// By how much at most.
    pub longest_delay_seconds: i64,
}

impl From<Probe> for Call {
    fn from(probe: Probe) -> Call {
        Call::Probe {
            request: probe.request.into(),
            most: probe.most.unwrap_or(MOST_OFFERS),
            starts: probe.starts.into_iter().map(Timestamp::time).collect(),
        }
    }
}

impl From<Offers> for Vec<protocol::Offer> {
    fn from(offers: Offers) -> Vec<protocol::Offer> {
        offers.offers.into_iter().map(Into::into).collect()
    }
}

impl TryFrom<Vec<protocol::Offer>> for Offers {
    type Error = OutOfCalendar;

    fn try_from(offers: Vec<protocol::Offer>) -> Result<Offers, OutOfCalendar> {
        let offers = offers.into_iter().map(Offer::try_from).collect::<Result<_, _>>()?;
        Ok(Offers { offers, looked_seconds_ago: None })
    }
}

impl From<Slot> for protocol::Slot {
    fn from(slot: Slot) -> protocol::Slot {
        protocol::Slot {
            resource: slot.resource,
            site: slot.site,
            joins: slot.joins,
            interval: Interval::new(slot.begin.time(), slot.end.time()),
            capacity: Capacity(slot.capacity),
            slack: Seconds(slot.slack_seconds),
            free: slot.free.map(Capacity),
            rating: slot.rating_millionths.map(Rating),
            impact: slot.impact.map(Into::into),
            cost: slot.cost_thousandths,
        }
    }
}

impl TryFrom<protocol::Slot> for Slot {
    type Error = OutOfCalendar;

    fn try_from(slot: protocol::Slot) -> Result<Slot, OutOfCalendar> {
        Ok(Slot {
            resource: slot.resource,
            site: slot.site,
            joins: slot.joins,
            begin: slot.interval.begin.try_into()?,
            end: slot.interval.end.try_into()?,
            capacity: slot.capacity.0,
            slack_seconds: slot.slack.0,
            free: slot.free.map(|free| free.0),
            rating_millionths: slot.rating.map(|rating| rating.0),
            impact: slot.impact.map(Impact::try_from).transpose()?,
            cost_thousandths: slot.cost,
        })
    }
}

same_fields!(Offer = protocol::Offer { slots });
same_fields!(Impact = protocol::Impact {} {
    delayed_jobs = delayed, total_delay_seconds = total_delay, longest_delay_seconds = longest_delay
});
converted!(Slot = protocol::Slot);
