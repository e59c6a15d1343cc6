//! What happens to jobs at a broker, what is sent because of it, and the rules. Plain values; nothing here decides.

use bookahead_api as api;
use bookahead_plan::{Interval, Seconds, Time};
use bookahead_protocol::jobs::race::Ask;
use bookahead_protocol::jobs::{Patience, choice, race};
use bookahead_protocol::{Caller, Envelope, JobId, Key, Millis, Name, ReservationId};
use serde::{Deserialize, Serialize};

/// Something that happened to a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Somebody gave it to the broker.
    Submitted {
        /// Its id.
        id: JobId,
        /// The key of the call.
        key: Key,
        /// Whose it is.
        caller: Caller,
        /// What it is.
        asked: Box<api::SubmitJob>,
        /// When.
        at: Time,
        /// The brokers that it came through.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        via: Vec<Name>,
        /// Of one that names a reservation: the part of it that it runs in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<Box<PartThere>>,
    },
    /// Something happened to the choice of its site.
    Choice {
        /// Of which job.
        id: JobId,
        /// What.
        event: choice::Event,
    },
    /// Something happened to its copies.
    Flood {
        /// Of which job.
        id: JobId,
        /// What.
        event: race::Event,
    },
    /// The site has it.
    Handed {
        /// Which job.
        id: JobId,
    },
    /// Its owner no longer wants it.
    Unwanted {
        /// Which job.
        id: JobId,
    },
    /// It is over.
    Over {
        /// How it was in the end.
        job: Box<api::Job>,
        /// When the broker learnt it.
        at: Time,
    },
}

/// A part of a reservation, at the peer that holds it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartThere {
    /// The peer.
    pub site: Name,
    /// The id that it has there.
    pub reservation: ReservationId,
    /// The resource, by its name there.
    pub resource: Name,
    /// Which of the parts of the reservation it is here.
    pub number: usize,
    /// When it begins and ends.
    pub when: Interval,
}

/// Something to be sent because of a job.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::broker) struct Errand {
    /// To whom.
    pub(in crate::broker) to: Name,
    /// What.
    pub(in crate::broker) what: What,
    /// The brokers that the job came through.
    pub(in crate::broker) via: Vec<Name>,
}

/// What is to be sent because of a job.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::broker) enum What {
    /// A call about a reservation.
    Call(Envelope),
    /// Give it to a site.
    Submit(Caller, Box<api::SubmitJob>),
    /// Ask the site how it is.
    Look(Caller, JobId),
    /// Have the site end it.
    Drop(Caller, JobId),
}

impl What {
    /// On whose behalf, about which job, and what is asked; None where it is no errand about a job.
    pub(in crate::broker) fn about(&self) -> Option<(&Caller, JobId, Ask)> {
        Some(match self {
            What::Call(_) => return None,
            What::Submit(caller, asked) => (caller, asked.id?, Ask::Submit),
            What::Look(caller, id) => (caller, *id, Ask::Look),
            What::Drop(caller, id) => (caller, *id, Ask::Drop),
        })
    }
}

/// How a broker deals with jobs.
#[derive(Debug, Clone, Copy)]
pub struct Rules {
    /// A reservation for a job begins no sooner than after this.
    pub notice: Millis,
    /// How long the sites are asked to hold.
    pub hold_for: Millis,
    /// How long they may take to answer.
    pub answer_within: Millis,
    /// How often what is not answered is repeated.
    pub patience: Patience,
    /// How often a job in a reservation is looked after.
    pub look_every: Millis,
    /// How the copies of a job are looked after.
    pub flood: race::Pace,
    /// A job without a latest end must have ended so long after it was submitted.
    pub usual_window: Seconds,
    /// How long what is over is remembered.
    pub retention: Seconds,
}

/// What is to be done: first written, then sent.
#[derive(Debug, Default)]
pub(in crate::broker) struct Effects {
    /// To be written.
    pub(in crate::broker) events: Vec<Event>,
    /// To be sent.
    pub(in crate::broker) errands: Vec<Errand>,
}
