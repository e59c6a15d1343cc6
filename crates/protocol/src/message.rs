//! Calls and answers. A site and a broker answer the same calls, so a client need not know which one it talks
//! to, and a broker can be a resource of another broker.

use crate::clock::Millis;
use crate::description::Description;
use crate::ids::{ChangeId, JobId, Key, Name, ReservationId};
use crate::life_cycle::{Because, State};
use crate::problem::Problem;
use crate::request::Request;
use crate::sharing::{Consents, Guests};
use crate::tres::Tres;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A call with its idempotency key and its caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Envelope {
    /// The same for every repetition of this call.
    pub key: Key,
    /// The user on whose behalf the call is made.
    pub caller: Caller,
    /// The operation.
    pub call: Call,
}

/// A call to be sent to a peer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outgoing {
    /// Name of the peer.
    pub to: Name,
    /// The call.
    pub envelope: Envelope,
}

/// The user behind a call.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// Owner of new reservations; limits count per user.
    pub user: Name,
    /// Roles that limits may depend on. The role "operator" may act on reservations of others.
    pub roles: Vec<Name>,
}

/// The operations of a site or a broker.
#[allow(missing_docs, reason = "`id` is the reservation that it is about")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// Which slots are available? Books nothing.
    Probe {
        /// The request to find slots for.
        request: Request,
        /// Most offers to return.
        most: u32,
        /// Preferred starts, because another part could start then.
        starts: Vec<Time>,
    },
    /// Hold capacity until a deadline. The client chooses the id, so a repeated call cannot reserve twice.
    Reserve {
        /// Id of the new reservation.
        id: ReservationId,
        /// The request: one possible start (fixed) or a window (flexible).
        request: Request,
        /// Requested hold time; less may be granted.
        hold_for: Millis,
        /// Commit at once. Needs the highest access level.
        book: bool,
    },
    /// Prolong a hold.
    Hold {
        id: ReservationId,
        /// Requested hold time from now; less may be granted.
        hold_for: Millis,
    },
    /// Move the end to a later instant, with the capacity that the reservation has at its end.
    Extend {
        id: ReservationId,
        /// Refuse if the reservation is no longer at this version.
        version: Option<u32>,
        /// The new end.
        end: Time,
    },
    /// Make a hold final, with or without waiting jobs that are to run in it.
    Commit {
        id: ReservationId,
        /// Jobs to attach, as far as they are known.
        jobs: Vec<JobId>,
    },
    /// Attach one more job to a committed reservation.
    Attach { id: ReservationId, part: usize, job: JobId },
    /// Change the terms of a committed reservation. The old terms stay if the new ones are not available.
    /// Once it is active, only its end can move and its capacity can only shrink.
    Change {
        id: ReservationId,
        /// Refuse if the reservation is no longer at this version.
        version: Option<u32>,
        /// The new terms.
        request: Request,
    },
    /// Prepare new terms: old and new terms are both guaranteed until [`Call::FinishChange`] arrives or the
    /// time is up; then the old terms stay.
    PrepareChange {
        id: ReservationId,
        /// Chosen by the client; a repetition has no further effect.
        change: ChangeId,
        /// Refuse if the reservation is no longer at this version.
        version: Option<u32>,
        /// The new terms.
        terms: NewTerms,
        /// How long to keep both terms; less may be granted.
        hold_for: Millis,
    },
    /// Accept the prepared terms, or keep the old ones.
    FinishChange { id: ReservationId, change: ChangeId, accept: bool },
    /// Release capacity early, part of it or all that remains.
    Release {
        id: ReservationId,
        /// Index of the part. None means the only part, and is refused if there are several.
        part: Option<usize>,
        /// When to release it; an instant in the past means now.
        from: Time,
        /// Capacity to keep.
        keep: Capacity,
        /// Whether to end the jobs inside that have no room in what is kept. Otherwise the release is refused.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        end_jobs: bool,
    },
    /// Give up the reservation.
    Cancel { id: ReservationId },
    /// Show the reservation.
    Show { id: ReservationId },
}

/// New terms of a reservation.
#[allow(clippy::large_enum_variant, reason = "most are requests")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NewTerms {
    /// As in [`Call::Change`].
    Request(Request),
    /// As in [`Call::Extend`]: unchanged, but until this end.
    Until(Time),
}

impl Call {
    /// The request that it carries, to complete it.
    pub fn request_mut(&mut self) -> Option<&mut Request> {
        match self {
            Call::Probe { request, .. }
            | Call::Reserve { request, .. }
            | Call::Change { request, .. }
            | Call::PrepareChange { terms: NewTerms::Request(request), .. } => Some(request),
            _ => None,
        }
    }
}

/// The answer to a call.
#[allow(clippy::large_enum_variant, reason = "most answers are reservations")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// To a probe: the available offers, best first.
    Offers(Vec<Offer>),
    /// The reservation after the call.
    Reservation(Reservation),
    /// The call was refused, or failed.
    Problem(Box<Problem>),
}

impl Answer {
    /// Approximate memory use. Bounds on recorded answers count these bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Answer::Offers(offers) => {
                offers.iter().map(|offer| offer.slots.len()).sum::<usize>() * SLOT_BYTES
            }
            Answer::Reservation(shown) => {
                let slots = shown.slots.len() + shown.prepared.len() + shown.replaced.len();
                let shared = shown.shared_with.iter().chain(shown.consents.keys());
                let shared = shared.map(|user| user.as_str().len()).sum::<usize>();
                slots * SLOT_BYTES
                    + shown.jobs.len() * size_of::<(usize, JobId)>()
                    + shown.description.bytes()
                    + shared
            }
            Answer::Problem(problem) => problem.bytes(),
        }
    }
}

/// Approximate memory use of a slot: its numbers and up to four names.
const SLOT_BYTES: usize = 512;

/// One way to satisfy a request: one slot for each part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// In the order of the parts.
    pub slots: Vec<Slot>,
}

/// A start, end and capacity on one resource. Which ratings it has depends on what the site reveals.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The resource, under the name that the answering party uses.
    pub resource: Name,
    /// The site of the resource.
    pub site: Name,
    /// For a link: the two sites that it joins.
    pub joins: Option<[Name; 2]>,
    /// Start and end, if it starts as early as possible.
    pub interval: Interval,
    /// Capacity of the slot.
    pub capacity: Capacity,
    /// Amounts of things beside the capacity.
    #[serde(default, skip_serializing_if = "Tres::is_empty")]
    pub tres: Tres,
    /// It may start later by up to this much, as of now. Ratings are for the earliest start. In an offer with
    /// several parts the others may have to start later too: for each start of one part in its range, the
    /// others have starts in theirs that together satisfy the request.
    pub slack: Seconds,
    /// Capacity free throughout the slot, even if it starts later. None if the site does not reveal it.
    pub free: Option<Capacity>,
    /// Amounts of the requested things that are free throughout the slot. Empty if the site does not reveal it.
    #[serde(default, skip_serializing_if = "Tres::is_empty")]
    pub free_tres: Tres,
    /// How well it suits the site.
    pub rating: Option<Rating>,
    /// Its effect on waiting jobs.
    pub impact: Option<Impact>,
    /// Price in thousandths of a currency unit.
    pub cost: u64,
}

/// How well a slot suits its site, from 0 to 1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rating(pub u32);

/// The effect of a slot on waiting jobs, without naming them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Impact {
    /// Number of jobs that would start later.
    pub delayed: u32,
    /// Sum of the delays.
    pub total_delay: Seconds,
    /// Longest delay of one job.
    pub longest_delay: Seconds,
}

/// A reservation as its owner may see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reservation {
    /// Chosen by the client that reserved it.
    pub id: ReservationId,
    /// The user it belongs to.
    pub owner: Name,
    /// Its place in the life cycle.
    pub state: State,
    /// The reserved slots, one for each part.
    pub slots: Vec<Slot>,
    /// Remaining time of a hold or of a prepared change. A duration, not an instant, because clocks of
    /// parties may differ.
    pub held_for: Option<Millis>,
    /// The new terms of a prepared change, one slot for each part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<Slot>,
    /// Attached jobs with the index of their part.
    pub jobs: Vec<(usize, JobId)>,
    /// Capacity missing from each part because resources failed.
    pub missing: Vec<Capacity>,
    /// Whether it is complete.
    #[serde(default)]
    pub condition: Condition,
    /// Losses that a broker noticed, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// Parts that a broker replaced after their sites lost them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replacement>,
    /// Why it was given up, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Because>,
    /// Why it was refused, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<Refused>,
    /// Incremented with every change of terms.
    pub version: u32,
    /// Name, note and labels.
    #[serde(default, skip_serializing_if = "Description::is_empty")]
    pub description: Description,
    /// Other users that may see it and run jobs in it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub shared_with: BTreeSet<Name>,
    /// Answers of these users.
    #[serde(default, skip_serializing_if = "Consents::is_empty")]
    pub consents: Consents,
    /// When it was granted first. None if a journal of an older version did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<Time>,
    /// The current request, only in the answer to [`Call::Show`]: requests can be large, and other answers are
    /// recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Box<Request>>,
}

/// The reason of a refusal as it was told.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Refused {
    /// Stable code, such as "no-room".
    pub code: Name,
    /// Message for people.
    pub detail: String,
}

impl From<&Problem> for Refused {
    fn from(Problem { why, site, .. }: &Problem) -> Refused {
        let at = site.as_ref().map(|site| format!("{site}: ")).unwrap_or_default();
        Refused { code: why.code().into(), detail: format!("{at}{why}") }
    }
}

/// A promise to a part that is no longer kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Loss {
    /// Index of the part.
    pub part: usize,
    /// When the broker noticed.
    pub since: Time,
    /// The cause.
    pub why: Lost,
    /// Time of the next attempt to find a replacement, after a failed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal_at: Option<Time>,
}

/// A part that a broker replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replacement {
    /// Index of the part.
    pub part: usize,
    /// When it was replaced.
    pub at: Time,
    /// Its former slot.
    pub was: Slot,
    /// Why it was replaced.
    pub why: Lost,
}

/// Why a part no longer has its promised capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lost {
    /// Its site is short of capacity.
    Degraded,
    /// Its owner cancelled it at its site.
    GivenUp,
    /// An operator of its site cancelled it.
    Revoked,
    /// Its site ended it or could not keep it.
    Ended,
    /// Its site no longer knows it.
    Forgotten,
    /// A change was decided, but its site still has the old terms: the new ones were no longer available.
    NotChanged,
}

/// Whether a reservation is complete. Independent of its state: a degraded reservation still starts and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Condition {
    /// Complete.
    #[default]
    Whole,
    /// Capacity is missing; [`Reservation::missing`] has the amounts.
    Degraded,
    /// At least one part is gone.
    Broken,
}

impl Caller {
    /// Whether the caller may act on reservations of others.
    pub fn is_operator(&self) -> bool {
        self.roles.iter().any(|role| role.as_str() == "operator")
    }

    /// Whether the caller may see a reservation and run jobs in it: as its owner, as one of the users that it is
    /// shared with, or as an operator.
    pub fn may_use(&self, owner: &Name, guests: Guests<'_>) -> bool {
        self.may_act_for(owner) || guests.contains(&self.user)
    }

    /// Whether the caller may act on reservations of `owner`.
    pub fn may_act_for(&self, owner: &Name) -> bool {
        self.user == *owner || self.is_operator()
    }
}

impl Reservation {
    /// The users that it is shared with.
    pub fn guests(&self) -> Guests<'_> {
        Guests { shared_with: &self.shared_with, consents: &self.consents }
    }
}

impl Condition {
    /// From the missing capacity of each part.
    pub fn of(missing: &[Capacity]) -> Condition {
        let whole = missing.iter().all(|missing| *missing == Capacity::ZERO);
        if whole { Condition::Whole } else { Condition::Degraded }
    }

    /// Stable name, used in the API and in output.
    pub fn word(self) -> &'static str {
        match self {
            Condition::Whole => "whole",
            Condition::Degraded => "degraded",
            Condition::Broken => "broken",
        }
    }
}

impl Lost {
    /// Whether the whole part is gone.
    pub fn is_gone(self) -> bool {
        self != Lost::Degraded
    }

    /// Stable name, used in the API and in output.
    pub fn word(self) -> &'static str {
        match self {
            Lost::Degraded => "degraded",
            Lost::GivenUp => "given-up",
            Lost::Revoked => "revoked",
            Lost::Ended => "ended",
            Lost::Forgotten => "forgotten",
            Lost::NotChanged => "not-changed",
        }
    }
}

impl Rating {
    /// The best possible rating.
    pub const BEST: Rating = Rating(1_000_000);

    /// From a number between 0 and 1.
    pub fn of(share: f64) -> Rating {
        Rating((share.clamp(0.0, 1.0) * 1e6).round() as u32)
    }
}

impl Call {
    /// The reservation that the call is about. None for a probe.
    pub fn id(&self) -> Option<ReservationId> {
        match self {
            Call::Probe { .. } => None,
            Call::Reserve { id, .. }
            | Call::Hold { id, .. }
            | Call::Extend { id, .. }
            | Call::Commit { id, .. }
            | Call::Attach { id, .. }
            | Call::Change { id, .. }
            | Call::PrepareChange { id, .. }
            | Call::FinishChange { id, .. }
            | Call::Release { id, .. }
            | Call::Cancel { id }
            | Call::Show { id } => Some(*id),
        }
    }

    /// Whether the call changes nothing.
    pub fn only_asks(&self) -> bool {
        matches!(self, Call::Probe { .. } | Call::Show { .. })
    }

    /// Stable name, used in the API and in output.
    pub fn word(&self) -> &'static str {
        match self {
            Call::Probe { .. } => "probe",
            Call::Reserve { book: false, .. } => "reserve",
            Call::Reserve { book: true, .. } => "book",
            Call::Hold { .. } => "hold",
            Call::Extend { .. } => "extend",
            Call::Commit { .. } => "commit",
            Call::Attach { .. } => "attach",
            Call::Change { .. } => "change",
            Call::PrepareChange { .. } => "prepare-change",
            Call::FinishChange { .. } => "finish-change",
            Call::Release { .. } => "release",
            Call::Cancel { .. } => "cancel",
            Call::Show { .. } => "show",
        }
    }
}

impl Answer {
    /// The same answer, repeated `later` after the first time: the remaining hold time is counted from the
    /// moment of the answer.
    pub fn again(&self, later: Millis) -> Answer {
        let mut answer = self.clone();
        if let Answer::Reservation(Reservation { held_for: Some(left), .. }) = &mut answer {
            *left = Millis(left.0.saturating_sub(later.0).max(0));
        }
        answer
    }

    /// Stable name: the state of the reservation, or the code of the problem.
    pub fn word(&self) -> &'static str {
        match self {
            Answer::Offers(_) => "offers",
            Answer::Reservation(reservation) => reservation.state.word(),
            Answer::Problem(problem) => problem.why.code(),
        }
    }
}

impl From<Problem> for Answer {
    fn from(problem: Problem) -> Answer {
        Answer::Problem(Box::new(problem))
    }
}
