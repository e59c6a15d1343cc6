//! Who uses the web pages of a service.

use crate::description::NameText;
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
