//! Name, note, labels and priority class of a reservation or job. The texts are for people and their tools:
//! placement only looks at the class.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use thiserror::Error;

/// Most characters of a name: it is a column of a table, and the title of a calendar entry.
pub const LONGEST_NAME: usize = 100;

/// Most characters of a note. It is part of every answer, so a page of 1,000 entries must stay below a few
/// megabytes.
pub const LONGEST_NOTE: usize = 1_000;

/// Most labels.
pub const MOST_LABELS: usize = 16;

/// Most characters of the key of a label.
pub const LONGEST_KEY: usize = 63;

/// Most characters of a priority class.
pub const LONGEST_CLASS: usize = 63;

/// Most characters of the value of a label.
pub const LONGEST_VALUE: usize = 255;

/// Name, note, labels and priority class, all optional.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Description {
    /// One line, 1 to [`LONGEST_NAME`] characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// At most [`LONGEST_NOTE`] characters; may have several lines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// At most [`MOST_LABELS`], by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Priority class, as the site calls it. Default: that of the site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<String>,
}

/// Written by hand, so that digests of requests without a priority class stay as they were before there were
/// classes: journals contain them.
impl Hash for Description {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, &self.note, &self.labels).hash(state);
        if let Some(priority) = &self.priority {
            priority.hash(state);
        }
    }
}

/// A description that exceeds a bound or has a character that is not allowed.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
pub enum BadDescription {
    #[error("the name has {0} characters; give 1 to {LONGEST_NAME}")]
    NameLength(usize),
    #[error("the name contains a control character; remove it")]
    NameControl,
    #[error("the note has {0} characters; at most {LONGEST_NOTE} are allowed")]
    NoteLength(usize),
    #[error("the note contains a control character other than a line break; remove it")]
    NoteControl,
    #[error("there are {0} labels; at most {MOST_LABELS} are allowed")]
    TooManyLabels(usize),
    #[error(
        "{0:?} cannot be the key of a label; use 1 to {LONGEST_KEY} letters (a to z), digits, and the characters . - _ /"
    )]
    LabelKey(String),
    #[error("the value of the label {key} has {length} characters; at most {LONGEST_VALUE} are allowed")]
    ValueLength { key: String, length: usize },
    #[error(
        "{0:?} cannot be a priority class; use 1 to {LONGEST_CLASS} letters (a to z), digits, and the characters . - _"
    )]
    Priority(String),
    #[error("the value of the label {0} contains a control character; remove it")]
    ValueControl(String),
}

impl Description {
    /// Whether there is neither name, note, label nor priority class.
    pub fn is_empty(&self) -> bool {
        *self == Description::default()
    }

    /// Finds the first text that exceeds a bound or has a control character.
    pub fn check(&self) -> Result<(), BadDescription> {
        if let Some(name) = &self.name {
            match name.chars().count() {
                1..=LONGEST_NAME => {}
                length => return Err(BadDescription::NameLength(length)),
            }
            if name.chars().any(char::is_control) {
                return Err(BadDescription::NameControl);
            }
        }
        if let Some(note) = &self.note {
            let length = note.chars().count();
            if length > LONGEST_NOTE {
                return Err(BadDescription::NoteLength(length));
            }
            if note.chars().any(|character| character.is_control() && character != '\n') {
                return Err(BadDescription::NoteControl);
            }
        }
        self.priority.iter().try_for_each(|class| check_class(class))?;
        if self.labels.len() > MOST_LABELS {
            return Err(BadDescription::TooManyLabels(self.labels.len()));
        }
        self.labels.iter().try_for_each(|(key, value)| check_label(key, value))
    }

    /// What placement looks at: the priority class.
    pub fn for_placement(&self) -> Description {
        let Description { name: _, note: _, labels: _, priority } = self;
        Description { priority: priority.clone(), ..Description::default() }
    }

    /// Whether the name contains a text, ignoring case. False without a name.
    pub fn is_named_like(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.name.as_ref().is_some_and(|name| name.to_lowercase().contains(&text))
    }

    /// Whether it has all of these labels with exactly these values.
    pub fn has_labels(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.iter().all(|(key, value)| self.labels.get(key) == Some(value))
    }

    /// Approximate memory use.
    pub fn bytes(&self) -> usize {
        self.priority.as_ref().map_or(0, String::len) + self.text_bytes()
    }

    /// The same without the priority class.
    pub(crate) fn text_bytes(&self) -> usize {
        /// Of the text of a label in its map, besides the characters.
        const LABEL: usize = 64;
        let labels = self.labels.iter().map(|(key, value)| LABEL + key.len() + value.len()).sum::<usize>();
        let texts = [&self.name, &self.note].into_iter().flatten();
        texts.map(String::len).sum::<usize>() + labels
    }
}

/// Checks the name of a priority class.
pub fn check_class(class: &str) -> Result<(), BadDescription> {
    let plain = class.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'));
    if plain && (1..=LONGEST_CLASS).contains(&class.len()) {
        return Ok(());
    }
    Err(BadDescription::Priority(class.chars().take(LONGEST_CLASS + 1).collect()))
}

/// Checks key and value of one label.
pub fn check_label(key: &str, value: &str) -> Result<(), BadDescription> {
    let plain =
        key.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'/'));
    if !plain || !(1..=LONGEST_KEY).contains(&key.len()) {
        // Shortened: the key may be of any length.
        return Err(BadDescription::LabelKey(key.chars().take(LONGEST_KEY + 1).collect()));
    }
    let length = value.chars().count();
    if length > LONGEST_VALUE {
        return Err(BadDescription::ValueLength { key: key.into(), length });
    }
    if value.chars().any(char::is_control) {
        return Err(BadDescription::ValueControl(key.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Description {
        Description { name: Some(name.into()), ..Description::default() }
    }

    fn noted(note: &str) -> Description {
        Description { note: Some(note.into()), ..Description::default() }
    }

    fn labelled(key: &str, value: &str) -> Description {
        Description { labels: [(key.into(), value.into())].into(), ..Description::default() }
    }

    #[test]
    fn texts_within_their_bounds_are_accepted() {
        assert_eq!(Description::default().check(), Ok(()));
        assert_eq!(named("Course: MPI, group 2").check(), Ok(()));
        assert_eq!(named(&"ä".repeat(LONGEST_NAME)).check(), Ok(()));
        assert_eq!(noted(&"line\n".repeat(200)).check(), Ok(()));
        assert_eq!(noted("").check(), Ok(()));
        assert_eq!(labelled("example.org/grant-no_1", &"x".repeat(LONGEST_VALUE)).check(), Ok(()));
        assert_eq!(labelled(&"k".repeat(LONGEST_KEY), "").check(), Ok(()));
    }

    #[test]
    fn texts_beyond_their_bounds_are_refused() {
        assert_eq!(named("").check(), Err(BadDescription::NameLength(0)));
        assert_eq!(named(&"x".repeat(101)).check(), Err(BadDescription::NameLength(101)));
        assert_eq!(named("a\nb").check(), Err(BadDescription::NameControl));
        assert_eq!(noted(&"x".repeat(1_001)).check(), Err(BadDescription::NoteLength(1_001)));
        assert_eq!(noted("a\tb").check(), Err(BadDescription::NoteControl));
        for key in ["", "a b", "ä", "a=b", &"k".repeat(64)] {
            assert!(matches!(labelled(key, "v").check(), Err(BadDescription::LabelKey(_))), "{key:?}");
        }
        assert!(matches!(labelled("k", &"v".repeat(256)).check(), Err(BadDescription::ValueLength { .. })));
        assert_eq!(labelled("k", "\u{1b}").check(), Err(BadDescription::ValueControl("k".into())));
        for class in ["", "a b", "ä", "a/b", &"k".repeat(64)] {
            let of_class = Description { priority: Some(class.into()), ..Description::default() };
            assert!(matches!(of_class.check(), Err(BadDescription::Priority(_))), "{class:?}");
        }
        let labels = (0..17).map(|number| (number.to_string(), String::new())).collect();
        let many = Description { labels, ..Description::default() };
        assert_eq!(many.check(), Err(BadDescription::TooManyLabels(17)));
    }

    #[test]
    fn names_are_found_by_a_part_of_them_in_any_case() {
        assert!(named("Übung MPI").is_named_like("übung"));
        assert!(named("Übung MPI").is_named_like("mp"));
        assert!(!named("Übung MPI").is_named_like("omp"));
        assert!(!Description::default().is_named_like(""));
        let both =
            Description { labels: [("a".into(), "1".into()), ("b".into(), "2".into())].into(), ..named("x") };
        assert!(both.has_labels(&[("a".into(), "1".into())].into()));
        assert!(!both.has_labels(&[("a".into(), "2".into())].into()));
    }
}
