//! One line in the log for every request that is to change something: who, what, and what came of it. Written when the last who
//! has to do with the request lets go of it, so that there is one even where the client has left meanwhile. Tokens and other
//! headers never get here.

use crate::security::Identity;
use axum::http::Method;
use bookahead_protocol::{Key, Name};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is logged of a request.
pub(super) struct Line {
    user: Name,
    through: Option<Name>,
    method: Method,
    route: String,
    noted: Mutex<Noted>,
}

#[derive(Default)]
struct Noted {
    subject: Option<String>,
    key: Option<Key>,
    outcome: Option<String>,
}

impl Line {
    /// Of a request of somebody.
    pub(super) fn new(identity: &Identity, method: &Method, route: &str) -> Line {
        Line {
            user: identity.user.clone(),
            through: identity.through.clone(),
            method: method.clone(),
            route: route.to_owned(),
            noted: Mutex::default(),
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The reservation, job or site that it is about.
    pub(super) fn note_subject(&self, subject: String) {
        self.noted().subject = Some(subject);
    }

    /// The key of the call.
    pub(super) fn note_key(&self, key: Key) {
        self.noted().key = Some(key);
    }

    /// What came of it; the first who knows says it.
    pub(super) fn note_outcome(&self, outcome: &str) {
        self.noted().outcome.get_or_insert_with(|| outcome.to_owned());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let noted = std::mem::take(&mut *self.noted());
        tracing::info!(
            target: "audit",
            user = self.user.as_str(),
            through = self.through.as_ref().map(Name::as_str),
            method = self.method.as_str(),
            route = self.route,
            subject = noted.subject,
            key = noted.key.map(|key| key.to_string()),
            outcome = noted.outcome.as_deref().unwrap_or("unanswered"),
        );
    }
}
