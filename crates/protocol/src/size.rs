//! How much memory requests and refusals take. The numbers are estimates: bounds on what is remembered follow from them.

use crate::ids::Name;
use crate::missing::Missing;
use crate::problem::{Blocker, Problem, Why};
use crate::request::{Request, Requirement, Test, Value};
use crate::tres::MOST_TRES;
use bookahead_plan::Capacity;
use bookahead_plan::placement::Relaxation;

/// Approximate memory use of a part without its lists.
const PART_BYTES: usize = 512;

/// Approximate memory use of a constraint.
const CONSTRAINT_BYTES: usize = 64;

/// Approximate memory use of a name or value in a list, without its text.
const WORD_BYTES: usize = 64;

impl Request {
    /// Approximate memory use. Bounds on what is remembered count these bytes.
    pub(crate) fn bytes(&self) -> usize {
        let tres = self.parts.iter().map(|part| part.tres.0.len()).sum::<usize>();
        self.parts.len() * PART_BYTES + tres * WORD_BYTES + self.text_bytes()
    }

    /// Approximate memory use of what [`Request::shortened`] drops.
    pub(crate) fn text_bytes(&self) -> usize {
        let requirements = self.parts.iter().flat_map(|part| &part.requirements);
        let shared = self
            .shared_with
            .iter()
            .chain(self.consents.keys())
            .map(|user| WORD_BYTES + user.as_str().len())
            .sum::<usize>();
        let constraints = self.constraints.len() * CONSTRAINT_BYTES;
        let webhook = self.webhook.as_ref().map_or(0, |url| url.len());
        requirements.map(Requirement::bytes).sum::<usize>()
            + shared
            + constraints
            + webhook
            + self.description.text_bytes()
    }
}

impl Requirement {
    /// Approximate memory use.
    fn bytes(&self) -> usize {
        let text = |value: &Value| match value {
            Value::Text(text) => WORD_BYTES + text.as_str().len(),
            Value::Number(_) => WORD_BYTES,
        };
        let values = match &self.test {
            Test::Is(value) => text(value),
            Test::OneOf(values) => values.iter().map(text).sum(),
            Test::Present | Test::AtLeast(_) | Test::AtMost(_) => 0,
        };
        WORD_BYTES + self.attribute.as_str().len() + values
    }
}

impl Problem {
    /// Approximate heap memory use. Bounds on recorded answers count these bytes.
    pub(crate) fn bytes(&self) -> usize {
        let told = match &self.why {
            Why::NotGranted(text) => text.len(),
            Why::JobsInside { jobs, .. } => size_of_val(jobs.as_slice()),
            Why::NoSuchResource { missing: Some(_), .. } => size_of::<Missing>(),
            Why::ShortOf { .. } => 2 * MOST_TRES * size_of::<(Name, Capacity)>(),
            _ => 0,
        };
        told + self.blockers.len() * size_of::<Blocker>() + self.relaxations.len() * size_of::<Relaxation>()
    }
}
