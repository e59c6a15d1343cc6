//! One line in the log for every request that is to change something: who, what, and what came of it. Written when
//! the last who has to do with the request lets go of it, so that there is one even where the client has left
//! meanwhile. Tokens and other headers never get here.

use super::problem::Refusal;
use crate::security::Identity;
use axum::http::Method;
use bookahead_protocol::{Key, Name};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where peers say that they are there.
const SITES: &str = "/v1/sites";

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
        // A peer that says that it is there, again and again, changes nothing worth keeping.
        if self.route == SITES && noted.outcome.as_deref().is_some_and(|outcome| outcome.starts_with('2')) {
            return;
        }
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

/// Of somebody who was not let in: that he tried.
pub(super) fn turned_away(method: &Method, route: &str, refusal: &Refusal) {
    tracing::info!(target: "audit", method = method.as_str(), route, outcome = refusal.code());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::Role;
    use std::collections::BTreeSet;
    use std::fmt::Debug;
    use std::sync::Arc;
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    /// Keeps what is logged for the audit.
    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<String>>>);

    impl Subscriber for Kept {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "audit"
        }

        fn event(&self, event: &Event<'_>) {
            let mut fields = Fields(String::new());
            event.record(&mut fields);
            self.0.lock().unwrap().push(fields.0);
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    struct Fields(String);

    impl Visit for Fields {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            self.0 += &format!("{field}={value:?} ");
        }
    }

    #[test]
    fn a_request_leaves_one_line_when_the_last_has_let_go_of_it() {
        let kept = Kept::default();
        tracing::subscriber::with_default(kept.clone(), || {
            let identity = Identity {
                user: "ada".into(),
                roles: BTreeSet::from([Role::User]),
                through: Some("grid".into()),
            };
            let line = Arc::new(Line::new(&identity, &Method::POST, "/v1/reservations"));
            let task = line.clone();
            line.note_key(Key(0x4f));
            task.note_subject("rsv_7".into());
            drop(line);
            assert!(kept.0.lock().unwrap().is_empty());
            task.note_outcome("accepted");
            task.note_outcome("201");
        });
        let lines = kept.0.lock().unwrap();
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        for field in [
            "user=\"ada\"",
            "through=\"grid\"",
            "method=\"POST\"",
            "route=\"/v1/reservations\"",
            "subject=\"rsv_7\"",
            "key=\"key_4f\"",
            "outcome=\"accepted\"",
        ] {
            assert!(line.contains(field), "{field} in {line}");
        }
    }
}
