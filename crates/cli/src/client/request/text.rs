//! Values of a request file that are written as texts: times, lengths, requirements, gaps. A value of another kind is
//! refused with a word on how to write it; file formats add where it stands.

use serde::de::{Deserializer, Error, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// Reads a value from a text; `expecting` says what should stand there, with an example.
pub(crate) fn read<'de, T, D>(from: D, expecting: &'static str) -> Result<T, D::Error>
where
    T: FromStr<Err: fmt::Display>,
    D: Deserializer<'de>,
{
    from.deserialize_str(Text { expecting, reads: PhantomData })
}

struct Text<T> {
    expecting: &'static str,
    reads: PhantomData<T>,
}

impl<T: FromStr<Err: fmt::Display>> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        text.parse().map_err(E::custom)
    }
}

/// Lets a type be read from a text in a file.
macro_rules! read_from_text {
    ($name:ty, $expecting:literal) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<$name, D::Error> {
                $crate::client::request::text::read(from, $expecting)
            }
        }
    };
}

pub(crate) use read_from_text;
