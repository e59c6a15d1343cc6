//! A client's request: parts, each flexible in time, and constraints between them. A request with one part is
//! a plain reservation; with more it is a co-reservation, booked all or nothing. Also the resources of a
//! site: a capacity of some kind, with attributes that do not depend on time. Matching a part with a resource
//! says nothing about schedules.

use crate::description::{BadDescription, Description};
use crate::ids::{Name, ReservationId};
use crate::sharing::Consents;
use crate::speed::MeasuredOn;
use crate::tres::{BadTres, Tres};
use bookahead_plan::{Capacity, Seconds, Time, placement};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use thiserror::Error;

/// Most parts of a request. The search for candidates is exact, so its size must be bounded.
pub const MOST_PARTS: usize = 32;

/// Most different constraints of a request with this many parts. Four for each pair of parts, enough to state
/// start, end and place for every pair. Plus 64 for links and for small requests. The search checks each slot
/// against all constraints on the place of its part, so the number must be bounded.
pub const fn most_constraints(parts: usize) -> usize {
    2 * parts * parts.saturating_sub(1) + 64
}

/// Most users that a reservation is shared with. A batch system gets all of them as words of one command.
pub const MOST_SHARED: usize = 64;

/// A request, satisfied as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Request {
    /// At least one, at most [`MOST_PARTS`].
    pub parts: Vec<Part>,
    /// Constraints between parts.
    pub constraints: Vec<Constraint>,
    /// Which of several solutions is the best.
    pub objective: Objective,
    /// What a broker does if a site loses a booked part.
    #[serde(default, skip_serializing_if = "OnLoss::is_default")]
    pub on_loss: OnLoss,
    /// URL for notifications to the owner. Kept by the party that the owner called and never forwarded to
    /// peers: the owner would be notified twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Box<str>>,
    /// Name, note and labels.
    #[serde(default, skip_serializing_if = "Description::is_empty")]
    pub description: Description,
    /// Other users that may see the reservation and run jobs in it. At most [`MOST_SHARED`].
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shared_with: BTreeSet<Name>,
    /// Answers of these users. Only parties set them.
    #[serde(default, skip_serializing_if = "Consents::is_empty")]
    pub consents: Consents,
    /// Whether jobs of the owner and of users who accepted run in it that do not name it. Fixed when it is reserved.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attract: bool,
}

/// Written by hand, so that digests of requests without answers to invitations stay as they were: journals contain them.
impl Hash for Request {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Request { parts, constraints, objective, on_loss, webhook, description, .. } = self;
        let Request { shared_with, consents, attract, .. } = self;
        (parts, constraints, objective, on_loss, webhook, description, shared_with, attract).hash(state);
        if !consents.is_empty() {
            consents.hash(state);
        }
    }
}

/// One resource for one interval.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// Window, duration and capacity.
    pub wanted: placement::Request,
    /// Kind of resource, such as "processors".
    pub kind: Name,
    /// Required attributes.
    pub requirements: Vec<Requirement>,
    /// A specific resource of the called party, if already chosen.
    pub resource: Option<Name>,
    /// A reservation that will be given up once this one is committed. Limits do not count both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ReservationId>,
    /// In a probe: the reservation to change. Its capacity counts as free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ReservationId>,
    /// The machine that the duration is valid for. On a resource with another value it is scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<MeasuredOn>,
    /// Amounts beside the capacity, each for the whole duration.
    #[serde(default, skip_serializing_if = "Tres::is_empty")]
    pub tres: Tres,
}

/// A condition between parts, given by their indexes in the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Constraint {
    /// `second` starts `by` after the start of `first`. Zero: at the same time. Negative: before.
    Offset {
        /// Index of the reference part.
        first: usize,
        /// Index of the dependent part.
        second: usize,
        /// Difference of the starts.
        by: Seconds,
    },
    /// `second` starts after the end of `first`, with a gap from `least` to `most`.
    After {
        /// Index of the earlier part.
        first: usize,
        /// Index of the later part.
        second: usize,
        /// Shortest gap.
        least: Seconds,
        /// Longest gap. None for no limit.
        most: Option<Seconds>,
    },
    /// `first` ends no later than `second`.
    EndsBefore {
        /// Index of the part that ends first.
        first: usize,
        /// Index of the part that ends last.
        second: usize,
    },
    /// Both parts are at the same site.
    SameSite(usize, usize),
    /// The parts are at different sites.
    DifferentSites(usize, usize),
    /// `link` is a link between the sites of the two others.
    Joins {
        /// Index of the part that is a link.
        link: usize,
        /// Indexes of the parts that it joins.
        ends: [usize; 2],
    },
}

/// Which solution is the best. Ties are broken by the earlier one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Objective {
    /// The one with the earliest end.
    #[default]
    EarliestEnd,
    /// The one with the highest sum of ratings by the sites.
    BestAvailability,
    /// The one with the lowest sum of delays of waiting jobs.
    LeastImpact,
    /// The cheapest.
    LowestCost,
}

/// What a broker does if a site loses a booked part or some of its capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum OnLoss {
    /// Search a replacement at the same times; without one, keep the rest.
    #[default]
    Heal,
    /// Search a replacement at the same times, then at other times that the request allows.
    HealAnyTime,
    /// Keep the rest.
    Keep,
    /// Cancel the whole booking.
    Cancel,
}

impl OnLoss {
    /// For serialization: the default is left out.
    pub fn is_default(&self) -> bool {
        *self == OnLoss::default()
    }

    /// Whether to search a replacement.
    pub fn heals(self) -> bool {
        matches!(self, OnLoss::Heal | OnLoss::HealAnyTime)
    }
}

/// A request that contradicts itself or exceeds a bound.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
pub enum Malformed {
    #[error("the request has no parts; give at least one")]
    NoParts,
    #[error("the request has {0} parts; at most {MOST_PARTS} are allowed")]
    TooManyParts(usize),
    /// More constraints than can be searched. Equivalent ones count once.
    #[error(
        "the request has {constraints} different constraints; at most {most} are allowed for its number of parts"
    )]
    TooManyConstraints { constraints: usize, most: usize },
    #[error("constraints[{constraint}] names parts[{part}], but the request has only {parts}")]
    NoSuchPart { constraint: usize, part: usize, parts: usize },
    #[error("constraints[{0}] is between a part and itself")]
    WithItself(usize),
    #[error("parts[{0}]: the duration is below one second")]
    NoDuration(usize),
    #[error("parts[{0}]: the capacity is 0; request at least 1")]
    NoCapacity(usize),
    #[error("parts[{0}]: the machine that the duration was measured on has the value 0; give 1 or more")]
    NoSpeed(usize),
    #[error("parts[{part}]: {why}")]
    Tres { part: usize, why: BadTres },
    #[error("constraints[{0}] has a longest gap that is shorter than its shortest gap")]
    EmptyGap(usize),
    #[error("parts[{0}]: its times are too far from now")]
    TimeOutOfRange(usize),
    #[error(transparent)]
    Description(#[from] BadDescription),
    #[error("the reservation is shared with {0} users; at most {MOST_SHARED} are allowed")]
    SharedWithTooMany(usize),
}

/// Largest time in seconds from the origin, about 30 million years. Larger ones are refused, because sums
/// with them could saturate unnoticed.
pub(crate) const FURTHEST: i64 = 1_000_000_000_000_000;

impl Request {
    /// With the earliest end as the objective, and defaults for the rest.
    pub fn new(parts: Vec<Part>, constraints: Vec<Constraint>) -> Request {
        Request { parts, constraints, ..Request::default() }
    }

    /// A plain reservation: one part, no constraints.
    pub fn single(part: Part) -> Request {
        Request::new(vec![part], Vec::new())
    }

    /// Finds the first contradiction, independent of schedules.
    pub fn check(&self) -> Result<(), Malformed> {
        if self.parts.is_empty() {
            return Err(Malformed::NoParts);
        }
        if self.parts.len() > MOST_PARTS {
            return Err(Malformed::TooManyParts(self.parts.len()));
        }
        self.description.check()?;
        if self.shared_with.len() > MOST_SHARED {
            return Err(Malformed::SharedWithTooMany(self.shared_with.len()));
        }
        self.parts.iter().enumerate().try_for_each(|(at, part)| part.check(at))?;
        self.constraints
            .iter()
            .enumerate()
            .try_for_each(|(at, constraint)| self.check_constraint(at, constraint))?;
        let (constraints, most) = (self.different_constraints().len(), most_constraints(self.parts.len()));
        if constraints > most {
            return Err(Malformed::TooManyConstraints { constraints, most });
        }
        Ok(())
    }

    /// Whether it asks for the same capacity at the same times and places.
    pub fn has_same_terms(&self, other: &Request) -> bool {
        (&self.parts, &self.constraints, self.objective)
            == (&other.parts, &other.constraints, other.objective)
    }

    /// Its constraints without equivalent ones, sorted.
    pub fn different_constraints(&self) -> Vec<Constraint> {
        let mut different: Vec<Constraint> = self.constraints.iter().map(Constraint::ordered).collect();
        different.sort_unstable();
        different.dedup();
        different
    }

    /// The same request without constraints equivalent to an earlier one. Keeps their order.
    #[must_use]
    pub fn without_repetitions(mut self) -> Request {
        let mut seen = BTreeSet::new();
        self.constraints.retain(|constraint| seen.insert(constraint.ordered()));
        self
    }

    fn check_constraint(&self, constraint: usize, what: &Constraint) -> Result<(), Malformed> {
        let named = what.parts();
        if let Some(&part) = named.iter().find(|&&part| part >= self.parts.len()) {
            return Err(Malformed::NoSuchPart { constraint, part, parts: self.parts.len() });
        }
        if named.iter().enumerate().any(|(at, part)| named[..at].contains(part)) {
            return Err(Malformed::WithItself(constraint));
        }
        match what {
            Constraint::After { least, most: Some(most), .. } if most < least => {
                Err(Malformed::EmptyGap(constraint))
            }
            _ => Ok(()),
        }
    }
}

impl Part {
    /// On any resource of a kind, without further requirements.
    pub fn new(wanted: placement::Request, kind: impl Into<Name>) -> Part {
        Part {
            wanted,
            kind: kind.into(),
            requirements: Vec::new(),
            resource: None,
            replaces: None,
            changes: None,
            measured_on: None,
            tres: Tres::default(),
        }
    }

    fn check(&self, at: usize) -> Result<(), Malformed> {
        let wanted = &self.wanted;
        if wanted.duration < Seconds(1) {
            return Err(Malformed::NoDuration(at));
        }
        if wanted.capacity.0 == 0 {
            return Err(Malformed::NoCapacity(at));
        }
        if self.measured_on.as_ref().is_some_and(|machine| machine.value == 0) {
            return Err(Malformed::NoSpeed(at));
        }
        self.tres.check().map_err(|why| Malformed::Tres { part: at, why })?;
        let far = |Time(time): Time| !(-FURTHEST..=FURTHEST).contains(&time);
        if far(wanted.earliest_start) || far(wanted.latest_end) || wanted.duration.0 > FURTHEST {
            return Err(Malformed::TimeOutOfRange(at));
        }
        Ok(())
    }

    /// The same part with exactly this start and resource.
    pub fn fixed(&self, start: Time, resource: Name) -> Part {
        let latest_end = start + self.wanted.duration;
        let wanted = placement::Request { earliest_start: start, latest_end, ..self.wanted };
        Part { wanted, resource: Some(resource), ..self.clone() }
    }
}

impl Constraint {
    /// The normal form: equivalent constraints become equal.
    fn ordered(&self) -> Constraint {
        match *self {
            Constraint::SameSite(one, other) => Constraint::SameSite(one.min(other), one.max(other)),
            Constraint::DifferentSites(one, other) => {
                Constraint::DifferentSites(one.min(other), one.max(other))
            }
            Constraint::Joins { link, ends: [one, other] } => {
                Constraint::Joins { link, ends: [one.min(other), one.max(other)] }
            }
            // -i64::MIN would overflow, so that one keeps its form.
            Constraint::Offset { first, second, by } if first > second && by.0 != i64::MIN => {
                Constraint::Offset { first: second, second: first, by: Seconds(-by.0) }
            }
            Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. } => {
                self.clone()
            }
        }
    }

    /// Indexes of the parts that it is about.
    pub fn parts(&self) -> Vec<usize> {
        match *self {
            Constraint::Offset { first, second, .. }
            | Constraint::After { first, second, .. }
            | Constraint::EndsBefore { first, second }
            | Constraint::SameSite(first, second)
            | Constraint::DifferentSites(first, second) => vec![first, second],
            Constraint::Joins { link, ends: [one, other] } => vec![link, one, other],
        }
    }
}

/// A resource with a capacity that can be divided.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// Its name at the party that offers it.
    pub name: Name,
    /// Its kind: "processors", "bandwidth", "seats", "licences", "qpu", or any other word.
    pub kind: Name,
    /// The site it belongs to.
    pub site: Name,
    /// Total capacity.
    pub capacity: Capacity,
    /// Total amounts of things beside the capacity.
    #[serde(default, skip_serializing_if = "Tres::is_empty")]
    pub tres: Tres,
    /// For a link: the two sites that it joins.
    pub joins: Option<[Name; 2]>,
    /// Further properties that requests can require.
    pub attributes: BTreeMap<Name, Value>,
    /// Price of one unit for one hour, in thousandths of a currency unit.
    pub price: u32,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Value {
    /// A word.
    Text(Name),
    /// A whole number.
    Number(i64),
}

/// A condition on an attribute. Every resource has the attributes "site" and "name".
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// Name of the attribute.
    pub attribute: Name,
    /// The condition.
    pub test: Test,
}

/// A condition on the value of an attribute. A missing attribute fails every test.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Test {
    /// Any value.
    Present,
    /// Exactly this value.
    Is(Value),
    /// One of these values.
    OneOf(Vec<Value>),
    /// A number, this or more.
    AtLeast(i64),
    /// A number, this or less.
    AtMost(i64),
}

impl Resource {
    /// A capacity of a kind at a site, without attributes, free of charge.
    pub fn new(site: &str, name: &str, kind: &str, capacity: u32) -> Resource {
        Resource {
            name: name.into(),
            kind: kind.into(),
            site: site.into(),
            capacity: Capacity(capacity),
            tres: Tres::default(),
            joins: None,
            attributes: BTreeMap::new(),
            price: 0,
        }
    }

    /// Whether it matches a part by name, kind, total capacity and attributes, whether free or not.
    pub fn suits(&self, part: &Part) -> bool {
        part.resource.as_ref().is_none_or(|name| *name == self.name)
            && part.kind == self.kind
            && part.wanted.capacity <= self.capacity
            && self.tres.lacks(&part.tres).is_none()
            && part.requirements.iter().all(|requirement| self.meets(requirement))
            && self.duration(part).is_some()
    }

    /// Value of an attribute. `name` is its name at the called party.
    pub(crate) fn value(&self, name: &Name, attribute: &Name) -> Option<Value> {
        match attribute.as_str() {
            "site" => Some(Value::Text(self.site.clone())),
            "name" => Some(Value::Text(name.clone())),
            _ => self.attributes.get(attribute).cloned(),
        }
    }

    /// Whether it satisfies a requirement.
    pub fn meets(&self, requirement: &Requirement) -> bool {
        // A client may use the name of the resource at any level of a broker hierarchy.
        if requirement.attribute.as_str() == "name" {
            return self.own_names().any(|name| requirement.test.holds(&Value::Text(name)));
        }
        let own = self.value(&self.name, &requirement.attribute);
        own.is_some_and(|value| requirement.test.holds(&value))
    }

    /// Its name and its names at the parties below: each broker adds the name of a peer as a prefix.
    fn own_names(&self) -> impl Iterator<Item = Name> {
        let name = self.name.as_str();
        let below = name.match_indices('/').map(|(at, _)| Name::from(&name[at + 1..]));
        [self.name.clone()].into_iter().chain(below)
    }

    /// Price of a part, in thousandths of a currency unit.
    pub fn cost(&self, part: &Part) -> u64 {
        let unit_seconds =
            u128::from(part.wanted.capacity.0) * part.wanted.duration.0.max(0).unsigned_abs() as u128;
        u64::try_from(unit_seconds * u128::from(self.price) / 3_600).unwrap_or(u64::MAX)
    }
}

impl Test {
    fn holds(&self, value: &Value) -> bool {
        match (self, value) {
            (Test::Present, _) => true,
            (Test::Is(wanted), value) => wanted == value,
            (Test::OneOf(wanted), value) => wanted.contains(value),
            (Test::AtLeast(least), Value::Number(number)) => number >= least,
            (Test::AtMost(most), Value::Number(number)) => number <= most,
            (Test::AtLeast(_) | Test::AtMost(_), Value::Text(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::Capacity;

    fn request(parts: usize, constraints: Vec<Constraint>) -> Request {
        let wanted = placement::Request {
            earliest_start: Time(0),
            latest_end: Time(100),
            duration: Seconds(10),
            capacity: Capacity(1),
        };
        let part = Part::new(wanted, "processors");
        Request::new(vec![part; parts], constraints)
    }

    #[test]
    fn constraints_that_say_the_same_count_once() {
        let by = |by| Seconds(by);
        let same = vec![
            Constraint::SameSite(0, 1),
            Constraint::SameSite(1, 0),
            Constraint::Joins { link: 2, ends: [0, 1] },
            Constraint::Joins { link: 2, ends: [1, 0] },
            Constraint::Offset { first: 0, second: 1, by: by(7) },
            Constraint::Offset { first: 1, second: 0, by: by(-7) },
        ];
        assert_eq!(request(3, same).different_constraints().len(), 3);
        let others = vec![
            Constraint::EndsBefore { first: 0, second: 1 },
            Constraint::EndsBefore { first: 1, second: 0 },
            Constraint::Offset { first: 0, second: 1, by: by(i64::MIN) },
            Constraint::Offset { first: 1, second: 0, by: by(i64::MIN) },
        ];
        assert_eq!(request(3, others).different_constraints().len(), 4);
    }

    #[test]
    fn too_many_different_constraints_are_refused_and_repeated_ones_are_not() {
        let after = |least| Constraint::After { first: 0, second: 1, least: Seconds(least), most: None };
        let most = most_constraints(2);
        let different = |many: usize| request(2, (0..many as i64).map(after).collect());
        assert_eq!(different(most).check(), Ok(()));
        let constraints = most + 1;
        assert_eq!(different(constraints).check(), Err(Malformed::TooManyConstraints { constraints, most }));
        let repeated = [after(1), after(0)].iter().cloned().cycle().take(9_000).collect();
        let repeated = request(2, repeated);
        assert_eq!(repeated.check(), Ok(()));
        assert_eq!(repeated.without_repetitions().constraints, [after(1), after(0)]);
    }
}

#[cfg(test)]
mod resource_tests {
    use super::*;
    use bookahead_plan::placement::Request as Wanted;
    use bookahead_plan::{Seconds, Time};

    fn part(requirements: Vec<Requirement>) -> Part {
        let wanted = Wanted {
            earliest_start: Time(0),
            latest_end: Time(7_200),
            duration: Seconds(7_200),
            capacity: Capacity(4),
        };
        Part { requirements, ..Part::new(wanted, "processors") }
    }

    fn asks(attribute: &str, test: Test) -> Vec<Requirement> {
        vec![Requirement { attribute: attribute.into(), test }]
    }

    #[test]
    fn a_resource_suits_a_part_by_kind_capacity_and_attributes() {
        let mut cluster = Resource::new("north", "cluster", "processors", 4);
        cluster.attributes.insert("gpus".into(), Value::Number(2));
        cluster.price = 500;
        assert!(cluster.suits(&part(vec![])));
        assert!(cluster.suits(&part(asks("gpus", Test::AtLeast(2)))));
        assert!(!cluster.suits(&part(asks("gpus", Test::AtLeast(3)))));
        assert!(!cluster.suits(&part(asks("infiniband", Test::Present))));
        assert!(cluster.suits(&part(asks("site", Test::Is(Value::Text("north".into()))))));
        assert!(!cluster.suits(&part(asks("site", Test::AtMost(9)))));
        let named = |name: &str| part(asks("name", Test::Is(Value::Text(name.into()))));
        let through_broker = Resource { name: "low/north/cluster".into(), ..cluster.clone() };
        assert!(through_broker.suits(&named("cluster")) && !through_broker.suits(&named("low")));
        assert!(!cluster.suits(&Part { kind: "seats".into(), ..part(vec![]) }));
        assert!(!cluster.suits(&Part { resource: Some("other".into()), ..part(vec![]) }));
        assert_eq!(cluster.cost(&part(vec![])), 4_000, "four units for two hours at half a coin");
        cluster.capacity = Capacity(3);
        assert!(!cluster.suits(&part(vec![])));
    }
}
