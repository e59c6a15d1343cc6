//! Requests for reservations: parts with a window of time each, and constraints between them.

use crate::convert::{converted, same_fields, words};
use crate::description::{NameText, ReservationIdText};
use crate::sharing::Consent;
use crate::time::{OutOfCalendar, Timestamp};
use bookahead_plan::{Capacity, Seconds, placement};
use bookahead_protocol as protocol;
use bookahead_protocol::{Description, Name, ReservationId};
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A request, granted as a whole or not at all. A request with several parts is a co-reservation; send it to a
/// broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({
    "parts": [{
        "capacity": 64, "duration_seconds": 7200,
        "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T18:00:00Z"
    }]
}))]
pub struct Request {
    /// One to 32 parts.
    #[schema(min_items = 1, max_items = 32)]
    pub parts: Vec<Part>,
    /// Constraints between parts. At most 2048, including duplicates.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 2048)]
    pub constraints: Vec<Constraint>,
    /// Which solution to prefer.
    #[serde(default)]
    pub objective: Objective,
    /// What a broker does when a site loses a part or some of its capacity.
    #[serde(default, skip_serializing_if = "OnLoss::is_default")]
    pub on_loss: OnLoss,
    /// URL to POST notices to when the reservation changes. It must begin with a prefix that the operator of the
    /// service allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(format = "uri", max_length = 2000, example = "https://portal.example.org/hooks/ada")]
    pub webhook: Option<String>,
    /// Name for lists and calendars: 1 to 100 characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 100, example = "MPI course")]
    pub name: Option<String>,
    /// Note: at most 1000 characters; line breaks are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1000)]
    pub note: Option<String>,
    /// Labels, at most 16. A key has 1 to 63 letters, digits and the characters `.-_/`; a value has at most 255
    /// characters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(example = json!({"course": "mpi"}))]
    pub labels: BTreeMap<String, String>,
    /// Priority class of the site, 1 to 63 letters, digits and the characters `.-_`. Default: the site's own. A
    /// refusal names the classes that may be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 63, example = "urgent")]
    pub priority: Option<String>,
    /// Other users that may see the reservation and run jobs in it. At most 64. They cannot change or cancel it.
    /// `project:NAME` stands for the users of a project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<NameText>, max_items = 64, example = json!(["bob"]))]
    pub shared_with: Vec<Name>,
    /// Answers of these users to the invitation. Only brokers send them; of others they are ignored.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, Consent>)]
    pub consents: BTreeMap<Name, Consent>,
    /// Whether jobs of the owner, and of users who accepted the invitation, run in the reservation that do not name it
    /// (`MAGNETIC` of Slurm). Only at sites that allow it. Fixed when it is reserved. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub attract: bool,
}

/// A resource for a duration within a window.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// Kind of resource.
    #[serde(default = "processors")]
    #[schema(value_type = NameText, default = "processors", example = "processors")]
    pub kind: Name,
    /// Capacity in units of the resource.
    #[schema(minimum = 1, example = 64)]
    pub capacity: u32,
    /// Duration in seconds.
    #[schema(minimum = 1, example = 7200)]
    pub duration_seconds: i64,
    /// Earliest start time.
    pub earliest_start: Timestamp,
    /// Latest end time.
    pub latest_end: Timestamp,
    /// Attributes that the resource must have. At most 16.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 16)]
    pub requirements: Vec<Requirement>,
    /// Name of the resource at the service that is asked. Default: any that matches.
    #[schema(value_type = Option<NameText>, example = "cluster")]
    pub resource: Option<Name>,
    /// Reservation that is cancelled once this one is committed, so that limits do not count both. Set by brokers
    /// for replacements.
    #[schema(value_type = Option<ReservationIdText>)]
    pub replaces: Option<ReservationId>,
    /// In a probe: reservation that gets these terms. Its capacity counts as free. Set by brokers for changes.
    #[schema(value_type = Option<ReservationIdText>)]
    pub changes: Option<ReservationId>,
    /// Machine that the duration was measured on. On a resource with another value of the attribute the duration is
    /// scaled: twice the value takes half the time. The slowest machine of a resource counts. A broker counts the
    /// slowest resource that suits the part. A resource without the attribute does not suit it.
    pub measured_on: Option<MeasuredOn>,
    /// Amounts of things beside the capacity, by name: totals for the whole part, for its whole duration. The names
    /// are those that the resource lists: `gres/gpu:a100`, `mem` (in MiB) and `license/qpu` with Slurm, `ngpus` and
    /// `mem` with PBS. At most 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = BTreeMap<String, u32>, example = json!({"gres/gpu:a100": 2}))]
    pub tres: BTreeMap<Name, u32>,
    /// How far the part may grow if there is room. Default: not at all. At most two parts of a request can grow.
    pub up_to: Option<UpTo>,
}

/// How far a part may grow beyond `capacity` and `duration_seconds`, which are the least that it needs. The service takes
/// as much as it has room for; offers and reservations have the terms that it took.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"capacity": 128, "duration_seconds": 14_400, "prefer": "capacity"}))]
pub struct UpTo {
    /// Largest capacity. Default: the capacity of the part.
    #[schema(minimum = 1)]
    pub capacity: Option<u32>,
    /// Longest duration in seconds. Default: the duration of the part.
    #[schema(minimum = 1)]
    pub duration_seconds: Option<i64>,
    /// Latest end if the part is longer than the least, for a part with an exact start: the end moves with the
    /// duration up to here, and the start stays. Default: `latest_end` of the part.
    pub latest_end: Option<Timestamp>,
    /// What to gain first.
    #[serde(default)]
    pub prefer: Prefer,
}

words! {
    /// What a part that may grow gains first.
    #[derive(Default)]
    Prefer = protocol::flexible::Prefer {
        /// As much capacity as possible, then as much time as possible with it.
        #[default]
        Capacity,
        /// As much time as possible, then as much capacity as possible for it.
        Duration,
        /// The begin that the least terms would have, then capacity, then time.
        EarliestBegin,
    }
}

/// A machine, by an attribute that tells how fast it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredOn {
    /// Name of the attribute.
    #[schema(value_type = NameText, example = "mhz")]
    pub attribute: Name,
    /// Its value.
    #[schema(minimum = 1, example = 2600)]
    pub value: u32,
}

/// A constraint between parts. Parts are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
#[schema(example = json!({"type": "offset", "first": 0, "second": 1, "by_seconds": 0}))]
pub enum Constraint {
    /// `second` starts a fixed time after the start of `first`: 0 is together, a negative offset is before.
    Offset {
        /// Reference part.
        first: usize,
        /// Part with the offset.
        second: usize,
        /// Offset in seconds.
        #[serde(default)]
        by_seconds: i64,
    },
    /// `second` starts after the end of `first`, with a gap within limits.
    After {
        /// The earlier part.
        first: usize,
        /// The later part.
        second: usize,
        /// Shortest gap in seconds.
        #[serde(default)]
        least_seconds: i64,
        /// Longest gap in seconds. Default: unlimited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        most_seconds: Option<i64>,
    },
    /// `first` ends no later than `second`.
    EndsBefore {
        /// The part that ends first.
        first: usize,
        /// The part that ends at the same time or later.
        second: usize,
    },
    /// Both parts are at one site.
    SameSite {
        /// One part.
        first: usize,
        /// The other part.
        second: usize,
    },
    /// The parts are at different sites.
    DifferentSites {
        /// One part.
        first: usize,
        /// The other part.
        second: usize,
    },
    /// `link` is a link between the sites of two other parts.
    Joins {
        /// The part that is a link.
        link: usize,
        /// The two parts that it joins.
        #[schema(min_items = 2, max_items = 2)]
        ends: [usize; 2],
    },
}

words! {
    /// Which solution to prefer. Ties go to the earlier one.
    #[derive(Default)]
    Objective = protocol::Objective {
        /// The one that ends first.
        #[default]
        EarliestEnd,
        /// The one with the best total rating by the sites.
        BestAvailability,
        /// The one with the least total delay of waiting jobs.
        LeastImpact,
        /// The one with the lowest total cost.
        LowestCost,
    }
}

words! {
    /// What a broker does when a site loses a part or some of its capacity.
    #[derive(Default)]
    OnLoss = protocol::OnLoss {
        /// Look for a replacement at the same times. If there is none, keep the rest.
        #[default]
        Heal,
        /// Look for a replacement at the same times, then at other times that the request allows.
        HealAnyTime,
        /// Keep the rest.
        Keep,
        /// Cancel the whole reservation.
        Cancel,
    }
}

impl OnLoss {
    /// Whether this is the default, which is omitted from documents.
    fn is_default(&self) -> bool {
        // The default is left out, because a service that does not know the field would refuse the request.
        *self == OnLoss::default()
    }
}

impl Request {
    /// A request with default objective and loss handling.
    pub fn new(parts: Vec<Part>, constraints: Vec<Constraint>) -> Request {
        Request {
            parts,
            constraints,
            objective: Objective::default(),
            on_loss: OnLoss::default(),
            webhook: None,
            name: None,
            note: None,
            labels: BTreeMap::new(),
            priority: None,
            shared_with: Vec::new(),
            consents: BTreeMap::new(),
            attract: false,
        }
    }

    /// The parts that may grow, by their index.
    pub fn up_to(&self) -> Vec<(usize, protocol::flexible::UpTo)> {
        let of = |part: &Part| {
            let up_to = part.up_to.as_ref()?;
            Some(protocol::flexible::UpTo {
                capacity: Capacity(up_to.capacity.unwrap_or(part.capacity)),
                duration: Seconds(up_to.duration_seconds.unwrap_or(part.duration_seconds)),
                latest_end: up_to.latest_end.unwrap_or(part.latest_end).time(),
                prefer: up_to.prefer.into(),
            })
        };
        self.parts.iter().enumerate().filter_map(|(at, part)| Some((at, of(part)?))).collect()
    }
}

/// A condition on an attribute of the resource. Every resource has the attributes "site" and "name".
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "test", rename_all = "kebab-case", deny_unknown_fields)]
#[schema(example = json!({"attribute": "gpus", "test": "at-least", "value": 4}))]
pub enum Requirement {
    /// The resource has the attribute.
    Present {
        /// Name of the attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
    },
    /// The attribute has this value.
    Is {
        /// Name of the attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// Required value.
        value: AttributeValue,
    },
    /// The attribute has one of these values.
    OneOf {
        /// Name of the attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// Allowed values. At most 64.
        #[schema(max_items = 64)]
        values: Vec<AttributeValue>,
    },
    /// The attribute is an integer of at least this value.
    AtLeast {
        /// Name of the attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// Lower bound (inclusive).
        value: i64,
    },
    /// The attribute is an integer of at most this value.
    AtMost {
        /// Name of the attribute.
        #[schema(value_type = NameText)]
        attribute: Name,
        /// Upper bound (inclusive).
        value: i64,
    },
}

/// Value of an attribute: a string or an integer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "an attribute is a text or a whole number")]
#[schema(example = 4)]
pub enum AttributeValue {
    /// A string.
    Text(String),
    /// An integer.
    Number(i64),
}

/// Default kind of resource.
pub(crate) fn processors() -> Name {
    "processors".into()
}

/// Converts amounts to their form in a document.
pub(crate) fn tres_from(tres: protocol::Tres) -> BTreeMap<Name, u32> {
    tres.0.into_iter().map(|(name, amount)| (name, amount.0)).collect()
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
            measured_on: part
                .measured_on
                .map(|MeasuredOn { attribute, value }| protocol::MeasuredOn { attribute, value }),
            tres: part.tres.into_iter().collect(),
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
            up_to: None,
            tres: tres_from(part.tres),
            measured_on: part
                .measured_on
                .map(|protocol::MeasuredOn { attribute, value }| MeasuredOn { attribute, value }),
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

impl From<protocol::Value> for AttributeValue {
    fn from(value: protocol::Value) -> AttributeValue {
        match value {
            protocol::Value::Text(text) => AttributeValue::Text(text.as_str().into()),
            protocol::Value::Number(number) => AttributeValue::Number(number),
        }
    }
}

impl From<AttributeValue> for protocol::Value {
    fn from(value: AttributeValue) -> protocol::Value {
        match value {
            AttributeValue::Text(text) => protocol::Value::Text(text.into()),
            AttributeValue::Number(number) => protocol::Value::Number(number),
        }
    }
}

same_fields!(Request = protocol::Request { parts, constraints, objective, on_loss, webhook, shared_with, consents, attract } in description: Description { name, note, labels, priority });
converted!(Part = protocol::Part, Constraint = protocol::Constraint, Requirement = protocol::Requirement);
