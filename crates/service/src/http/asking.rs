//! Who asks, as handlers get it: [`Asking`] is anybody whom the gate knows, [`Changing`] somebody who may book and
//! change, [`Registering`] somebody who may register peers. Which of them a handler takes says who may use its route.

use super::audit::Line;
use super::problem::Refusal;
use crate::security::{Identity, Role};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use bookahead_api::Code;
use bookahead_party::{Origin, Viewer};
use bookahead_protocol::{Caller, Name};
use std::sync::Arc;

/// Somebody asks.
#[derive(Clone)]
pub(super) struct Asking(Arc<Inner>);

struct Inner {
    identity: Identity,
    origin: Origin,
    line: Option<Arc<Line>>,
}

/// Somebody who may book and change.
pub(super) struct Changing(pub(super) Asking);

/// Somebody who may register peers.
pub(super) struct Registering(pub(super) Asking);

impl Asking {
    pub(super) fn new(identity: Identity, origin: Origin, line: Option<Arc<Line>>) -> Asking {
        Asking(Arc::new(Inner { identity, origin, line }))
    }

    /// Who.
    pub(super) fn user(&self) -> &Name {
        &self.0.identity.user
    }

    /// As one who calls the party.
    pub(super) fn caller(&self) -> Caller {
        self.0.identity.caller()
    }

    /// As one who only looks at one reservation. The party knows operators, and no readers: who may see everything is
    /// shown it as if he were one.
    pub(super) fn looking_caller(&self) -> Caller {
        let mut caller = self.caller();
        let operator = Name::from(Role::Operator.word());
        if self.viewer().sees_all && !caller.roles.contains(&operator) {
            caller.roles.push(operator);
        }
        caller
    }

    /// As one who looks.
    pub(super) fn viewer(&self) -> Viewer {
        self.0.identity.viewer()
    }

    /// Whose things are meant where somebody names an owner, or nobody: what belongs to others only for those who may
    /// see it.
    pub(super) fn whose(&self, owner: Option<Name>) -> Result<Option<Name>, Refusal> {
        let viewer = self.viewer();
        match owner {
            Some(owner) if !viewer.sees(&owner) => {
                let why = format!("{} may not see what belongs to {owner}; leave owner out", viewer.user);
                Err(Refusal::new(Code::Forbidden, why))
            }
            None if !viewer.sees_all => Ok(Some(viewer.user)),
            owner => Ok(owner),
        }
    }

    /// How the request came here.
    pub(super) fn origin(&self) -> Origin {
        self.0.origin.clone()
    }

    /// What is logged of the request, if it is to change something.
    pub(super) fn line(&self) -> Option<&Arc<Line>> {
        self.0.line.as_ref()
    }

    /// Notes for the log what the request is about.
    pub(super) fn is_about(&self, subject: &impl ToString) {
        if let Some(line) = self.line() {
            line.note_subject(subject.to_string());
        }
    }

    fn unless_forbidden(self, may: bool, what: &str, roles: &str) -> Result<Asking, Refusal> {
        let forbidden = || {
            Refusal::new(
                Code::Forbidden,
                format!("{} may not {what}; that takes the role {roles}", self.user()),
            )
        };
        if may { Ok(self) } else { Err(forbidden()) }
    }
}

impl<S: Sync> FromRequestParts<S> for Asking {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Asking, Refusal> {
        // Every route whose handler asks for this stands behind the guard.
        let found = parts.extensions.get::<Asking>().cloned();
        found.ok_or_else(|| Refusal::internal("nobody has asked who calls; this is a defect"))
    }
}

impl<S: Sync> FromRequestParts<S> for Changing {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Changing, Refusal> {
        let asking = Asking::from_request_parts(parts, state).await?;
        let may = asking.0.identity.may_change();
        asking.unless_forbidden(may, "book or change anything", "user or operator").map(Changing)
    }
}

impl<S: Sync> FromRequestParts<S> for Registering {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Registering, Refusal> {
        let asking = Asking::from_request_parts(parts, state).await?;
        let may = asking.0.identity.may_register();
        asking.unless_forbidden(may, "register sites", "broker or operator").map(Registering)
    }
}
