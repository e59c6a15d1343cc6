//! The body of a request as a document: JSON of bounded size that says what its schema allows and keeps within the
//! bounds of [`super::check`]. Whatever is wrong with it comes out as a problem that names the place.

use super::Shared;
use super::check::Checked;
use super::problem::Refusal;
use axum::Json;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use bookahead_api::Code;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// A document.
pub(super) struct Document<T>(pub(super) T);

/// A document all of whose fields have defaults: no body at all, or null, says the same as an empty one.
pub(super) struct OrNothing<T>(pub(super) T);

impl<T: DeserializeOwned + Checked> FromRequest<Arc<Shared>> for Document<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Document<T>, Refusal> {
        must_be_json(request.headers())?;
        let bytes = arrived(request, shared).await?;
        read(&bytes, shared).map(Document)
    }
}

impl<T: DeserializeOwned + Checked> FromRequest<Arc<Shared>> for OrNothing<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<OrNothing<T>, Refusal> {
        let said = must_be_json(request.headers());
        let bytes = arrived(request, shared).await?;
        // Blanks alone are neither nothing nor JSON.
        if bytes.is_empty() || bytes.trim_ascii() == b"null" {
            return read(b"{}", shared).map(OrNothing);
        }
        said?;
        read(&bytes, shared).map(OrNothing)
    }
}

/// `application/json`, or a type that is JSON underneath.
fn must_be_json(headers: &HeaderMap) -> Result<(), Refusal> {
    let given = headers.get(CONTENT_TYPE).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
    let essence =
        given.as_deref().and_then(|text| text.split(';').next()).unwrap_or("").trim().to_ascii_lowercase();
    let json =
        essence == "application/json" || (essence.starts_with("application/") && essence.ends_with("+json"));
    let wrong = || {
        let given = given.map_or_else(|| "not given".to_owned(), |given| format!("{given:?}"));
        let why = format!("the Content-Type is {given}; send a document as application/json");
        Refusal::new(Code::UnsupportedMediaType, why)
    };
    if json { Ok(()) } else { Err(wrong()) }
}

async fn arrived(request: Request, shared: &Arc<Shared>) -> Result<Bytes, Refusal> {
    // Whoever is slow to send it loses his connection ([`super::serve`]).
    let arrived = Bytes::from_request(request, shared).await;
    arrived.map_err(|rejection| broken(&rejection, shared.limits.most_body))
}

fn broken(rejection: &BytesRejection, most: usize) -> Refusal {
    if rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return Refusal::new(
            Code::TooLarge,
            format!("the body is larger than the {most} bytes that are taken"),
        );
    }
    Refusal::bad_request(format!("the body did not arrive whole: {}", rejection.body_text()))
}

fn read<T: DeserializeOwned + Checked>(bytes: &[u8], shared: &Shared) -> Result<T, Refusal> {
    // Else the values of its fields would do as well, without their names.
    if bytes.trim_ascii_start().starts_with(b"[") {
        return Err(Refusal::new(Code::BadJson, "the body is a list; send a JSON object"));
    }
    let read = Json::<T>::from_bytes(bytes);
    let Json(document) = read.map_err(|rejection| Refusal::new(Code::BadJson, rejection.body_text()))?;
    document.check(&shared.limits)?;
    Ok(document)
}
