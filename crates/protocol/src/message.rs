//! Calls and answers. A site and a broker answer the same calls, so that whoever asks cannot tell them apart, and a
//! broker can be a resource of another broker.

use crate::clock::Millis;
use crate::ids::{ChangeId, JobId, Key, Name, ReservationId};
use crate::ledger::Because;
use crate::life_cycle::State;
use crate::problem::Problem;
use crate::request::Request;
use bookahead_plan::{Capacity, Interval, Seconds, Time};
use serde::{Deserialize, Serialize};

/// A call, and who makes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Envelope {
    /// The same for every repetition of this call.
    pub key: Key,
    /// On whose behalf.
    pub caller: Caller,
    /// What is asked.
    pub call: Call,
}

/// A call to be sent.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Outgoing {
    /// To which peer.
    pub to: Name,
    /// What.
    pub envelope: Envelope,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Caller {
    /// The owner of what is made, and the one whom limits count for.
    pub user: Name,
    /// What limits depend on beside the user, such as "operator".
    pub roles: Vec<Name>,
}

/// What can be asked of a site or a broker.
#[allow(missing_docs, reason = "`id` is the reservation that it is about")]
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Call {
    /// What could be had? Nothing is booked.
    Probe {
        /// What is wanted.
        request: Request,
        /// At most so many offers.
        most: u32,
        /// Begins that are of special interest, since something elsewhere could begin then.
        starts: Vec<Time>,
    },
    /// Hold this until its deadline; the requester makes the id.
    Reserve {
        /// The id of what is to be made.
        id: ReservationId,
        /// What is wanted: one begin (fixed), or a window to choose from (flexible).
        request: Request,
        /// How long the hold should last; less may be granted.
        hold_for: Millis,
        /// Commit at once what is held. This is a call of the highest level.
        book: bool,
    },
    /// Hold it longer.
    Hold {
        id: ReservationId,
        /// How long from now; less may be granted.
        hold_for: Millis,
    },
    /// Let it last longer: until this end, with the capacity that it has at its end.
    Extend {
        id: ReservationId,
        /// Only if it is still at this version.
        version: Option<u32>,
        /// Its new end.
        end: Time,
    },
    /// Make it final, with waiting jobs that are to run in it or without.
    Commit {
        id: ReservationId,
        /// Its jobs, as far as they are known.
        jobs: Vec<JobId>,
    },
    /// One more job for a committed reservation.
    Attach { id: ReservationId, part: usize, job: JobId },
    /// Other terms for a committed reservation; the old ones stand if the new ones cannot be had. Once it is active, only its end can
    /// change, and its capacity to less.
    Change {
        id: ReservationId,
        /// The version that the owner has seen; refused if it is no longer that one.
        version: Option<u32>,
        /// What is wanted now.
        request: Request,
    },
    /// Prepare other terms: old and new terms are both kept until [`Call::FinishChange`] comes or the time is up, when the old
    /// ones stand.
    PrepareChange {
        id: ReservationId,
        /// The name of this change; a repetition has no further effect.
        change: ChangeId,
        /// Only if it is still at this version.
        version: Option<u32>,
        /// What is wanted.
        terms: NewTerms,
        /// How long both should be kept; less may be granted.
        hold_for: Millis,
    },
    /// Take the terms that were prepared, or keep the old ones.
    FinishChange { id: ReservationId, change: ChangeId, accept: bool },
    /// Give back part of it, or all that is left of it, early.
    Release {
        id: ReservationId,
        /// Which part; None means the only one, and is refused where there are several.
        part: Option<usize>,
        /// From when on; what is past is past.
        from: Time,
        /// How much stays.
        keep: Capacity,
    },
    /// Give it up.
    Cancel { id: ReservationId },
    /// How is it?
    Show { id: ReservationId },
}

/// Terms that a reservation is to have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum NewTerms {
    /// As [`Call::Change`] would give them.
    Request(Request),
    /// As [`Call::Extend`] would give them: the same until this end.
    Until(Time),
}

/// What comes back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Answer {
    /// What could be had, the best first.
    Offers(Vec<Offer>),
    /// How the reservation is now.
    Reservation(Reservation),
    /// Why not.
    Problem(Box<Problem>),
}

impl Answer {
    /// The memory that it takes, roughly.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Answer::Offers(offers) => {
                offers.iter().map(|offer| offer.slots.len()).sum::<usize>() * SLOT_BYTES
            }
            Answer::Reservation(shown) => {
                let slots = shown.slots.len() + shown.prepared.len() + shown.replaced.len();
                slots * SLOT_BYTES + shown.jobs.len() * size_of::<(usize, JobId)>()
            }
            Answer::Problem(problem) => problem.bytes(),
        }
    }
}

/// The memory of a slot with its names, roughly.
const SLOT_BYTES: usize = 512;

/// A way to fulfil a request: one slot for each part.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Offer {
    /// In the order of the parts.
    pub slots: Vec<Slot>,
}

/// A concrete begin, end and capacity on one resource, with ratings as far as the site reveals them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Slot {
    /// The resource, by its name at whoever answers.
    pub resource: Name,
    /// The site of the resource.
    pub site: Name,
    /// Of a link: the sites that it joins.
    pub joins: Option<[Name; 2]>,
    /// From when until when.
    pub interval: Interval,
    /// How much.
    pub capacity: Capacity,
    /// It may also begin later, by up to so much, as far as is known at this moment. Ratings are those of the begin. In an
    /// offer of several parts the others may have to begin later too: for each begin of one part in its range there are begins of
    /// the others in theirs with which the offer fulfils the request.
    pub slack: Seconds,
    /// What is free throughout, also if it begins later, where the site tells.
    pub free: Option<Capacity>,
    /// How well it suits the site.
    pub rating: Option<Rating>,
    /// What it would do to waiting jobs.
    pub impact: Option<Impact>,
    /// What it costs, in thousandths.
    pub cost: u64,
}

/// How well a slot suits its site: from 0 to a million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rating(pub u32);

/// What a slot would do to waiting jobs, without saying whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Impact {
    /// How many would start later.
    pub delayed: u32,
    /// By how much in all.
    pub total_delay: Seconds,
    /// By how much at most.
    pub longest_delay: Seconds,
}

/// A reservation as its owner may see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Reservation {
    /// Its id.
    pub id: ReservationId,
    /// Whose it is.
    pub owner: Name,
    /// Where in its life it is.
    pub state: State,
    /// What is reserved, one slot for each part.
    pub slots: Vec<Slot>,
    /// Of a hold, and of a change that is prepared: how long it lasts from the moment of the answer, by the clock of whoever
    /// answers.
    pub held_for: Option<Millis>,
    /// The terms of a change that is prepared, one slot for each part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prepared: Vec<Slot>,
    /// The jobs attached, with the part they belong to.
    pub jobs: Vec<(usize, JobId)>,
    /// How much of each part is missing since resources failed.
    pub missing: Vec<Capacity>,
    /// Whether all of it is there.
    #[serde(default)]
    pub condition: Condition,
    /// What a broker has noticed to be gone or missing, by part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub losses: Vec<Loss>,
    /// Parts that a broker replaced since their sites lost them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replaced: Vec<Replacement>,
    /// Of what was given up: by whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_up: Option<Because>,
    /// Grows with every change of terms.
    pub version: u32,
}

/// Something that a part no longer has, though it was promised.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Loss {
    /// Which part.
    pub part: usize,
    /// When that was noticed.
    pub since: Time,
    /// Why.
    pub why: Lost,
    /// When the next replacement is looked for, where one was looked for and not found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal_at: Option<Time>,
}

/// A part that was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replacement {
    /// Which part.
    pub part: usize,
    /// When.
    pub at: Time,
    /// What it was before.
    pub was: Slot,
    /// Why it was replaced.
    pub why: Lost,
}

/// Why a part no longer has what was promised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lost {
    /// Capacity is missing at its site.
    Degraded,
    /// Its owner gave it up at its site.
    GivenUp,
    /// An operator of its site gave it up.
    Revoked,
    /// Its site ended it, or it could not be kept.
    Ended,
    /// Its site does not know it any more.
    Forgotten,
    /// A change was decided, and its site has the old terms: the new ones could not be had any more.
    NotChanged,
}

/// Whether all that was promised is there. Not a state: a reservation goes on with its life in any condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Condition {
    /// All of it.
    #[default]
    Whole,
    /// Capacity is missing; [`Reservation::missing`] says how much.
    Degraded,
    /// A part of it is gone.
    Broken,
}

impl Caller {
    /// Whether he may act on what belongs to others.
    pub fn is_operator(&self) -> bool {
        self.roles.iter().any(|role| role.as_str() == "operator")
    }

    /// Whether he may act on what belongs to an owner.
    pub fn may_act_for(&self, owner: &Name) -> bool {
        self.user == *owner || self.is_operator()
    }
}

impl Condition {
    /// Of a reservation of which this much is missing in each part.
    pub fn of(missing: &[Capacity]) -> Condition {
        let whole = missing.iter().all(|missing| *missing == Capacity::ZERO);
        if whole { Condition::Whole } else { Condition::Degraded }
    }

    /// A word for people and programs.
    pub fn word(self) -> &'static str {
        match self {
            Condition::Whole => "whole",
            Condition::Degraded => "degraded",
            Condition::Broken => "broken",
        }
    }
}

impl Lost {
    /// Whether nothing is left of the part.
    pub fn is_gone(self) -> bool {
        self != Lost::Degraded
    }

    /// A word for people and programs.
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
    /// As good as it gets.
    pub const BEST: Rating = Rating(1_000_000);

    /// Of a share between 0 and 1.
    pub fn of(share: f64) -> Rating {
        Rating((share.clamp(0.0, 1.0) * 1e6).round() as u32)
    }
}

impl Call {
    /// The reservation that it is about, if it is about one.
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

    /// Whether it changes nothing.
    pub fn only_asks(&self) -> bool {
        matches!(self, Call::Probe { .. } | Call::Show { .. })
    }

    /// A word for people and programs.
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
    /// The same answer, given again so much later: what is left of a hold is counted from the moment of the answer.
    pub fn again(&self, later: Millis) -> Answer {
        let mut answer = self.clone();
        if let Answer::Reservation(Reservation { held_for: Some(left), .. }) = &mut answer {
            *left = Millis(left.0.saturating_sub(later.0).max(0));
        }
        answer
    }

    /// A word for people and programs.
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
