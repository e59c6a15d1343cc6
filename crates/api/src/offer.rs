//! Probes and their answers: offers of rated slots. A probe books nothing.

use crate::convert::{converted, same_fields};
use crate::decimal;
use crate::description::NameText;
use crate::request::{Request, tres_from};
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_plan::{Capacity, Interval, Seconds};
use bookahead_protocol as protocol;
use bookahead_protocol::{Call, Name, Rating};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Default number of offers.
const MOST_OFFERS: u32 = 16;

/// Ask for offers.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// The request to find slots for.
    pub request: Request,
    /// Most offers to return. Default: 16. A site may return fewer.
    #[schema(example = 16)]
    pub most: Option<u32>,
    /// Start times to prefer, because other parts could start then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts: Vec<Timestamp>,
}

/// Offers for a request.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offers {
    /// Best first. None of them is held.
    pub offers: Vec<Offer>,
    /// Site with a batch system only: age in seconds of the snapshot that the offers are based on. The offers do
    /// not include later changes in the batch system.
    #[schema(example = 4)]
    pub looked_seconds_ago: Option<u64>,
    /// Site only: maintenance of matching resources within the window of the request, the first 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub maintenance: Vec<Maintenance>,
}

/// A maintenance window, in which nothing can be booked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Maintenance {
    /// Its name.
    #[schema(value_type = NameText, example = "weekly")]
    pub name: Name,
    /// Name of the resource at the service that answers.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// Start time.
    pub begin: Timestamp,
    /// End time (exclusive).
    pub end: Timestamp,
    /// Capacity that it takes.
    pub capacity: u32,
}

/// One way to fulfil a request: one slot for each part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Offer {
    /// One slot for each part, in the order of the parts.
    pub slots: Vec<Slot>,
}

/// A start, end and capacity on one resource. Ratings are included as far as the site reveals them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "resource": "cluster", "site": "north", "begin": "2026-11-16T09:00:00Z", "end": "2026-11-16T11:00:00Z",
    "capacity": 64, "slack_seconds": 900, "rating": 0.97,
    "impact": {"delayed_jobs": 1, "total_delay_seconds": 120, "longest_delay_seconds": 120},
    "cost": 3.2
}))]
pub struct Slot {
    /// Name of the resource at the service that answers.
    #[schema(value_type = NameText)]
    pub resource: Name,
    /// The site of the resource.
    #[schema(value_type = NameText)]
    pub site: Name,
    /// Links only: the two sites that it joins.
    #[schema(value_type = Option<[String; 2]>, min_items = 2, max_items = 2)]
    pub joins: Option<[Name; 2]>,
    /// Start time.
    pub begin: Timestamp,
    /// End time (exclusive).
    pub end: Timestamp,
    /// Capacity in units of the resource.
    pub capacity: u32,
    /// Amounts of things beside the capacity, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, u32>, example = json!({"gres/gpu:a100": 2}))]
    pub tres: BTreeMap<Name, u32>,
    /// Latest start, in seconds after `begin`, as far as is known now. Ratings apply to `begin`. In an offer with
    /// several parts, a later start of one part may require later starts of others: for each start of one part
    /// within its slack there are starts of the other parts within theirs that fulfil the request.
    #[serde(default)]
    pub slack_seconds: i64,
    /// Capacity that is free during the whole slot, including its slack. Missing if the site does not reveal it.
    pub free: Option<u32>,
    /// Amounts of the requested things that are free during the whole slot, including its slack. Missing if the site
    /// does not reveal it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, u32>)]
    pub free_tres: BTreeMap<Name, u32>,
    /// Rating of the slot by the site, from 0 to 1 (best). Missing if the site does not reveal it.
    #[schema(value_type = Option<f64>, minimum = 0)]
    pub rating: Option<decimal::Rating>,
    /// Effect on waiting jobs. Missing if the site does not reveal it.
    pub impact: Option<Impact>,
    /// Cost in the site's currency.
    #[serde(default)]
    #[schema(value_type = f64, minimum = 0)]
    pub cost: decimal::Cost,
}

/// Effect of a slot on waiting jobs, without their owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Impact {
    /// Number of jobs that would start later.
    pub delayed_jobs: u32,
    /// Sum of the delays, in seconds.
    pub total_delay_seconds: i64,
    /// Longest delay of a single job, in seconds.
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
        // The protocol does not have the rest. The server of a site adds it.
        Ok(Offers { offers, looked_seconds_ago: None, maintenance: Vec::new() })
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
            tres: slot.tres.into_iter().collect(),
            free_tres: slot.free_tres.into_iter().collect(),
            slack: Seconds(slot.slack_seconds),
            free: slot.free.map(Capacity),
            rating: slot.rating.map(|rating| Rating(rating.0)),
            impact: slot.impact.map(Into::into),
            cost: slot.cost.0,
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
            tres: tres_from(slot.tres),
            free_tres: tres_from(slot.free_tres),
            slack_seconds: slot.slack.0,
            free: slot.free.map(|free| free.0),
            rating: slot.rating.map(Into::into),
            impact: slot.impact.map(Impact::try_from).transpose()?,
            cost: decimal::Cost(slot.cost),
        })
    }
}

same_fields!(Offer = protocol::Offer { slots });
same_fields!(Impact = protocol::Impact {} {
    delayed_jobs = delayed, total_delay_seconds = total_delay, longest_delay_seconds = longest_delay
});
converted!(Slot = protocol::Slot);
