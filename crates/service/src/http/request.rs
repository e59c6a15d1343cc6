//! Contents of a request: body, id in the path, query parameters, and idempotency key, with which one call at a
//! time is in progress. Errors are problems that name the place.

use super::answer::Refusal;
use super::limits::Checked;
use super::requester::{Changing, Requester};
use super::{MOST_OPEN_BODY, Shared};
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use bookahead_api::Code;
use bookahead_api::header::IDEMPOTENCY_KEY;
use bookahead_protocol::{JobId, Key, Name, ReservationId};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub(super) struct Document<T>(pub(super) T);

/// A document whose fields all have defaults: an empty body is the same as an empty object.
pub(super) struct OrNothing<T>(pub(super) T);

impl<T: DeserializeOwned + Checked + Send + 'static> FromRequest<Arc<Shared>> for Document<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Document<T>, Refusal> {
        must_be_json(request.headers())?;
        let bytes = arrived(request, shared).await?;
        parse(bytes, shared).await.map(Document)
    }
}

impl<T: DeserializeOwned + Checked + Send + 'static> FromRequest<Arc<Shared>> for OrNothing<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<OrNothing<T>, Refusal> {
        let said = must_be_json(request.headers());
        let bytes = arrived(request, shared).await?;
        // A body of spaces only is neither empty nor JSON.
        if bytes.is_empty() {
            return parse_now(b"{}", shared).map(OrNothing);
        }
        said?;
        parse(bytes, shared).await.map(OrNothing)
    }
}

/// Accepts `application/json` and types with the suffix `+json`.
fn must_be_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let essence =
        given.as_deref().and_then(|text| text.split(';').next()).unwrap_or("").trim().to_ascii_lowercase();
    let json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    let wrong = || {
        let given = given.map_or_else(|| "not given".to_owned(), |given| format!("{given:?}"));
        let why = format!("Content-Type is {given}; send application/json");
        Refusal::new(Code::UnsupportedMediaType, why)
    };
    if json { Ok(()) } else { Err(wrong()) }
}

async fn arrived(request: Request, shared: &Arc<Shared>) -> Result<Bytes, Refusal> {
    // Behind the guard, which has read the body already, there is a requester.
    let is_open = request.extensions().get::<Requester>().is_none();
    // A client that sends slowly is disconnected ([`super::serve`]).
    let arrived = Bytes::from_request(request, shared).await;
    arrived.map_err(|rejection| {
        let limit = if is_open { BodyLimit::Open } else { BodyLimit::Configured(shared.limits.most_body) };
        broken(&rejection, limit)
    })
}

/// Which limit of a body applies.
#[derive(Clone, Copy)]
pub(super) enum BodyLimit {
    /// That of routes without authentication.
    Open,
    Configured(usize),
}

pub(super) fn broken(rejection: &BytesRejection, limit: BodyLimit) -> Refusal {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        let why = match limit {
            BodyLimit::Open => {
                format!(
                    "the body is larger than {MOST_OPEN_BODY} bytes, the limit of calls without authentication"
                )
            }
            BodyLimit::Configured(most) => {
                format!("the body is larger than {most} bytes, the limit server.most_body of this service")
            }
        };
        return Refusal::new(Code::TooLarge, why);
    }
    Refusal::bad_request(format!("the body did not arrive completely: {}", rejection.body_text()))
}

/// Bodies above this size are parsed one at a time, outside the threads that serve requests. A body of 64 KiB takes about
/// half a millisecond, an acceptable delay for other requests; most requests have less than 2 KiB.
const LARGE_BODY: usize = 64 * 1024;

async fn parse<T>(bytes: Bytes, shared: &Arc<Shared>) -> Result<T, Refusal>
where
    T: DeserializeOwned + Checked + Send + 'static,
{
    if bytes.len() <= LARGE_BODY {
        return parse_now(&bytes, shared);
    }
    // Kept until the parsing ends, even if the client leaves: the work cannot be aborted.
    let turn = shared.large_bodies.clone().acquire_owned().await;
    let shared = shared.clone();
    let parsed = tokio::task::spawn_blocking(move || {
        let _turn = turn;
        parse_now(&bytes, &shared)
    });
    parsed.await.map_err(|why| Refusal::internal(format!("the body could not be parsed: {why}")))?
}

fn parse_now<T: DeserializeOwned + Checked>(bytes: &[u8], shared: &Shared) -> Result<T, Refusal> {
    // serde accepts a list of values in place of an object.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Refusal::new(Code::BadJson, "the body is a list; send a JSON object"));
    }
    let read = Json::<T>::from_bytes(bytes);
    let Json(document) = read.map_err(|rejection| Refusal::new(Code::BadJson, rejection.body_text()))?;
    document.check(&shared.limits)?;
    Ok(document)
}

pub(super) struct Id<T>(pub(super) T);

pub(super) struct Filters<T>(pub(super) T);

impl<T: FromStr<Err: Display>, S: Send + Sync> FromRequestParts<S> for Id<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Id<T>, Refusal> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(text) = path.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
        identity(&text).map(Id)
    }
}

/// Parses an id. `parse` would accept a plus sign in its number.
pub(super) fn identity<T: FromStr<Err: Display>>(text: &str) -> Result<T, Refusal> {
    if text.contains('+') {
        return Err(Refusal::bad_request(format!("{text:?} is not an id; remove the plus sign")));
    }
    text.parse().map_err(|why: T::Err| Refusal::bad_request(why.to_string()))
}

impl<T: DeserializeOwned + Checked> FromRequestParts<Arc<Shared>> for Filters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Filters<T>, Refusal> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        let Query(filters) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
        filters.check(&shared.limits)?;
        Ok(Filters(filters))
    }
}

/// Longest key in characters.
const LONGEST: usize = 255;

/// Most calls in progress, to bound the memory of keys.
const MOST_UNDER_WAY: usize = 16_384;

/// Idempotency key of a call, and values derived from it.
#[derive(Debug, Clone)]
pub(super) struct CallKey {
    /// Key of the call at the party.
    pub(super) key: Key,
    seed: Vec<u8>,
}

/// A required key.
pub(super) struct Required(pub(super) CallKey);

/// A command about one reservation or job. Without a key it gets a random one.
pub(super) struct Command<T> {
    pub(super) shared: Arc<Shared>,
    pub(super) requester: Requester,
    pub(super) id: T,
    pub(super) key: Key,
}

impl CallKey {
    /// Key for a text of a user. Keys of different users never collide.
    fn of(user: &Name, text: &str) -> CallKey {
        // Neither names nor keys contain the separator.
        let seed = [user.as_str().as_bytes(), &[0], text.as_bytes()].concat();
        CallKey { key: Key(half_digest(&seed)), seed }
    }

    /// A random key.
    pub(super) fn new() -> Result<CallKey, Refusal> {
        let mut seed = vec![0; 32];
        let drawn = SystemRandom::new().fill(&mut seed);
        drawn.map_err(|_| Refusal::internal("the system provides no random numbers"))?;
        Ok(CallKey { key: Key(half_digest(&seed)), seed })
    }

    /// Id for a reservation without one; the same for repetitions of the call.
    pub(super) fn reservation(&self) -> ReservationId {
        ReservationId(self.derived(b"reservation"))
    }

    /// Id for a job without one; the same for repetitions of the call.
    pub(super) fn job(&self) -> JobId {
        JobId(self.derived(b"job"))
    }

    pub(super) fn derived(&self, purpose: &[u8]) -> u128 {
        half_digest(&[self.seed.as_slice(), &[0], purpose].concat())
    }
}

fn half_digest(bytes: &[u8]) -> u128 {
    let whole = digest(&SHA256, bytes);
    whole.as_ref().iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Text of the key, if there is one.
fn text(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut all = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(one) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(Refusal::bad_request("there are several Idempotency-Key headers; send one"));
    }
    let read = one.to_str().ok().and_then(|text| unquoted(text.trim()));
    let read = read.filter(|text| (1..=LONGEST).contains(&text.len()));
    let why = || {
        let form = "it must be a string in quotes, such as \"8e03978e-40d5\"";
        Refusal::bad_request(format!(
            "Idempotency-Key is invalid: {form}, of 1 to {LONGEST} visible characters"
        ))
    };
    read.map(Some).ok_or_else(why)
}

/// Parses a structured string (RFC 8941), or a text without quotes.
fn unquoted(text: &str) -> Option<String> {
    let Some(rest) = text.strip_prefix('"') else {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'"');
        return visible.then(|| text.to_owned());
    };
    let mut inside = rest.strip_suffix('"')?.chars();
    let mut plain = String::new();
    while let Some(next) = inside.next() {
        plain.push(match next {
            '\\' => inside.next().filter(|escaped| matches!(escaped, '"' | '\\'))?,
            ' '..='~' if next != '"' => next,
            _ => return None,
        });
    }
    Some(plain)
}

/// The key of a request, if there is one. Behind the guard, which has identified the caller.
async fn given<S: Sync>(parts: &mut Parts, state: &S) -> Result<Option<CallKey>, Refusal> {
    let requester = Requester::from_request_parts(parts, state).await?;
    let key = text(&parts.headers)?.map(|text| CallKey::of(requester.user(), &text));
    if let (Some(key), Some(line)) = (&key, requester.line()) {
        line.note_key(key.key);
    }
    Ok(key)
}

impl<S: Sync> FromRequestParts<S> for Required {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Required, Refusal> {
        let missing = || {
            let why = "this call needs an Idempotency-Key, such as Idempotency-Key: \"8e03978e-40d5\": make a new one \
                       for every new call, and send the same one when you repeat a call";
            Refusal::new(Code::NoKey, why)
        };
        given(parts, state).await?.map(Required).ok_or_else(missing)
    }
}

impl<T: FromStr<Err: Display> + Send> FromRequestParts<Arc<Shared>> for Command<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Command<T>, Refusal> {
        let Changing(requester) = Changing::from_request_parts(parts, shared).await?;
        let Id(id) = Id::from_request_parts(parts, shared).await?;
        let key = given(parts, shared).await?.map_or_else(CallKey::new, Ok)?.key;
        Ok(Command { shared: shared.clone(), requester, id, key })
    }
}

/// Keys of calls in progress.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<HashSet<Key>>);

/// Marks a call as in progress until dropped.
pub(super) struct Turn {
    key: Key,
    under_way: Arc<UnderWay>,
}

impl UnderWay {
    fn keys(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Starts a call, unless one with this key is in progress.
    pub(super) fn begin(&self, key: Key) -> Result<Turn, Refusal> {
        let mut keys = self.under_way.keys();
        if keys.contains(&key) {
            let why =
                "the same call is in progress; repeat it in a moment, with the same key, to get its answer";
            return Err(Refusal::new(Code::KeyInFlight, why));
        }
        if keys.len() >= MOST_UNDER_WAY {
            self.metrics.turned_away("keys");
            return Err(Refusal::new(
                Code::Unavailable,
                "too many calls are in progress; try again in a moment",
            ));
        }
        keys.insert(key);
        Ok(Turn { key, under_way: self.under_way.clone() })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.under_way.keys().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<Option<String>, Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(IDEMPOTENCY_KEY, value.parse().unwrap());
        text(&headers)
    }

    #[test]
    fn a_key_is_a_quoted_text_or_a_plain_one() {
        for (value, said) in [
            ("\"8e03978e\"", "8e03978e"),
            ("8e03978e", "8e03978e"),
            (" \"with a space\" ", "with a space"),
            (r#""a \"quoted\" \\ one""#, r#"a "quoted" \ one"#),
        ] {
            assert_eq!(read(value), Ok(Some(said.into())), "{value}");
        }
        assert_eq!(text(&HeaderMap::new()), Ok(None));
        let long = "x".repeat(255);
        assert_eq!(read(&long), Ok(Some(long.clone())));
        for wrong in
            ["", "\"\"", "\"", "two words", "a\"b", "\"a\"b\"", "\"a\\n\"", "\"a\";b=1", &format!("{long}x")]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_same_text_of_two_users_makes_two_keys() {
        let of = |user: &str, text: &str| CallKey::of(&user.into(), text);
        assert_eq!(of("ada", "1").key, of("ada", "1").key);
        assert_eq!(of("ada", "1").reservation(), of("ada", "1").reservation());
        assert_ne!(of("ada", "1").key, of("grace", "1").key);
        assert_ne!(of("ada", "1").key, of("ad", "a1").key);
        assert_ne!(of("ada", "1").reservation().0, of("ada", "1").job().0);
        assert_ne!(of("ada", "1").reservation(), of("ada", "2").reservation());
        assert_ne!(CallKey::new().unwrap().key, CallKey::new().unwrap().key);
    }
}
