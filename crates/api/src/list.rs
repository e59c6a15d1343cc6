//! Pages of reservations, the filters of lists and schedules as query parameters, and what happened, one event at a time.

use crate::description::{NameText, ReservationIdText};
use crate::reservation::{Reservation, State};
use crate::time::{FineTimestamp, OutOfCalendar, Timestamp};
use bookahead_protocol::{Moment, Name, ReservationId, life_cycle};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::skip_serializing_none;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use utoipa::{IntoParams, ToSchema};

/// A page of reservations.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservations {
    /// By id.
    pub reservations: Vec<Reservation>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// Which reservations.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only those whose id begins with this: `rsv_` and 1 to 32 hexadecimal digits.
    #[param(example = "rsv_4f3c2b", pattern = "^rsv_[0-9a-f]{1,32}$")]
    pub id: Option<String>,
    /// Only those of this user.
    #[param(value_type = Option<NameText>)]
    pub owner: Option<Name>,
    /// Only those in one of these states, separated by commas.
    #[param(value_type = Option<String>, example = "committed,active")]
    pub state: Option<States>,
    /// Only those that have a slot on this resource.
    #[param(value_type = Option<NameText>)]
    pub resource: Option<Name>,
    /// Only those that end after this.
    pub from: Option<Timestamp>,
    /// Only those that begin before this.
    pub until: Option<Timestamp>,
    /// At most so many on a page; the server has a limit of its own.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Go on from here: `next` of the page before.
    pub cursor: Option<String>,
}

/// Which jobs.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// Only those whose id begins with this: `job_` and 1 to 32 hexadecimal digits.
    #[param(example = "job_9d8e7f", pattern = "^job_[0-9a-f]{1,32}$")]
    pub id: Option<String>,
    /// Only those of this user.
    #[param(value_type = Option<NameText>)]
    pub owner: Option<Name>,
    /// At most so many on a page; the server has a limit of its own.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Go on from here: `next` of the page before.
    pub cursor: Option<String>,
}

/// Which schedules, and how much of them.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleQuery {
    /// Only that of this resource.
    #[param(value_type = Option<NameText>)]
    pub resource: Option<Name>,
    /// Only what ends after this.
    pub from: Option<Timestamp>,
    /// Only what begins before this.
    pub until: Option<Timestamp>,
}

/// Some states of a reservation, written as words with commas between them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct States(pub Vec<State>);

/// A word that is no state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{word:?} is no state; the states are {}", States::all())]
pub struct NotAState {
    word: String,
}

impl States {
    fn all() -> States {
        States(life_cycle::State::ALL.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for States {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(|&state| life_cycle::State::from(state).word()).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for States {
    type Err = NotAState;

    fn from_str(text: &str) -> Result<States, NotAState> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        words.map(state).collect::<Result<_, _>>().map(States)
    }
}

fn state(word: &str) -> Result<State, NotAState> {
    let found = life_cycle::State::ALL.into_iter().find(|state| state.word() == word);
    found.map(State::from).ok_or_else(|| NotAState { word: word.into() })
}

impl Serialize for States {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for States {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<States, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// Something that happened. In the stream its `sequence` is the `id` of the message, and its `kind` the `event`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "sequence": 4711, "at": "2026-11-16T09:00:00.250Z", "at_ms": 1_794_819_600_250_u64, "kind": "committed",
    "reservation": "rsv_4f3c2b1a", "owner": "ada", "state": "committed", "version": 1
}))]
pub struct Event {
    /// Its place in the journal; it only grows. Whoever asks again from here on (`Last-Event-ID`) misses nothing.
    pub sequence: u64,
    /// When, to the millisecond.
    pub at: FineTimestamp,
    /// The same in milliseconds since 1970.
    pub at_ms: i64,
    /// What, in one word, such as "held", "committed", "expired", "begun", "completed", "cancelled".
    #[schema(example = "committed")]
    pub kind: String,
    /// The reservation that it is about.
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// Whose that is.
    #[schema(value_type = Option<NameText>, example = "ada")]
    pub owner: Option<Name>,
    /// Where in its life that is now.
    pub state: Option<State>,
    /// Its version now.
    pub version: Option<u32>,
    /// Why, in a word: who gave it up (`owner`, `operator`, `lost`), why a part is gone, or the code of a refusal.
    #[schema(example = "operator")]
    pub because: Option<String>,
    /// How much of its capacity is missing now, since machines failed or the batch system does not keep it; 0 where it is
    /// whole again.
    pub missing: Option<u32>,
    /// Where something is missing: begins within the window of its request at which it could be had whole. Whoever wants
    /// that changes the reservation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub could_begin: Vec<Timestamp>,
}

impl Event {
    /// Something that happened then, and is about no reservation so far.
    pub fn new(sequence: u64, at: Moment, kind: &str) -> Result<Event, OutOfCalendar> {
        Ok(Event {
            sequence,
            at: at.try_into()?,
            at_ms: at.0,
            kind: kind.into(),
            reservation: None,
            owner: None,
            state: None,
            version: None,
            because: None,
            missing: None,
            could_begin: Vec::new(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_a_list_of_words_and_others_are_refused() {
        let states: States = "committed, active,".parse().unwrap();
        assert_eq!(states, States(vec![State::Committed, State::Active]));
        assert_eq!(states.to_string(), "committed,active");
        assert_eq!("".parse(), Ok(States(vec![])));
        let error = "comitted".parse::<States>().unwrap_err().to_string();
        assert!(error.contains("\"comitted\"") && error.contains("change-requested"), "{error}");
    }
}
