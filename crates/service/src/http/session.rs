//! Sessions of the web pages. A browser keeps the token of its user in a cookie that scripts cannot read; where there
//! is no authentication, the cookie has a name. The guard takes the cookie for the header that other clients send, so
//! that the rest of the service knows no sessions and keeps none. A request with a cookie that may change something
//! must have the header [`PAGE`], which pages of other origins cannot send.

use super::Shared;
use super::answer::{Refusal, written};
use super::listener::PeerAddress;
use super::openapi::{OfBody, Refused};
use super::request::{Document, Filters};
use super::requester::Requester;
use super::serve;
use crate::security::{Identity, Role, wall_seconds};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, COOKIE, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bookahead_api as api;
use bookahead_api::when::{BadWhen, Clock, When, zone};
use bookahead_api::{Code, header};
use bookahead_plan::Seconds;
use std::sync::Arc;

/// The token of a browser, or the name of its user.
const COOKIE_NAME: &str = "bookahead-session";

/// Header of the pages' own requests.
const PAGE: HeaderName = HeaderName::from_static("x-bookahead-page");

/// Longest cookie that browsers keep, with its name and attributes.
const LONGEST: usize = 4_096;

/// Puts the cookie in the place of the header that other clients send. A request that names its caller itself is left
/// as it is.
pub(super) fn apply(shared: &Shared, request: &mut Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let Some(value) = cookie(headers).map(str::to_owned) else { return Ok(()) };
    let is_open = shared.authenticator.is_open();
    let (own, name) = if is_open { (header::USER, "user") } else { (AUTHORIZATION.as_str(), "token") };
    if headers.contains_key(own) {
        return Ok(());
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) && !headers.contains_key(PAGE) {
        let why = "a request with the cookie of a session needs the header X-Bookahead-Page";
        return Err(Refusal::new(Code::Forbidden, why));
    }
    let bad = |_| Refusal::bad_request(format!("the cookie of the session is not a {name}; sign in again"));
    if is_open {
        let user = HeaderValue::from_str(&value).map_err(bad)?;
        // Without authentication any caller can have all roles; the name `operator` selects that one.
        let roles = if value == "operator" { "user, operator" } else { "user" };
        request.headers_mut().insert(header::USER, user);
        request.headers_mut().entry(header::ROLES).or_insert(HeaderValue::from_static(roles));
    } else {
        let mut token = HeaderValue::from_str(&format!("Bearer {value}")).map_err(bad)?;
        token.set_sensitive(true);
        request.headers_mut().insert(AUTHORIZATION, token);
    }
    Ok(())
}

/// The value of the session's cookie, if the browser sent one.
fn cookie(headers: &HeaderMap) -> Option<&str> {
    cookie_named(headers, COOKIE_NAME)
}

pub(super) fn cookie_named<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    let all = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == wanted && !value.is_empty()).map(|(_, value)| value)
}

/// The header that sets the cookie of a session; without a value it removes it.
pub(super) fn set(value: &str, secure: bool) -> Result<(HeaderName, HeaderValue), Refusal> {
    set_named(COOKIE_NAME, value, None, secure)
}

/// The header that sets a cookie; without a value it removes it. `Lax`, so that a link in a mail, or the return from an
/// identity provider, leads to a page where the user is signed in. Without an age the cookie ends with the browser.
pub(super) fn set_named(
    name: &str,
    value: &str,
    age: Option<i64>,
    secure: bool,
) -> Result<(HeaderName, HeaderValue), Refusal> {
    let secure = if secure { "; Secure" } else { "" };
    let age = if value.is_empty() { Some(0) } else { age };
    let age = age.map(|age| format!("; Max-Age={age}")).unwrap_or_default();
    let text = format!("{name}={value}; HttpOnly; SameSite=Lax; Path=/{age}{secure}");
    if text.len() > LONGEST {
        return Err(Refusal::bad_request("the token is too long for a cookie"));
    }
    let mut header = HeaderValue::from_str(&text)
        .map_err(|_| Refusal::bad_request("the token has a character that none has"))?;
    header.set_sensitive(true);
    Ok((SET_COOKIE, header))
}

/// The caller of a page, if it is known.
pub(super) struct PageUser {
    pub(super) identity: Option<Identity>,
    /// Whether the browser's cookie is not what identifies it, but a proxy or an account: it cannot sign out.
    by_other_means: bool,
}

impl Shared {
    pub(super) async fn session_user(&self, request: &mut Request) -> PageUser {
        let peer = serve::peer(request.extensions());
        let by_account = peer.is_some_and(|peer| matches!(peer.address, PeerAddress::Account(_)));
        let is_open = self.authenticator.is_open();
        let own = if is_open { header::USER } else { AUTHORIZATION.as_str() };
        let by_other_means = by_account || request.headers().contains_key(own);
        let known = apply(self, request).is_ok()
            && (by_account || !is_open || request.headers().contains_key(header::USER));
        let identity = if known { self.identify(peer, request.headers()).await.ok() } else { None };
        PageUser { identity, by_other_means }
    }

    /// The session of a page. A user who is known by other means cannot sign in another way.
    pub(super) fn session_of(&self, user: &PageUser) -> api::Session {
        let session = self.session(user.identity.as_ref());
        if !user.by_other_means {
            return session;
        }
        let sign_in = api::SignInWays { token: false, oidc: false, choose_user: false };
        api::Session { sign_in, ..session }
    }

    fn session(&self, user: Option<&Identity>) -> api::Session {
        let is_open = self.authenticator.is_open();
        let user = user.map(|identity| api::SessionUser {
            name: identity.user.clone(),
            operator: identity.roles.contains(&Role::Operator),
        });
        let sign_in = api::SignInWays {
            token: !is_open,
            oidc: self.authenticator.sign_in().is_some(),
            choose_user: is_open,
        };
        api::Session { user, sign_in }
    }
}

/// Show the session
///
/// Who is signed in with this browser, and how to sign in. Needs no authentication.
#[utoipa::path(
    get, path = "/v1/session", operation_id = "show_session", tag = "sessions", security(()),
    responses((status = 200, description = "The session", body = api::Session))
)]
pub(super) async fn show(
    State(shared): State<Arc<Shared>>,
    mut request: Request,
) -> Result<Response, Refusal> {
    let user = shared.session_user(&mut request).await;
    written(&shared.session_of(&user))
}

/// Sign in
///
/// Sets a cookie with the token, which scripts cannot read. Where there is no authentication, with the name of a user.
/// For web pages; other clients send the token with each request.
#[utoipa::path(
    post, path = "/v1/session", operation_id = "sign_in", tag = "sessions", security(()),
    request_body = api::SignIn,
    responses((status = 200, description = "The session", body = api::Session), Refused, OfBody)
)]
pub(super) async fn sign_in(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    Document(with): Document<api::SignIn>,
) -> Result<Response, Refusal> {
    let is_open = shared.authenticator.is_open();
    let value = match (with.token, with.user) {
        (Some(token), None) if !is_open => token.trim().to_owned(),
        (None, Some(user)) if is_open => user.to_string(),
        _ if is_open => {
            return Err(Refusal::bad_request("this service has no authentication; send user only"));
        }
        _ => return Err(Refusal::bad_request("send token only")),
    };
    if value.is_empty() || value.contains([';', ',', ' ', '"']) {
        return Err(Refusal::bad_request("that is neither a token nor a name; paste it again"));
    }
    let mut request = Request::new(axum::body::Body::empty());
    *request.headers_mut() = headers;
    request.headers_mut().remove(AUTHORIZATION);
    let pair = format!("{COOKIE_NAME}={value}");
    let pair = HeaderValue::from_str(&pair)
        .map_err(|_| Refusal::bad_request("that is neither a token nor a name"))?;
    request.headers_mut().insert(COOKIE, pair);
    apply(&shared, &mut request)?;
    let identity = shared.identify(None, request.headers()).await?;
    let mut response = written(&shared.session(Some(&identity)))?;
    let (name, cookie) = set(&value, is_secure(request.headers()))?;
    response.headers_mut().insert(name, cookie);
    Ok(response)
}

/// Sign out
///
/// Removes the cookie.
#[utoipa::path(
    delete, path = "/v1/session", operation_id = "sign_out", tag = "sessions", security(()),
    responses((status = 200, description = "The session", body = api::Session))
)]
pub(super) async fn sign_out(
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let mut response = written(&shared.session(None))?;
    let (name, cookie) = set("", is_secure(&headers))?;
    response.headers_mut().insert(name, cookie);
    Ok(response)
}

/// Sign out everywhere
///
/// Ends all sessions and tokens of the caller at this service that were issued up to now; certificates and accounts on
/// a Unix socket are not affected. Operators can sign out another user.
#[utoipa::path(
    delete, path = "/v1/sessions", operation_id = "sign_out_everywhere", tag = "sessions",
    params(api::OfUser),
    responses((status = 204, description = "All are ended"), Refused)
)]
pub(super) async fn sign_out_everywhere(
    State(shared): State<Arc<Shared>>,
    requester: Requester,
    Filters(of): Filters<api::OfUser>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    if shared.authenticator.is_open() {
        return Err(Refusal::bad_request("this service has no authentication, so there is nothing to end"));
    }
    let user = requester.manages(of.user)?;
    let is_own = user == *requester.user();
    shared.change_lists(move |lists| lists.sign_out(&user, wall_seconds())).await?;
    let mut response = StatusCode::NO_CONTENT.into_response();
    if is_own {
        let (name, cookie) = set("", is_secure(&headers))?;
        response.headers_mut().insert(name, cookie);
    }
    Ok(response)
}

/// Read a time
///
/// Reads a text as a time or a length of time, as on the command line: `tomorrow 9am`, `in 2 hours`, `2h30m`. Relative
/// times are from the clock of the service.
#[utoipa::path(
    post, path = "/v1/times", operation_id = "read_time", tag = "sessions", security(()),
    request_body = api::TypedText,
    responses((status = 200, description = "What it means", body = api::TypedValue), Refused, OfBody)
)]
pub(super) async fn times(
    State(shared): State<Arc<Shared>>,
    Document(typed): Document<api::TypedText>,
) -> Result<Response, Refusal> {
    let unreadable = |why: &dyn ToString| Refusal::new(Code::Malformed, why.to_string());
    if typed.kind == api::TypedKind::Length {
        let Seconds(seconds) = api::whole_seconds(&typed.text).map_err(|why| unreadable(&why))?;
        return written(&api::TypedValue { time: None, seconds: Some(seconds) });
    }
    let name = typed.zone.as_deref().unwrap_or("UTC");
    let zone = zone(name).ok_or_else(|| unreadable(&format!("unknown time zone '{name}'")))?;
    let when: When = typed.text.parse().map_err(|why: BadWhen| unreadable(&why))?;
    // A clock beyond the calendar of people has no relative times.
    let now = jiff::Timestamp::from_second(shared.party.clock().now().second().0).unwrap_or_default();
    let time = when.resolve(&Clock { now, zone }).map_err(|why| unreadable(&why))?;
    written(&api::TypedValue { time: api::Timestamp::try_from(time).ok(), seconds: None })
}

/// Whether the browser speaks TLS, to this service or to a proxy in front of it. Its origin tells: a false one harms
/// only its sender.
fn is_secure(headers: &HeaderMap) -> bool {
    let origin = headers.get(axum::http::header::ORIGIN).and_then(|origin| origin.to_str().ok());
    origin.is_some_and(|origin| origin.starts_with("https://"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cookie_is_found_among_others() {
        let mut headers = HeaderMap::new();
        headers.append(COOKIE, "a=b; bookahead-session=abc.def; c=d".parse().unwrap());
        assert_eq!(cookie(&headers), Some("abc.def"));
        headers.insert(COOKIE, "xbookahead-session=abc; bookahead-session=".parse().unwrap());
        assert_eq!(cookie(&headers), None);
    }

    #[test]
    fn scripts_and_other_sites_do_not_get_the_cookie() {
        let (_, header) = set("abc", true).unwrap();
        let text = header.to_str().unwrap();
        assert_eq!(text, "bookahead-session=abc; HttpOnly; SameSite=Lax; Path=/; Secure");
        assert!(set("", false).unwrap().1.to_str().unwrap().contains("Max-Age=0"));
        assert!(set(&"x".repeat(5_000), false).is_err());
    }
}
