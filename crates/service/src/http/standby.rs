//! Routes of a stand-by: it answers no calls, and says which process is active.

use super::About;
use super::answer::{Refusal, out_of_calendar};
use crate::clock::Clock;
use crate::journal::Active;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use bookahead_api as api;
use bookahead_api::Code;
use bookahead_api::header::ACTIVE;

/// The routes of a stand-by. `active` is the process that is active, if it is known.
pub(crate) fn router(about: &About, clock: Clock, active: Option<&Active>) -> Router {
    let address = active.and_then(|active| active.address.clone());
    let why = match (active, &address) {
        (Some(_), Some(address)) => format!("this process is a stand-by; the active one is {address}"),
        (Some(active), None) => format!("this process is a stand-by; the active one is {}", active.holder),
        (None, _) => "this process is a stand-by, and cannot reach the database".to_owned(),
    };
    let health = health(about, clock, &why);
    let refusal = Refusal::new(Code::Unavailable, why);
    // Always set: it tells clients with several addresses to try the next one.
    let address = address.and_then(|address| HeaderValue::from_str(&address).ok());
    let address = address.unwrap_or(HeaderValue::from_static("unknown"));
    let refuse = move || {
        let mut response = refusal.clone().into_response();
        response.headers_mut().insert(ACTIVE, address.clone());
        std::future::ready(response)
    };
    Router::new().route("/v1/health", get(move || std::future::ready(health()))).fallback(refuse)
}

fn health(about: &About, clock: Clock, why: &str) -> impl Fn() -> Response + Clone + Send + 'static {
    let (about, why) = (about.clone(), why.to_owned());
    move || {
        let now = match clock.now().second().try_into() {
            Ok(now) => now,
            Err(why) => return out_of_calendar(why).into_response(),
        };
        let health = api::Health {
            status: api::Status::Standby,
            name: about.name.clone(),
            role: about.role,
            version: about.version.clone(),
            now,
            clock_speed: clock.speed(),
            journal_sequence: 0,
            problem: Some(why.clone()),
            batch: None,
            identity_provider: None,
        };
        (StatusCode::SERVICE_UNAVAILABLE, Json(health)).into_response()
    }
}
