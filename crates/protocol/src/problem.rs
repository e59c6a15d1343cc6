//! Answers that say no: a code for programs, a sentence for people, and, as far as the site reveals it, what stands in
//! the way and what would do instead.

use crate::clock::Millis;
use crate::ids::{JobId, Key, Name, ReservationId};
use crate::life_cycle::{IllegalMove, State};
use crate::request::Malformed;
use bookahead_plan::placement::{Reason, Relaxation};
use bookahead_plan::{Capacity, Interval, Seconds};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Why not, and what instead.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// Why.
    pub why: Why,
    /// What is in the way when the window begins, where the site tells.
    pub blockers: Vec<Blocker>,
    /// The first step by which a later begin would do, if one does.
    pub busy_for: Option<Seconds>,
    /// What would do, each tried on its own.
    pub relaxations: Vec<Relaxation>,
}

impl Problem {
    /// The memory that it takes beside its own size, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let told = match &self.why {
            Why::NotGranted(text) => text.len(),
            _ => 0,
        };
        told + self.blockers.len() * size_of::<Blocker>() + self.relaxations.len() * size_of::<Relaxation>()
    }
}

/// What holds capacity that was wanted, without saying whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Blocker {
    /// What it is.
    pub kind: BlockerKind,
    /// From when until when, by estimates.
    pub interval: Interval,
}

/// What can be in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BlockerKind {
    /// A running job.
    RunningJob,
    /// A waiting job that is promised its place.
    WaitingJob,
    /// A reservation.
    Reservation,
}

/// Why a call is refused. The codes never change.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Error, Serialize, Deserialize)]
pub enum Why {
    /// The request is wrong in itself.
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// A site books one part at a time.
    #[error("a site takes one part at a time, not {0}; ask a broker for several together")]
    OnePartOnly(usize),
    #[error("part {part}: no resource of kind {kind} has the capacity and attributes that are required")]
    NoSuchResource { part: usize, kind: Name },
    /// There is such a resource, but not then.
    #[error("{}", sentence(*.0))]
    NoSlot(Reason),
    /// A limit of the site for this user.
    #[error("{limit} is limited to {most} here, and this would make it {asked}")]
    Limit { limit: Limit, most: i64, asked: i64 },
    #[error("{0} is not known here")]
    Unknown(ReservationId),
    /// It is in no state to do that.
    #[error("{0}")]
    Illegal(#[from] IllegalMove),
    #[error("the hold expired before it was committed; reserve again")]
    Expired,
    #[error("{0} was cancelled before it was reserved")]
    CancelledBefore(ReservationId),
    #[error("{0} belongs to somebody else")]
    NotOwner(ReservationId),
    #[error("{0} is already the id of another request; make a new id")]
    IdTaken(ReservationId),
    #[error("{0} was already used for another call; make a new key")]
    KeyTaken(Key),
    #[error("it is at version {now}, not {seen}; look at it and decide again")]
    Changed { seen: u32, now: u32 },
    /// A change that was never prepared, or whose time is up.
    #[error("this change is not prepared any more; the old terms stand, change it again")]
    NotPrepared,
    #[error("its terms are being changed, or a part of it is being replaced; ask again when that is done")]
    ChangeUnderWay,
    #[error("there is no part {0} in it")]
    NoSuchPart(usize),
    /// Something was to be released, and it was not said of which part.
    #[error("it has {0} parts; name the one to release, or cancel it to give back all of them")]
    WhichPart(usize),
    /// Nothing would be given back.
    #[error("{0}")]
    NotReleased(NotReleased),
    /// No combination of slots fulfils the request.
    #[error("{}", no_candidate(*.tried, *.all))]
    NoCandidate {
        /// How many combinations were tried to be held.
        tried: u32,
        /// Whether all that was offered was looked at; otherwise the search, or its time, came to an end before.
        all: bool,
    },
    #[error("nobody who could serve it answered in time; ask again later")]
    Silence,
    #[error("the broker was interrupted before it had decided; nothing was booked, ask again with a new id")]
    Interrupted,
    #[error(
        "one part was lost before it could be committed, so all were given back; ask again with a new id"
    )]
    PartLost,
    /// Too much is under way already, or the reservation waits for the batch system.
    #[error("too much is under way, or the reservation waits for the batch system; ask again later")]
    Busy,
    #[error("the batch system of the site does not grant it: {0}")]
    NotGranted(String),
    /// The batch system of the site does not answer, and was not asked for this.
    #[error(
        "the batch system of the site does not answer, or printed what cannot be read; ask again later, the log of the site says more"
    )]
    NoBatchSystem,
    /// The batch system of the site did not answer in time. If it grants the request after all, that is undone.
    #[error(
        "the batch system of the site did not answer within {} s; nothing was booked or changed, ask again later",
        .waited.0 / 1_000
    )]
    BatchTimeout { waited: Millis },
    #[error("{0} is not known here")]
    UnknownJob(JobId),
    #[error("{0} is already another job; make a new id")]
    JobTaken(JobId),
    #[error("{0} belongs to somebody else")]
    NotJobOwner(JobId),
    /// The job cannot be run as it is written.
    #[error("{0}")]
    MalformedJob(String),
    /// The job is not taken, by the site or by its batch system.
    #[error("{0}")]
    JobRefused(String),
    /// A peer that may not register.
    #[error("{0}")]
    NotAdmittedAsPeer(String),
    #[error("a site keeps no register of others; register at a broker")]
    NoRegister,
    /// It cannot be done with what this is.
    #[error("{0}")]
    Unsupported(Impossible),
    #[error("the call has come through this broker before: brokers ask each other in a circle")]
    Circle,
}

/// What cannot be done at all.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error, Serialize, Deserialize)]
pub enum Impossible {
    #[error("only a committed reservation takes jobs; commit it first")]
    JobsOfAHold,
    #[error("a reservation takes at most 65,536 jobs")]
    TooManyJobs,
    /// No longer used; it stays for journals that tell of it.
    #[error("the terms of several parts cannot be changed together; cancel and reserve again")]
    ChangeOfSeveralParts,
    #[error("it has another number of parts; give new terms for each of its parts")]
    OtherParts,
    #[error("a part of it is gone; it can be changed when the part is replaced")]
    ChangeOfBroken,
    #[error(
        "it has begun: only its end can change, and its capacity to less; for another begin or resource, reserve again"
    )]
    BeginOfActive,
    #[error("it has begun: its capacity cannot grow; reserve more beside it")]
    MoreOfActive,
    #[error("that end is past; to end it now, release it")]
    EndIsPast,
    /// All or nothing: a site that refused a job would cost every part.
    #[error(
        "a broker takes jobs only for a reservation that is committed; commit it first, then attach them"
    )]
    JobsWithCommit,
    #[error("it has several parts; attach each job to the part in which it is to run")]
    JobsOfSeveralParts,
}

/// Why a release would give back nothing.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error, Serialize, Deserialize)]
pub enum NotReleased {
    #[error("it ends before the time from which it was to be released; name an earlier time")]
    AfterEnd,
    #[error("it has a capacity of {} then, which is less than the {} to keep; keep less to give something back", .has.0, .keep.0)]
    KeepsMore { has: Capacity, keep: Capacity },
}

/// What can be limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Limit {
    /// Live reservations of one user.
    Count,
    /// Capacity times seconds of one user's live reservations.
    Area,
    /// How far ahead a reservation may end, in seconds.
    Horizon,
    /// How short before its begin it may be asked for, in seconds.
    Notice,
    /// How many hundredths of a resource one user may have reserved at the same time.
    Share,
    /// Jobs of one user outside reservations, waiting or running.
    Jobs,
    /// How many hundredths of a resource these jobs may ask for together.
    JobShare,
    /// How long one of these jobs may run, in seconds.
    JobTime,
}

impl Problem {
    /// With nothing to say about what instead.
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
    /// A name for programs; it never changes.
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

    /// Whether nothing was decided: nobody remembers it, and the same call may be sent again.
    pub fn is_passing(&self) -> bool {
        matches!(self, Why::Busy | Why::ChangeUnderWay | Why::NoBatchSystem)
    }

    /// Whether a repetition of the call would get the same answer: nothing about it is a matter of time.
    pub fn is_final(&self) -> bool {
        !self.is_passing() && !matches!(self, Why::Silence)
    }

    /// The state in which the reservation was found, where that is why.
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
                "the share of the resource, in percent, that your jobs outside reservations ask for"
            }
            Limit::JobTime => "the time limit, in seconds, of a job outside reservations",
        })
    }
}

fn sentence(reason: Reason) -> &'static str {
    match reason {
        Reason::TooWide => "it takes more than there is",
        Reason::NoWindow => "its window is shorter than its duration, or over",
        Reason::NoRoom => "running jobs, promised jobs or reservations leave no room in the window",
        Reason::NotAdmitted => {
            "there is room, but taking it would delay waiting jobs more than the site allows"
        }
    }
}

fn no_candidate(tried: u32, all: bool) -> String {
    let searched = if all {
        "nothing else that was offered would do"
    } else {
        "others were quicker, or the search stopped at its bound; ask again"
    };
    match (tried, all) {
        (0, true) => "no combination of the slots that were offered fulfils the request".to_owned(),
        (0, false) => "no combination was found before the search stopped at its bound".to_owned(),
        (1, _) => format!("the one combination that was tried could not be held; {searched}"),
        _ => format!("none of {tried} combinations could be held; {searched}"),
    }
}
