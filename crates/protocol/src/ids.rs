//! Names given by people, and identities chosen by the requester before it sends anything, so that a repeated
//! message is recognised.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;
use std::str::FromStr;
use std::sync::Arc;
use thiserror::Error;

/// Name of a site, resource, kind of resource, user or attribute. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The name as text.
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

/// A text that is not a valid identity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error(
    "{text:?} is not a valid id; it must be {prefix}_ and lowercase hexadecimal digits without leading zeros"
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
                // Each identity has exactly one spelling, so texts can be compared without parsing.
                let plain = |digits: &&str| {
                    let lowercase = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
                    digits.bytes().all(lowercase) && (*digits == "0" || !digits.starts_with('0'))
                };
                let digits = text.strip_prefix(concat!($prefix, "_")).filter(plain);
                let identity = digits.and_then(|digits| u128::from_str_radix(digits, 16).ok()).map($name);
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
    /// A reservation or co-reservation, at the site or broker that was called.
    ReservationId,
    "rsv"
);
identity!(
    /// A job, chosen by the party that submits it.
    JobId,
    "job"
);
identity!(
    /// A two-phase change of terms. The same for all parts of a co-reservation.
    ChangeId,
    "chg"
);
identity!(
    /// Idempotency key of one call. A repeated call has the same key and gets the first answer.
    Key,
    "key"
);

/// Makes unique, unpredictable identities of 128 bits: a keyed hash of the number of the maker's start and a
/// counter, with the maker's secret as the key. A predictable id could be taken by another client first. Each
/// start uses new numbers, so the counter need not be stored.
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

/// Bits of the counter within one start. The upper 24 bits of 64 count the starts.
const COUNTER_BITS: u32 = 40;

impl Identities {
    /// For one start of a maker. No two makers may share the secret.
    pub fn new(maker: u128, life: u32) -> Identities {
        Identities { maker, next: u64::from(life) << COUNTER_BITS }
    }

    /// The next identity.
    pub fn make(&mut self) -> u128 {
        let mut hasher = SipHasher24::new_with_key(&self.maker.to_be_bytes());
        hasher.write_u64(self.next);
        self.next += 1;
        hasher.finish128().as_u128()
    }
}

impl Key {
    /// The key of a call that follows from this one, for one part. Always the same, so a repeated call leads
    /// to repeated calls. Each step of the mixing is invertible, so different keys stay different for the
    /// same part.
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
