//! Requests that are made from others: what a peer gets, and the short form that is remembered. Each field is decided here,
//! and only here: a field that is added to the request does not compile until its line is written.

use crate::request::{OnLoss, Part, Request};
use crate::sharing::Consents;

impl Request {
    /// The request for one of its parts, to hold or change it.
    pub(crate) fn for_part(&self, part: Part) -> Request {
        let Request {
            parts: _,
            constraints: _,
            objective,
            on_loss: _,
            webhook: _,
            description,
            shared_with,
            consents,
            attract,
        } = self;
        Request {
            parts: vec![part],
            // They are between parts, which a peer does not see.
            constraints: Vec::new(),
            objective: *objective,
            // The peer must not replace a lost part itself: only the broker knows the constraints.
            on_loss: OnLoss::Keep,
            // The owner would be notified twice.
            webhook: None,
            description: description.clone(),
            shared_with: shared_with.clone(),
            // Only batch systems that attract jobs need them. A peer of an earlier version would refuse the member.
            consents: if *attract { consents.clone() } else { Consents::new() },
            attract: *attract,
        }
    }

    /// The request for one of its parts, to ask for offers: what decides about them, and no texts.
    pub(crate) fn for_probe(&self, part: Part) -> Request {
        Request {
            on_loss: OnLoss::default(),
            description: self.description.for_placement(),
            consents: Consents::new(),
            ..self.for_part(part)
        }
    }

    /// The same times, capacities and places, without texts for people, users, requirements and constraints. Kept of
    /// reservations that were never used.
    pub(crate) fn shortened(&self) -> Request {
        let Request {
            parts,
            constraints: _,
            objective,
            on_loss,
            webhook: _,
            description,
            shared_with: _,
            consents: _,
            attract,
        } = self;
        let parts = parts.iter().map(|part| Part { requirements: Vec::new(), ..part.clone() });
        Request {
            objective: *objective,
            on_loss: *on_loss,
            description: description.for_placement(),
            attract: *attract,
            ..Request::new(parts.collect(), Vec::new())
        }
    }
}
