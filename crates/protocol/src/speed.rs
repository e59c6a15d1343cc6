//! Durations that were measured on a machine, and what they are on the machines of a resource.

use crate::ids::Name;
use crate::request::{FURTHEST, Part, Resource, Value};
use bookahead_plan::{Seconds, placement};
use serde::{Deserialize, Serialize};

/// A machine that a duration was measured on: the value of an attribute such as `mhz` or `gflops`. Twice the value
/// takes half the time.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MeasuredOn {
    /// Name of the attribute.
    pub attribute: Name,
    /// Its value, at least 1.
    pub value: u32,
}

impl Resource {
    /// The duration of a part here. Rounded up, because a run that is cut short is worthless. None if it was measured
    /// on a machine that this resource cannot be compared with.
    pub fn duration(&self, part: &Part) -> Option<Seconds> {
        let duration = part.wanted.duration;
        let Some(machine) = &part.measured_on else { return Some(duration) };
        let Some(&Value::Number(own @ 1..)) = self.attributes.get(&machine.attribute) else { return None };
        let scaled = i128::from(duration.0) * i128::from(machine.value);
        let scaled = (scaled + i128::from(own) - 1) / i128::from(own);
        i64::try_from(scaled).ok().filter(|scaled| *scaled <= FURTHEST).map(Seconds)
    }
}

impl Part {
    /// The same part with a duration that is valid as it is.
    pub fn lasting(&self, duration: Seconds) -> Part {
        let wanted = placement::Request { duration, ..self.wanted };
        Part { wanted, measured_on: None, ..self.clone() }
    }
}
