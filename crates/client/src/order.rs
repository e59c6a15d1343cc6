//! One request, ready to be sent, once or again: everything that stays the same from try to try.

use crate::error::ClientError;
use bookahead_api::header;
use bookahead_api::operation::Method;
use bookahead_protocol::{Caller, Key};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, IF_MATCH};
use serde::Serialize;
use serde_json::Value;

/// A request.
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

    /// With the fields of a document that has only plain ones.
    pub(crate) fn with_query(mut self, query: &impl Serialize) -> Result<Order, ClientError> {
        let document = serde_json::to_value(query).map_err(|why| bad("the query", &why))?;
        let Value::Object(members) = document else { return Ok(self) };
        self.query = members.into_iter().filter_map(|(name, value)| Some((name, plain(value)?))).collect();
        Ok(self)
    }

    pub(crate) fn with_body(mut self, document: &impl Serialize) -> Result<Order, ClientError> {
        self.body = Some(serde_json::to_string(document).map_err(|why| bad("the document", &why))?);
        Ok(self)
    }

    /// With a key, which must be plain text; keys of our own are.
    pub(crate) fn with_key(self, key: &str) -> Result<Order, ClientError> {
        let quoted = format!("\"{key}\"");
        header::read_idempotency_key(&quoted).map_err(|why| bad("the key", &why))?;
        self.with_header("the key", HeaderName::from_static(header::IDEMPOTENCY_KEY), &quoted)
    }

    pub(crate) fn with_own_key(self, key: Key) -> Result<Order, ClientError> {
        self.with_key(&key.to_string())
    }

    /// Only if it is still at this version; whichever it is where there is none.
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

/// On whose behalf, as headers.
pub(crate) fn behalf(caller: &Caller) -> HeaderMap {
    HeaderMap::from_iter([
        (HeaderName::from_static(header::USER), sendable(&header::name(&caller.user))),
        (HeaderName::from_static(header::ROLES), sendable(&header::names(&caller.roles))),
    ])
}

/// Names as the value of a header. They are written in visible characters only, so they can be sent. If ever not, the value is
/// empty, which servers refuse where it matters; without the header the call would be made for whoever sends it.
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
        Value::Null => None,
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}
