//! Stands around every request: finds the trace that it belongs to, counts and times the answer, and tells the clock in it.

use super::trace::Traced;
use super::{Shared, server_clock};
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::Instant;
use tracing::Instrument;

/// Lets a request through, and counts it.
pub(super) async fn observe(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = word(request.method());
    // Paths that no route has are not told apart: there is no end of them.
    let route =
        request.extensions().get::<MatchedPath>().map_or("none".into(), |path| path.as_str().to_owned());
    let traced = Traced::of(request.headers());
    let span = tracing::info_span!("request", method, route, trace = traced.id());
    request.extensions_mut().insert(traced);
    let mut response = next.run(request).instrument(span).await;
    shared.metrics.answered(&route, method, response.status().as_u16(), began.elapsed());
    server_clock::tell(shared.party.clock(), response.headers_mut());
    response
}

/// Anybody can make up methods; those that are known are told apart.
fn word(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
