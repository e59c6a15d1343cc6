//! What was decided, and how it is carried out: its events are applied one by one, and the answer is taken
//! from the book as it is then.

use super::Ledger;
use super::event::{Ticked, What};
use crate::clock::Moment;
use crate::ids::ReservationId;
use crate::message::Answer;
use crate::problem::{Problem, Why};

/// What is to happen, and what is to be said.
pub(super) struct Decision {
    events: Vec<What>,
    reply: Reply,
    waits: Option<ReservationId>,
}

enum Reply {
    /// The reservation as it is once the events have happened.
    View(ReservationId),
    Answer(Box<Answer>),
}

impl Decision {
    /// Nothing is to happen.
    pub(super) fn say(answer: impl Into<Answer>) -> Decision {
        Decision::say_after(Vec::new(), answer)
    }

    /// Something is to happen all the same.
    pub(super) fn say_after(events: Vec<What>, answer: impl Into<Answer>) -> Decision {
        Decision { events, reply: Reply::Answer(Box::new(answer.into())), waits: None }
    }

    /// The reservation is to be shown.
    pub(super) fn show(id: ReservationId) -> Decision {
        Decision::show_after(id, Vec::new())
    }

    /// The reservation is to be shown as it is afterwards.
    pub(super) fn show_after(id: ReservationId, events: Vec<What>) -> Decision {
        Decision { events, reply: Reply::View(id), waits: None }
    }

    /// The caller waits until the batch system has answered for this reservation.
    pub(super) fn wait_after(id: ReservationId, events: Vec<What>) -> Decision {
        Decision { waits: Some(id), ..Decision::show_after(id, events) }
    }

    /// The reservation whose caller waits.
    pub(super) fn waits(&self) -> Option<ReservationId> {
        self.waits
    }
}

impl From<Why> for Decision {
    fn from(why: Why) -> Decision {
        Decision::say(Problem::new(why))
    }
}

impl Ledger {
    pub(super) fn carry_out(&mut self, now: Moment, decision: Decision, course: &mut Ticked) -> Answer {
        self.happen(now, decision.events, course);
        match decision.reply {
            Reply::Answer(answer) => *answer,
            Reply::View(id) => match self.entries.get(&id) {
                Some(entry) => Answer::Reservation(self.view(now, id, entry)),
                None => Problem::new(Why::Unknown(id)).into(),
            },
        }
    }
}
