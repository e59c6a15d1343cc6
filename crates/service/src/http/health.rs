//! Routes without authentication: health, metrics and the OpenAPI document.

use super::answer::{Refusal, out_of_calendar};
use super::figures::plain_text;
use super::{Shared, answer};
use crate::thread::Liveness;
use crate::time_of_day;
use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{ACCEPT, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_party::ClockState;
use std::sync::{Arc, LazyLock};

/// Health
///
/// Needs no authentication. The status is 503 if the service takes no calls. A batch system or identity provider
/// that does not answer is reported, but does not cause 503.
#[utoipa::path(
    get, path = "/v1/health", operation_id = "health", tag = "operation", security(()),
    responses(
        (status = 200, description = "The service takes calls", body = api::Health),
        (status = 503, description = "The service takes no calls", body = api::Health),
        (status = 500, description = "The clock shows a time outside of the calendar", body = api::Problem,
            content_type = "application/problem+json"),
    )
)]
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let clock = shared.party.clock();
    let state = clock.state();
    let problem = time_of_day::problem(state);
    let is_followed = matches!(state, ClockState::Followed | ClockState::Unconfirmed);
    let status = match shared.party.liveness() {
        // First: a service that stops takes no new calls, although its party is still alive.
        _ if shared.stop.is_said() => api::Status::Stopping,
        _ if !shared.party.lease().is_held() => api::Status::Failed,
        Liveness::Alive if !is_followed => api::Status::Failed,
        Liveness::Alive => api::Status::Ready,
        Liveness::Stuck | Liveness::Ended => api::Status::Failed,
    };
    let batch = shared.read(|queries, now| queries.batch_health(now));
    let health = api::Health {
        status,
        name: shared.about.name.clone(),
        role: shared.about.role,
        version: shared.about.version.clone(),
        now: clock.now().second().try_into().map_err(out_of_calendar)?,
        clock_speed: clock.speed(),
        journal_sequence: shared.party.durable(),
        problem,
        batch: batch.map(answer::batch_health),
        identity_provider: shared.authenticator.provider_health().map(answer::identity_provider_health),
    };
    let well = status == api::Status::Ready;
    let code = if well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    Ok((code, Json(health)).into_response())
}

/// Metrics
///
/// In the OpenMetrics text format, as read by Prometheus; in the older text format of Prometheus for a client that
/// accepts only text/plain. Needs no authentication, because no metric names a user.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "operation", security(()),
    responses((status = 200, description = "All metrics", content(
        (String = "application/openmetrics-text"),
        (String = "text/plain"),
    )))
)]
pub(super) async fn metrics(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let counts = shared.read(|queries, _| queries.counts());
    let text = shared.metrics.text(&counts, shared.party.durable(), shared.party.busy());
    let accepted = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let accepted: Vec<&str> = accepted.collect();
    let takes = |format: &str| accepted.iter().any(|value| value.contains(format));
    if takes("text/plain") && !takes("application/openmetrics-text") {
        let kind = "text/plain; version=0.0.4; charset=utf-8";
        return ([(CONTENT_TYPE, kind)], plain_text(&text)).into_response();
    }
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}

/// OpenAPI document
///
/// Describes all routes, in OpenAPI 3.1. Needs no authentication.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "operation", security(()),
    responses((status = 200, description = "The document", body = serde_json::Value, content_type = "application/json"))
)]
pub(super) async fn openapi() -> Response {
    // Made at the first request: a start does not wait for it.
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| super::openapi::text().into());
    ([(CONTENT_TYPE, "application/json")], TEXT.clone()).into_response()
}

/// API page
///
/// The OpenAPI document as a page for people. Needs no authentication.
#[utoipa::path(
    get, path = "/docs", operation_id = "docs", tag = "operation", security(()),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
pub(super) async fn docs() -> Response {
    static PAGE: LazyLock<Bytes> = LazyLock::new(|| super::pages::page(&super::openapi::document()).into());
    // The page needs only its own style. Should a text ever contain markup, nothing of it may run.
    let policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'";
    let headers = [(CONTENT_TYPE, "text/html; charset=utf-8"), (CONTENT_SECURITY_POLICY, policy)];
    (headers, PAGE.clone()).into_response()
}
