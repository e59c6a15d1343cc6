//! Values of parameters, and how people write several of them: lists, and ranges such as `1..10` and `1..2:0.25`. Both
//! ends of a range belong to it.

use super::MOST_RUNS;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of a parameter or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    Flag,
    Int,
    Float,
    Text,
}

/// A value of a parameter or a result.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Flag(bool),
    Int(i64),
    Float(f64),
    Text(String),
}

impl Value {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Value::Flag(_) => Kind::Flag,
            Value::Int(_) => Kind::Int,
            Value::Float(_) => Kind::Float,
            Value::Text(_) => Kind::Text,
        }
    }

    /// Reads what [`fmt::Display`] writes; None if it is not of this kind.
    pub(crate) fn parse(kind: Kind, text: &str) -> Option<Value> {
        Some(match kind {
            Kind::Flag => Value::Flag(text.parse().ok()?),
            Kind::Int => Value::Int(text.parse().ok()?),
            Kind::Float => Value::Float(text.parse().ok()?),
            Kind::Text => Value::Text(text.to_owned()),
        })
    }

    /// The value as a number, for charts.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Value::Int(number) => Some(*number as f64),
            Value::Float(number) => Some(*number),
            Value::Flag(_) | Value::Text(_) => None,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Flag(flag) => flag.fmt(f),
            Value::Int(number) => number.fmt(f),
            // The shortest text that reads back as the same number, in every magnitude.
            Value::Float(number) => number.fmt(f),
            Value::Text(text) => f.write_str(text),
        }
    }
}

/// A number as written: `12.50` is 1250 with two decimals. Exact, so that steps of 0.1 give 1.2 and not
/// 1.2000000000000002.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Decimal {
    digits: i128,
    decimals: u32,
}

/// More decimals than a 64-bit floating-point number distinguishes, and few enough that no product overflows.
const MOST_DECIMALS: usize = 15;

impl Decimal {
    fn parse(text: &str) -> Option<Decimal> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let unsigned = whole.strip_prefix('-').unwrap_or(whole);
        let is_number = !unsigned.is_empty() && [unsigned, fraction].iter().all(|part| is_digits(part));
        if !is_number || text.ends_with('.') || fraction.len() > MOST_DECIMALS || unsigned.len() > 18 {
            return None;
        }
        let digits = format!("{whole}{fraction}").parse().ok()?;
        Some(Decimal { digits, decimals: u32::try_from(fraction.len()).ok()? })
    }

    /// The digits with this number of decimals, which must not be fewer than it has.
    fn with(self, decimals: u32) -> i128 {
        self.digits * 10_i128.pow(decimals - self.decimals)
    }
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The values of a range; None if the text is not written like one.
pub(crate) fn range(text: &str) -> Option<Result<Vec<Value>, String>> {
    let (first, rest) = text.split_once("..")?;
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let [first, last, step] = [first, last, step].map(|part| Decimal::parse(part.trim()));
    let (first, last, step) = (first?, last?, step?);
    let decimals = first.decimals.max(last.decimals).max(step.decimals);
    let [from, to, by] = [first, last, step].map(|number| number.with(decimals));
    if by <= 0 || to < from {
        return Some(Err(format!("the range {text} is empty; write the lower end first and a step above 0")));
    }
    let steps = (to - from) / by;
    if steps >= MOST_RUNS as i128 {
        return Some(Err(format!("the range {text} has more than {MOST_RUNS} values")));
    }
    let value = |at: i128| {
        let digits = from + at * by;
        if decimals == 0 {
            return i64::try_from(digits).map(Value::Int).map_err(|_| format!("{digits} is too large"));
        }
        // The standard parser rounds correctly, so the number is the one that a person would write.
        let unit = 10_i128.pow(decimals);
        let sign = if digits < 0 { "-" } else { "" };
        let (whole, fraction) = (digits.abs() / unit, digits.abs() % unit);
        let text = format!("{sign}{whole}.{fraction:0width$}", width = decimals as usize);
        text.parse().map(Value::Float).map_err(|_| format!("{text} is not a number"))
    };
    Some((0..=steps).map(value).collect())
}

/// Numbers on the command line: `1,1.2,1.4`, or `1..2:0.1`, or both.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Numbers(pub(crate) Vec<f64>);

impl std::str::FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Numbers, String> {
        let mut numbers = Vec::new();
        for part in text.split(',').map(str::trim) {
            let wrong = || format!("{part:?} is not a number or a range such as 1..2:0.1");
            match range(part) {
                Some(values) => numbers.extend(values?.iter().filter_map(Value::number)),
                None => numbers.push(part.parse().map_err(|_| wrong())?),
            }
        }
        Ok(Numbers(numbers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Vec<String> {
        range(text).unwrap().unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn both_ends_of_a_range_belong_to_it_and_steps_are_exact() {
        assert_eq!(shown("1..4"), ["1", "2", "3", "4"]);
        assert_eq!(shown("-1..1"), ["-1", "0", "1"]);
        assert_eq!(shown("1..1.5:0.1"), ["1", "1.1", "1.2", "1.3", "1.4", "1.5"]);
        assert_eq!(shown("-0.2..0.2:0.2"), ["-0.2", "0", "0.2"]);
        assert_eq!(shown("0..10:4"), ["0", "4", "8"]);
        assert_eq!(shown("7..7"), ["7"]);
    }

    #[test]
    fn what_is_no_range_is_a_text_and_bad_ranges_are_refused() {
        for text in ["easy", "1", "1..", "..2", "a..b", "1..2:x", "1...2", "1..2..3", ""] {
            assert!(range(text).is_none(), "{text}");
        }
        for text in ["2..1", "1..2:0", "1..2:-1", "1..20000000"] {
            assert!(range(text).unwrap().is_err(), "{text}");
        }
    }

    #[test]
    fn numbers_are_lists_of_numbers_and_ranges() {
        assert_eq!("1, 1.2,1.4..1.6:0.1".parse(), Ok(Numbers(vec![1.0, 1.2, 1.4, 1.5, 1.6])));
        assert!("1,,2".parse::<Numbers>().is_err() && "x".parse::<Numbers>().is_err());
    }

    #[test]
    fn values_read_back_as_they_were_written() {
        let values = [Value::Flag(true), Value::Int(-7), Value::Float(0.1 + 0.2), Value::Float(1e300)];
        for value in values.into_iter().chain([Value::Text("a b".into())]) {
            assert_eq!(Value::parse(value.kind(), &value.to_string()), Some(value));
        }
    }
}
