//! Values of a request in text form: durations, gaps, and requirements (`gpus>=4`, `memory<256`, `arch=x86_64|aarch64`,
//! `gpus`). In a file, a value of another type is refused with an example of the expected form; the file format adds
//! the position.

use bookahead_api::{AttributeValue, BadLength, Length, MeasuredOn, Requirement};
use bookahead_plan::Seconds;
use bookahead_protocol::{Name, Tres};
use serde::Deserialize;
use serde::de::{Deserializer, Error, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// Deserializes a value from a string; `expecting` describes the expected form, with an example.
pub(crate) fn read<'de, T, E: fmt::Display, D: Deserializer<'de>>(
    from: D,
    expecting: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error> {
    from.deserialize_str(Text { expecting, parse })
}

struct Text<F> {
    expecting: &'static str,
    parse: F,
}

impl<T, E: fmt::Display, P: Fn(&str) -> Result<T, E>> Visitor<'_> for Text<P> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<F: Error>(self, text: &str) -> Result<T, F> {
        (self.parse)(text).map_err(F::custom)
    }
}

/// Implements `Deserialize` from a string by `FromStr`.
macro_rules! read_from_text {
    ($name:ty, $expecting:literal) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                $crate::client::request::values::read(from, $expecting, str::parse)
            }
        }
    };
}

/// Deserializes a duration or an offset between parts, in whole seconds; negative with a minus in front.
pub(crate) fn signed<'de, D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
    read(from, "a length of time in quotes, such as \"2h30m\"", Length::signed)
}

/// Parses a duration of at least one second, for options that mean nothing with zero.
pub(crate) fn some_time(text: &str) -> Result<Length, String> {
    let number = text.trim();
    if let Some(rest) = number.strip_prefix('+') {
        return Err(format!(
            "'{number}' has a sign; write {rest} (to make a reservation longer: bookahead extend ID --for {rest})"
        ));
    }
    // A number without a unit would be minutes in Slurm, but seconds in traces.
    if number != "0" && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("'{number}' has no unit; use {number}s, {number}m or {number}h"));
    }
    let length = Length::signed(text).map_err(|error: BadLength| error.to_string())?;
    if length.seconds() < Seconds(1) {
        Err(format!("'{text}' is too short; use one second or more"))
    } else {
        Ok(length)
    }
}

/// Parses a capacity of at least 1.
pub(crate) fn capacity(text: &str) -> Result<u32, String> {
    let number = text.trim().parse::<u32>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| format!("'{text}' is not a capacity; give a whole number from 1 to {}", u32::MAX))
}

/// A capacity, or the least and the most: `64`, `32..64`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) least: u32,
    pub(crate) most: u32,
}

impl From<u32> for Amount {
    fn from(number: u32) -> Amount {
        Amount { least: number, most: number }
    }
}

/// Parses a capacity or a range of capacities.
pub(crate) fn amount(text: &str) -> Result<Amount, String> {
    let Some((least, most)) = text.split_once("..") else { return capacity(text).map(Amount::from) };
    let (least, most) = (capacity(least)?, capacity(most)?);
    if most < least {
        return Err(format!("'{text}' ends before it begins; write {most}..{least}"));
    }
    Ok(Amount { least, most })
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Amount, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "a capacity, such as 64 or \"32..64\"")]
        enum Written {
            Number(u32),
            Text(String),
        }
        match Written::deserialize(from)? {
            Written::Number(number) => Ok(number.into()),
            Written::Text(text) => amount(&text).map_err(D::Error::custom),
        }
    }
}

/// A duration, or the shortest and the longest: `2h`, `1h..4h`, `1h..open`, `open`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lasting {
    pub(crate) least: Length,
    pub(crate) most: Length,
}

/// Of a reservation without an end of its own: it ends when it is released. One that is never released ends after a
/// month.
const OPEN: Length = Length::of_seconds(30 * 86_400);

/// Less is hardly ever meant by a duration that is not told.
const LEAST_OPEN: Length = Length::of_seconds(600);

impl Lasting {
    /// Whether it ends when it is released.
    pub(crate) fn is_open(&self) -> bool {
        self.most == OPEN && self.least != OPEN
    }
}

impl From<Length> for Lasting {
    fn from(length: Length) -> Lasting {
        Lasting { least: length, most: length }
    }
}

/// Parses a duration or a range of durations.
pub(crate) fn lasting(text: &str) -> Result<Lasting, String> {
    range(text, some_time)
}

fn range(text: &str, length: impl Fn(&str) -> Result<Length, String>) -> Result<Lasting, String> {
    let longest = |text: &str| if text.trim() == "open" { Ok(OPEN) } else { length(text) };
    let (least, most) = match text.split_once("..") {
        None if text.trim() == "open" => (LEAST_OPEN, OPEN),
        None => return length(text).map(Lasting::from),
        Some((least, most)) => (length(least)?, longest(most)?),
    };
    if most < least {
        return Err(format!("'{text}' ends before it begins; write {most}..{least}"));
    }
    Ok(Lasting { least, most })
}

/// As [`lasting`], from a file; `null` in JSON counts as left out.
pub(crate) fn lasting_or_none<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Lasting>, D::Error> {
    struct Read(Lasting);
    impl<'de> Deserialize<'de> for Read {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Read, D::Error> {
            let signed = |text: &str| Length::signed(text).map_err(|error: BadLength| error.to_string());
            let expecting = "a length of time in quotes, such as \"2h30m\" or \"1h..4h\"";
            read(from, expecting, |text| range(text, signed)).map(Read)
        }
    }
    Ok(Option::<Read>::deserialize(from)?.map(|Read(lasting)| lasting))
}

/// Allowed time between two parts: `0s..10m`, `5m..` for at least, `..10m` for at most, `10m` for exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) least: Seconds,
    pub(crate) most: Option<Seconds>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid gap '{0}'; use \"0s..10m\", \"5m..\" for at least, \"..10m\" for at most, or \"10m\" for exactly that"
)]
pub(crate) struct BadGap(String);

impl FromStr for Gap {
    type Err = BadGap;

    fn from_str(text: &str) -> Result<Gap, BadGap> {
        let bad = || BadGap(text.to_owned());
        let length = |text: &str| Length::signed(text).map(Length::seconds).map_err(|_| bad());
        let (least, most) = match text.split_once("..") {
            None => (length(text)?, Some(length(text)?)),
            Some((least, most)) if least.trim().is_empty() => (Seconds::ZERO, Some(length(most)?)),
            Some((least, most)) if most.trim().is_empty() => (length(least)?, None),
            Some((least, most)) => (length(least)?, Some(length(most)?)),
        };
        if most.is_some_and(|most| most < least) { Err(bad()) } else { Ok(Gap { least, most }) }
    }
}

read_from_text!(Gap, "a gap in quotes, such as \"0s..10m\"");

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Required(pub(crate) Requirement);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadRequirement {
    #[error("invalid requirement '{0}'; use gpus>=4, memory<=512, arch=x86_64, arch=x86_64|aarch64, or gpus")]
    Unreadable(String),
    #[error(
        "'{value}' in '{text}' is not a whole number; use < and > with whole numbers, and = with other values"
    )]
    NoNumber { text: String, value: String },
}

/// The longer operators come first, because they begin with the shorter ones.
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
            // The API knows only inclusive bounds; values are whole numbers, so `>3` is `>=4`.
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

/// A number if it parses as one, and text otherwise. Quotes force text.
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
    /// In a form that can be parsed again.
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

/// In quotes if it would be parsed as something else without them.
pub(crate) fn shown(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Number(number) => number.to_string(),
        AttributeValue::Text(text) if self::value(text.trim()) == *value && !text.is_empty() => text.clone(),
        AttributeValue::Text(text) => format!("\"{text}\""),
    }
}

/// A machine, by an attribute that tells how fast it is: `mhz=2600`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine(pub(crate) MeasuredOn);

impl FromStr for Machine {
    type Err = String;

    fn from_str(text: &str) -> Result<Machine, String> {
        let read = || {
            let (attribute, value) = text.split_once('=')?;
            let value = value.trim().parse().ok().filter(|value| *value > 0)?;
            let attribute = Some(attribute.trim()).filter(|name| !name.is_empty())?.into();
            Some(Machine(MeasuredOn { attribute, value }))
        };
        read().ok_or_else(|| "write an attribute and its value, such as mhz=2600".to_owned())
    }
}

read_from_text!(Machine, "a machine in quotes, such as \"mhz=2600\"");

/// Things beside the capacity: `gres/gpu:a100=2,mem=64G`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TresText(pub(crate) BTreeMap<Name, u32>);

impl FromStr for TresText {
    type Err = String;

    fn from_str(text: &str) -> Result<TresText, String> {
        let example = "write names and amounts, such as gres/gpu:a100=2,mem=64G";
        let mut all = BTreeMap::new();
        for word in text.split(',') {
            let (name, amount) =
                word.split_once('=').ok_or_else(|| format!("'{word}' has no amount; {example}"))?;
            let amount = tres_amount(name.trim(), amount.trim());
            let amount = amount.ok_or_else(|| format!("'{word}' has no valid amount; {example}"))?;
            if all.insert(name.trim().into(), amount).is_some() {
                return Err(format!("'{}' is there twice; give its total", name.trim()));
            }
        }
        let tres: Tres = all.iter().map(|(name, amount)| (Name::clone(name), *amount)).collect();
        tres.check().map_err(|why| why.to_string())?;
        Ok(TresText(all))
    }
}

/// A whole number; memory is in MiB, or with M, G or T behind it.
fn tres_amount(name: &str, text: &str) -> Option<u32> {
    let (number, factor) = match text.chars().last()?.to_ascii_uppercase() {
        'M' if name == "mem" => (&text[..text.len() - 1], 1),
        'G' if name == "mem" => (&text[..text.len() - 1], 1 << 10),
        'T' if name == "mem" => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    number.parse::<u32>().ok()?.checked_mul(factor)
}

read_from_text!(TresText, "names and amounts in quotes, such as \"gres/gpu:a100=2,mem=64G\"");

impl fmt::Display for TresText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.0.iter().map(|(name, amount)| format!("{name}={amount}")).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn things_beside_the_capacity_have_names_and_amounts() {
        let read = |text: &str| text.parse::<TresText>().map(|tres| tres.to_string());
        assert_eq!(read("gres/gpu:a100=2,mem=64G").unwrap(), "gres/gpu:a100=2,mem=65536");
        assert_eq!(read("mem=1t, license/qpu=1").unwrap(), "license/qpu=1,mem=1048576");
        for text in [
            "",
            "mem",
            "mem=",
            "mem=G",
            "gres/gpu=2G",
            "gres/gpu=0",
            "a b=1",
            "x=1,x=2",
            "mem=99999999T",
            "mem=é",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        assert!(read("x=1,x=2").unwrap_err().contains("twice"));
    }

    #[test]
    fn a_gap_has_a_least_and_perhaps_a_most() {
        let gap = |least, most: Option<i64>| Ok(Gap { least: Seconds(least), most: most.map(Seconds) });
        assert_eq!("0s..10m".parse::<Gap>(), gap(0, Some(600)));
        assert_eq!("5m..".parse::<Gap>(), gap(300, None));
        assert_eq!("..10m".parse::<Gap>(), gap(0, Some(600)));
        assert_eq!("10m".parse::<Gap>(), gap(600, Some(600)));
        for text in ["", "..", "10m..5m", "soon", "1m..2m..3m"] {
            assert!(text.parse::<Gap>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_length_may_be_less_than_nothing() {
        assert_eq!(Length::signed("-15m"), Ok(Length::of_seconds(-900)));
        assert_eq!(Length::of_seconds(-900).to_string(), "-15m");
        assert!(Length::signed("--15m").is_err());
        let read = |json: &str| lasting_or_none(&mut serde_json::Deserializer::from_str(json)).ok();
        assert_eq!(read("null"), Some(None));
        assert_eq!(read("\"-15m\""), Some(Some(Length::of_seconds(-900).into())));
        assert_eq!(read("900"), None);
        assert_eq!(some_time("1s"), Ok(Length::of_seconds(1)));
        assert!(some_time("0s").is_err() && some_time("-15m").is_err() && some_time("soon").is_err());
    }
}

#[cfg(test)]
mod range_tests {
    use super::*;

    #[test]
    fn capacities_and_durations_may_be_ranges() {
        assert_eq!(amount("64"), Ok(64.into()));
        assert_eq!(amount("32..64"), Ok(Amount { least: 32, most: 64 }));
        assert!(amount("64..32").unwrap_err().contains("write 32..64"));
        assert!(amount("0..4").is_err() && amount("..4").is_err() && amount("4..").is_err());
        let hours = |hours: i64| Length::of_seconds(hours * 3_600);
        assert_eq!(lasting("2h"), Ok(hours(2).into()));
        assert_eq!(lasting("1h..4h"), Ok(Lasting { least: hours(1), most: hours(4) }));
        assert!(lasting("4h..1h").unwrap_err().contains("write 1h..4h"));
        assert!(lasting("open").unwrap().is_open() && lasting("2h..open").unwrap().is_open());
        assert_eq!(lasting("2h..open").unwrap().least, hours(2));
        assert!(!lasting("30d").unwrap().is_open() && lasting("open..2h").is_err());
    }
}

#[cfg(test)]
mod requirement_tests {
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
