//! What a client wants: parts, each flexible in time, and what must hold between them. A request with one part is a plain
//! reservation; with more it is a co-reservation, booked all together or not at all. And what a site offers: a capacity of some
//! kind, with attributes that never change by the hour. Matching a part against them says nothing about schedules.

use crate::ids::{Name, ReservationId};
use bookahead_plan::{Capacity, Seconds, Time, placement};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Parts are told apart by so few bits, and searched exactly.
pub const MOST_PARTS: usize = 32;

/// The most different constraints that a request of so many parts may have: four for each pair of parts, which is when
/// they begin, when they end and where they are, said in full for every pair; and 64 more, for links and for small
/// requests. Each slot that a search looks at is checked against all constraints about the place of its part.
pub const fn most_constraints(parts: usize) -> usize {
    2 * parts * parts.saturating_sub(1) + 64
}

/// What is wanted, all of it or nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Request {
    /// At least one.
    pub parts: Vec<Part>,
    /// What must hold between parts.
    pub constraints: Vec<Constraint>,
    /// Which of several solutions is the best.
    pub objective: Objective,
    /// What a broker does when a site loses a part of what is booked.
    #[serde(default, skip_serializing_if = "OnLoss::is_default")]
    pub on_loss: OnLoss,
    /// Where its owner wants to be told what happens to it. Kept by whoever is asked by the owner, and never passed on to peers:
    /// the owner would be told twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Box<str>>,
}

/// One resource for one stretch of time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Part {
    /// When, how long, how much.
    pub wanted: placement::Request,
    /// What kind of resource, such as "processors".
    pub kind: Name,
    /// What the resource must have.
    pub requirements: Vec<Requirement>,
    /// This very resource of whoever is asked, where it was already chosen.
    pub resource: Option<Name>,
    /// The reservation that is given up once this one is committed: limits do not count both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ReservationId>,
    /// In a probe: the reservation whose terms this part is to become, whose room counts as free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ReservationId>,
}

/// What must hold between parts, given by their places in the request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Constraint {
    /// `second` begins so long after the beginning of `first`: zero is together, less is before.
    Offset {
        /// The part that is measured from.
        first: usize,
        /// The part that is measured to.
        second: usize,
        /// How much later.
        by: Seconds,
    },
    /// `second` begins after the end of `first`, with a gap between `least` and `most`.
    After {
        /// What comes first.
        first: usize,
        /// What comes then.
        second: usize,
        /// The shortest gap.
        least: Seconds,
        /// The longest gap, where there is a limit.
        most: Option<Seconds>,
    },
    /// `first` ends no later than `second` does.
    EndsBefore {
        /// What ends first.
        first: usize,
        /// What ends then.
        second: usize,
    },
    /// Both are at one site.
    SameSite(usize, usize),
    /// They are at two sites.
    DifferentSites(usize, usize),
    /// `link` is a link between the sites of the two others.
    Joins {
        /// The part that is a link.
        link: usize,
        /// What it joins.
        ends: [usize; 2],
    },
}

/// Which solution is the best. Ties go to the earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Objective {
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

/// What a broker does when a site loses a part of what is booked, or capacity of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum OnLoss {
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

impl OnLoss {
    /// Whether it is what is done where nothing is said.
    pub fn is_default(&self) -> bool {
        *self == OnLoss::default()
    }

    /// Whether a replacement is looked for.
    pub fn heals(self) -> bool {
        matches!(self, OnLoss::Heal | OnLoss::HealAnyTime)
    }
}

/// A request that nobody could ever fulfil as it stands.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
pub enum Malformed {
    #[error("the request has no parts; give at least one")]
    NoParts,
    #[error("the request has {0} parts, more than the {MOST_PARTS} that can be searched")]
    TooManyParts(usize),
    /// There are more constraints than can be searched, not counting those that say the same.
    #[error(
        "the request has {constraints} different constraints; at most {most} can be searched for its parts"
    )]
    TooManyConstraints { constraints: usize, most: usize },
    #[error("constraint {constraint} speaks of part {part}, and there are only {parts} (counted from 0)")]
    NoSuchPart { constraint: usize, part: usize, parts: usize },
    #[error("constraint {0} is between a part and itself")]
    WithItself(usize),
    #[error("part {0} has a duration below one second")]
    NoDuration(usize),
    #[error("part {0} has no capacity")]
    NoCapacity(usize),
    #[error("constraint {0} has a longest gap below its shortest")]
    EmptyGap(usize),
    #[error("part {0} has times beyond what can be planned")]
    TimeOutOfRange(usize),
}

/// Times further from the origin than this (about 30 million years) are refused, so that no sum saturates unnoticed.
const FURTHEST: i64 = 1_000_000_000_000_000;

impl Request {
    /// Of which the solution that is over first is the best.
    pub fn new(parts: Vec<Part>, constraints: Vec<Constraint>) -> Request {
        Request {
            parts,
            constraints,
            objective: Objective::EarliestEnd,
            on_loss: OnLoss::default(),
            webhook: None,
        }
    }

    /// A plain reservation.
    pub fn single(part: Part) -> Request {
        Request::new(vec![part], Vec::new())
    }

    /// Says what is wrong with it, whatever the schedules are.
    pub fn check(&self) -> Result<(), Malformed> {
        if self.parts.is_empty() {
            return Err(Malformed::NoParts);
        }
        if self.parts.len() > MOST_PARTS {
            return Err(Malformed::TooManyParts(self.parts.len()));
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

    /// Its constraints without those that say the same as another, in some order.
    pub fn different_constraints(&self) -> Vec<Constraint> {
        let mut different: Vec<Constraint> = self.constraints.iter().map(Constraint::ordered).collect();
        different.sort_unstable();
        different.dedup();
        different
    }

    /// The same without constraints that say the same as one before them.
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
    /// On any resource of a kind.
    pub fn new(wanted: placement::Request, kind: impl Into<Name>) -> Part {
        Part {
            wanted,
            kind: kind.into(),
            requirements: Vec::new(),
            resource: None,
            replaces: None,
            changes: None,
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
        let far = |Time(time): Time| !(-FURTHEST..=FURTHEST).contains(&time);
        if far(wanted.earliest_start) || far(wanted.latest_end) || wanted.duration.0 > FURTHEST {
            return Err(Malformed::TimeOutOfRange(at));
        }
        Ok(())
    }

    /// The same, to begin at `start` on `resource` and at no other time and place.
    pub fn fixed(&self, start: Time, resource: Name) -> Part {
        let latest_end = start + self.wanted.duration;
        let wanted = placement::Request { earliest_start: start, latest_end, ..self.wanted };
        Part { wanted, resource: Some(resource), ..self.clone() }
    }
}

impl Constraint {
    /// The same, with parts in order where it does not matter which comes first.
    fn ordered(&self) -> Constraint {
        match *self {
            Constraint::SameSite(one, other) => Constraint::SameSite(one.min(other), one.max(other)),
            Constraint::DifferentSites(one, other) => {
                Constraint::DifferentSites(one.min(other), one.max(other))
            }
            Constraint::Joins { link, ends: [one, other] } => {
                Constraint::Joins { link, ends: [one.min(other), one.max(other)] }
            }
            Constraint::Offset { first, second, by } if first > second && by.0 != i64::MIN => {
                Constraint::Offset { first: second, second: first, by: Seconds(-by.0) }
            }
            Constraint::Offset { .. } | Constraint::After { .. } | Constraint::EndsBefore { .. } => {
                self.clone()
            }
        }
    }

    /// The parts that it speaks of.
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

/// Something with a capacity that is shared in space.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// Its name at whoever offers it.
    pub name: Name,
    /// What kind it is: "processors", "bandwidth", "seats", "licences", "qpu", or any other word.
    pub kind: Name,
    /// The site it belongs to.
    pub site: Name,
    /// What there is in all.
    pub capacity: Capacity,
    /// Of a link: the two sites that it joins.
    pub joins: Option<[Name; 2]>,
    /// What else there is to know.
    pub attributes: BTreeMap<Name, Value>,
    /// The price of one unit for an hour, in thousandths of whatever is paid with.
    pub price: u32,
}

/// What an attribute is.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Value {
    /// A word.
    Text(Name),
    /// A whole number.
    Number(i64),
}

/// What a part asks of an attribute. "site" and "name" are attributes that every resource has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Requirement {
    /// Which attribute.
    pub attribute: Name,
    /// What of it.
    pub test: Test,
}

/// What an attribute must be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Test {
    /// There is one.
    Present,
    /// Exactly this.
    Is(Value),
    /// One of these.
    OneOf(Vec<Value>),
    /// A number, this or more.
    AtLeast(i64),
    /// A number, this or less.
    AtMost(i64),
}

impl Resource {
    /// So much of a kind at a site, with no attributes, free of charge.
    pub fn new(site: &str, name: &str, kind: &str, capacity: u32) -> Resource {
        Resource {
            name: name.into(),
            kind: kind.into(),
            site: site.into(),
            capacity: Capacity(capacity),
            joins: None,
            attributes: BTreeMap::new(),
            price: 0,
        }
    }

    /// Whether it could serve a part, if it had the time.
    pub fn suits(&self, part: &Part) -> bool {
        part.resource.as_ref().is_none_or(|name| *name == self.name)
            && part.kind == self.kind
            && part.wanted.capacity <= self.capacity
            && part.requirements.iter().all(|requirement| self.meets(requirement))
    }

    /// Whether it has what is required.
    pub fn meets(&self, requirement: &Requirement) -> bool {
        let own = match requirement.attribute.as_str() {
            "site" => Some(Value::Text(self.site.clone())),
            "name" => return self.own_names().any(|name| requirement.test.holds(&Value::Text(name))),
            _ => self.attributes.get(&requirement.attribute).cloned(),
        };
        own.is_some_and(|value| requirement.test.holds(&value))
    }

    /// Its name, and what it may be called by those below: each broker puts the name of a peer in front.
    fn own_names(&self) -> impl Iterator<Item = Name> {
        let name = self.name.as_str();
        let below = name.match_indices('/').map(|(at, _)| Name::from(&name[at + 1..]));
        [self.name.clone()].into_iter().chain(below)
    }

    /// What a part would cost here, in thousandths.
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
