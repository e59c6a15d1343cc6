//! Who and what: names that people give, and identities that the requester makes before it sends anything, so that a
//! repeated message is recognised as the same.

use std::fmt;
use std::sync::Arc;

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

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
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
    /// One call. Whoever repeats a call repeats its key, and gets the answer of the first time.
    Key,
    "key"
);

/// Makes identities that nobody else makes: a number of its own in front, a counter behind. What was used up is in the
/// journal, so that a restart goes on where it stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identities {
    maker: u64,
    next: u64,
}

impl Identities {
    /// Those of `maker`; no two makers share a number.
    pub fn new(maker: u64) -> Identities {
        Identities { maker, next: 0 }
    }

    /// The next one.
    pub fn make(&mut self) -> u128 {
        let made = (u128::from(self.maker) << 64) | u128::from(self.next);
        self.next += 1;
        made
    }

    /// Never makes `used`, nor what was made before it.
    pub fn skip(&mut self, used: u128) {
        if (used >> 64) as u64 == self.maker {
            self.next = self.next.max((used as u64).saturating_add(1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_say_what_they_are_and_are_never_made_twice() {
        let (mut ours, mut theirs) = (Identities::new(1), Identities::new(2));
        let made = [ours.make(), ours.make(), theirs.make()];
        assert!(made[0] != made[1] && made[0] != made[2] && made[1] != made[2]);
        assert_eq!(ReservationId(made[1]).to_string(), "rsv_10000000000000001");
        let mut restarted = Identities::new(1);
        restarted.skip(made[1]);
        restarted.skip(made[2]);
        assert_eq!(restarted, ours);
    }
}
