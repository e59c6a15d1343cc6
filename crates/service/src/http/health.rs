//! What anybody may ask without saying who he is: whether the party is well, what it counts, and what its routes are.

use super::answer::{Refusal, out_of_calendar};
use super::{Shared, answer};
use crate::thread::Liveness;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use std::sync::Arc;

/// How is it?
///
/// Needs no authentication. The status is 503 where no calls are taken; a batch system or identity provider that
/// does not answer is told, and is no reason for that.
#[utoipa::path(
    get, path = "/v1/health", operation_id = "health", tag = "operation", security(()),
    responses(
        (status = 200, description = "It takes calls", body = api::Health),
        (status = 503, description = "It takes none", body = api::Health),
        (status = 500, description = "Its clock shows a time that has no date", body = api::Problem,
            content_type = "application/problem+json"),
    )
)]
pub(super) async fn health(State(shared): State<Arc<Shared>>) -> Result<Response, Refusal> {
    let clock = shared.party.clock();
    let problem = shared.party.clock_problem();
    let status = match shared.party.liveness() {
        _ if shared.stop.is_said() => api::Status::Stopping,
        Liveness::Alive if problem.is_some() => api::Status::Failed,
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

/// What it counts
///
/// In the text format of OpenMetrics, which Prometheus reads. Needs no authentication: it names no user.
#[utoipa::path(
    get, path = "/metrics", operation_id = "metrics", tag = "operation", security(()),
    responses((status = 200, description = "All counts", body = String, content_type = "application/openmetrics-text"))
)]
pub(super) async fn metrics(State(shared): State<Arc<Shared>>) -> Response {
    let counts = shared.read(|queries, _| queries.counts());
    let text = shared.metrics.text(&counts, shared.party.durable(), shared.party.busy());
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text).into_response()
}

/// This document
///
/// What all routes take and answer, as OpenAPI 3.1. Needs no authentication.
#[utoipa::path(
    get, path = "/openapi.json", operation_id = "openapi", tag = "operation", security(()),
    responses((status = 200, description = "The document", body = serde_json::Value, content_type = "application/json"))
)]
pub(super) async fn openapi(State(shared): State<Arc<Shared>>) -> Response {
    ([(CONTENT_TYPE, "application/json")], shared.openapi.clone()).into_response()
}
