//! A refusal on its way out: a problem document with the headers that go with its status. Everything that is not
//! served comes out here, whether the party, the gate, an extractor or the router refuses it.

use crate::security::CHALLENGE;
use crate::thread::NoReply;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bookahead_api::problem::MEDIA_TYPE;
use bookahead_api::{Code, Problem};
use bookahead_protocol as protocol;

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    problem: Box<Problem>,
    /// In so many seconds it is worth another try.
    retry_after: Option<u64>,
}

/// The code of the problem in a response, for those who log and count.
#[derive(Debug, Clone)]
pub(super) struct ToldCode(pub(super) String);

impl Refusal {
    /// With a code, and what is the matter.
    pub(super) fn new(code: Code, detail: impl Into<String>) -> Refusal {
        Problem::new(code, detail).into()
    }

    /// Something is not as it should be in the request.
    pub(super) fn bad_request(detail: impl Into<String>) -> Refusal {
        Refusal::new(Code::BadRequest, detail)
    }

    /// Something is not as it should be in the server.
    pub(super) fn internal(detail: impl Into<String>) -> Refusal {
        Refusal::new(Code::Internal, detail)
    }

    /// Worth another try in so many seconds.
    pub(super) fn retry_after(self, seconds: u64) -> Refusal {
        Refusal { retry_after: Some(seconds), ..self }
    }

    /// Its code.
    pub(super) fn code(&self) -> &str {
        &self.problem.code
    }

    fn status(&self) -> StatusCode {
        StatusCode::from_u16(self.problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Refusal {
        // Whatever is unavailable now may be available in a moment.
        let soon = matches!(problem.status, 429 | 503) || problem.code == Code::KeyInFlight.word();
        Refusal { problem: Box::new(problem), retry_after: soon.then_some(1) }
    }
}

impl From<protocol::Problem> for Refusal {
    fn from(problem: protocol::Problem) -> Refusal {
        Problem::from(problem).into()
    }
}

impl From<NoReply> for Refusal {
    fn from(why: NoReply) -> Refusal {
        match why {
            NoReply::Full | NoReply::Gone => Refusal::new(Code::Unavailable, why.to_string()),
            NoReply::Late => Refusal::new(Code::Late, why.to_string()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.status();
        let document = serde_json::to_vec(&self.problem).unwrap_or_default();
        let mut response = (status, [(CONTENT_TYPE, MEDIA_TYPE)], document).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, seconds.into());
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(CHALLENGE));
        }
        response.extensions_mut().insert(ToldCode(self.problem.code));
        response
    }
}

/// No route has that path.
pub(super) async fn nothing_here(uri: Uri) -> Refusal {
    let path: String = uri.path().chars().take(200).collect();
    Refusal::new(Code::NotFound, format!("there is nothing at {path}; /openapi.json lists all that there is"))
}

/// A route has that path, but not that method. The router adds `Allow`.
pub(super) async fn not_that_method(method: Method) -> Refusal {
    let method: String = method.as_str().chars().take(32).collect();
    Refusal::new(
        Code::MethodNotAllowed,
        format!("{method} cannot be used here; use a method that Allow names"),
    )
}
