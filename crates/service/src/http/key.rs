//! `Idempotency-Key`: a text that a client makes for a call and repeats with it
//! (draft-ietf-httpapi-idempotency-key-header). The party's [`Key`] is made from it and from the user, so that no user
//! can collide with another's. A call whose first sending is still under way is not begun a second time. What the
//! answer was, the party remembers.

use super::Shared;
use super::asking::Asking;
use super::problem::Refusal;
use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::request::Parts;
use bookahead_api::Code;
use bookahead_api::header::IDEMPOTENCY_KEY;
use bookahead_protocol::{JobId, Key, Name, ReservationId};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A key has at most so many characters.
const LONGEST: usize = 255;

/// So many calls may be under way.
const MOST_UNDER_WAY: usize = 16_384;

/// The key of a call, and what else follows from it.
#[derive(Debug, Clone)]
pub(super) struct CallKey {
    /// What the party knows the call by.
    pub(super) key: Key,
    seed: Vec<u8>,
}

/// A key that must be there.
pub(super) struct Required(pub(super) CallKey);

/// A key that may be there; where it is not, there is a new one for this one time.
pub(super) struct Optional(pub(super) CallKey);

impl CallKey {
    /// Of a text of a user.
    fn of(user: &Name, text: &str) -> CallKey {
        // Neither names nor keys have the byte between them.
        let seed = [user.as_str().as_bytes(), &[0], text.as_bytes()].concat();
        CallKey { key: Key(half_digest(&seed)), seed }
    }

    /// One that was never used.
    pub(super) fn new() -> Result<CallKey, Refusal> {
        let mut seed = vec![0; 32];
        let drawn = SystemRandom::new().fill(&mut seed);
        drawn.map_err(|_| Refusal::internal("the system has no random numbers"))?;
        Ok(CallKey { key: Key(half_digest(&seed)), seed })
    }

    /// The id of a reservation that brings none: the same whenever the call is repeated.
    pub(super) fn reservation(&self) -> ReservationId {
        ReservationId(self.derived(b"reservation"))
    }

    /// The id of a job that brings none: the same whenever the call is repeated.
    pub(super) fn job(&self) -> JobId {
        JobId(self.derived(b"job"))
    }

    fn derived(&self, purpose: &[u8]) -> u128 {
        half_digest(&[self.seed.as_slice(), &[0], purpose].concat())
    }
}

fn half_digest(bytes: &[u8]) -> u128 {
    let whole = digest(&SHA256, bytes);
    whole.as_ref().iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// The text of the key, if there is one.
fn text(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut all = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(one) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(Refusal::bad_request("there are several Idempotency-Key headers; send one"));
    }
    let read = one.to_str().ok().and_then(|text| unquoted(text.trim()));
    let read = read.filter(|text| (1..=LONGEST).contains(&text.len()));
    let why = || {
        let form = "it should be a text in quotes, such as \"8e03978e-40d5\"";
        Refusal::bad_request(format!(
            "Idempotency-Key cannot be read: {form}, of 1 to {LONGEST} visible characters"
        ))
    };
    read.map(Some).ok_or_else(why)
}

/// What a structured string says, or a text without quotes.
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

/// The key of a request, where it has one. The guard has noted who asks.
async fn given<S: Sync>(parts: &mut Parts, state: &S) -> Result<Option<CallKey>, Refusal> {
    let asking = Asking::from_request_parts(parts, state).await?;
    let key = text(&parts.headers)?.map(|text| CallKey::of(asking.user(), &text));
    if let (Some(key), Some(line)) = (&key, asking.line()) {
        line.note_key(key.key);
    }
    Ok(key)
}

impl<S: Sync> FromRequestParts<S> for Required {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Required, Refusal> {
        let missing = || {
            let why = "what makes something needs an Idempotency-Key, such as Idempotency-Key: \"8e03978e-40d5\": make a new one \
                       for every new call, and send the same one when you repeat a call";
            Refusal::new(Code::NoKey, why)
        };
        given(parts, state).await?.map(Required).ok_or_else(missing)
    }
}

impl<S: Sync> FromRequestParts<S> for Optional {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Optional, Refusal> {
        given(parts, state).await?.map_or_else(CallKey::new, Ok).map(Optional)
    }
}

/// Keys whose calls are not answered yet.
#[derive(Default)]
pub(super) struct UnderWay(Mutex<HashSet<Key>>);

/// A call is under way for as long as this is there.
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
    /// Begins a call, unless it is under way already.
    pub(super) fn begin(&self, key: Key) -> Result<Turn, Refusal> {
        let mut keys = self.under_way.keys();
        if keys.contains(&key) {
            let why =
                "the same call is under way; repeat it in a moment, with the same key, to get its answer";
            return Err(Refusal::new(Code::KeyInFlight, why));
        }
        if keys.len() >= MOST_UNDER_WAY {
            self.metrics.turned_away("keys");
            return Err(Refusal::new(
                Code::Unavailable,
                "too many calls are under way; ask again in a moment",
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
