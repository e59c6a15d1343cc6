//! Trackable resources (TRES): countable things of a resource beside its capacity, such as GPUs, memory and
//! licences. A part asks for a total of each, for its whole duration; how they are spread over nodes is up to the
//! batch system.

use crate::ids::Name;
use bookahead_plan::Capacity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use thiserror::Error;

/// Most things of a part or of a resource. Each has a profile of its own, which every search has to visit.
pub const MOST_TRES: usize = 16;

/// Longest name, in characters. Names are words of commands of the batch system.
pub const LONGEST_TRES: usize = 64;

/// Amounts by name, such as `gres/gpu:a100`, `mem` (in MiB) or `license/qpu`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tres(pub BTreeMap<Name, Capacity>);

/// Nothing is hashed for an empty one: the digest of a call without TRES is that of versions before TRES.
impl Hash for Tres {
    fn hash<H: Hasher>(&self, state: &mut H) {
        if !self.is_empty() {
            self.0.hash(state);
        }
    }
}

/// Why amounts are invalid.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
pub enum BadTres {
    #[error("it has {0} different tres; at most {MOST_TRES} are allowed")]
    TooMany(usize),
    #[error("the amount of {0} is 0; give 1 or more, or leave it out")]
    Nothing(Name),
    #[error(
        "{0:?} is not a tres; use a name such as gres/gpu, gres/gpu:a100, mem or license/qpu: at most \
         {LONGEST_TRES} letters, digits and the characters ./:_-, beginning with a letter"
    )]
    Name(Name),
}

impl Tres {
    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The amount of one thing, zero if there is none.
    pub fn of(&self, name: &Name) -> Capacity {
        self.0.get(name).copied().unwrap_or(Capacity::ZERO)
    }

    /// Names with amounts, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&Name, Capacity)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    /// The first thing of which `wanted` has more.
    pub fn lacks<'a>(&self, wanted: &'a Tres) -> Option<(&'a Name, Capacity)> {
        wanted.iter().find(|(name, amount)| *amount > self.of(name))
    }

    /// Finds the first invalid name or amount.
    pub fn check(&self) -> Result<(), BadTres> {
        if self.0.len() > MOST_TRES {
            return Err(BadTres::TooMany(self.0.len()));
        }
        match self.iter().find(|(name, amount)| *amount == Capacity::ZERO || !is_name(name.as_str())) {
            Some((name, Capacity::ZERO)) => Err(BadTres::Nothing(name.clone())),
            Some((name, _)) => Err(BadTres::Name(name.clone())),
            None => Ok(()),
        }
    }
}

/// Whether a word can be the name of a thing. No character of it separates words or values in a command.
fn is_name(word: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"./:_-".contains(&byte);
    word.len() <= LONGEST_TRES
        && word.bytes().all(legal)
        && word.bytes().next().is_some_and(|first| first.is_ascii_alphabetic())
}

impl<N: Into<Name>> FromIterator<(N, u32)> for Tres {
    fn from_iter<I: IntoIterator<Item = (N, u32)>>(amounts: I) -> Tres {
        Tres(amounts.into_iter().map(|(name, amount)| (name.into(), Capacity(amount))).collect())
    }
}

impl fmt::Display for Tres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={}", amount.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_could_be_misread_in_a_command_are_refused() {
        for name in ["mem", "gres/gpu", "gres/gpu:a100", "license/qpu", "ngpus", "bb/data_1.x-y"] {
            assert_eq!(Tres::from_iter([(name, 1)]).check(), Ok(()), "{name}");
        }
        for name in ["", "1x", "-x", "a b", "a=b", "a,b", "a+b", "ä", "a\n", &"a".repeat(65)] {
            let name: Name = name.into();
            assert_eq!(Tres::from_iter([(name.clone(), 1)]).check(), Err(BadTres::Name(name)));
        }
        assert_eq!(Tres::from_iter([("mem", 0)]).check(), Err(BadTres::Nothing("mem".into())));
        let many = |count: u32| Tres::from_iter((0..count).map(|at| (format!("t{at}"), 1)));
        assert_eq!((many(16).check(), many(17).check()), (Ok(()), Err(BadTres::TooMany(17))));
    }

    #[test]
    fn the_first_thing_that_is_short_is_told() {
        let has = Tres::from_iter([("gres/gpu", 4), ("mem", 100)]);
        assert_eq!(has.lacks(&Tres::from_iter([("gres/gpu", 4), ("mem", 100)])), None);
        let wanted = Tres::from_iter([("gres/gpu", 4), ("license/qpu", 1), ("mem", 101)]);
        assert_eq!(has.lacks(&wanted), Some((&"license/qpu".into(), Capacity(1))));
        assert_eq!(wanted.to_string(), "gres/gpu=4,license/qpu=1,mem=101");
    }
}
