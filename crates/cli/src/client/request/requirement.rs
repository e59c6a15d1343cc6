//! What a resource must have, as people write it: `gpus>=4`, `memory<256`, `arch=x86_64`, `arch=x86_64|aarch64`, `gpus`.

use super::text::read_from_text;
use bookahead_api::{AttributeValue, Requirement};
use std::fmt;
use std::str::FromStr;

/// A requirement, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Required(pub(crate) Requirement);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequirement {
    #[error("'{0}' is no requirement; write gpus>=4, memory<=512, arch=x86_64, arch=x86_64|aarch64, or gpus")]
    Unreadable(String),
    #[error(
        "'{value}' in '{text}' is no whole number; more and less are asked of numbers, other values with ="
    )]
    NoNumber { text: String, value: String },
}

/// The longer ones first, since they begin with the shorter.
const SIGNS: [&str; 6] = [">=", "<=", "==", ">", "<", "="];

impl FromStr for Required {
    type Err = BadRequirement;

    fn from_str(text: &str) -> Result<Required, BadRequirement> {
        let unreadable = || BadRequirement::Unreadable(text.to_owned());
        let name_ends = text.find(['<', '>', '=']).unwrap_or(text.len());
        let (attribute, rest) = text.split_at(name_ends);
        let attribute = attribute.trim();
        if attribute.is_empty() {
            return Err(unreadable());
        }
        let name = attribute.into();
        if rest.is_empty() {
            return Ok(Required(Requirement::Present { attribute: name }));
        }
        let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign)).ok_or_else(unreadable)?;
        let value = rest[sign.len()..].trim();
        if value.is_empty() || value.starts_with(['<', '>', '=']) {
            return Err(unreadable());
        }
        let no_number = || BadRequirement::NoNumber { text: text.to_owned(), value: value.to_owned() };
        let number = || value.parse::<i64>().map_err(|_| no_number());
        Ok(Required(match sign {
            ">=" => Requirement::AtLeast { attribute: name, value: number()? },
            "<=" => Requirement::AtMost { attribute: name, value: number()? },
            ">" => Requirement::AtLeast {
                attribute: name,
                value: number()?.checked_add(1).ok_or_else(no_number)?,
            },
            "<" => Requirement::AtMost {
                attribute: name,
                value: number()?.checked_sub(1).ok_or_else(no_number)?,
            },
            _ => equal(name, value),
        }))
    }
}

fn equal(attribute: bookahead_protocol::Name, value: &str) -> Requirement {
    if value.contains('|') {
        let values = value.split('|').map(|one| self::value(one.trim())).collect();
        Requirement::OneOf { attribute, values }
    } else {
        Requirement::Is { attribute, value: self::value(value) }
    }
}

/// A number where it is one. In quotes it is a text all the same.
fn value(text: &str) -> AttributeValue {
    let quoted = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    match (quoted, text.parse()) {
        (Some(inside), _) => AttributeValue::Text(inside.to_owned()),
        (None, Ok(number)) => AttributeValue::Number(number),
        (None, Err(_)) => AttributeValue::Text(text.to_owned()),
    }
}

read_from_text!(Required, "a requirement in quotes, such as \"gpus>=4\"");

impl fmt::Display for Required {
    /// As it is read again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Requirement::Present { attribute } => write!(f, "{attribute}"),
            Requirement::Is { attribute, value } => write!(f, "{attribute}={}", shown(value)),
            Requirement::AtLeast { attribute, value } => write!(f, "{attribute}>={value}"),
            Requirement::AtMost { attribute, value } => write!(f, "{attribute}<={value}"),
            Requirement::OneOf { attribute, values } => {
                let values: Vec<String> = values.iter().map(shown).collect();
                write!(f, "{attribute}={}", values.join("|"))
            }
        }
    }
}

/// In quotes where it would be taken for something else otherwise.
pub(crate) fn shown(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Number(number) => number.to_string(),
        AttributeValue::Text(text) if self::value(text.trim()) == *value && !text.is_empty() => text.clone(),
        AttributeValue::Text(text) => format!("\"{text}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Requirement {
        text.parse::<Required>().unwrap().0
    }

    #[test]
    fn requirements_are_read_as_people_write_them() {
        let gpus = || "gpus".into();
        assert_eq!(read("gpus"), Requirement::Present { attribute: gpus() });
        assert_eq!(read("gpus >= 4"), Requirement::AtLeast { attribute: gpus(), value: 4 });
        assert_eq!(read("gpus>3"), Requirement::AtLeast { attribute: gpus(), value: 4 });
        assert_eq!(read("gpus<3"), Requirement::AtMost { attribute: gpus(), value: 2 });
        assert_eq!(read("gpus==4"), Requirement::Is { attribute: gpus(), value: AttributeValue::Number(4) });
        let text = |text: &str| AttributeValue::Text(text.to_owned());
        assert_eq!(read("gpus=\"4\""), Requirement::Is { attribute: gpus(), value: text("4") });
        let values = vec![text("a100"), text("h100"), AttributeValue::Number(7)];
        assert_eq!(read("gpus=a100|h100 | 7"), Requirement::OneOf { attribute: gpus(), values });
    }

    #[test]
    fn what_is_written_is_read_again() {
        for text in ["gpus", "gpus>=4", "memory<=-2", "arch=x86_64", "arch=a|b|7", "version=\"4\""] {
            assert_eq!(text.parse::<Required>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_requirement_is_refused() {
        for (text, hint) in [
            ("", "gpus>=4"),
            (">=4", "gpus>=4"),
            ("gpus>=", "gpus>=4"),
            ("gpus=>4", "gpus>=4"),
            ("gpus>=many", "whole number"),
            ("gpus>9223372036854775807", "whole number"),
        ] {
            let error = text.parse::<Required>().unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
