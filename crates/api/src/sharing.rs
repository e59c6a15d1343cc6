//! Invitations: a reservation that another user shared, until it is accepted or declined.

use crate::convert::words;
use crate::description::NameText;
use bookahead_protocol as protocol;
use bookahead_protocol::Name;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

words! {
    /// Answer to an invitation.
    Consent = protocol::Consent {
        /// Accepted. Users in a common project with the owner have accepted without an answer.
        Accepted,
        /// Declined: the user does not see the reservation any more.
        Declined,
    }
}

/// The answer of the caller to an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"answer": "accepted"}))]
pub struct InvitationAnswer {
    /// The answer. It can be changed later.
    pub answer: Consent,
}

/// A user to block or unblock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct BlockedUser {
    /// Name of the user.
    #[param(value_type = NameText)]
    pub user: Name,
}

/// Users whose invitations are not shown to the caller.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct BlockedUsers {
    /// Sorted by name.
    #[schema(value_type = Vec<NameText>)]
    pub users: Vec<Name>,
}
