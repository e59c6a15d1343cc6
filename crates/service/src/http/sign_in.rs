//! Routes of a browser whose user signs in at the identity provider: there, and back. A fault leads back to the pages,
//! which say what to do; the log says why.

use super::Shared;
use super::answer::Refusal;
use super::session::{cookie_named, set, set_named};
use crate::security::sign_in::{Returned, SignIn, SignInFault, TIME_TO_SIGN_IN};
use crate::security::wall_seconds;
use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bookahead_api::Code;
use serde::Deserialize;
use std::sync::Arc;

/// What the browser brings back from the provider.
const COOKIE_NAME: &str = "bookahead-sign-in";

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/sign-in", get(begin)).route("/sign-in/done", get(done))
}

#[derive(Default, Deserialize)]
struct Begin {
    /// Place in the pages, to return to.
    #[serde(default)]
    back: String,
}

async fn begin(
    State(shared): State<Arc<Shared>>,
    query: Result<Query<Begin>, QueryRejection>,
) -> Result<Response, Refusal> {
    let sign_in = configured(&shared)?;
    // Without a place that can be read the user gets to the first page.
    let Begin { back } = query.map(|Query(query)| query).unwrap_or_default();
    match sign_in.begin(&back, wall_seconds()) {
        Ok(begun) => {
            let cookie = set_named(COOKIE_NAME, &begun.cookie, Some(TIME_TO_SIGN_IN), sign_in.is_secure())?;
            go_to(&begun.url, [cookie])
        }
        Err(fault) => failed(sign_in, &fault, &back),
    }
}

async fn done(
    State(shared): State<Arc<Shared>>,
    query: Result<Query<Returned>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let sign_in = configured(&shared)?;
    let returned = query.map(|Query(query)| query).unwrap_or_default();
    let cookie = cookie_named(&headers, COOKIE_NAME).unwrap_or_default();
    let now = wall_seconds();
    match sign_in.complete(returned, cookie, now).await {
        Ok(signed_in) => {
            let secure = sign_in.is_secure();
            // The code cannot be redeemed again, so the cookie of the sign-in is of no use any more.
            let cookies = [set(&signed_in.session, secure)?, set_named(COOKIE_NAME, "", None, secure)?];
            go_to(&format!("{}{}", sign_in.pages(), signed_in.back), cookies)
        }
        Err(fault) => failed(sign_in, &fault, &sign_in.place_to_return_to(cookie, now)),
    }
}

fn configured(shared: &Shared) -> Result<&SignIn, Refusal> {
    let none = || Refusal::new(Code::NotFound, "this service has no identity provider to sign in at");
    shared.authenticator.sign_in().ok_or_else(none)
}

/// Back to the pages, with a word that they know and the place that the user came from. The text of a fault may have words
/// of a provider or of an attacker.
fn failed(sign_in: &SignIn, fault: &SignInFault, back: &str) -> Result<Response, Refusal> {
    let event = "sign_in_failed";
    let word = match fault {
        SignInFault::Stale => "stale",
        SignInFault::Denied(_) => "denied",
        SignInFault::NoEndpoints | SignInFault::Busy | SignInFault::Provider(_) => "unavailable",
        SignInFault::Code { .. } | SignInFault::Token(_) | SignInFault::NoRandomness => "refused",
    };
    // Stale and denied sign-ins are the doing of users, and anyone can cause them.
    if matches!(word, "stale" | "denied") {
        tracing::debug!(event, "a user could not sign in: {fault}");
    } else {
        tracing::warn!(event, "a user could not sign in: {fault}");
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("fault", word);
    if let Some(place) = back.strip_prefix('#') {
        query.append_pair("back", place);
    }
    go_to(&format!("{}#/sign-in?{}", sign_in.pages(), query.finish()), [])
}

fn go_to<const N: usize>(url: &str, cookies: [(HeaderName, HeaderValue); N]) -> Result<Response, Refusal> {
    let url = HeaderValue::from_str(url).map_err(|_| Refusal::internal("the URL cannot be a header"))?;
    let mut response =
        (StatusCode::SEE_OTHER, [(LOCATION, url), (CACHE_CONTROL, HeaderValue::from_static("no-store"))])
            .into_response();
    for (name, value) in cookies {
        response.headers_mut().append(name, value);
    }
    Ok(response)
}
