//! A 128-bit digest of a call, enough to tell whether a repeated call equals the first. Calls themselves can
//! be large, and would have to be kept for as long as they may be repeated.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;

/// The digest of a value, serialized as 32 hexadecimal digits. Journals of the first release contain the
/// whole value; its digest is computed on reading. A build with other types gives other digests: a call that
/// was refused before an upgrade and is repeated after it counts as another call.
pub struct Digest<T>(u128, PhantomData<fn(T)>);

impl<T: Hash> Digest<T> {
    /// Computes the digest. The hash key is fixed, so digests can be compared across restarts.
    pub fn of(value: &T) -> Digest<T> {
        let mut hasher = SipHasher24::new();
        value.hash(&mut hasher);
        Digest(hasher.finish128().as_u128(), PhantomData)
    }
}

impl<T> Clone for Digest<T> {
    // Written by hand, like the other traits here: derived ones would require the same trait of `T`.
    fn clone(&self) -> Digest<T> {
        *self
    }
}

impl<T> Copy for Digest<T> {}

impl<T> PartialEq for Digest<T> {
    fn eq(&self, other: &Digest<T>) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Digest<T> {}

impl<T> Hash for Digest<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl<T> fmt::Debug for Digest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl<T> Serialize for Digest<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de, T: Deserialize<'de> + Hash> Deserialize<'de> for Digest<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Digest<T>, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written<T> {
            Digest(String),
            Whole(T),
        }
        match Written::deserialize(deserializer)? {
            Written::Digest(text) => u128::from_str_radix(&text, 16)
                .map(|number| Digest(number, PhantomData))
                .map_err(|_| serde::de::Error::custom(format!("{text:?} is not a digest"))),
            Written::Whole(value) => Ok(Digest::of(&value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_read_as_it_was_written_and_taken_of_what_was_written_whole() {
        let value = vec![1, 2, 3];
        let digest = Digest::of(&value);
        assert_ne!(digest, Digest::of(&vec![1, 2]));
        let written = serde_json::to_string(&digest).unwrap();
        assert_eq!(serde_json::from_str::<Digest<Vec<i32>>>(&written).unwrap(), digest);
        assert_eq!(serde_json::from_str::<Digest<Vec<i32>>>("[1, 2, 3]").unwrap(), digest);
        assert!(serde_json::from_str::<Digest<Vec<i32>>>("\"x\"").is_err());
    }
}
