//! A file of configuration as text: tables and fields, each with a comment above it, and fields that are not set as
//! comments, with an example of what could stand there.

use super::length::Length;
use bookahead_api::AttributeValue;
use bookahead_protocol::Name;
use std::collections::BTreeMap;
use std::path::Path;

/// A value as TOML writes it.
pub(super) trait Written {
    fn written(&self) -> String;
}

/// The text so far.
#[derive(Default)]
pub(super) struct Page(String);

impl Page {
    /// A remark at the head.
    pub(super) fn remark(&mut self, text: &str) {
        text.lines().for_each(|line| self.line(&format!("# {line}")));
    }

    /// A table, or one of several (`[resource]` for `[[resource]]`).
    pub(super) fn table(&mut self, name: &str, about: &str) {
        self.line("");
        self.line(&format!("# {about}"));
        self.line(&format!("[{name}]"));
    }

    /// A field with its value.
    pub(super) fn set(&mut self, field: &str, value: &(impl Written + ?Sized), about: &str) {
        self.line(&format!("# {about}"));
        self.line(&format!("{field} = {}", value.written()));
    }

    /// A field that may be set.
    pub(super) fn may_set<T: Written>(&mut self, field: &str, value: Option<&T>, example: &str, about: &str) {
        match value {
            Some(value) => self.set(field, value, about),
            None => self.line(&format!("# {about}\n# {field} = {example}")),
        }
    }

    fn line(&mut self, line: &str) {
        self.0.push_str(line);
        self.0.push('\n');
    }

    /// All of it.
    pub(super) fn text(self) -> String {
        self.0
    }
}

impl Written for str {
    fn written(&self) -> String {
        let mut text = String::from("\"");
        for letter in self.chars() {
            match letter {
                '"' | '\\' => text.extend(['\\', letter]),
                letter if letter.is_control() => text.push_str(&format!("\\u{:04X}", u32::from(letter))),
                letter => text.push(letter),
            }
        }
        text + "\""
    }
}

impl Written for String {
    fn written(&self) -> String {
        self.as_str().written()
    }
}

impl Written for Path {
    fn written(&self) -> String {
        self.to_string_lossy().as_ref().written()
    }
}

impl Written for std::path::PathBuf {
    fn written(&self) -> String {
        self.as_path().written()
    }
}

impl Written for Name {
    fn written(&self) -> String {
        self.as_str().written()
    }
}

impl Written for Length {
    fn written(&self) -> String {
        self.to_string().written()
    }
}

macro_rules! written_as_displayed {
    ($($kind:ty),*) => {
        $(impl Written for $kind {
            fn written(&self) -> String {
                self.to_string()
            }
        })*
    };
}

written_as_displayed!(bool, u32, u64, usize, i64);

impl Written for f64 {
    /// Always as a number with a point: `1` is another type.
    fn written(&self) -> String {
        format!("{self:?}")
    }
}

impl<T: Written, const N: usize> Written for [T; N] {
    fn written(&self) -> String {
        self.as_slice().written()
    }
}

impl<T: Written> Written for [T] {
    fn written(&self) -> String {
        let all: Vec<String> = self.iter().map(Written::written).collect();
        format!("[{}]", all.join(", "))
    }
}

impl Written for AttributeValue {
    fn written(&self) -> String {
        match self {
            AttributeValue::Text(text) => text.written(),
            AttributeValue::Number(number) => number.written(),
        }
    }
}

impl Written for BTreeMap<Name, AttributeValue> {
    fn written(&self) -> String {
        inline(self.iter().map(|(name, value)| (name.written(), value.written())))
    }
}

/// A table in one line.
pub(super) fn inline(fields: impl Iterator<Item = (String, String)>) -> String {
    let fields: Vec<String> = fields.map(|(field, value)| format!("{field} = {value}")).collect();
    if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["plain", "a \"b\" \\ c", "tab\tand\nline", "\u{7f}ü€"] {
            let read: toml::Table = toml::from_str(&format!("x = {}", text.written())).expect(text);
            assert_eq!(read.get("x").and_then(toml::Value::as_str), Some(text));
        }
    }
}
