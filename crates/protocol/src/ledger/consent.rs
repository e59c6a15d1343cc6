//! Whoever keeps the machines of a resource has a word in what is promised on it: before room is taken it is asked, and
//! where it objects the call is refused, or put off, as if nothing had happened. What only gives room back is not asked
//! for.

use super::decision::Decision;
use super::event::What;
use super::{Handled, Ledger, Views};
use crate::clock::Moment;
use crate::ids::{Name, ReservationId};
use crate::message::Envelope;
use crate::problem::{Problem, Why};
use bookahead_plan::Span;

/// Room that is about to be taken for a reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taking {
    /// On which resource.
    pub resource: Name,
    /// For which reservation.
    pub id: ReservationId,
    /// Whose it is.
    pub owner: Name,
    /// All that it has now.
    pub has: Vec<Span>,
    /// All that it will have instead.
    pub takes: Vec<Span>,
}

/// Why room cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Objection {
    /// It will not be had. The call is refused for good.
    Refused(Why),
    /// It cannot be said now. The call gets an answer that nobody remembers, and may be repeated.
    NotNow(Why),
}

/// Says whether room may be taken, and takes it.
pub type Consent<'a> = dyn FnMut(&Taking) -> Result<(), Objection> + 'a;

impl Ledger {
    /// Takes a command as [`Ledger::handle`] does, but takes room only with consent.
    pub fn handle_with(
        &mut self,
        now: Moment,
        envelope: &Envelope,
        views: &Views,
        consent: &mut Consent<'_>,
    ) -> Handled {
        let mut course = self.tick(now);
        let answer = self.answer(envelope, views, consent, &mut course);
        Handled { answer, events: course.events, changes: course.changes }
    }

    /// The decision as it is with the consent of whoever keeps the resource; the error is what to say where that is put
    /// off.
    pub(super) fn consented(
        &self,
        decision: Decision,
        consent: &mut Consent<'_>,
    ) -> Result<Decision, Problem> {
        let Some(taking) = decision.events().iter().find_map(|what| self.taking(what)) else {
            return Ok(decision);
        };
        match consent(&taking) {
            Ok(()) => Ok(decision),
            Err(Objection::NotNow(why)) => Err(Problem::new(why)),
            Err(Objection::Refused(why)) => Ok(refused(decision, Problem::new(why))),
        }
    }

    /// The room that an event would take.
    fn taking(&self, what: &What) -> Option<Taking> {
        match what {
            What::Accepted { id, owner, resource, span, .. } => Some(Taking {
                resource: resource.clone(),
                id: *id,
                owner: owner.clone(),
                has: Vec::new(),
                takes: vec![*span],
            }),
            What::ChangeSettled { id, spans: Some(spans) }
            | What::Committed { id, late: Some(spans), .. } => {
                let entry = self.entries.get(id)?;
                let (resource, owner) = (entry.resource.clone(), entry.owner.clone());
                Some(Taking { resource, id: *id, owner, has: entry.takes(), takes: spans.clone() })
            }
            _ => None,
        }
    }
}

/// What happens instead where the room is not to be had.
fn refused(decision: Decision, problem: Problem) -> Decision {
    let events = decision.into_events().into_iter().filter_map(|what| match what {
        What::Accepted { id, owner, request, .. } => {
            Some(What::Refused { id, owner, request, problem: problem.clone() })
        }
        What::ChangeSettled { id, .. } => Some(What::ChangeSettled { id, spans: None }),
        // What was to be committed is not there.
        What::Committed { .. } => None,
        other => Some(other),
    });
    Decision::say_after(events.collect(), problem)
}
