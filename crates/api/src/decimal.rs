//! Decimal numbers of documents: ratings, costs, prices, and durations to the millisecond. The protocol counts them in
//! whole units, so that sums are exact; documents have plain numbers.

use crate::convert::Wire;
use crate::time::OutOfCalendar;
use bookahead_protocol as protocol;
use bookahead_protocol::Millis;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Most units, 2^50. Other languages read numbers as doubles, and with more units a double could not tell neighbours
/// apart. In milliseconds these are 35,000 years.
const MOST_UNITS: f64 = 1_125_899_906_842_624.0;

macro_rules! decimals {
    ($($(#[$about:meta])* $name:ident($units:ty) / $each:literal;)*) => {
        $(
            $(#[$about])*
            #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
            pub struct $name(pub $units);

            impl $name {
                /// As a number, at most 2^50 units.
                pub fn number(self) -> f64 {
                    (self.0 as f64).clamp(-MOST_UNITS, MOST_UNITS) / f64::from($each)
                }
            }

            impl Serialize for $name {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    // Without a point if there is nothing after it: 60 in place of 60.0.
                    let number = self.number();
                    if number.fract() == 0.0 { (number as i64).serialize(serializer) } else { number.serialize(serializer) }
                }
            }

            impl<'de> Deserialize<'de> for $name {
                fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                    let number = f64::deserialize(deserializer)?;
                    let mut units = (number * f64::from($each)).round();
                    // A negative number stays negative, however small, so that it is refused where it must be.
                    if number < 0.0 && units == 0.0 {
                        units = -1.0;
                    }
                    let fits = units >= <$units>::MIN as f64 && units <= (<$units>::MAX as f64).min(MOST_UNITS);
                    if !fits || units < -MOST_UNITS {
                        return Err(serde::de::Error::custom(format_args!("{number} is out of range")));
                    }
                    Ok($name(units as $units))
                }
            }
        )*
    };
}

decimals! {
    /// Rating of a slot from 0 to 1 (best), to the millionth.
    Rating(u32) / 1_000_000;
    /// Price of a unit for an hour in the currency of the site, to the thousandth.
    Price(u32) / 1_000;
    /// Cost in the currency of the site, to the thousandth.
    Cost(u64) / 1_000;
    /// Duration in seconds, to the millisecond.
    FineSeconds(i64) / 1_000;
}

impl Wire<Millis> for FineSeconds {
    fn into_word(self) -> Millis {
        Millis(self.0)
    }

    fn from_word(word: Millis) -> Result<FineSeconds, OutOfCalendar> {
        Ok(FineSeconds(word.0))
    }
}

impl From<Millis> for FineSeconds {
    fn from(millis: Millis) -> FineSeconds {
        FineSeconds(millis.0)
    }
}

impl From<protocol::Rating> for Rating {
    fn from(rating: protocol::Rating) -> Rating {
        Rating(rating.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_decimals_and_read_back() {
        for units in [0, 1, 999, 1_000, 1_001, 60_000, 123_456_789, 1_125_899_906_842_623, -250, -60_000] {
            let text = serde_json::to_string(&FineSeconds(units)).unwrap();
            assert_eq!(serde_json::from_str::<FineSeconds>(&text).unwrap(), FineSeconds(units), "{text}");
        }
        assert_eq!(serde_json::to_string(&FineSeconds(60_000)).unwrap(), "60");
        assert_eq!(serde_json::to_string(&FineSeconds(59_873)).unwrap(), "59.873");
        assert_eq!(serde_json::to_string(&Rating(970_000)).unwrap(), "0.97");
        assert_eq!(serde_json::from_str::<Cost>("3.2").unwrap(), Cost(3_200));
        assert_eq!(serde_json::from_str::<Cost>("0.1").unwrap(), Cost(100));
    }

    #[test]
    fn numbers_that_have_no_place_are_refused() {
        for text in ["-0.001", "-1e-178", "1e300", "1125899906843", "\"1\"", "null"] {
            assert!(serde_json::from_str::<Cost>(text).is_err(), "{text}");
        }
        assert!(serde_json::from_str::<Rating>("4294.967296").is_err());
        assert!(serde_json::from_str::<FineSeconds>("-1e300").is_err());
        assert_eq!(serde_json::from_str::<FineSeconds>("-1e-178").unwrap(), FineSeconds(-1));
        assert_eq!(serde_json::from_str::<FineSeconds>("-0.0").unwrap(), FineSeconds(0));
    }
}
