//! What web pages need beside the API: who uses them, and times as people type them.

use crate::description::NameText;
use crate::time::Timestamp;
use bookahead_protocol::Name;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::fmt;
use utoipa::ToSchema;

/// The session of a browser.
#[skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Session {
    /// The user. Missing if nobody is signed in.
    pub user: Option<SessionUser>,
    /// Ways to sign in.
    pub sign_in: SignInWays,
}

/// A user who is signed in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SessionUser {
    /// Name of the user.
    #[schema(value_type = NameText)]
    pub name: Name,
    /// Whether the user may see and change everything.
    pub operator: bool,
}

/// How a user can sign in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignInWays {
    /// With a token.
    pub token: bool,
    /// At an identity provider.
    pub oidc: bool,
    /// With any name, because the service has no authentication.
    pub choose_user: bool,
}

/// Signs a browser in: with a token, or with a name where there is no authentication.
#[skip_serializing_none]
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignIn {
    /// The token.
    pub token: Option<String>,
    /// The name.
    #[schema(value_type = Option<NameText>)]
    pub user: Option<Name>,
}

/// Without the token.
impl fmt::Debug for SignIn {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SignIn").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The address of a calendar, when it is made.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarAddress {
    /// Path below the URL of the service. Anyone who has it can read the calendar; it cannot be shown again.
    pub path: String,
}

/// Without the secret.
impl fmt::Debug for CalendarAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CalendarAddress").finish_non_exhaustive()
    }
}

/// Whether a user's calendar has an address.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CalendarAddressState {
    /// When it was made. Missing if there is none.
    pub made: Option<Timestamp>,
}

/// A text to read as a time or a length of time, as on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({ "text": "tomorrow 9am", "zone": "Europe/Zurich", "kind": "time" }))]
pub struct TypedText {
    /// The text.
    pub text: String,
    /// Time zone of the user, by its IANA name. Default: UTC.
    pub zone: Option<String>,
    /// What it should be.
    pub kind: TypedKind,
}

/// What a text should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TypedKind {
    /// A time, such as `tomorrow 9am` or `in 2 hours`.
    Time,
    /// A length of time, such as `2h30m`.
    Length,
}

/// What a text means.
#[skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TypedValue {
    /// The time.
    pub time: Option<Timestamp>,
    /// The length in seconds.
    pub seconds: Option<i64>,
}
