//! Stands before every route that needs to know who calls: it finds out who that is, and turns away whoever asks too
//! often or comes when too many are inside. A handler behind it gets an [`Asking`].

use super::asking::Asking;
use super::audit::{self, Line};
use super::problem::{Refusal, ToldCode};
use super::trace::Traced;
use super::via::{Via, through};
use super::{Shared, server_clock};
use crate::security::Identity;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bookahead_api::Code;
use bookahead_party::Origin;
use std::sync::Arc;
use std::time::Instant;

/// Lets a request in, or not.
pub(super) async fn guard(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let (identity, via) = match admit(&shared, &request) {
        Ok(admitted) => admitted,
        Err(refusal) => {
            audit::turned_away(request.method(), route(&request), &refusal);
            return refusal.into_response();
        }
    };
    let Ok(_place) = shared.places.try_acquire() else {
        shared.metrics.turned_away("concurrent");
        let why =
            format!("{} requests are worked on already; ask again in a moment", shared.limits.concurrent);
        return Refusal::new(Code::Unavailable, why).into_response();
    };
    let line = changes(&request).then(|| Arc::new(Line::new(&identity, request.method(), route(&request))));
    let trace = request.extensions().get::<Traced>().cloned().unwrap_or_default().trace;
    request.extensions_mut().insert(Asking::new(identity, Origin { trace, via }, line.clone()));
    let response = next.run(request).await;
    if let Some(line) = line {
        let told = response.extensions().get::<ToldCode>().map(|told| told.0.as_str());
        line.note_outcome(told.unwrap_or(response.status().as_str()));
    }
    response
}

/// Who calls, and through whom, if he may call now.
fn admit(shared: &Shared, request: &Request) -> Result<(Identity, Via), Refusal> {
    let identity =
        shared.gate.identify(request.headers(), super::serve::certificate(request.extensions()))?;
    shared.rates.take(&identity.user, Instant::now()).map_err(|wait| {
        shared.metrics.turned_away("rate");
        let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
        let why = format!(
            "{} asks more often than {} times in a second; wait for {seconds} s",
            identity.user, shared.limits.requests_per_second
        );
        Refusal::new(Code::TooManyRequests, why).retry_after(seconds)
    })?;
    server_clock::check(shared.party.clock(), request.headers())?;
    let via = through(request.headers(), shared.about.identity.as_ref())?;
    Ok((identity, via))
}

/// Whether a request is to change something. A probe is a question, though it is posted.
fn changes(request: &Request) -> bool {
    !matches!(*request.method(), Method::GET | Method::HEAD) && route(request) != super::probes::PATH
}

fn route(request: &Request) -> &str {
    request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str)
}
