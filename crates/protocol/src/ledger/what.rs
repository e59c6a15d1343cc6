//! Ids and stable names of the events of a ledger.

use super::entry::What;
use crate::ids::ReservationId;

impl What {
    /// The reservation that the event is about, if it is about one.
    pub fn id(&self) -> Option<ReservationId> {
        match self {
            What::Requested { id, .. }
            | What::Granted { id, .. }
            | What::NotGranted { id, .. }
            | What::CommitRequested { id, .. }
            | What::Held { id, .. }
            | What::Refused { id, .. }
            | What::HeldLonger { id, .. }
            | What::Committed { id, .. }
            | What::Expired { id }
            | What::ChangeRequested { id, .. }
            | What::ChangePrepared { id, .. }
            | What::ChangeSettled { id, .. }
            | What::ChangeGivenUp { id, .. }
            | What::Released { id, .. }
            | What::RequestChanged { id, .. }
            | What::Begun { id }
            | What::Completed { id }
            | What::Cancelled { id, .. }
            | What::Terminated { id, .. }
            | What::CancelledBefore { id, .. }
            | What::Missing { id, .. }
            | What::Forgotten { id }
            | What::DenialForgotten { id, .. } => Some(*id),
            What::Lost { .. }
            | What::Restored { .. }
            | What::Waited { .. }
            | What::Asked { .. }
            | What::Answered { .. }
            | What::AnswerForgotten { .. } => None,
        }
    }

    /// Stable name, used in the API and in output.
    pub fn word(&self) -> &'static str {
        match self {
            What::Requested { .. } => "requested",
            What::Granted { .. } => "granted",
            What::NotGranted { .. } => "not-granted",
            What::CommitRequested { .. } => "commit-requested",
            What::Held { .. } => "held",
            What::Refused { .. } => "refused",
            What::HeldLonger { .. } => "held-longer",
            What::Committed { .. } => "committed",
            What::Expired { .. } => "expired",
            What::ChangeRequested { .. } => "change-requested",
            What::ChangePrepared { .. } => "change-prepared",
            What::ChangeSettled { .. } => "change-settled",
            What::ChangeGivenUp { .. } => "change-given-up",
            What::Released { .. } => "released",
            What::RequestChanged { .. } => "request-changed",
            What::Begun { .. } => "begun",
            What::Completed { .. } => "completed",
            What::Cancelled { .. } => "cancelled",
            What::Terminated { .. } => "terminated",
            What::CancelledBefore { .. } => "cancelled-before",
            What::Lost { .. } => "lost",
            What::Restored { .. } => "restored",
            What::Waited { .. } => "waited",
            What::Missing { .. } => "missing",
            What::Asked { .. } => "asked",
            What::Answered { .. } => "answered",
            What::Forgotten { .. } => "forgotten",
            What::DenialForgotten { .. } => "denial-forgotten",
            What::AnswerForgotten { .. } => "answer-forgotten",
        }
    }
}
