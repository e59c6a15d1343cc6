//! Parses configuration files. Errors name the file, line, field and remedy. A [`Wrong`] knows the path to its
//! value, from which the line is found.

use crate::security::name::is_visible;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::fmt::Write;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;
use toml::de::{DeTable, DeValue};

/// Why a configuration cannot be used.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "each message says what its fields are")]
pub enum ConfigError {
    #[error("{} cannot be read: {cause}; check the path of the {of} configuration", path.display())]
    Unreadable { path: PathBuf, of: &'static str, cause: io::Error },
    #[error("{}, {}: {why}", path.display(), in_line(*line))]
    Unfit { path: PathBuf, line: Option<usize>, why: String },
    #[error("{}, {}: {}", path.display(), in_line(*line), of_field(field, why))]
    Wrong { path: PathBuf, line: Option<usize>, field: String, why: String },
}

/// An invalid value, with a remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{why}")]
pub struct Wrong {
    way: Vec<Step>,
    /// What is wrong, and what to write instead.
    pub why: String,
}

/// One step of the path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A field of a table.
    Field(Cow<'static, str>),
    /// An entry of a list, counted from 0.
    Place(usize),
}

impl Wrong {
    /// An error in a field.
    pub fn new(field: impl Into<Step>, why: impl Into<String>) -> Wrong {
        Wrong { way: vec![field.into()], why: why.into() }
    }

    /// An error that belongs to no single field.
    pub fn all(why: impl Into<String>) -> Wrong {
        Wrong { way: Vec::new(), why: why.into() }
    }

    /// An error in a field unless `holds`.
    pub fn unless(holds: bool, field: impl Into<Step>, why: impl Into<String>) -> Result<(), Wrong> {
        if holds { Ok(()) } else { Err(Wrong::new(field, why)) }
    }

    /// Prepends a step to the path.
    pub fn within(mut self, step: impl Into<Step>) -> Wrong {
        self.way.insert(0, step.into());
        self
    }

    /// Path to the value, outermost step first.
    pub fn way(&self) -> &[Step] {
        &self.way
    }

    /// The path as text: `resource[2].capacity`. Entries of lists are counted from 1 for readers.
    pub fn field(&self) -> String {
        let mut text = String::new();
        for step in &self.way {
            // Writing to a `String` cannot fail.
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

/// A number from 0 to 100. `field` is its path, with dots.
pub fn percentage(field: &'static str, number: f64) -> Result<f64, Wrong> {
    if (0.0..=100.0).contains(&number) {
        return Ok(number);
    }
    let why = format!("{field} must be a percentage from 0 to 100, not {number}");
    Err(Wrong { way: field.split('.').map(Step::from).collect(), why })
}

/// Checks the name of a site, broker or resource. It must not contain a slash, because brokers join names with
/// slashes.
pub fn check_name(of: &str, name: &str) -> Result<(), Wrong> {
    const LONGEST: usize = 100;
    let sound = !name.is_empty()
        && name.len() <= LONGEST
        && name.chars().all(|letter| letter == ' ' || letter != '/' && is_visible(letter));
    if sound {
        return Ok(());
    }
    Err(Wrong::new(
        "name",
        format!("\"{}\" cannot be the name of {of}; use letters and digits, no slash", name.escape_debug()),
    ))
}

/// Error text for an invalid user name.
pub(super) fn no_user(name: &str) -> String {
    format!("\"{}\" cannot be the name of a user; use 1 to 255 visible characters", name.escape_default())
}

fn in_line(line: Option<usize>) -> String {
    line.map_or_else(|| "as a whole".to_owned(), |line| format!("line {line}"))
}

/// Some messages begin with the field themselves.
fn of_field(field: &str, why: &str) -> String {
    if field.is_empty() || why.starts_with(field) { why.to_owned() } else { format!("{field}: {why}") }
}

/// Parses and checks the text of a configuration file.
pub(super) fn parse<T: DeserializeOwned>(
    path: &Path,
    text: &str,
    check: impl FnOnce(&T) -> Result<(), Wrong>,
) -> Result<T, ConfigError> {
    // The message alone: the full error of `toml` quotes the file over several lines.
    let config: T = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| line_at(text, span.start));
        ConfigError::Unfit { path: path.to_owned(), line, why: error.message().to_owned() }
    })?;
    check(&config).map_err(|wrong| located(path, text, &wrong))?;
    Ok(config)
}

pub(super) fn read(path: &Path, of: &'static str) -> Result<String, ConfigError> {
    std::fs::read_to_string(path).map_err(|cause| ConfigError::Unreadable {
        path: path.to_owned(),
        of,
        cause,
    })
}

fn located(path: &Path, text: &str, wrong: &Wrong) -> ConfigError {
    let line = line_of(text, wrong.way());
    ConfigError::Wrong { path: path.to_owned(), line, field: wrong.field(), why: wrong.why.clone() }
}

/// Line of a value. For a missing value: line of the innermost table that exists.
fn line_of(text: &str, way: &[Step]) -> Option<usize> {
    let mut here = &DeValue::Table(DeTable::parse(text).ok()?.into_inner());
    let mut found = None;
    for step in way {
        let next = match (here, step) {
            (DeValue::Table(table), Step::Field(name)) => {
                table.iter().find(|(key, _)| key.get_ref() == name).map(|(key, value)| (key.span(), value))
            }
            (DeValue::Array(list), Step::Place(place)) => list.get(*place).map(|one| (one.span(), one)),
            _ => None,
        };
        let Some((span, value)) = next else { break };
        found = Some(line_at(text, span.start));
        here = value.get_ref();
    }
    found
}

fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "name = \"a\"\n\n[[resource]]\nname = \"x\"\ncapacity = 1\n\n[[resource]]\nname = \"y\"\n\
                        jobs = { load = 3 }\n";

    #[test]
    fn a_value_is_found_in_its_line_and_a_missing_one_in_its_table() {
        let line = |wrong: Wrong| line_of(TEXT, wrong.way());
        assert_eq!(line(Wrong::new("name", "")), Some(1));
        assert_eq!(line(Wrong::new("capacity", "").within(0).within("resource")), Some(5));
        assert_eq!(line(Wrong::new("load", "").within("jobs").within(1).within("resource")), Some(9));
        assert_eq!(line(Wrong::new("capacity", "").within(1).within("resource")), Some(7));
        assert_eq!(line(Wrong::new("holds", "")), None);
        assert_eq!(line(Wrong::all("")), None);
    }

    #[test]
    fn the_way_to_a_field_is_told_from_the_outside_to_the_inside() {
        let wrong = Wrong::new("capacity", "it is 0").within(1).within("resource");
        assert_eq!(wrong.field(), "resource[2].capacity");
        assert_eq!(wrong.to_string(), "it is 0");
    }

    #[test]
    fn names_have_no_slash_and_nothing_unprintable() {
        assert!(check_name("a site", "north-1").is_ok() && check_name("a site", "north 1").is_ok());
        for name in ["", "a/b", "a\nb", "a\u{fe0f}", "\u{3164}", "\u{202e}b", &"x".repeat(101)] {
            assert!(check_name("a site", name).is_err(), "{name:?}");
        }
    }
}
