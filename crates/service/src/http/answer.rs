//! Answers of the party as responses. A reservation carries an entity tag that begins with its version, so that a
//! change can say what it was decided upon, and ends with a digest of the document, so that nobody takes an old state
//! for the new one.

use super::documents;
use super::problem::Refusal;
use axum::http::header::{CONTENT_TYPE, ETAG, LOCATION};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_protocol::{Answer, Millis, Reservation};
use ring::digest::{SHA256, digest};
use serde::Serialize;

/// A reservation, ready to be sent.
pub(super) struct Written {
    /// What identifies it in this very state.
    pub(super) tag: String,
    location: String,
    document: Vec<u8>,
}

impl Written {
    /// As its owner may see it.
    pub(super) fn new(reservation: Reservation) -> Result<Written, Refusal> {
        let location = format!("/v1/reservations/{}", reservation.id);
        let version = reservation.version;
        let document = api::Reservation::try_from(reservation).map_err(out_of_calendar)?;
        let document = json(&document)?;
        let digest = digest(&SHA256, &document);
        let digest: String = digest.as_ref().iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        Ok(Written { tag: format!("\"{version}-{digest}\""), location, document })
    }

    /// As it is.
    pub(super) fn shown(self) -> Response {
        let mut response = document(StatusCode::OK, self.document);
        set(&mut response, ETAG, &self.tag);
        response
    }

    /// As something new.
    pub(super) fn created(self) -> Response {
        let location = self.location.clone();
        let mut response = self.shown();
        *response.status_mut() = StatusCode::CREATED;
        set(&mut response, LOCATION, &location);
        response
    }

    /// That it is still as it was.
    pub(super) fn not_modified(&self) -> Response {
        let mut response = StatusCode::NOT_MODIFIED.into_response();
        set(&mut response, ETAG, &self.tag);
        response
    }
}

/// The reservation that an answer is.
pub(super) fn reservation(answer: Answer) -> Result<Reservation, Refusal> {
    match answer {
        Answer::Reservation(reservation) => Ok(reservation),
        Answer::Problem(problem) => Err((*problem).into()),
        Answer::Offers(_) => Err(Refusal::internal("the party answered with offers; this is a defect")),
    }
}

/// The offers that an answer is, with the age of the look at the batch system that they rely on.
pub(super) fn offers(answer: Answer, look_age: Option<Millis>) -> Result<Response, Refusal> {
    match answer {
        Answer::Offers(offers) => {
            let offers = api::Offers::try_from(offers).map_err(out_of_calendar)?;
            written(&api::Offers { looked_seconds_ago: look_age.map(documents::seconds), ..offers })
        }
        Answer::Problem(problem) => Err((*problem).into()),
        Answer::Reservation(_) => {
            Err(Refusal::internal("the party answered with a reservation; this is a defect"))
        }
    }
}

/// A document as it is.
pub(super) fn written(value: &impl Serialize) -> Result<Response, Refusal> {
    Ok(document(StatusCode::OK, json(value)?))
}

/// A new thing at a place.
pub(super) fn created(value: &impl Serialize, location: &str) -> Result<Response, Refusal> {
    let mut response = document(StatusCode::CREATED, json(value)?);
    set(&mut response, LOCATION, location);
    Ok(response)
}

/// What cannot be written as a date cannot be told.
pub(super) fn out_of_calendar(why: api::OutOfCalendar) -> Refusal {
    Refusal::internal(why.to_string())
}

fn json(value: &impl Serialize) -> Result<Vec<u8>, Refusal> {
    serde_json::to_vec(value).map_err(|why| Refusal::internal(format!("the answer cannot be written: {why}")))
}

fn document(status: StatusCode, document: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], document).into_response()
}

fn set(response: &mut Response, name: axum::http::HeaderName, value: &str) {
    // Tags and locations are made of visible characters.
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
