//! Pages of reservations, and the filters of lists and schedules as query parameters.

use crate::ids::NameText;
use crate::reservation::{Reservation, State};
use crate::time::Timestamp;
use bookahead_protocol::{Name, life_cycle};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use utoipa::{IntoParams, ToSchema};

/// A page of reservations.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservations {
    /// By id.
    pub reservations: Vec<Reservation>,
    /// Where the next page begins, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// Which reservations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only those of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<NameText>)]
    pub owner: Option<Name>,
    /// Only those in one of these states, separated by commas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<String>, example = "committed,active")]
    pub state: Option<States>,
    /// Only those that have a slot on this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<NameText>)]
    pub resource: Option<Name>,
    /// Only those that end after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Only those that begin before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// At most so many on a page; the server has a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Go on from here: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Which jobs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobsQuery {
    /// Only those of this user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<NameText>)]
    pub owner: Option<Name>,
    /// At most so many on a page; the server has a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Go on from here: `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Which schedules, and how much of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleQuery {
    /// Only that of this resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(value_type = Option<NameText>)]
    pub resource: Option<Name>,
    /// Only what ends after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Only what begins before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
