//! Macros that derive conversions between a document and the protocol type with the same content, one line for each
//! pair. Conversions lose nothing. Only an instant outside of the calendar cannot become a document.

use crate::time::{OutOfCalendar, Timestamp};
use bookahead_plan::{Capacity, Seconds, Time};
use bookahead_protocol::{JobId, Name, Rating, ReservationId};
use std::collections::{BTreeMap, BTreeSet};

/// A document value that corresponds to `Word` in the protocol.
pub(crate) trait Wire<Word>: Sized {
    fn into_word(self) -> Word;
    fn from_word(word: Word) -> Result<Self, OutOfCalendar>;
}

/// Newtypes around numbers.
macro_rules! numbers {
    ($($number:ty = $word:ident),*) => {
        $(impl Wire<$word> for $number {
            fn into_word(self) -> $word {
                $word(self)
            }

            fn from_word(word: $word) -> Result<$number, OutOfCalendar> {
                Ok(word.0)
            }
        })*
    };
}

numbers!(u32 = Capacity, u32 = Rating, i64 = Seconds);

/// Types that already convert in both directions with `From` and `TryFrom`.
macro_rules! converted {
    ($($document:ty = $word:ty),* $(,)?) => {
        $(impl $crate::convert::Wire<$word> for $document {
            fn into_word(self) -> $word {
                self.into()
            }

            fn from_word(word: $word) -> Result<$document, $crate::time::OutOfCalendar> {
                <$document>::try_from(word).map_err(Into::into)
            }
        })*
    };
}

converted!(
    Timestamp = Time,
    u32 = u32,
    u64 = u64,
    i32 = i32,
    bool = bool,
    usize = usize,
    String = String,
    String = Box<str>,
    Name = Name,
    ReservationId = ReservationId,
    JobId = JobId,
);

impl<Word, T: Wire<Word>> Wire<Option<Word>> for Option<T> {
    fn into_word(self) -> Option<Word> {
        self.map(T::into_word)
    }

    fn from_word(word: Option<Word>) -> Result<Option<T>, OutOfCalendar> {
        word.map(T::from_word).transpose()
    }
}

impl<Word, T: Wire<Word>> Wire<Vec<Word>> for Vec<T> {
    fn into_word(self) -> Vec<Word> {
        self.into_iter().map(T::into_word).collect()
    }

    fn from_word(words: Vec<Word>) -> Result<Vec<T>, OutOfCalendar> {
        words.into_iter().map(T::from_word).collect()
    }
}

impl<Word: Ord, T: Wire<Word>> Wire<BTreeSet<Word>> for Vec<T> {
    fn into_word(self) -> BTreeSet<Word> {
        // A value that a client names twice counts once.
        self.into_iter().map(T::into_word).collect()
    }

    fn from_word(words: BTreeSet<Word>) -> Result<Vec<T>, OutOfCalendar> {
        // In the order of the set, so that equal sets give equal documents.
        words.into_iter().map(T::from_word).collect()
    }
}

impl<Key: Ord, Word, T: Wire<Word>> Wire<BTreeMap<Key, Word>> for BTreeMap<Key, T> {
    fn into_word(self) -> BTreeMap<Key, Word> {
        self.into_iter().map(|(key, value)| (key, value.into_word())).collect()
    }

    fn from_word(words: BTreeMap<Key, Word>) -> Result<BTreeMap<Key, T>, OutOfCalendar> {
        words.into_iter().map(|(key, word)| Ok((key, T::from_word(word)?))).collect()
    }
}

impl<Word, T: Wire<Word>> Wire<Box<Word>> for T {
    fn into_word(self) -> Box<Word> {
        Box::new(T::into_word(self))
    }

    fn from_word(word: Box<Word>) -> Result<T, OutOfCalendar> {
        T::from_word(*word)
    }
}

/// Defines an enum with the same variants as one in the protocol, and both conversions. A variant that exists on
/// one side only does not compile.
macro_rules! words {
    ($(#[$about:meta])* $here:ident = $there:path { $($(#[$of_word:meta])* $word:ident,)* }) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
        $(#[$about])*
        #[serde(rename_all = "kebab-case")]
        pub enum $here { $($(#[$of_word])* $word,)* }

        impl From<$here> for $there {
            fn from(word: $here) -> $there {
                use $there as There;
                match word { $($here::$word => There::$word),* }
            }
        }

        impl From<$there> for $here {
            fn from(word: $there) -> $here {
                use $there as There;
                match word { $(There::$word => $here::$word),* }
            }
        }

        $crate::convert::converted!($here = $there);
    };
}

/// Conversions for two structs with the same content. In order: fields with the same name, fields with another name
/// in the protocol, fields that are in a struct of their own in the protocol, and fields that only the document
/// has.
macro_rules! same_fields {
    ($here:ident = $there:path { $($same:ident),* } $({ $($ours:ident = $theirs:ident),* })? $(in $group:ident: $of:ident { $($inner:ident),* })* $(+ $own:ident: $value:expr)?) => {
        impl From<$here> for $there {
            fn from(document: $here) -> $there {
                use $crate::convert::Wire as _;
                use $there as There;
                There {
                    $($same: document.$same.into_word(),)*
                    $($($theirs: document.$ours.into_word(),)*)?
                    $($group: $of { $($inner: document.$inner.into_word(),)* },)*
                }
            }
        }

        impl TryFrom<$there> for $here {
            type Error = $crate::time::OutOfCalendar;

            fn try_from(word: $there) -> Result<$here, $crate::time::OutOfCalendar> {
                use $crate::convert::Wire;
                Ok($here {
                    $($same: Wire::from_word(word.$same)?,)*
                    $($($ours: Wire::from_word(word.$theirs)?,)*)?
                    $($($inner: Wire::from_word(word.$group.$inner)?,)*)*
                    $($own: $value,)?
                })
            }
        }

        $crate::convert::converted!($here = $there);
    };
}

pub(crate) use {converted, same_fields, words};
