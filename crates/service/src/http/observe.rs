//! What all answers have in common, and the observability of requests: the trace (W3C Trace Context), which is passed on with every call that a request
//! causes; duration and status for metrics; and, if a request may change something or is refused, one audit line
//! with caller, address, subject and outcome. The line is written even if the client has disconnected. Tokens never
//! get here.

use super::answer::Refusal;
use super::listener::PeerAddress;
use super::serve::peer;
use super::{Shared, requester};
use crate::security::Identity;
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bookahead_api::Code;
use bookahead_protocol::{Key, Name};
use ring::rand::{SecureRandom, SystemRandom};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tracing::Instrument;

/// Routes that say nothing about promises.
const OPEN_WITHOUT_LEASE: [&str; 2] = ["/v1/health", "/metrics"];

/// Middleware that traces and counts a request.
pub(super) async fn observe(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = word(request.method());
    // Unknown paths share one label. Otherwise any client could create new ones without end.
    let route =
        request.extensions().get::<MatchedPath>().map_or("none".into(), |path| path.as_str().to_owned());
    let traced = Traced::of(request.headers());
    let span = tracing::info_span!("request", method, route, trace = traced.id());
    request.extensions_mut().insert(traced);
    let mut response = next.run(request).instrument(span).await;
    // After the work: a process that was paused must not answer from a state that another one has changed since.
    if !shared.party.lease().is_held() && !OPEN_WITHOUT_LEASE.contains(&route.as_str()) {
        let why = "this process has lost its lease, and ends; repeat the call with the same key";
        response = Refusal::new(Code::Unavailable, why).into_response();
    }
    shared.metrics.answered(&route, method, response.status().as_u16(), began.elapsed());
    // Answers differ by caller. Another user of the browser, or of a proxy, must not find them in its cache.
    response.headers_mut().entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    requester::tell_clock(shared.party.clock(), response.headers_mut());
    response
}

/// Unknown methods share one label, because clients can invent them.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}

/// Trace of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Traced {
    /// Value of `traceparent` for calls that the request causes.
    pub(super) trace: Option<Arc<str>>,
}

impl Traced {
    /// Parses the headers of a request.
    pub(super) fn of(headers: &HeaderMap) -> Traced {
        let mut all = headers.get_all("traceparent").iter();
        // A request with several values has no valid trace (W3C Trace Context, 3.2).
        let (Some(one), None) = (all.next(), all.next()) else { return Traced::default() };
        let trace = one.to_str().ok().and_then(Parent::read).and_then(|parent| parent.handed_on());
        Traced { trace: trace.map(Into::into) }
    }

    pub(super) fn id(&self) -> Option<&str> {
        self.trace.as_deref().and_then(|text| text.get(3..35))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Parent<'a> {
    trace: &'a str,
    sampled: bool,
}

impl Parent<'_> {
    fn read(text: &str) -> Option<Parent<'_>> {
        let mut fields = text.trim().split('-');
        let (version, trace, parent, flags) =
            (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
        let known = version != "00" || fields.next().is_none();
        let shape = is_hex(version, 2) && is_hex(trace, 32) && is_hex(parent, 16) && is_hex(flags, 2);
        let says = version != "ff" && has_digit(trace) && has_digit(parent);
        let flags = u8::from_str_radix(flags, 16).ok()?;
        (known && shape && says).then_some(Parent { trace, sampled: flags & 1 == 1 })
    }

    /// The same trace with a new parent, in the version known here.
    fn handed_on(&self) -> Option<String> {
        let mut parent = [0; 8];
        SystemRandom::new().fill(&mut parent).ok()?;
        let parent = u64::from_be_bytes(parent).max(1);
        Some(format!("00-{}-{parent:016x}-{:02x}", self.trace, u8::from(self.sampled)))
    }
}

fn is_hex(text: &str, length: usize) -> bool {
    text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// All zeros is invalid in both ids.
fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte != b'0')
}

/// Path of registrations.
const SITES: &str = "/v1/sites";

pub(super) struct Line {
    user: Name,
    through: Option<Name>,
    address: Option<PeerAddress>,
    /// Whether the request may change something. Of other requests only those with status 403 are logged.
    changes: bool,
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
    pub(super) fn new(identity: &Identity, request: &Request) -> Line {
        Line {
            user: identity.user.clone(),
            through: identity.through.clone(),
            address: peer(request.extensions()).map(|peer| peer.address),
            changes: requester::changes(request),
            method: request.method().clone(),
            route: requester::route(request).to_owned(),
            noted: Mutex::default(),
        }
    }

    fn noted(&self) -> MutexGuard<'_, Noted> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Id of the reservation, job or site.
    pub(super) fn note_subject(&self, subject: String) {
        self.noted().subject = Some(subject);
    }

    pub(super) fn note_key(&self, key: Key) {
        self.noted().key = Some(key);
    }

    /// Records the outcome. The first value counts, because it is the most specific one.
    pub(super) fn note_outcome(&self, outcome: &str) {
        self.noted().outcome.get_or_insert_with(|| outcome.to_owned());
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let noted = std::mem::take(&mut *self.noted());
        // Heartbeats repeat every few seconds and would fill the audit log.
        if self.route == SITES && noted.outcome.as_deref().is_some_and(|outcome| outcome.starts_with('2')) {
            return;
        }
        if !self.changes && noted.outcome.as_deref() != Some(Code::Forbidden.word()) {
            return;
        }
        tracing::info!(
            target: "audit",
            user = self.user.as_str(),
            through = self.through.as_ref().map(Name::as_str),
            address = self.address.map(tracing::field::display),
            method = self.method.as_str(),
            route = self.route,
            subject = noted.subject,
            key = noted.key.map(|key| key.to_string()),
            outcome = noted.outcome.as_deref().unwrap_or("unanswered"),
        );
    }
}

/// Logs a request that was refused before its caller was identified.
pub(super) fn turned_away(request: &Request, refusal: &Refusal) {
    tracing::info!(
        target: "audit",
        address = peer(request.extensions()).map(|peer| tracing::field::display(peer.address)),
        method = request.method().as_str(),
        route = requester::route(request),
        outcome = refusal.code(),
    );
}

#[cfg(test)]
mod trace_tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

    #[test]
    fn a_valid_trace_is_handed_on_with_another_parent() {
        let mut headers = HeaderMap::new();
        let given = format!("00-{TRACE}-00f067aa0ba902b7-01");
        headers.insert("traceparent", given.parse().unwrap());
        let traced = Traced::of(&headers);
        let handed_on = traced.trace.as_deref().unwrap();
        assert_eq!(traced.id(), Some(TRACE));
        assert_ne!(handed_on, given);
        assert_eq!(Parent::read(handed_on), Some(Parent { trace: TRACE, sampled: true }));
        headers.append("traceparent", given.parse().unwrap());
        assert!(Traced::of(&headers).trace.is_none(), "two of them say nothing");
    }

    #[test]
    fn what_is_no_trace_is_none() {
        let zeros = "0".repeat(32);
        for wrong in [
            String::new(),
            "00".into(),
            format!("00-{TRACE}-00f067aa0ba902b7"),
            format!("00-{TRACE}-00f067aa0ba902b7-01-more"),
            format!("ff-{TRACE}-00f067aa0ba902b7-01"),
            format!("00-{}-00f067aa0ba902b7-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00-{zeros}-00f067aa0ba902b7-01"),
            format!("00-{TRACE}-00f067aa0ba902b-01"),
            format!("00-{TRACE}-00f067aa0ba902b7-0"),
        ] {
            assert_eq!(Parent::read(&wrong), None, "{wrong}");
        }
        let later = format!("01-{TRACE}-00f067aa0ba902b7-00-more");
        assert_eq!(Parent::read(&later), Some(Parent { trace: TRACE, sampled: false }));
    }
}

#[cfg(test)]
mod audit_tests {
    use super::super::serve::Peer;
    use super::*;
    use crate::security::Role;
    use axum::body::Body;
    use axum::extract::ConnectInfo;
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
            let address = PeerAddress::Tcp(([192, 0, 2, 7], 4711).into());
            let peer = Peer { address, certificate: None };
            let mut request = Request::post("/v1/reservations").body(Body::empty()).unwrap();
            request.extensions_mut().insert(ConnectInfo(peer));
            let line = Arc::new(Line::new(&identity, &request));
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
            "address=192.0.2.7:4711",
            "subject=\"rsv_7\"",
            "key=\"key_4f\"",
            "outcome=\"accepted\"",
        ] {
            assert!(line.contains(field), "{field} in {line}");
        }
    }
}
