//! What a client wants, as a document: parts, each flexible in time, and what must hold between them.

use crate::convert::{converted, same_fields, words};
use crate::description::{NameText, ReservationIdText};
use crate::site::AttributeValue;
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_plan::{Capacity, Seconds, placement};
use bookahead_protocol as protocol;
use bookahead_protocol::{Name, ReservationId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use utoipa::ToSchema;

/// What is wanted, all of it or nothing. One part is a plain reservation, several are a co-reservation (ask a broker).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "parts": [{
        "capacity": 64, "duration_seconds": 7200,
        "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00Z"
    }]
}))]
pub struct Request {
    /// At least one, at most 32.
    #[schema(min_items = 1, max_items = 32)]
    pub parts: Vec<Part>,
    /// What must hold between parts. At most 2048, repetitions included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 2048)]
    pub constraints: Vec<Constraint>,
    /// Which of several solutions is the best.
    #[serde(default)]
    pub objective: Objective,
    /// What a broker does when a site loses a part of what is booked, or capacity of it.
    #[serde(default, skip_serializing_if = "OnLoss::is_default")]
    pub on_loss: OnLoss,
    /// Where its owner is told what happens to the reservation, with a POST: an address below one that the operator of the service
    /// allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uri", max_length = 2000, example = "https://portal.example.org/hooks/ada")]
    pub webhook: Option<String>,
}

/// One resource for one stretch of time.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// What kind of resource.
    #[serde(default = "processors")]
    #[schema(value_type = NameText, default = "processors", example = "processors")]
    pub kind: Name,
    /// How much of it.
    #[schema(minimum = 1, example = 64)]
    pub capacity: u32,
    /// For how long.
    #[schema(minimum = 1, example = 7200)]
    pub duration_seconds: i64,
    /// It may begin no earlier.
    pub earliest_start: Timestamp,
    /// It must have ended by then.
    pub latest_end: Timestamp,
    /// What the resource must have. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub requirements: Vec<Requirement>,
    /// This very resource, by its name at whoever is asked.
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// The reservation that is cancelled once this one is committed: limits do not count both. Brokers say this of
    /// replacements.
    #[schema(value_type = Option<ReservationIdText>)]
    pub replaces: Option<ReservationId>,
    /// In a probe: the reservation whose terms this part is to become. Its room counts as free. Brokers say this of changes.
    #[schema(value_type = Option<ReservationIdText>)]
    pub changes: Option<ReservationId>,
}

/// What must hold between parts, which are given by their places in the request, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[schema(example = json!({"type": "offset", "first": 0, "second": 1, "by_seconds": 0}))]
pub enum Constraint {
    /// `second` begins so long after the beginning of `first`: zero is together, less is before.
    Offset {
        /// The part that is measured from.
        first: usize,
        /// The part that is measured to.
        second: usize,
        /// How much later.
        #[serde(default)]
        by_seconds: i64,
    },
    /// `second` begins after the end of `first`, with a gap within limits.
    After {
        /// What comes first.
        first: usize,
        /// What comes then.
        second: usize,
        /// The shortest gap.
        #[serde(default)]
        least_seconds: i64,
        /// The longest gap, where there is a limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most_seconds: Option<i64>,
    },
    /// `first` ends no later than `second` does.
    EndsBefore {
        /// What ends first.
        first: usize,
        /// What ends then.
        second: usize,
    },
    /// Both are at one site.
    SameSite {
        /// The one.
        first: usize,
        /// The other.
        second: usize,
    },
    /// They are at two sites.
    DifferentSites {
        /// The one.
        first: usize,
        /// The other.
        second: usize,
    },
    /// `link` is a link between the sites of the two others.
    Joins {
        /// The part that is a link.
        link: usize,
        /// What it joins.
        #[schema(min_items = 2, max_items = 2)]
        ends: [usize; 2],
    },
}

words! {
    /// Which solution is the best. Ties go to the earlier.
    #[derive(Default)]
    Objective = protocol::Objective {
        /// The one that is over first.
        #[default]
        EarliestEnd,
        /// The one whose slots suit their sites best, in all.
        BestAvailability,
        /// The one that delays waiting jobs least, in all.
        LeastImpact,
        /// The cheapest.
        LowestCost,
    }
}

words! {
    /// What a broker does when a site loses a part of what is booked, or capacity of it.
    #[derive(Default)]
    OnLoss = protocol::OnLoss {
        /// Looks for a replacement at the same times; where there is none, it keeps the rest.
        #[default]
        Heal,
        /// Looks for a replacement at the same times, else at other times that the request allows.
        HealAnyTime,
        /// Keeps the rest.
        Keep,
        /// Cancels all of it.
        Cancel,
    }
}

impl OnLoss {
    /// Whether it is what is done where nothing is said.
    pub fn is_default(&self) -> bool {
        *self == OnLoss::default()
    }
}

impl Request {
    /// Of which the solution that is over first is the best.
    pub fn new(parts: Vec<Part>, constraints: Vec<Constraint>) -> Request {
        Request {
            parts,
            constraints,
            objective: Objective::default(),
            on_loss: OnLoss::default(),
            webhook: None,
        }
    }
}

/// What a part asks of an attribute of the resource. "site" and "name" are attributes that every resource has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "test", rename_all = "kebab-case", deny_unknown_fields)]
#[schema(example = json!({"attribute": "gpus", "test": "at-least", "value": 4}))]
pub enum Requirement {
    /// There is one.
    Present {
        /// Which attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
    },
    /// It is exactly this.
    Is {
        /// Which attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// What it must be.
        value: AttributeValue,
    },
    /// It is one of these.
    OneOf {
        /// Which attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// What it may be. At most 64.
        #[schema(max_items = 64)]
        values: Vec<AttributeValue>,
    },
    /// It is a number, this or more.
    AtLeast {
        /// Which attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// The least.
        value: i64,
    },
    /// It is a number, this or less.
    AtMost {
        /// Which attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// The most.
        value: i64,
    },
}

/// What most people want.
pub(crate) fn processors() -> Name {
    "processors".into()
}

impl From<Part> for protocol::Part {
    fn from(part: Part) -> protocol::Part {
        let wanted = placement::Request {
            earliest_start: part.earliest_start.time(),
            latest_end: part.latest_end.time(),
            duration: Seconds(part.duration_seconds),
            capacity: Capacity(part.capacity),
        };
        let requirements = part.requirements.into_iter().map(Into::into).collect();
        protocol::Part {
            requirements,
            resource: part.resource,
            replaces: part.replaces,
            changes: part.changes,
            ..protocol::Part::new(wanted, part.kind)
        }
    }
}

impl TryFrom<protocol::Part> for Part {
    type Error = OutOfCalendar;

    fn try_from(part: protocol::Part) -> Result<Part, OutOfCalendar> {
        Ok(Part {
            kind: part.kind,
            capacity: part.wanted.capacity.0,
            duration_seconds: part.wanted.duration.0,
            earliest_start: part.wanted.earliest_start.try_into()?,
            latest_end: part.wanted.latest_end.try_into()?,
            requirements: part.requirements.into_iter().map(Into::into).collect(),
            resource: part.resource,
            replaces: part.replaces,
            changes: part.changes,
        })
    }
}

impl From<Constraint> for protocol::Constraint {
    fn from(constraint: Constraint) -> protocol::Constraint {
        match constraint {
            Constraint::Offset { first, second, by_seconds } => {
                protocol::Constraint::Offset { first, second, by: Seconds(by_seconds) }
            }
            Constraint::After { first, second, least_seconds, most_seconds } => protocol::Constraint::After {
                first,
                second,
                least: Seconds(least_seconds),
                most: most_seconds.map(Seconds),
            },
            Constraint::EndsBefore { first, second } => protocol::Constraint::EndsBefore { first, second },
            Constraint::SameSite { first, second } => protocol::Constraint::SameSite(first, second),
            Constraint::DifferentSites { first, second } => {
                protocol::Constraint::DifferentSites(first, second)
            }
            Constraint::Joins { link, ends } => protocol::Constraint::Joins { link, ends },
        }
    }
}

impl From<protocol::Constraint> for Constraint {
    fn from(constraint: protocol::Constraint) -> Constraint {
        match constraint {
            protocol::Constraint::Offset { first, second, by } => {
                Constraint::Offset { first, second, by_seconds: by.0 }
            }
            protocol::Constraint::After { first, second, least, most } => Constraint::After {
                first,
                second,
                least_seconds: least.0,
                most_seconds: most.map(|most| most.0),
            },
            protocol::Constraint::EndsBefore { first, second } => Constraint::EndsBefore { first, second },
            protocol::Constraint::SameSite(first, second) => Constraint::SameSite { first, second },
            protocol::Constraint::DifferentSites(first, second) => {
                Constraint::DifferentSites { first, second }
            }
            protocol::Constraint::Joins { link, ends } => Constraint::Joins { link, ends },
        }
    }
}

impl From<Requirement> for protocol::Requirement {
    fn from(requirement: Requirement) -> protocol::Requirement {
        let (attribute, test) = match requirement {
            Requirement::Present { attribute } => (attribute, protocol::Test::Present),
            Requirement::Is { attribute, value } => (attribute, protocol::Test::Is(value.into())),
            Requirement::OneOf { attribute, values } => {
                (attribute, protocol::Test::OneOf(values.into_iter().map(Into::into).collect()))
            }
            Requirement::AtLeast { attribute, value } => (attribute, protocol::Test::AtLeast(value)),
            Requirement::AtMost { attribute, value } => (attribute, protocol::Test::AtMost(value)),
        };
        protocol::Requirement { attribute, test }
    }
}

impl From<protocol::Requirement> for Requirement {
    fn from(protocol::Requirement { attribute, test }: protocol::Requirement) -> Requirement {
        match test {
            protocol::Test::Present => Requirement::Present { attribute },
            protocol::Test::Is(value) => Requirement::Is { attribute, value: value.into() },
            protocol::Test::OneOf(values) => {
                Requirement::OneOf { attribute, values: values.into_iter().map(Into::into).collect() }
            }
            protocol::Test::AtLeast(value) => Requirement::AtLeast { attribute, value },
            protocol::Test::AtMost(value) => Requirement::AtMost { attribute, value },
        }
    }
}

same_fields!(Request = protocol::Request { parts, constraints, objective, on_loss, webhook });
converted!(Part = protocol::Part, Constraint = protocol::Constraint, Requirement = protocol::Requirement);
