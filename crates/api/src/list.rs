//! Pages of reservations, query parameters of lists and schedules, and events.

use crate::description::{JobIdText, NameText, ReservationIdText};
use crate::job::JobState;
use crate::reservation::{Reservation, State};
use crate::time::{FineTimestamp, OutOfCalendar, Timestamp};
use bookahead_protocol::{JobId, Moment, Name, ReservationId, life_cycle};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use utoipa::{IntoParams, ToSchema};

/// A page of reservations.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Reservations {
    /// Sorted by begin, then by id.
    pub reservations: Vec<Reservation>,
    /// Cursor of the next page. Missing on the last page.
    pub next: Option<String>,
    /// Number of matching reservations on all pages.
    pub total: Option<usize>,
}

/// Filters for reservations.
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
    /// Only those whose name contains this text, ignoring case.
    #[param(max_length = 100, example = "course")]
    pub name: Option<String>,
    /// Only those with these labels, as `key=value`, separated by commas.
    #[param(value_type = Option<String>, example = "course=mpi")]
    pub label: Option<Labels>,
    /// Most entries on a page. The server has a limit of its own.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Cursor: `next` of the previous page.
    pub cursor: Option<String>,
}

/// Filters for jobs.
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
    /// Only those whose name contains this text, ignoring case.
    #[param(max_length = 100, example = "course")]
    pub name: Option<String>,
    /// Only those with these labels, as `key=value`, separated by commas.
    #[param(value_type = Option<String>, example = "course=mpi")]
    pub label: Option<Labels>,
    /// Most entries on a page. The server has a limit of its own.
    #[param(minimum = 1)]
    pub limit: Option<u32>,
    /// Cursor: `next` of the previous page.
    pub cursor: Option<String>,
}

/// Part of the output of a job.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OutputQuery {
    /// What to read. Default: `stdout`.
    #[param(inline)]
    pub stream: Option<OutputStream>,
    /// First byte to read, counted from 0. Default: 0.
    pub from: Option<u64>,
}

/// What a job prints to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OutputStream {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
}

/// Filters for schedules.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ScheduleQuery {
    /// Only the schedule of this resource.
    #[param(value_type = Option<NameText>)]
    pub resource: Option<Name>,
    /// Only entries that end after this.
    pub from: Option<Timestamp>,
    /// Only entries that begin before this.
    pub until: Option<Timestamp>,
    /// Width of the picture to draw, in pixels. Entries that it cannot show are combined, and the free capacity is
    /// included.
    #[param(minimum = 1, maximum = 8192)]
    pub pixels: Option<u32>,
}

/// Whose reservations a calendar shows.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CalendarQuery {
    /// Only those of this user. Default: all that the caller may see.
    #[param(value_type = Option<NameText>)]
    pub owner: Option<Name>,
}

/// Whose access is ended.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct OfUser {
    /// Another user, for operators. Default: the caller.
    #[param(value_type = Option<NameText>)]
    pub user: Option<Name>,
}

/// A set of reservation states, written as comma-separated words.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct States(pub Vec<State>);

/// Error for an unknown state.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown state {word:?}; the states are {}", States::all())]
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
        // A trailing comma, and an empty list, are allowed.
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

/// Kinds of events. `reset` and `state` are sent by the stream itself; those of jobs begin with `job-`.
pub const EVENT_KINDS: &[&str] = &[
    "reset",
    "state",
    "requested",
    "granted",
    "not-granted",
    "held",
    "held-longer",
    "request-changed",
    "refused",
    "commit-requested",
    "committed",
    "expired",
    "change-requested",
    "change-prepared",
    "change-settled",
    "change-given-up",
    "released",
    "begun",
    "completed",
    "cancelled",
    "cancelled-before",
    "terminated",
    "missing",
    "lost",
    "restored",
    "whole",
    "degraded",
    "broken",
    "healed",
    "not-healed",
    "part-lost",
    "forgotten",
    "denial-forgotten",
    "orphan-removed",
    "job-submitted",
    "job-started",
    "job-requeued",
    "job-retried",
    "job-completed",
    "job-failed",
    "job-cancelled",
];

/// A set of labels, written as comma-separated `key=value`. A comma or backslash in a value is preceded by a
/// backslash.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Labels(pub BTreeMap<String, String>);

/// Error for a label without `=`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{word:?} is not a label; write key=value")]
pub struct NotALabel {
    word: String,
}

impl fmt::Display for Labels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Backslashes first: otherwise those that escape commas would be doubled.
        let escaped = |value: &str| value.replace('\\', "\\\\").replace(',', "\\,");
        let words: Vec<_> = self.0.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Labels {
    type Err = NotALabel;

    fn from_str(text: &str) -> Result<Labels, NotALabel> {
        let (mut words, mut characters) = (vec![String::new()], text.chars());
        while let Some(character) = characters.next() {
            match (character, words.last_mut()) {
                (',', _) => words.push(String::new()),
                ('\\', Some(word)) => word.extend(characters.next()),
                (other, Some(word)) => word.push(other),
                // Cannot happen: `words` begins with one entry, and the loop only adds to it.
                (_, None) => {}
            }
        }
        // As with states, a trailing comma and an empty list are allowed.
        words.retain(|word| !word.is_empty());
        let label = |word: String| match word.split_once('=') {
            Some((key, value)) => Ok((key.trim().into(), value.into())),
            None => Err(NotALabel { word }),
        };
        words.into_iter().map(label).collect::<Result<_, _>>().map(Labels)
    }
}

impl Serialize for Labels {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Labels, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// An event of a service. In the event stream its `sequence` is the `id` of the message, and its `kind` the
/// `event`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "sequence": 4711, "at": "2026-11-16T09:00:00.250Z", "kind": "committed",
    "reservation": "rsv_4f3c2b1a", "owner": "ada", "state": "committed", "version": 1
}))]
pub struct Event {
    /// Position in the journal; always increasing. A client that reconnects with it in `Last-Event-ID` misses no
    /// event.
    pub sequence: u64,
    /// Time of the event, to the millisecond.
    pub at: FineTimestamp,
    /// Kind of the event, such as "held", "committed", "expired", "begun", "completed", "cancelled". Events of jobs
    /// are "job-submitted", "job-started", "job-requeued", "job-retried", "job-completed", "job-failed" and
    /// "job-cancelled".
    #[schema(example = "committed")]
    pub kind: String,
    /// Id of the reservation, if the event is about one, or about a job in one.
    #[schema(value_type = Option<ReservationIdText>)]
    pub reservation: Option<ReservationId>,
    /// Id of the job, if the event is about one.
    #[schema(value_type = Option<JobIdText>)]
    pub job: Option<JobId>,
    /// State of the job after the event.
    pub job_state: Option<JobState>,
    /// Exit code of the job, once it is done.
    pub exit: Option<i32>,
    /// Owner of the reservation or job.
    #[schema(value_type = Option<NameText>, example = "ada")]
    pub owner: Option<Name>,
    /// Whether the caller is invited to the reservation and has not answered. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schema(default = false)]
    pub invitation: bool,
    /// State of the reservation after the event. Missing if the event is about a job.
    pub state: Option<State>,
    /// Version of the reservation after the event.
    pub version: Option<u32>,
    /// Reason: who gave it up (`owner`, `operator`, `lost`), why a part was lost, or the code of a refusal.
    #[schema(example = "operator")]
    pub because: Option<String>,
    /// Capacity missing after the event, because machines failed or the batch system lost the reservation; 0 once
    /// it is whole again.
    pub missing: Option<u32>,
    /// If capacity is missing: start times within the window of the request at which the full capacity is
    /// available. To use one, change the reservation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub could_begin: Vec<Timestamp>,
}

impl Event {
    /// An event without a reservation or job. The caller fills in the optional fields.
    pub fn new(sequence: u64, at: Moment, kind: &str) -> Result<Event, OutOfCalendar> {
        Ok(Event {
            sequence,
            at: at.try_into()?,
            kind: kind.into(),
            reservation: None,
            job: None,
            job_state: None,
            exit: None,
            invitation: false,
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
    fn labels_are_a_list_of_pairs() {
        let labels: Labels = "course=mpi,path=a\\,b\\\\c=d,empty=,".parse().unwrap();
        let pairs = [("course", "mpi"), ("path", "a,b\\c=d"), ("empty", "")];
        assert_eq!(labels.0, pairs.map(|(key, value)| (key.into(), value.into())).into());
        assert_eq!(labels.to_string().parse(), Ok(labels));
        assert_eq!("".parse(), Ok(Labels::default()));
        assert!("course".parse::<Labels>().unwrap_err().to_string().contains("key=value"));
    }

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
