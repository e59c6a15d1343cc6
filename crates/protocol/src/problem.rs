//! Refusals: a code for programs, a sentence for people, and, as far as the site reveals them, the blockers
//! and the changes that would be granted.

use crate::clock::Millis;
use crate::ids::{JobId, Key, Name, ReservationId};
use crate::life_cycle::{IllegalMove, State};
use crate::request::Malformed;
use bookahead_plan::placement::{Reason, Relaxation};
use bookahead_plan::{Capacity, Interval, Seconds};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A refusal or failure, with alternatives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// The reason.
    pub why: Why,
    /// What blocks the start of the window, if the site reveals it.
    pub blockers: Vec<Blocker>,
    /// The smallest tried delay with which the request would be granted.
    pub busy_for: Option<Seconds>,
    /// Changes that would be granted, each on its own.
    pub relaxations: Vec<Relaxation>,
}

impl Problem {
    /// Approximate heap memory use. Bounds on recorded answers count these bytes.
    pub(crate) fn bytes(&self) -> usize {
        let told = match &self.why {
            Why::NotGranted(text) => text.len(),
            _ => 0,
        };
        told + self.blockers.len() * size_of::<Blocker>() + self.relaxations.len() * size_of::<Relaxation>()
    }
}

/// A job or reservation that takes the requested capacity, without naming its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Blocker {
    /// Job or reservation.
    pub kind: BlockerKind,
    /// When it takes the capacity, by estimates.
    pub interval: Interval,
}

/// Kinds of blockers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BlockerKind {
    /// A running job.
    RunningJob,
    /// A waiting job with a promised start.
    WaitingJob,
    /// A reservation.
    Reservation,
}

/// The reason of a refusal. Its code is part of the API and never changes.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
pub enum Why {
    /// The request contradicts itself.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// A site books one part at a time.
    #[error("a site books one part at a time, not {0}; use a broker for a request with several parts")]
    OnePartOnly(usize),
    #[error("part {part}: no resource of kind {kind} has the required capacity and attributes")]
    NoSuchResource { part: usize, kind: Name },
    /// A matching resource exists, but has no slot.
    #[error("{}", sentence(*.0))]
    NoSlot(Reason),
    /// A limit of the site for this user.
    #[error("{limit} is limited to {most} here, and this would make it {asked}")]
    Limit { limit: Limit, most: i64, asked: i64 },
    #[error("{0} is not known here")]
    Unknown(ReservationId),
    /// The state of the reservation does not allow it.
    #[error("{0}")]
    Illegal(#[from] IllegalMove),
    #[error("the hold expired before it was committed; reserve again")]
    Expired,
    #[error("{0} is not known here; nothing was cancelled, and this id can no longer be reserved")]
    CancelledBefore(ReservationId),
    #[error("{0} belongs to another user")]
    NotOwner(ReservationId),
    #[error("{0} is already the id of another request; use a new id")]
    IdTaken(ReservationId),
    #[error("{0} was already used for another call; use a new key")]
    KeyTaken(Key),
    #[error("it is at version {now}, not {seen}; show it and try again")]
    Changed { seen: u32, now: u32 },
    /// The change was never prepared, or its deadline has passed.
    #[error("this change is no longer prepared; the old terms apply; request the change again")]
    NotPrepared,
    #[error("its terms are being changed, or a part of it is being replaced; try again later")]
    ChangeUnderWay,
    #[error("it has no part {0}")]
    NoSuchPart(usize),
    /// A release without a part, of a reservation with several.
    #[error("it has {0} parts; name the one to release, or cancel the reservation to release all")]
    WhichPart(usize),
    /// The release would give back nothing.
    #[error("{0}")]
    NotReleased(NotReleased),
    /// No combination of slots satisfies the request.
    #[error("{}", no_candidate(*.tried, *.all))]
    NoCandidate {
        /// Number of combinations that could not be held.
        tried: u32,
        /// Whether the search was exhaustive. Otherwise it hit a bound.
        all: bool,
    },
    #[error("no suitable site answered in time; try again later")]
    Silence,
    #[error("the broker restarted before it had decided; nothing was booked; try again with a new id")]
    Interrupted,
    #[error(
        "one part was lost before it could be committed, so all parts were released; try again with a new id"
    )]
    PartLost,
    /// Too much in progress, or the reservation waits for the batch system.
    #[error(
        "too many requests are in progress, or the reservation waits for the batch system; try again later"
    )]
    Busy,
    #[error("the site's batch system refused it: {0}")]
    NotGranted(String),
    /// The batch system does not answer. It was not asked for this request.
    #[error(
        "the site's batch system does not answer, or its output cannot be parsed; try again later; the site's log has details"
    )]
    NoBatchSystem,
    /// The batch system did not answer in time. A late grant is undone.
    #[error(
        "the site's batch system did not answer within {} s; nothing was booked or changed; try again later",
        .waited.0 / 1_000
    )]
    BatchTimeout { waited: Millis },
    #[error("{0} is not known here")]
    UnknownJob(JobId),
    #[error("{0} is already the id of another job; use a new id")]
    JobTaken(JobId),
    #[error("{0} belongs to another user")]
    NotJobOwner(JobId),
    /// The job description is invalid.
    #[error("{0}")]
    MalformedJob(String),
    /// The site or its batch system refused the job.
    #[error("{0}")]
    JobRefused(String),
    /// The peer may not register.
    #[error("{0}")]
    NotAdmittedAsPeer(String),
    #[error("a site has no register of peers; register at a broker")]
    NoRegister,
    /// Not possible with this reservation or party.
    #[error("{0}")]
    Unsupported(Impossible),
    #[error("the call already passed through this broker: the brokers are peers of each other in a cycle")]
    Circle,
}

/// Operations that are not possible.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error, Serialize, Deserialize)]
pub enum Impossible {
    #[error("jobs can be attached only to a committed reservation; commit it first")]
    JobsOfAHold,
    #[error("a reservation can have at most 65,536 jobs")]
    TooManyJobs,
    /// No longer used. Kept for old journals.
    #[error("the terms of several parts cannot be changed together; cancel and reserve again")]
    ChangeOfSeveralParts,
    #[error("the number of parts cannot change; give new terms for each part")]
    OtherParts,
    #[error("a part of it is lost; it can be changed when the part is replaced")]
    ChangeOfBroken,
    #[error(
        "it has started: only its end can change, and its capacity can only shrink; for another start or resource, reserve again"
    )]
    BeginOfActive,
    #[error("it has started: its capacity cannot grow; make another reservation for the rest")]
    MoreOfActive,
    #[error("that end is in the past; to end it now, release it")]
    EndIsPast,
    /// Because a booking is all or nothing: a site that refuses a job would cost every part.
    #[error("a broker attaches jobs only to a committed reservation; commit it first, then attach them")]
    JobsWithCommit,
    #[error("it has several parts; attach each job to the part that it should run in")]
    JobsOfSeveralParts,
    #[error(
        "the batch system of this site cannot share a reservation with other users; reserve without --with, or at another site"
    )]
    Sharing,
    #[error(
        "the batch system of this site cannot change who shares a reservation; cancel it and reserve again with --with"
    )]
    SharingLater,
}

/// Why a release would give back nothing.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error, Serialize, Deserialize)]
pub enum NotReleased {
    #[error("it ends before the time of the release; give an earlier time")]
    AfterEnd,
    #[error("it has a capacity of {} then, less than the {} to keep; keep less to release some", .has.0, .keep.0)]
    KeepsMore { has: Capacity, keep: Capacity },
}

/// Kinds of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Limit {
    /// Live reservations of one user.
    Count,
    /// Capacity-seconds of one user's live reservations.
    Area,
    /// How far ahead a reservation may end, in seconds.
    Horizon,
    /// Shortest time between request and start, in seconds.
    Notice,
    /// Share of a resource reserved by one user at one time, in percent.
    Share,
    /// Jobs of one user outside reservations, waiting or running.
    Jobs,
    /// Share of a resource that these jobs request together, in percent.
    JobShare,
    /// Run time of one of these jobs, in seconds.
    JobTime,
}

impl Problem {
    /// Without blockers and alternatives.
    pub fn new(why: impl Into<Why>) -> Problem {
        Problem { why: why.into(), blockers: Vec::new(), busy_for: None, relaxations: Vec::new() }
    }
}

impl<W: Into<Why>> From<W> for Problem {
    fn from(why: W) -> Problem {
        Problem::new(why)
    }
}

impl Why {
    /// Stable name for programs. Never changes.
    pub fn code(&self) -> &'static str {
        match self {
            Why::Malformed(_) => "malformed",
            Why::OnePartOnly(_) => "one-part-only",
            Why::NoSuchResource { .. } => "no-such-resource",
            Why::NoSlot(reason) => reason.code(),
            Why::Limit { .. } => "limit",
            Why::Unknown(_) => "unknown",
            Why::Illegal(_) => "illegal",
            Why::Expired => "expired",
            Why::CancelledBefore(_) => "cancelled-before",
            Why::NotOwner(_) => "not-owner",
            Why::IdTaken(_) => "id-taken",
            Why::KeyTaken(_) => "key-taken",
            Why::Changed { .. } => "changed",
            Why::NotPrepared => "not-prepared",
            Why::ChangeUnderWay => "change-under-way",
            Why::NoSuchPart(_) => "no-such-part",
            Why::WhichPart(_) => "which-part",
            Why::NotReleased(_) => "not-released",
            Why::NoCandidate { .. } => "no-candidate",
            Why::Silence => "silence",
            Why::Interrupted => "interrupted",
            Why::PartLost => "part-lost",
            Why::Busy => "busy",
            Why::NotGranted(_) => "not-granted",
            Why::NoBatchSystem => "no-batch-system",
            Why::BatchTimeout { .. } => "batch-timeout",
            Why::UnknownJob(_) => "unknown-job",
            Why::JobTaken(_) => "job-taken",
            Why::NotJobOwner(_) | Why::NotAdmittedAsPeer(_) => "forbidden",
            Why::MalformedJob(_) => "bad-request",
            Why::JobRefused(_) => "job-refused",
            Why::NoRegister => "not-found",
            Why::Unsupported(_) => "unsupported",
            Why::Circle => "circle",
        }
    }

    /// Whether nothing was decided. Such an answer is not recorded, and the same call may be repeated.
    pub fn is_passing(&self) -> bool {
        matches!(self, Why::Busy | Why::ChangeUnderWay | Why::NoBatchSystem)
    }

    /// Whether a repeated call would get the same answer.
    pub fn is_final(&self) -> bool {
        !self.is_passing() && !matches!(self, Why::Silence)
    }

    /// The state that did not allow the call, if that is the reason.
    pub fn state(&self) -> Option<State> {
        match self {
            Why::Illegal(attempt) => Some(attempt.from),
            _ => None,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::Count => "the number of your reservations",
            Limit::Area => "the capacity-seconds of your reservations",
            Limit::Horizon => "the time ahead in seconds",
            Limit::Notice => "the notice in seconds",
            Limit::Share => "your share of the resource in percent",
            Limit::Jobs => "the number of your jobs outside reservations",
            Limit::JobShare => {
                "the share of the resource, in percent, that your jobs outside reservations request"
            }
            Limit::JobTime => "the time limit, in seconds, of a job outside reservations",
        })
    }
}

fn sentence(reason: Reason) -> &'static str {
    match reason {
        Reason::TooWide => "it needs more capacity than the resource has",
        Reason::NoWindow => "its window is shorter than its duration, or in the past",
        Reason::NoRoom => "running jobs, promised jobs or reservations leave no room in the window",
        Reason::NotAdmitted => {
            "there is room, but taking it would delay waiting jobs more than the site allows"
        }
    }
}

fn no_candidate(tried: u32, all: bool) -> String {
    let searched = if all {
        "no other offered slot fits"
    } else {
        "others were faster, or the search reached its limit; try again"
    };
    match (tried, all) {
        (0, true) => "no combination of the offered slots satisfies the request".to_owned(),
        (0, false) => "no combination was found before the search reached its limit".to_owned(),
        (1, _) => format!("the only combination tried could not be held; {searched}"),
        _ => format!("none of {tried} combinations could be held; {searched}"),
    }
}
