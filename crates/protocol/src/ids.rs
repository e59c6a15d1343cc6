//! Who and what: names that people give, and identities that the requester makes before it sends anything, so that a
//! repeated message is recognised as the same.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// A name that somebody gave to a site, a resource, a kind of resource, a user or an attribute.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Name {
        Name(text.into())
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name(text.into())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        String::deserialize(deserializer).map(Name::from)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// A text that is no identity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{text:?} is not an identity of this kind; it should be {prefix}_ and hexadecimal digits in lower case, without zeros in front"
)]
pub struct NotAnIdentity {
    text: String,
    prefix: &'static str,
}

macro_rules! identity {
    ($(#[$about:meta])* $name:ident, $prefix:literal) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "_{:x}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = NotAnIdentity;

            fn from_str(text: &str) -> Result<$name, NotAnIdentity> {
                let digits = text.strip_prefix(concat!($prefix, "_"));
                let plain = digits.filter(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()));
                let number = plain.and_then(|digits| u128::from_str_radix(digits, 16).ok());
                // There is one way to write each, so that what is sent and what comes back are the same text.
                let identity = number.map($name).filter(|identity| identity.to_string() == text);
                identity.ok_or_else(|| NotAnIdentity { text: text.into(), prefix: $prefix })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let text = String::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

identity!(
    /// A reservation, or a co-reservation, at the site or broker that was asked for it.
    ReservationId,
    "rsv"
);
identity!(
    /// A job.
    JobId,
    "job"
);
identity!(
    /// A change of terms that is prepared before it is accepted. The same for all parts of a co-reservation.
    ChangeId,
    "chg"
);
identity!(
    /// One call. Whoever repeats a call repeats its key, and gets the answer of the first time.
    Key,
    "key"
);

/// Makes identities that nobody else makes or foresees: 128 bits that follow from a secret of its maker, from which life of the maker
/// it is, and from a counter, by a keyed hash. Whoever could foresee them could take them first. A maker that restarts begins a new
/// life, so that it need not remember what it used up before.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Identities {
    maker: u128,
    next: u64,
}

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identities").field("next", &self.next).finish_non_exhaustive()
    }
}

/// A life has so many bits for its counter; the rest of 64 counts lives.
const COUNTER_BITS: u32 = 40;

impl Identities {
    /// Those of one life of a maker with this secret; no two makers share one.
    pub fn new(maker: u128, life: u32) -> Identities {
        Identities { maker, next: u64::from(life) << COUNTER_BITS }
    }

    /// The next one.
    pub fn make(&mut self) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.maker.to_be_bytes());
        hasher.write_u64(self.next);
        self.next += 1;
        hasher.finish128().as_u128()
    }
}

impl Key {
    /// The key of a call that is made because of this one, about one of its parts: the same whenever it is made anew, so
    /// that a repeated call leads to a repeated call. Each step of the mixing can be undone, so two keys of one part
    /// never become one.
    pub fn derived(self, part: usize) -> Key {
        const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
        let mixed = (self.0 ^ (self.0 >> 67)).wrapping_mul(ODD);
        let mixed = mixed.wrapping_add(part as u128 + 1);
        Key((mixed ^ (mixed >> 61)).wrapping_mul(ODD))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_say_what_they_are_and_are_never_made_twice() {
        let (mut ours, mut theirs, mut again) =
            (Identities::new(1, 0), Identities::new(2, 0), Identities::new(1, 1));
        let made = [ours.make(), ours.make(), theirs.make(), again.make()];
        for (at, one) in made.iter().enumerate() {
            assert!(!made[..at].contains(one), "{made:?}");
        }
        // Two that follow each other have about half of their bits in common, as any two have.
        let same = (made[0] ^ made[1]).count_zeros();
        assert!((32..=96).contains(&same), "{made:x?}");
        assert_eq!(ReservationId(0x1_0000_0000_0000_0001).to_string(), "rsv_10000000000000001");
        assert_eq!("rsv_10000000000000001".parse(), Ok(ReservationId(0x1_0000_0000_0000_0001)));
        for wrong in [
            "",
            "rsv_",
            "key_1",
            "rsv_g",
            "rsv_+5",
            "rsv_00ab",
            "rsv_AB",
            "rsv_100000000000000000000000000000000",
        ] {
            assert!(wrong.parse::<ReservationId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn derived_keys_are_the_same_each_time_and_differ_from_part_to_part() {
        let keys = (0..50).flat_map(|key| (0..4).map(move |part| Key(key).derived(part)));
        let mut keys: Vec<Key> = keys.chain((0..50).map(Key)).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), 250);
        assert_eq!(Key(7).derived(1), Key(7).derived(1));
    }
}
