//! Why no resource suits a part: which of its requirements none meets, and what there is instead.

use crate::ids::Name;
use crate::request::{Part, Requirement, Resource, Test, Value};
use bookahead_plan::Capacity;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Most alternatives in a refusal. Refusals are stored, so their size is bounded.
pub const MOST_OFFERED: usize = 8;

/// The first requirement that leaves no resource. They are checked in this order, each among the resources
/// that meet those before it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Missing {
    /// No resource has this name.
    Resource {
        /// The name in the request.
        name: Name,
        /// Names of resources, at most [`MOST_OFFERED`].
        offered: Vec<Name>,
    },
    /// No resource has the kind.
    Kind {
        /// Kinds of resources, at most [`MOST_OFFERED`].
        offered: Vec<Name>,
    },
    /// No resource of the kind meets a requirement.
    Attribute {
        /// The requirement.
        wanted: Requirement,
        /// Values of the attribute, at most [`MOST_OFFERED`]. Empty if no resource has it.
        offered: Vec<Value>,
    },
    /// No resource is large enough.
    Capacity {
        /// The requested capacity.
        wanted: Capacity,
        /// The capacity of the largest resource that meets all else.
        largest: Capacity,
    },
    /// No resource has enough of a thing beside the capacity.
    Tres {
        /// Its name.
        name: Name,
        /// The requested amount.
        wanted: Capacity,
        /// The most that a resource has that meets all else; zero if none has any.
        largest: Capacity,
    },
}

impl Missing {
    /// What is missing for a part, which names a resource as in `resources`. None if a resource suits it.
    pub fn of(part: &Part, resources: &[(Name, &Resource)]) -> Option<Missing> {
        let mut left: Vec<&(Name, &Resource)> = resources.iter().collect();
        if let Some(name) = &part.resource {
            left.retain(|(known, _)| known == name);
            if left.is_empty() {
                let offered = some(resources.iter().map(|(name, _)| name.clone()));
                return Some(Missing::Resource { name: name.clone(), offered });
            }
        }
        // Collected before the filter, which may leave no resource to read them from.
        let kinds = some(left.iter().map(|(_, resource)| resource.kind.clone()));
        left.retain(|(_, resource)| resource.kind == part.kind);
        if left.is_empty() {
            return Some(Missing::Kind { offered: kinds });
        }
        for wanted in &part.requirements {
            let values =
                some(left.iter().filter_map(|(name, resource)| resource.value(name, &wanted.attribute)));
            left.retain(|(_, resource)| resource.meets(wanted));
            if left.is_empty() {
                return Some(Missing::Attribute { wanted: wanted.clone(), offered: values });
            }
        }
        // Checked last: the size of a resource that fails on anything else would mislead the user. `left` is
        // never empty here, so there is a maximum.
        let largest = left.iter().map(|(_, resource)| resource.capacity).max()?;
        let wanted = part.wanted.capacity;
        if wanted > largest {
            return Some(Missing::Capacity { wanted, largest });
        }
        left.retain(|(_, resource)| resource.capacity >= wanted);
        for (name, wanted) in part.tres.iter() {
            let largest = left.iter().map(|(_, resource)| resource.tres.of(name)).max()?;
            left.retain(|(_, resource)| resource.tres.of(name) >= wanted);
            if left.is_empty() {
                return Some(Missing::Tres { name: name.clone(), wanted, largest });
            }
        }
        None
    }

    /// The sentence for people.
    pub(crate) fn sentence(&self, kind: &Name) -> String {
        match self {
            Missing::Resource { name, offered } => {
                format!("there is no resource {name}; there is {}", listed(offered))
            }
            Missing::Kind { offered } => {
                format!("no resource has the kind {kind}; offered kinds: {}", listed(offered))
            }
            Missing::Attribute { wanted, offered } if offered.is_empty() => {
                format!("no resource of kind {kind} has the attribute {}", wanted.attribute)
            }
            Missing::Attribute { wanted, offered } => {
                let Requirement { attribute, test } = wanted;
                format!(
                    "no resource of kind {kind} meets {attribute} {test}; its values are {}",
                    listed(offered)
                )
            }
            Missing::Capacity { wanted, largest } => format!(
                "no resource of kind {kind} that meets the request has a capacity of {wanted}; the largest has \
                 {largest}"
            ),
            Missing::Tres { name, largest: Capacity::ZERO, .. } => {
                format!("no resource of kind {kind} that meets the request has {name}")
            }
            Missing::Tres { name, wanted, largest } => format!(
                "no resource of kind {kind} that meets the request has {wanted} of {name}; the most is {largest}"
            ),
        }
    }
}

/// Different values in order, at most [`MOST_OFFERED`].
fn some<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut different = Vec::new();
    for one in all {
        if !different.contains(&one) {
            different.push(one);
        }
        if different.len() == MOST_OFFERED {
            break;
        }
    }
    different
}

fn listed<T: fmt::Display>(offered: &[T]) -> String {
    if offered.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<String> = offered.iter().map(T::to_string).collect();
    // A list of exactly this length may be complete or cut; it does not say which.
    let more = if offered.len() < MOST_OFFERED { "" } else { " and maybe others" };
    words.join(", ") + more
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Text(text) => text.fmt(f),
            Value::Number(number) => number.fmt(f),
        }
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Present => f.write_str("with any value"),
            Test::Is(value) => write!(f, "= {value}"),
            Test::OneOf(values) => write!(f, "= one of {}", listed(values)),
            Test::AtLeast(least) => write!(f, ">= {least}"),
            Test::AtMost(most) => write!(f, "<= {most}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bookahead_plan::{Seconds, Time, placement};

    fn part(kind: &str, capacity: u32) -> Part {
        let wanted = placement::Request {
            earliest_start: Time(0),
            latest_end: Time(10),
            duration: Seconds(10),
            capacity: Capacity(capacity),
        };
        Part::new(wanted, kind)
    }

    fn text(part: &Part) -> String {
        let mut small = Resource::new("north", "small", "processors", 16);
        small.attributes.insert("gpu".into(), Value::Text("a100".into()));
        small.tres = [("gres/gpu", 4)].into_iter().collect();
        let large = Resource::new("north", "large", "processors", 64);
        let seats = Resource::new("north", "room", "seats", 30);
        let all: Vec<(Name, &Resource)> =
            [&small, &large, &seats].into_iter().map(|one| (one.name.clone(), one)).collect();
        Missing::of(part, &all).map_or_else(|| "suits".to_owned(), |missing| missing.sentence(&part.kind))
    }

    #[test]
    fn a_refusal_says_what_there_is_instead() {
        let gpu = |test| vec![Requirement { attribute: "gpu".into(), test }];
        let h100 = || gpu(Test::Is(Value::Text("h100".into())));
        let a100 = || gpu(Test::Is(Value::Text("a100".into())));
        assert_eq!(text(&part("processors", 64)), "suits");
        assert_eq!(text(&part("qpu", 1)), "no resource has the kind qpu; offered kinds: processors, seats");
        assert_eq!(
            text(&Part { resource: Some("huge".into()), ..part("processors", 1) }),
            "there is no resource huge; there is small, large, room"
        );
        assert_eq!(
            text(&Part { requirements: h100(), ..part("processors", 1) }),
            "no resource of kind processors meets gpu = h100; its values are a100"
        );
        assert_eq!(
            text(&Part { requirements: h100(), ..part("seats", 1) }),
            "no resource of kind seats has the attribute gpu"
        );
        let wide = "no resource of kind processors that meets the request has a capacity of";
        assert_eq!(text(&part("processors", 65)), format!("{wide} 65; the largest has 64"));
        assert_eq!(
            text(&Part { requirements: a100(), ..part("processors", 17) }),
            format!("{wide} 17; the largest has 16")
        );
        let gpus =
            |count| Part { tres: [("gres/gpu", count)].into_iter().collect(), ..part("processors", 1) };
        assert_eq!(text(&gpus(4)), "suits");
        assert_eq!(
            text(&gpus(5)),
            "no resource of kind processors that meets the request has 5 of gres/gpu; the most is 4"
        );
        let wide = part("processors", 17);
        assert_eq!(
            text(&Part { tres: gpus(1).tres, ..wide }),
            "no resource of kind processors that meets the request has gres/gpu"
        );
    }
}
