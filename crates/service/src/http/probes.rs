//! Asking what could be had.

use super::Shared;
use super::answer;
use super::asking::Asking;
use super::body::Document;
use super::openapi::{OfBody, OfRoom, Refused};
use super::problem::Refusal;
use axum::extract::State;
use axum::response::Response;
use bookahead_api as api;
use std::sync::Arc;

/// Where. Though it is posted, it changes nothing.
pub(super) const PATH: &str = "/v1/probes";

/// What could be had?
///
/// Answers with offers, the best first. Nothing is held by it: reserve what suits. A site answers for one part at a
/// time, a broker for several together.
#[utoipa::path(
    post, path = "/v1/probes", operation_id = "probe", tag = "reservations",
    request_body = api::Probe,
    responses((status = 200, description = "What could be had", body = api::Offers), Refused, OfBody, OfRoom)
)]
pub(super) async fn probe(
    State(shared): State<Arc<Shared>>,
    asking: Asking,
    Document(probe): Document<api::Probe>,
) -> Result<Response, Refusal> {
    let (answer, look_age) = shared.probe(&asking, probe.into()).await?;
    answer::offers(answer, look_age)
}
