//! Answers that say no, as RFC 9457 has them: a code and a status for programs, a sentence for people, and, as far as
//! the site reveals it, what stands in the way and what would do instead.

mod code;

pub use code::Code;

use crate::convert::words;
use crate::time::Timestamp;
use bookahead_plan::{Capacity, Interval, Seconds, Time, placement};
use bookahead_protocol as protocol;
use bookahead_protocol::{Why, problem as words};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use thiserror::Error;
use utoipa::ToSchema;

/// The media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Why not, and what instead. The media type is `application/problem+json`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "type": "/problems/no-room", "title": "No room in the window", "status": 409,
    "detail": "running jobs, promised jobs or reservations leave no room in the window",
    "code": "no-room", "reason": {"NoSlot": "NoRoom"},
    "blockers": [
        {"kind": "reservation", "begin": "2026-11-16T08:00:00Z", "end": "2026-11-16T17:00:00Z"}
    ],
    "busy_for_seconds": 1800,
    "relaxations": [{"type": "later", "by_seconds": 3600}, {"type": "fewer", "by": 16}]
}))]
pub struct Problem {
    /// What kind of problem, as a reference to its description.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference", example = "/problems/no-room")]
    pub kind: String,
    /// The kind in a few words.
    pub title: String,
    /// The HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What is the matter this time, and what to do.
    pub detail: String,
    /// The name of the kind for programs; it never changes.
    #[schema(example = "no-room")]
    pub code: String,
    /// The same in every detail for programs: an object with one member, whose name is the reason. Missing where the call
    /// did not get as far as a decision.
    #[schema(value_type = Option<Object>)]
    pub reason: Option<Value>,
    /// What is in the way when the window begins, where the site tells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// The first step by which a later begin would do, if one does.
    pub busy_for_seconds: Option<i64>,
    /// What would do, each tried on its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relaxations: Vec<Relaxation>,
}

/// What holds capacity that was wanted, without saying whose it is.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blocker {
    /// What it is.
    pub kind: BlockerKind,
    /// Since when; missing where that is before all dates.
    pub begin: Option<Timestamp>,
    /// Until when, by estimates; missing where no end is in sight.
    pub end: Option<Timestamp>,
}

words! {
    /// What can be in the way.
    BlockerKind = words::BlockerKind {
        /// A running job.
        RunningJob,
        /// A waiting job that is promised its place.
        WaitingJob,
        /// A reservation.
        Reservation,
    }
}

/// A change with which the request would be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[schema(example = json!({"type": "later", "by_seconds": 3600}))]
pub enum Relaxation {
    /// If it might end later by so much.
    Later {
        /// By how much.
        by_seconds: i64,
    },
    /// If it took so much less time.
    Shorter {
        /// By how much.
        by_seconds: i64,
    },
    /// If it took so much less capacity.
    Fewer {
        /// By how much.
        by: u32,
    },
    /// If its window were earlier: it could begin then.
    Earlier {
        /// When it could begin.
        begin: Timestamp,
    },
}

/// A problem that is no word of the protocol: of the HTTP layer itself, or of a newer version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the problem {code:?} has no reason that is known here: {detail}")]
pub struct UnknownReason {
    code: String,
    detail: String,
}

impl Problem {
    /// Of the HTTP layer: a code, and what is the matter.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            kind: code.uri(),
            title: code.title().into(),
            status: code.status(),
            detail: detail.into(),
            code: code.word().into(),
            reason: None,
            blockers: Vec::new(),
            busy_for_seconds: None,
            relaxations: Vec::new(),
        }
    }

    /// The HTTP status of a refusal.
    pub fn status(why: &Why) -> u16 {
        Code::of(why).status()
    }

    /// Whether the same call would be refused again: it is not a matter of time, or of who asks.
    pub fn is_final(&self) -> bool {
        let passing = [Code::KeyInFlight, Code::TooManyRequests, Code::Unauthenticated];
        let is = |code: &Code| code.word() == self.code;
        (400..500).contains(&self.status) && !passing.iter().any(is)
    }

    /// Why, where that is a word of the protocol that is known here.
    pub fn why(&self) -> Option<Why> {
        self.reason.as_ref().and_then(|reason| Why::deserialize(reason).ok())
    }
}

impl From<protocol::Problem> for Problem {
    /// Always succeeds, since a refusal must always get through: an instant that has no date is left out.
    fn from(problem: protocol::Problem) -> Problem {
        Problem {
            reason: reason(&problem.why),
            blockers: problem.blockers.into_iter().map(Into::into).collect(),
            busy_for_seconds: problem.busy_for.map(|step| step.0),
            relaxations: problem.relaxations.into_iter().filter_map(relaxation).collect(),
            ..Problem::new(Code::of(&problem.why), problem.why.to_string())
        }
    }
}

impl TryFrom<Problem> for protocol::Problem {
    type Error = UnknownReason;

    fn try_from(problem: Problem) -> Result<protocol::Problem, UnknownReason> {
        let Some(why) = problem.why() else {
            return Err(UnknownReason { code: problem.code, detail: problem.detail });
        };
        Ok(protocol::Problem {
            why,
            blockers: problem.blockers.into_iter().map(Into::into).collect(),
            busy_for: problem.busy_for_seconds.map(Seconds),
            relaxations: problem.relaxations.into_iter().map(Into::into).collect(),
        })
    }
}

/// Always an object: a reason without particulars is a member without a value.
fn reason(why: &Why) -> Option<Value> {
    match serde_json::to_value(why) {
        Ok(Value::String(word)) => Some(Value::Object(Map::from_iter([(word, Value::Null)]))),
        Ok(object) => Some(object),
        Err(_) => None,
    }
}

impl From<words::Blocker> for Blocker {
    fn from(blocker: words::Blocker) -> Blocker {
        Blocker {
            kind: blocker.kind.into(),
            begin: blocker.interval.begin.try_into().ok(),
            end: blocker.interval.end.try_into().ok(),
        }
    }
}

impl From<Blocker> for words::Blocker {
    fn from(blocker: Blocker) -> words::Blocker {
        let begin = blocker.begin.map_or(Time::MIN, Timestamp::time);
        let end = blocker.end.map_or(Time::MAX, Timestamp::time);
        words::Blocker { kind: blocker.kind.into(), interval: Interval::new(begin, end) }
    }
}

fn relaxation(relaxation: placement::Relaxation) -> Option<Relaxation> {
    Some(match relaxation {
        placement::Relaxation::Later(by) => Relaxation::Later { by_seconds: by.0 },
        placement::Relaxation::Shorter(by) => Relaxation::Shorter { by_seconds: by.0 },
        placement::Relaxation::Fewer(by) => Relaxation::Fewer { by: by.0 },
        placement::Relaxation::Earlier(begin) => Relaxation::Earlier { begin: begin.try_into().ok()? },
    })
}

impl From<Relaxation> for placement::Relaxation {
    fn from(relaxation: Relaxation) -> placement::Relaxation {
        match relaxation {
            Relaxation::Later { by_seconds } => placement::Relaxation::Later(Seconds(by_seconds)),
            Relaxation::Shorter { by_seconds } => placement::Relaxation::Shorter(Seconds(by_seconds)),
            Relaxation::Fewer { by } => placement::Relaxation::Fewer(Capacity(by)),
            Relaxation::Earlier { begin } => placement::Relaxation::Earlier(begin.time()),
        }
    }
}
