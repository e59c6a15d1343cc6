//! What a site offers: a capacity of some kind, with attributes that never change by the hour. Matching a part against
//! them is the first step of every search; it says nothing about schedules.

use crate::ids::Name;
use crate::request::Part;
use bookahead_plan::Capacity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
            "name" => Some(Value::Text(self.name.clone())),
            _ => self.attributes.get(&requirement.attribute).cloned(),
        };
        own.is_some_and(|value| requirement.test.holds(&value))
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
    use bookahead_plan::placement::Request as Wanted;
    use bookahead_plan::{Seconds, Time};

    fn part(requirements: Vec<Requirement>) -> Part {
        let wanted = Wanted {
            earliest_start: Time(0),
            latest_end: Time(7_200),
            duration: Seconds(7_200),
            capacity: Capacity(4),
        };
        Part { wanted, kind: "processors".into(), requirements, resource: None }
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
        assert!(!cluster.suits(&Part { kind: "seats".into(), ..part(vec![]) }));
        assert!(!cluster.suits(&Part { resource: Some("other".into()), ..part(vec![]) }));
        assert_eq!(cluster.cost(&part(vec![])), 4_000, "four units for two hours at half a coin");
        cluster.capacity = Capacity(3);
        assert!(!cluster.suits(&part(vec![])));
    }
}
