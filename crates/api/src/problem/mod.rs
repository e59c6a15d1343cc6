//! Refusals and errors as RFC 9457 problem documents: a code and a status for programs, a sentence for people, and,
//! as far as the site reveals them, blockers and alternatives.

mod code;

pub use code::Code;

use crate::convert::words;
use crate::description::NameText;
use crate::request::Request;
use crate::time::Timestamp;
use bookahead_plan::{Capacity, Interval, Seconds, Time, placement};
use bookahead_protocol as protocol;
use bookahead_protocol::{Name, Why, problem as words};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use serde_with::skip_serializing_none;
use thiserror::Error;
use utoipa::ToSchema;

/// Media type of a problem document.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// A refusal or an error, with alternatives if there are any. The media type is `application/problem+json`.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(example = json!({
    "type": "/problems/no-room", "title": "No room in the window", "status": 409,
    "detail": "running jobs, promised jobs or reservations leave no room in the window",
    "code": "no-room",
    "blockers": [
        {"kind": "reservation", "begin": "2026-11-16T08:00:00Z", "end": "2026-11-16T17:00:00Z"}
    ],
    "busy_for_seconds": 1800,
    "counter_offers": [{
        "change": {"type": "later", "by_seconds": 3600},
        "request": {"parts": [{
            "capacity": 64, "duration_seconds": 7200,
            "earliest_start": "2026-11-16T09:00:00Z", "latest_end": "2026-11-16T12:00:00Z"
        }]}
    }]
}))]
pub struct Problem {
    /// Kind of problem, as a reference to its description.
    #[serde(rename = "type")]
    #[schema(format = "uri-reference", example = "/problems/no-room")]
    pub kind: String,
    /// Kind of problem in a few words.
    pub title: String,
    /// HTTP status.
    #[schema(minimum = 400, maximum = 599)]
    pub status: u16,
    /// What happened, and what to do.
    pub detail: String,
    /// Stable code of the kind, for programs.
    #[schema(example = "no-room")]
    pub code: String,
    /// The refusal as brokers and sites pass it on to each other. Not for other programs: its form may change; use
    /// `code`. Missing if the call was refused before a decision.
    #[schema(value_type = Option<Object>)]
    pub reason: Option<Value>,
    /// The site whose own rule forbids it, if a broker tells of one.
    #[schema(value_type = Option<NameText>, example = "north")]
    pub site: Option<Name>,
    /// What occupies capacity at the start of the window, as far as the site reveals it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blockers: Vec<Blocker>,
    /// First tried delay of the start, in seconds, with which the request would be granted. Missing if there is
    /// none.
    pub busy_for_seconds: Option<i64>,
    /// First start that the shortest notice of the site, or its maintenance, allows, if that is the reason.
    pub not_before: Option<Timestamp>,
    /// Changed requests that would be granted now. Each was tried on its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counter_offers: Vec<CounterOffer>,
}

/// A changed request that would be granted now.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CounterOffer {
    /// What differs from the request that was refused.
    pub change: Relaxation,
    /// The whole changed request, ready to send. Missing for a request with several parts, because only one of them
    /// has to change, and the broker does not know which.
    pub request: Option<Request>,
}

impl CounterOffer {
    /// A counter-offer before the request is known.
    fn of(change: Relaxation) -> CounterOffer {
        CounterOffer { change, request: None }
    }
}

/// Something that occupies requested capacity, without its owner.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Blocker {
    /// What occupies the capacity.
    pub kind: BlockerKind,
    /// Start time. Missing if it is before all dates.
    pub begin: Option<Timestamp>,
    /// Estimated end time. Missing if no end is known.
    pub end: Option<Timestamp>,
    /// Name of the maintenance. Missing for other kinds.
    #[schema(value_type = Option<NameText>, example = "weekly")]
    pub name: Option<Name>,
}

words! {
    /// What occupies requested capacity.
    BlockerKind = words::BlockerKind {
        /// A running job.
        RunningJob,
        /// A waiting job with a promised start.
        WaitingJob,
        /// A reservation.
        Reservation,
        /// A maintenance window. Sites always reveal it.
        Maintenance,
    }
}

/// A change with which the request would be granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
#[schema(example = json!({"type": "later", "by_seconds": 3600}))]
pub enum Relaxation {
    /// A later end of the window.
    Later {
        /// Delay in seconds.
        by_seconds: i64,
    },
    /// A shorter duration.
    Shorter {
        /// Reduction in seconds.
        by_seconds: i64,
    },
    /// Less capacity.
    Fewer {
        /// Reduction in units of the resource.
        by: u32,
    },
    /// An earlier window.
    Earlier {
        /// Possible start time.
        begin: Timestamp,
    },
}

impl Relaxation {
    /// The request with this change. `None` if it has several parts, or if nothing would be left of it.
    fn applied(self, request: &Request) -> Option<Request> {
        let [part] = request.parts.as_slice() else { return None };
        let mut part = part.clone();
        match self {
            Relaxation::Later { by_seconds } => {
                part.latest_end = (part.latest_end.time() + Seconds(by_seconds)).try_into().ok()?;
            }
            Relaxation::Shorter { by_seconds } => {
                part.duration_seconds = part.duration_seconds.checked_sub(by_seconds)?;
            }
            Relaxation::Fewer { by } => part.capacity = part.capacity.checked_sub(by)?,
            Relaxation::Earlier { begin } => part.earliest_start = begin,
        }
        let something = part.capacity > 0 && part.duration_seconds > 0;
        something.then(|| Request { parts: vec![part], ..request.clone() })
    }
}

/// A problem without a protocol reason: from the HTTP layer itself, or from a newer version.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("problem {code:?} has no known reason: {detail}")]
pub struct UnknownReason {
    code: String,
    detail: String,
}

impl Problem {
    /// A problem of the HTTP layer.
    pub fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem {
            kind: code.uri(),
            title: code.title().into(),
            status: code.status(),
            detail: detail.into(),
            code: code.word().into(),
            reason: None,
            site: None,
            blockers: Vec::new(),
            busy_for_seconds: None,
            not_before: None,
            counter_offers: Vec::new(),
        }
    }

    /// Completes the counter-offers with the request that was refused.
    pub fn for_request(mut self, request: &Request) -> Problem {
        for offer in &mut self.counter_offers {
            offer.request = offer.change.applied(request);
        }
        self
    }

    /// HTTP status of a refusal.
    pub fn status(why: &Why) -> u16 {
        Code::of(why).status()
    }

    /// Whether repeating the call is useless: the refusal depends neither on time nor on credentials.
    pub fn is_final(&self) -> bool {
        // These are 4xx, too, but may succeed later: tokens are renewed.
        let passing = [Code::KeyInFlight, Code::TooManyRequests, Code::Unauthenticated];
        let is = |code: &Code| code.word() == self.code;
        (400..500).contains(&self.status) && !passing.iter().any(is)
    }

    /// The reason, if this version knows it.
    pub fn why(&self) -> Option<Why> {
        // A newer peer may send a reason that this version cannot read. Its code still applies.
        self.reason.as_ref().and_then(|reason| Why::deserialize(reason).ok())
    }
}

impl From<protocol::Problem> for Problem {
    /// Never fails, because a refusal must always be delivered: an instant outside of the calendar is left out.
    fn from(problem: protocol::Problem) -> Problem {
        let not_before = match problem.why {
            Why::TooSoon { not_before, .. } => Some(not_before),
            Why::Maintenance { not_before, .. } => not_before,
            _ => None,
        };
        let not_before = not_before.and_then(|start| Timestamp::try_from(start).ok());
        let because = because(&problem.why);
        let detail = match not_before {
            Some(start) => format!("not before {start}: {because}"),
            None => because,
        };
        let detail = match &problem.site {
            Some(site) => format!("{site}: {detail}"),
            None => detail,
        };
        Problem {
            reason: reason(&problem.why),
            site: problem.site.map(|site| *site),
            blockers: problem.blockers.into_iter().map(Into::into).collect(),
            busy_for_seconds: problem.busy_for.map(|step| step.0),
            counter_offers: problem
                .relaxations
                .into_iter()
                .filter_map(relaxation)
                .map(CounterOffer::of)
                .collect(),
            not_before,
            ..Problem::new(Code::of(&problem.why), detail)
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
            relaxations: problem.counter_offers.into_iter().map(|offer| offer.change.into()).collect(),
            site: problem.site.map(Box::new),
        })
    }
}

/// The sentence for people. The protocol has no calendar, so instants are added here.
fn because(why: &Why) -> String {
    let until = match why {
        Why::Maintenance { until, .. } => Timestamp::try_from(*until).ok(),
        _ => None,
    };
    match (why, until) {
        (Why::Maintenance { name, .. }, Some(until)) => format!("maintenance `{name}` until {until}"),
        _ => why.to_string(),
    }
}

/// Serializes a reason as an object in any case: serde writes a unit variant as a bare string.
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
            name: blocker.name,
        }
    }
}

impl From<Blocker> for words::Blocker {
    fn from(blocker: Blocker) -> words::Blocker {
        let begin = blocker.begin.map_or(Time::MIN, Timestamp::time);
        let end = blocker.end.map_or(Time::MAX, Timestamp::time);
        let interval = Interval::new(begin, end);
        words::Blocker { kind: blocker.kind.into(), interval, name: blocker.name }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Part;

    fn part() -> Part {
        serde_json::from_value(serde_json::json!({
            "capacity": 64, "duration_seconds": 7200,
            "earliest_start": "2026-11-16T08:00:00Z", "latest_end": "2026-11-16T12:00:00Z"
        }))
        .unwrap()
    }

    #[test]
    fn counter_offers_are_whole_requests_with_one_change() {
        let request = Request {
            webhook: Some("https://portal.example.org/".into()),
            ..Request::new(vec![part()], Vec::new())
        };
        let begin: Timestamp = "2026-11-16T06:30:00Z".parse().unwrap();
        let changes = [
            (
                Relaxation::Later { by_seconds: 1_800 },
                Part { latest_end: "2026-11-16T12:30:00Z".parse().unwrap(), ..part() },
            ),
            (Relaxation::Shorter { by_seconds: 3_600 }, Part { duration_seconds: 3_600, ..part() }),
            (Relaxation::Fewer { by: 16 }, Part { capacity: 48, ..part() }),
            (Relaxation::Earlier { begin }, Part { earliest_start: begin, ..part() }),
        ];
        for (change, changed) in changes {
            assert_eq!(change.applied(&request), Some(Request { parts: vec![changed], ..request.clone() }));
        }
        assert_eq!(Relaxation::Fewer { by: 64 }.applied(&request), None);
        assert_eq!(Relaxation::Shorter { by_seconds: 7_200 }.applied(&request), None);
        let two = Request::new(vec![part(), part()], Vec::new());
        assert_eq!(Relaxation::Fewer { by: 16 }.applied(&two), None, "which of them is not known");
    }
}
