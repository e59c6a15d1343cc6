//! HTTP requests and answers: method, path, query, body and headers; answers of bounded size, and the clock of the
//! server. An answer that does not have the expected form is an error.

use crate::error::ClientError;
use bookahead_api::operation::Method;
use bookahead_api::{Problem, Timestamp, header};
use bookahead_protocol::{Caller, Key};
use reqwest::Response;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH, RETRY_AFTER};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::time::{Duration, Instant};

#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<String>,
}

impl Order {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Order {
        Order { method, path: path.into(), query: Vec::new(), headers: HeaderMap::new(), body: None }
    }

    pub(crate) fn get(path: impl Into<String>) -> Order {
        Order::new(Method::Get, path)
    }

    /// Adds the fields of a flat struct as query parameters.
    pub(crate) fn with_query(mut self, query: &impl Serialize) -> Result<Order, ClientError> {
        let document = serde_json::to_value(query).map_err(|why| bad("the query", &why))?;
        // Cannot happen: every query is a struct, which serializes to an object.
        let Value::Object(members) = document else { return Ok(self) };
        self.query = members.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect();
        Ok(self)
    }

    pub(crate) fn with_body(mut self, document: &impl Serialize) -> Result<Order, ClientError> {
        self.body = Some(serde_json::to_string(document).map_err(|why| bad("the document", &why))?);
        Ok(self)
    }

    /// Adds an idempotency key. A key with quotes or non-ASCII characters is an error.
    pub(crate) fn with_key(self, key: &str) -> Result<Order, ClientError> {
        let quoted = format!("\"{key}\"");
        // Validated with the server's parser, so that a key that the server would refuse is never sent.
        header::read_idempotency_key(&quoted).map_err(|why| bad("the key", &why))?;
        self.with_header("the key", HeaderName::from_static(header::IDEMPOTENCY_KEY), &quoted)
    }

    pub(crate) fn with_own_key(self, key: Key) -> Result<Order, ClientError> {
        self.with_key(&key.to_string())
    }

    /// Adds `If-Match`. `None` matches any version.
    pub(crate) fn with_version(self, version: Option<u32>) -> Result<Order, ClientError> {
        self.with_header("the version", IF_MATCH, &header::if_match(version))
    }

    pub(crate) fn with_header(
        mut self,
        what: &'static str,
        name: HeaderName,
        value: &str,
    ) -> Result<Order, ClientError> {
        self.headers.insert(name, value_of(what, value)?);
        Ok(self)
    }
}

pub(crate) fn behalf(caller: &Caller) -> HeaderMap {
    HeaderMap::from_iter([
        (HeaderName::from_static(header::USER), sendable(&header::name(&caller.user))),
        (HeaderName::from_static(header::ROLES), sendable(&header::names(&caller.roles))),
    ])
}

/// `names` is percent-encoded ASCII, so the conversion cannot fail. The fallback is an empty value and not a
/// missing header: servers refuse an empty user, but without the header they would act for the sender of the
/// request.
pub(crate) fn sendable(names: &str) -> HeaderValue {
    HeaderValue::from_str(names).unwrap_or(HeaderValue::from_static(""))
}

pub(crate) fn value_of(what: &'static str, text: &str) -> Result<HeaderValue, ClientError> {
    HeaderValue::from_str(text).map_err(|why| bad(what, &why))
}

fn bad(what: &'static str, why: &dyn ToString) -> ClientError {
    ClientError::BadHeader { what, why: why.to_string() }
}

fn plain(value: Value) -> Option<String> {
    match value {
        // A missing option is left out: servers would refuse an empty value for a number or a time.
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

/// Characters of an unexpected answer to quote in an error: enough to recognize an HTML page of a proxy.
const SHOWN: usize = 200;

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) url: String,
    pub(crate) status: u16,
    pub(crate) body: Vec<u8>,
    /// Shortest wait before the next attempt, from `Retry-After`.
    pub(crate) retry_after: Option<Duration>,
    /// Size of a job's output, and whether the job is over and this is the end.
    pub(crate) output: Option<(u64, bool)>,
}

impl Reply {
    /// Reads the body. If it is longer than `most`, the connection is dropped without reading the rest.
    pub(crate) async fn read(
        mut response: Response,
        within: Duration,
        most: usize,
    ) -> Result<Reply, ClientError> {
        let url = response.url().to_string();
        let (status, retry_after) = (response.status().as_u16(), retry_after(&response));
        let output = output_position(response.headers());
        let too_large = || ClientError::TooLarge { url: url.clone(), most };
        // `Content-Length` may be missing or wrong, so the loop below counts the bytes as well.
        if response
            .content_length()
            .is_some_and(|length| usize::try_from(length).map_or(true, |length| length > most))
        {
            return Err(too_large());
        }
        let mut body = Vec::new();
        loop {
            let chunk = response.chunk().await;
            let Some(chunk) = chunk.map_err(|why| ClientError::of_failure(&url, within, &why))? else {
                break;
            };
            if body.len() + chunk.len() > most {
                return Err(too_large());
            }
            body.extend_from_slice(&chunk);
        }
        Ok(Reply { url, status, body, retry_after, output })
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Parses the body of a successful answer. Any other answer is an error.
    pub(crate) fn document<T: DeserializeOwned>(self) -> Result<T, ClientError> {
        if !self.is_success() {
            return Err(self.refusal());
        }
        serde_json::from_slice(&self.body).map_err(|_| self.not_our_kind())
    }

    /// The body of a successful answer as text.
    pub(crate) fn text(self) -> Result<String, ClientError> {
        if !self.is_success() {
            return Err(self.refusal());
        }
        String::from_utf8(self.body).map_err(|why| {
            let beginning = beginning(why.as_bytes());
            ClientError::NotOurKind { url: self.url, status: self.status, beginning }
        })
    }

    /// The error for an unsuccessful answer.
    pub(crate) fn refusal(&self) -> ClientError {
        match serde_json::from_slice::<Problem>(&self.body) {
            Ok(problem) => ClientError::of_problem(problem),
            Err(_) => self.not_our_kind(),
        }
    }

    pub(crate) fn not_our_kind(&self) -> ClientError {
        let beginning = beginning(&self.body);
        ClientError::NotOurKind { url: self.url.clone(), status: self.status, beginning }
    }
}

/// The first bytes of a body, for error messages. A character cut in half is replaced.
pub(crate) fn beginning(body: &[u8]) -> String {
    String::from_utf8_lossy(&body[..body.len().min(SHOWN)]).into_owned()
}

fn output_position(headers: &HeaderMap) -> Option<(u64, bool)> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    Some((text(header::OUTPUT_SIZE)?.parse().ok()?, text(header::OUTPUT_ENDED)?.parse().ok()?))
}

/// Part of the output of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobOutput {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Position after them.
    pub next: u64,
    /// Size of the whole output so far.
    pub size: u64,
    /// Whether the job is over and these bytes are the last ones.
    pub ended: bool,
}

/// Reads seconds only. The HTTP date form is too rare to support.
fn retry_after(response: &Response) -> Option<Duration> {
    let text = response.headers().get(RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

/// Clock of a server at the time of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerClock {
    /// Time of the server when it answered.
    pub now: Timestamp,
    /// Speed of the clock relative to real time; at least 1.
    pub speed: u32,
    /// Local time when the answer arrived.
    pub told: Instant,
}

impl ServerClock {
    /// `None` if the headers are missing, as in answers of proxies and older servers.
    pub(crate) fn of(headers: &HeaderMap) -> Option<ServerClock> {
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let now = text(header::NOW)?.parse().ok()?;
        // Servers omit a speed of 1. Callers divide by it, so a zero from a faulty server is not accepted.
        let speed = text(header::CLOCK_SPEED).and_then(|speed| speed.parse().ok());
        Some(ServerClock { now, speed: speed.unwrap_or(1).max(1), told: Instant::now() })
    }
}
