//! What is already known not to fit earlier. While a profile only gets fuller, a need that found room first at
//! some instant proves that nothing as wide and as long as it fits before: placing thousands of jobs one after
//! another need not look at the same short holes again and again. It never outlives a removal.

use super::{Need, Profile};
use crate::units::{Span, Time};

/// More facts do not pay for looking through them (`cargo bench --bench profile`).
const FACTS: usize = 128;

/// Places needs one after another, each at its earliest start, in a profile that meanwhile only gets fuller.
#[derive(Default)]
pub struct Frontier {
    /// A need, and the instant before which it does not fit; latest first.
    facts: Vec<(Need, Time)>,
    /// The instant from which room is looked for.
    from: Option<Time>,
}

impl Frontier {
    /// Knows nothing.
    pub fn new() -> Frontier {
        Frontier { facts: Vec::with_capacity(FACTS + 1), from: None }
    }

    /// Forgets everything, as it must when something was removed from the profile.
    pub fn forget(&mut self) {
        self.facts.clear();
        self.from = None;
    }

    /// Takes `need` from the profile at its earliest start not before `from`, and returns that start; None where
    /// it never fits.
    pub fn place(&mut self, profile: &mut Profile, from: Time, need: Need) -> Option<Time> {
        if self.from != Some(from) {
            self.forget();
            self.from = Some(from);
        }
        let not_before = self.not_before(need).unwrap_or(from);
        let start = profile.earliest_fit(not_before, need, None)?;
        if start > not_before {
            self.learn(need, start);
        }
        profile.add(Span::starting(start, need.length, need.capacity));
        Some(start)
    }

    fn not_before(&self, need: Need) -> Option<Time> {
        let smaller =
            |(known, _): &&(Need, Time)| known.capacity <= need.capacity && known.length <= need.length;
        self.facts.iter().find(smaller).map(|&(_, start)| start)
    }

    /// Keeps the fact, and drops those that it makes superfluous.
    fn learn(&mut self, need: Need, start: Time) {
        self.facts.retain(|(known, before)| {
            known.capacity < need.capacity || known.length < need.length || *before > start
        });
        let at = self.facts.partition_point(|&(_, before)| before > start);
        self.facts.insert(at, (need, start));
        self.facts.truncate(FACTS);
    }
}
