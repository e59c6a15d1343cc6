//! Refusals: a code for programs, a sentence for people, and, as far as the site reveals them, the blockers
//! and the changes that would be granted.

use crate::broker::name_here;
use crate::clock::Millis;
use crate::ids::{JobId, Key, Name, ReservationId};
use crate::life_cycle::{IllegalMove, State};
use crate::missing::Missing;
use crate::request::Malformed;
use crate::tres::Tres;
use bookahead_plan::placement::{Reason, Relaxation};
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A refusal or failure, with alternatives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Problem {
    /// The reason.
    pub why: Why,
    /// What blocks the start of the window, if the site reveals it.
    pub blockers: Box<[Blocker]>,
    /// The smallest tried delay with which the request would be granted.
    pub busy_for: Option<Seconds>,
    /// Changes that would be granted, each on its own.
    pub relaxations: Vec<Relaxation>,
    /// The site whose own rule it is, as the broker names it. None in the answer of a site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub site: Option<Box<Name>>,
}

fn usable_classes(usable: &[Name]) -> String {
    match usable {
        [] => "there is none for you: leave it out".to_owned(),
        _ => format!("use one of: {}", usable.iter().map(Name::as_str).collect::<Vec<_>>().join(", ")),
    }
}

fn jobs_inside(jobs: &[JobId], more: u32) -> String {
    let names = jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let others = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "jobs run or wait in it that have no room in what is kept: {names}{others}; cancel them or let them end first, \
         or release with end_jobs"
    )
}

/// A job or reservation that takes the requested capacity, without naming its owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Blocker {
    /// Job or reservation.
    pub kind: BlockerKind,
    /// When it takes the capacity, by estimates.
    pub interval: Interval,
    /// Only of maintenance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
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
    /// A maintenance window.
    Maintenance,
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
    /// No resource suits a part, whether free or not.
    #[error("{}", no_such_resource(.kind, .missing.as_deref(), .several.then_some(*.part)))]
    NoSuchResource {
        part: usize,
        kind: Name,
        /// Whether the request has several parts. Then the message names the part.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        several: bool,
        /// What no resource has, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        missing: Option<Box<Missing>>,
    },
    /// A matching resource exists, but has no slot.
    #[error("{}", sentence(*.0))]
    NoSlot(Reason),
    /// There is room for the capacity, but not for the things beside it.
    #[error("{}", short_of(.wanted, .free))]
    ShortOf {
        /// Requested amounts.
        wanted: Box<Tres>,
        /// The most of each that is free for the whole duration somewhere in the window.
        free: Box<Tres>,
    },
    /// Without the maintenance there would be a slot.
    #[error("maintenance `{name}` leaves no room in the window")]
    Maintenance {
        name: Name,
        /// End of the maintenance.
        until: Time,
        /// First start for which there is room, if there is any.
        not_before: Option<Time>,
    },
    /// A limit of the site for this user.
    #[error("{}", limit.sentence(*.most, *.asked))]
    Limit { limit: Limit, most: i64, asked: i64 },
    /// Less notice than the predicted wait in the queue.
    #[error("{}", too_soon(*.notice, *.wait, *.jobs, *.basis))]
    TooSoon {
        /// First start that would be allowed.
        not_before: Time,
        /// Notice that is needed.
        notice: Seconds,
        /// Predicted wait of the request as a job.
        wait: Seconds,
        /// Number of jobs that it was predicted from.
        jobs: u32,
        basis: Basis,
    },
    /// The user may not use this priority class, or there is no such class.
    #[error("you may not use the priority class {class} here; {}", usable_classes(.usable))]
    Priority {
        class: Name,
        /// Classes that the user may use.
        usable: Vec<Name>,
    },
    #[error("{0} is not known here")]
    Unknown(ReservationId),
    /// The state of the reservation does not allow it.
    #[error("{0}")]
    Illegal(#[from] IllegalMove),
    #[error("the hold expired before it was committed; reserve again")]
    Expired,
    /// The owner cancelled the id before a request with it arrived.
    #[error("{0} was cancelled before it was reserved; reserve with a new id")]
    CancelledBefore(ReservationId),
    /// The answer to a cancellation that arrives before its request, or has a wrong id.
    #[error("{0} is not known here; nothing was cancelled, and this id can no longer be reserved")]
    NothingToCancel(ReservationId),
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
    #[error("it has no parts[{0}] (counted from 0)")]
    NoSuchPart(usize),
    /// A release without a part, of a reservation with several.
    #[error("it has {0} parts; name the one to release, or cancel the reservation to release all")]
    WhichPart(usize),
    /// The release would give back nothing.
    #[error("{0}")]
    NotReleased(NotReleased),
    /// Jobs run or wait in the reservation that have no room in what would be left of it.
    #[error("{}", jobs_inside(.jobs, *.more))]
    JobsInside {
        /// The first of them.
        jobs: Vec<JobId>,
        /// Number of others.
        more: u32,
    },
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
    /// The clock may be wrong since the start, so nothing new is promised.
    #[error(
        "the clock of this service is in doubt since its start, so it promises nothing new yet; try again later, or another \
         site; its operator finds the reason in its health and its log"
    )]
    ClockInDoubt,
    /// The batch system did not answer in time. A late grant is undone.
    #[error(
        "the site's batch system did not answer within {}; nothing was booked or changed; try again later",
        Seconds(.waited.0 / 1_000).in_words()
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

/// The jobs that a wait was predicted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Basis {
    /// The mean of all jobs.
    Mean,
    /// A quantile of jobs of similar size and duration.
    SimilarJobs,
    /// A quantile of all jobs, or their longest wait.
    AllJobs,
}

/// Operations that are not possible.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error, Serialize, Deserialize)]
pub enum Impossible {
    #[error("jobs can be attached only to a committed reservation; commit it first")]
    JobsOfAHold,
    #[error("it runs jobs of its guests that do not name it; accept the invitation first")]
    InvitationOpen,
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
        "the batch system of this site cannot share a reservation with other users; reserve for yourself only, or at another site"
    )]
    Sharing,
    #[error(
        "the batch system of this site cannot change who shares a reservation; cancel it and reserve again with these users"
    )]
    SharingLater,
    #[error(
        "the batch system of this site cannot run jobs in a reservation that they do not name; reserve without that, and name it in jobs"
    )]
    Attract,
    #[error(
        "this site does not let jobs run in a reservation that they do not name; reserve without that, and name it in jobs"
    )]
    AttractForbidden,
    #[error(
        "whether jobs run in it that do not name it is fixed when it is reserved; cancel it and reserve again"
    )]
    AttractLater,
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
        Problem {
            why: why.into(),
            blockers: Box::default(),
            busy_for: None,
            relaxations: Vec::new(),
            site: None,
        }
    }

    /// A refusal as the broker of this peer tells it: a rule of one site says which site.
    pub fn of_peer(mut self, peer: &Name) -> Problem {
        if self.why.is_rule() {
            let site = self.site.as_ref().map_or_else(|| peer.clone(), |site| name_here(peer, site));
            self.site = Some(Box::new(site));
        }
        self
    }
}

impl<W: Into<Why>> From<W> for Problem {
    fn from(why: W) -> Problem {
        Problem::new(why)
    }
}

impl Why {
    /// No resource suits a part of a request with this many parts.
    pub fn no_such_resource(part: usize, parts: usize, kind: Name, missing: Option<Missing>) -> Why {
        Why::NoSuchResource { part, kind, several: parts > 1, missing: missing.map(Box::new) }
    }

    /// Stable name for programs. Never changes.
    pub fn code(&self) -> &'static str {
        match self {
            Why::Malformed(_) => "malformed",
            Why::OnePartOnly(_) => "one-part-only",
            Why::NoSuchResource { .. } => "no-such-resource",
            Why::NoSlot(reason) => reason.code(),
            Why::ShortOf { .. } | Why::Maintenance { .. } => Reason::NoRoom.code(),
            Why::Limit { .. } | Why::TooSoon { .. } | Why::Priority { .. } => "limit",
            Why::Unknown(_) => "unknown",
            Why::Illegal(_) => "illegal",
            Why::Expired => "expired",
            Why::CancelledBefore(_) | Why::NothingToCancel(_) => "cancelled-before",
            Why::NotOwner(_) => "not-owner",
            Why::IdTaken(_) => "id-taken",
            Why::KeyTaken(_) => "key-taken",
            Why::Changed { .. } => "changed",
            Why::NotPrepared => "not-prepared",
            Why::ChangeUnderWay => "change-under-way",
            Why::NoSuchPart(_) => "no-such-part",
            Why::WhichPart(_) => "which-part",
            Why::NotReleased(_) => "not-released",
            Why::JobsInside { .. } => "jobs-inside",
            Why::NoCandidate { .. } => "no-candidate",
            Why::Silence => "silence",
            Why::Interrupted => "interrupted",
            Why::PartLost => "part-lost",
            Why::Busy => "busy",
            Why::NotGranted(_) => "not-granted",
            Why::NoBatchSystem => "no-batch-system",
            Why::ClockInDoubt => "clock-in-doubt",
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

    /// Whether there is no room, which may be different a moment later.
    pub fn is_full(&self) -> bool {
        matches!(
            self,
            Why::NoSlot(_) | Why::ShortOf { .. } | Why::Maintenance { .. } | Why::NoCandidate { .. }
        )
    }

    /// Whether a rule or a decision of one site forbids it, whatever is free there.
    pub fn is_rule(&self) -> bool {
        matches!(
            self,
            Why::Limit { .. }
                | Why::TooSoon { .. }
                | Why::Priority { .. }
                | Why::Maintenance { .. }
                | Why::Unsupported(_)
                | Why::NotGranted(_)
        )
    }

    /// Whether nothing was decided. Such an answer is not recorded, and the same call may be repeated.
    pub fn is_passing(&self) -> bool {
        matches!(self, Why::Busy | Why::ChangeUnderWay | Why::NoBatchSystem | Why::ClockInDoubt)
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

impl Limit {
    /// The message of a refusal, with lengths of time in hours and days.
    fn sentence(self, most: i64, asked: i64) -> String {
        let count = |what: &str, unit: &str| {
            format!("{what} is limited to {most}{unit} here, and this would make it {asked}{unit}")
        };
        let (long, longer) = (Seconds(most).in_words(), Seconds(asked.max(0)).in_words());
        match self {
            Limit::Count => count("the number of your reservations", ""),
            Limit::Area => format!(
                "your reservations are limited to {} capacity-hours here, and this would make it {}",
                hours(most),
                hours(asked.saturating_add(AREA_STEP - 1))
            ),
            Limit::Horizon => {
                format!("a reservation may end at most {long} from now here, and this would end in {longer}")
            }
            Limit::Notice => format!(
                "a reservation must be requested at least {long} before its start here, and this leaves {longer}"
            ),
            Limit::Share => count("your share of the resource", "%"),
            Limit::Jobs => count("the number of your jobs outside reservations", ""),
            Limit::JobShare => count("the share of the resource of your jobs outside reservations", "%"),
            Limit::JobTime => {
                format!("a job outside reservations may run for at most {long} here, not for {longer}")
            }
        }
    }
}

/// A hundredth of a capacity-hour, in capacity-seconds.
const AREA_STEP: i64 = 36;

/// Capacity-seconds as capacity-hours, rounded down to hundredths.
fn hours(area: i64) -> String {
    let hundredths = area.max(0) / AREA_STEP;
    match hundredths % 100 {
        0 => format!("{}", hundredths / 100),
        rest => format!("{}.{rest:02}", hundredths / 100),
    }
}

fn too_soon(notice: Seconds, wait: Seconds, jobs: u32, basis: Basis) -> String {
    let wait = wait.in_words();
    let waited = match basis {
        Basis::Mean => format!("jobs waited {wait} on average lately"),
        Basis::SimilarJobs => format!("jobs that asked for this much waited up to {wait} lately"),
        Basis::AllJobs => format!("jobs waited up to {wait} lately"),
    };
    let counted = if jobs == 1 { "1 job" } else { &format!("{jobs} jobs") };
    format!("{waited} ({counted}), and a reservation needs {} of notice here", notice.in_words())
}

fn no_such_resource(kind: &Name, missing: Option<&Missing>, part: Option<usize>) -> String {
    let sentence = match missing {
        Some(missing) => missing.sentence(kind),
        None => format!("no resource of kind {kind} has the required capacity and attributes"),
    };
    match part {
        Some(part) => format!("parts[{part}]: {sentence}"),
        None => sentence,
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

fn short_of(wanted: &Tres, free: &Tres) -> String {
    let short = wanted.iter().find(|(name, amount)| *amount > free.of(name));
    match short {
        Some((name, amount)) => format!(
            "not enough {name} in the window: {amount} requested, at most {} free for the whole duration",
            free.of(name)
        ),
        None => format!("{wanted} and the capacity are free in the window, but not at the same time"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_told_in_units_that_people_use() {
        let text = |limit, most, asked| Why::Limit { limit, most, asked }.to_string();
        assert_eq!(
            text(Limit::Horizon, 14 * 86_400, 15 * 86_400 + 7_200),
            "a reservation may end at most 14 days from now here, and this would end in 15 days 2h"
        );
        assert_eq!(
            text(Limit::Notice, 5_400, -3),
            "a reservation must be requested at least 1h 30m before its start here, and this leaves 0s"
        );
        assert_eq!(
            text(Limit::Area, 72_000, 72_001),
            "your reservations are limited to 20 capacity-hours here, and this would make it 20.01"
        );
        assert_eq!(
            text(Limit::Share, 50, 63),
            "your share of the resource is limited to 50% here, and this would make it 63%"
        );
        assert_eq!(
            text(Limit::JobTime, 3_600, 3_601),
            "a job outside reservations may run for at most 1h here, not for 1h 1s"
        );
    }

    #[test]
    fn a_part_is_named_only_beside_others() {
        let text = |parts| Why::no_such_resource(0, parts, "qpu".into(), None).to_string();
        assert_eq!(text(1), "no resource of kind qpu has the required capacity and attributes");
        assert!(text(2).starts_with("parts[0]: no resource"));
    }

    #[test]
    fn a_refusal_of_an_earlier_version_is_read() {
        let old = r#"{"NoSuchResource":{"part":0,"kind":"qpu"}}"#;
        let why: Why = serde_json::from_str(old).unwrap();
        assert_eq!(why, Why::no_such_resource(0, 1, "qpu".into(), None));
        assert_eq!(serde_json::to_string(&why).unwrap(), old);
    }
}
