//! A value that makes no sense, and the way to it through the tables of a file, so that whoever reads the file can say in
//! which line it stands.

use std::borrow::Cow;
use std::fmt::Write;
use thiserror::Error;

/// A value that makes no sense: why, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct Wrong {
    way: Vec<Step>,
    /// Why, and what to write instead.
    pub why: String,
}

/// One step to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// To the field of a table.
    Field(Cow<'static, str>),
    /// To one of a list.
    Place(usize),
}

impl Wrong {
    /// With a field.
    pub fn new(field: impl Into<Step>, why: impl Into<String>) -> Wrong {
        Wrong { way: vec![field.into()], why: why.into() }
    }

    /// With everything.
    pub fn all(why: impl Into<String>) -> Wrong {
        Wrong { way: Vec::new(), why: why.into() }
    }

    /// Inside this.
    pub fn within(mut self, step: impl Into<Step>) -> Wrong {
        self.way.insert(0, step.into());
        self
    }

    /// From the outside to the inside.
    pub fn way(&self) -> &[Step] {
        &self.way
    }

    /// As one writes it: `resource[2].capacity`; lists count from 1, as people do.
    pub fn field(&self) -> String {
        let mut text = String::new();
        for step in &self.way {
            // Writing to a text does not fail.
            let _ = match step {
                Step::Field(name) if text.is_empty() => write!(text, "{name}"),
                Step::Field(name) => write!(text, ".{name}"),
                Step::Place(place) => write!(text, "[{}]", place + 1),
            };
        }
        text
    }
}

impl From<&'static str> for Step {
    fn from(field: &'static str) -> Step {
        Step::Field(Cow::Borrowed(field))
    }
}

impl From<String> for Step {
    fn from(field: String) -> Step {
        Step::Field(Cow::Owned(field))
    }
}

impl From<usize> for Step {
    fn from(place: usize) -> Step {
        Step::Place(place)
    }
}

/// A number between 0 and 100; `field` is the way to it, with dots.
pub fn percentage(field: &'static str, number: f64) -> Result<f64, Wrong> {
    if (0.0..=100.0).contains(&number) {
        return Ok(number);
    }
    let why = format!("{field} = {number} is no percentage; give 0 to 100");
    Err(Wrong { way: field.split('.').map(Step::from).collect(), why })
}

/// Whether this can be the name of a party or resource: brokers put names together with a slash, so that there must be
/// none in them.
pub fn check_name(of: &str, name: &str) -> Result<(), Wrong> {
    const LONGEST: usize = 100;
    let sound = !name.is_empty()
        && name.len() <= LONGEST
        && !name.chars().any(|letter| letter == '/' || letter.is_control());
    if sound {
        return Ok(());
    }
    Err(Wrong::new(
        "name",
        format!("\"{}\" cannot be the name of {of}; use letters and digits", name.escape_debug()),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_to_a_field_is_told_from_the_outside_to_the_inside() {
        let wrong = Wrong::new("capacity", "it is 0").within(1).within("resource");
        assert_eq!(wrong.field(), "resource[2].capacity");
        assert_eq!(wrong.to_string(), "it is 0");
    }

    #[test]
    fn names_have_no_slash_and_nothing_unprintable() {
        assert!(check_name("a site", "north-1").is_ok());
        for name in ["", "a/b", "a\nb", &"x".repeat(101)] {
            assert!(check_name("a site", name).is_err(), "{name:?}");
        }
    }
}
